/**
 * What one view of a graph shows: the graph, and what the reader of the page
 * has selected, found, folded and stepped to. Selection and viewport belong to
 * the page; the graph belongs to the kernel. Nothing here knows the DOM.
 */

import { ISignal, Signal } from '@lumino/signaling';

import type { Graph } from './graph';

/** Which passes are drawn: the forward graph alone, or both. */
export type Stage = 'traced' | 'derivative';

/** What the colour of a tile or card means. */
export const COLOURINGS = ['gradient', 'value', 'change', 'none'] as const;
export type Colouring = (typeof COLOURINGS)[number];

/**
 * - `graph`: another graph; everything must be laid out and drawn again.
 * - `values`: the same nodes with other numbers, overrides or messages.
 * - `selection`, `hover`: those alone.
 * - `view`: stage, colouring, folding, search, step.
 */
export type Change = 'graph' | 'values' | 'selection' | 'hover' | 'view';

/** One step of the two sweeps: the node that it computes, and in which sweep. */
export interface IStep {
  sweep: 'forward' | 'backward';
  node: number;
  /** The place in its own sweep, from 1. */
  position: number;
  /** How many steps that sweep has. */
  count: number;
}

/** From this many nodes on, a graph is shown with its outer scopes folded. */
const FOLD_FROM = 600;

export class GraphState {
  get changed(): ISignal<GraphState, Change> {
    return this._changed;
  }

  get graph(): Graph | null {
    return this._graph;
  }

  get selected(): number | null {
    return this._selected;
  }

  get hovered(): number | null {
    return this._hovered;
  }

  /** The nodes that the search found, in the order of the program. */
  get matches(): ReadonlySet<number> {
    return this._matches;
  }

  get query(): string {
    return this._query;
  }

  get folded(): ReadonlySet<string> {
    return this._folded;
  }

  get stage(): Stage {
    return this._stage;
  }

  get colouring(): Colouring {
    return this._colouring;
  }

  /** Whether the view may move softly. */
  get animated(): boolean {
    return this._animated;
  }

  /** How many steps are done: of the forward sweep, then of the backward sweep. */
  get step(): number | null {
    return this._step;
  }

  /** The number of steps of both sweeps together. */
  get stepCount(): number {
    return this._forward.length + this._backward.length;
  }

  /** The step that was done last; null when all are shown, or none is done. */
  get current(): IStep | null {
    if (this._step === null || this._step === 0) {
      return null;
    }
    const forward = this._forward.length;
    const backward = this._backward.length;
    return this._step <= forward
      ? {
          sweep: 'forward',
          node: this._forward[this._step - 1],
          position: this._step,
          count: forward
        }
      : {
          sweep: 'backward',
          node: this._backward[this._step - forward - 1],
          position: this._step - forward,
          count: backward
        };
  }

  /** Whether the sweeps, as far as they are stepped, have computed the value. */
  hasValueNow(node: number): boolean {
    return this._step === null || this._step > this._forwardRank[node];
  }

  /** Whether the sweeps, as far as they are stepped, have computed the gradient. */
  hasGradientNow(node: number): boolean {
    if (this._step === null) {
      return true;
    }
    const rank = this._backwardRank[node];
    return rank >= 0 && this._step > this._forward.length + rank;
  }

  /** Show a graph; `change` is `values` if nodes and edges are those of before. */
  setGraph(graph: Graph | null, change: 'graph' | 'values' = 'graph'): void {
    const before = this._graph;
    this._graph = graph;
    if (graph === null) {
      this._selected = null;
      this._hovered = null;
      this._folded.clear();
    } else if (change === 'graph') {
      if (!sameNode(before, graph, this._selected)) {
        this._selected = null;
      }
      this._hovered = null;
      this._keepFolds(before, graph);
    }
    this._order();
    if (this._step !== null && (this.stepCount === 0 || this._step > this.stepCount)) {
      this._step = null;
    }
    this._matches = this._find(this._query);
    this._changed.emit(change);
  }

  select(node: number | null): void {
    const next = this._valid(node);
    if (next !== this._selected) {
      this._selected = next;
      this._changed.emit('selection');
    }
  }

  hover(node: number | null): void {
    const next = this._valid(node);
    if (next !== this._hovered) {
      this._hovered = next;
      this._changed.emit('hover');
    }
  }

  toggleFold(scope: string): void {
    if (!this._folded.delete(scope)) {
      this._folded.add(scope);
    }
    this._changed.emit('view');
  }

  /**
   * Find nodes by name, op, shape or scope; if there are none, by their source
   * line, which many nodes share. Empty finds none.
   */
  search(text: string): void {
    const query = text.trim();
    if (query !== this._query) {
      this._query = query;
      this._matches = this._find(query);
      this._changed.emit('view');
    }
  }

  /** Select the hit after the selected node (or before it), round the end. */
  nextMatch(backwards = false): number | null {
    const hits = [...this._matches];
    if (hits.length === 0) {
      return null;
    }
    const from = this._selected ?? (backwards ? Infinity : -1);
    const next = backwards
      ? (hits.filter(node => node < from).pop() ?? hits[hits.length - 1])
      : (hits.find(node => node > from) ?? hits[0]);
    this.select(next);
    return next;
  }

  setStage(stage: Stage): void {
    if (stage !== this._stage) {
      this._stage = stage;
      this._changed.emit('view');
    }
  }

  setColouring(colouring: Colouring): void {
    if (colouring !== this._colouring) {
      this._colouring = colouring;
      this._changed.emit('view');
    }
  }

  setAnimated(animated: boolean): void {
    if (animated !== this._animated) {
      this._animated = animated;
      this._changed.emit('view');
    }
  }

  setStep(step: number | null): void {
    const next =
      step === null || this.stepCount === 0
        ? null
        : Math.min(Math.max(Math.round(step), 0), this.stepCount);
    if (next !== this._step) {
      this._step = next;
      this._changed.emit('view');
    }
  }

  private _valid(node: number | null): number | null {
    const count = this._graph?.count ?? 0;
    return node !== null && Number.isInteger(node) && node >= 0 && node < count
      ? node
      : null;
  }

  /**
   * The order of the sweeps. Inputs and constants are there before the first
   * step; the backward sweep goes from the output to the inputs, through all
   * nodes that a gradient reaches.
   */
  private _order(): void {
    this._forward = [];
    this._backward = [];
    const graph = this._graph;
    const count = graph?.count ?? 0;
    this._forwardRank = new Int32Array(count).fill(-1);
    this._backwardRank = new Int32Array(count).fill(-1);
    if (graph === null) {
      return;
    }
    for (let node = 0; node < count; node++) {
      if (graph.kind(node) === 'op') {
        this._forwardRank[node] = this._forward.push(node) - 1;
      }
    }
    for (let node = count - 1; node >= 0; node--) {
      if (graph.hasGradient(node)) {
        this._backwardRank[node] = this._backward.push(node) - 1;
      }
    }
  }

  private _find(query: string): Set<number> {
    const found = new Set<number>();
    const graph = this._graph;
    if (graph === null || query === '') {
      return found;
    }
    const wanted = query.toLowerCase();
    const has = (text: string): boolean => text.toLowerCase().includes(wanted);
    for (let node = 0; node < graph.count; node++) {
      const texts = [
        graph.label(node),
        graph.op(node),
        graph.shape(node),
        graph.scope(node)
      ];
      if (texts.some(has)) {
        found.add(node);
      }
    }
    const own = found.size;
    for (let node = 0; own === 0 && node < graph.count; node++) {
      if (has(graph.source(node))) {
        found.add(node);
      }
    }
    return found;
  }

  private _keepFolds(before: Graph | null, graph: Graph): void {
    const scopes = graph.scopes;
    for (const scope of this._folded) {
      if (!scopes.has(scope)) {
        this._folded.delete(scope);
      }
    }
    if (before === null && graph.count >= FOLD_FROM) {
      for (const { path, depth } of scopes.values()) {
        if (depth === 0) {
          this._folded.add(path);
        }
      }
    }
  }

  private _changed = new Signal<GraphState, Change>(this);
  private _graph: Graph | null = null;
  private _selected: number | null = null;
  private _hovered: number | null = null;
  private _matches: Set<number> = new Set();
  private _query = '';
  private _folded: Set<string> = new Set();
  private _stage: Stage = 'derivative';
  private _colouring: Colouring = 'gradient';
  private _animated = true;
  private _step: number | null = null;
  private _forward: number[] = [];
  private _backward: number[] = [];
  private _forwardRank = new Int32Array(0);
  private _backwardRank = new Int32Array(0);
}

/** Whether a node of one graph is, by all that can be read, that of another. */
function sameNode(before: Graph | null, graph: Graph, node: number | null): boolean {
  return (
    before !== null &&
    node !== null &&
    node < graph.count &&
    before.label(node) === graph.label(node) &&
    before.op(node) === graph.op(node)
  );
}
