// @vitest-environment jsdom
import '../helpers/browser';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { Camera } from '../../src/canvas/camera';
import { GraphCanvas } from '../../src/canvas/canvas';
import { AT_ONCE } from '../../src/layout/runner';
import { perform } from '../../src/layout/work';
import type { IJob } from '../../src/layout/worker';
import { Folding } from '../../src/model/folds';
import type { Graph } from '../../src/model/graph';
import { GraphState } from '../../src/model/state';
import { Program, clip } from '../helpers/programs';

/** A worker that answers when it is told to: all runners of this file share one. */
class LateWorker {
  static jobs: IJob[] = [];
  static last: LateWorker | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;

  constructor() {
    LateWorker.last = this;
  }

  postMessage(job: IJob): void {
    LateWorker.jobs.push(structuredClone(job));
  }

  static async answer(): Promise<void> {
    const job = LateWorker.jobs.shift();
    if (job === undefined) {
      throw new Error('nothing was asked');
    }
    const data = { id: job.id, output: perform(job.task).output };
    LateWorker.last?.onmessage?.({ data } as MessageEvent);
    // Until what waits for it has taken it.
    await new Promise(resolve => setTimeout(resolve));
  }
}

vi.stubGlobal('Worker', LateWorker);

/** A chain of more boxes than are laid out at once. */
function chain(label = 'sin', gradient = 1, last = clip(5)): { graph: Graph; pill: Graph } {
  const make = (withPill: boolean): Graph => {
    const program = new Program();
    let h = program.input('x');
    for (let step = 0; step < 2 * AT_ONCE; step++) {
      h = program.op(label, [h], { gradient, scope: step < AT_ONCE ? 'first' : '' });
    }
    if (withPill) {
      program.overrides = [last];
      program.overridden.set(h, 0);
    }
    return program.graph();
  };
  return { graph: make(false), pill: make(true) };
}

describe('a layout that arrives late', () => {
  let state: GraphState;
  let canvas: GraphCanvas;

  beforeEach(() => {
    LateWorker.jobs = [];
    state = new GraphState();
    state.settings.set({ foldFrom: Infinity });
    canvas = new GraphCanvas({ state });
  });
  afterEach(() => {
    canvas.dispose();
  });

  test('is shown when it is there, not before', async () => {
    state.setGraph(chain().graph);
    expect(canvas.boxOf(5)).toBeNull();
    expect(LateWorker.jobs).toHaveLength(1);
    await LateWorker.answer();
    expect(canvas.boxOf(5)).not.toBeNull();
  });

  test('takes the newest numbers, and is not begun again with each of them', async () => {
    state.setGraph(chain('sin', NaN).graph);
    const { graph } = chain('sin', NaN);
    state.setGraph(graph, 'values');
    expect(LateWorker.jobs).toHaveLength(1);
    await LateWorker.answer();
    expect(canvas.boxOf(5)).not.toBeNull();
    expect(canvas.tileOf(5)).toBeNull();
    expect(LateWorker.jobs).toHaveLength(0);
  });

  test('that has no room for what came meanwhile is made anew', async () => {
    const { graph, pill } = chain();
    state.setGraph(graph);
    state.setGraph(pill, 'values');
    await LateWorker.answer();
    expect(LateWorker.jobs).toHaveLength(1);
    await LateWorker.answer();
    expect(LateWorker.jobs).toHaveLength(0);
    expect(canvas.boxOf(5)).not.toBeNull();
  });

  test('of a graph that is no more is never shown', async () => {
    state.setGraph(chain('sin').graph);
    const small = new Program();
    small.op('exp', [small.input('x')]);
    state.setGraph(small.graph());
    await LateWorker.answer();
    expect(canvas.boxOf(1)).not.toBeNull();
    expect(canvas.boxOf(5)).toBeNull();
  });

  test('of other folds than those of now is never shown', async () => {
    state.setGraph(chain().graph);
    state.setFolding(new Folding(new Set(['first'])));
    expect(LateWorker.jobs).toHaveLength(2);
    await LateWorker.answer();
    expect(canvas.boxOf(5)).toBeNull();
    await LateWorker.answer();
    // The folded scope is one card for all that stands in it.
    expect(canvas.boxOf(5)).toEqual(canvas.boxOf(6));
  });

  test('brings what was asked for into sight when it is there', async () => {
    const centre = vi.spyOn(Camera.prototype, 'centre');
    const { graph } = chain();
    state.setGraph(graph);
    canvas.centre(graph.count - 1);
    expect(centre).not.toHaveBeenCalled();
    await LateWorker.answer();
    expect(centre).toHaveBeenCalledTimes(1);
    // The last of as many rows as there are nodes.
    expect(centre.mock.calls[0][0].y).toBeGreaterThan(40 * graph.count);
    centre.mockRestore();
  });

  test('of very many nodes lets the page answer in between, and be called off', async () => {
    const program = new Program();
    let h = program.input('x');
    for (let step = 0; step < 100_000; step++) {
      h = program.op('sin', [h], { scope: 'first' });
    }
    const graph = program.graph();
    vi.useFakeTimers();
    try {
      state.settings.set({ foldFrom: 0 });
      state.setGraph(graph);
      expect(canvas.boxOf(5)).toBeNull();
      await vi.advanceTimersToNextTimerAsync();
      expect(canvas.boxOf(5)).toBeNull();
      await vi.advanceTimersByTimeAsync(10);
      // A few boxes: no worker is asked.
      expect(LateWorker.jobs).toHaveLength(0);
      expect(canvas.boxOf(5)).not.toBeNull();
      for (const parts of [0, 1]) {
        state.setGraph(graph);
        await vi.advanceTimersByTimeAsync(10);
        state.setFolding(new Folding());
        state.setFolding(new Folding(new Set(['first'])));
        for (let part = 0; part < parts; part++) {
          await vi.advanceTimersToNextTimerAsync();
        }
        state.setGraph(null);
        await vi.advanceTimersByTimeAsync(10);
        expect(canvas.boxOf(5)).toBeNull();
      }
    } finally {
      vi.useRealTimers();
    }
  });

  test('for a picture that is closed does nothing', async () => {
    state.setGraph(chain().graph);
    canvas.dispose();
    await expect(LateWorker.answer()).resolves.toBeUndefined();
  });
});
