// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { RuleForm } from '../../../src/panels/overrides/rule';
import type { IOverride } from '../../../src/wire/protocol';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, PRODUCT, W, clipOfH, network } from '../../helpers/network';

/** The form of a node, with a kernel behind it. */
function open(overrides: IOverride[] = [], node = H, program = network(overrides)) {
  const kernel = new TestKernel();
  const connection = kernel.connect();
  const host = new RecordingHost(connection);
  host.show(program);
  host.state.select(node);
  const form = new RuleForm(host);
  form.refresh('graph');
  const find = (selector: string): HTMLElement => {
    const found = form.node.querySelector<HTMLElement>(selector);
    if (found === null) {
      throw new Error(`the form has no ${selector}`);
    }
    return found;
  };
  const field = find('.workbench-Expression') as HTMLInputElement;
  return {
    kernel,
    host,
    form,
    find,
    field,
    apply: find('.workbench-mod-primary') as HTMLButtonElement,
    click: (label: string): void => {
      const buttons = [...form.node.querySelectorAll('button')];
      buttons.find(({ textContent }) => textContent === label)!.click();
    },
    type: (text: string): void => {
      field.value = text;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    },
    submit: (): void => {
      find('form').dispatchEvent(
        new Event('submit', { bubbles: true, cancelable: true })
      );
    },
    chosen: (): string[] =>
      [...form.node.querySelectorAll('.workbench-mod-chosen')].map(
        ({ textContent }) => textContent
      )
  };
}

describe('RuleForm', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('begins with the true rule, which there is nothing to apply of', () => {
    const { field, apply, chosen } = open();
    expect(field.value).toBe('d');
    expect(chosen()).toEqual(['true', 'this node']);
    expect(apply.disabled).toBe(true);
  });

  it('writes the expression of a chip, checks it and applies it with its label', () => {
    const { kernel, field, click, submit } = open();
    // The gradient of the product, which tanh reads, reaches 0.5.
    click('clip');
    expect(field.value).toBe('clip(d, -0.3, 0.3)');
    expect(kernel.last('check-expression')).toMatchObject({
      rule: 'clip(d, -0.3, 0.3)',
      target: { kind: 'node', node: H }
    });
    submit();
    expect(kernel.last('override')).toMatchObject({
      rule: 'clip(d, -0.3, 0.3)',
      label: 'clip ±0.3',
      target: { kind: 'node', node: H }
    });
    expect(kernel.last('override').id).toBeUndefined();
  });

  it('keeps numbers and expression together', () => {
    const { form, field, click, type } = open();
    click('clip');
    const [low, high] =
      form.node.querySelectorAll<HTMLInputElement>('.workbench-Number');
    expect([low.value, high.value]).toEqual(['-0.3', '0.3']);
    high.value = '0.25';
    high.dispatchEvent(new Event('input', { bubbles: true }));
    expect(field.value).toBe('clip(d, -0.3, 0.25)');
    type('clip(d, -3, 0.25)');
    expect(low.value).toBe('-3');
  });

  it('bounds a clip by the true gradient where an override runs', () => {
    const { field, click } = open([clipOfH({ rule: 'zeros_like(d)' })]);
    click('clip');
    expect(field.value).toBe('clip(d, -0.5, 0.5)');
  });

  it('bounds a clip by 0.1 where no gradient is passed on', () => {
    const { field, click } = open([], W);
    click('clip');
    expect(field.value).toBe('clip(d, -0.1, 0.1)');
  });

  it('asks the kernel when the typing pauses; only the last time counts', async () => {
    const { kernel, field, find, apply, type } = open();
    type('dd');
    type('2 * dd');
    vi.advanceTimersByTime(100);
    expect(kernel.events('check-expression')).toHaveLength(0);
    vi.advanceTimersByTime(60);
    expect(kernel.events('check-expression').map(({ rule }) => rule)).toEqual([
      '2 * dd'
    ]);
    const first = kernel.last('check-expression').request;
    type('2 * d');
    vi.advanceTimersByTime(160);
    const second = kernel.last('check-expression').request;
    kernel.tell({ type: 'check-expression', request: second, ok: true, message: 'ok' });
    await vi.advanceTimersByTimeAsync(0);
    kernel.tell({
      type: 'check-expression',
      request: first,
      ok: false,
      message: 'no name dd'
    });
    await vi.advanceTimersByTimeAsync(0);
    expect(find('.workbench-Message').textContent).toBe('ok');
    expect(field.getAttribute('aria-invalid')).toBe('false');
    expect(apply.disabled).toBe(false);
  });

  it('applies a corrected rule before the kernel has looked at it', async () => {
    const { kernel, apply, type, submit } = open();
    type('2 * dd');
    vi.advanceTimersByTime(160);
    const { request } = kernel.last('check-expression');
    kernel.tell({ type: 'check-expression', request, ok: false, message: 'no dd' });
    await vi.advanceTimersByTimeAsync(0);
    expect(apply.disabled).toBe(true);
    type('2 * d');
    submit();
    expect(kernel.last('override').rule).toBe('2 * d');
  });

  it('shows why a rule is refused, as text, and does not apply it', async () => {
    const { kernel, find, field, apply, type, submit } = open();
    type('2 * dd');
    vi.advanceTimersByTime(160);
    const message = 'unknown name “dd” <b>; use g, d, x, y';
    const { request } = kernel.last('check-expression');
    kernel.tell({ type: 'check-expression', request, ok: false, message });
    await vi.advanceTimersByTimeAsync(0);
    expect(find('.workbench-Message').textContent).toBe(message);
    expect(find('.workbench-Message').children).toHaveLength(0);
    expect(field.getAttribute('aria-invalid')).toBe('true');
    expect(apply.disabled).toBe(true);
    submit();
    expect(kernel.events('override')).toEqual([]);
  });

  it('applies by Enter', () => {
    const { kernel, field, type } = open();
    type('2 * d');
    const enter = { key: 'Enter', bubbles: true, cancelable: true };
    field.dispatchEvent(new KeyboardEvent('keydown', enter));
    expect(kernel.last('override').rule).toBe('2 * d');
  });

  it('applies to every node of the op', () => {
    const { kernel, click, submit } = open();
    click('reverse');
    click('every tanh');
    submit();
    expect(kernel.last('override')).toMatchObject({
      rule: '-d',
      target: { kind: 'op', op: 'tanh' }
    });
  });

  it('applies to the scope', () => {
    const { kernel, click, submit } = open();
    click('stop');
    click('scope');
    submit();
    expect(kernel.last('override')).toMatchObject({
      rule: 'zeros_like(d)',
      target: { kind: 'scope', scope: 'layer' }
    });
  });

  it('offers the steps of a loop, where there is one', () => {
    const every = clipOfH({ target: { kind: 'op', op: 'tanh' }, steps: '10:20' });
    const strings = network().header.strings.map(s => (s === 'multiply' ? 'scan' : s));
    const { kernel, form, find, apply, click, submit } = open(
      [every],
      H,
      network([every], { strings })
    );
    const steps = find('[placeholder="all"]') as HTMLInputElement;
    const label = steps.parentElement!;
    expect(label.hidden).toBe(false);
    expect(steps.value).toBe('10:20');
    expect(find('.workbench-Effect').textContent).toContain(
      'tanh in steps 10 to 19'
    );
    expect(apply.disabled).toBe(true);
    steps.value = ' -1 ';
    steps.dispatchEvent(new Event('input', { bubbles: true }));
    expect(apply.disabled).toBe(false);
    submit();
    expect(kernel.last('override')).toMatchObject({ id: 7, steps: '-1' });
    click('this node');
    expect(label.hidden).toBe(true);
    submit();
    expect(kernel.last('override')).toMatchObject({ steps: '' });
    expect(form.node.textContent).not.toContain('in step -1');
    const straight = open([every]);
    expect(straight.find('[placeholder="all"]').parentElement!.hidden).toBe(true);
  });

  it('shows the override that is there, what it does, and edits it in place', () => {
    const { kernel, find, field, chosen, type, submit } = open([clipOfH()]);
    expect(field.value).toBe('clip(d, -0.1, 0.1)');
    expect(chosen()).toEqual(['clip', 'this node']);
    expect(find('.workbench-Effect').textContent).toContain(
      'changes ∂loss/∂W by 12\u00a0%'
    );
    type('clip(d, -0.2, 0.2)');
    submit();
    expect(kernel.last('override')).toMatchObject({
      id: 7,
      rule: 'clip(d, -0.2, 0.2)'
    });
  });

  it('removes the override when the true rule is chosen', () => {
    const { kernel, apply, click, submit } = open([clipOfH()]);
    click('true');
    expect(apply.textContent).toBe('Remove');
    submit();
    expect(kernel.last('remove').id).toBe(7);
    expect(kernel.events('override')).toEqual([]);
  });

  it('switches off and on, and removes', () => {
    const on = open([clipOfH()]);
    on.click('Switch off');
    expect(on.kernel.last('switch')).toMatchObject({ id: 7, enabled: false });
    on.click('Remove');
    expect(on.kernel.last('remove').id).toBe(7);
    const off = open([clipOfH({ enabled: false })]);
    expect(off.find('.workbench-Effect').textContent).toContain('off');
    off.click('Switch on');
    expect(off.kernel.last('switch')).toMatchObject({ id: 7, enabled: true });
  });

  it('does not take the override of an op from its other nodes', () => {
    const shared = clipOfH({ target: { kind: 'op', op: 'tanh' } });
    const { kernel, click, type, submit } = open([shared]);
    click('this node');
    type('2 * d');
    submit();
    expect(kernel.last('override')).toMatchObject({
      target: { kind: 'node', node: H }
    });
    expect(kernel.last('override').id).toBeUndefined();
  });

  it('leaves a rule alone that holds within the node', () => {
    const inner = clipOfH({ target: { kind: 'op', op: 'cos' } });
    const { kernel, form, field, type, submit } = open([inner]);
    expect(form.node.textContent).toContain('Within it, every cos has the rule');
    expect(form.node.textContent).not.toContain('Remove');
    expect(field.value).toBe('d');
    type('2 * d');
    submit();
    expect(kernel.last('override').id).toBeUndefined();
  });

  it('leaves what is being typed alone when values come', () => {
    const { host, form, field, type } = open();
    type('2 * d + ');
    host.show(network([clipOfH()]));
    form.refresh('values');
    expect(field.value).toBe('2 * d + ');
    host.state.select(PRODUCT);
    form.refresh('selection');
    expect(field.value).toBe('d');
  });

  it('says when a rule cannot be attached', () => {
    const input = open([], W);
    expect(input.find('.workbench-Hint').textContent).toContain('W is an input');
    expect(input.find('.workbench-FormBody').hidden).toBe(true);
    const saved = new RecordingHost(null);
    saved.state.select(H);
    const form = new RuleForm(saved);
    form.refresh('graph');
    expect(form.node.textContent).toContain('saved picture');
  });

  it('tells what the kernel refuses after applying', async () => {
    const { kernel, find, click, submit } = open();
    click('straight-through');
    submit();
    kernel.tell({
      type: 'failure',
      request: kernel.last('override').request,
      message: 'g has shape 5×2, the input 5×3'
    });
    await vi.advanceTimersByTimeAsync(0);
    expect(find('.workbench-Message').textContent).toContain('the input 5×3');
  });
});
