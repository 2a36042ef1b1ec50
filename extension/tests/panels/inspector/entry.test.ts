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
  const answer = async (index: number, value: number): Promise<void> => {
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

  it('is not offered for what is computed, nor without a kernel', () => {
    host.state.select(H);
    part.refresh('selection');
    expect(part.isHidden).toBe(true);
    const saved = new EntrySlider(new RecordingHost());
    saved.refresh('selection');
    expect(saved.isHidden).toBe(true);
  });
});
