import { describe, expect, it } from 'vitest';

import {
  formatBytes,
  formatCount,
  formatNumber,
  formatPercent,
  formatSeconds
} from '../../src/ui/numbers';

describe('numbers as people read them', () => {
  it.each([
    [0, '0 B'],
    [999, '1000 B'],
    [16_000, '16 kB'],
    [7_630_000, '7.6 MB'],
    [3e15, '3000 TB']
  ])('%d bytes are %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it.each([
    [0, '0'],
    [0.08312, '0.0831'],
    [-0.98, '−0.98'],
    [1e-5, '1e−5'],
    [0.000123456, '1.23e−4'],
    [123456, '1.23e5'],
    [99999.4, '100000'],
    [NaN, 'NaN'],
    [-Infinity, '−∞']
  ])('%d is %s', (value, text) => {
    expect(formatNumber(value)).toBe(text);
  });

  it.each([
    [0, '0 %'],
    [0.1234, '12 %'],
    [0.00001, '< 0.01 %'],
    [0.0047, '0.47 %'],
    [13.4, '1300 %'],
    [Infinity, '∞']
  ])('the ratio %d is %s', (ratio, text) => {
    expect(formatPercent(ratio)).toBe(text.replace(/ /g, '\u00a0'));
  });

  it('gives times in short units', () => {
    expect([0.0006, 2.34, 45e-6].map(formatSeconds)).toEqual([
      '0.6 ms',
      '2.3 s',
      '45 µs'
    ]);
  });

  it('spaces thousands', () => {
    expect(formatCount(1234567)).toBe('1\u202f234\u202f567');
  });
});
