// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it } from 'vitest';

import { marksOn } from '../../../src/canvas/badges';
import { verdictOf } from '../../../src/model/verdicts';
import { StopConditions } from '../../../src/panels/inspector/stops';
import { nodeSentence } from '../../../src/ui/words';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, W, X, network } from '../../helpers/network';

const STOP = { id: 7, nodes: [H], text: 'the gradient of <b>h</b> has a norm above 3' };

describe('StopConditions', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let part: StopConditions;

  const press = (text: string): void => {
    const found = [...part.node.querySelectorAll('button')];
    found.find(({ textContent }) => textContent === text)!.click();
  };
  const write = (selector: string, value: string, event: string): void => {
    const field = part.node.querySelector<HTMLInputElement>(selector)!;
    const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value')!;
    set!.call(field, value);
    field.dispatchEvent(new Event(event, { bubbles: true }));
  };
  const select = (node: number): void => {
    host.state.select(node);
    part.refresh('selection');
  };
  const settled = async (): Promise<void> => {
    await new Promise(resolve => setTimeout(resolve));
  };

  beforeEach(() => {
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    part = new StopConditions(host);
  });

  it('asks the kernel to stop a loop where a gradient of the node breaks', async () => {
    select(H);
    press('Stop a loop here …');
    await settled();
    press('Stop there');
    await settled();
    expect(kernel.last('stop-when')).toMatchObject({ node: H, not_finite: true });
  });

  it('takes a number for a norm or an angle, and nothing else', async () => {
    select(H);
    press('Stop a loop here …');
    await settled();
    write('select', 'angle_above', 'change');
    const ready = (): boolean =>
      ![...part.node.querySelectorAll('button')].find(
        ({ textContent }) => textContent === 'Stop there'
      )!.disabled;
    await settled();
    expect(ready()).toBe(false);
    write('input', 'x', 'input');
    await settled();
    expect(ready()).toBe(false);
    write('input', '45', 'input');
    await settled();
    expect(ready()).toBe(true);
    press('Stop there');
    await settled();
    expect(kernel.last('stop-when')).toMatchObject({
      node: H,
      not_finite: false,
      angle_above: 45
    });
  });

  it('shows those of the node as text, in the picture too, and removes them', async () => {
    host.show(network([], { stops: [STOP] }));
    select(H);
    expect(part.node.querySelector('b')).toBeNull();
    expect(part.node.querySelector('.workbench-Stop')!.textContent).toContain(STOP.text);
    const { graph } = host.state;
    expect(marksOn(verdictOf(graph!, H)!)).toContainEqual(
      expect.objectContaining({ sign: '⚑', words: 'stop' })
    );
    expect(nodeSentence(graph!, H)).toContain(`a loop stops when ${STOP.text}`);
    part.node.querySelector<HTMLButtonElement>('.workbench-Stop button')!.click();
    await settled();
    expect(kernel.last('stop-no-more').id).toBe(7);
    select(W);
    expect(part.node.querySelector('.workbench-Stop')).toBeNull();
  });

  it('offers none where there is no gradient, or no kernel', () => {
    select(X);
    expect(part.isHidden).toBe(true);
    part = new StopConditions(new RecordingHost());
    part.refresh('selection');
    expect(part.isHidden).toBe(true);
  });
});
