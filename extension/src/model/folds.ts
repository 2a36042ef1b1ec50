/** What can be folded: the user's scopes, and the loops that stand in them. */

import { linesText } from './clusters';

/** What folding needs to know of a graph. */
export interface IFoldable {
  count: number;
  kind(node: number): string;
  scope(node: number): string;
  op(node: number): string;
  place(node: number): string;
  line(node: number): number | null;
}

/** The path under which each node is folded: its scope, and the loop in it. */
export function foldPaths(graph: IFoldable): string[] {
  const paths = Array.from({ length: graph.count }, (_, node) => graph.scope(node));
  const members = new Map<string, number[]>();
  for (let node = 0; node < graph.count; node++) {
    if (graph.kind(node) === 'op') {
      const known = members.get(paths[node]);
      if (known === undefined) {
        members.set(paths[node], [node]);
      } else {
        known.push(node);
      }
    }
  }
  const used = new Set<string>();
  for (const [scope, nodes] of members) {
    for (const { start, end, period, times } of findRepeats(signaturesOf(graph, nodes))) {
      const body = nodes.slice(start, start + period);
      const path = unusedPath(scope, `×${times}${linesText(graph, body)}`, used);
      for (let i = start; i < end; i++) {
        paths[nodes[i]] = path;
      }
    }
  }
  return paths;
}

/** Equal numbers for the same op from the same line. */
function signaturesOf(graph: IFoldable, nodes: readonly number[]): Int32Array {
  const numbers = new Map<string, number>();
  return Int32Array.from(nodes, node => {
    const key = `${graph.op(node)}\n${graph.place(node)}`;
    let number = numbers.get(key);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(key, number);
    }
    return number;
  });
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

// Loops of the user's program, found again in its graph: runs of ops that repeat the
// same ops from the same lines. Each becomes a scope that can be folded.

/** A stretch of ops, `period` long, that is there `times` times on end. */
export interface IRepeat {
  /** Positions in the sequence: the first op, and one past the last. */
  start: number;
  end: number;
  period: number;
  times: number;
}

/** Fewer repetitions, or fewer ops in all of them, are read as they stand. */
const LEAST_TIMES = 4;
const LEAST_OPS = 20;

/** A loop's body has at most so many ops. */
const LONGEST = 5000;

/** How many distances to an equal op are tried as the length of a body. */
const TRIES = 4;

/** Comparisons for each op; a sequence made to take more is left as it is. */
const EFFORT = 60;

/**
 * The repeats in a sequence of signatures (equal numbers: the same op from the
 * same line), the shortest body from the earliest start, none over another.
 */
export function findRepeats(signatures: ArrayLike<number>): IRepeat[] {
  const count = signatures.length;
  const next = nextEqual(signatures);
  const repeats: IRepeat[] = [];
  let effort = EFFORT * count;
  for (let start = 0; start < count && effort > 0;) {
    let found: IRepeat | null = null;
    let candidate = next[start];
    for (let tried = 0; tried < TRIES && candidate >= 0; tried++) {
      const period = candidate - start;
      if (period > LONGEST || start + LEAST_TIMES * period > count) {
        break;
      }
      let same = 0;
      while (
        candidate + same < count &&
        signatures[start + same] === signatures[candidate + same]
      ) {
        same++;
      }
      effort -= same;
      const times = Math.floor(same / period) + 1;
      if (times >= LEAST_TIMES && times * period >= LEAST_OPS) {
        found = { start, end: start + times * period, period, times };
        break;
      }
      candidate = next[candidate];
    }
    if (found === null) {
      start++;
    } else {
      repeats.push(found);
      start = found.end;
    }
  }
  return repeats;
}

/** For each place the next one with the same signature, -1 for none. */
function nextEqual(signatures: ArrayLike<number>): Int32Array {
  const next = new Int32Array(signatures.length).fill(-1);
  const last = new Map<number, number>();
  for (let i = signatures.length - 1; i >= 0; i--) {
    next[i] = last.get(signatures[i]) ?? -1;
    last.set(signatures[i], i);
  }
  return next;
}
