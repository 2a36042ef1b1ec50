// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it } from 'vitest';

import { DerivativeMenu } from '../../../src/panels/inspector/pair';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, W, network } from '../../helpers/network';
import { Program } from '../../helpers/programs';

describe('DerivativeMenu', () => {
  let host: RecordingHost;
  let menu: DerivativeMenu;

  const field = (): HTMLInputElement => menu.node.querySelector('input')!;
  const offered = (): string[] =>
    [...menu.node.querySelectorAll('option')].map(({ value }) => value);
  const choose = (text: string): void => {
    field().value = text;
    field().dispatchEvent(new Event('input', { bubbles: true }));
  };

  beforeEach(() => {
    host = new RecordingHost(new TestKernel().connect());
    menu = new DerivativeMenu(host);
  });

  it('G2: offers by name what a node depends on, and what depends on it', () => {
    host.state.select(H);
    menu.refresh('selection');
    expect(menu.isHidden).toBe(false);
    expect(offered().map(text => text.split(',')[0])).toEqual([
      '∂ h / ∂ W',
      '∂ h / ∂ X',
      '∂ loss / ∂ h'
    ]);
    choose('∂ h / ∂');
    expect(host.plots).toEqual([]);
    choose(offered()[0]);
    expect(host.plots).toEqual([['jacobian', H, [W]]]);
    expect(host.state.pair).toMatchObject({ of: H, wrt: W });
    expect(field().value).toBe('');
  });

  it('of an input offers only what is computed from it', () => {
    host.state.select(W);
    menu.refresh('selection');
    expect(offered().map(text => text.split(',')[0])).toEqual(['∂ h / ∂ W', '∂ loss / ∂ W']);
    choose(offered()[1]);
    expect(host.plots).toEqual([['jacobian', LOSS, [W]]]);
  });

  it('tells nodes of one name in a loop by their lines and steps', () => {
    const program = new Program();
    let v = program.input('v0');
    for (let iteration = 0; iteration < 50; iteration++) {
      v = program.op('add', [v], { name: 'v', line: 5, loop: 0, iteration });
    }
    const loss = program.op('sum', [v], { name: 'loss' });
    host.show(program.encode());
    host.state.select(loss);
    menu.refresh('selection');
    expect(new Set(offered()).size).toBe(51);
    choose('∂ loss / ∂ v, line 5, step 20 of 50');
    expect(host.plots).toEqual([['jacobian', loss, [21]]]);
  });

  it('is not there without a node, or without a kernel', () => {
    menu.refresh('graph');
    expect(menu.isHidden).toBe(true);
    host = new RecordingHost();
    host.show(network());
    menu = new DerivativeMenu(host);
    host.state.select(H);
    menu.refresh('selection');
    expect(menu.isHidden).toBe(true);
  });
});
