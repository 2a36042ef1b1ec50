// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Drawer } from '../../../src/panels/plots/drawer';
import { TestKernel } from '../../helpers/channel';
import { Figures } from '../../helpers/figures';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, PRODUCT, W, clipOfH, network } from '../../helpers/network';

/** What the kernel says of the heat map ∂h/∂W, in full or in part. */
function matrixOf(window = { rows: [0, 10], columns: [0, 6] }, block = [1, 1]): object {
  return {
    kind: 'jacobian',
    of: H,
    wrt: [W],
    path: [W, PRODUCT, H],
    mode: 'reverse',
    rows: 10,
    columns: 6,
    window,
    block
  };
}

/** A figure of so many cells: row 10 r + c. */
function figureOf(rows: number, columns: number): object {
  const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
  return {
    data: [
      {
        z: range(rows).map(r => range(columns).map(c => 10 * r + c)),
        x: range(columns).map(c => `W&lt;${c}&gt;`),
        y: range(rows).map(r => `h[${r}]`)
      }
    ],
    layout: {}
  };
}

describe('Drawer', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let figures: Figures;
  let drawer: Drawer;

  const caption = (): string =>
    drawer.node.querySelector('.workbench-Caption')?.textContent ?? '';
  const tabs = (): string[] =>
    [...drawer.node.querySelectorAll('[role=tab]')].map(tab => tab.textContent);
  const rest = (): Promise<void> =>
    new Promise(resolve => {
      setTimeout(resolve);
    });
  const press = (label: string): void => {
    const found = [...drawer.node.querySelectorAll('button')].find(
      ({ textContent }) => textContent === label
    );
    found!.click();
  };
  const answer = async (
    title: string,
    more: Record<string, unknown> = {}
  ): Promise<void> => {
    kernel.tell({
      type: 'plot',
      request: kernel.last('plot').request,
      title,
      note: '5 × 2 by 3 × 2',
      figure: { data: [{ z: [[1]] }], layout: { width: 9, xaxis: { title: 'W' } } },
      ...more
    });
    await vi.waitFor(() => {
      expect(tabs()).toContain(title);
    });
    await rest();
  };

  beforeEach(() => {
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    figures = new Figures();
    drawer = new Drawer(host, figures.make);
    drawer.setHidden(false);
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
  });

  it('stops what it asked for, and says so', async () => {
    drawer.plot('hessian', null, []);
    const { request } = kernel.last('plot');
    kernel.tell({ type: 'progress', request, done: 30, total: 100, left: 11.2 });
    expect(caption()).toContain('working on it (30 %, 12 s left)');
    press('Stop');
    expect(kernel.last('stop')).toMatchObject({ of: request });
    // At once, whatever the kernel still has to end; then its word is old.
    expect(caption()).toBe('Stopped.');
    kernel.tell({ type: 'failure', request, message: 'too late' });
    await rest();
    expect(caption()).toBe('Stopped.');
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
      drawer.node.querySelector('.workbench-Caption .workbench-mod-bad')
    ).toBeTruthy();
  });

  it('keeps one tab for the same question, and several for several', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A');
    drawer.plot('check', null, []);
    await answer('B');
    drawer.plot('jacobian', H, [W]);
    expect(tabs()).toEqual(['A', 'B']);
    await answer('A');
    expect(tabs()).toEqual(['A', 'B']);
    expect(figures.drawn).toHaveLength(4);
  });

  it('offers to draw again what is older than the graph', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A');
    host.show(network());
    drawer.refresh('values');
    expect(caption()).toContain('the graph changed');
    press('Draw again');
    expect(kernel.events('plot')).toHaveLength(2);
    expect(kernel.last('plot')).toMatchObject({ plot: 'jacobian', of: H, wrt: [W] });
  });

  it('is not older than a graph whose numbers and rules are the same', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A');
    const graph = host.state.graph!;
    host.state.setGraph(graph.applyPatch({ undo: 'x', check: null }, [], []), 'values');
    drawer.refresh('values');
    expect(caption()).toBe('5 × 2 by 3 × 2');
    const override = clipOfH();
    const { header, buffers } = network([override]);
    const at = header.columns.findIndex(({ name }) => name === 'override');
    const ruled = graph.applyPatch(
      { overrides: [override] },
      [header.columns[at]],
      [buffers[at]]
    );
    host.state.setGraph(ruled, 'values');
    drawer.refresh('values');
    expect(caption()).toContain('the graph changed');
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
    drawer.node
      .querySelector('form')!
      .dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
    expect(host.plots).toEqual([['jacobian', H, [W]]]);
  });

  it('says what is missing where figures cannot be drawn', async () => {
    drawer = new Drawer(host, () => null);
    drawer.setHidden(false);
    drawer.plot('check', null, []);
    await answer('B');
    expect(caption()).toContain('plotly');
  });

  it('G2: asks for the part that is zoomed to, and for all of it again', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6) });
    figures.tell('plotly_relayout', {
      'xaxis.range[0]': 1.5,
      'xaxis.range[1]': 3.5,
      'yaxis.range[0]': 7.5,
      'yaxis.range[1]': 2.5
    });
    const window = { rows: [3, 8], columns: [2, 4] };
    await vi.waitFor(() => {
      expect(kernel.last('plot')).toMatchObject({ plot: 'jacobian', of: H, window });
    });
    // What is drawn stays while the kernel works.
    expect(caption()).toContain('5 × 2 by 3 × 2');
    await answer('A', { matrix: matrixOf(window), figure: figureOf(5, 2) });
    expect(caption()).toContain('Show all');
    figures.tell('plotly_relayout', {
      'xaxis.autorange': true,
      'yaxis.autorange': true
    });
    await vi.waitFor(() => {
      expect(kernel.events('plot')).toHaveLength(3);
    });
    expect(kernel.last('plot').window).toBeNull();
  });

  it('drops the answers that came too late, and stops what is not wanted', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6) });
    const zoom = (low: number): void => {
      figures.tell('plotly_relayout', {
        'xaxis.range[0]': low,
        'xaxis.range[1]': low + 2
      });
    };
    const sent = async (count: number): Promise<number> => {
      await vi.waitFor(() => {
        expect(kernel.events('plot')).toHaveLength(count);
      });
      return kernel.last('plot').request;
    };
    zoom(-0.5);
    const first = await sent(2);
    zoom(2.5);
    const second = await sent(3);
    expect(kernel.last('stop')).toMatchObject({ of: first });
    const part = (columns: [number, number]): object => ({
      type: 'plot',
      title: `from ${columns[0]}`,
      note: '',
      figure: figureOf(10, 2),
      matrix: matrixOf({ rows: [0, 10], columns })
    });
    kernel.tell({ ...part([3, 5]), request: second });
    kernel.tell({ ...part([0, 2]), request: first });
    await rest();
    expect(tabs()).toEqual(['from 3']);
    expect(kernel.events('plot').map(({ window }) => window?.columns)).toEqual([
      undefined,
      [0, 2],
      [3, 5]
    ]);
  });

  it('G2: a clicked cell tells its entry, and keys walk from it', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6) });
    const entry = (): string =>
      drawer.node.querySelector('.workbench-Entry')!.textContent;
    const key = (name: string): void => {
      drawer.node
        .querySelector('.workbench-Figure')!
        .dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
    };
    figures.tell('plotly_click', { points: [{ pointIndex: [4, 2] }] });
    expect(entry()).toBe('∂ h[4] / ∂ W<2> = 42');
    key('ArrowRight');
    key('ArrowUp');
    expect(entry()).toBe('∂ h[3] / ∂ W<3> = 33');
    for (let i = 0; i < 9; i++) {
      key('ArrowLeft');
    }
    expect(entry()).toBe('∂ h[3] / ∂ W<0> = 30');
    key('+');
    await vi.waitFor(() => {
      expect(kernel.last('plot').window).toEqual({ rows: [3, 5], columns: [0, 1] });
    });
    key('0');
    await vi.waitFor(() => {
      expect(kernel.events('plot')).toHaveLength(3);
    });
    expect(kernel.last('plot').window).toBeNull();
  });

  it('G2: switches between the views of the same nodes in one tab', async () => {
    drawer.plot('jacobian', H, [W]);
    const views = ['jacobian', 'singular', 'sparsity'];
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6), views });
    press('singular values');
    expect(kernel.last('plot')).toMatchObject({ plot: 'singular', of: H, wrt: [W] });
    await answer('B', { views });
    expect(tabs()).toEqual(['B']);
    press('sparsity');
    expect(kernel.last('plot')).toMatchObject({ plot: 'sparsity', of: H, wrt: [W] });
    const { request } = kernel.last('plot');
    kernel.tell({ type: 'failure', request, message: 'too large' });
    await vi.waitFor(() => {
      expect(caption()).toContain('too large');
    });
    // What is drawn is still the view before.
    const chosen = drawer.node.querySelector('.workbench-Caption [aria-checked=true]');
    expect(chosen?.textContent).toBe('singular values');
  });

  it('names the node of a sparsity pattern that the kernel chose', async () => {
    const views = ['jacobian', 'singular', 'sparsity'];
    drawer.plot('jacobian', null, []);
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6), views });
    press('sparsity');
    expect(kernel.last('plot')).toMatchObject({ plot: 'sparsity', of: H });
    drawer.plot('hessian', null, [W]);
    await answer('B', { views: ['hessian', 'spectrum', 'sparsity'] });
    press('sparsity');
    expect(kernel.last('plot')).toMatchObject({ plot: 'sparsity', of: null, wrt: [W] });
  });

  it('shows the way between the nodes in the graph', async () => {
    drawer.plot('jacobian', H, [W]);
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6) });
    press('Path in the graph');
    expect([...(host.state.trail ?? [])]).toEqual([0, 1, 1, 1, 0, 0, 0]);
    expect(host.centred).toEqual([H]);
  });

  it('keeps eight plots, and stops those that go', async () => {
    for (let node = 0; node < 9; node++) {
      drawer.plot('jacobian', H, [node]);
    }
    expect(tabs()).toHaveLength(8);
    expect(kernel.last('stop').of).toBe(kernel.events('plot')[0].request);
    drawer.plot('jacobian', H, [8]);
    await answer('last');
    expect(tabs()).toHaveLength(8);
  });

  it('closes by keyboard', () => {
    const key = new KeyboardEvent('keydown', { key: 'Escape', bubbles: true });
    drawer.node.querySelector('form')!.dispatchEvent(key);
    expect(host.said).toEqual(['drawer', 'focus']);
  });

  it('draws figures that tell nothing', async () => {
    figures = new Figures(false);
    drawer = new Drawer(host, figures.make);
    drawer.setHidden(false);
    drawer.plot('jacobian', H, [W]);
    await answer('A', { matrix: matrixOf(), figure: figureOf(10, 6) });
    expect(figures.drawn).toHaveLength(1);
    figures.tell('plotly_click', { points: [{ pointIndex: [4, 2] }] });
  });
});
