/** Ways through a graph, and two nodes that were chosen with the way between them. */

import type { Graph } from './graph';

/** Two chosen nodes: which is computed from which, and by way of what. */
export interface IPair {
  /** The later one, which a derivative is of; the earlier one, which it is by. */
  of: number;
  wrt: number;
  /** For each node whether it is on a way between them; null if there is no way. */
  way: Uint8Array | null;
}

/** The pair of two nodes, whichever was chosen first. */
export function pairOf(graph: Graph, one: number, other: number): IPair {
  // Nodes read only earlier ones: of two, only the later can be computed from
  // the other.
  const [wrt, of] = one < other ? [one, other] : [other, one];
  const way = nodesBetween(graph, wrt, of);
  return { of, wrt, way: way[of] === 1 ? way : null };
}

/** The nodes on some way from a node to a later one, both ends included. */
export function nodesBetween(graph: Graph, from: number, to: number): Uint8Array {
  // One pass down marks what `from` reaches, one pass up keeps of that what
  // reaches `to`.
  const reached = nodesReachedFrom(graph, from, to);
  return reached[to] === 0 ? new Uint8Array(graph.count) : nodesReadBy(graph, to, reached);
}

/** The nodes that are computed from a node, itself included, as far as `last`. */
export function nodesReachedFrom(
  graph: Graph,
  from: number,
  last = graph.count - 1
): Uint8Array {
  const on = new Uint8Array(graph.count);
  on[from] = 1;
  for (let node = from + 1; node <= last; node++) {
    for (const input of graph.inputs(node)) {
      if (on[input] === 1) {
        on[node] = 1;
        break;
      }
    }
  }
  return on;
}

/** The nodes that a node is computed from, itself included, as far as they are `among`. */
export function nodesReadBy(graph: Graph, node: number, among?: Uint8Array): Uint8Array {
  const on = new Uint8Array(graph.count);
  on[node] = 1;
  for (let at = node; at >= 0; at--) {
    if (on[at] === 1) {
      for (const input of graph.inputs(at)) {
        on[input] = among?.[input] ?? 1;
      }
    }
  }
  return on;
}
