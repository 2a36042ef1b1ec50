/**
 * What can be folded: the user's scopes, and the Python loops in them, which the trace
 * has unrolled and the kernel has found again.
 */

import { type IFolds, linesText } from './clusters';

/** What folding needs to know of a graph. */
export interface IFoldable {
  count: number;
  scope(node: number): string;
  line(node: number): number | null;
  /** The number of the loop that a node stands in, and its step; -1 for none. */
  loop(node: number): number;
  iteration(node: number): number;
}

/** A loop, its iterations counted from 0, as `steps=` counts them. */
export interface ILoop {
  /** The path under which it is folded: "rnn/×500 · lines 4–7". */
  path: string;
  /** How many iterations it has. */
  times: number;
  /** Its nodes, in the order of the program. */
  nodes: Int32Array;
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

/** The loops of a graph, by their numbers. */
export function loopsOf(graph: IFoldable): Map<number, ILoop> {
  const members = new Map<number, number[]>();
  for (let node = 0; node < graph.count; node++) {
    const loop = graph.loop(node);
    if (loop < 0 || graph.iteration(node) < 0) {
      continue;
    }
    const known = members.get(loop);
    if (known === undefined) {
      members.set(loop, [node]);
    } else {
      known.push(node);
    }
  }
  const used = new Set<string>();
  const loops = new Map<number, ILoop>();
  for (const [loop, nodes] of members) {
    const times = 1 + nodes.reduce((a, b) => Math.max(a, graph.iteration(b)), 0);
    const name = `×${times}${linesText(nodes, node => graph.line(node) ?? -1)}`;
    const path = unusedPath(graph.scope(nodes[0]), name, used);
    loops.set(loop, { path, times, nodes: Int32Array.from(nodes) });
  }
  return loops;
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

  /** Fold a path; a loop with none of its iterations open. */
  fold(path: string): Folding {
    const open = new Map(this.open);
    open.delete(path);
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

  /** What is left of it in another graph, where its own large loops are folded. */
  keepIn(loops: Iterable<ILoop>, scopes: ReadonlySet<string>, before: boolean): Folding {
    const folded = new Set([...this.folded].filter(path => scopes.has(path)));
    const open = new Map<string, number>();
    for (const { path, times, nodes } of loops) {
      if (!before && nodes.length >= FOLD_FROM) {
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
