/**
 * The spines of a layout: paths that are drawn upright before anything else. A
 * piece of an edge is in a spine if it is on the longest way up from its lower
 * end and on the longest way down from its upper end; so a program's main line
 * stays straight however many side branches leave it and come back.
 */

import { IAdjacency } from './adjacency';
import { IRows } from './order';

export interface ISpine {
  /** The next vertex of the spine upwards and downwards, -1 at its ends. */
  up: Int32Array;
  down: Int32Array;
  /** How firmly the spine of a vertex stands: the cube of its length in boxes. */
  weight: Float64Array;
}

/** A piece of a spine pulls so much more than any other, however short it is. */
const FIRM = 30;

/** Beyond this length all spines are equally firm. */
const LONG = 2000;

export function findSpines(
  rows: IRows,
  boxes: number,
  isLeaf: (vertex: number) => boolean
): ISpine {
  const { vertices, up, down } = rows;
  const heads = longest(vertices, up, boxes, isLeaf, false);
  const tails = longest(vertices, down, boxes, isLeaf, true);
  const spine: ISpine = {
    up: new Int32Array(vertices.length).fill(-1),
    down: new Int32Array(vertices.length).fill(-1),
    weight: new Float64Array(vertices.length)
  };
  for (const vertex of vertices) {
    const above = heads[vertex];
    if (above >= 0 && tails[above] === vertex) {
      spine.up[vertex] = above;
      spine.down[above] = vertex;
    }
  }
  for (const vertex of vertices) {
    if (spine.up[vertex] < 0) {
      weigh(spine, vertex, boxes);
    }
  }
  return spine;
}

/** Where two spines are in each other's way the shorter one gives way. */
function weigh(spine: ISpine, top: number, boxes: number): void {
  let length = 0;
  for (let vertex = top; vertex >= 0; vertex = spine.down[vertex]) {
    length += vertex < boxes ? 1 : 0;
  }
  const weight = FIRM * Math.min(Math.max(length, 1), LONG) ** 3;
  for (let vertex = top; vertex >= 0; vertex = spine.down[vertex]) {
    spine.weight[vertex] = weight;
  }
}

/** For each vertex the neighbour on its longest way through boxes; -1 for none. */
function longest(
  order: Int32Array,
  neighbours: IAdjacency,
  boxes: number,
  isLeaf: (vertex: number) => boolean,
  upward: boolean
): Int32Array {
  const length = new Int32Array(order.length);
  const best = new Int32Array(order.length).fill(-1);
  for (let i = 0; i < order.length; i++) {
    const vertex = upward ? order[order.length - 1 - i] : order[i];
    let found = -1;
    for (let k = neighbours.start[vertex]; k < neighbours.start[vertex + 1]; k++) {
      const other = neighbours.items[k];
      if (!isLeaf(other) && (found < 0 || length[other] > length[found])) {
        found = other;
      }
    }
    best[vertex] = found;
    // Inputs start no line of their own, and bends are no steps.
    length[vertex] =
      (found < 0 ? 0 : length[found]) + (vertex < boxes && !isLeaf(vertex) ? 1 : 0);
  }
  return best;
}
