import { beforeEach, describe, expect, it } from 'vitest';

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
  const answer = (step: number): void => {
    const { header, buffers } = network();
    const at = header.columns.findIndex(({ name }) => name === 'grad_stats');
    const old = new Float64Array(buffers[at].buffer.slice(0));
    kernel.tell(
      {
        type: 'moment',
        request: kernel.last('moment').request,
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

  it('refuses a timeline whose parts are not as long', () => {
    const before = connection.graph;
    kernel.snapshot(network([], { timeline: line(3, { losses: [1] }) }));
    expect(connection.problem).toBe(
      'the timeline has 3 steps, 1 losses and 3 gradients'
    );
    expect(connection.graph).toBe(before);
  });
});
