/** Which nodes read each node: the edges of a graph turned round. Pure. */

/** The readers of node i are `nodes[start[i]]` to `nodes[start[i + 1] - 1]`. */
export interface IReaders {
  start: Int32Array;
  nodes: Int32Array;
  /** The edge to each of them. */
  edges: Int32Array;
}

/** A counting sort of the inputs. */
export function readersOf(
  inputStart: Int32Array,
  inputs: Int32Array,
  count: number
): IReaders {
  const start = new Int32Array(count + 1);
  for (const input of inputs) {
    start[input + 1]++;
  }
  for (let i = 0; i < count; i++) {
    start[i + 1] += start[i];
  }
  const next = start.slice(0, count);
  const nodes = new Int32Array(inputs.length);
  const edges = new Int32Array(inputs.length);
  for (let node = 0; node < count; node++) {
    for (let edge = inputStart[node]; edge < inputStart[node + 1]; edge++) {
      const at = next[inputs[edge]]++;
      nodes[at] = node;
      edges[at] = edge;
    }
  }
  return { start, nodes, edges };
}
