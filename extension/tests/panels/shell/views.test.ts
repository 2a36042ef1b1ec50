// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphPanel } from '../../../src/panels/shell/panel';
import { TestKernel, whole } from '../../helpers/channel';
import { type INetwork, network } from '../../helpers/network';
import { Program, clip } from '../../helpers/programs';
import { tellProgram, tellSteps } from '../../helpers/rewrites';

const [W, SCAN, LOSS] = [0, 1, 2];

/** A loss of a scan: a node that holds a program. */
function looped(withScan = true): INetwork {
  const program = new Program();
  const w = program.input('W');
  const scan = program.op(withScan ? 'scan' : 'tanh', [w], { name: 'h' });
  program.op('sum', [scan], { name: 'loss' });
  program.holders = withScan ? [scan] : [];
  return program.encode();
}

/** One step of it: a scan in the scan, and an override. */
function step(): INetwork {
  const program = new Program();
  const inner = program.op('scan', [program.input('x')]);
  program.op('tanh', [inner]);
  program.holders = [inner];
  program.overrides = [clip(1)];
  return program.encode();
}

describe('the views of a panel', () => {
  let kernel: TestKernel;
  let panel: GraphPanel;

  const settled = (): Promise<void> => vi.advanceTimersByTimeAsync(0).then();
  const part = (name: string): HTMLElement =>
    panel.node.querySelector(`.workbench-${name}`)!;
  /** The views that are to be seen, and what stands beside them. */
  const seen = (): string[] => {
    const parts = ['Cell', 'Inside', 'Rewrites', 'Inspector', 'Inspector[aria-label$=inside]'];
    return parts.filter(name => panel.node.querySelector(`.workbench-${name}:not([hidden])`));
  };
  const answerInside = async (): Promise<void> => {
    const { request, path } = kernel.last('inside');
    const { header, buffers } = step();
    const place = { path, step: path.at(-1)!.step, steps: 5, marks: [], norms: [] };
    kernel.tell({ type: 'inside', request, ...place, ...whole(header) }, buffers);
    await settled();
  };
  const crumbs = (): string[] =>
    [...part('Crumbs').querySelectorAll('.workbench-Crumb')].map(
      crumb => crumb.querySelector('strong, button')!.textContent
    );

  beforeEach(() => {
    vi.useFakeTimers();
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
    kernel = new TestKernel();
    panel = new GraphPanel();
    document.body.replaceChildren(panel.node);
    panel.attach();
    panel.connectTo(kernel.connect());
    kernel.snapshot(looped());
  });

  afterEach(() => {
    panel.dispose();
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it('are the graph of the cell, with the inspector beside it once a node is chosen', () => {
    expect(seen()).toEqual(['Cell']);
    expect(panel.view).toBe(panel.cell);
    expect([panel.shown, panel.within]).toEqual([panel.state, null]);
    expect(panel.lookInside(LOSS)).toBe(false);
    panel.state.select(LOSS);
    expect(seen()).toEqual(['Cell', 'Inspector']);
    // Who has closed it wants it closed.
    panel.toggleInspector();
    panel.state.select(SCAN);
    expect(seen()).toEqual(['Cell']);
    panel.toggleInspector();
    panel.state.select(LOSS);
    expect(seen()).toEqual(['Cell', 'Inspector']);
  });

  it('what is inside stands over it, and the simplified derivative over both', async () => {
    panel.toggleInspector();
    expect(panel.lookInside(SCAN)).toBe(true);
    await answerInside();
    const inside = panel.view;
    expect(inside).not.toBe(panel.cell);
    expect(inside.within).toEqual({ step: 0, steps: 5 });
    expect(panel.shown.graph?.op(1)).toBe('scan');
    expect(seen()).toEqual([
      'Inside',
      'Inspector',
      'Inspector[aria-label$=inside]'
    ]);
    panel.state.settings.set({ stage: 'simplified' });
    tellSteps(kernel);
    await settled();
    tellProgram(kernel);
    await settled();
    expect(seen()).toEqual(['Rewrites', 'Inspector']);
    expect(panel.shown.graph?.label(1)).toBe('2 * x');
    panel.step(-1);
    expect(kernel.last('program').step).toBe(1);
    panel.state.settings.set({ stage: 'traced' });
    expect(panel.view).toBe(inside);
    part('Crumbs').querySelector('button')!.click();
    expect(seen()).toEqual(['Cell', 'Inspector']);
    panel.step(1);
    expect(panel.state.step, 'the sweeps are stepped').toBe(1);
  });

  it('are drawn by the same settings, but for what a view is for', async () => {
    panel.lookInside(SCAN);
    await answerInside();
    const { state } = panel.view;
    panel.state.settings.set({ stage: 'simplified', colouring: 'value', bins: 7 });
    expect([state.colouring, state.bins]).toEqual(['value', 7]);
    const simplified = panel.shown;
    expect([simplified.stage, simplified.colouring, simplified.bins]).toEqual([
      'traced',
      'none',
      7
    ]);
  });

  it('of a node deeper inside the last one is asked for, and of a step the last', async () => {
    panel.lookInside(SCAN);
    await answerInside();
    panel.view.canvas.activated.emit(1);
    expect(crumbs()).toEqual(['h, step 0', 'scan']);
    expect(kernel.last('inside').path).toEqual([
      { node: SCAN, step: 0 },
      { node: 1, step: 0 }
    ]);
    expect(panel.shown.graph, 'not there yet').toBeNull();
    await answerInside();
    const asked = kernel.events('inside').length;
    const forward = part('Inside').querySelector<HTMLElement>('[aria-label="Step after"]')!;
    forward.click();
    forward.click();
    forward.click();
    expect(kernel.events('inside')).toHaveLength(asked + 1);
    await answerInside();
    expect(kernel.last('inside').path.at(-1)).toEqual({ node: 1, step: 3 });
    expect(kernel.events('inside')).toHaveLength(asked + 2);
  });

  it('what is inside ends with its node, and with its kernel', async () => {
    panel.lookInside(SCAN);
    await answerInside();
    kernel.snapshot(looped(false));
    expect(panel.view).toBe(panel.cell);
    kernel.snapshot(looped());
    panel.lookInside(SCAN);
    panel.disconnect();
    expect(panel.view).toBe(panel.cell);
    expect(kernel.events('stop').map(({ of }) => of)).toContain(
      kernel.last('inside').request
    );
  });

  it('the bar counts what is found in the one that is shown', async () => {
    const hits = (): string => part('Hits').textContent;
    panel.lookInside(SCAN);
    await answerInside();
    const search = panel.node.querySelector<HTMLInputElement>('[type=search]')!;
    search.value = 'tanh';
    search.dispatchEvent(new Event('input', { bubbles: true }));
    expect(panel.shown.matches.size).toBe(1);
    expect(hits()).toBe('1 hit');
    expect(panel.state.matches.size).toBe(0);
  });

  it('both sides of a comparison are folded and selected alike', () => {
    kernel.snapshot(network());
    panel.recording.compareWith({ kind: 'now' });
    panel.recording.setView('beside');
    const side = part('OtherSide');
    expect(side.hidden).toBe(false);
    panel.state.select(W);
    expect(side.querySelector('.workbench-Canvas')?.getAttribute('aria-label')).toContain(
      `at ${panel.state.graph!.label(W)}`
    );
    panel.recording.compareWith(null);
    expect(side.hidden).toBe(true);
  });
});
