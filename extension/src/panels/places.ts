/** Where something is: links to a node in the picture and to its line in the cell. */

import type { Graph } from '../model/graph';
import { button, element } from '../ui/dom';
import type { IHost } from './host';

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
