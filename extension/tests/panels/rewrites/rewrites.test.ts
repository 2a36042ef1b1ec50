// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Rewrites } from '../../../src/panels/rewrites/rewrites';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { clipOfH, network } from '../../helpers/network';
import { tellProgram, tellSteps } from '../../helpers/rewrites';

/** Let promises that are settled tell so. */
const settled = (): Promise<void> => vi.advanceTimersByTimeAsync(0).then();

describe('Rewrites', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let rewrites: Rewrites;

  const button = (name: string): HTMLButtonElement =>
    rewrites.node.querySelector(
      `button[aria-label="${name}"], button[title="${name}"]`
    )!;
  const text = (selector: string): string =>
    rewrites.node.querySelector(`.workbench-${selector}`)?.textContent ?? '';
  const slider = (): HTMLInputElement => rewrites.node.querySelector('input')!;
  const lines = (): string[] =>
    [...rewrites.node.querySelectorAll('[role=treeitem]')].map(
      line => line.textContent
    );
  const answer = async (): Promise<void> => {
    tellProgram(kernel);
    await settled();
  };

  beforeEach(async () => {
    vi.useFakeTimers();
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    rewrites = new Rewrites(host);
    document.body.replaceChildren(rewrites.node);
    host.show(network([clipOfH()]));
    rewrites.replay.show(host.connection, host.state.graph);
    tellSteps(kernel);
    await settled();
    await answer();
  });

  afterEach(() => {
    rewrites.dispose();
    vi.useRealTimers();
  });

  it('tells the step: its rule, both sides, where the rule stands, its note', () => {
    expect(text('StepText')).toBe('step 2 of 2');
    expect(text('WholeProgram')).toBe('∂y/∂x = 2 * x');
    expect(text('RuleHead')).toBe('x minus zerosimplify · exact_rules.py:31');
    expect(text('RuleSides')).toBe('2 * x - 0 →  becomes 2 * x');
    expect(text('RuleNote')).toBe('The sign of a zero may change.');
    expect(slider().getAttribute('aria-valuetext')).toBe(
      'step 2, x minus zero: 2 * x - 0 becomes 2 * x'
    );
    expect(rewrites.node.querySelector('[aria-live=polite]')).not.toBeNull();
  });

  it('the overrides that hold are named, in the picture as below it', () => {
    expect(text('Pill')).toBe('clip ±0.1');
    expect(lines().find(line => line.includes('override'))).toContain(
      '2 * x, multiply, scalar, reads x, override clip ±0.1'
    );
  });

  it('the program is a tree of text that says what came and what went', async () => {
    button('One step back').click();
    await answer();
    expect(lines().map(line => line.split(',')[0])).toEqual([
      'x',
      '2 * x',
      '… - 0',
      'x + x'
    ]);
    expect(text('WholeProgram')).toBe('3 nodes at this step');
    expect(lines()[1]).toContain('new in this step');
    expect(lines()[3]).toContain('gone with this step');
  });

  it('the slider goes where it is put', async () => {
    slider().value = '0';
    slider().dispatchEvent(new Event('input', { bubbles: true }));
    expect(kernel.last('program').step).toBe(0);
    await answer();
    expect(text('StepText')).toBe('step 0 of 2');
    expect(text('TimelineStep')).toContain('before the first step');
    expect(button('One step back').disabled).toBe(true);
  });

  it('space plays from the beginning, waits for each step, and stops at the end', async () => {
    const space = new KeyboardEvent('keydown', { key: ' ', bubbles: true });
    slider().dispatchEvent(space);
    expect(button('Pause')).not.toBeNull();
    expect(kernel.last('program').step).toBe(0);
    await vi.advanceTimersByTimeAsync(5000);
    expect(rewrites.replay.at).toBe(0); // what is not there yet is not passed over
    await answer();
    await vi.advanceTimersByTimeAsync(1200);
    await answer();
    await vi.advanceTimersByTimeAsync(1200);
    expect(rewrites.replay.at).toBe(2);
    expect(button('Play the steps')).not.toBeNull();
  });

  it('a rule is switched off by one button, and on again by another', async () => {
    const off = rewrites.node.querySelector<HTMLElement>('.workbench-TimelineOff')!;
    off.click();
    expect(kernel.last('simplify').without).toEqual(['x minus zero']);
    expect(text('RuleOff')).toBe('x minus zero ×');
    tellSteps(kernel, []);
    await settled();
    await answer();
    expect(text('TimelineStep')).toContain('no rule makes it simpler');
    button('Use the rule “x minus zero” again').click();
    expect(kernel.last('simplify').without).toEqual([]);
  });

  it('a node leads to the node of the cell that it belongs to', () => {
    expect([0, 1, 2].map(node => rewrites.forwardOf(node))).toEqual([null, 0, 1]);
  });

  it('what is selected stays so at the other step', async () => {
    rewrites.state.select(1);
    button('One step back').click();
    await answer();
    expect(rewrites.state.graph?.label(rewrites.state.selected!)).toBe('2 * x');
    button('One step back').click();
    await answer();
    expect(rewrites.state.selected).toBeNull();
  });

  it('a failure is told in words', async () => {
    rewrites.replay.switchOff('x plus x');
    const { request } = kernel.last('simplify');
    kernel.tell({ type: 'failure', request, message: 'the derivative has 9,000 nodes' });
    await settled();
    expect(text('TimelineStep')).toBe('the derivative has 9,000 nodes');
    expect(slider().disabled).toBe(true);
  });
});
