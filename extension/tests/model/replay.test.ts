import { beforeEach, describe, expect, it } from 'vitest';

import type { GraphConnection } from '../../src/model/connection';
import { Graph } from '../../src/model/graph';
import { Replay } from '../../src/model/replay';
import { TestKernel } from '../helpers/channel';
import { clipOfH, network } from '../helpers/network';
import { STEPS, tellProgram, tellSteps } from '../helpers/rewrites';

/** Let promises that are settled tell so. */
const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('Replay', () => {
  let kernel: TestKernel;
  let connection: GraphConnection;
  let replay: Replay;
  const graphOf = (overrides: Parameters<typeof network>[0] = []): Graph => {
    const { header, buffers } = network(overrides);
    return Graph.fromHeader(header, buffers);
  };
  const tell = async (): Promise<void> => {
    tellSteps(kernel);
    await settled();
    tellProgram(kernel);
    await settled();
  };

  beforeEach(() => {
    kernel = new TestKernel();
    connection = kernel.connect();
    replay = new Replay();
  });

  it('D2: asks for the steps, and for the program in its last form', async () => {
    replay.show(connection, graphOf());
    expect(kernel.last('simplify').without).toEqual([]);
    expect([replay.steps, replay.isWaiting]).toEqual([null, true]);
    await tell();
    expect(kernel.last('program').step).toBe(2);
    expect(replay.steps).toEqual(STEPS);
    expect([replay.at, replay.last, replay.isWaiting]).toEqual([2, 2, false]);
    expect(replay.program?.text).toBe('∂y/∂x = 2 * x');
    expect(replay.program?.graph.override(1)?.label).toBe('clip ±0.1');
  });

  it('goes to a step and back, and asks for no program twice', async () => {
    replay.show(connection, graphOf());
    await tell();
    replay.goTo(1);
    tellProgram(kernel);
    await settled();
    const { graph } = replay.program!;
    expect([...graph.rewritten!.came].map(i => graph.label(i))).toEqual(['2 * x']);
    expect([...graph.rewritten!.went].map(i => graph.label(i))).toEqual(['x + x']);
    replay.goTo(99);
    expect(replay.at).toBe(2);
    expect(replay.program?.step).toBe(2);
    replay.goTo(-1);
    expect(replay.at).toBe(0);
    expect(kernel.events('program').map(({ step }) => step)).toEqual([2, 1, 0]);
  });

  it('of what is asked while the kernel answers only the last is asked for', async () => {
    replay.show(connection, graphOf());
    await tell();
    replay.goTo(0);
    replay.goTo(1);
    replay.goTo(2);
    replay.goTo(1);
    expect(kernel.events('program')).toHaveLength(2);
    tellProgram(kernel);
    await settled();
    expect(kernel.events('program').map(({ step }) => step)).toEqual([2, 0, 1]);
  });

  it('nodes of one key are one from step to step', async () => {
    replay.show(connection, graphOf());
    await tell();
    const last = replay.program!.graph;
    replay.goTo(1);
    tellProgram(kernel);
    await settled();
    const before = replay.program!.graph;
    expect([...before.counterparts(last)!]).toEqual([0, 1, 2, -1]);
    expect(last.counterparts(graphOf())).toBeNull();
  });

  it('a rule is switched off, the rest is done again, and back', async () => {
    replay.show(connection, graphOf());
    await tell();
    replay.switchOff('x plus x');
    replay.switchOff('x plus x');
    expect(kernel.events('simplify').map(({ without }) => without)).toEqual([
      [],
      ['x plus x']
    ]);
    tellSteps(kernel, STEPS.slice(1));
    await settled();
    expect([replay.at, replay.last]).toEqual([1, 1]);
    expect(kernel.last('program')).toMatchObject({ without: ['x plus x'], step: 1 });
    replay.switchOn('another');
    replay.switchOn();
    expect(kernel.last('simplify').without).toEqual([]);
    expect(replay.without).toEqual([]);
  });

  it('overrides make another derivative; other values do not', async () => {
    replay.show(connection, graphOf());
    await tell();
    replay.show(connection, graphOf());
    expect(kernel.events('simplify')).toHaveLength(1);
    replay.show(connection, graphOf([clipOfH()]));
    expect(kernel.events('simplify')).toHaveLength(2);
  });

  it('says why there is none, and can be asked again', async () => {
    replay.show(connection, graphOf());
    const { request } = kernel.last('simplify');
    kernel.tell({ type: 'failure', request, message: 'too large for the page' });
    await settled();
    expect([replay.problem, replay.steps]).toEqual(['too large for the page', null]);
    replay.show(connection, graphOf([clipOfH()]));
    expect(replay.problem).toBeNull();
  });

  it.each([
    [{ keys: ['0.0'] }, 'a program of 3 nodes came with keys of 1'],
    [{ nodes: 2 }, 'more than 2|at most 2'],
    [{ came: [7] }, 'came'],
    [{ went: [-1] }, 'went'],
    [{ keys: ['x'.repeat(100), 'b', 'c'] }, 'keys'],
    [{ step: -1 }, 'step']
  ])('a damaged program is refused: %j', async (changes, words) => {
    replay.show(connection, graphOf());
    tellSteps(kernel);
    await settled();
    tellProgram(kernel, changes);
    await settled();
    expect(connection.problem).toMatch(new RegExp(words));
    expect(replay.program).toBeNull();
  });
});
