/**
 * The graph as a tree of text, for screen readers and for the keyboard: scopes
 * that open and close, and in them one line for each node. It is hidden from
 * view until the keyboard is in it.
 */

import { IN_ONE_TASK } from '../layout/runner';
import type { Folding, ISteps } from '../model/folds';
import type { Graph } from '../model/graph';
import { type IVerdict, addVerdicts, verdictsOf } from '../model/verdicts';
import { Box, element } from '../ui/dom';
import { formatPlural } from '../ui/numbers';
import { alongLoopText, nodeSentence, verdictLines } from '../ui/words';
import type { IHost, Reason } from './host';

/** So many lines at most; beyond that, search and arrows in the picture remain. */
const LINES = 1000;

/** Milliseconds of quiet before the lines are written again. */
const QUIET = 500;

/** A line: a node, or a scope with what stands in it. */
interface ILine {
  node: number | null;
  scope: string | null;
  level: number;
}

export class GraphTree extends Box {
  constructor(
    private readonly _host: Pick<IHost, 'state' | 'centre' | 'focusGraph'>,
    label = 'Graph as a list; m marks a node for a derivative'
  ) {
    super(
      'workbench-Tree',
      element('div', {
        role: 'tree',
        // Its keys are its own: arrows walk the lines, not the notebook's cells.
        attributes: {
          'aria-label': label,
          'aria-multiselectable': 'true',
          'data-lm-suppress-shortcuts': ''
        }
      })
    );
    this.node.addEventListener('keydown', event => {
      this._onKey(event);
    });
    this.node.addEventListener('click', event => {
      const item = (event.target as HTMLElement).closest('[role=treeitem]');
      const at = item === null ? -1 : this._items.indexOf(item as HTMLElement);
      if (at >= 0) {
        this._enter(at);
      }
    });
  }

  refresh(reason: Reason): void {
    if (reason === 'hover') {
      return;
    }
    if (reason === 'selection') {
      this._showSelection();
      return;
    }
    const isNew = reason === 'graph';
    if (isNew && (this._host.state.graph?.count ?? 0) < IN_ONE_TASK) {
      this._write();
    } else {
      clearTimeout(this._timer);
      const wait = isNew ? 0 : QUIET;
      this._timer = setTimeout(() => {
        this._write();
      }, wait);
    }
  }

  override dispose(): void {
    clearTimeout(this._timer);
    super.dispose();
  }

  private _write(): void {
    clearTimeout(this._timer);
    const { graph, folding } = this._host.state;
    const inside = this.node.contains(document.activeElement);
    const before = this._lines.at(this._current);
    this._lines = graph === null ? [] : linesOf(graph, folding);
    this._scopes = graph === null ? new Map() : verdictsInScopes(graph);
    this._items = this._lines.map(line => this._item(graph!, line));
    this.node.replaceChildren(...this._items);
    if (graph !== null && this._lines.length === LINES) {
      this.node.append(
        element('div', {
          text: `and more: ${formatPlural(graph.count, 'node')} in all`
        })
      );
    }
    const same = this._lines.findIndex(
      line => line.node === before?.node && line.scope === before.scope
    );
    this._move(Math.max(same, 0), inside);
    this._showSelection();
  }

  private _item(graph: Graph, line: ILine): HTMLElement {
    const text =
      line.node === null
        ? this._scopeSentence(graph, line.scope ?? '')
        : nodeSentence(graph, line.node);
    const open = line.scope !== null && isOpen(this._host.state.folding, line.scope);
    return element('div', {
      text,
      role: 'treeitem',
      attributes: {
        tabindex: '-1',
        'aria-level': String(line.level),
        style: `padding-left: ${line.level}em`,
        ...(line.node === null ? {} : { 'data-node': String(line.node) }),
        ...(line.scope === null ? {} : { 'aria-expanded': String(open) })
      }
    });
  }

  private _scopeSentence(graph: Graph, scope: string): string {
    const count = graph.scopes.get(scope)?.nodes ?? 0;
    const verdict = this._scopes.get(scope);
    const { open } = this._host.state.folding;
    const loop = graph.loopIn(scope, open);
    // Of a loop in a loop only where one iteration around it is meant.
    const path = loop?.around?.loop.path;
    const isOne = path === undefined || open.has(path);
    const steps =
      loop === null || !isOne ? '' : alongLoopText(loopSteps(graph.iterationNorms(loop)));
    const at = open.get(scope);
    return [
      loop === null ? `scope ${scope}` : scope,
      ...(loop === null || at === undefined ? [] : [`step ${at} of ${loop.times} is open`]),
      formatPlural(count, 'node'),
      ...(steps === '' ? [] : [steps]),
      ...(verdict === undefined ? [] : verdictLines(verdict))
    ].join(', ');
  }

  private _showSelection(): void {
    const { selected, marked } = this._host.state;
    this._lines.forEach(({ node }, at) => {
      const chosen = node !== null && node === selected;
      const aside = node !== null && node === marked;
      this._items[at].setAttribute('aria-selected', String(chosen || aside));
      this._items[at].toggleAttribute('data-marked', aside);
      if (chosen && at !== this._current) {
        this._move(at, this.node.contains(document.activeElement));
      }
    });
  }

  private _move(to: number, focus: boolean): void {
    const at = Math.min(Math.max(to, 0), this._items.length - 1);
    if (at < 0) {
      return;
    }
    this._items.at(this._current)?.setAttribute('tabindex', '-1');
    this._current = at;
    this._items[at].tabIndex = 0;
    if (focus) {
      this._items[at].focus();
    }
  }

  /** Select the node, or open and close the scope. */
  private _enter(at: number): void {
    const { node, scope } = this._lines[at];
    this._move(at, true);
    if (node !== null) {
      this._host.state.select(node);
      this._host.centre(node);
    } else if (scope !== null) {
      this._host.state.toggleFold(scope);
      this._write();
    }
  }

  /** Put a node aside for the derivative between it and a second one, or take it back. */
  private _mark(node: number): void {
    const { state } = this._host;
    state.mark(state.marked === node ? null : node);
  }

  private _onKey(event: KeyboardEvent): void {
    const line = this._lines.at(this._current);
    if (line === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const open = line.scope !== null && isOpen(this._host.state.folding, line.scope);
    switch (event.key) {
      case 'ArrowDown':
        this._move(this._current + 1, true);
        break;
      case 'ArrowUp':
        this._move(this._current - 1, true);
        break;
      case 'Home':
        this._move(0, true);
        break;
      case 'End':
        this._move(this._items.length - 1, true);
        break;
      case 'ArrowRight':
      case 'ArrowLeft':
        if (line.scope !== null && open === (event.key === 'ArrowLeft')) {
          this._enter(this._current);
        }
        break;
      case 'Enter':
      case ' ':
        this._enter(this._current);
        break;
      case 'm':
        if (line.node === null) {
          return;
        }
        this._mark(line.node);
        break;
      case 'Escape':
        this._host.focusGraph();
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private _lines: ILine[] = [];
  private _items: HTMLElement[] = [];
  private _scopes: ReadonlyMap<string, IVerdict> = new Map();
  private _current = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** The gradient along an unrolled loop: at each step that has one. */
function loopSteps(norms: Float64Array): ISteps {
  const marks = [...norms.keys()].filter(step => !Number.isNaN(norms[step]));
  const finite = marks.map(step => (norms[step] === Infinity ? null : norms[step]));
  return { steps: norms.length, marks, norms: finite };
}

/** What is to be said of the nodes in each scope, those of its inner ones included. */
function verdictsInScopes(graph: Graph): Map<string, IVerdict> {
  const scopes = new Map<string, IVerdict>();
  for (const [node, verdict] of verdictsOf(graph)) {
    let scope = graph.fold(node);
    while (scope !== '') {
      const before = scopes.get(scope);
      scopes.set(scope, before === undefined ? verdict : addVerdicts(before, verdict));
      scope = graph.scopes.get(scope)?.parent ?? '';
    }
  }
  return scopes;
}

/** Whether what is in a scope is to be seen; of a loop it may be one iteration. */
function isOpen({ folded, open }: Folding, scope: string): boolean {
  return !folded.has(scope) || open.has(scope);
}

/** Whether a node stands in the iterations that are open of the loops around it. */
function isInOpen(graph: Graph, node: number, { open }: Folding): boolean {
  for (const [path, at] of open) {
    const place = graph.placeIn(node, path);
    if (place !== null && place.at !== at) {
      return false;
    }
  }
  return true;
}

/**
 * Nodes in the order of the program; a scope where its first node stands, with
 * all that it holds. What is folded is left out, and of a loop of which one iteration
 * is open all others.
 */
function linesOf(graph: Graph, folding: Folding): ILine[] {
  const inside = new Map<string, ILine[] | null>([['', []]]);
  /** The lines in a scope; null where one around it is folded, or it is itself. */
  const listOf = (scope: string): ILine[] | null => {
    const known = inside.get(scope);
    if (known !== undefined) {
      return known;
    }
    const around = listOf(graph.scopes.get(scope)?.parent ?? '');
    around?.push({ node: null, scope, level: scope.split('/').length });
    const list = around !== null && isOpen(folding, scope) ? [] : null;
    inside.set(scope, list);
    return list;
  };
  // Most nodes stand where the one before them does.
  let [scope, list] = ['', listOf('')];
  for (let node = 0; node < graph.count; node++) {
    if (folding.open.size > 0 && !isInOpen(graph, node, folding)) {
      continue;
    }
    if (graph.fold(node) !== scope) {
      scope = graph.fold(node);
      list = listOf(scope);
    }
    if (list !== null && list.length < LINES) {
      const level = scope === '' ? 1 : scope.split('/').length + 1;
      list.push({ node, scope: null, level });
    }
  }
  const lines: ILine[] = [];
  const waiting = (listOf('') ?? []).reverse();
  for (let line = waiting.pop(); line && lines.length < LINES; line = waiting.pop()) {
    lines.push(line);
    if (line.scope !== null) {
      waiting.push(...(inside.get(line.scope) ?? []).reverse());
    }
  }
  return lines;
}
