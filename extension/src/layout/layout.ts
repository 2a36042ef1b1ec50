/**
 * The layered layout of a graph of boxes, from top to bottom, after Sugiyama,
 * Tagawa and Toda (1981): rows, then orders within rows, then places. Each stage
 * is linear but for the sorting of rows; nothing here knows the DOM.
 */

import { assignLayers } from './layers';
import { IRows, orderRows } from './order';
import { placeRows } from './place';
import { ITrunks, growTrunks } from './trunks';
import { ILayout, ILayoutInput, MEASURES } from './types';

export function layOut(input: ILayoutInput): ILayout {
  const layers = assignLayers(input);
  const trunks = growTrunks(input, layers);
  const rows = orderRows(input, trunks, layers.rows);
  const x = placeRows(input, trunks.vertices, rows, layers.rows);
  const rowTop = rowTops(trunks, x, layers.rows);
  return {
    count: input.count,
    vertices: trunks.vertices,
    x,
    layer: trunks.layer,
    rowTop,
    rowStart: rows.start,
    rowVertices: rows.vertices,
    owner: trunks.owner,
    above: trunks.above,
    via: trunks.via,
    bounds: boundsOf(input, trunks, rows, x, rowTop)
  };
}

/** Rows stand further apart where edges between them go far to the side. */
function rowTops(trunks: ITrunks, x: Float64Array, rows: number): Float64Array {
  const lean = new Float64Array(rows + 1);
  const { upper, lower, layer } = trunks;
  for (let i = 0; i < upper.length; i++) {
    const row = layer[upper[i]];
    lean[row] = Math.max(lean[row], Math.abs(x[upper[i]] - x[lower[i]]));
  }
  const top = new Float64Array(rows + 1);
  for (let row = 0; row < rows; row++) {
    const wider = Math.min(60, Math.max(0, lean[row] - 240) * 0.04);
    top[row + 1] = top[row] + MEASURES.height + MEASURES.row + wider;
  }
  return top;
}

function boundsOf(
  input: ILayoutInput,
  trunks: ITrunks,
  rows: IRows,
  x: Float64Array,
  rowTop: Float64Array
): ILayout['bounds'] {
  let left = Infinity;
  let right = -Infinity;
  for (let vertex = 0; vertex < trunks.vertices; vertex++) {
    const box = vertex < input.count;
    left = Math.min(left, x[vertex] - (box ? input.left[vertex] : 0));
    right = Math.max(right, x[vertex] + (box ? input.right[vertex] : MEASURES.passing));
  }
  if (input.count === 0) {
    return { left: 0, top: 0, right: 0, bottom: 0 };
  }
  const last = rows.start.length - 2;
  return { left, top: 0, right, bottom: rowTop[last] + MEASURES.height };
}
