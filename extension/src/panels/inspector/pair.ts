/**
 * What two chosen nodes have to do with each other: a strip over the graph, with
 * the derivative of the later one by the earlier one behind a button; and the menu of
 * such derivatives for one node.
 */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { type IPair, reachedFrom, readBy } from '../../model/paths';
import { Keyed, button, element, icon } from '../../ui/dom';
import { derivativeText, entries, inForce } from '../../ui/words';
import type { IHost, Reason } from '../host';

/** Asks for the derivative of a pair; says why where there is none. */
export function showDerivative(host: IHost): void {
  const { graph, pair } = host.state;
  if (graph === null || pair === null) {
    host.say('Mark a node with m, then select a second one.');
    return;
  }
  const refusal = host.connection === null ? OFFLINE : refusalOf(graph, pair);
  if (refusal === null) {
    host.plot('jacobian', pair.of, [pair.wrt]);
  } else {
    host.say(refusal);
  }
}

/** Why there is no derivative between two nodes; null if there is one. */
function refusalOf(graph: Graph, { of, wrt, way }: IPair): string | null {
  if (way === null) {
    return (
      `Neither ${graph.label(of)} nor ${graph.label(wrt)} is computed from the ` +
      'other: there is no derivative between them.'
    );
  }
  for (const node of [of, wrt]) {
    if (!graph.isArray(node)) {
      return `${graph.label(node)} has several outputs: choose one of them.`;
    }
    if (!FLOATING.test(graph.dtype(node))) {
      return (
        `${graph.label(node)} is ${graph.dtype(node)}: only floating and complex ` +
        'numbers have derivatives.'
      );
    }
  }
  return null;
}

const OFFLINE = 'A saved picture has no derivatives: run the cell again.';

const FLOATING = /^(float|complex)/;

export class PairBar extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('div') });
    this.addClass('workbench-Pair');
    this.node.append(this._strip.node, this._said);
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph, marked, selected, pair } = this._host.state;
    if (graph === null || marked === null) {
      this._strip.node.hidden = true;
      this._strip.fill([], () => []);
      this._said.textContent = '';
      return;
    }
    const live = this._host.connection !== null;
    this._strip.node.hidden = false;
    const names = [marked, selected].map(node => node !== null && graph.label(node));
    if (pair === null) {
      this._strip.fill([marked, names], () => [
        text(`${graph.label(marked)} is marked`, 'workbench-PairTitle'),
        text('choose a second node', 'workbench-Quiet'),
        this._close()
      ]);
      this._say(
        `${graph.label(marked)} is marked. Select a second node for the derivative ` +
          'between the two; Escape lets go.'
      );
      return;
    }
    const refusal = refusalOf(graph, pair);
    const force = forceText(inForce(graph, pair));
    this._strip.fill([marked, selected, names, refusal, live, force], () =>
      refusal === null ? this._offer(graph, pair, live, force) : this._refuse(refusal)
    );
    this._say(
      refusal ??
        `${graph.label(pair.of)} is computed from ${graph.label(pair.wrt)}. ` +
          (force === '' ? '' : `${force}. `) +
          'Enter shows the derivative; Escape lets go.'
    );
  }

  private _offer(
    graph: Graph,
    pair: IPair,
    live: boolean,
    force: string
  ): HTMLElement[] {
    const shown = [
      text(derivativeText(graph, pair), 'workbench-PairTitle'),
      text(sizeText(graph, pair), 'workbench-Quiet')
    ];
    if (force !== '') {
      const said = text(force.replace('Overrides in', 'in'), 'workbench-PairForce');
      said.title = force;
      shown.push(said);
    }
    if (live) {
      const ask = button(
        'primary',
        'Derivative',
        () => {
          showDerivative(this._host);
        },
        { title: 'A heat map of every entry by every entry (Enter)' }
      );
      shown.push(ask);
      const both = [pair.of, pair.wrt];
      const { output } = graph.header;
      if (!both.includes(output) && both.every(node => graph.hasGradient(node))) {
        shown.push(
          button(
            'link',
            'Hessian',
            () => {
              this._host.plot('hessian', null, [pair.wrt, pair.of]);
            },
            { title: `Second derivatives of ${graph.label(output)} by both nodes` }
          )
        );
      }
    }
    return [...shown, this._close()];
  }

  private _refuse(refusal: string): HTMLElement[] {
    return [text(refusal, 'workbench-PairRefusal'), this._close()];
  }

  private _close(): HTMLElement {
    const close = button('icon', 'Let go of the pair', () => {
      const { state } = this._host;
      state.selectAlone(state.selected);
      this._host.focusGraph();
    });
    close.append(icon('close'));
    return close;
  }

  /** Tell a screen reader, once for each choice. */
  private _say(words: string): void {
    if (this._said.textContent !== words) {
      this._said.textContent = words;
    }
  }

  private readonly _strip = new Keyed(
    element('div', {
      class: 'workbench-PairStrip',
      role: 'group',
      attributes: { 'aria-label': 'Two nodes' }
    })
  );
  private readonly _said = element('div', {
    class: 'workbench-Offstage',
    role: 'status'
  });
}

/** "Overrides in force: stop, clip ±1"; as the caption of the plot says it. */
function forceText(labels: readonly string[]): string {
  const more = labels.length > NAMED ? ` and ${labels.length - NAMED} more` : '';
  return labels.length === 0
    ? ''
    : `Overrides in force: ${labels.slice(0, NAMED).join(', ')}${more}`;
}

/** So many overrides are named. */
const NAMED = 6;

/** "8 × 6": how many entries the two have. */
function sizeText(graph: Graph, { of, wrt }: IPair): string {
  const [rows, columns] = [entries(graph.shape(of)), entries(graph.shape(wrt))];
  return rows === null || columns === null ? '' : `${rows} × ${columns}`;
}

function text(words: string, name: string): HTMLElement {
  return element('span', { class: name, text: words });
}

// The derivatives between the selected node and others, by name.

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
