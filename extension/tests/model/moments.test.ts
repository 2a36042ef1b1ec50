import { describe, expect, it } from 'vitest';

import { Graph } from '../../src/model/graph';
import { Recording } from '../../src/model/recording';
import { H, W, savedNetwork, network } from '../helpers/network';
import { savedWithRuns } from '../helpers/runs';

const open = (changes: Record<string, unknown> = {}): Graph => {
  const saved = savedWithRuns();
  return Graph.fromSaved({ ...saved, moments: { ...saved.moments, ...changes } });
};

describe('the runs that a saved picture holds', () => {
  it('are scrubbed and compared without a kernel', () => {
    const live = open();
    const recording = new Recording();
    recording.follow(null, live);
    expect(recording.canGo).toBe(true);
    recording.goTo(3);
    expect(recording.shown).toBe(3);
    expect(recording.graph?.valueNorm(W)).toBe(3);
    expect(recording.graph?.gradNorm(H)).toBe(300 + H);
    expect(recording.graph?.hasGradient(W)).toBe(false);
    expect(recording.graph?.header.output_value).toBe(0.5);
    recording.compareWith({ kind: 'run', step: 1 });
    expect(recording.sides).toEqual({ before: 'run 1', after: 'run 3' });
    expect(recording.graph?.compared?.other.gradNorm(H)).toBe(100 + H);
    recording.compareWith(null);
    expect(recording.graph?.compared).toBeNull();
    recording.goTo(null);
    expect(recording.graph).toBe(live);
  });

  it('say where they had other overrides, and show none then', () => {
    const recording = new Recording();
    recording.follow(null, open());
    recording.goTo(1);
    expect(recording.note).toBe('no overrides');
    expect(recording.graph?.header.overrides).toEqual([]);
    recording.goTo(3);
    expect(recording.note).toBeNull();
  });

  it('go on into the next file', () => {
    const again = Graph.fromSaved(JSON.parse(JSON.stringify(open().toSaved())));
    expect(again.moments?.find(3).step).toBe(3);
  });

  it.each([
    [{ steps: [3, 1] }, 'not one after another'],
    [{ steps: [1, 9] }, 'not one after another'],
    [{ steps: [0, 1] }, 'not one after another'],
    [{ losses: [1] }, '2 saved runs came with 1 losses and 2 overrides'],
    [{ overrides: [] }, '2 saved runs came with 2 losses and 0 overrides'],
    [{ norms: 'AAAA' }, 'the norms of saved runs should have'],
    [{ norms: '====' }, 'base64'],
    [{ norms: 'A'.repeat(70_000) }, 'norms'],
    [{ steps: 'x' }, 'steps']
  ])('are refused where they are damaged: %j', (changes, words) => {
    expect(() => open(changes)).toThrow(words);
  });

  it('are not there in an older picture', () => {
    const [saved] = Object.values(savedNetwork());
    const { moments, ...older } = saved;
    expect(moments).toBeNull();
    expect(Graph.fromSaved(older).moments).toBeNull();
    expect(network().header.nodes).toBeGreaterThan(2);
  });
});
