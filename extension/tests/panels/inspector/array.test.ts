// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import {
  ArrayPicture,
  captionOf,
  cellText,
  paintCells
} from '../../../src/panels/inspector/array';
import type { IArrayAnswer } from '../../../src/wire/protocol';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, W, X } from '../../helpers/network';

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

const answerOf = (more: Partial<IArrayAnswer>): IArrayAnswer => ({
  type: 'array',
  seq: 1,
  request: 1,
  node: W,
  quantity: 'value',
  shape: [3, 2],
  index: [null, null],
  is_complex: false,
  block: [1, 1],
  values: [
    [1, -2],
    [0, 0.5],
    [null, 1]
  ],
  against: null,
  ...more
});

describe('the pixels of an array', () => {
  it('are blue below zero, orange above, clear at zero, red where not finite', () => {
    const pixels = paintCells([[4, -4, 0, null, 0.4]]);
    const at = (k: number): number[] => pixels.slice(4 * k, 4 * k + 4);
    expect(at(0)).toEqual([216, 72, 0, 255]);
    expect(at(1)).toEqual([21, 101, 192, 255]);
    expect(at(2)[3]).toBe(0);
    expect(at(3)).toEqual([211, 47, 47, 255]);
    expect(at(4).slice(0, 3)).toEqual([255, 167, 80]);
    expect(at(4)[3]).toBeGreaterThan(0);
    expect(at(4)[3]).toBeLessThan(100);
  });
});

describe('the words about an array', () => {
  it('tell the range, what is not finite, and what a cell is', () => {
    expect(captionOf(answerOf({}))).toBe('−2 … 1; 1 not finite');
    expect(captionOf(answerOf({ block: [3, 1], against: 7 }))).toBe(
      'change since run 7; −2 … 1; 1 not finite; each cell the largest of 3 × 1'
    );
    expect(captionOf(answerOf({ values: [[null]] }))).toBe(
      'nothing finite; 1 not finite'
    );
  });

  it('tell of a cell its entries and its number', () => {
    expect(cellText(answerOf({}), 0, 1)).toBe('[0, 1] = −2');
    expect(cellText(answerOf({}), 2, 0)).toBe('[2, 0] = not finite');
    const pooled = answerOf({ shape: [8, 2], block: [3, 1] });
    expect(cellText(pooled, 2, 1)).toBe('[6 … 7, 1] = 1');
    const line = answerOf({
      shape: [5, 9],
      index: [4, null],
      block: [1, 4],
      values: [
        [1, 2, 3],
        [1, 4, 6]
      ]
    });
    expect(cellText(line, 0, 1)).toBe('[4, 4 … 7] = 2 … 4');
    expect(cellText(line, 0, 0)).toBe('[4, 0 … 3] = 1');
  });
});

describe('ArrayPicture', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let part: ArrayPicture;

  const button = (text: string): HTMLElement =>
    [...part.node.querySelectorAll<HTMLElement>('button')].find(({ textContent }) =>
      textContent.includes(text)
    )!;
  const answer = async (more: Partial<IArrayAnswer> = {}): Promise<void> => {
    const { request, node } = kernel.last('array');
    kernel.tell({ ...answerOf(more), request, node });
    await settled();
  };
  const choose = async (field: HTMLElement, value: string, name: string): Promise<void> => {
    const kind = field instanceof HTMLSelectElement ? HTMLSelectElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, 'value')!.set!.call(field, value);
    field.dispatchEvent(new Event(name, { bubbles: true }));
    await settled();
  };

  beforeEach(async () => {
    // What is painted is tested above: jsdom has no canvas.
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    part = new ArrayPicture(host);
    host.state.select(W);
    part.refresh('selection');
    await settled();
  });

  it('asks nothing until it is opened', async () => {
    expect(kernel.events('array')).toHaveLength(0);
    button('Picture').click();
    await settled();
    expect(kernel.last('array')).toMatchObject({ node: W, quantity: 'value', index: [] });
    await answer();
    expect(part.node.querySelector('canvas')!.width).toBe(2);
    expect(part.node.querySelector('canvas')!.height).toBe(3);
    expect(part.node.querySelector('figcaption')!.textContent).toContain('−2 … 1');
  });

  it('shows one sample or one neuron as a line, by the number of its axis', async () => {
    button('Picture').click();
    await settled();
    await answer();
    const [rows] = part.node.querySelectorAll<HTMLInputElement>('[type=number]');
    await choose(rows, '1', 'input');
    expect(kernel.last('array').index).toEqual([1, null]);
    await answer({ index: [1, null], values: [[0, 0.5]] });
    const line = part.node.querySelector('svg path.workbench-mod-value')!;
    expect(line.getAttribute('d')).toMatch(/^M40.00 38.00h.01L120.00 2.00$/);
    await choose(rows, '', 'input');
    expect(kernel.last('array').index).toEqual([null, null]);
  });

  it('asks for the gradient; before the second run there is no change to see', async () => {
    button('Picture').click();
    await settled();
    await answer();
    button('Gradient').click();
    await settled();
    expect(kernel.last('array').quantity).toBe('gradient');
    await answer({ quantity: 'gradient' });
    expect([...part.node.querySelectorAll('option')]).toHaveLength(1);
  });

  it('draws each run of the past as a histogram, and says which', async () => {
    Object.defineProperty(host.recording, 'count', { value: 9 });
    part.refresh('values');
    button('Picture').click();
    await settled();
    await answer();
    await choose(part.node.querySelector('select')!, 'runs', 'change');
    const { request } = kernel.last('array-history');
    const one = { low: -1, high: 1, zeros: 0, nan: 0, inf: 0, size: 3, counts: [1, 2] };
    kernel.tell({
      type: 'array-history',
      request,
      node: W,
      quantity: 'value',
      index: [null, null],
      steps: [1, 5, 9],
      histograms: [one, { ...one, high: 3 }, { ...one, nan: 3, counts: [], low: 0, high: 0 }]
    });
    await settled();
    const groups = part.node.querySelectorAll('.workbench-Ridge g');
    expect(groups).toHaveLength(3);
    expect(part.node.querySelector('figcaption')!.textContent).toBe(
      'runs 1 to 9, the last in front; 1 with entries that are not finite'
    );
    // All on one axis: the first run ends half-way.
    expect(groups[0].querySelector('path')!.getAttribute('d')).toBe(
      'M0.00 40L20.00 12.42L60.00 1.00L80.00 40'
    );
    expect(groups[2].querySelector('.workbench-mod-notFinite')).not.toBeNull();
    await choose(part.node.querySelector('select')!, 'first', 'change');
    expect(kernel.last('array')).toMatchObject({ against: 'first' });
  });

  it('says what the kernel refuses', async () => {
    button('Picture').click();
    await settled();
    const { request } = kernel.last('array');
    kernel.tell({ type: 'failure', request, message: 'no run before this one is kept' });
    await settled();
    expect(part.node.textContent).toContain('no run before this one is kept');
  });

  it('is of arrays alone, and goes with the kernel', async () => {
    host.state.select(LOSS);
    part.refresh('selection');
    expect(part.isHidden).toBe(true);
    host.state.select(X);
    part.refresh('selection');
    expect(part.isHidden).toBe(false);
    button('Picture').click();
    await answer({ shape: [5, 3] });
    expect([...part.node.querySelectorAll('[role=radio]')]).toHaveLength(1);
    const saved = new ArrayPicture(new RecordingHost());
    saved.refresh('graph');
    expect(saved.isHidden).toBe(true);
    host.state.select(H);
    part.refresh('selection');
    expect(kernel.last('array').index).toEqual([]);
  });
});
