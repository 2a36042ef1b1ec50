import { describe, expect, it } from 'vitest';

import { Cells, partOf, sameWindow, startsOf } from '../../../src/panels/plots/cells';
import { readMatrix, readTexts } from '../../../src/panels/plots/heatmap';
import type { IMatrix, IWindow } from '../../../src/wire/protocol';
import { H, W, network } from '../../helpers/network';
import { readGraph } from '../../helpers/programs';

const { header, buffers } = network();
const graph = readGraph(header, buffers);

function matrixOf(changes: Partial<IMatrix> = {}): IMatrix {
  return {
    kind: 'jacobian',
    of: H,
    wrt: [W],
    path: [],
    mode: '',
    rows: 10,
    columns: 6,
    window: { rows: [0, 10], columns: [0, 6] },
    block: [1, 1],
    ...changes
  };
}

describe('cells', () => {
  it('do not reach over the edge of a group, as in the kernel', () => {
    expect(startsOf([5, 3], [1, 8], 2)).toEqual([1, 3, 5, 7, 8]);
    expect(startsOf([5, 3], [0, 5], 4)).toEqual([0, 4, 5]);
    expect(startsOf([5, 3], [6, 7], 1)).toEqual([6, 7]);
  });

  it('are those of the nodes on both sides', () => {
    const cells = new Cells(graph, matrixOf({ block: [4, 4] }), false);
    expect(cells.rows).toEqual([0, 4, 8, 10]);
    expect(cells.columns).toEqual([0, 4, 6]);
    expect(cells.single).toBe(false);
    const whole = matrixOf({
      wrt: [W, H],
      rows: 16,
      columns: 16,
      window: { rows: [0, 16], columns: [0, 16] },
      block: [4, 4]
    });
    expect(new Cells(graph, whole, true).rows).toEqual([0, 4, 6, 10, 14, 16]);
  });

  it('are of one size where the groups do not add up', () => {
    const odd = matrixOf({
      wrt: [W, 99],
      columns: 9,
      window: { rows: [0, 10], columns: [0, 9] },
      block: [1, 3]
    });
    expect(new Cells(graph, odd, false).columns).toEqual([0, 3, 6, 9]);
  });

  it('that are seen are a part of the matrix', () => {
    const cells = new Cells(graph, matrixOf({ block: [2, 1] }), false);
    const part = (x: [number, number] | null, y: [number, number] | null): number[] => {
      const { rows, columns } = cells.windowOf({ x, y });
      return [...rows, ...columns];
    };
    expect(part([0.5, 2.5], [2.5, 0.5])).toEqual([2, 6, 1, 3]);
    expect(part(null, [0.4, 0.45])).toEqual([0, 2, 0, 6]);
    // Half of a cell counts, a hair of it does not.
    expect(part([1.45, 2], null)).toEqual([0, 10, 2, 3]);
    // Beyond the matrix there is nothing, beyond a part there is more of it.
    expect(part([-9, 99], [-9, 99])).toEqual([0, 10, 0, 6]);
    const inner = matrixOf({ window: { rows: [4, 6], columns: [2, 4] } });
    const { rows, columns } = new Cells(graph, inner, false).windowOf({
      x: [-1.5, 1.5],
      y: [2.5, -1.5]
    });
    expect([rows, columns]).toEqual([
      [3, 7],
      [1, 4]
    ]);
  });

  it('zoom around one, down to a single entry and out to all', () => {
    let cells = new Cells(graph, matrixOf(), false);
    const wide = cells.zoomAround(9, 0, 1 / 4);
    expect(wide).toEqual({ rows: [8, 10], columns: [0, 1] });
    cells = new Cells(graph, matrixOf({ window: wide }), false);
    expect(cells.single).toBe(true);
    expect(cells.zoomAround(1, 0, 1 / 4)).toEqual({ rows: [9, 10], columns: [0, 1] });
    expect(cells.zoomAround(1, 0, 100)).toEqual({ rows: [0, 10], columns: [0, 6] });
  });

  it('of a hundred thousand entries are reached in few steps', () => {
    const size = 100_000;
    let matrix = matrixOf({
      rows: size,
      columns: size,
      window: { rows: [0, size], columns: [0, size] },
      block: [500, 500]
    });
    for (let step = 0; step < 3; step++) {
      const cells = new Cells(graph, matrix, false);
      const window = cells.windowOf({ x: [99.5, 102.5], y: [99.5, 102.5] });
      const block = Math.ceil((window.rows[1] - window.rows[0]) / 200);
      matrix = matrixOf({ ...matrix, window, block: [block, block] });
    }
    expect(matrix.window.rows[1] - matrix.window.rows[0]).toBe(3);
    expect(matrix.block).toEqual([1, 1]);
  });

  it('a window of all entries is no part', () => {
    const matrix = matrixOf();
    expect(partOf(matrix, matrix.window)).toBeNull();
    const part: IWindow = { rows: [0, 10], columns: [0, 5] };
    expect(partOf(matrix, part)).toBe(part);
    expect(sameWindow(matrix, null, matrix.window)).toBe(true);
    expect(sameWindow(matrix, part, null)).toBe(false);
  });
});

describe('numbers of a figure', () => {
  const encode = (array: Float32Array | Int8Array): string =>
    btoa(String.fromCharCode(...new Uint8Array(array.buffer)));

  it('are read from lists and from base64', () => {
    const lists = [
      [1, null],
      [3, 4]
    ];
    expect(readMatrix(lists)).toEqual({
      rows: 2,
      columns: 2,
      values: Float64Array.of(1, NaN, 3, 4)
    });
    const bdata = encode(Float32Array.of(1, 2, 3, 4, 5, 6));
    expect(readMatrix({ dtype: 'f4', bdata, shape: '2, 3' })).toEqual({
      rows: 2,
      columns: 3,
      values: Float32Array.of(1, 2, 3, 4, 5, 6)
    });
    const one = { dtype: 'i1', bdata: encode(Int8Array.of(-1)), shape: '1,1' };
    expect(readMatrix(one)).toEqual({ rows: 1, columns: 1, values: Int8Array.of(-1) });
  });

  it('that are none are refused', () => {
    const bdata = encode(Float32Array.of(1, 2));
    for (const bad of [
      null,
      'x',
      {},
      [[1], [1, 2]],
      [[1], 2],
      { dtype: 'f4', bdata, shape: '2, 2' },
      { dtype: 'f4', bdata, shape: '1, 1, 2' },
      { dtype: 'f4', bdata: '%', shape: '1, 2' },
      { dtype: 'toString', bdata, shape: '1, 2' },
      { dtype: 'f4', bdata, shape: 'x' }
    ]) {
      expect(readMatrix(bad), JSON.stringify(bad)).toBeNull();
    }
    expect(readTexts(['a', 'b'])).toEqual(['a', 'b']);
    expect(readTexts(['a', 1])).toBeNull();
    expect(readTexts({ bdata })).toBeNull();
  });
});
