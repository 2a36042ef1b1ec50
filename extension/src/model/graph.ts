/**
 * A graph as the page holds it: the checked columns of a snapshot and small
 * questions to them. It never changes: a patch makes a new Graph that shares
 * what stayed the same. Nothing here knows the DOM.
 */

import { checkColumns, decodeColumns, decodePatch, encodeColumns } from '../wire/columns';
import { checkHeader, checkSaved } from '../wire/guards';
import {
  ColumnName,
  IDetail,
  IPatchColumn,
  IColumns,
  IFinding,
  IDifference,
  IHeader,
  ILesson,
  IOverride,
  IProfileStep,
  IProgramAnswer,
  ISaved,
  ITimeline,
  KINDS,
  STATISTICS,
  STATUSES,
  Status
} from '../wire/protocol';
import type { IPictureReceived } from '../wire/requests';
import { PictureError } from '../wire/schema';
import { type IAdjacency, adjacency, countUp, firstWhere } from './adjacency';
import type { IFolds } from './clusters';
import {
  type IFoldInput,
  type IFolded,
  type ILoop,
  type IScope,
  type ISteps,
  findFolds,
  loopsOf,
  scopesOf
} from './folds';
import { SavedMoments } from './moments';

/** What a file holds beside the picture. */
export type ISavedParts = Pick<ISaved, 'moments' | 'lesson' | 'details'>;

/** What a node is. */
export type Kind = (typeof KINDS)[number];

/**
 * The statistics of one array, NaN where there is none. Of a past run only the norm is
 * known, and `bad` is infinite where that is not finite.
 */
export type IStatistics = Record<(typeof STATISTICS)[number], number>;

const NORM = STATISTICS.indexOf('norm');
const BAD = STATISTICS.indexOf('bad');

/** The number of the kind of an op. */
const OP = KINDS.indexOf('op');

/** The op that takes one output out of several. */
const OUTPUT = 'item';

/** The columns that say what is connected and folded with what: the layout. */
const STRUCTURE: readonly ColumnName[] = [
  'kind',
  'op',
  'scope',
  'place',
  'line',
  'loop',
  'iteration',
  'input_start',
  'inputs'
];

/** The columns of a profile. */
const COSTS = [
  'value_time',
  'value_bytes',
  'value_step',
  'rule_time',
  'rule_bytes',
  'rule_step'
] as const;

/** The columns that change with values and rules: patches share what did not. */
const NUMBERS = ['value_stats', 'grad_stats', 'true_stats', 'override'] as const;

type TextColumn = 'op' | 'name' | 'dtype' | 'shape' | 'scope' | 'place' | 'source';

/** A line of the program, as the session saw it. */
export interface ITracedLine {
  /** "[3]:1", the cell and its line, or "net.py:20"; "" where that is not known. */
  place: string;
  source: string;
  /** The line in the cell, from 1; null if that is not known. */
  line: number | null;
  /** What it made, in order. */
  nodes: Int32Array;
}

/** What a node's value, or its gradient rule, costs in a run. */
export interface ICost {
  /** Seconds. */
  time: number;
  /** Bytes that are read and written. */
  bytes: number;
  /** Its part of the time of the whole run. */
  share: number;
  /** The step that computes it together with other nodes; null for one of its own. */
  step: IProfileStep | null;
}

/** What is told of a program at one step of a simplification. */
export interface IRewritten {
  /** What tells each node from all others, at all steps. */
  keys: readonly string[];
  /** The nodes that the step made, and those that it took away. */
  came: ReadonlySet<number>;
  went: ReadonlySet<number>;
}

/** How a change is measured: as a ratio, or as a signed difference. */
export type Measure = 'ratio' | 'difference';

/** How two states are seen: in one picture by colours, or in two beside each other. */
export type ComparedView = 'colours' | 'beside';

/** What a graph is compared with. */
export interface ICompared {
  /** The same graph with the other numbers. */
  readonly other: Graph;
  /** Whether the other one comes before this one. */
  readonly otherFirst: boolean;
  /** What the two are: "run 12", "now", "without overrides", "session b". */
  readonly label: string;
  readonly otherLabel: string;
  readonly view: ComparedView;
  readonly measure: Measure;
  /** The nodes that have another op in the other program, or none. */
  readonly differing?: ReadonlyMap<number, IDifference>;
}

/** What follows from the structure alone; graphs that share it share this. */
interface IDerived {
  consumers: IAdjacency | null;
  scopes: ReadonlyMap<string, IScope> | null;
  folds: IFolds | null;
  loops: ReadonlyMap<number, ILoop> | null;
  loopPaths: ReadonlyMap<string, readonly ILoop[]> | null;
}

export class Graph {
  readonly header: IHeader;
  /** How many nodes there are; their ids are 0 to count - 1. */
  readonly count: number;
  readonly edgeCount: number;
  /** Null for a graph that is no step of a simplification. */
  readonly rewritten: IRewritten | null;
  /** The run of the past that it is of; null for the present. */
  step: number | null = null;

  /** The graph that this one is compared with; null for none. */
  readonly compared: ICompared | null;
  /** Past runs that were saved with the picture. */
  readonly moments: SavedMoments | null;
  /** The sweeps with numbers that a file keeps with its picture. */
  readonly lesson: ILesson | null;
  /** What a kernel said of each node when the file was made; null where there is none. */
  readonly details: IDetail[] | null;

  /**
   * A picture as it came, whole or what changes `base` into it. Its buffers, in the order
   * of its columns, are copied unless they are `ours` to keep.
   */
  static read(
    picture: IPictureReceived & Partial<Pick<IProgramAnswer, 'keys' | 'came' | 'went'>>,
    base: Graph | null,
    ours = false
  ): Graph {
    const { of, columns, buffers } = picture;
    if (of !== null) {
      if (base === null) {
        throw new PictureError('what changed in a picture came without the picture');
      }
      return base.applyPatch(picture.header, columns, buffers, ours);
    }
    const header = checkHeader({ ...picture.header, columns });
    const { keys, came, went } = picture;
    const rewritten = keys && { keys, came: new Set(came), went: new Set(went) };
    return Graph.fromHeader(header, buffers, ours, rewritten);
  }

  /** A whole graph of a checked header, and the buffers of its columns. */
  static fromHeader(
    header: IHeader,
    buffers: readonly DataView[],
    ours = false,
    rewritten: IRewritten | null = null
  ): Graph {
    const columns = decodeColumns(header.columns, buffers, ours);
    return new Graph(header, checkColumns(header, columns), null, { rewritten });
  }

  /** The picture that a notebook holds. */
  static fromSaved(saved: unknown): Graph {
    const { header, buffers, moments, lesson, details } = checkSaved(saved);
    const columns = checkColumns(header, decodeColumns(header.columns, buffers));
    const runs = moments && new SavedMoments(moments, header);
    return new Graph(header, columns, null, { moments: runs, lesson, details });
  }

  /** The picture as a file holds it, with past runs; no live model is named in it. */
  toSaved({
    moments = this.moments?.data ?? null,
    lesson = this.lesson,
    details = this.details
  }: Partial<ISavedParts> = {}): ISaved {
    const { columns, buffers } = encodeColumns(this._columns);
    const header = { ...this.header, columns };
    const { schema } = header;
    return { schema, model_id: '', header, buffers, moments, lesson, details };
  }

  private constructor(
    header: IHeader,
    columns: IColumns,
    derived: IDerived | null,
    more: Partial<Pick<Graph, 'rewritten' | 'compared' | 'moments' | 'lesson' | 'details'>> = {}
  ) {
    this.rewritten = more.rewritten ?? null;
    this.compared = more.compared ?? null;
    this.moments = more.moments ?? null;
    this.lesson = more.lesson ?? null;
    this.details = more.details ?? null;
    this.header = header;
    this.count = header.nodes;
    this.edgeCount = header.edges;
    this._columns = columns;
    this._derived = derived ?? {
      consumers: null,
      scopes: null,
      folds: null,
      loops: null,
      loopPaths: null
    };
    this._wrt = new Set(header.wrt);
    this._holders = new Set(header.holders);
  }

  /**
   * The graph after a patch: the fields and the columns that came replace those
   * of before. The true numbers go when no override is left, the columns of a check
   * or a profile when there is none.
   */
  applyPatch(
    header: Partial<IHeader>,
    columns: readonly IPatchColumn[],
    buffers: readonly DataView[],
    ours = false
  ): Graph {
    const merged = checkHeader({ ...this.header, ...header, ...this._timeline(header) });
    const fresh = decodePatch(columns, buffers, this._columns, ours);
    const whole: Partial<IColumns> = { ...this._columns, ...fresh };
    if (merged.overrides.length === 0 && fresh.true_stats === undefined) {
      delete whole.true_stats;
      delete whole.true_edge_norm;
    }
    if (merged.check === null) {
      delete whole.check;
      delete whole.check_ratio;
    }
    if (merged.profile === null) {
      for (const name of COSTS) {
        whole[name] = undefined;
      }
    }
    const resized =
      merged.nodes !== this.count ||
      merged.edges !== this.edgeCount ||
      merged.strings.length < this.header.strings.length ||
      merged.overrides.length < this.header.overrides.length ||
      stepsOf(merged) < stepsOf(this.header);
    const checked = checkColumns(
      merged,
      whole,
      name => resized || fresh[name] !== undefined
    );
    const renamed = header.strings !== undefined || header.around !== undefined;
    const kept = !renamed && STRUCTURE.every(name => fresh[name] === undefined);
    return new Graph(merged, checked, kept ? this._derived : null);
  }

  /** The graph beside another one of the same structure. */
  compareWith(compared: ICompared): Graph {
    const made = new Graph(this.header, this._columns, this._derived, {
      compared,
      details: this.details
    });
    made.step = this.step;
    return made;
  }

  /** The graph as the true rules make it: with all overrides off. */
  withoutOverrides(): Graph {
    const { true_stats, true_edge_norm, grad_stats, edge_norm } = this._columns;
    const columns: IColumns = {
      ...this._columns,
      grad_stats: true_stats ?? grad_stats,
      edge_norm: true_edge_norm ?? edge_norm,
      change: new Float64Array(this.count).fill(NaN),
      override: new Int32Array(this.count).fill(-1)
    };
    delete columns.true_stats;
    delete columns.true_edge_norm;
    const header = { ...this.header, overrides: [], loops: [] };
    return new Graph(header, columns, this._derived);
  }

  /** The runs with those that a patch brings. */
  private _timeline({ timeline }: Partial<IHeader>): Pick<IHeader, 'timeline'> | null {
    return timeline ? { timeline: mergePoints(this.header.timeline, timeline) } : null;
  }

  /** Whether another graph has the same nodes, kinds, scopes and edges. */
  sameStructure(other: Graph): boolean {
    return (
      this._derived === other._derived ||
      (this.count === other.count &&
        this.edgeCount === other.edgeCount &&
        STRUCTURE.every(name => equal(this._columns[name], other._columns[name])) &&
        equal(this.header.strings, other.header.strings) &&
        equal(this.header.around?.flat(), other.header.around?.flat()))
    );
  }

  /** Share with a graph of the same structure what is known of that. */
  shareStructure(other: Graph): void {
    this._derived = other._derived;
  }

  /**
   * For each node the node that it was in a graph before, -1 for none; null if the
   * two have nothing to do with each other.
   */
  counterparts(before: Graph): Int32Array | null {
    const old = before.rewritten?.keys;
    const keys = this.rewritten?.keys;
    if (old !== undefined && keys !== undefined) {
      const places = new Map(old.map((key, node) => [key, node]));
      return Int32Array.from(keys, key => places.get(key) ?? -1);
    }
    return this.sameStructure(before) ? countUp(this.count) : null;
  }

  /** Whether nothing that derivatives depend on has changed since another graph. */
  sameNumbers(other: Graph): boolean {
    return (
      NUMBERS.every(name => this._columns[name] === other._columns[name]) &&
      sameRules(this.header, other.header)
    );
  }

  kind(node: number): Kind {
    return KINDS[this._columns.kind[node]];
  }

  /** The name in the user's program; "" if it has none. */
  name(node: number): string {
    return this._string('name', node);
  }

  op(node: number): string {
    return this._string('op', node);
  }

  /** What a card is headed with: the name, else the op, else what it is. */
  label(node: number): string {
    return this.name(node) || this.op(node) || this.kind(node);
  }

  /** What made a node: its op, "of svd" for one output of several; else its kind. */
  maker(node: number): string {
    const op = this.op(node);
    const [whole] = this.inputs(node);
    return op === OUTPUT ? `of ${this.op(whole)}` : op || this.kind(node);
  }

  /** The nodes that are the outputs of an op with several, as far as they are read. */
  outputs(node: number): number[] {
    return [...this.consumers(node)].filter(reader => this.op(reader) === OUTPUT);
  }

  /** Whether its value is one array, not the outputs of an op with several. */
  isArray(node: number): boolean {
    return this.dtype(node) !== '';
  }

  /** Whether the entries of its value are complex: their magnitudes are shown. */
  isComplex(node: number): boolean {
    return this.dtype(node).startsWith('complex');
  }

  dtype(node: number): string {
    return this._string('dtype', node);
  }

  /** The nodes of which a text is as wanted; those without name are called by their kind. */
  find(columns: readonly TextColumn[], isWanted: (text: string) => boolean): Set<number> {
    // Many nodes share a text: each is looked at once.
    const wanted = this.header.strings.map(isWanted);
    const kinds = KINDS.map(isWanted);
    const { name, op, kind } = this._columns;
    const read = columns.map(column => this._columns[column]);
    const byName = columns.includes('name');
    const found = new Set<number>();
    for (let node = 0; node < this.count; node++) {
      const unnamed = byName && name[node] < 0 && op[node] < 0;
      if (
        read.some(column => column[node] >= 0 && wanted[column[node]]) ||
        (unnamed && kinds[kind[node]])
      ) {
        found.add(node);
      }
    }
    return found;
  }

  /** Whether a loop is among its nodes: overrides can name steps of it. */
  get hasLoops(): boolean {
    const loop = this.header.strings.indexOf('scan');
    return loop >= 0 && this._columns.op.includes(loop);
  }

  /** "569×16", "()" for a scalar. */
  shape(node: number): string {
    return this._string('shape', node);
  }

  /** "encoder/layer1"; "" outside all scopes. */
  scope(node: number): string {
    return this._string('scope', node);
  }

  /** Its path among all that can be folded: its scope, and the loop or part in it. */
  fold(node: number): string {
    const { path, paths } = this.folds;
    return paths[path[node]];
  }

  /** The paths of all nodes; of a large tangle they take seconds, once. */
  get folds(): IFolds {
    if (this._derived.folds === null) {
      this.takeFolds(findFolds(this.foldInput()));
    }
    return this._derived.folds!;
  }

  /** Whether `folds` is there already. */
  get isFolded(): boolean {
    return this._derived.folds !== null;
  }

  /** Take what was found elsewhere, in a worker, from `foldInput`. */
  takeFolds({ folds, loops }: IFolded): void {
    this._derived.folds ??= folds;
    this._derived.loops ??= loops;
  }

  /** What the `folds` and the loops are found from. */
  foldInput(): IFoldInput {
    const { kind, scope, line, loop, iteration, input_start, inputs } = this._columns;
    const ops = new Uint8Array(this.count);
    for (let node = 0; node < this.count; node++) {
      ops[node] = kind[node] === OP ? 1 : 0;
    }
    const { strings, around, output, wrt } = this.header;
    const columns = { scope, line, loop, iteration, ops, inputStart: input_start, inputs };
    return { count: this.count, strings, around, output, wrt, ...columns };
  }

  /** The Python loops that the trace has unrolled, by their numbers. */
  get loops(): ReadonlyMap<number, ILoop> {
    return (this._derived.loops ??= loopsOf(this));
  }

  /** The number of the loop that a node stands in; -1 for none. */
  loop(node: number): number {
    return this._columns.loop?.[node] ?? -1;
  }

  /** The iteration that a node stands in, from 0; -1 for none. */
  iteration(node: number): number {
    return this._columns.iteration?.[node] ?? -1;
  }

  /** The loop around a loop, by its number, and the iteration there; -1 for none. */
  around(loop: number): readonly [number, number] {
    return this.header.around?.[loop] ?? [-1, -1];
  }

  /**
   * The loop that is folded under a path; null for a scope. Of a loop in a loop the
   * first of those that have it.
   */
  loopAt(path: string): ILoop | null {
    return this._loopsAt(path)[0] ?? null;
  }

  /** The loop of a path in what is open: in the iterations that are open around it. */
  loopIn(path: string, open: ReadonlyMap<string, number>): ILoop | null {
    const isOpen = ({ around }: ILoop): boolean =>
      around === null ||
      ((open.get(around.loop.path) ?? around.at) === around.at && isOpen(around.loop));
    return this._loopsAt(path).find(isOpen) ?? null;
  }

  /** The loop of a path that a node stands in, and the iteration; null for none. */
  placeIn(node: number, path: string): { loop: ILoop; at: number } | null {
    let loop = this.loops.get(this.loop(node));
    let at = this.iteration(node);
    while (loop !== undefined && loop.path !== path) {
      at = loop.around?.at ?? -1;
      loop = loop.around?.loop;
    }
    return loop === undefined ? null : { loop, at };
  }

  private _loopsAt(path: string): readonly ILoop[] {
    if (this._derived.loopPaths === null) {
      const paths = new Map<string, ILoop[]>();
      for (const loop of this.loops.values()) {
        const known = paths.get(loop.path);
        if (known === undefined) {
          paths.set(loop.path, [loop]);
        } else {
          known.push(loop);
        }
      }
      this._derived.loopPaths = paths;
    }
    return this._derived.loopPaths.get(path) ?? [];
  }

  /** Whether two nodes are at the same place in steps of one loop. */
  isSamePlace(a: number, b: number): boolean {
    const loop = this.loops.get(this.loop(a));
    if (loop === undefined || this.loop(b) !== this.loop(a)) {
      return false;
    }
    const { own, times } = loop;
    const [at, other] = [a, b].map(node =>
      firstWhere(0, own.length, i => own[i] >= node)
    );
    const period = own.length / times;
    return at % period === other % period;
  }

  /**
   * The largest norm of a gradient in each iteration of a loop: NaN where there is
   * none, infinite where one is not finite.
   */
  iterationNorms(loop: ILoop): Float64Array {
    let norms = this._iterationNorms.get(loop);
    if (norms === undefined) {
      norms = new Float64Array(loop.times).fill(NaN);
      let [number, isOwn] = [-1, false];
      for (const node of loop.nodes) {
        if (!this.hasGradient(node)) {
          continue;
        }
        if (this.loop(node) !== number) {
          number = this.loop(node);
          isOwn = this.loops.get(number) === loop;
        }
        const at = isOwn ? this.iteration(node) : (this.placeIn(node, loop.path)?.at ?? 0);
        const norm = this.badGradients(node) > 0 ? Infinity : this.gradNorm(node);
        norms[at] = norms[at] >= norm ? norms[at] : norm;
      }
      this._iterationNorms.set(loop, norms);
    }
    return norms;
  }

  /**
   * The same of a loop that is one node, as the kernel has measured it: the gradient
   * that arrives before each step; null for other nodes, and where it is not known.
   */
  stepNorms(node: number): ISteps | null {
    const found = this.header.loops?.find(loop => loop.node === node);
    return found === undefined || found.marks.length === 0 ? null : found;
  }

  /** "[3]:1", the cell and its line, or "net.py:20". */
  place(node: number): string {
    return this._string('place', node);
  }

  /** The text of that line. */
  source(node: number): string {
    return this._string('source', node);
  }

  /** The line in the cell, from 1; null if the node has none. */
  line(node: number): number | null {
    const line = this._columns.line[node];
    return line < 0 ? null : line;
  }

  /** The nodes that each line of the program has made, the lines as they come. */
  groupByLine(): ITracedLine[] {
    const { place, source, line } = this._columns;
    const { strings } = this.header;
    const text = (at: number): string => (at < 0 ? '' : strings[at]);
    const numbers = new Map<number, number>();
    const lines: Omit<ITracedLine, 'nodes'>[] = [];
    const lineOf = new Int32Array(this.count);
    for (let node = 0; node < this.count; node++) {
      const isLike =
        node > 0 &&
        place[node] === place[node - 1] &&
        source[node] === source[node - 1] &&
        line[node] === line[node - 1];
      if (isLike) {
        lineOf[node] = lineOf[node - 1];
        continue;
      }
      // Two places of texts as one number: there are never so many of them.
      const key = (place[node] + 1) * (strings.length + 1) + source[node] + 1;
      let number = numbers.get(key);
      if (number === undefined) {
        const [where, what] = [text(place[node]), text(source[node])];
        number = lines.push({ place: where, source: what, line: this.line(node) }) - 1;
        numbers.set(key, number);
      }
      lineOf[node] = number;
    }
    const { start, items } = adjacency(lines.length, lineOf, countUp(this.count));
    return lines.map((one, number) => ({
      ...one,
      nodes: items.subarray(start[number], start[number + 1])
    }));
  }

  /** The nodes that this one reads, in the order of its arguments. */
  inputs(node: number): Int32Array {
    const start = this._columns.input_start;
    return this._columns.inputs.subarray(start[node], start[node + 1]);
  }

  /** All edges: node i reads `inputs[start[i]]` and so on, up to the start of the next. */
  get edges(): { start: Int32Array; inputs: Int32Array } {
    return { start: this._columns.input_start, inputs: this._columns.inputs };
  }

  /** The id of the node's first edge; edge `firstEdge(i) + k` comes from input k. */
  firstEdge(node: number): number {
    return this._columns.input_start[node];
  }

  /** The nodes that read this one, in ascending order; one entry per edge. */
  consumers(node: number): Int32Array {
    const { start, items } = (this._derived.consumers ??= this._readers());
    return items.subarray(start[node], start[node + 1]);
  }

  /** The nodes whose values this node's gradient rule reads. */
  saved(node: number): Int32Array {
    const start = this._columns.saved_start;
    return this._columns.saved.subarray(start[node], start[node + 1]);
  }

  valueStatistics(node: number): IStatistics | null {
    return statistics(this._columns.value_stats, node);
  }

  gradientStatistics(node: number): IStatistics | null {
    return statistics(this._columns.grad_stats, node);
  }

  /** The gradient's with all overrides off; null without overrides. */
  trueStatistics(node: number): IStatistics | null {
    const column = this._columns.true_stats;
    return column === undefined ? null : statistics(column, node);
  }

  hasValue(node: number): boolean {
    return !Number.isNaN(this._columns.value_stats[node * STATISTICS.length + BAD]);
  }

  hasGradient(node: number): boolean {
    return !Number.isNaN(this._columns.grad_stats[node * STATISTICS.length + BAD]);
  }

  /** The L2 norm of the value; NaN if there is none or it is not a number. */
  valueNorm(node: number): number {
    return this._columns.value_stats[node * STATISTICS.length + NORM];
  }

  /** The L2 norm of the gradient; NaN if there is none or it is not a number. */
  gradNorm(node: number): number {
    return this._columns.grad_stats[node * STATISTICS.length + NORM];
  }

  /** How many entries of the gradient are NaN or infinite; `Infinity`: not known. */
  badGradients(node: number): number {
    return this._columns.grad_stats[node * STATISTICS.length + BAD] || 0;
  }

  /** How many entries of the value are NaN or infinite; `Infinity`: not known. */
  badValues(node: number): number {
    return this._columns.value_stats[node * STATISTICS.length + BAD] || 0;
  }

  /** The L2 norm of what flows back along an edge; NaN where nothing does. */
  edgeNorm(edge: number): number {
    return this._columns.edge_norm[edge];
  }

  /** The L2 norm of all that the node's rule passes on; NaN where that is nothing. */
  passedNorm(node: number): number {
    return this._passed(node, this._columns.edge_norm);
  }

  /** The same with all overrides off; NaN without overrides. */
  truePassedNorm(node: number): number {
    return this._passed(node, this._columns.true_edge_norm);
  }

  /** ‖g − g_true‖ / ‖g_true‖ of the node's gradient; NaN where there is none. */
  change(node: number): number {
    return this._columns.change[node];
  }

  /** The override whose rule the node runs. */
  override(node: number): IOverride | null {
    const position = this._columns.override[node];
    return position < 0 ? null : this.header.overrides[position];
  }

  /** Whether a check has been made of its rules. */
  get isChecked(): boolean {
    return this._columns.check !== undefined;
  }

  /** What the last check says of the node's rule. */
  check(node: number): Status {
    return STATUSES[this._columns.check?.[node] ?? 0];
  }

  /** The error of its worst entry in tolerances; NaN if it was not checked. */
  checkRatio(node: number): number {
    return this._columns.check_ratio?.[node] ?? NaN;
  }

  /** What the value of a node costs; null if nothing was measured. */
  valueCost(node: number): ICost | null {
    const { value_time, value_bytes, value_step } = this._columns;
    return this._cost(node, value_time, value_bytes, value_step);
  }

  /** What the gradient rule of a node costs; null if nothing was measured. */
  ruleCost(node: number): ICost | null {
    const { rule_time, rule_bytes, rule_step } = this._columns;
    return this._cost(node, rule_time, rule_bytes, rule_step);
  }

  /** What the doctor found at a node, most important first. */
  findings(node: number): readonly IFinding[] {
    this._found ??= findingsByNode(this.header);
    return this._found.get(node) ?? [];
  }

  /**
   * Whether it lies within what an override replaces, and is not the node whose
   * gradient that gives: its own rule does not run.
   */
  isCovered(node: number): boolean {
    const override = this.override(node);
    if (override === null || override.covered.length === 0) {
      return false;
    }
    this._covered ??= coveredNodes(this.header);
    return this._covered.has(node) && !override.matched.includes(node);
  }

  isWrt(node: number): boolean {
    return this._wrt.has(node);
  }

  /** Whether it holds a program that can be looked into: a loop, an op of a graph. */
  isHolder(node: number): boolean {
    return this._holders.has(node);
  }

  /** All scopes and loops that hold a node, each after the scope around it. */
  get scopes(): ReadonlyMap<string, IScope> {
    return (this._derived.scopes ??= scopesOf(this.folds));
  }

  private _cost(
    node: number,
    times?: Float64Array,
    sizes?: Float64Array,
    steps?: Int32Array
  ): ICost | null {
    const { profile } = this.header;
    const time = times?.[node] ?? NaN;
    if (profile === null || Number.isNaN(time)) {
      return null;
    }
    return {
      time,
      bytes: sizes?.[node] ?? NaN,
      share: profile.time > 0 ? time / profile.time : NaN,
      step: profile.steps[steps?.[node] ?? -1] ?? null
    };
  }

  private _passed(node: number, norms?: Float64Array): number {
    const { input_start: start } = this._columns;
    let squares = NaN;
    for (let edge = start[node]; edge < start[node + 1]; edge++) {
      const norm = norms?.[edge] ?? NaN;
      if (!Number.isNaN(norm)) {
        squares = (Number.isNaN(squares) ? 0 : squares) + norm * norm;
      }
    }
    return Math.sqrt(squares);
  }

  private _string(column: TextColumn, node: number): string {
    const position = this._columns[column][node];
    return position < 0 ? '' : this.header.strings[position];
  }

  /** The edges turned round: which nodes read each node. */
  private _readers(): IAdjacency {
    const { input_start: start, inputs } = this._columns;
    const readers = new Int32Array(inputs.length);
    for (let node = 0; node < this.count; node++) {
      for (let edge = start[node]; edge < start[node + 1]; edge++) {
        readers[edge] = node;
      }
    }
    return adjacency(this.count, inputs, readers);
  }

  private readonly _columns: IColumns;
  private _derived: IDerived;
  private readonly _wrt: ReadonlySet<number>;
  private readonly _holders: ReadonlySet<number>;
  private readonly _iterationNorms = new Map<ILoop, Float64Array>();
  private _covered: ReadonlySet<number> | null = null;
  private _found: ReadonlyMap<number, IFinding[]> | null = null;
}

/** How many steps of a profile the columns may name. */
function stepsOf({ profile }: IHeader): number {
  return profile?.steps.length ?? 0;
}

function statistics(column: Float64Array, node: number): IStatistics | null {
  const at = node * STATISTICS.length;
  if (Number.isNaN(column[at + BAD])) {
    return null;
  }
  const [min, max, mean, std, norm, bad] = column.subarray(at, at + STATISTICS.length);
  return { min, max, mean, std, norm, bad };
}

// What a header lists, by the nodes that it is about.

/** The findings at each node that has some, most important first. */
function findingsByNode({ findings }: IHeader): Map<number, IFinding[]> {
  const found = new Map<number, IFinding[]>();
  for (const finding of findings?.list ?? []) {
    const known = found.get(finding.node);
    if (known === undefined) {
      found.set(finding.node, [finding]);
    } else {
      known.push(finding);
    }
  }
  return found;
}

/** The nodes within what overrides that are on replace. */
function coveredNodes({ overrides }: IHeader): Set<number> {
  return new Set(overrides.flatMap(({ enabled, covered }) => (enabled ? covered : [])));
}

/** Whether the same overrides run with the same rules. */
function sameRules(a: IHeader, b: IHeader): boolean {
  const rules = ({ overrides }: IHeader): string =>
    JSON.stringify(
      overrides.map(({ id, rule, steps, enabled }) => [id, rule, steps, enabled])
    );
  return a.overrides === b.overrides || rules(a) === rules(b);
}

/** Whether two lists have the same entries. */
export function equal<T extends number | string>(
  a: ArrayLike<T> | undefined,
  b: ArrayLike<T> | undefined
): boolean {
  if (a === b) {
    return true;
  }
  if (a === undefined || b === undefined || a.length !== b.length) {
    return false;
  }
  // Numbers have a loop of their own: one for all kinds of lists is ten times as slow.
  if (a instanceof Int32Array && b instanceof Int32Array) {
    return equalIntegers(a, b);
  }
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) {
      return false;
    }
  }
  return true;
}

function equalIntegers(a: Int32Array, b: Int32Array): boolean {
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) {
      return false;
    }
  }
  return true;
}

/** A timeline with what is new: the points after those that stay. */
function mergePoints(before: ITimeline | null, news: ITimeline): ITimeline {
  const { keep } = news;
  if (before === null || keep === 0) {
    return news;
  }
  const join = <T>(old: readonly T[], more: readonly T[]): T[] => [
    ...old.slice(0, keep),
    ...more
  ];
  return {
    ...news,
    keep: 0,
    steps: join(before.steps, news.steps),
    losses: join(before.losses, news.losses),
    gradients: join(before.gradients, news.gradients)
  };
}
