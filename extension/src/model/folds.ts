/** What can be folded: the user's scopes, and the loops that stand in them. */

import { findRepeats } from './repeats';

/** What folding needs to know of a graph. */
export interface IFoldable {
  count: number;
  isOp(node: number): boolean;
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
    if (graph.isOp(node)) {
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
    for (const { start, end, period, times } of findRepeats(signatures(graph, nodes))) {
      const body = nodes.slice(start, start + period);
      const path = unused(scope, `×${times}${lines(graph, body)}`, used);
      for (let i = start; i < end; i++) {
        paths[nodes[i]] = path;
      }
    }
  }
  return paths;
}

/** Equal numbers for the same op from the same line. */
function signatures(graph: IFoldable, nodes: readonly number[]): Int32Array {
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

/** " · line 4", " · lines 4–7". */
function lines(graph: IFoldable, body: readonly number[]): string {
  let first = Infinity;
  let last = -Infinity;
  for (const node of body) {
    const line = graph.line(node);
    if (line !== null) {
      first = Math.min(first, line);
      last = Math.max(last, line);
    }
  }
  if (first > last) {
    return '';
  }
  return first === last ? ` · line ${first}` : ` · lines ${first}–${last}`;
}

function unused(scope: string, name: string, used: Set<string>): string {
  const base = scope === '' ? name : `${scope}/${name}`;
  let path = base;
  for (let number = 2; used.has(path); number++) {
    path = `${base} (${number})`;
  }
  used.add(path);
  return path;
}
