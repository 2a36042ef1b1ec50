/**
 * Plots of derivatives, below the graph: opens when asked for. Figures come from
 * the kernel and are drawn by JupyterLab's own renderer for them. A heat map that is
 * zoomed is asked for again, as finely as its part allows.
 */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { PanelLayout, Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { Segments, button, element, icon } from '../../ui/dom';
import { splitter } from '../../ui/splitter';
import { shapeText } from '../../ui/words';
import type { IMatrix, IWindow, PlotKind } from '../../wire/protocol';
import type { PlotAnswer } from '../../wire/requests';
import type { IHost, Reason } from '../host';
import { Caption } from './caption';
import { Explorer } from './explorer';
import { FigurePicture } from './figure';
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

// What to differentiate, and by what: the form at the head of the drawer.

/** So many nodes are offered to choose from. */
const OFFERED = 200;

/** What the form offers; the other kinds are views of these. */
const KINDS: readonly { value: PlotKind; label: string }[] = [
  { value: 'jacobian', label: 'Jacobian' },
  { value: 'hessian', label: 'Hessian' },
  { value: 'check', label: 'Gradient check' }
];

class PlotForm {
  readonly node: HTMLFormElement;

  constructor(private readonly _host: IHost) {
    this._kind.addEventListener('change', () => {
      this._show();
    });
    this.node = element('form', { class: 'workbench-PlotForm' }, [
      this._kind,
      this._ofLabel,
      this._byLabel,
      this._submit
    ]);
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      this._host.plot(
        this._kind.value as PlotKind,
        this._kind.value === 'jacobian' ? Number(this._of.value) : null,
        this._by.value === '' ? [] : [Number(this._by.value)]
      );
    });
  }

  /** Show what was asked for, as far as the form has it. */
  choose(kind: PlotKind, of: number | null, wrt: readonly number[]): void {
    if (KINDS.some(({ value }) => value === kind)) {
      this._kind.value = kind;
    }
    this._asked = [of, ...wrt].filter(node => node !== null);
    this.fill();
    if (of !== null) {
      this._of.value = String(of);
    }
    if (wrt.length < 2) {
      this._by.value = wrt.map(String).join();
    }
  }

  /** Offer the nodes that there are; keeps the choice if it is still there. */
  fill(): void {
    const { graph } = this._host.state;
    const live = this._host.connection !== null;
    this._show();
    this._submit.disabled = !live || graph === null;
    if (graph === null) {
      return;
    }
    const { output, wrt } = graph.header;
    const { pair } = this._host.state;
    const selected = this._selected(graph);
    const wanted = new Set(this._asked);
    if (selected !== null) {
      wanted.add(selected);
    }
    const nodes = offered(graph, wanted);
    const all = wrt.map(node => graph.label(node)).join(', ');
    fill(this._of, [
      ...nodes
        .filter(node => graph.kind(node) === 'op')
        .map(node => option(graph, node))
    ]);
    fill(this._by, [
      { value: '', label: `all (${all})` },
      ...nodes
        .filter(node => wanted.has(node) || graph.hasGradient(node))
        .filter(node => node !== output)
        .map(node => option(graph, node))
    ]);
    if (pair !== null && pair.way !== null) {
      this._of.value = String(pair.of);
      this._by.value = String(pair.wrt);
    } else if (selected !== null && graph.kind(selected) === 'op') {
      this._of.value = String(selected);
    } else if (selected !== null && graph.hasGradient(selected)) {
      this._of.value = String(output);
      this._by.value = String(selected);
    } else if (this._of.value === '') {
      this._of.value = String(output);
    }
  }

  /** The selected node, if a derivative can be of it or by it: one array. */
  private _selected(graph: Graph): number | null {
    const { selected } = this._host.state;
    return selected !== null && graph.isArray(selected) ? selected : null;
  }

  private _show(): void {
    this._ofLabel.hidden = this._kind.value !== 'jacobian';
  }

  /** The nodes of what was asked for last: they can be chosen, named or not. */
  private _asked: number[] = [];
  private readonly _kind = select('Plot', KINDS);
  private readonly _of = select('of', []);
  private readonly _by = select('by', []);
  private readonly _ofLabel = element('label', {}, ['of ', this._of]);
  private readonly _byLabel = element('label', {}, ['by ', this._by]);
  private readonly _submit = button('primary', 'Draw', () => undefined, {
    attributes: { type: 'submit' }
  });
}

function select(
  label: string,
  options: readonly { value: string; label: string }[]
): HTMLSelectElement {
  const node = element('select', {
    class: 'workbench-Select',
    attributes: { 'aria-label': label, 'data-lm-suppress-shortcuts': 'true' }
  });
  fill(node, options);
  return node;
}

function fill(
  node: HTMLSelectElement,
  options: readonly { value: string; label: string }[]
): void {
  const before = node.value;
  node.replaceChildren(
    ...options.map(({ value, label }) =>
      element('option', { text: label, attributes: { value } })
    )
  );
  if (options.some(({ value }) => value === before)) {
    node.value = before;
  }
}

function option(graph: Graph, node: number): { value: string; label: string } {
  return {
    value: String(node),
    label: `${graph.label(node)} · ${shapeText(graph.shape(node))}`
  };
}

/** Nodes that have a name, and those wanted; the last ones if there are many. */
function offered(graph: Graph, wanted: ReadonlySet<number>): number[] {
  const nodes: number[] = [];
  for (let node = graph.count - 1; node >= 0; node--) {
    const named =
      nodes.length < OFFERED &&
      graph.name(node) !== '' &&
      graph.kind(node) !== 'constant';
    const chosen = wanted.has(node) || node === graph.header.output;
    if ((named || chosen) && graph.isArray(node)) {
      nodes.push(node);
    }
  }
  return nodes.reverse();
}
