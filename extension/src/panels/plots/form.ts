/** What to differentiate, and by what: the form at the head of the drawer. */

import type { Graph } from '../../model/graph';
import { button, element } from '../../ui/dom';
import { shapeText } from '../../ui/words';
import type { PlotKind } from '../../wire/protocol';
import type { IHost } from '../host';

/** So many nodes are offered to choose from. */
const OFFERED = 200;

/** What the form offers; the other kinds are views of these. */
const KINDS: readonly { value: PlotKind; label: string }[] = [
  { value: 'jacobian', label: 'Jacobian' },
  { value: 'hessian', label: 'Hessian' },
  { value: 'check', label: 'Gradient check' }
];

export class PlotForm {
  readonly node: HTMLFormElement;

  constructor(private readonly _host: IHost) {
    this._kind.addEventListener('change', () => {
      this._show();
    });
    this.node = element('form', { class: 'workbench-PlotForm' }, [
      this._kind,
      this._ofLabel,
      this._byLabel,
      this._submit
    ]);
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      this._host.plot(
        this._kind.value as PlotKind,
        this._kind.value === 'jacobian' ? Number(this._of.value) : null,
        this._by.value === '' ? [] : [Number(this._by.value)]
      );
    });
  }

  /** Show what was asked for, as far as the form has it. */
  choose(kind: PlotKind, of: number | null, wrt: readonly number[]): void {
    if (KINDS.some(({ value }) => value === kind)) {
      this._kind.value = kind;
    }
    this._asked = [of, ...wrt].filter(node => node !== null);
    this.fill();
    if (of !== null) {
      this._of.value = String(of);
    }
    if (wrt.length < 2) {
      this._by.value = wrt.map(String).join();
    }
  }

  /** Offer the nodes that there are; keeps the choice if it is still there. */
  fill(): void {
    const { graph } = this._host.state;
    const live = this._host.connection !== null;
    this._show();
    this._submit.disabled = !live || graph === null;
    if (graph === null) {
      return;
    }
    const { output, wrt } = graph.header;
    const { pair } = this._host.state;
    const selected = this._selected(graph);
    const wanted = new Set(this._asked);
    if (selected !== null) {
      wanted.add(selected);
    }
    const nodes = offered(graph, wanted);
    const all = wrt.map(node => graph.label(node)).join(', ');
    fill(this._of, [
      ...nodes
        .filter(node => graph.kind(node) === 'op')
        .map(node => option(graph, node))
    ]);
    fill(this._by, [
      { value: '', label: `all (${all})` },
      ...nodes
        .filter(node => wanted.has(node) || graph.hasGradient(node))
        .filter(node => node !== output)
        .map(node => option(graph, node))
    ]);
    if (pair !== null && pair.way !== null) {
      this._of.value = String(pair.of);
      this._by.value = String(pair.wrt);
    } else if (selected !== null && graph.kind(selected) === 'op') {
      this._of.value = String(selected);
    } else if (selected !== null && graph.hasGradient(selected)) {
      this._of.value = String(output);
      this._by.value = String(selected);
    } else if (this._of.value === '') {
      this._of.value = String(output);
    }
  }

  /** The selected node, if a derivative can be of it or by it: one array. */
  private _selected(graph: Graph): number | null {
    const { selected } = this._host.state;
    return selected !== null && graph.isArray(selected) ? selected : null;
  }

  private _show(): void {
    this._ofLabel.hidden = this._kind.value !== 'jacobian';
  }

  /** The nodes of what was asked for last: they can be chosen, named or not. */
  private _asked: number[] = [];
  private readonly _kind = select('Plot', KINDS);
  private readonly _of = select('of', []);
  private readonly _by = select('by', []);
  private readonly _ofLabel = element('label', {}, ['of ', this._of]);
  private readonly _byLabel = element('label', {}, ['by ', this._by]);
  private readonly _submit = button('primary', 'Draw', () => undefined, {
    attributes: { type: 'submit' }
  });
}

function select(
  label: string,
  options: readonly { value: string; label: string }[]
): HTMLSelectElement {
  const node = element('select', {
    class: 'workbench-Select',
    attributes: { 'aria-label': label, 'data-lm-suppress-shortcuts': 'true' }
  });
  fill(node, options);
  return node;
}

function fill(
  node: HTMLSelectElement,
  options: readonly { value: string; label: string }[]
): void {
  const before = node.value;
  node.replaceChildren(
    ...options.map(({ value, label }) =>
      element('option', { text: label, attributes: { value } })
    )
  );
  if (options.some(({ value }) => value === before)) {
    node.value = before;
  }
}

function option(graph: Graph, node: number): { value: string; label: string } {
  return {
    value: String(node),
    label: `${graph.label(node)} · ${shapeText(graph.shape(node))}`
  };
}

/** Nodes that have a name, and those wanted; the last ones if there are many. */
function offered(graph: Graph, wanted: ReadonlySet<number>): number[] {
  const nodes: number[] = [];
  for (let node = graph.count - 1; node >= 0; node--) {
    const named =
      nodes.length < OFFERED &&
      graph.name(node) !== '' &&
      graph.kind(node) !== 'constant';
    const chosen = wanted.has(node) || node === graph.header.output;
    if ((named || chosen) && graph.isArray(node)) {
      nodes.push(node);
    }
  }
  return nodes.reverse();
}
