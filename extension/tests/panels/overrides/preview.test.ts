// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { changeText } from '../../../src/panels/overrides/preview';
import { RuleForm } from '../../../src/panels/overrides/rule';
import type { IDistribution, IOverride, IPassed } from '../../../src/wire/protocol';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, PRODUCT, clipOfH, network } from '../../helpers/network';

const histogram = (high: number): IDistribution => ({
  counts: [1, 2],
  low: 0,
  high,
  zeros: 0,
  nan: 0,
  inf: 0,
  size: 3
});

const passed = (changes: Partial<IPassed> = {}): IPassed => ({
  node: PRODUCT,
  name: 'matmul 2',
  before: histogram(0.5),
  after: histogram(0.1),
  before_norm: 0.5,
  after_norm: 0.1,
  change: 0.8,
  ...changes
});

function open(overrides: IOverride[] = [], seconds = 0.01) {
  const kernel = new TestKernel();
  const host = new RecordingHost(kernel.connect());
  host.show(network(overrides, { seconds }));
  host.state.select(H);
  const form = new RuleForm(host);
  form.refresh('graph');
  const preview = (): HTMLElement | null =>
    form.node.querySelector<HTMLElement>('.workbench-Preview');
  const type = async (text: string): Promise<void> => {
    const field = form.node.querySelector<HTMLInputElement>('.workbench-Expression')!;
    field.value = text;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await vi.advanceTimersByTimeAsync(200);
    const { request } = kernel.last('check-expression');
    kernel.tell({ type: 'check-expression', request, ok: true, message: 'ok' });
    await vi.advanceTimersByTimeAsync(0);
  };
  const answer = async (one = passed()): Promise<void> => {
    const { request } = kernel.last('preview');
    kernel.tell({ type: 'preview', request, node: H, passed: [one] });
    await vi.advanceTimersByTimeAsync(0);
  };
  return { kernel, host, form, preview, type, answer };
}

describe('the preview of a rule', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is asked for once the kernel would take the rule, and drawn', async () => {
    const { kernel, preview, type, answer } = open();
    expect(preview()).toBeNull();
    await type('clip(d, -0.1, 0.1)');
    expect(kernel.last('preview')).toMatchObject({
      node: H,
      rule: 'clip(d, -0.1, 0.1)',
      target: { kind: 'node', node: H }
    });
    await answer();
    expect(preview()?.textContent).toContain('would pass on to matmul 2');
    expect(preview()?.textContent).toContain('‖·‖ 0.5 → 0.1 (80\u00a0%)');
    expect(preview()?.querySelectorAll('path.workbench-mod-behind')).toHaveLength(1);
    // Nothing was attached by looking.
    expect(kernel.events('override')).toEqual([]);
  });

  it('stops what was asked for when another rule is written', async () => {
    const { kernel, preview, type, answer } = open();
    await type('clip(d, -0.1, 0.1)');
    const first = kernel.last('preview').request;
    await type('clip(d, -0.2, 0.2)');
    expect(kernel.events('stop').map(({ of }) => of)).toContain(first);
    kernel.tell({ type: 'preview', request: first, node: H, passed: [passed()] });
    await vi.advanceTimersByTimeAsync(0);
    expect(preview()?.querySelector('figure')).toBeNull();
    await answer();
    expect(preview()?.querySelectorAll('figure')).toHaveLength(1);
  });

  it('of a long program waits for a click', async () => {
    const { kernel, preview, type } = open([], 12);
    await type('2 * d');
    expect(kernel.events('preview')).toEqual([]);
    preview()!.querySelector('button')!.click();
    expect(kernel.last('preview').rule).toBe('2 * d');
  });

  it('says what the kernel refused', async () => {
    const { kernel, preview, type } = open();
    await type('2 * d');
    const { request } = kernel.last('preview');
    kernel.tell({ type: 'failure', request, message: 'no gradient reaches h' });
    await vi.advanceTimersByTimeAsync(0);
    expect(preview()?.textContent).toContain('no gradient reaches h');
  });

  it('of a rule in force says what passes, and without it', async () => {
    const { kernel, preview, answer } = open([clipOfH()]);
    expect(kernel.last('preview')).toMatchObject({ rule: 'clip(d, -0.1, 0.1)', id: 7 });
    await answer();
    expect(preview()?.textContent).toMatch(/^passes on to matmul 2/);
  });

  it('has words for what has no norm', () => {
    expect(changeText(passed({ after_norm: null, change: null }))).toBe(
      '‖·‖ 0.5 → not finite'
    );
    expect(changeText(passed({ after: null, after_norm: null, change: null }))).toBe(
      '‖·‖ 0.5 → nothing'
    );
    expect(changeText(passed({ change: 0, after_norm: 0.5 }))).toBe('‖·‖ 0.5, unchanged');
  });
});
