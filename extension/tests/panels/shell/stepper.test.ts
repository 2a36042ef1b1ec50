// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { Graph } from '../../../src/model/graph';
import { Stepper } from '../../../src/panels/shell/stepper';
import { MIME_TYPE, type ILesson } from '../../../src/wire/protocol';
import { PictureError } from '../../../src/wire/schema';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { network, savedNetwork } from '../../helpers/network';

/** A lesson in which each node has numbers and formulas of its own. */
function lessonOf(count: number, open = true): ILesson {
  const nodes = Array.from({ length: count }, (_, i) => ({
    value: `${i} 10\n2 3`,
    gradient: `−${i}`,
    made: `n${i} = f(a)`,
    rule: `∂loss/∂n${i} = ∂loss/∂n${i + 1} · n${i + 1}`
  }));
  return { open, nodes };
}

function savedLesson(count?: number): Graph {
  const saved = savedNetwork()[MIME_TYPE];
  return Graph.fromSaved({ ...saved, lesson: lessonOf(count ?? saved.header.nodes) });
}

describe('the lesson', () => {
  let host: RecordingHost;
  let stepper: Stepper;
  const text = (what: string): string =>
    stepper.node.querySelector(`.workbench-${what}`)?.textContent ?? '';

  beforeEach(() => {
    host = new RecordingHost();
    stepper = new Stepper(host);
    host.state.setGraph(savedLesson());
    host.state.setStep(0);
    stepper.refresh('view');
  });

  test('before the first step says what is about to happen', () => {
    expect(text('StepText')).toBe('before the first step');
    expect(text('StepNumbers')).toContain('inputs are given');
  });

  test('a forward step shows its formula and numbers in columns', () => {
    stepper.move(1);
    stepper.refresh('view');
    const { node } = host.state.current!;
    expect(text('StepLine')).toBe(`n${node} = f(a)`);
    expect([...stepper.node.querySelectorAll('pre')].at(-1)?.textContent).toBe(
      `${String(node).padStart(2)}  10\n 2   3`
    );
  });

  test('the backward sweep begins at the output and shows the chain rule', () => {
    const { state } = host;
    const forward = Array.from({ length: state.stepCount }, (_, i) => i + 1).findIndex(at => {
      state.setStep(at);
      return state.current?.sweep === 'backward';
    });
    state.setStep(forward + 2);
    stepper.refresh('view');
    const { node } = state.current!;
    expect(text('StepLine')).toBe(`∂loss/∂n${node} = ∂loss/∂n${node + 1} · n${node + 1}`);
    expect([...stepper.node.querySelectorAll('pre')].at(-1)?.textContent).toBe(`−${node}`);
  });

  test('a file keeps its lesson', () => {
    const again = Graph.fromSaved(JSON.parse(JSON.stringify(savedLesson().toSaved())));
    expect(again.lesson).toEqual(savedLesson().lesson);
  });

  test('a lesson of another number of nodes is refused', () => {
    expect(() => savedLesson(1)).toThrow(PictureError);
    expect(() => savedLesson(1)).toThrow(/tells of 1 of \d+ nodes/);
  });
});

describe('the lesson of a kernel', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let stepper: Stepper;

  /** Other values of the program arrive. */
  const stream = (): Graph => {
    kernel.snapshot(network());
    return show(host.connection!.graph!);
  };
  const show = (graph: Graph): Graph => {
    host.state.setGraph(graph, 'values');
    stepper.refresh('values');
    return graph;
  };
  const questions = (): number => kernel.events('lesson').length;
  const answer = async (): Promise<ILesson> => {
    const lesson = lessonOf(host.state.graph!.count);
    kernel.tell({ type: 'lesson', request: kernel.last('lesson').request, lesson });
    await vi.advanceTimersByTimeAsync(0);
    return lesson;
  };

  beforeEach(() => {
    vi.useFakeTimers();
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    stepper = new Stepper(host);
    host.state.setStep(0);
    host.state.changed.connect((_, change) => stepper.refresh(change));
  });

  afterEach(() => {
    stepper.dispose();
    vi.useRealTimers();
  });

  test('is asked for again after a comparison', async () => {
    const graph = stream();
    await answer();
    show(graph.compareWith({ other: graph, view: 'change', measure: 'gradient' } as never));
    expect(host.state.lesson).toBeNull();
    show(graph);
    await vi.advanceTimersByTimeAsync(1000);
    expect(questions()).toBe(2);
    const lesson = await answer();
    expect(host.state.lesson).toEqual(lesson);
  });

  test('stays while values stream, and an answer about values before is shown', async () => {
    stream();
    stream();
    const lesson = await answer();
    expect(host.state.lesson).toEqual(lesson);
    expect(host.state.hasLesson).toBe(false); // it is of the values before
    stream();
    expect(host.state.lesson).toEqual(lesson);
    await vi.advanceTimersByTimeAsync(1000);
    expect(questions()).toBe(2);
    await answer();
    expect(host.state.hasLesson).toBe(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(questions()).toBe(2);
  });

  test('goes where nobody tells of other values', async () => {
    stream();
    await answer();
    vi.spyOn(host.recording, 'isWhole', 'get').mockReturnValue(false);
    stream();
    expect(host.state.lesson).toBeNull();
  });
});
