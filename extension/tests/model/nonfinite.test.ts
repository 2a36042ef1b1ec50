/** Where NaN and infinity begin: by hand, on loss = mean(tanh(X @ W) * t). */

import { describe, expect, it } from 'vitest';

import { nonFiniteOf, roleOf } from '../../src/model/nonfinite';
import { Graph } from '../../src/model/graph';
import { Recording } from '../../src/model/recording';
import { verdictsOf } from '../../src/model/verdicts';
import { badOutput, nonFiniteLine, nonFiniteText, nodeSentence } from '../../src/ui/words';
import type { ISaved } from '../../src/wire/protocol';
import { H, LOSS, PRODUCT, SCALED, T, W, X } from '../helpers/network';
import { programmedGraph } from '../helpers/programmed';
import { savedWithRuns } from '../helpers/runs';

const nan = { bad: 3, min: NaN };
const infinite = { bad: 2, min: -Infinity };

/** Run 3 of a saved picture. */
function pastRun(saved: ISaved): Graph {
  const recording = new Recording();
  recording.follow(null, Graph.fromSaved(saved));
  recording.goTo(3);
  return recording.graph!;
}

describe('what is not finite', () => {
  it('is nothing where all is finite', () => {
    const graph = programmedGraph({});
    expect(nonFiniteOf(graph)).toEqual({ roles: [], origins: [] });
    expect(nonFiniteLine(graph)).toBe('');
    expect(badOutput(graph)).toBe('');
    expect(roleOf(graph, H)).toBe('none');
  });

  it('begins at the first op that reads only finite values', () => {
    const values = { [H]: nan, [SCALED]: nan, [LOSS]: { bad: 1, min: NaN } };
    const graph = programmedGraph({ values, output: null });
    expect([PRODUCT, H, SCALED, LOSS].map(node => roleOf(graph, node))).toEqual([
      'none',
      'origin',
      'follower',
      'follower'
    ]);
    expect(nonFiniteLine(graph)).toBe('NaN starts at h = tanh, line 1: 3 of 10 entries');
    expect(badOutput(graph)).toBe('NaN');
    expect(nonFiniteText(graph, H)).toContain('it begins here');
    expect(nodeSentence(graph, SCALED)).toContain('from what it reads');
  });

  it('says an input by what it is, and how many other places there are', () => {
    const values = { [X]: infinite, [PRODUCT]: nan, [H]: nan, [T]: nan };
    const rest = { [SCALED]: nan, [LOSS]: { bad: 1, min: -Infinity } };
    const graph = programmedGraph({ values: { ...values, ...rest }, output: null });
    expect(nonFiniteLine(graph)).toBe(
      'Infinity is in the input X: 2 of 15 entries, and at 1 other place'
    );
    expect(badOutput(graph)).toBe('−∞');
  });

  it('does not begin in a weight that a step before has made', () => {
    const values = { [W]: nan, [PRODUCT]: nan, [H]: nan, [SCALED]: nan };
    const graph = programmedGraph({
      values: { ...values, [LOSS]: { bad: 1, min: NaN } },
      output: null
    });
    expect(roleOf(graph, W)).toBe('origin');
    const timeline = {
      count: 120,
      keep: 0,
      steps: [1, 120],
      losses: [1, null],
      gradients: [1, null],
      marks: [],
      kept: 2,
      kept_bytes: 0,
      first_bad: 2
    };
    const { header } = graph;
    const later = (step: number | null): string => {
      const made = graph.compareWith({
        other: graph,
        otherFirst: true,
        label: '',
        otherLabel: '',
        view: 'colours',
        measure: 'ratio'
      });
      Object.assign(made, { header: { ...header, timeline }, step });
      return roleOf(made, W);
    };
    expect(later(null)).toBe('follower');
    expect(later(50)).toBe('follower');
    expect(later(2), 'there it does').toBe('origin');
  });

  it('is harmless where what reads it is finite again', () => {
    const graph = programmedGraph({ values: { [PRODUCT]: infinite } });
    expect(roleOf(graph, PRODUCT)).toBe('harmless');
    expect(nonFiniteLine(graph)).toBe('');
    expect(nonFiniteText(graph, PRODUCT)).toContain('harmless');
    // Not where a rule makes a gradient of it that is not finite.
    const gradients = { [PRODUCT]: nan, [W]: nan };
    const spoilt = programmedGraph({ values: { [PRODUCT]: infinite }, gradients });
    expect(roleOf(spoilt, PRODUCT)).toBe('origin');
  });

  it('begins in the gradient rule of the node that reads the first bad gradient', () => {
    const gradients = { [PRODUCT]: nan, [W]: nan };
    // Edge 2 is what tanh passes on to the product.
    const graph = programmedGraph({ gradients, edges: { 2: NaN } });
    expect(nonFiniteOf(graph).origins).toEqual([
      { node: H, sweep: 'backward', shown: PRODUCT, isNaN: true, count: 3 }
    ]);
    expect(nonFiniteLine(graph)).toBe(
      'NaN starts at the gradient of h = tanh, line 1: 3 of 10 entries'
    );
  });

  it('of a past run is told by its norm, without a count', () => {
    const past = (norm: number): Graph =>
      pastRun(savedWithRuns(i => (i === X || i === T ? 1 : norm)));
    expect(nonFiniteLine(past(Infinity))).toBe('Infinity is in the input W');
    expect(nonFiniteLine(past(NaN))).toBe('NaN is in the input W');
    expect(nonFiniteText(past(Infinity), W)).toContain('value: infinity among its entries');
    expect([...verdictsOf(past(Infinity)).values()].map(({ begins }) => begins?.what)).toEqual([
      '∞'
    ]);
    expect([Infinity, NaN].map(norm => badOutput(past(norm)))).toEqual(['±∞', 'NaN']);
  });

  it('of gradients is not told where the values are to blame', () => {
    const values = { [H]: nan, [SCALED]: nan, [LOSS]: { bad: 1, min: NaN } };
    const gradients = { [H]: nan, [PRODUCT]: nan, [W]: nan };
    const graph = programmedGraph({ values, gradients, output: null });
    expect(nonFiniteOf(graph).origins.map(({ sweep }) => sweep)).toEqual(['forward']);
  });
});
