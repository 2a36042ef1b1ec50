/**
 * What can be folded: the user's scopes, and the Python loops in them, which the trace
 * has unrolled and the kernel has found again.
 */

import { type IFolds, addClusters, linesText } from './clusters';

/** What folding needs to know of a graph. */
export interface IFoldable {
  count: number;
  scope(node: number): string;
  line(node: number): number | null;
  /** The number of the loop that a node stands in, and its step; -1 for none. */
  loop(node: number): number;
  iteration(node: number): number;
  /** The loop around a loop, by its number, and the iteration there; -1 for none. */
  around(loop: number): readonly [number, number];
}

/** A loop, its iterations counted from 0, as `steps=` counts them. */
export interface ILoop {
  /**
   * The path under which it is folded: "rnn/loop, lines 4–7, 500 steps". A loop in a loop is one
   * for each iteration there, and all of them have one path.
   */
  path: string;
  /** How many iterations it has. */
  times: number;
  /** Its nodes, in the order of the program, with those of the loops in it. */
  nodes: Int32Array;
  /** Those that stand in no loop in it. */
  own: Int32Array;
  /** The loop that it stands in, and the iteration there; null for none. */
  around: { loop: ILoop; at: number } | null;
}

/** What is known of the gradient along a loop: its norm before some of the steps. */
export interface ISteps {
  steps: number;
  marks: readonly number[];
  /** Null where it is not finite. */
  norms: readonly (number | null)[];
}

/** For each step, or each of so many parts, the norm at the last mark up to it. */
export function spreadNorms(
  { steps, marks, norms }: ISteps,
  parts = steps
): Float64Array {
  const spread = new Float64Array(marks.length === 0 ? 0 : parts).fill(NaN);
  const order = Array.from(marks.keys()).sort((a, b) => marks[a] - marks[b]);
  const partOf = (step: number): number => Math.floor((step / steps) * parts);
  order.forEach((i, k) => {
    const end = k + 1 < order.length ? partOf(marks[order[k + 1]]) : spread.length;
    const start = partOf(marks[i]);
    spread.fill(norms[i] ?? Infinity, start, Math.max(end, start + 1));
  });
  return spread;
}

/** Loops of so many nodes are folded from the start. */
const FOLD_FROM = 100;

/** Loops stand in no more loops than so many; others are told as if in none. */
const MOST_DEPTH = 16;

/** The loops of a graph, by their numbers. */
export function loopsOf(graph: IFoldable): Map<number, ILoop> {
  const all = new Map<number, number[]>();
  const own = new Map<number, number[]>();
  const times = new Map<number, number>();
  const add = (to: Map<number, number[]>, loop: number, node: number): void => {
    const known = to.get(loop);
    if (known === undefined) {
      to.set(loop, [node]);
    } else {
      known.push(node);
    }
  };
  for (let node = 0; node < graph.count; node++) {
    let [loop, at] = [graph.loop(node), graph.iteration(node)];
    for (let depth = 0; loop >= 0 && at >= 0 && depth < MOST_DEPTH; depth++) {
      add(all, loop, node);
      if (depth === 0) {
        add(own, loop, node);
      }
      times.set(loop, Math.max(times.get(loop) ?? 0, at + 1));
      [loop, at] = graph.around(loop);
    }
  }
  const used = new Set<string>();
  const loops = new Map<number, ILoop>();
  // The path of a loop in a loop, by the one around it and its place in an iteration.
  const paths = new Map<string, string>();
  const places = new Map<string, number>();
  const depths = new Map<number, number>();
  // Those around have smaller numbers.
  for (const loop of [...all.keys()].sort((a, b) => a - b)) {
    const nodes = all.get(loop) ?? [];
    const [number, at] = graph.around(loop);
    const depth = (depths.get(number) ?? -1) + 1;
    const outer = depth < MOST_DEPTH ? loops.get(number) : undefined;
    depths.set(loop, outer === undefined ? 0 : depth);
    const lines = linesText(nodes, node => graph.line(node) ?? -1);
    const name = loopName(lines, times.get(loop) ?? 0);
    let path: string;
    if (outer === undefined) {
      path = unusedPath(graph.scope(nodes[0]), name, used);
    } else {
      const iteration = `${number} ${at}`;
      const place = places.get(iteration) ?? 0;
      places.set(iteration, place + 1);
      const key = `${place} ${outer.path}`;
      path = paths.get(key) ?? unusedPath(outer.path, name, used);
      paths.set(key, path);
    }
    loops.set(loop, {
      path,
      times: times.get(loop) ?? 0,
      nodes: Int32Array.from(nodes),
      own: Int32Array.from(own.get(loop) ?? []),
      around: outer === undefined ? null : { loop: outer, at }
    });
  }
  return loops;
}

/** What a loop is called: "loop, lines 4–7, 500 steps". */
function loopName(lines: string, times: number): string {
  return ['loop', lines, `${times} steps`].filter(Boolean).join(', ');
}

/** What a loop is called without its steps: "loop, lines 4–7". */
export function loopHeading(name: string): string {
  return name.replace(/, \d+ steps$/, '');
}

/** The path under which each node is folded, loops after scopes: see `IClusterInput`. */
export function foldPaths(
  graph: IFoldable,
  loops: ReadonlyMap<number, ILoop>
): IFolds & { firstLoop: number } {
  const path = new Int32Array(graph.count);
  const paths: string[] = [];
  const known = new Map<string, number>();
  for (let node = 0; node < graph.count; node++) {
    const scope = graph.scope(node);
    let at = known.get(scope);
    if (at === undefined) {
      at = paths.push(scope) - 1;
      known.set(scope, at);
    }
    path[node] = at;
  }
  const firstLoop = paths.length;
  const places = new Map<number, number>();
  for (const [number, loop] of loops) {
    places.set(number, paths.push(loop.path) - 1);
  }
  if (loops.size > 0) {
    for (let node = 0; node < graph.count; node++) {
      path[node] = places.get(graph.loop(node)) ?? path[node];
    }
  }
  return { path, paths, firstLoop };
}

/** What is asked of a program to fold it: flat arrays, which a worker takes. */
export interface IFoldInput {
  count: number;
  /** The texts that `scope` names by their places; negative for no scope. */
  strings: readonly string[];
  scope: Int32Array;
  line: Int32Array;
  loop: Int32Array | undefined;
  iteration: Int32Array | undefined;
  /** The loop around each loop, and the iteration there. */
  around: readonly (readonly [number, number])[] | undefined;
  output: number;
  wrt: readonly number[];
  /** 1 for an op, 0 for an input or constant. */
  ops: Uint8Array;
  /** Node i reads `inputs[inputStart[i]]` and so on, up to the start of the next. */
  inputStart: Int32Array;
  inputs: Int32Array;
}

/** How a program is folded: the paths of its nodes, and its loops by their numbers. */
export interface IFolded {
  folds: IFolds;
  loops: ReadonlyMap<number, ILoop>;
}

/** Find the loops of a program, and the path of each node among all that can be folded. */
export function findFolds(input: IFoldInput): IFolded {
  const { count, strings, scope, loop, iteration, around } = input;
  const foldable: IFoldable = {
    count,
    scope: node => (scope[node] < 0 ? '' : strings[scope[node]]),
    line: node => (input.line[node] < 0 ? null : input.line[node]),
    loop: node => loop?.[node] ?? -1,
    iteration: node => iteration?.[node] ?? -1,
    around: number => around?.[number] ?? [-1, -1]
  };
  const loops = loopsOf(foldable);
  const wrt = new Uint8Array(count);
  for (const node of input.wrt) {
    wrt[node] = 1;
  }
  const { output, ops, line, inputStart, inputs } = input;
  const rest = { output, ops, wrt, line, inputStart, inputs };
  return { folds: addClusters({ ...foldPaths(foldable, loops), ...rest }), loops };
}

/** A scope, a scope inside one, or a loop ("loop, line 4, 200 steps"), with what is in it. */
export interface IScope {
  /** "encoder/layer1" */
  path: string;
  /** The path of the scope around it; null at the top. */
  parent: string | null;
  depth: number;
  /** How many nodes stand in it and in the scopes inside it. */
  nodes: number;
}

/** The scopes on the paths of all nodes, each after the one around it. */
export function scopesOf({ path, paths }: IFolds): Map<string, IScope> {
  const sizes = new Int32Array(paths.length);
  const used: number[] = [];
  for (const place of path) {
    if (sizes[place]++ === 0) {
      used.push(place);
    }
  }
  const scopes = new Map<string, IScope>();
  for (const place of used) {
    for (const one of pathsTo(paths[place])) {
      const scope = scopes.get(one);
      if (scope === undefined) {
        const cut = one.lastIndexOf('/');
        const parent = cut < 0 ? null : one.slice(0, cut);
        scopes.set(one, {
          path: one,
          parent,
          depth: parent === null ? 0 : (scopes.get(parent)?.depth ?? 0) + 1,
          nodes: sizes[place]
        });
      } else {
        scope.nodes += sizes[place];
      }
    }
  }
  return scopes;
}

/** "a/b/c" is in "a", "a/b" and "a/b/c". */
function pathsTo(scope: string): string[] {
  if (scope === '') {
    return [];
  }
  const parts = scope.split('/');
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}

function unusedPath(scope: string, name: string, used: Set<string>): string {
  const base = scope === '' ? name : `${scope}/${name}`;
  let path = base;
  for (let number = 2; used.has(path); number++) {
    path = `${base} (${number})`;
  }
  used.add(path);
  return path;
}

/**
 * What is folded: scopes and loops by their paths, and of some loops the iteration that
 * is open, between two cards for those before and after it. It never changes.
 */
export class Folding {
  constructor(
    readonly folded: ReadonlySet<string> = new Set(),
    readonly open: ReadonlyMap<string, number> = new Map()
  ) {}

  /** Fold a path; a loop with none of its iterations open, and none of those in it. */
  fold(path: string): Folding {
    const open = new Map(
      [...this.open].filter(([one]) => one !== path && !one.startsWith(`${path}/`))
    );
    return new Folding(new Set([...this.folded, path]), open);
  }

  /** Fold many paths at once. */
  foldAll(paths: readonly string[]): Folding {
    const open = new Map([...this.open].filter(([path]) => !paths.includes(path)));
    return new Folding(new Set([...this.folded, ...paths]), open);
  }

  /** Show all that is in a path, of a loop all iterations. */
  unfold(path: string): Folding {
    const { folded, open } = this.fold(path);
    return new Folding(new Set([...folded].filter(one => one !== path)), open);
  }

  /** Show one iteration of a loop. */
  openIteration(path: string, iteration: number): Folding {
    const folded = new Set([...this.folded, path]);
    return new Folding(folded, new Map([...this.open, [path, iteration]]));
  }

  /** Whether nothing around a path hides it. */
  isInSight(path: string): boolean {
    return [...this.folded].every(
      one => !path.startsWith(`${one}/`) || this.open.has(one)
    );
  }

  /** What is left of it in another graph, where its own large loops are folded. */
  keepIn(loops: Iterable<ILoop>, scopes: ReadonlySet<string>, before: boolean): Folding {
    const folded = new Set([...this.folded].filter(path => scopes.has(path)));
    const open = new Map<string, number>();
    for (const { path, times, nodes, around } of loops) {
      // A loop in a folded one is folded too: one iteration there is short.
      const inFolded = around !== null && folded.has(around.loop.path);
      if (!before && (nodes.length >= FOLD_FROM || inFolded)) {
        folded.add(path);
      }
      const iteration = this.open.get(path);
      if (iteration !== undefined && iteration < times && folded.has(path)) {
        open.set(path, iteration);
      }
    }
    return new Folding(folded, open);
  }

  equals(other: Folding): boolean {
    return (
      this === other ||
      (this.folded.size === other.folded.size &&
        this.open.size === other.open.size &&
        [...this.folded].every(path => other.folded.has(path)) &&
        [...this.open].every(([path, at]) => other.open.get(path) === at))
    );
  }
}
