/** The derivatives between the selected node and others, by name: a menu. */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { readBy, reachedFrom } from '../../model/paths';
import { element } from '../../ui/dom';
import { derivativeText } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { refusalOf, showDerivative } from './pair';

/** So many names are offered each way: those nearest to the node. */
const OFFERED = 100;

export class DerivativeMenu extends Widget {
  constructor(private readonly _host: IHost) {
    super();
    this.addClass('workbench-DerivativeMenu');
    this._choice.addEventListener('change', () => {
      const other = Number(this._choice.value);
      this._choice.selectedIndex = 0;
      this._host.state.mark(other);
      showDerivative(this._host);
    });
    this.node.append(this._choice);
    this.hide();
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view' || reason === 'values') {
      return;
    }
    const { graph, selected } = this._host.state;
    const live = this._host.connection !== null;
    const node = live ? selected : null;
    if (graph === this._graph && node === this._node) {
      return;
    }
    this._graph = graph;
    this._node = node;
    const groups = graph === null || node === null ? [] : groupsOf(graph, node);
    this.setHidden(groups.length === 0);
    this._choice.replaceChildren(
      element('option', { text: 'Derivative with …', attributes: { value: '' } }),
      ...groups
    );
  }

  private readonly _choice = element('select', {
    class: 'workbench-Select',
    title: 'Or click a second node with shift, or mark this one with m',
    attributes: {
      'aria-label': 'Derivative between this node and another',
      'data-lm-suppress-shortcuts': 'true'
    }
  });
  private _graph: Graph | null = null;
  private _node: number | null = null;
}

/** Of this node by those that it is computed from, and of those computed from it. */
function groupsOf(graph: Graph, node: number): HTMLElement[] {
  const before = readBy(graph, node);
  const after = reachedFrom(graph, node);
  const earlier: number[] = [];
  for (let at = node - 1; at >= 0 && earlier.length < OFFERED; at--) {
    if (before[at] === 1 && isOffered(graph, node, at)) {
      earlier.push(at);
    }
  }
  const later: number[] = [];
  for (let at = node + 1; at < graph.count && later.length < OFFERED; at++) {
    if (after[at] === 1 && isOffered(graph, node, at)) {
      later.push(at);
    }
  }
  const label = graph.label(node);
  return [
    { title: `of ${label} by`, nodes: earlier },
    { title: `by ${label} of`, nodes: later }
  ]
    .filter(({ nodes }) => nodes.length > 0)
    .map(({ title, nodes }) =>
      element(
        'optgroup',
        { attributes: { label: title } },
        nodes.map(other =>
          element('option', {
            text: derivativeText(graph, {
              of: Math.max(node, other),
              wrt: Math.min(node, other)
            }),
            attributes: { value: String(other) }
          })
        )
      )
    );
}

/** Whether a node has a name to be chosen by, and a derivative with another. */
function isOffered(graph: Graph, node: number, other: number): boolean {
  const named = graph.name(other) !== '' || other === graph.header.output;
  const constant = graph.kind(other) === 'constant';
  const one = { of: node, wrt: other, way: NO_WAY };
  return named && !constant && refusalOf(graph, one) === null;
}

/** It is known already that there is one: nothing looks at it. */
const NO_WAY = new Uint8Array(0);
