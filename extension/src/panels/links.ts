/** What can be done with an override, and its label: in the form and in the list. */

import { button, element } from '../ui/dom';
import type { IOverride } from '../wire/protocol';
import type { IHost } from './host';

/** The label of an override, as it stands beside the node in the picture. */
export function pill(override: IOverride, text = override.label): HTMLElement {
  return element('span', {
    class: `workbench-Pill ${override.enabled ? '' : 'workbench-mod-off'}`.trim(),
    text,
    title: override.rule
  });
}

const STRANGE =
  'Copied out of the saved picture, which anyone may have written. Read it before ' +
  'you run it:';

/**
 * Put code on the clipboard, and say that it is there. What no kernel has said is
 * shown as it was copied: nobody should run what was never seen.
 */
export function copyLink(
  host: IHost,
  text: string | (() => string),
  label: string
): HTMLButtonElement {
  const read = (): string => (typeof text === 'string' ? text : text());
  const shown = element('div', { class: 'workbench-Array workbench-Copied' });
  const copy = button('link', label, () => {
    const code = read();
    if (host.connection === null) {
      shown.replaceChildren(
        element('div', { class: 'workbench-Quiet', text: STRANGE }),
        element('pre', { text: code })
      );
      copy.parentElement?.after(shown);
    } else {
      shown.remove();
    }
    void host.copy(code).then(copied => {
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
