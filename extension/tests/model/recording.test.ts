import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { GraphConnection } from '../../src/model/connection';
import { Recording } from '../../src/model/recording';
import type { ITimeline } from '../../src/wire/protocol';
import { TestKernel } from '../helpers/channel';
import { W, network } from '../helpers/network';

export const line = (count: number, more: Partial<ITimeline> = {}): ITimeline => {
  const steps = Array.from({ length: count }, (_, i) => i + 1);
  return {
    count,
    keep: 0,
    steps,
    losses: steps.map(step => 1 / step),
    gradients: steps.map(() => null),
    marks: [],
    first_bad: null,
    kept: 0,
    kept_bytes: 0,
    ...more
  };
};

/** Until all that has arrived is taken. */
const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('Recording', () => {
  let kernel: TestKernel;
  let connection: GraphConnection;
  let recording: Recording;
  let changes: number;

  const follow = (): void => recording.follow(connection, connection.graph);

  /** The kernel's answer to the last question: all norms are ten times as large. */
  const answer = (step: number, type: 'moment' | 'peer' = 'moment'): void => {
    const { header, buffers } = network();
    const at = header.columns.findIndex(({ name }) => name === 'grad_stats');
    const old = new Float64Array(buffers[at].buffer.slice(0));
    kernel.tell(
      {
        type,
        request: kernel.last(type).request,
        of: 0,
        step,
        header: { output_value: 9, check: null, findings: null },
        columns: [header.columns[at]]
      },
      [new DataView(old.map(x => 10 * x).buffer)]
    );
  };

  beforeEach(() => {
    kernel = new TestKernel();
    connection = kernel.connect();
    kernel.snapshot(network([], { timeline: line(5) }));
    recording = new Recording();
    recording.changed.connect(() => {
      changes += 1;
    });
    follow();
    changes = 0;
  });

  afterEach(() => {
    recording.dispose();
    vi.useRealTimers();
  });

  it('shows the present until it is asked for another run', () => {
    expect(recording.graph).toBe(connection.graph);
    expect([recording.count, recording.at, recording.shown]).toEqual([5, null, null]);
  });

  it('shows a past run once the kernel has told it', async () => {
    recording.goTo(2);
    expect(kernel.last('moment').step).toBe(2);
    expect([recording.at, recording.shown]).toEqual([2, null]);
    expect(recording.isWaiting).toBe(true);
    answer(3);
    await settled();
    expect([recording.at, recording.shown]).toEqual([2, 3]);
    const live = connection.graph!;
    expect(recording.graph!.gradNorm(W)).toBeCloseTo(10 * live.gradNorm(W));
    expect(recording.graph!.header.output_value).toBe(9);
    expect(recording.graph!.sameStructure(live)).toBe(true);
    recording.goTo(null);
    expect(recording.graph).toBe(live);
  });

  it('asks for one run at a time, and then for the last one that was wanted', async () => {
    recording.goTo(1);
    recording.goTo(2);
    recording.goTo(3);
    expect(kernel.events('moment').map(({ step }) => step)).toEqual([1]);
    answer(1);
    await new Promise(resolve => setTimeout(resolve));
    expect(kernel.events('moment').map(({ step }) => step)).toEqual([1, 3]);
    answer(3);
    await new Promise(resolve => setTimeout(resolve));
    expect(recording.shown).toBe(3);
    recording.goTo(1);
    expect(recording.shown, 'it is known').toBe(1);
    expect(kernel.events('moment')).toHaveLength(2);
  });

  it('stays at a past run while more runs come, and tells of them', async () => {
    recording.goTo(1);
    answer(1);
    await new Promise(resolve => setTimeout(resolve));
    const past = recording.graph;
    changes = 0;
    kernel.patch(network(), [], {
      timeline: line(1, { count: 6, keep: 5, steps: [6], losses: [0.1] })
    });
    follow();
    expect(changes).toBe(1);
    expect(recording.graph).toBe(past);
    expect(recording.count).toBe(6);
    expect(recording.line?.steps).toEqual([1, 2, 3, 4, 5, 6]);
    expect(recording.line?.losses.at(-1)).toBe(0.1);
    expect(recording.line?.losses[1]).toBe(0.5);
  });

  it('returns to the present where an override changed, and at the last run', async () => {
    recording.goTo(1);
    answer(1);
    await new Promise(resolve => setTimeout(resolve));
    recording.goTo(5);
    expect(recording.at).toBeNull();
    recording.goTo(1);
    expect(recording.shown).toBe(1);
    recording.follow(connection, null);
    expect([recording.at, recording.graph]).toEqual([null, null]);
  });

  it('says what a question is about, of a run that is whole', async () => {
    expect([recording.about, recording.isWhole]).toEqual([{}, true]);
    recording.goTo(2);
    expect(recording.about, 'not there yet').toEqual({});
    answer(2);
    await settled();
    expect([recording.about, recording.isWhole]).toEqual([{ at: 2 }, true]);
    const asked = kernel.events('moment').length;
    recording.renew();
    expect(kernel.events('moment').length).toBe(asked + 1);
    recording.goTo(null);
    expect(recording.about).toEqual({});
  });

  it('keeps what it has seen when the kernel goes', async () => {
    recording.goTo(2);
    answer(2);
    await settled();
    const seen = recording.graph?.gradNorm(W);
    recording.goTo(null);
    recording.follow(null, connection.graph);
    expect(recording.canGo).toBe(true);
    recording.goTo(3);
    expect(recording.shown, 'the nearest').toBe(2);
    expect(recording.graph?.gradNorm(W)).toBe(seen);
  });

  it('has the kernel tell some runs, in case that it goes', async () => {
    vi.useFakeTimers();
    follow();
    await vi.advanceTimersByTimeAsync(3000);
    const { request } = kernel.last('runs');
    const { nodes, edges } = connection.graph!.header;
    const norms = new Float32Array(2 * nodes + edges).fill(7);
    const text = btoa(String.fromCharCode(...new Uint8Array(norms.buffer)));
    const moments = { steps: [2], losses: [0.5], overrides: [null], norms: text };
    kernel.tell({ type: 'runs', request, moments });
    await vi.advanceTimersByTimeAsync(10);
    recording.follow(null, connection.graph);
    recording.goTo(4);
    expect([recording.shown, recording.isWhole]).toEqual([2, false]);
    expect(recording.graph?.gradNorm(W)).toBe(7);
  });

  it('says why a run cannot be shown', async () => {
    recording.goTo(1);
    const { request } = kernel.last('moment');
    kernel.tell({ type: 'failure', request, message: 'net.timeline is empty' });
    await new Promise(resolve => setTimeout(resolve));
    expect(recording.problem).toBe('net.timeline is empty');
    expect([recording.at, recording.isWaiting]).toEqual([null, false]);
  });

  it('goes nowhere in a saved picture', () => {
    recording.follow(null, connection.graph);
    expect(recording.canGo).toBe(false);
    recording.goTo(1);
    expect(recording.at).toBeNull();
  });

  it('compares two runs, and the present with either variant', async () => {
    recording.goTo(2);
    answer(2);
    await settled();
    recording.startComparison();
    // What is shown becomes the first side; its numbers are at hand.
    expect(recording.against).toEqual({ kind: 'run', step: 2 });
    expect(recording.sides).toEqual({ before: 'run 2', after: 'now' });
    const live = connection.graph!;
    const { graph } = recording;
    expect(graph?.gradNorm(W)).toBe(live.gradNorm(W));
    expect(graph?.compared?.other.gradNorm(W)).toBeCloseTo(10 * live.gradNorm(W));
    expect(recording.beside).toBeNull();
    recording.setView('beside');
    expect(recording.beside?.compared?.other.gradNorm(W)).toBe(live.gradNorm(W));

    recording.goTo(4);
    expect(recording.graph?.compared?.label, 'not there yet').toBe('now');
    answer(4);
    await settled();
    expect(recording.graph?.compared?.label).toBe('run 4');
    recording.compareWith({ kind: 'true' });
    expect(recording.sides).toEqual({
      before: 'now, without overrides',
      after: 'run 4'
    });
    expect(recording.graph?.compared?.other.header.overrides).toEqual([]);
    recording.compareWith(null);
    expect(recording.graph?.compared).toBeNull();
  });

  it('names the kept run that it compares with', async () => {
    recording.compareWith({ kind: 'run', step: 2 });
    expect(recording.base).toBe(2);
    answer(3);
    await settled();
    expect([recording.base, recording.sides.before]).toEqual([3, 'run 3']);
    recording.compareWith({ kind: 'now' });
    expect(recording.base).toBeNull();
  });

  it('compares with another session, and says why one is refused', async () => {
    recording.startComparison();
    const { request } = kernel.last('peers');
    const peers = [
      { name: 'twin', refused: '' },
      { name: 'b', refused: 'b is another program: it has 3 nodes' }
    ];
    kernel.tell({ type: 'peers', request, peers });
    await settled();
    expect(recording.peers).toEqual(peers);
    recording.compareWith({ kind: 'session', name: 'twin' });
    expect(kernel.last('peer').name).toBe('twin');
    expect(recording.graph?.compared, 'not there yet').toBeNull();
    answer(0, 'peer');
    await settled();
    expect(recording.sides).toEqual({ before: 'session twin', after: 'now' });
    expect(recording.graph?.compared?.otherLabel).toBe('session twin');

    recording.compareWith({ kind: 'session', name: 'b' });
    const asked = kernel.last('peer').request;
    kernel.tell({ type: 'failure', request: asked, message: 'b is another program' });
    await settled();
    expect(recording.problem).toBe('b is another program');
    expect(recording.against).toBeNull();
    expect(recording.graph).toBe(connection.graph);
  });

  it('asks for another session again a while after this one has sent', async () => {
    vi.useFakeTimers();
    const asked = (): number => kernel.events('peer').length;
    recording.compareWith({ kind: 'session', name: 'twin' });
    answer(0, 'peer');
    await vi.advanceTimersByTimeAsync(10);
    follow();
    follow();
    expect(asked()).toBe(1);
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked()).toBe(2);
    answer(0, 'peer');
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked(), 'once').toBe(2);
    follow();
    expect(asked(), 'long after').toBe(3);
    answer(0, 'peer');
    await vi.advanceTimersByTimeAsync(10);
    follow();
    recording.compareWith(null);
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked(), 'not any more').toBe(3);
  });

  it('stays in a comparison while rules and values change', () => {
    recording.compareWith({ kind: 'true' });
    kernel.snapshot(network([], { timeline: line(6) }));
    follow();
    expect(recording.graph?.compared?.label).toBe('now');
    recording.follow(null, null);
    expect(recording.against).toBeNull();
  });

  it('refuses a timeline whose parts are not as long', () => {
    const before = connection.graph;
    kernel.snapshot(network([], { timeline: line(3, { losses: [1] }) }));
    expect(connection.problem).toBe(
      'the timeline has 3 steps, 1 losses and 3 gradients'
    );
    expect(connection.graph).toBe(before);
  });
});
