/**
 * Where each vertex of a row stands. Every vertex is pulled towards the mean of
 * its neighbours in the rows beside it, and the positions of one row are those
 * nearest to what its vertices want, in their order and without overlap: a
 * weighted isotonic regression, linear in the row (the pool-adjacent-violators
 * algorithm; Barlow, Bartholomew, Bremner and Brunk, 1972).
 */

import { IAdjacency } from '../model/adjacency';
import { IRows, widestRow } from './order';
import { ILayoutInput, MEASURES } from './types';

/** Which neighbours pull in a pass. */
const enum Pull {
  above = 1,
  below = 2,
  both = 3
}

/** Rows are gone through downwards and upwards in turn. */
const PASSES: readonly Pull[] = [
  Pull.above,
  Pull.below,
  Pull.above,
  Pull.below,
  Pull.both,
  Pull.both,
  Pull.both,
  Pull.both
];

/** An edge that would lean by less than this is made upright if it can be. */
const UPRIGHT = 28;

/** How firmly a vertex holds on where nothing pulls at it. */
const IDLE = 1e-4;

export function placeRows(
  input: ILayoutInput,
  vertices: number,
  rows: IRows,
  count: number
): Float64Array {
  const placer = new Placer(input, vertices, rows);
  for (let row = 0; row < count; row++) {
    placer.pack(row);
  }
  PASSES.forEach((pull, pass) => {
    for (let i = 0; i < count; i++) {
      placer.settle(pass % 2 === 0 ? i : count - 1 - i, pull);
    }
  });
  for (let row = 1; row < count; row++) {
    placer.straighten(row);
  }
  return placer.x;
}

class Placer {
  readonly x: Float64Array;

  constructor(
    private readonly _input: ILayoutInput,
    vertices: number,
    private readonly _rows: IRows
  ) {
    this.x = new Float64Array(vertices);
    this._spine = findSpines(_rows, _input.count, vertex => this._isLeaf(vertex));
    const widest = widestRow(_rows);
    this._offset = new Float64Array(widest);
    this._wanted = new Float64Array(widest);
    this._weight = new Float64Array(widest);
    this._blockEnd = new Int32Array(widest);
    this._blockWeight = new Float64Array(widest);
    this._blockMean = new Float64Array(widest);
  }

  /** Put the vertices of a row side by side, the middle of the row at 0. */
  pack(row: number): void {
    const members = this._members(row);
    const width = this._measure(members);
    members.forEach((vertex, i) => {
      this.x[vertex] = this._offset[i] - width / 2;
    });
  }

  settle(row: number, pull: Pull): void {
    const members = this._members(row);
    this._measure(members);
    for (let i = 0; i < members.length; i++) {
      this._wish(members[i], i, pull);
    }
    this._solve(members);
  }

  /** Make the spines upright where that takes little. */
  straighten(row: number): void {
    const members = this._members(row);
    this._measure(members);
    for (let i = 0; i < members.length; i++) {
      const vertex = members[i];
      const above = this._spine.up[vertex];
      const near = above >= 0 && Math.abs(this.x[above] - this.x[vertex]) < UPRIGHT;
      this._wanted[i] = near ? this.x[above] : this.x[vertex];
      this._weight[i] = near ? this._spine.weight[vertex] : 1;
    }
    this._solve(members);
  }

  private _members(row: number): Int32Array {
    const { start, vertices } = this._rows;
    return vertices.subarray(start[row], start[row + 1]);
  }

  private _isLeaf(vertex: number): boolean {
    return vertex < this._input.count && this._input.leaf[vertex] === 1;
  }

  /** How far each member stands from the first at least; returns the whole width. */
  private _measure(members: Int32Array): number {
    const { count, left, right } = this._input;
    let at = 0;
    let reach = 0;
    for (let i = 0; i < members.length; i++) {
      const vertex = members[i];
      const bend = vertex >= count;
      if (i > 0) {
        const gap =
          bend || members[i - 1] >= count ? MEASURES.passing : MEASURES.column;
        at += reach + gap + (bend ? 0 : left[vertex]);
      }
      this._offset[i] = at;
      reach = bend ? MEASURES.passing : right[vertex];
    }
    return at;
  }

  /** Where a vertex wants to stand, and how much. */
  private _wish(vertex: number, i: number, pull: Pull): void {
    const { up, down } = this._rows;
    this._sum = 0;
    this._pulls = 0;
    this._leafSum = 0;
    this._leafPulls = 0;
    if ((pull & Pull.above) !== 0) {
      this._gather(up.items, up.start[vertex], up.start[vertex + 1], vertex);
    }
    if ((pull & Pull.below) !== 0) {
      this._gather(down.items, down.start[vertex], down.start[vertex + 1], vertex);
    }
    // Inputs go to where they are read, and move an op only if nothing else does:
    // so the spine of a program stays upright, with its inputs at its sides.
    if (this._pulls > 0) {
      this._wanted[i] = this._sum / this._pulls;
      this._weight[i] = this._isLeaf(vertex) ? 0.3 : this._pulls;
    } else if (this._leafPulls > 0) {
      this._wanted[i] = this._leafSum / this._leafPulls;
      this._weight[i] = 0.1;
    } else {
      this._wanted[i] = this.x[vertex];
      this._weight[i] = IDLE;
    }
  }

  private _gather(items: Int32Array, from: number, to: number, vertex: number): void {
    for (let k = from; k < to; k++) {
      const other = items[k];
      if (this._isLeaf(other)) {
        this._leafSum += this.x[other];
        this._leafPulls++;
        continue;
      }
      const spine =
        this._spine.up[vertex] === other || this._spine.down[vertex] === other;
      const weight = spine ? this._spine.weight[vertex] : 1;
      this._sum += weight * this.x[other];
      this._pulls += weight;
    }
  }

  private _solve(members: Int32Array): void {
    const { _offset, _wanted, _weight, _blockEnd, _blockWeight, _blockMean } = this;
    let blocks = 0;
    for (let i = 0; i < members.length; i++) {
      let mean = _wanted[i] - _offset[i];
      let weight = _weight[i];
      while (blocks > 0 && _blockMean[blocks - 1] > mean) {
        blocks--;
        const joined = weight + _blockWeight[blocks];
        mean = (mean * weight + _blockMean[blocks] * _blockWeight[blocks]) / joined;
        weight = joined;
      }
      _blockMean[blocks] = mean;
      _blockWeight[blocks] = weight;
      _blockEnd[blocks] = i + 1;
      blocks++;
    }
    for (let block = 0, i = 0; block < blocks; block++) {
      for (; i < _blockEnd[block]; i++) {
        this.x[members[i]] = _blockMean[block] + _offset[i];
      }
    }
  }

  private readonly _spine: ISpine;
  private readonly _offset: Float64Array;
  private readonly _wanted: Float64Array;
  private readonly _weight: Float64Array;
  private readonly _blockEnd: Int32Array;
  private readonly _blockWeight: Float64Array;
  private readonly _blockMean: Float64Array;
  private _sum = 0;
  private _pulls = 0;
  private _leafSum = 0;
  private _leafPulls = 0;
}

// The spines of a layout: paths that are drawn upright before anything else. A piece of
// an edge is in a spine if it is on the longest way up from its lower end and on the
// longest way down from its upper end; so a program's main line stays straight however
// many side branches leave it and come back.

interface ISpine {
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

function findSpines(
  rows: IRows,
  boxes: number,
  isLeaf: (vertex: number) => boolean
): ISpine {
  const { vertices, up, down } = rows;
  const heads = longestWays(vertices, up, boxes, isLeaf, false);
  const tails = longestWays(vertices, down, boxes, isLeaf, true);
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
      weighSpine(spine, vertex, boxes);
    }
  }
  return spine;
}

/** Where two spines are in each other's way the shorter one gives way. */
function weighSpine(spine: ISpine, top: number, boxes: number): void {
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
function longestWays(
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
