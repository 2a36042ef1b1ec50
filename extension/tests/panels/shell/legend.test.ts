// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { GraphConnection } from '../../../src/model/connection';
import { Legend } from '../../../src/panels/shell/legend';
import { TopBar } from '../../../src/panels/shell/topbar';
import { TestKernel } from '../../helpers/channel';
import { checkedNetwork, finding, nodeCheck } from '../../helpers/checked';
import { RecordingHost } from '../../helpers/host';
import { measuredNetwork } from '../../helpers/measured';
import { H, type INetwork, SCALED, network } from '../../helpers/network';

describe('the legend and the choice of colours', () => {
  let kernel: TestKernel;
  let connection: GraphConnection;
  let host: RecordingHost;
  let legend: Legend;
  let bar: TopBar;

  const build = (live: boolean): void => {
    kernel = new TestKernel();
    connection = kernel.connect();
    host = new RecordingHost(live ? connection : null);
    legend = new Legend(host);
    bar = new TopBar(host);
    document.body.append(bar.node, legend.node);
    connection.changed.connect((_, change) => {
      if (change === 'job') {
        legend.refresh('connection');
      }
    });
    redraw();
  };
  const redraw = (): void => {
    bar.refresh('graph');
    legend.refresh('graph');
  };
  const show = (shown: INetwork): void => {
    host.show(shown);
    redraw();
  };
  const choose = (colouring: string): void => {
    const select = bar.node.querySelector<HTMLSelectElement>('.workbench-Colour')!;
    select.value = colouring;
    select.dispatchEvent(new Event('change', { bubbles: true }));
    redraw();
  };

  beforeEach(() => {
    build(true);
  });

  afterEach(() => {
    connection.dispose();
    legend.dispose();
    bar.dispose();
    document.body.replaceChildren();
  });

  it('measures a run when its time is asked for, and shows it with units', async () => {
    choose('time');
    const { request } = kernel.last('profile');
    expect(legend.node.textContent).toContain('measuring a run');
    kernel.snapshot(measuredNetwork());
    kernel.tell({ type: 'done', request });
    await new Promise(resolve => setTimeout(resolve));
    show(measuredNetwork());
    expect(legend.node.textContent).toMatch(/^time, compiled.*0.1 ms in all/);
    expect(legend.node.textContent).toMatch(/0\.77 µs.*77 µs/);
    choose('bytes');
    expect(legend.node.textContent).toMatch(
      /^bytes read and written, compiled.*100 kB in all/
    );
    choose('gradient');
    expect(legend.node.textContent).not.toContain('Measure');
    choose('time');
    // What is known is not measured again unasked.
    expect(kernel.events('profile')).toHaveLength(1);
    legend.node.querySelector('button')!.click();
    expect(kernel.events('profile')).toHaveLength(2);
  });

  it('measures again after a change of overrides', () => {
    show(measuredNetwork({ stale: true }));
    host.state.settings.set({ colouring: 'bytes' });
    legend.refresh('view');
    expect(legend.node.textContent).toContain('before the last change');
    choose('time');
    expect(kernel.events('profile')).toHaveLength(1);
  });

  it('explains no mark of a change that was undone, and dates what is old', () => {
    const known = [nodeCheck(H, 'wrong'), nodeCheck(SCALED, 'overridden')];
    show(checkedNetwork(known));
    expect(legend.node.textContent).toMatch(/wrong rulechanged on purpose$/);
    show(checkedNetwork(known, { findings: [finding()], stale: true }));
    expect(legend.node.textContent).toMatch(
      /wrong rule \(before the last change\)error \(before the last change\)$/
    );
  });

  it('shows the costs of a saved picture, and asks for none', () => {
    connection.dispose();
    build(false);
    choose('time');
    expect(legend.node.textContent).toBe('no run was measured');
    show(measuredNetwork());
    expect(legend.node.textContent).toContain('0.1 ms in all');
    expect(legend.node.querySelector('button')).toBeNull();
    expect(kernel.events('profile')).toHaveLength(0);
  });

  it('says which backend computes runs', () => {
    const shown = network([], { backend: 'compiled' });
    show(shown);
    const badge = bar.node.querySelector('.workbench-Backend')!;
    expect(badge.textContent).toBe('compiled');
    expect(badge.getAttribute('title')).toContain('“compiled”');
  });
});
