// @vitest-environment jsdom
import '../../tests/browser';

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { TestKernel } from '../../tests/channel';
import { RecordingHost } from '../../tests/host';
import { H, LOSS, W, network } from '../../tests/network';
import { Drawer } from './drawer';
import { PLOTLY } from './figure';

/** A registry that knows figures, and keeps what it was asked to draw. */
class Figures {
  readonly drawn: Record<string, unknown>[] = [];

  get registry(): IRenderMimeRegistry {
    const createRenderer = (): Widget =>
      Object.assign(new Widget(), {
        renderModel: (model: { data: Record<string, unknown> }): Promise<void> => {
          this.drawn.push(model.data[PLOTLY] as Record<string, unknown>);
          return Promise.resolve();
        }
      });
    const createModel = (options: object): object => options;
    const mimeTypes = [PLOTLY];
    const registry: unknown = { mimeTypes, createRenderer, createModel };
    return registry as IRenderMimeRegistry;
  }
}

describe('Drawer', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let figures: Figures;
  let drawer: Drawer;
  let results: number;

  const caption = (): string =>
    drawer.node.querySelector('.workbench-Caption')?.textContent ?? '';
  const tabs = (): string[] =>
    [...drawer.node.querySelectorAll('[role=tab]')].map(tab => tab.textContent);
  const answer = async (title: string): Promise<void> => {
    kernel.tell({
      type: 'plot',
      request: kernel.last('plot').request,
      title,
      note: '5 × 2 by 3 × 2',
      figure: { data: [{ z: [[1]] }], layout: { width: 9, xaxis: { title: 'W' } } }
    });
    await vi.waitFor(() => {
      expect(tabs()).toContain(title);
    });
  };

  beforeEach(() => {
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    figures = new Figures();
    results = 0;
    drawer = new Drawer(host, figures.registry, () => {
      results += 1;
    });
    drawer.show();
    drawer.refresh('graph');
  });

  it('is brought into sight by the figure that was asked for alone', async () => {
    const scrolled = vi.spyOn(drawer.node, 'scrollIntoView');
    drawer.plot('jacobian', H, [W]);
    expect(scrolled).not.toHaveBeenCalled();
    await answer('∂h/∂W');
    await vi.waitFor(() => {
      expect(scrolled).toHaveBeenCalledExactlyOnceWith({ block: 'nearest' });
    });
    drawer.redraw();
    await vi.waitFor(() => {
      expect(figures.drawn).toHaveLength(2);
    });
    expect(scrolled).toHaveBeenCalledOnce();
  });

  it('asks, waits, and draws what comes', async () => {
    drawer.plot('jacobian', H, [W]);
    expect(kernel.last('plot')).toMatchObject({ plot: 'jacobian', of: H, wrt: [W] });
    expect(tabs()).toEqual(['Jacobian']);
    expect(caption()).toContain('working');
    await answer('∂h/∂W');
    expect(caption()).toBe('5 × 2 by 3 × 2');
    expect(figures.drawn).toHaveLength(1);
    expect(results).toBe(1);
  });

  it('stops the kernel when asked to', () => {
    let stopped = 0;
    const connection = kernel.connect(1000, 60_000, () => {
      stopped += 1;
    });
    drawer = new Drawer(new RecordingHost(connection), null, () => undefined);
    drawer.show();
    drawer.plot('hessian', null, []);
    drawer.node.querySelector<HTMLButtonElement>('.workbench-Caption button')?.click();
    expect(stopped).toBe(1);
  });

  it("gives figures the drawer's size and the page's background", async () => {
    drawer.plot('hessian', null, []);
    await answer('H');
    const layout = figures.drawn[0]['layout'] as Record<string, unknown>;
    expect(layout).toMatchObject({ autosize: true, paper_bgcolor: 'rgba(0, 0, 0, 0)' });
    expect(layout['xaxis']).toMatchObject({ title: 'W' });
    expect('width' in layout).toBe(false);
  });

  it('says why a plot was refused', async () => {
    drawer.plot('jacobian', LOSS, []);
    const { request } = kernel.last('plot');
    kernel.tell({ type: 'failure', request, message: 'too large: 10^9 entries' });
    await vi.waitFor(() => {
      expect(caption()).toBe('too large: 10^9 entries');
    });
    expect(
      drawer.node.querySelector('.workbench-Caption.workbench-mod-bad')
    ).toBeTruthy();
  });

  it('keeps one tab for the same question, and several for several', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A');
    drawer.plot('check', null, []);
    await answer('B');
    drawer.plot('jacobian', H, [W]);
    expect(tabs()).toEqual(['Jacobian', 'B']);
    await answer('A');
    expect(tabs()).toEqual(['A', 'B']);
    expect(drawer.checks.map(({ title }) => title)).toEqual(['B']);
    drawer.showCheck();
    expect(figures.drawn).toHaveLength(4);
  });

  it('offers to draw again what is older than the graph', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A');
    host.show(network());
    drawer.refresh('values');
    expect(caption()).toContain('the graph changed');
    drawer.node.querySelector<HTMLButtonElement>('.workbench-Caption button')?.click();
    expect(host.plots).toEqual([['jacobian', H, [W]]]);
  });

  it('drops the plots of another graph', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A');
    drawer.refresh('graph');
    expect(tabs()).toEqual([]);
    expect(caption()).toContain('Choose');
  });

  it('asks for what its form says', () => {
    host.state.select(H);
    drawer.refresh('selection');
    const [kind, of, by] = drawer.node.querySelectorAll('select');
    expect(of.value).toBe(String(H));
    expect([...by.options].map(({ text }) => text)).toEqual([
      'all (W)',
      'W · 3 × 2',
      'h · 5 × 2'
    ]);
    kind.value = 'jacobian';
    by.value = String(W);
    drawer.node.querySelector('form')!.dispatchEvent(new Event('submit'));
    expect(host.plots).toEqual([['jacobian', H, [W]]]);
  });

  it('says what is missing where figures cannot be drawn', async () => {
    drawer = new Drawer(host, null, () => undefined);
    drawer.show();
    drawer.plot('check', null, []);
    await answer('B');
    expect(caption()).toContain('plotly');
  });
});
