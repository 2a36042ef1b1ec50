/**
 * The outlines of unfolded scopes: a rectangle where nothing else stands in it,
 * else the reach of the scope in each row.
 */

import { IItems } from '../layout/items';
import { ILayout, depthOf } from '../layout/types';
import { IRect } from './viewport';

export interface IOutline {
  group: number;
  /** Its first row, and how far it reaches in that and each further row. */
  first: number;
  left: Float64Array;
  right: Float64Array;
  /** How far it stands off what is in it. */
  pad: number;
  /** Where its name stands, on its upper left corner. */
  label: IRect;
}

const PAD = 11;
const STEP = 4;
const LEAST = 3;
const LABEL = 16;

/** The last part of "encoder/layer1". */
export function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

export function outlinesOf(items: IItems, layout: ILayout): IOutline[] {
  const { groupParent, left, right } = items.input;
  const { member } = items;
  const count = groupParent.length;
  const first = new Int32Array(count).fill(0x7fffffff);
  const last = new Int32Array(count).fill(-1);
  for (let item = 0; item < items.count; item++) {
    for (let g = member[item]; g >= 0; g = groupParent[g]) {
      first[g] = Math.min(first[g], layout.layer[item]);
      last[g] = Math.max(last[g], layout.layer[item]);
    }
  }
  const reaches = Array.from({ length: count }, (_, g) => {
    const rows = Math.max(0, last[g] - first[g] + 1);
    return {
      left: new Float64Array(rows).fill(Infinity),
      right: new Float64Array(rows).fill(-Infinity)
    };
  });
  for (let item = 0; item < items.count; item++) {
    for (let g = member[item]; g >= 0; g = groupParent[g]) {
      const reach = reaches[g];
      const row = layout.layer[item] - first[g];
      reach.left[row] = Math.min(reach.left[row], layout.x[item] - left[item]);
      reach.right[row] = Math.max(reach.right[row], layout.x[item] + right[item]);
    }
  }
  const outlines: IOutline[] = [];
  const labelEnd = new Float64Array(count);
  for (let g = 0; g < count; g++) {
    if (last[g] < 0) {
      continue;
    }
    const reach = reaches[g];
    bridgeRows(reach);
    straightenReach(items, layout, g, first[g], reach);
    const pad = Math.max(LEAST, PAD - STEP * depthOf(groupParent, g));
    // A scope that begins where the one around it does writes its name after it.
    const parent = groupParent[g];
    const beside = parent >= 0 && first[parent] === first[g] ? labelEnd[parent] : 0;
    const x = Math.max(reach.left[0] - pad, beside === 0 ? -Infinity : beside);
    const width = 22 + 6.4 * lastPart(items.groups[g]).length;
    labelEnd[g] = x + width;
    const y = layout.rowTop[first[g]] - PAD - LABEL + 1;
    outlines.push({
      group: g,
      first: first[g],
      ...reach,
      pad,
      label: { x, y, width, height: LABEL }
    });
  }
  return outlines;
}

interface IReach {
  left: Float64Array;
  right: Float64Array;
}

/** Rows without a member of the scope are as narrow as the ones beside them allow. */
function bridgeRows({ left, right }: IReach): void {
  for (let row = 1; row < left.length; row++) {
    if (left[row] > right[row]) {
      let next = row;
      while (left[next] > right[next]) {
        next++;
      }
      const low = Math.max(left[row - 1], left[next]);
      const high = Math.min(right[row - 1], right[next]);
      left[row] = Math.min(low, high);
      right[row] = Math.max(low, high);
    }
  }
}

/** Make it a rectangle if no card of others would come to stand in it. */
function straightenReach(
  items: IItems,
  layout: ILayout,
  group: number,
  first: number,
  reach: IReach
): void {
  const low = reach.left.reduce((a, b) => Math.min(a, b));
  const high = reach.right.reduce((a, b) => Math.max(a, b));
  const { rowStart, rowVertices, x, count } = layout;
  const { left, right, groupParent } = items.input;
  for (let row = 0; row < reach.left.length; row++) {
    for (let i = rowStart[first + row]; i < rowStart[first + row + 1]; i++) {
      const item = rowVertices[i];
      if (item >= count || x[item] - left[item] > high || x[item] + right[item] < low) {
        continue;
      }
      let g = items.member[item];
      while (g >= 0 && g !== group) {
        g = groupParent[g];
      }
      if (g !== group) {
        return;
      }
    }
  }
  reach.left.fill(low);
  reach.right.fill(high);
}
