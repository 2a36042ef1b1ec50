// @vitest-environment jsdom
import '../../helpers/browser';

import { describe, expect, it } from 'vitest';

import { Banner, bannerOf } from '../../../src/panels/shell/banner';
import { TopBar } from '../../../src/panels/shell/topbar';
import type { IFinding } from '../../../src/wire/protocol';
import { TestKernel } from '../../helpers/channel';
import { checkedNetwork, finding } from '../../helpers/checked';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, SCALED } from '../../helpers/network';
import { programmedNetwork } from '../../helpers/programmed';

const values = {
  [H]: { bad: 3, min: NaN },
  [SCALED]: { bad: 3, min: NaN },
  [LOSS]: { bad: 1, min: NaN }
};

function open(live = true, findings: IFinding[] = []) {
  const kernel = new TestKernel();
  const host = new RecordingHost(live ? kernel.connect() : null);
  const made = programmedNetwork({ values, output: null });
  if (findings.length > 0) {
    made.header.findings = checkedNetwork([], { findings }).header.findings;
  }
  host.show(made);
  const banner = new Banner(host);
  banner.inform(bannerOf(host.state.graph, host.connection, null));
  const bar = new TopBar(host);
  bar.refresh('graph');
  const button = banner.node.querySelector<HTMLButtonElement>('button');
  return { kernel, host, banner, bar, button };
}

describe('a loss that is NaN', () => {
  it('stands in red in the bar', () => {
    const { bar } = open();
    const value = bar.node.querySelector('.workbench-Value.workbench-mod-bad');
    expect(value?.textContent).toBe('loss = NaN');
    // Of both the name alone is cut where there is no room.
    expect(value?.querySelector('.workbench-ValueNumber')?.textContent).toBe(' = NaN');
  });

  it('has a line that says where it starts, and asks the doctor', () => {
    const { kernel, host, banner, button } = open();
    expect(banner.node.textContent).toContain(
      'NaN starts at h = tanh, line 1: 3 of 10 entries'
    );
    expect(banner.node.getAttribute('role')).toBe('status');
    expect(button?.textContent).toBe('Diagnose');
    button?.click();
    expect(kernel.last('diagnose')).toBeDefined();
    expect(host.said).toContain('checks');
  });

  it('leads to what the doctor found, once that is known', () => {
    const { kernel, host, button } = open(true, [finding()]);
    expect(button?.textContent).toBe('Show findings');
    button?.click();
    expect(host.said).toContain('checks');
    expect(kernel.events('diagnose')).toEqual([]);
  });

  it('in a saved picture has the line, and nobody to ask', () => {
    const { banner, button } = open(false);
    expect(banner.node.textContent).toContain('NaN starts at');
    expect(banner.node.textContent).toContain('saved picture');
    expect(button).toBeNull();
  });

  it('gives way to an error, and comes back', () => {
    const { banner } = open();
    banner.say('refused', 'error');
    expect(banner.node.textContent).toBe('refused');
    banner.clear();
    expect(banner.node.textContent).toContain('NaN starts at');
  });
});
