/**
 * The order of the vertices within each row: first that of a walk from the
 * output up through the arguments, then a few sweeps that put each vertex at the
 * barycentre of its neighbours, keeping the order with the fewest crossings.
 */

import { IAdjacency, adjacency, countUp } from '../model/adjacency';
import { ITrunks } from './trunks';
import { ILayoutInput } from './types';

/** The rows of a layout. */
export interface IRows {
  /** Row r holds `vertices[start[r]] .. vertices[start[r + 1] - 1]`. */
  start: Int32Array;
  vertices: Int32Array;
  /** The place of a vertex in its row. */
  place: Int32Array;
  /** The neighbours of each vertex in the row above and in that below. */
  up: IAdjacency;
  down: IAdjacency;
}

/** Above this many pieces of edges crossings are not counted, only swept. */
const COUNTED = 40_000;

const SWEEPS = 8;

export function orderRows(input: ILayoutInput, trunks: ITrunks, rows: number): IRows {
  const { vertices, layer, upper, lower } = trunks;
  const all = countUp(vertices);
  const { start, items } = adjacency(rows, layer, all);
  const result: IRows = {
    start,
    vertices: items,
    place: new Int32Array(vertices),
    up: adjacency(vertices, lower, upper),
    down: adjacency(vertices, upper, lower)
  };
  const key = walkUp(input, trunks);
  const sorter = new RowSorter(input, trunks, result, key);
  for (let row = 0; row < rows; row++) {
    sorter.sort(row);
  }
  sweepRows(result, sorter, key, rows, trunks.upper.length <= COUNTED);
  return result;
}

function sweepRows(
  rows: IRows,
  sorter: RowSorter,
  key: Float64Array,
  count: number,
  counted: boolean
): void {
  let best = rows.vertices.slice();
  let fewest = counted ? countCrossings(rows, count) : Infinity;
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const downward = sweep % 2 === 0;
    for (let i = 1; i < count; i++) {
      const row = downward ? i : count - 1 - i;
      setBarycentres(rows, downward, row, key);
      sorter.sort(row);
    }
    const found = counted ? countCrossings(rows, count) : 0;
    if (!counted || found < fewest) {
      fewest = counted ? found : Infinity;
      best = rows.vertices.slice();
    }
  }
  rows.vertices.set(best);
  for (let row = 0; row < count; row++) {
    for (let i = rows.start[row]; i < rows.start[row + 1]; i++) {
      rows.place[rows.vertices[i]] = i - rows.start[row];
    }
  }
}

/** The number of each vertex in a walk up from the last boxes through arguments. */
function walkUp(input: ILayoutInput, trunks: ITrunks): Float64Array {
  const { count, sources, targets } = input;
  const incoming = adjacency(count, targets, sources);
  const key = new Float64Array(trunks.vertices).fill(-1);
  const stack: number[] = [];
  let number = 0;
  for (let last = count - 1; last >= 0; last--) {
    stack.push(last);
    while (stack.length > 0) {
      const box = stack.pop()!;
      if (key[box] >= 0) {
        continue;
      }
      key[box] = number++;
      for (let k = incoming.start[box + 1] - 1; k >= incoming.start[box]; k--) {
        if (key[incoming.items[k]] < 0) {
          stack.push(incoming.items[k]);
        }
      }
    }
  }
  for (let bend = count; bend < trunks.vertices; bend++) {
    key[bend] = key[trunks.owner[bend]];
  }
  return key;
}

/** Set the keys of one row from the places of the row above or below it. */
function setBarycentres(
  rows: IRows,
  downward: boolean,
  row: number,
  key: Float64Array
): void {
  const { start, vertices, place } = rows;
  const neighbours = downward ? rows.up : rows.down;
  let loose = false;
  for (let i = start[row]; i < start[row + 1]; i++) {
    const vertex = vertices[i];
    const from = neighbours.start[vertex];
    const to = neighbours.start[vertex + 1];
    let sum = 0;
    for (let k = from; k < to; k++) {
      sum += place[neighbours.items[k]];
    }
    key[vertex] = from === to ? i - start[row] : sum / (to - from);
    loose ||= from === to;
  }
  if (loose && downward) {
    keepBeside(rows, row, key);
  }
}

/**
 * A box with nothing above it, an input, stands beside the argument that its
 * reader takes before it, or else the next one: `W @ x + b` reads from left to
 * right.
 */
function keepBeside(rows: IRows, row: number, key: Float64Array): void {
  const { start, vertices, up, down } = rows;
  const isLoose = (vertex: number): boolean =>
    up.start[vertex] === up.start[vertex + 1];
  for (let i = start[row]; i < start[row + 1]; i++) {
    const vertex = vertices[i];
    if (!isLoose(vertex) || down.start[vertex] === down.start[vertex + 1]) {
      continue;
    }
    const reader = down.items[down.start[vertex]];
    const siblings = up.items.subarray(up.start[reader], up.start[reader + 1]);
    const own = siblings.indexOf(vertex);
    let beside = own - 1;
    while (beside >= 0 && isLoose(siblings[beside])) {
      beside--;
    }
    if (beside < 0) {
      beside = siblings.findIndex(sibling => !isLoose(sibling));
    }
    if (beside >= 0) {
      key[vertex] = key[siblings[beside]] + 1e-4 * (own - beside);
    }
  }
}

/** Sorts one row by a key, the members of a scope side by side. */
class RowSorter {
  constructor(
    input: ILayoutInput,
    private readonly _trunks: ITrunks,
    private readonly _rows: IRows,
    private readonly _key: Float64Array
  ) {
    const parent = input.groupParent;
    this._parent = parent;
    this._sum = new Float64Array(parent.length);
    this._size = new Int32Array(parent.length);
    this._paths = Array.from(parent, (_, group) => {
      const path = [group];
      for (let g = parent[group]; g >= 0; g = parent[g]) {
        path.unshift(g);
      }
      return path;
    });
  }

  sort(row: number): void {
    const { start, vertices, place } = this._rows;
    const members = vertices.subarray(start[row], start[row + 1]);
    const key = this._key;
    if (this._parent.length > 0) {
      this._meansOfGroups(members);
      members.sort((a, b) => this._compare(a, b) || place[a] - place[b]);
    } else if (members.length > 1) {
      members.sort((a, b) => key[a] - key[b] || place[a] - place[b]);
    }
    for (let i = 0; i < members.length; i++) {
      place[members[i]] = i;
    }
  }

  private _meansOfGroups(members: Int32Array): void {
    const touched: number[] = [];
    for (const vertex of members) {
      for (let g = this._trunks.group[vertex]; g >= 0; g = this._parent[g]) {
        if (this._size[g] === 0) {
          touched.push(g);
          this._sum[g] = 0;
        }
        this._sum[g] += this._key[vertex];
        this._size[g]++;
      }
    }
    for (const g of touched) {
      this._sum[g] /= this._size[g];
      this._size[g] = 0;
    }
  }

  private _compare(a: number, b: number): number {
    const group = this._trunks.group;
    const pathA = group[a] < 0 ? NO_PATH : this._paths[group[a]];
    const pathB = group[b] < 0 ? NO_PATH : this._paths[group[b]];
    for (let i = 0; ; i++) {
      if (i < pathA.length && i < pathB.length && pathA[i] === pathB[i]) {
        continue;
      }
      const keyA = i < pathA.length ? this._sum[pathA[i]] : this._key[a];
      const keyB = i < pathB.length ? this._sum[pathB[i]] : this._key[b];
      // Two scopes with one mean must not mix.
      return keyA - keyB || (pathA[i] ?? -1) - (pathB[i] ?? -1);
    }
  }

  private readonly _parent: Int32Array;
  private readonly _sum: Float64Array;
  private readonly _size: Int32Array;
  private readonly _paths: number[][];
}

const NO_PATH: number[] = [];

/** How many vertices stand in the row that has the most. */
export function widestRow({ start }: IRows): number {
  const widths = start.map((begin, row) => start[row + 1] - begin);
  return widths.subarray(0, -1).reduce((a, b) => Math.max(a, b), 0);
}

/** How many pairs of pieces cross, over all rows: an inversion count by a tree. */
function countCrossings(rows: IRows, count: number): number {
  const { start, vertices, place, down } = rows;
  let total = 0;
  const tree = new Int32Array(widestRow(rows) + 1);
  for (let row = 0; row + 1 < count; row++) {
    const width = start[row + 2] - start[row + 1];
    tree.fill(0, 0, width + 1);
    let seen = 0;
    for (let i = start[row]; i < start[row + 1]; i++) {
      const vertex = vertices[i];
      const to = down.start[vertex + 1];
      for (let k = down.start[vertex]; k < to; k++) {
        let notRight = 0;
        for (let t = place[down.items[k]] + 1; t > 0; t -= t & -t) {
          notRight += tree[t];
        }
        total += seen - notRight;
      }
      for (let k = down.start[vertex]; k < to; k++) {
        for (let t = place[down.items[k]] + 1; t <= width; t += t & -t) {
          tree[t]++;
        }
        seen++;
      }
    }
  }
  return total;
}
