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

/** Copy as code, switch, remove: the same links in the form and in the list. */
export function overrideLinks(
  host: IHost,
  override: IOverride,
  live: boolean
): HTMLElement {
  const copy = button('link', 'Copy as code', () => {
    void host.copy(override.code).then(copied => {
      copy.textContent = copied ? 'Copied' : 'Copy as code';
      setTimeout(() => {
        copy.textContent = 'Copy as code';
      }, 1500);
    });
  });
  copy.title = override.code;
  const links = [copy];
  if (live) {
    links.push(
      button('link', override.enabled ? 'Switch off' : 'Switch on', () => {
        host.setOverrideEnabled(override, !override.enabled);
      }),
      button('link', 'Remove', () => {
        host.removeOverride(override);
      })
    );
  }
  return element('div', { class: 'workbench-Links' }, links);
}
