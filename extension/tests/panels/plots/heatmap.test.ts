import { describe, expect, it } from 'vitest';

import { HeatMap } from '../../../src/panels/plots/heatmap';
import type { IMatrix } from '../../../src/wire/protocol';
import type { IPlotAnswer } from '../../../src/wire/protocol';
import { H, W, network } from '../../helpers/network';
import { readGraph } from '../../helpers/programs';

const { header, buffers } = network();
const graph = readGraph(header, buffers);

/** The heat map of ∂h/∂W with these traces. */
function mapOf(
  data: object[],
  changes: Partial<IMatrix> = {},
  second = false
): HeatMap {
  const answer: IPlotAnswer = {
    type: 'plot',
    seq: 1,
    request: 1,
    title: '',
    note: '',
    figure: { data, layout: {} },
    matrix: {
      kind: 'jacobian',
      of: H,
      wrt: [W],
      path: [],
      mode: '',
      rows: 10,
      columns: 6,
      window: { rows: [0, 2], columns: [0, 2] },
      block: [1, 1],
      ...changes
    },
    views: [],
    overrides: [],
    is_true: false,
    verdict: null,
    zero: ''
  };
  return HeatMap.of(answer, graph, second)!;
}

const AXES = { x: ['W[0]', 'W[1]'], y: ['h[0]', 'h[1]'] };

describe('HeatMap', () => {
  it('G2: tells the number of an entry with all its digits', () => {
    const z = [
      [1, -1.23456789],
      [0, 2e-9]
    ];
    const map = mapOf([{ ...AXES, z }]);
    expect(map.textOf({ row: 0, column: 1 })).toBe('∂ h[0] / ∂ W[1] = −1.2345679');
    expect(map.textOf({ row: 1, column: 0 })).toBe('∂ h[1] / ∂ W[0] = 0');
    const second = mapOf([{ ...AXES, z }], { wrt: [W], rows: 6 }, true);
    expect(second.textOf({ row: 1, column: 1 })).toBe('∂² / ∂ h[1] ∂ W[1] = 2e−9');
  });

  it('of blocks tells the largest entry, and where it stands', () => {
    const text = [
      ['', ' at [3], [0, 1]'],
      ['', '']
    ];
    const z = [
      [0, 7],
      [0, 0]
    ];
    const window: IMatrix['window'] = { rows: [0, 10], columns: [0, 6] };
    const map = mapOf([{ ...AXES, z, text }], { window, block: [5, 3] });
    expect(map.entryOf(0, 1)).toEqual({ row: 0, column: 3 });
    expect(map.textOf({ row: 4, column: 5 })).toBe(
      '∂ h[0] / ∂ W[1]: largest 7 at [3], [0, 1]'
    );
  });

  it('never hides what is not finite', () => {
    const z = [
      [null, 1],
      [null, 1]
    ];
    const text = [
      ['−infinity at [0], [0]', ''],
      ['', '']
    ];
    const map = mapOf([{ ...AXES, z }, { text }]);
    expect(map.textOf({ row: 0, column: 0 })).toContain('= −infinity at [0]');
    expect(map.textOf({ row: 1, column: 0 })).toContain('= NaN');
  });

  it('of a pattern tells what is zero', () => {
    const z = [
      [1, null],
      [0.25, 1]
    ];
    const map = mapOf([{ ...AXES, z }], { kind: 'sparsity' });
    expect(map.textOf({ row: 0, column: 0 })).toBe('∂ h[0] / ∂ W[0] is not zero');
    expect(map.textOf({ row: 0, column: 1 })).toBe('∂ h[0] / ∂ W[1] is zero');
    const window: IMatrix['window'] = { rows: [0, 10], columns: [0, 6] };
    const pooled = mapOf([{ ...AXES, z }], { kind: 'sparsity', window, block: [5, 3] });
    expect(pooled.textOf({ row: 9, column: 0 })).toContain('25\u00a0% not zero');
    expect(pooled.textOf({ row: 0, column: 5 })).toContain('all zero');
  });

  it('of a coloured pattern tells the colours', () => {
    const z = [
      [1, null],
      [2, 1]
    ];
    const map = mapOf([{ ...AXES, z }], { kind: 'sparsity', colours: 2 });
    const text = '∂ h[1] / ∂ W[0] can differ from zero, colour 2';
    expect(map.textOf({ row: 1, column: 0 })).toBe(text);
    expect(map.textOf({ row: 0, column: 1 })).toContain('is always zero');
    const window: IMatrix['window'] = { rows: [0, 10], columns: [0, 6] };
    const pooled = mapOf([{ ...AXES, z: [[0.25, null]].concat([[1, 1]]) }], {
      kind: 'sparsity',
      window,
      block: [5, 3],
      colours: 0
    });
    expect(pooled.textOf({ row: 0, column: 0 })).toContain('25\u00a0% can differ');
    expect(pooled.textOf({ row: 0, column: 5 })).toContain('all always zero');
  });

  it('whose numbers are not understood is not walked', () => {
    const map = mapOf([{ z: [[1]] }]);
    expect(map.walkable).toBe(false);
    expect(map.textOf({ row: 1, column: 1 })).toBe('∂ [1] / ∂ [1]');
  });
});
