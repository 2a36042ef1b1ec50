/**
 * Plots of derivatives, below the graph: opens when asked for. Figures come from
 * the kernel and are drawn by JupyterLab's own renderer for them. A heat map that is
 * zoomed is asked for again, as finely as its part allows.
 */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { PanelLayout, Widget } from '@lumino/widgets';

import { Segments, button, element, icon } from '../../ui/dom';
import { splitter } from '../../ui/splitter';
import type { IMatrix, IWindow, PlotKind } from '../../wire/protocol';
import type { PlotAnswer } from '../../wire/requests';
import type { IHost, Reason } from '../host';
import { Caption } from './caption';
import { Explorer } from './explorer';
import { FigurePicture } from './figure';
import { PlotForm } from './form';
import { HeatMap } from './heatmap';
import { Plot, familyOf } from './plot';

/** So many plots are kept; the oldest goes. */
const KEPT = 8;

/** Pixels: the least and the most that a figure is high. */
const HEIGHT = { least: 160, most: 1200 } as const;

/** The names of plots until the kernel gives them a title. */
const NAMES: Readonly<Record<PlotKind, string>> = {
  jacobian: 'Jacobian',
  singular: 'Jacobian',
  hessian: 'Hessian',
  spectrum: 'Hessian',
  sparsity: 'Sparsity',
  check: 'Gradient check',
  steps: 'Step sizes'
};

/** The height that a reader gave figures holds for the next drawer too. */
let height = 340;

export class Drawer extends Widget {
  constructor(
    private readonly _host: IHost,
    rendermime: IRenderMimeRegistry | null
  ) {
    super();
    this.addClass('workbench-Drawer');
    this.hide();
    this._tabs = new Segments<string>('Plots', 'tabs', key => {
      this._show(key);
    });
    this._form = new PlotForm(_host);
    this._picture = new FigurePicture(rendermime, {
      zoomed: range => {
        this._explorer.zoomed(range);
      },
      clicked: (row, column) => {
        this._explorer.clicked(row, column);
      },
      pressed: key => this._explorer.pressed(key),
      failed: why => {
        this._caption.say(why);
      }
    });
    this._explorer = new Explorer(this._picture, this._caption, (plot, kind, part) => {
      this._ask(plot, kind, part);
    });
    const close = button('icon', 'Close', () => {
      this._close();
    });
    close.append(icon('close'));
    const head = element('div', { class: 'workbench-DrawerHead' }, [
      this._tabs.node,
      this._form.node,
      close
    ]);
    const sizes = splitter({
      label: 'Height of the plots',
      along: 'y',
      sign: 1,
      size: () => height,
      resize: size => {
        height = Math.round(Math.min(Math.max(size, HEIGHT.least), HEIGHT.most));
        this._setHeight();
      }
    });
    const layout = new PanelLayout();
    this.layout = layout;
    for (const part of [
      new Widget({ node: head }),
      this._caption,
      this._picture,
      new Widget({ node: sizes })
    ]) {
      layout.addWidget(part);
    }
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape' && !event.defaultPrevented) {
        event.preventDefault();
        event.stopPropagation();
        this._close();
      }
    });
    this._setHeight();
  }

  /** Ask for a plot, or bring the same one up to date, and show it. */
  plot(kind: PlotKind, of: number | null, wrt: number[]): void {
    if (this._host.connection === null) {
      return;
    }
    const family = familyOf(kind, of);
    const key = `${family} ${of ?? ''} ${wrt.join(' ')}`;
    const known = this._plots.find(plot => plot.key === key);
    const plot = known ?? new Plot(key, family, kind, of, wrt);
    this._ask(plot, kind, null);
    if (known === undefined) {
      this._add(plot);
    }
    this._form.choose(kind, of, wrt);
    this._showTabs();
    this._show(plot.key);
  }

  /** Show a plot that the kernel sent by itself. */
  receive(answer: PlotAnswer): void {
    const key = `kernel ${answer.title}`;
    const check = answer.title.toLowerCase().includes('check');
    const kind = answer.matrix?.kind ?? (check ? 'check' : 'jacobian');
    const { of = null, wrt = [] } = answer.matrix ?? {};
    const second = kind === 'hessian';
    const plot = new Plot(key, familyOf(kind, of), kind, second ? null : of, wrt);
    plot.receive(answer, this._host.state.graph);
    this._add(plot);
    this._showTabs();
    this._show(key);
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    if (reason === 'graph') {
      this._forget();
    } else if (reason === 'values' || reason === 'connection') {
      this._showCaption();
    }
    if (reason !== 'values' && !this.isHidden) {
      this._form.fill();
    }
  }

  /** Draw the figure again: the theme changed. */
  redraw(): void {
    this._draw();
  }

  override dispose(): void {
    this._explorer.rest();
    super.dispose();
  }

  protected override onAfterShow(): void {
    this._form.fill();
    this._draw();
  }

  private get _plot(): Plot | null {
    return this._plots.find(({ key }) => key === this._shown) ?? null;
  }

  private _close(): void {
    this._host.toggleDrawer();
    this._host.focusGraph();
  }

  private _forget(): void {
    this._explorer.rest();
    for (const plot of this._plots) {
      plot.stop();
    }
    this._plots = [];
    this._shown = null;
    this._showTabs();
    this._draw();
  }

  private _add(plot: Plot): void {
    const rest = this._plots.filter(({ key }) => key !== plot.key);
    for (const old of rest.slice(0, Math.max(0, rest.length + 1 - KEPT))) {
      old.stop();
    }
    this._plots = [...rest.slice(1 - KEPT), plot];
  }

  /** Ask the kernel for a view, or a part of one. */
  private _ask(plot: Plot, kind: PlotKind, window: IWindow | null): void {
    const { connection, state } = this._host;
    this._explorer.rest();
    if (connection === null) {
      return;
    }
    // A figure of its own is to be seen; a finer one takes the place of another.
    const first = plot.answer === null;
    plot.ask(connection, state.graph, kind, window, {
      onProgress: () => {
        this._showCaption();
      },
      onSettled: () => {
        this._settled(plot, first);
      }
    });
    this._showCaption();
  }

  private _settled(plot: Plot, first: boolean): void {
    if (!this._plots.includes(plot) || this.isDisposed) {
      return;
    }
    this._showTabs();
    if (this._shown === plot.key) {
      if (plot.failure !== null) {
        this._showCaption();
      } else {
        this._draw(() => {
          if (first) {
            // What was asked for is to be seen: the drawer has grown by its figure.
            this.node.scrollIntoView({ block: 'nearest' });
          }
        });
      }
    }
  }

  private _show(key: string): void {
    this._shown = key;
    this._tabs.choose(key);
    this._draw();
  }

  private _showTabs(): void {
    this._tabs.setChoices(
      this._plots.map(plot => {
        const title = plot.answer?.title ?? NAMES[plot.kind];
        return { value: plot.key, label: title, title };
      })
    );
    this._tabs.choose(this._shown);
  }

  /** Draw the plot that is shown; calls back when its figure is there. */
  private _draw(onDrawn: () => void = () => undefined): void {
    const plot = this._plot;
    const { graph } = this._host.state;
    const answer = plot?.answer ?? null;
    const map =
      plot === null || answer === null || graph === null
        ? null
        : HeatMap.of(answer, graph, plot.second);
    this._explorer.show(plot, map);
    this._showCaption();
    if (answer === null || this.isHidden) {
      this._picture.clear();
    } else if (!this._picture.able) {
      this._picture.clear();
      this._caption.say(
        'Figures need the JupyterLab renderer of plotly: ' +
          'pip install plotly, then reload the page.'
      );
    } else {
      this._picture.draw(answer.figure, onDrawn);
    }
  }

  private _showCaption(): void {
    const plot = this._plot;
    if (plot === null) {
      this._caption.say('Choose what to differentiate, and by what.');
    } else {
      const { connection, state } = this._host;
      this._caption.tell(plot, connection !== null, plot.isStale(state.graph));
    }
  }

  private _showWay({ path, of }: IMatrix): void {
    this._host.state.showTrail(path);
    this._host.find(of);
  }

  private _setHeight(): void {
    this.node.style.setProperty('--workbench-figure', `${height}px`);
  }

  private readonly _tabs: Segments<string>;
  private readonly _form: PlotForm;
  private readonly _picture: FigurePicture;
  private readonly _explorer: Explorer;
  private readonly _caption = new Caption({
    view: kind => {
      if (this._plot !== null) {
        this._ask(this._plot, kind, this._plot.window);
      }
    },
    whole: () => {
      this._explorer.whole();
    },
    again: () => {
      const plot = this._plot;
      if (plot !== null) {
        this._ask(plot, plot.kind, plot.window);
      }
    },
    stop: () => {
      this._plot?.cancel();
      this._showCaption();
    },
    showWay: matrix => {
      this._showWay(matrix);
    }
  });
  private _plots: Plot[] = [];
  private _shown: string | null = null;
}
