/**
 * What one view of a graph shows: the graph, and what the reader of the page
 * has selected, found, folded and stepped to. Selection and viewport belong to
 * the page; the graph belongs to the kernel. Nothing here knows the DOM.
 */

import { Signal } from '@lumino/signaling';

import type { ILesson } from '../wire/protocol';
import { LEGIBLE } from './clusters';
import { Folding } from './folds';
import type { Graph } from './graph';
import { type IPair, pairOf } from './paths';

/**
 * What is drawn: the forward graph alone, both passes, or the derivative as a program
 * of its own, which is simplified step by step.
 */
export type Stage = 'traced' | 'derivative' | 'simplified';

/** What the colour of a tile or card means. */
export const COLOURINGS = [
  'gradient',
  'value',
  'change',
  'time',
  'bytes',
  'none'
] as const;
export type Colouring = (typeof COLOURINGS)[number];

/**
 * - `graph`: another graph; everything must be laid out and drawn again.
 * - `values`: the same nodes with other numbers, overrides or messages.
 * - `selection`: the selected node, the marked one, or the way that is shown.
 * - `hover`: that alone, or what is outlined.
 * - `view`: stage, colouring, folding, search, step.
 */
export type Change = 'graph' | 'values' | 'selection' | 'hover' | 'view';

/**
 * From this many nodes on, a graph is shown with its outer scopes folded, and those
 * inside them that would be too much to see at once.
 */
export const FOLD_FROM = LEGIBLE;

/** What a tile can say of a gradient: its norm, its largest entry, their mean, nothing. */
export const TILE_TEXTS = ['norm', 'largest', 'mean', 'none'] as const;
export type TileText = (typeof TILE_TEXTS)[number];

/** The bars of a histogram, as many as the kernel counts; fewer are sums of these. */
export const BINS = 40;

/** How the pictures of a panel are drawn. */
export class ViewSettings {
  /** One of them is another. */
  readonly changed = new Signal<this, void>(this);

  readonly stage: Stage = 'derivative';

  readonly colouring: Colouring = 'gradient';

  /** Whether the view may move softly. */
  readonly animated: boolean = true;

  /** What the tiles of gradients say. */
  readonly tileText: TileText = 'norm';

  /** How many bars a histogram has at most. */
  readonly bins: number = BINS;

  /** From how many nodes on a graph opens with its scopes folded. */
  readonly foldFrom: number = FOLD_FROM;

  /** Change some of them; what is already so tells nobody. */
  set(changes: SettingsChange): void {
    const others = NAMES.filter(name => (changes[name] ?? this[name]) !== this[name]);
    Object.assign(this, Object.fromEntries(others.map(name => [name, changes[name]])));
    if (others.length > 0) {
      this.changed.emit();
    }
  }
}

const NAMES = ['stage', 'colouring', 'animated', 'tileText', 'bins', 'foldFrom'] as const;

/** Other values of some settings. */
export type SettingsChange = Partial<Pick<ViewSettings, (typeof NAMES)[number]>>;

/** What is so in one view, whatever the settings of its panel are. */
export type FixedSettings = Partial<Pick<ViewSettings, 'stage' | 'colouring'>>;

export class GraphState {
  /** A state of its own settings, or of those that it has in common with others. */
  constructor(
    readonly settings = new ViewSettings(),
    private readonly _fixed: FixedSettings = {}
  ) {
    settings.changed.connect(() => this.changed.emit('view'), this);
  }

  readonly changed = new Signal<this, Change>(this);

  get graph(): Graph | null {
    return this._graph;
  }

  get selected(): number | null {
    return this._selected;
  }

  /** A node that was put aside, to choose a second one to it. */
  get marked(): number | null {
    return this._marked;
  }

  /** The marked and the selected node as what has a derivative by what. */
  get pair(): IPair | null {
    const { _graph: graph, _marked: marked, _selected: selected } = this;
    if (graph === null || marked === null || selected === null || marked === selected) {
      return null;
    }
    return (this._pair ??= pairOf(graph, marked, selected));
  }

  /** For each node whether it is on the way that is shown; null: none is shown. */
  get trail(): Uint8Array | null {
    return this._trail ?? this.pair?.way ?? null;
  }

  get hovered(): number | null {
    return this._hovered;
  }

  /** What the line of the cell computes that the cursor is in. */
  get outlined(): ReadonlySet<number> {
    return this._outlined;
  }

  /** The nodes that the search found, in the order of the program. */
  get matches(): ReadonlySet<number> {
    return this._matches;
  }

  query = '';

  get folded(): ReadonlySet<string> {
    return this._folding.folded;
  }

  /** What is folded, and which iterations of loops are open. */
  get folding(): Folding {
    return this._folding;
  }

  get stage(): Stage {
    return this._fixed.stage ?? this.settings.stage;
  }

  get colouring(): Colouring {
    return this._fixed.colouring ?? this.settings.colouring;
  }

  get animated(): boolean {
    return this.settings.animated;
  }

  get tileText(): TileText {
    return this.settings.tileText;
  }

  get bins(): number {
    return this.settings.bins;
  }

  /** How many steps are done: of the forward sweep, then of the backward sweep. */
  get step(): number | null {
    return this._step;
  }

  /** The number of steps of both sweeps together. */
  get stepCount(): number {
    return this._sweeps.count;
  }

  /**
   * The numbers and formulas of the sweeps; null until they are known. While other values
   * of the same program are shown those of before stay until theirs are told.
   */
  get lesson(): ILesson | null {
    return this._lesson ?? this._graph?.lesson ?? null;
  }

  /** Whether the lesson is of the values that are shown, not of those before. */
  get hasLesson(): boolean {
    const { _graph: graph, _told: told } = this;
    return graph !== null && (told === graph || (told === null && graph.lesson !== null));
  }

  /** Show what the kernel tells of a graph: the one that is shown, or its program before. */
  setLesson(lesson: ILesson | null, graph: Graph): void {
    const { _graph: shown } = this;
    const fits = lesson === null || lesson.nodes.length === graph.count;
    if (fits && shown?.sameStructure(graph) === true) {
      this._told = graph;
      if (lesson !== this._lesson) {
        this._lesson = lesson;
        this.changed.emit('view');
      }
    }
  }

  /** The step that was done last; null when all are shown, or none is done. */
  get current(): IStep | null {
    return this._step === null ? null : this._sweeps.last(this._step);
  }

  /** Whether the sweeps, as far as they are stepped, have computed the value. */
  hasValueNow(node: number): boolean {
    return this._step === null || this._sweeps.hasValue(this._step, node);
  }

  /** Whether the sweeps, as far as they are stepped, have computed the gradient. */
  hasGradientNow(node: number): boolean {
    return this._step === null || this._sweeps.hasGradient(this._step, node);
  }

  /** Show a graph; `change` is `values` if nodes and edges are those of before. */
  setGraph(graph: Graph | null, change: 'graph' | 'values' = 'graph'): void {
    const before = this._graph;
    this._graph = graph;
    if (graph === null || change === 'graph') {
      this._pair = null;
      this._trail = null;
    } else if (isFindingPath(before, this._way) && !isFindingPath(graph, this._way)) {
      this._trail = null; // the way of a finding that is no more
    }
    if (graph === null) {
      this._selected = null;
      this._marked = null;
      this._hovered = null;
      this._folding = new Folding();
    } else if (change === 'graph') {
      if (!sameNode(before, graph, this._selected)) {
        this._selected = null;
      }
      if (!sameNode(before, graph, this._marked)) {
        this._marked = null;
      }
      this._hovered = null;
      this._keepFolds(before, graph);
    }
    this._steps = null;
    const stays = change === 'values' && this._step !== null;
    if (!stays || graph === null || graph.compared !== null || graph.lesson !== null) {
      this._lesson = null;
      this._told = null;
    }
    if (this._step !== null && (this.stepCount === 0 || this._step > this.stepCount)) {
      this._step = null;
    }
    this._matches = this._find(this.query);
    this.changed.emit(change);
  }

  /** Select a node beside a marked one, as another view of the graph has it. */
  choose(marked: number | null, selected: number | null): void {
    this._choose(marked, selected);
  }

  /** Fold as another view of the same graph is folded. */
  setFolding(folding: Folding): void {
    this._fold(folding);
  }

  /** Select a node; the marked one stays, and the two are a pair. */
  select(node: number | null): void {
    this._choose(this._marked, node);
  }

  /** Select a node, and nothing else any more. */
  selectAlone(node: number | null): void {
    this._choose(null, node);
  }

  /** Select a node in addition to the one that is selected, or one of them less. */
  selectAlso(node: number): void {
    const [marked, selected] = [this._marked, this._selected];
    if (selected === null || node === marked) {
      this._choose(null, selected ?? node);
    } else if (node === selected) {
      this._choose(null, marked ?? node);
    } else {
      this._choose(marked ?? selected, node);
    }
  }

  /** Put a node aside, to choose a second one to it; null: none any more. */
  mark(node: number | null): void {
    this._choose(node, this._selected);
  }

  /** Put the selected node aside, or take it back; false where none is selected. */
  markSelected(): boolean {
    const { _selected: selected } = this;
    if (selected !== null) {
      this.mark(selected === this._marked ? null : selected);
    }
    return selected !== null;
  }

  /** Show a way through the graph, until something else is selected. */
  showTrail(nodes: readonly number[]): void {
    const count = this._graph?.count ?? 0;
    this._trail = new Uint8Array(count);
    this._way = nodes;
    for (const node of nodes) {
      if (this._validNode(node) !== null) {
        this._trail[node] = 1;
      }
    }
    this.changed.emit('selection');
  }

  hover(node: number | null): void {
    const next = this._validNode(node);
    if (next !== this._hovered) {
      this._hovered = next;
      this.changed.emit('hover');
    }
  }

  /** Point at several nodes at once, from outside of the picture. */
  outline(nodes: Iterable<number>): void {
    const next = new Set(nodes);
    if (!sameNodes(next, this._outlined)) {
      this._outlined = next;
      this.changed.emit('hover');
    }
  }

  /** Fold a scope or unfold it; of a loop one iteration opens, or is folded again. */
  toggleFold(path: string): void {
    const { _folding: folding } = this;
    const loop = this._graph?.loopAt(path) ?? null;
    if (!folding.folded.has(path) || folding.open.has(path)) {
      this._fold(folding.fold(path));
    } else if (loop === null) {
      this._fold(folding.unfold(path));
    } else {
      this.openIteration(path, this._lastOpen.get(path) ?? this._selectedStep(path));
    }
  }

  /** The iteration of a loop that the selected node stands in; 0 where it is in none. */
  private _selectedStep(path: string): number {
    const { _graph: graph, _selected: selected } = this;
    return selected === null ? 0 : (graph?.placeIn(selected, path)?.at ?? 0);
  }

  /** Show all iterations of a loop. */
  unfold(path: string): void {
    this._fold(this._folding.unfold(path));
  }

  /** Show one iteration of a loop, the nearest that there is. */
  openIteration(path: string, iteration: number): void {
    const loop = this._graph?.loopAt(path) ?? null;
    if (loop !== null && Number.isFinite(iteration)) {
      const at = Math.min(Math.max(Math.round(iteration), 0), loop.times - 1);
      this._lastOpen.set(path, at);
      this._fold(this._folding.openIteration(path, at));
    }
  }

  /** Open what hides a node: folded scopes, and of folded loops the iterations around it. */
  reveal(node: number): void {
    const { _graph: graph } = this;
    const path = graph === null ? '' : graph.fold(node);
    const folding = [...this._folding.folded]
      .filter(one => graph?.loopAt(one) === null && `${path}/`.startsWith(`${one}/`))
      .reduce((before, one) => before.unfold(one), this._folding);
    let loop = graph?.loops.get(graph.loop(node));
    let at = graph?.iteration(node) ?? -1;
    let next = folding;
    while (loop !== undefined) {
      if (folding.folded.has(loop.path)) {
        next = next.openIteration(loop.path, at);
        this._lastOpen.set(loop.path, at);
      }
      at = loop.around?.at ?? -1;
      loop = loop.around?.loop;
    }
    this._fold(next);
  }

  /**
   * Find nodes by name, op, shape or scope; if there are none, by their source
   * line, which many nodes share. Empty finds none.
   */
  search(text: string): void {
    const query = text.trim();
    if (query !== this.query) {
      this.query = query;
      this._matches = this._find(query);
      this.changed.emit('view');
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
    this.reveal(next);
    this.select(next);
    return next;
  }

  setStep(step: number | null): void {
    const next =
      step === null || this.stepCount === 0
        ? null
        : Math.min(Math.max(Math.round(step), 0), this.stepCount);
    if (next !== this._step) {
      this._step = next;
      this.changed.emit('view');
    }
  }

  private _choose(marked: number | null, selected: number | null): void {
    const aside = this._validNode(marked);
    const next = this._validNode(selected);
    if (aside !== this._marked || next !== this._selected) {
      this._marked = aside;
      this._selected = next;
      this._pair = null;
      this._trail = null;
      this.changed.emit('selection');
    }
  }

  private _validNode(node: number | null): number | null {
    const count = this._graph?.count ?? 0;
    return node !== null && Number.isInteger(node) && node >= 0 && node < count
      ? node
      : null;
  }

  private _find(query: string): Set<number> {
    const graph = this._graph;
    if (graph === null || query === '') {
      return new Set();
    }
    const wanted = query.toLowerCase();
    const has = (text: string): boolean => text.toLowerCase().includes(wanted);
    const found = graph.find(['name', 'op', 'shape', 'scope'], has);
    return found.size > 0 ? found : graph.find(['source'], has);
  }

  /** The sweeps of the graph, found when they are asked for: few are stepped through. */
  private get _sweeps(): Sweeps {
    return (this._steps ??= new Sweeps(this._graph));
  }

  private _fold(folding: Folding): void {
    if (!folding.equals(this._folding)) {
      this._folding = folding;
      this.changed.emit('view');
    }
  }

  private _keepFolds(before: Graph | null, graph: Graph): void {
    const { scopes, loops } = graph;
    const paths = new Set(scopes.keys());
    // Of a program without nodes nothing was unfolded on purpose.
    const isFirst = before === null || before.count === 0;
    this._folding = this._folding.keepIn(loops.values(), paths, !isFirst);
    if (isFirst && graph.count >= this.settings.foldFrom) {
      const large = [...scopes.values()].filter(({ parent }) => {
        const around = parent === null ? undefined : scopes.get(parent);
        return around === undefined || around.nodes > LEGIBLE;
      });
      this._folding = this._folding.foldAll(large.map(({ path }) => path));
    }
  }

  private _graph: Graph | null = null;
  private _selected: number | null = null;
  private _marked: number | null = null;
  private _pair: IPair | null = null;
  private _trail: Uint8Array | null = null;
  private _way: readonly number[] = [];
  private _hovered: number | null = null;
  private _outlined: ReadonlySet<number> = new Set();
  private _matches: Set<number> = new Set();
  private _folding = new Folding();
  /** The iteration of each loop that was open last. */
  private readonly _lastOpen = new Map<string, number>();
  private _step: number | null = null;
  private _steps: Sweeps | null = null;
  private _lesson: ILesson | null = null;
  /** The graph that it is of; null where none was told. */
  private _told: Graph | null = null;
}

function sameNodes(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  if (a.size !== b.size) {
    return false;
  }
  for (const node of a) {
    if (!b.has(node)) {
      return false;
    }
  }
  return true;
}

/** Whether a way is that of something the doctor found in a graph. */
function isFindingPath(graph: Graph | null, way: readonly number[]): boolean {
  const list = graph?.header.findings?.list ?? [];
  return list.some(
    ({ path }) => path.length === way.length && path.every((node, i) => node === way[i])
  );
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

// The two sweeps through a graph, step by step: forward, then backward again.

/** One step of the two sweeps: the node that it computes, and in which sweep. */
export interface IStep {
  sweep: 'forward' | 'backward';
  node: number;
  /** The place in its own sweep, from 1. */
  position: number;
  /** How many steps that sweep has. */
  count: number;
}

/**
 * The order of the sweeps. Inputs and constants are there before the first step;
 * the backward sweep goes from the output to the inputs, through all nodes that a
 * gradient reaches.
 */
export class Sweeps {
  constructor(graph: Graph | null) {
    const count = graph?.count ?? 0;
    this._forwardRank = new Int32Array(count).fill(-1);
    this._backwardRank = new Int32Array(count).fill(-1);
    // Lists that grow are collected again and again: those of a large graph take long.
    const forward = new Int32Array(count);
    const backward = new Int32Array(count);
    let [forwards, backwards] = [0, 0];
    for (let node = 0; node < count; node++) {
      if (graph?.kind(node) === 'op') {
        this._forwardRank[node] = forwards;
        forward[forwards++] = node;
      }
    }
    for (let node = count - 1; node >= 0; node--) {
      if (graph?.hasGradient(node) === true) {
        this._backwardRank[node] = backwards;
        backward[backwards++] = node;
      }
    }
    this._forward = forward.subarray(0, forwards);
    this._backward = backward.subarray(0, backwards);
  }

  /** The number of steps of both sweeps together. */
  get count(): number {
    return this._forward.length + this._backward.length;
  }

  /** The step that was done last, of so many; null if none is done. */
  last(step: number): IStep | null {
    if (step === 0) {
      return null;
    }
    const forward = step <= this._forward.length;
    const nodes = forward ? this._forward : this._backward;
    const position = forward ? step : step - this._forward.length;
    return {
      sweep: forward ? 'forward' : 'backward',
      node: nodes[position - 1],
      position,
      count: nodes.length
    };
  }

  /** Whether so many steps have computed the value of a node. */
  hasValue(step: number, node: number): boolean {
    return step > this._forwardRank[node];
  }

  /** Whether so many steps have computed the gradient of a node. */
  hasGradient(step: number, node: number): boolean {
    const rank = this._backwardRank[node];
    return rank >= 0 && step > this._forward.length + rank;
  }

  private readonly _forward: Int32Array;
  private readonly _backward: Int32Array;
  private readonly _forwardRank: Int32Array;
  private readonly _backwardRank: Int32Array;
}
