import { describe, expect, it } from 'vitest';

import {
  formatBytes,
  formatCount,
  formatNumber,
  formatPercent,
  formatSeconds,
  shortenConstants
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

describe('long constants of a formula', () => {
  it.each([
    // As they are where that is short, and never a part of a name.
    ['t3 = 2 * x1 + 0.5', 't3 = 2 * x1 + 0.5'],
    ['sum(x) / 1234567', 'sum(x) / 1234567'],
    ['y1.2345678 * v_0.1234567', 'y1.2345678 * v_0.1234567'],
    ['0.0017574692442882249 * (h - t)', '0.001757 * (h - t)'],
    ['x * 1.2345678901234e-07', 'x * 1.235e-7'],
    ['-0.30000000000000004 * x', '-0.3 * x'],
    // In as many digits as tell them apart.
    ['0.12345678 * a + 0.12347654 * b', '0.12346 * a + 0.12348 * b'],
    ['0.3 * a + 0.30000000000000004 * b', '0.3 * a + 0.30000000000000004 * b']
  ])('%s reads %s', (whole, short) => {
    expect(shortenConstants(whole)).toBe(short);
  });
});
