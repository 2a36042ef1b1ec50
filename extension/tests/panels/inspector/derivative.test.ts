// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it } from 'vitest';

import { DerivativeMenu } from '../../../src/panels/inspector/pair';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, W, network } from '../../helpers/network';

describe('DerivativeMenu', () => {
  let host: RecordingHost;
  let menu: DerivativeMenu;

  const choice = (): HTMLSelectElement => menu.node.querySelector('select')!;
  const groups = (): Record<string, string[]> =>
    Object.fromEntries(
      [...menu.node.querySelectorAll('optgroup')].map(group => [
        group.label,
        [...group.querySelectorAll('option')].map(({ text }) => text)
      ])
    );

  beforeEach(() => {
    host = new RecordingHost(new TestKernel().connect());
    menu = new DerivativeMenu(host);
  });

  it('G2: offers by name what a node depends on, and what depends on it', () => {
    host.state.select(H);
    menu.refresh('selection');
    expect(menu.isHidden).toBe(false);
    expect(groups()).toEqual({
      'of h by': ['∂ h / ∂ W', '∂ h / ∂ X'],
      'by h of': ['∂ loss / ∂ h']
    });
    choice().value = String(W);
    choice().dispatchEvent(new Event('change', { bubbles: true }));
    expect(host.plots).toEqual([['jacobian', H, [W]]]);
    expect(host.state.pair).toMatchObject({ of: H, wrt: W });
    expect(choice().selectedIndex).toBe(0);
  });

  it('of an input offers only what is computed from it', () => {
    host.state.select(W);
    menu.refresh('selection');
    expect(groups()).toEqual({ 'by W of': ['∂ h / ∂ W', '∂ loss / ∂ W'] });
    choice().value = String(LOSS);
    choice().dispatchEvent(new Event('change', { bubbles: true }));
    expect(host.plots).toEqual([['jacobian', LOSS, [W]]]);
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
