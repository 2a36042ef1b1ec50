// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it } from 'vitest';

import { EntrySlider } from '../../../src/panels/inspector/entry';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, W } from '../../helpers/network';

describe('EntrySlider', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let part: EntrySlider;

  const slider = (): HTMLInputElement =>
    part.node.querySelector<HTMLInputElement>('[type=range]')!;
  const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
  const answer = async (index: number, value: number | null): Promise<void> => {
    const { request, node } = kernel.last('entry');
    const place = `W[0, ${index}]`;
    kernel.tell({ type: 'entry', request, node, index, place, value, count: 6, largest: 2 });
    await settled();
  };
  const drag = async (position: number): Promise<void> => {
    const field = slider();
    const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!;
    set!.call(field, String(position));
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await settled();
  };
  const typeIndex = async (index: number): Promise<void> => {
    const field = part.node.querySelector<HTMLInputElement>('[type=number]')!;
    const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!;
    set!.call(field, String(index));
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await settled();
  };
  const changes = (): { value: number; drag: number }[] =>
    kernel.sent.filter(({ event }) => event === 'change-entry') as never;

  beforeEach(async () => {
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    part = new EntrySlider(host);
    host.state.select(W);
    part.refresh('selection');
    await settled();
    await answer(0, 0.5);
  });

  it('shows an entry of an input in the middle of what it can be', () => {
    expect(part.isHidden).toBe(false);
    expect(part.node.querySelector('code')!.textContent).toBe('W[0, 0]');
    expect(slider().valueAsNumber).toBe(0);
    expect(part.node.querySelector('output')!.textContent).toBe('0.5');
  });

  it('sends one change at a time, the newest next, and a drag has one number', async () => {
    await drag(100);
    await drag(200);
    await drag(250);
    expect(changes().map(({ value }) => value)).toEqual([0.5 + 4 * 0.2]);
    kernel.tell({ type: 'done', request: kernel.last('change-entry').request });
    await settled();
    expect(changes().map(({ value }) => value)).toEqual([1.3, 2.5]);
    slider().dispatchEvent(new Event('pointerup', { bubbles: true }));
    kernel.tell({ type: 'done', request: kernel.last('change-entry').request });
    await settled();
    await drag(0);
    const numbers = changes().map(one => one.drag);
    expect(new Set(numbers).size).toBe(2);
    expect(numbers[0]).toBe(numbers[1]);
  });

  it('keeps the field of the index where an entry is not finite', async () => {
    await typeIndex(3);
    await answer(3, null);
    expect(part.isHidden).toBe(false);
    expect(slider()).toBeNull();
    expect(part.node.querySelector('code')!.textContent).toBe('W[0, 3]');
    expect(part.node.querySelector('output')!.textContent).toBe('not finite');
    await typeIndex(1);
    await answer(1, 7.5);
    expect(part.node.querySelector('output')!.textContent).toBe('7.5');
    expect(slider().valueAsNumber).toBe(0);
  });

  it('waits for the entry of another index before it can be dragged', async () => {
    await typeIndex(2);
    expect(kernel.last('entry').index).toBe(2);
    expect(slider().disabled).toBe(true);
    await answer(2, 1);
    expect(slider().disabled).toBe(false);
    await drag(250);
    expect(kernel.last('change-entry')).toMatchObject({ index: 2, value: 3 });
  });

  it('shows what the kernel has after it refused a value', async () => {
    await drag(100);
    const { request } = kernel.last('change-entry');
    const asked = kernel.events('entry').length;
    kernel.tell({ type: 'failure', request, message: 'the loop would end elsewhere' });
    await settled();
    expect(kernel.events('entry')).toHaveLength(asked + 1);
    await answer(0, 0.5);
    expect(part.node.querySelector('output')!.textContent).toBe('0.5');
    expect(slider().valueAsNumber).toBe(0);
  });

  it.each(['pointerup', 'pointercancel'])(
    'asks what the entry is when a drag ends by %s',
    async name => {
      await drag(100);
      const asked = kernel.events('entry').length;
      slider().dispatchEvent(new Event(name, { bubbles: true }));
      await settled();
      // The change comes first: before it is done, the entry is another one.
      expect(kernel.events('entry')).toHaveLength(asked);
      kernel.tell({ type: 'done', request: kernel.last('change-entry').request });
      await settled();
      expect(kernel.events('entry')).toHaveLength(asked + 1);
      await answer(0, 1.25);
      expect(part.node.querySelector('output')!.textContent).toBe('1.25');
    }
  );

  it('is not offered for what is computed, nor without a kernel', () => {
    host.state.select(H);
    part.refresh('selection');
    expect(part.isHidden).toBe(true);
    const saved = new EntrySlider(new RecordingHost());
    saved.refresh('selection');
    expect(saved.isHidden).toBe(true);
  });
});
