/**
 * Long edges get a bend in each row that they pass through, so that the rows
 * make room for them. All long edges of one source share one trunk of bends: an
 * input that a thousand steps read costs one bend a row, not a thousand.
 */

import { ILayers } from './layers';
import { ILayoutInput, depthOf } from './types';

/** The boxes and bends of a layout, and the pieces of edges between rows. */
export interface ITrunks {
  vertices: number;
  layer: Int32Array;
  owner: Int32Array;
  above: Int32Array;
  via: Int32Array;
  /** Each piece goes from a vertex to one in the next row. */
  upper: Int32Array;
  lower: Int32Array;
  group: Int32Array;
}

export function growTrunks(input: ILayoutInput, layers: ILayers): ITrunks {
  const { count, sources, targets } = input;
  const { layer, backward } = layers;
  const end = trunkEnds(input, layers);
  const length = (box: number): number => Math.max(0, end[box] - layer[box] - 1);
  const straight = new Uint8Array(count);
  const kept = countBends(input, layers, length, straight);
  const vertices = count + kept;
  const trunks: ITrunks = {
    vertices,
    layer: new Int32Array(vertices),
    owner: new Int32Array(vertices),
    above: new Int32Array(vertices).fill(-1),
    via: new Int32Array(sources.length).fill(-1),
    upper: new Int32Array(0),
    lower: new Int32Array(0),
    group: new Int32Array(vertices).fill(-1)
  };
  trunks.layer.set(layer);
  trunks.group.set(input.group);
  const first = new Int32Array(count);
  let next = count;
  for (let box = 0; box < count; box++) {
    trunks.owner[box] = box;
    first[box] = next;
    const bends = straight[box] === 1 ? 0 : length(box);
    for (let i = 0; i < bends; i++, next++) {
      trunks.layer[next] = layer[box] + 1 + i;
      trunks.owner[next] = box;
      trunks.above[next] = i === 0 ? box : next - 1;
    }
  }
  const upper: number[] = [];
  const lower: number[] = [];
  for (let bend = count; bend < vertices; bend++) {
    upper.push(trunks.above[bend]);
    lower.push(bend);
  }
  const shared = sharedGroups(input);
  for (let edge = 0; edge < sources.length; edge++) {
    const source = sources[edge];
    const span = layer[targets[edge]] - layer[source];
    if (backward[edge] === 1 || (span > 1 && straight[source] === 1)) {
      continue;
    }
    trunks.via[edge] = span === 1 ? source : first[source] + span - 2;
    upper.push(trunks.via[edge]);
    lower.push(targets[edge]);
  }
  for (let bend = count; bend < vertices; bend++) {
    trunks.group[bend] = shared[trunks.owner[bend]];
  }
  trunks.upper = Int32Array.from(upper);
  trunks.lower = Int32Array.from(lower);
  return trunks;
}

/** The row of the lowest box that reads a box. */
function trunkEnds(input: ILayoutInput, layers: ILayers): Int32Array {
  const end = layers.layer.slice();
  for (let edge = 0; edge < input.sources.length; edge++) {
    if (layers.backward[edge] === 0) {
      const source = input.sources[edge];
      end[source] = Math.max(end[source], layers.layer[input.targets[edge]]);
    }
  }
  return end;
}

/**
 * How many bends there will be. Beyond a few for each box those trunks are given
 * up (marked in `straight`) that have the most bends for each edge in them: a
 * thousand states that are all stacked at the end would need half a million.
 */
function countBends(
  input: ILayoutInput,
  layers: ILayers,
  length: (box: number) => number,
  straight: Uint8Array
): number {
  const { count, sources, targets } = input;
  const budget = 4 * count + 2000;
  let total = 0;
  for (let box = 0; box < count; box++) {
    total += length(box);
  }
  if (total <= budget) {
    return total;
  }
  const carried = new Int32Array(count);
  for (let edge = 0; edge < sources.length; edge++) {
    if (layers.layer[targets[edge]] - layers.layer[sources[edge]] > 1) {
      carried[sources[edge]]++;
    }
  }
  const cost = Float64Array.from(carried, (edges, box) => length(box) / (edges || 1));
  const dearest = Int32Array.from(cost.keys()).sort((a, b) => cost[b] - cost[a]);
  for (const box of dearest) {
    if (total <= budget) {
      break;
    }
    straight[box] = 1;
    total -= length(box);
  }
  return total;
}

/** The innermost scope that holds a box and all that read it; -1 for none. */
function sharedGroups(input: ILayoutInput): Int32Array {
  const { count, sources, targets, group, groupParent } = input;
  const depth = groupParent.map((_, g) => depthOf(groupParent, g));
  const shared = group.slice(0, count);
  for (let edge = 0; edge < sources.length; edge++) {
    let a = shared[sources[edge]];
    let b = group[targets[edge]];
    while (a !== b) {
      if (b < 0 || (a >= 0 && depth[a] >= depth[b])) {
        a = groupParent[a];
      } else {
        b = groupParent[b];
      }
    }
    shared[sources[edge]] = a;
  }
  return shared;
}
