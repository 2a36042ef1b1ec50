/**
 * Which row each box stands in: every edge goes down, ops stand as high as their
 * inputs allow unless their edges get no longer lower down, and inputs stand just
 * above the first op that reads them. Linear time.
 */

import { IAdjacency, adjacency } from '../model/adjacency';
import { ILayoutInput } from './types';

/** So many inputs of one op stand side by side; more of them fill further rows. */
const ABREAST = 5;

export interface ILayers {
  layer: Int32Array;
  /** How many rows there are; none of them is empty. */
  rows: number;
  /** 1 for an edge that goes up: folding a scope can close a circle. */
  backward: Uint8Array;
}

export function assignLayers(input: ILayoutInput): ILayers {
  const { count, sources, targets } = input;
  const edges = Int32Array.from(sources.keys());
  const incoming = adjacency(count, targets, edges);
  const outgoing = adjacency(count, sources, edges);
  const { order, backward } = sortTopologically(input, incoming, outgoing);
  const layer = new Int32Array(count);
  for (const box of order) {
    layer[box] = highestRow(input, incoming, backward, layer, box);
  }
  // Down, then up again for what the first pass pulled too far, then down.
  for (const upward of [true, false, true]) {
    for (let i = 0; i < count; i++) {
      const box = upward ? order[count - 1 - i] : order[i];
      if (input.leaf[box] === 0) {
        balanceBox(input, incoming, outgoing, backward, layer, box);
      }
    }
  }
  placeLeaves(input, outgoing, layer);
  return { layer, rows: closeGaps(layer), backward };
}

/**
 * Boxes in an order in which each comes after what it reads. Where a circle
 * leaves nothing to take, the first box in the program's order is taken, and its
 * edges from boxes still open are the ones that will go up.
 */
function sortTopologically(
  input: ILayoutInput,
  incoming: IAdjacency,
  outgoing: IAdjacency
): { order: Int32Array; backward: Uint8Array } {
  const { count, sources, targets } = input;
  const order = new Int32Array(count);
  const backward = new Uint8Array(sources.length);
  const open = new Int32Array(count);
  const done = new Uint8Array(count);
  let length = 0;
  const take = (box: number): void => {
    done[box] = 1;
    order[length++] = box;
  };
  for (let box = 0; box < count; box++) {
    open[box] = incoming.start[box + 1] - incoming.start[box];
    if (open[box] === 0) {
      take(box);
    }
  }
  let first = 0;
  for (let read = 0; read < count; read++) {
    if (read === length) {
      while (done[first] === 1) {
        first++;
      }
      for (let k = incoming.start[first]; k < incoming.start[first + 1]; k++) {
        const edge = incoming.items[k];
        backward[edge] = done[sources[edge]] === 0 ? 1 : 0;
      }
      take(first);
    }
    const box = order[read];
    for (let k = outgoing.start[box]; k < outgoing.start[box + 1]; k++) {
      const target = targets[outgoing.items[k]];
      if (--open[target] === 0 && done[target] === 0) {
        take(target);
      }
    }
  }
  return { order, backward };
}

/** The highest row that a box can stand in, below all that it reads. */
function highestRow(
  input: ILayoutInput,
  incoming: IAdjacency,
  backward: Uint8Array,
  layer: Int32Array,
  box: number
): number {
  let row = 0;
  for (let k = incoming.start[box]; k < incoming.start[box + 1]; k++) {
    const edge = incoming.items[k];
    if (backward[edge] === 0) {
      row = Math.max(row, layer[input.sources[edge]] + 1);
    }
  }
  return row;
}

/**
 * Move an op to the end of its free range where the sum of its edges' lengths is
 * smallest. Edges from inputs do not count: an input moves along.
 */
function balanceBox(
  input: ILayoutInput,
  incoming: IAdjacency,
  outgoing: IAdjacency,
  backward: Uint8Array,
  layer: Int32Array,
  box: number
): void {
  const { sources, targets, leaf } = input;
  let low = 0;
  let above = 0;
  for (let k = incoming.start[box]; k < incoming.start[box + 1]; k++) {
    const edge = incoming.items[k];
    const source = sources[edge];
    if (backward[edge] === 1) {
      continue;
    }
    if (leaf[source] === 1) {
      // It moves along, or its trunk is there already; but it needs a row above.
      low = Math.max(low, 1);
    } else {
      low = Math.max(low, layer[source] + 1);
      above++;
    }
  }
  let high = Infinity;
  let below = 0;
  for (let k = outgoing.start[box]; k < outgoing.start[box + 1]; k++) {
    const edge = outgoing.items[k];
    if (backward[edge] === 0) {
      high = Math.min(high, layer[targets[edge]] - 1);
      below++;
    }
  }
  // Where it makes no difference a side branch stands near its reader.
  if (below > 0 && below >= above) {
    layer[box] = Math.max(low, high);
  } else if (above > below) {
    layer[box] = low;
  }
}

function placeLeaves(
  input: ILayoutInput,
  outgoing: IAdjacency,
  layer: Int32Array
): void {
  const { count, targets, leaf } = input;
  const beside = new Int32Array(count);
  for (let box = 0; box < count; box++) {
    if (leaf[box] === 0 || outgoing.start[box] === outgoing.start[box + 1]) {
      continue;
    }
    let reader = targets[outgoing.items[outgoing.start[box]]];
    for (let k = outgoing.start[box] + 1; k < outgoing.start[box + 1]; k++) {
      const target = targets[outgoing.items[k]];
      reader = layer[target] < layer[reader] ? target : reader;
    }
    layer[box] = layer[reader] - 1 - Math.floor(beside[reader]++ / ABREAST);
  }
}

/** Number the rows that are used from 0 on, and tell how many there are. */
function closeGaps(layer: Int32Array): number {
  let low = 0;
  let high = -1;
  for (const row of layer) {
    low = Math.min(low, row);
    high = Math.max(high, row);
  }
  const number = new Int32Array(high - low + 2);
  for (const row of layer) {
    number[row - low + 1] = 1;
  }
  for (let i = 1; i < number.length; i++) {
    number[i] += number[i - 1];
  }
  for (let i = 0; i < layer.length; i++) {
    layer[i] = number[layer[i] - low];
  }
  return number[number.length - 1];
}
