// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { HEIGHT, WIDTH, pathOf, rangeOf } from '../../../src/panels/runs/line';
import { NormsOverRuns } from '../../../src/panels/runs/norms';
import { RunStrip } from '../../../src/panels/runs/strip';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { W, network } from '../../helpers/network';

const timeline = (count: number): Record<string, unknown> => {
  const steps = Array.from({ length: count }, (_, i) => i + 1);
  const marks = [{ step: 2, kind: 'nan', node: W, text: 'NaN in the value of <b>' }];
  return {
    count,
    steps,
    losses: steps.map(s => 1 / s),
    gradients: steps.map(() => null),
    marks
  };
};

describe('pathOf', () => {
  it('goes from the first step to the last, the highest on top', () => {
    const path = pathOf({ steps: [1, 2, 3], numbers: [2, 1, 0] }, 3);
    const points = path.slice(1).split('L');
    expect(points).toEqual([
      '0.0 3.0',
      `${(WIDTH / 2).toFixed(1)} ${(HEIGHT / 2).toFixed(1)}`,
      `${WIDTH.toFixed(1)} ${(HEIGHT - 3).toFixed(1)}`
    ]);
  });

  it('is broken where a number is missing', () => {
    const path = pathOf({ steps: [1, 2, 3, 4, 5], numbers: [1, 2, null, 3, 4] }, 5);
    expect(path.match(/M/g)).toHaveLength(2);
    expect(path.match(/L/g)).toHaveLength(2);
    expect(pathOf({ steps: [1], numbers: [null] }, 1)).toBe('');
  });

  it('draws decades where numbers differ by many', () => {
    expect(rangeOf([1, 1000])?.decades).toBe(true);
    expect(rangeOf([1, 10])?.decades).toBe(false);
    expect(rangeOf([-1, 1000])?.decades).toBe(false);
    const path = pathOf({ steps: [1, 2, 3], numbers: [1, 100, 10_000] }, 3);
    expect(path).toContain((HEIGHT / 2).toFixed(1));
  });
});

describe('RunStrip', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let strip: RunStrip;

  const tell = (count: number): void => {
    kernel.snapshot(network([], { timeline: timeline(count) as never }));
    host.recording.follow(host.connection, host.connection!.graph);
    strip.refresh('values');
  };

  beforeEach(() => {
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    strip = new RunStrip(host);
  });

  afterEach(() => {
    strip.dispose();
  });

  it('appears with the second run', () => {
    tell(1);
    expect(strip.isHidden).toBe(true);
    tell(2);
    expect(strip.isHidden).toBe(false);
    expect(strip.node.textContent).toContain('2 steps');
  });

  it('goes to a run by its slider, and back by a button', () => {
    tell(40);
    const slider = strip.node.querySelector<HTMLInputElement>('input')!;
    expect([slider.value, slider.max]).toEqual(['39', '39']);
    expect(slider.getAttribute('aria-valuetext')).toBe('40 steps');
    strip.move(-5);
    expect(kernel.last('moment').step).toBe(35);
    const live = strip.node.querySelector<HTMLButtonElement>('.workbench-Live')!;
    strip.refresh('values');
    expect(live.disabled).toBe(false);
    live.click();
    expect(host.recording.at).toBeNull();
  });

  it('has a mark that leads to the run and its node; its text is text', () => {
    tell(40);
    const mark = strip.node.querySelector<HTMLButtonElement>('.workbench-RunMark')!;
    expect(mark.title).toBe('Step 2: NaN in the value of <b>');
    expect(strip.node.querySelector('b')).toBeNull();
    mark.click();
    expect(kernel.last('moment').step).toBe(2);
    expect(host.state.selected).toBe(W);
    expect(host.centred).toEqual([W]);
  });

  it('draws a branch on the scale of the runs, with what it is', () => {
    const branches = [
      { name: 'branch from run 2', step: 2, count: 4, text: '1: <b>', steps: [2, 4], losses: [0.5, 2] }
    ];
    kernel.snapshot(network([], { timeline: timeline(4) as never, branches }));
    host.recording.follow(host.connection, host.connection!.graph);
    strip.refresh('values');
    const [loss, branch] = ['loss', 'branch'].map(
      look => strip.node.querySelector(`path.workbench-mod-${look}`)!
    );
    // The highest of all is the branch's last, the first loss stands half as high.
    expect(branch.getAttribute('d')).toMatch(new RegExp(`L${WIDTH.toFixed(1)} 3\\.0$`));
    expect(loss.getAttribute('d')).not.toMatch(/^M0\.0 3\.0/);
    expect(branch.querySelector('title')!.textContent).toBe(
      'branch from run 2 to 4, with 1: <b>: loss 2'
    );
    expect(strip.node.textContent).toContain('branch from run 2: loss 2');
    expect(host.recording.proposed).toEqual({ kind: 'session', name: 'branch from run 2' });
  });

  it('is as wide as the longest branch', () => {
    const branches = [
      { name: 'branch from run 2', step: 2, count: 7, text: '', steps: [2, 7], losses: [0.5, 2] }
    ];
    kernel.snapshot(network([], { timeline: timeline(4) as never, branches }));
    host.recording.follow(host.connection, host.connection!.graph);
    strip.refresh('values');
    const [loss, branch] = ['loss', 'branch'].map(
      look => strip.node.querySelector(`path.workbench-mod-${look}`)!.getAttribute('d')!
    );
    const middle = (WIDTH / 2).toFixed(1);
    expect(branch).toContain(`L${WIDTH.toFixed(1)} `);
    expect(loss.split('L').at(-1)).toMatch(new RegExp(`^${middle} `));
    const mark = strip.node.querySelector<HTMLElement>('.workbench-RunMark')!;
    expect(mark.style.left).toBe('16.67%');
    // A click at the right end, where only the branch is, goes to the last run: the present.
    const chart = strip.node.querySelector<HTMLElement>('.workbench-RunsChart')!;
    chart.getBoundingClientRect = () => new DOMRect(0, 0, 600, 40);
    chart.setPointerCapture = () => undefined;
    const click = (clientX: number): void => {
      chart.dispatchEvent(new MouseEvent('pointerdown', { clientX, bubbles: true }));
    };
    click(200);
    expect(kernel.last('moment').step).toBe(3);
    click(600);
    expect(host.recording.at).toBeNull();
    expect(host.recording.problem).toBeNull();
  });

  it('says of a branch that was stopped at once that it has no run', () => {
    const branches = [
      { name: 'branch from run 2', step: 2, count: 2, text: '', steps: [], losses: [] }
    ];
    kernel.snapshot(network([], { timeline: timeline(4) as never, branches }));
    host.recording.follow(host.connection, host.connection!.graph);
    strip.refresh('values');
    const note = [...strip.node.querySelectorAll<HTMLElement>('.workbench-RunNote')].at(-1)!;
    expect(note.textContent).toBe(' · branch from run 2: no run yet');
    expect(note.title).toBe('branch from run 2: no run yet');
  });

  it('runs again from a step, says how far it is, and stops', () => {
    tell(40);
    const button = (): HTMLButtonElement =>
      strip.node.querySelector<HTMLButtonElement>('.workbench-RunAgain')!;
    expect(button().disabled).toBe(true); // the present is shown
    host.asking.runAgain(7);
    const { step, request } = kernel.last('run-again');
    expect(step).toBe(7);
    kernel.tell({ type: 'progress', request, done: 3, total: 34, left: 1 });
    strip.refresh('connection');
    expect(button().textContent).toBe('Stop 3 of 34');
    button().click();
    expect(kernel.last('stop').of).toBe(request);
  });

  it('draws a saved picture, and goes nowhere', () => {
    tell(40);
    host.recording.follow(null, host.connection!.graph);
    strip.refresh('connection');
    expect(strip.node.querySelector('path')).not.toBeNull();
    expect(strip.node.querySelector<HTMLInputElement>('input')!.disabled).toBe(true);
  });
});

describe('NormsOverRuns', () => {
  it('shows the norms of the selected node over the runs', async () => {
    const kernel = new TestKernel();
    const host = new RecordingHost(kernel.connect());
    const norms = new NormsOverRuns(host);
    kernel.snapshot(network([], { timeline: timeline(9) as never }));
    host.recording.follow(host.connection, host.connection!.graph);
    host.state.select(W);
    norms.refresh('selection');
    expect(norms.isHidden).toBe(true);
    const { request, node } = kernel.last('norms');
    expect(node).toBe(W);
    kernel.tell({
      type: 'norms',
      request,
      node,
      steps: [1, 9],
      values: [1, 2],
      gradients: [null, null]
    });
    await new Promise(resolve => setTimeout(resolve));
    expect(norms.isHidden).toBe(false);
    const [only, ...others] = norms.node.querySelectorAll('figure');
    expect(only.textContent).toBe('‖value‖ over 9 steps1 … 2');
    expect(others).toEqual([]);
    norms.dispose();
  });
});
