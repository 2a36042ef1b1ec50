// @vitest-environment jsdom
import '../../helpers/browser';

import { describe, expect, it } from 'vitest';

import { cellOf, rangeOf } from '../../../src/panels/plots/figure';

describe('changes of a layout', () => {
  it('are ranges, in both spellings of Plotly, or all', () => {
    expect(rangeOf({ 'xaxis.range[0]': 1, 'xaxis.range[1]': 2 })).toEqual({
      x: [1, 2],
      y: null
    });
    expect(rangeOf({ 'yaxis.range': [3, 1] })).toEqual({ x: null, y: [3, 1] });
    expect(rangeOf({ 'xaxis.autorange': true, 'yaxis.autorange': 'reversed' })).toEqual({
      x: null,
      y: null
    });
  });

  it('of other kinds ask for nothing', () => {
    expect(rangeOf({ autosize: true })).toBeNull();
    expect(rangeOf({ dragmode: 'pan' })).toBeNull();
    expect(rangeOf({ 'xaxis.range': ['2020', 'x'], 'yaxis.range[0]': 1 })).toBeNull();
  });
});

describe('cellOf', () => {
  it('reads the cells of the matrix, not those of what stands beside', () => {
    const click = (data: object): unknown => ({
      points: [{ pointIndex: [3, 1], data }]
    });
    expect(cellOf(click({}))).toEqual([3, 1]);
    expect(cellOf(click({ xaxis: 'x', yaxis: 'y' }))).toEqual([3, 1]);
    expect(cellOf(click({ xaxis: 'x2' }))).toBeNull();
    expect(cellOf(click({ yaxis: 'y2' }))).toBeNull();
    expect(cellOf({ points: [] })).toBeNull();
  });
});
