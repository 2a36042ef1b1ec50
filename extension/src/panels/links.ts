/** Links that panels share: to code, to what overrides do, to nodes and their lines. */

import type { Graph } from '../model/graph';
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

// Where something is: links to a node in the picture and to its line in the cell.

/** Select a node, bring it into the middle, and light up a way through the graph. */
export function goTo(host: IHost, node: number, path: readonly number[] = []): void {
  host.state.selectAlone(node);
  if (path.length > 1) {
    host.state.showTrail(path);
  }
  host.centre(node);
}

export function nodeLink(
  host: IHost,
  graph: Graph,
  node: number,
  path: readonly number[] = []
): HTMLButtonElement {
  const label = graph.label(node);
  return button(
    'link',
    label,
    () => {
      goTo(host, node, path);
    },
    {
      class: 'workbench-NodeLink',
      title: path.length > 1 ? 'Select it, and show the way from it' : 'Select it',
      attributes: { 'aria-label': `Select the node ${label}` }
    }
  );
}

/** The line that made a node, as a button where there is a cell to go to. */
export function sourceLine(
  host: IHost,
  graph: Graph,
  node: number
): HTMLElement | null {
  const place = graph.place(node);
  const line = graph.source(node).trim();
  if (place === '' && line === '') {
    return null;
  }
  const text = [
    element('span', { class: 'workbench-Place', text: place }),
    element('code', { text: line })
  ];
  if (!host.canReveal) {
    return element('div', { class: 'workbench-Source', title: line }, text);
  }
  return element(
    'button',
    {
      class: 'workbench-Source',
      title: `Go to this line: ${line}`,
      attributes: { type: 'button' },
      onClick: () => {
        host.reveal(node);
      }
    },
    text
  );
}
