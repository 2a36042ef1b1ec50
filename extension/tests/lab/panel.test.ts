// @vitest-environment jsdom
import '../helpers/browser';

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Panel, Widget } from '@lumino/widgets';
import { beforeAll, expect, it, vi } from 'vitest';

import { PanelTracker, PanelWidget, figureMaker } from '../../src/lab/panel';
import { PLOTLY } from '../../src/panels/plots/figure';
import { GraphPanel } from '../../src/panels/shell/panel';
import { Box } from '../../src/ui/dom';

beforeAll(() => {
  // Nothing here looks at colours.
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
});

it('a panel comes, goes and ends with its widget', () => {
  const [panel, around] = [new GraphPanel(), new Panel()];
  const widget = new PanelWidget(panel);
  around.addWidget(widget);
  expect([panel.isAttached, panel.canvas.isAttached]).toEqual([false, false]);
  Widget.attach(around, document.body);
  expect([panel.isAttached, panel.canvas.isAttached]).toEqual([true, true]);
  Widget.detach(around);
  expect([panel.isAttached, panel.canvas.isAttached]).toEqual([false, false]);
  Widget.attach(around, document.body);
  around.dispose();
  expect([panel.isDisposed, panel.canvas.isDisposed]).toEqual([true, true]);
  expect(document.querySelector('.workbench-Panel')).toBeNull();
});

it('the graph that a command means is the one used last that is to be seen', () => {
  const tracker = new PanelTracker();
  const widgets = [1, 2].map(() => new PanelWidget(new GraphPanel()));
  for (const widget of widgets) {
    tracker.add(widget);
    Widget.attach(widget, document.body);
  }
  const [first, second] = widgets;
  expect(tracker.current).toBe(first.panel);
  second.node.dispatchEvent(new Event('pointerdown'));
  expect(tracker.current).toBe(second.panel);
  second.hide();
  expect(tracker.current).toBe(first.panel);
  first.dispose();
  expect([tracker.current, tracker.panels]).toEqual([null, [second.panel]]);
  second.dispose();
});

it('a figure is a widget of the page in a box of a panel', async () => {
  const heard: string[] = [];
  class Renderer extends Widget {
    renderModel({ data }: { data: Record<string, unknown> }): Promise<void> {
      heard.push(`draws ${JSON.stringify(data[PLOTLY])}`);
      return Promise.resolve();
    }

    protected override onAfterAttach(): void {
      heard.push(`attached ${this.isVisible}`);
    }

    protected override onResize(): void {
      heard.push('resized');
    }
  }
  const registry = (mimeTypes: string[]): IRenderMimeRegistry => {
    const made: unknown = {
      mimeTypes,
      createRenderer: () => new Renderer(),
      createModel: (options: object) => options
    };
    return made as IRenderMimeRegistry;
  };
  expect(figureMaker(registry([]))({})).toBeNull();
  const figure = figureMaker(registry([PLOTLY]))({ data: [] })!;
  const box = new Box('around').append(figure);
  document.body.append(box.node);
  box.attach();
  await figure.draw();
  figure.fill();
  await new Promise(resolve => setTimeout(resolve, 50));
  expect(heard).toEqual(['attached true', 'draws {"data":[]}', 'resized']);
  box.dispose();
  expect(figure.node.isConnected).toBe(false);
});
