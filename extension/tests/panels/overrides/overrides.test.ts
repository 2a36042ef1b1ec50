// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { GraphConnection } from '../../../src/model/connection';
import { OverrideList, codeOf, placeAt } from '../../../src/panels/overrides/overrides';
import type { IHistory, IOverride } from '../../../src/wire/protocol';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, PRODUCT, SCALED, W, clipOfH, network } from '../../helpers/network';

const SCALE = {
  id: 8,
  label: 'scale ×0.5',
  rule: '0.5 * d',
  target: { kind: 'op', op: 'matmul' },
  matched: [PRODUCT],
  effects: [{ node: W, name: 'W', relative: 0.5, angle: 0 }],
  code: 'model.override("matmul", vjp="0.5 * d")'
} as const;

const clip = clipOfH();
const scale = clipOfH({ ...SCALE, matched: [...SCALE.matched], effects: [] });

describe('the panel of overrides', () => {
  let kernel: TestKernel;
  let connection: GraphConnection;
  let host: RecordingHost;
  let list: OverrideList;

  beforeEach(() => {
    vi.useFakeTimers();
    kernel = new TestKernel();
    connection = kernel.connect();
    open(new RecordingHost(connection));
  });

  afterEach(() => {
    connection.dispose();
    vi.useRealTimers();
    document.body.replaceChildren();
  });

  function open(with_: RecordingHost): void {
    host = with_;
    list = new OverrideList(host);
    document.body.replaceChildren(list.node);
    list.refresh('graph');
  }

  const show = (overrides: IOverride[], history?: IHistory): void => {
    host.show(network(overrides, history ? { history } : {}));
    list.refresh('values');
  };
  const rows = (): HTMLElement[] => [
    ...list.node.querySelectorAll<HTMLElement>('.workbench-Override')
  ];
  const button = (label: string, where: ParentNode = list.node): HTMLButtonElement => {
    const found = [...where.querySelectorAll('button')].find(
      node =>
        !node.hidden &&
        (node.textContent === label || node.getAttribute('aria-label') === label)
    );
    if (found === undefined) {
      throw new Error(`there is no button ${label}`);
    }
    return found;
  };
  const key = (node: Element, name: string): void => {
    node.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
  };
  const settled = async (): Promise<void> => {
    await vi.advanceTimersByTimeAsync(0);
  };

  it('is empty in words', () => {
    expect(list.node.textContent).toContain('All gradients are the true ones');
    expect(list.node.querySelector<HTMLElement>('details')!.hidden).toBe(true);
  });

  it('lists what each is on, what it changes, and who has the say instead', () => {
    show([
      clipOfH({ note: 'clip ±1 has the say over 2 of its 3 nodes' }),
      clipOfH({
        ...SCALE,
        target: { kind: 'other', text: 'pattern (W, x, b): W @ x + b' },
        matched: [H],
        covered: [PRODUCT],
        effects: [],
        enabled: false,
        stored: false
      })
    ]);
    const [first, second] = rows().map(({ textContent }) => textContent);
    expect(first).toContain('clip(d, -0.1, 0.1)');
    expect(first).toContain('∂loss/∂W12\u00a0%, turned 3°');
    expect(first).toContain('clip ±1 has the say over 2 of its 3 nodes');
    expect(second).toContain('pattern (W, x, b): W @ x + b');
    expect(second).toContain('1 node, 1 more inside');
    expect(second).toContain('off: the true rule runs');
    expect(second).toContain('Not kept when the session is saved');
    expect(rows()[1].classList.contains('workbench-mod-off')).toBe(true);
    expect(list.node.textContent).toContain('the lower one applies');
  });

  it('says in which steps of a loop each holds', () => {
    const target = { kind: 'op', op: 'tanh' } as const;
    show([clipOfH({ target, steps: '10:20' }), { ...scale, steps: '-1' }]);
    const targets = rows().map(
      row => row.querySelector('.workbench-Target')!.textContent
    );
    expect(targets).toEqual(['every tanh in steps 10 to 19', 'every matmul in the last step']);
  });

  it('lets one write other steps', () => {
    const inner = clipOfH({ target: { kind: 'op', op: 'tanh' }, steps: '3' });
    const strings = network().header.strings.map(s => (s === 'multiply' ? 'scan' : s));
    host.show(network([inner], { strings }));
    list.refresh('values');
    button('Edit').click();
    const [rule, steps] =
      rows()[0].querySelectorAll<HTMLInputElement>('.workbench-Input');
    expect([rule.value, steps.value]).toEqual(['clip(d, -0.1, 0.1)', '3']);
    expect(button('Apply').disabled).toBe(true);
    steps.value = '10:20';
    steps.dispatchEvent(new Event('input', { bubbles: true }));
    key(steps, 'Enter');
    expect(kernel.last('edit')).toMatchObject({
      id: 7,
      rule: 'clip(d, -0.1, 0.1)',
      steps: '10:20'
    });
  });

  it('switches and removes', () => {
    show([clip]);
    const box = rows()[0].querySelector('input')!;
    box.click();
    expect(kernel.last('switch')).toMatchObject({ id: 7, enabled: false });
    button('Remove').click();
    expect(kernel.last('remove').id).toBe(7);
  });

  it('walks through the nodes that it matches', () => {
    show([clipOfH({ matched: [PRODUCT, H, SCALED] })]);
    expect(rows()[0].textContent).toContain('3 nodes');
    button('Next node').click();
    list.refresh('selection');
    expect(rows()[0].textContent).toContain('node 1 of 3');
    button('Previous node').click();
    list.refresh('selection');
    expect(host.state.selected).toBe(SCALED);
    expect(host.centred).toEqual([PRODUCT, SCALED]);
    expect(rows()[0].classList.contains('workbench-mod-here')).toBe(true);
  });

  it('moves by arrow keys, and the keyboard goes along', () => {
    show([clip, scale]);
    const handle = rows()[0].querySelector<HTMLElement>('.workbench-Handle')!;
    expect(handle.getAttribute('aria-label')).toContain('1 of 2');
    handle.focus();
    key(handle, 'ArrowUp');
    expect(kernel.events('move')).toEqual([]);
    key(handle, 'ArrowDown');
    expect(kernel.last('move')).toMatchObject({ id: 7, to: 1 });
    show([scale, clip]);
    expect(
      rows().map(row => row.querySelector('.workbench-Pill')!.textContent)
    ).toEqual(['scale ×0.5', 'clip ±0.1']);
    expect(document.activeElement).toBe(handle);
    expect(handle.getAttribute('aria-label')).toContain('2 of 2');
  });

  it('a single one has nowhere to go', () => {
    show([clip]);
    expect(rows()[0].querySelector<HTMLElement>('.workbench-Handle')!.hidden).toBe(
      true
    );
  });

  it('knows where a dragged row is let go', () => {
    const row = (top: number): HTMLElement => {
      const node = document.createElement('li');
      node.getBoundingClientRect = () => new DOMRect(0, top, 100, 40);
      return node;
    };
    const [a, b, c] = [row(0), row(40), row(80)];
    expect([-5, 10, 70, 200].map(y => placeAt([a, b, c], a, y))).toEqual([0, 0, 1, 2]);
    expect([10, 45, 99, 101].map(y => placeAt([a, b, c], c, y))).toEqual([0, 1, 2, 2]);
  });

  it('edits in place: the kernel is asked while one types, and has the last word', async () => {
    show([clip]);
    button('Edit').click();
    const field = rows()[0].querySelector<HTMLInputElement>('.workbench-Input')!;
    expect(document.activeElement).toBe(field);
    expect(field.value).toBe('clip(d, -0.1, 0.1)');
    field.value = 'clip(q, -1, 1)';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    vi.advanceTimersByTime(200);
    const { request, rule, target } = kernel.last('check-expression');
    expect([rule, target]).toEqual(['clip(q, -1, 1)', { kind: 'node', node: H }]);
    kernel.tell({ type: 'check-expression', request, ok: false, message: 'q is no name' });
    await settled();
    expect(rows()[0].textContent).toContain('q is no name');
    key(field, 'Enter');
    expect(kernel.events('edit')).toEqual([]);

    field.value = '2 * d';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    // Values stream meanwhile: what is written stays.
    show([clipOfH({ effects: [{ node: W, name: 'W', relative: 9, angle: 0 }] })]);
    expect(rows()[0].querySelector('.workbench-Input')).toBe(field);
    key(field, 'Enter');
    expect(kernel.last('edit')).toMatchObject({ id: 7, rule: '2 * d', label: '' });
    kernel.snapshot(network());
    kernel.patch(network([clip]), [], { overrides: [clip] });
    await settled();
    expect(rows()[0].querySelector('.workbench-Input')).toBeNull();
    expect(document.activeElement).toBe(button('Edit'));
  });

  it('keeps what was written when the kernel refuses it', async () => {
    show([clip]);
    button('Edit').click();
    const field = rows()[0].querySelector<HTMLInputElement>('.workbench-Input')!;
    field.value = 'd[0]';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    key(field, 'Enter');
    const { request } = kernel.last('edit');
    kernel.tell({ type: 'failure', request, message: 'shape () is not 5×2' });
    await settled();
    expect(rows()[0].textContent).toContain('shape () is not 5×2');
    expect(field.value).toBe('d[0]');
    key(field, 'Escape');
    expect(rows()[0].querySelector('.workbench-Input')).toBeNull();
  });

  it('a rule is asked about for the override: Python alone may name its target', () => {
    const target = { kind: 'other', text: 'pattern W @ x' } as const;
    show([clipOfH({ target, matched: [H], covered: [PRODUCT] })]);
    button('Edit').click();
    const field = rows()[0].querySelector<HTMLInputElement>('.workbench-Input')!;
    field.value = '3 * d';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    vi.advanceTimersByTime(200);
    expect(kernel.last('check-expression')).toMatchObject({ id: 7, rule: '3 * d' });
  });

  it('what is code cannot be edited, but copied', async () => {
    show([clipOfH({ data: false, rule: 'my_rule' })]);
    expect(() => button('Edit')).toThrow('no button');
    button('Copy as code').click();
    expect(host.copied).toEqual([clip.code]);
    await settled();
    expect(button('Copied')).toBeTruthy();
  });

  it('copies all of them as code, in their order', () => {
    show([clip, scale]);
    button('Copy all as code').click();
    expect(host.copied).toEqual([`${clip.code}\n${SCALE.code}`]);
    // Attached twice, the line would stand where it was first: it must be later.
    expect(codeOf([clip, scale, clip])).toBe(`${SCALE.code}\n${clip.code}`);
  });

  it('goes through the history: back by several steps, and forth', () => {
    show([clip, scale], {
      done: ['clip ±0.1 on h', 'scale ×0.5 on every matmul'],
      undone: ['switch off clip ±0.1', 'remove clip ±0.1']
    });
    const history = list.node.querySelector('details')!;
    expect(history.textContent).toContain('History: 4 changes');
    const steps = [...history.querySelectorAll('button')];
    expect(steps.map(({ textContent }) => textContent)).toEqual([
      'All gradients true',
      'clip ±0.1 on h',
      'scale ×0.5 on every matmul',
      'switch off clip ±0.1',
      'remove clip ±0.1'
    ]);
    expect(steps[2].getAttribute('aria-current')).toBe('step');
    steps[0].click();
    expect(kernel.last('undo').steps).toBe(2);
    steps[4].click();
    expect(kernel.last('redo').steps).toBe(2);
    steps[2].click();
    expect(kernel.events('undo')).toHaveLength(1);
    button('Undo').click();
    expect(kernel.last('undo').steps).toBe(1);
  });

  it('the keyboard stays in the list when its row is removed', () => {
    show([clip, scale]);
    button('Remove', rows()[0]).focus();
    show([scale]);
    expect(document.activeElement).toBe(rows()[0].querySelector('input'));
    show([]);
    expect(host.said).toContain('focus');
  });

  it('of a saved picture it is read, not changed', () => {
    open(new RecordingHost(null));
    show([clip, scale], { done: ['a', 'b'], undone: [] });
    expect(rows()[0].querySelector('input')!.disabled).toBe(true);
    expect(() => button('Edit')).toThrow('no button');
    expect(() => button('Remove')).toThrow('no button');
    expect(() => button('Undo')).toThrow('no button');
  });

  it('code out of a saved picture is seen as it is copied', async () => {
    open(new RecordingHost(null));
    const code = `model.override("h", "d")${' '.repeat(300)}; hostile()`;
    show([clip, clipOfH({ id: 9, code })]);
    expect(list.node.textContent).not.toContain('hostile');
    button('Copy all as code').click();
    await settled();
    expect(host.copied).toEqual([`${clip.code}\n${code}`]);
    expect(list.node.querySelector('pre')!.textContent).toBe(host.copied[0]);
    expect(list.node.textContent).toContain('which anyone may have written');
    button('Copy as code', rows()[1]).click();
    await settled();
    expect(rows()[1].querySelector('pre')!.textContent).toBe(code);
    // Copied again, it stands there once.
    button('Copied').click();
    await settled();
    expect(list.node.querySelectorAll('pre')).toHaveLength(2);
  });

  it('code of a kernel is copied and not shown', () => {
    show([clip]);
    button('Copy as code').click();
    expect(host.copied).toEqual([clip.code]);
    expect(list.node.querySelector('pre')).toBeNull();
  });
});
