/** What can be done with an override, and its label: in the form and in the list. */

import type { IOverride } from '../protocol';
import { button, element } from './dom';
import type { IHost } from './host';

/** The label of an override, as it stands beside the node in the picture. */
export function pill(override: IOverride, text = override.label): HTMLElement {
  return element('span', {
    class: `workbench-Pill ${override.enabled ? '' : 'workbench-mod-off'}`.trim(),
    text,
    title: override.rule
  });
}

/** Put a text on the clipboard, and say that it is there. */
export function copyLink(
  host: IHost,
  text: string | (() => string),
  label: string
): HTMLButtonElement {
  const read = (): string => (typeof text === 'string' ? text : text());
  const copy = button('link', label, () => {
    void host.copy(read()).then(copied => {
      copy.textContent = copied ? 'Copied' : label;
      setTimeout(() => {
        copy.textContent = label;
      }, 1500);
    });
  });
  copy.title = typeof text === 'string' ? text : '';
  return copy;
}

/** Copy as code, switch, remove: the same links in the form and in the list. */
export function overrideLinks(
  host: IHost,
  override: IOverride,
  live: boolean
): HTMLElement {
  const links = [copyLink(host, override.code, 'Copy as code')];
  if (live) {
    links.push(
      button('link', override.enabled ? 'Switch off' : 'Switch on', () => {
        host.asking.enable(override, !override.enabled);
      }),
      button('link', 'Remove', () => {
        host.asking.remove(override);
      })
    );
  }
  return element('div', { class: 'workbench-Links' }, links);
}
