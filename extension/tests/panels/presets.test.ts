import { describe, expect, it } from 'vitest';

import {
  PRESETS,
  labelOf,
  presetsFor,
  recognise,
  standardExpression,
  writePreset
} from '../../src/panels/presets';

describe('presets of gradient rules', () => {
  it('write the expressions that the kernel reads', () => {
    expect(PRESETS.map(({ name }) => [name, standardExpression(name)])).toEqual([
      ['true', 'd'],
      ['clip', 'clip(d, -0.1, 0.1)'],
      ['clip norm', 'd * (1 / maximum(1, norm(d)))'],
      ['scale', '0.5 * d'],
      ['normalise', 'd / where(norm(d) == 0, 1, norm(d))'],
      ['stop', 'zeros_like(d)'],
      ['reverse', '-d'],
      ['straight-through', 'g'],
      ['sanitise', 'where(isfinite(d), d, 0)'],
      ['noise', 'noise(scale=0.1)'],
      ['safe sqrt', 'safe_sqrt'],
      ['safe log', 'safe_log'],
      ['safe divide', 'safe_divide'],
      ['safe power', 'safe_power'],
      ['safe norm', 'safe_norm'],
      ['safe exp', 'safe_exp'],
      ['safe atan2', 'safe_atan2'],
      ['safe arcsin', 'safe_arcsin'],
      ['safe arccos', 'safe_arccos'],
      ['expression', '']
    ]);
  });

  it('are recognised again, with their numbers', () => {
    for (const { name } of PRESETS) {
      expect(recognise(standardExpression(name)).preset).toBe(name);
    }
    expect(recognise(' clip( d,-2 , 1e-3)')).toEqual({
      preset: 'clip',
      numbers: [-2, 0.001]
    });
    expect(recognise('.25*d')).toEqual({ preset: 'scale', numbers: [0.25] });
    expect(recognise('-1.5e+2 * d')).toEqual({ preset: 'scale', numbers: [-150] });
  });

  it('are offered where they fit', () => {
    const names = (op: string): string[] => presetsFor(op).map(({ name }) => name);
    expect(names('tanh').filter(name => name.startsWith('safe'))).toEqual([]);
    expect(names('sqrt').filter(name => name.startsWith('safe'))).toEqual([
      'safe sqrt'
    ]);
    expect(names('log2')).toContain('safe log');
    expect(names('matmul')).toContain('clip norm');
  });

  it('named rules keep the settings that are written', () => {
    expect(recognise('safe_sqrt(eps = 1e-3)')).toEqual({
      preset: 'safe sqrt',
      numbers: [0.001]
    });
    expect(recognise('safe_sqrt')).toEqual({ preset: 'safe sqrt', numbers: [1e-6] });
    expect(writePreset('safe sqrt', [1e-6])).toBe('safe_sqrt');
    expect(writePreset('safe sqrt', [0.5])).toBe('safe_sqrt(eps=0.5)');
    expect(recognise('d * (2.0 / maximum(2.0, norm(d)))').numbers).toEqual([2]);
    expect(recognise('d * (2 / maximum(3, norm(d)))').preset).toBe('expression');
    expect(labelOf('safe_exp(limit=10)')).toBe('exp slope ≤ 10');
    expect(labelOf('safe_log')).toBe('safe log');
    expect(labelOf('d * (2.0 / maximum(2.0, norm(d)))')).toBe('norm ≤ 2');
  });

  it('clip at half of the largest entry, to one digit', () => {
    expect(standardExpression('clip', 1.34e-3)).toBe('clip(d, -7e-4, 7e-4)');
    expect(standardExpression('clip', 42)).toBe('clip(d, -20, 20)');
    for (const nothing of [0, NaN, Infinity]) {
      expect(standardExpression('clip', nothing)).toBe('clip(d, -0.1, 0.1)');
    }
    expect(standardExpression('scale', 1.3e-3)).toBe('0.5 * d');
  });

  it('do not claim what only looks like them', () => {
    for (const text of [
      'clip(g, -1, 1)',
      'clip(d, -1, x)',
      'd * 0.5',
      'dd',
      '- g',
      ''
    ]) {
      expect(recognise(text).preset).toBe('expression');
    }
  });

  it('write edited numbers so that they are read back', () => {
    expect(writePreset('clip', [-1e-5, 1e21])).toBe('clip(d, -1e-5, 1e21)');
    for (const numbers of [
      [-0.25, 3],
      [1e-7, 2e20],
      [1 / 3, 0.1 + 0.2],
      [0, 0]
    ]) {
      expect(recognise(writePreset('clip', numbers)).numbers).toEqual(numbers);
    }
  });

  it('label the pill', () => {
    expect(labelOf('clip(d, -0.1, 0.1)')).toBe('clip ±0.1');
    expect(labelOf('clip(d, -0.1, 2)')).toBe('clip −0.1 … 2');
    expect(labelOf('clip(d, -0.00001, 1e-5)')).toBe('clip ±1e−5');
    expect(labelOf('-2 * d')).toBe('scale ×−2');
    expect(labelOf('zeros_like(d)')).toBe('stop');
    expect(labelOf('g  *  (1 - y**2)')).toBe('g * (1 - y**2)');
    expect(labelOf('where(abs(d) > 100, 0, d) + 0 * x')).toHaveLength(28);
  });
});
