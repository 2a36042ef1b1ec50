/**
 * Plots of derivatives, below the graph: opens when asked for. Figures come from
 * the kernel and are drawn by JupyterLab's own renderer for them.
 */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { MessageLoop } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';

import type { PlotAnswer, PlotKind } from '../connection';
import type { Graph } from '../graph';
import { Segments, button, element, icon } from './dom';
import { PLOTLY, themedFigure } from './figure';
import type { IHost, Reason } from './host';
import { shapeText } from './words';

/** So many plots are kept; the oldest goes. */
const KEPT = 8;

/** So many nodes are offered to choose from. */
const OFFERED = 200;

const KINDS: readonly { value: PlotKind; label: string }[] = [
  { value: 'jacobian', label: 'Jacobian' },
  { value: 'hessian', label: 'Hessian' },
  { value: 'check', label: 'Gradient check' }
];

/** One plot: asked for, and then answered or refused. */
interface IPlot {
  readonly key: string;
  readonly kind: PlotKind;
  readonly of: number | null;
  readonly wrt: number[];
  answer: PlotAnswer | null;
  failure: string | null;
  /** Drawn before the graph changed. */
  stale: boolean;
}

export class Drawer extends Widget {
  constructor(
    private readonly _host: IHost,
    private readonly _rendermime: IRenderMimeRegistry | null,
    private readonly _onResult: () => void
  ) {
    super();
    this.addClass('workbench-Drawer');
    this.hide();
    const layout = new PanelLayout();
    this.layout = layout;
    this._tabs = new Segments<string>('Plots', 'tabs', key => {
      this._show(key);
    });
    this._kind.addEventListener('change', () => {
      this._showForm();
    });
    const form = element('form', { class: 'workbench-PlotForm' }, [
      this._kind,
      this._ofLabel,
      this._byLabel,
      this._submit
    ]);
    form.addEventListener('submit', event => {
      event.preventDefault();
      this._host.plot(
        this._kind.value as PlotKind,
        this._kind.value === 'jacobian' ? Number(this._of.value) : null,
        this._by.value === '' ? [] : [Number(this._by.value)]
      );
    });
    const close = button('icon', 'Close', () => {
      _host.toggleDrawer();
    });
    close.append(icon('close'));
    layout.addWidget(
      new Widget({
        node: element('div', { class: 'workbench-DrawerHead' }, [
          this._tabs.node,
          form,
          close
        ])
      })
    );
    layout.addWidget(this._caption);
    layout.addWidget(this._body);
  }

  /** The gradient checks that were answered, oldest first. */
  get checks(): readonly PlotAnswer[] {
    return this._plots.flatMap(({ kind, answer }) =>
      kind === 'check' && answer !== null ? [answer] : []
    );
  }

  /** Ask for a plot, or bring the same one up to date, and show it. */
  plot(kind: PlotKind, of: number | null, wrt: number[]): void {
    const { connection } = this._host;
    if (connection === null) {
      return;
    }
    const key = `${kind} ${of ?? ''} ${wrt.join(' ')}`;
    const plot: IPlot = {
      key,
      kind,
      of,
      wrt,
      answer: null,
      failure: null,
      stale: false
    };
    this._add(plot);
    this._kind.value = kind;
    this._showForm();
    connection.plot(kind, of, wrt).then(
      answer => {
        plot.answer = answer;
        this._settled(plot);
      },
      (error: unknown) => {
        plot.failure = error instanceof Error ? error.message : String(error);
        this._settled(plot);
      }
    );
  }

  /** Show a plot that the kernel sent by itself. */
  receive(answer: PlotAnswer): void {
    const key = `kernel ${answer.title}`;
    const kind = answer.title.toLowerCase().includes('check') ? 'check' : 'jacobian';
    this._add({ key, kind, of: null, wrt: [], answer, failure: null, stale: false });
  }

  /** Show the last gradient check. */
  showCheck(): void {
    const check = this._plots.filter(({ kind }) => kind === 'check').pop();
    if (check !== undefined) {
      this._show(check.key);
    }
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    if (reason === 'graph') {
      this._plots = [];
      this._shown = null;
      this._showTabs();
      this._draw();
    } else if (reason === 'values') {
      for (const plot of this._plots) {
        plot.stale ||= plot.answer !== null;
      }
      this._showCaption();
    }
    if (reason !== 'values') {
      this._fillForm();
    }
  }

  /** Draw the figure again: the theme changed. */
  redraw(): void {
    this._draw();
  }

  protected override onAfterShow(): void {
    this._fillForm();
    this._draw();
  }

  private _add(plot: IPlot): void {
    const at = this._plots.findIndex(({ key }) => key === plot.key);
    if (at >= 0) {
      this._plots[at] = plot;
    } else {
      this._plots = [...this._plots.slice(1 - KEPT), plot];
    }
    this._showTabs();
    this._show(plot.key);
  }

  private _settled(plot: IPlot): void {
    if (!this._plots.includes(plot) || this.isDisposed) {
      return;
    }
    this._showTabs();
    if (this._shown === plot.key) {
      this._draw(() => {
        // What was asked for is to be seen: the drawer has grown by its figure.
        this.node.scrollIntoView({ block: 'nearest' });
      });
    }
    this._onResult();
  }

  private _show(key: string): void {
    this._shown = key;
    this._tabs.choose(key);
    this._draw();
  }

  private _showTabs(): void {
    this._tabs.setChoices(
      this._plots.map(plot => {
        const title = this._titleOf(plot);
        return { value: plot.key, label: title, title };
      })
    );
    this._tabs.choose(this._shown);
  }

  private _titleOf(plot: IPlot): string {
    if (plot.answer !== null) {
      return plot.answer.title;
    }
    return KINDS.find(({ value }) => value === plot.kind)!.label;
  }

  /** Draw the plot that is shown; calls back when its figure is there. */
  private _draw(onDrawn: () => void = () => undefined): void {
    this._showCaption();
    const plot = this._plots.find(({ key }) => key === this._shown);
    const drawing = ++this._drawing;
    const clear = (): void => {
      for (const child of [...this._figure.widgets]) {
        child.dispose();
      }
    };
    if (plot === undefined || plot.answer === null || this.isHidden) {
      clear();
      return;
    }
    const mimeType = PLOTLY;
    const rendermime = this._rendermime;
    if (rendermime === null || !rendermime.mimeTypes.includes(mimeType)) {
      clear();
      this._say(
        'Figures need the JupyterLab renderer of plotly: ' +
          'pip install plotly, then reload the page.'
      );
      return;
    }
    const renderer = rendermime.createRenderer(mimeType);
    const figure = themedFigure(plot.answer.figure, this.node);
    const model = rendermime.createModel({ data: { [mimeType]: figure } });
    clear();
    this._figure.addWidget(renderer);
    renderer.renderModel(model).then(
      () => {
        if (drawing === this._drawing && !renderer.isDisposed) {
          MessageLoop.postMessage(renderer, Widget.ResizeMessage.UnknownSize);
          onDrawn();
        }
      },
      (error: unknown) => {
        this._say(`The figure could not be drawn: ${String(error)}`);
      }
    );
  }

  private _showCaption(): void {
    const plot = this._plots.find(({ key }) => key === this._shown);
    if (plot === undefined) {
      this._say('Choose what to differentiate, and by what.');
    } else if (plot.failure !== null) {
      this._say(plot.failure, 'workbench-mod-bad');
    } else if (plot.answer === null) {
      this._say('The kernel is working on it … ');
      const interrupt = this._host.connection?.interrupt;
      if (interrupt) {
        this._caption.node.append(
          button('link', 'Stop', interrupt, {
            title: 'Interrupts the kernel: what it runs now stops'
          })
        );
      }
    } else {
      this._say(plot.answer.note);
      if (plot.stale && this._host.connection !== null) {
        this._caption.node.append(
          ' ',
          button('link', 'Draw again', () => {
            this._host.plot(plot.kind, plot.of, plot.wrt);
          }),
          element('span', { class: 'workbench-Quiet', text: ' (the graph changed)' })
        );
      }
    }
  }

  private _say(text: string, look = ''): void {
    this._caption.node.className = `workbench-Caption ${look}`.trim();
    this._caption.node.textContent = text;
  }

  /** The nodes that can be chosen; keeps the choice if it is still there. */
  private _fillForm(): void {
    if (this.isHidden) {
      return;
    }
    const { graph } = this._host.state;
    const live = this._host.connection !== null;
    this._submit.disabled = !live || graph === null;
    if (graph === null) {
      return;
    }
    const { output, wrt } = graph.header;
    const selected = this._selected(graph);
    const nodes = offered(graph, selected);
    const all = wrt.map(node => graph.label(node)).join(', ');
    fill(this._of, [
      ...nodes
        .filter(node => graph.kind(node) === 'op')
        .map(node => option(graph, node))
    ]);
    fill(this._by, [
      { value: '', label: `all (${all})` },
      ...nodes
        .filter(node => graph.hasGradient(node) && node !== output)
        .map(node => option(graph, node))
    ]);
    if (selected !== null && graph.kind(selected) === 'op') {
      this._of.value = String(selected);
    } else if (selected !== null && graph.hasGradient(selected)) {
      this._of.value = String(output);
      this._by.value = String(selected);
    } else if (this._of.value === '') {
      this._of.value = String(output);
    }
    this._showForm();
  }

  /** The selected node, if a derivative can be of it or by it: one array. */
  private _selected(graph: Graph): number | null {
    const { selected } = this._host.state;
    return selected !== null && graph.isArray(selected) ? selected : null;
  }

  private _showForm(): void {
    this._ofLabel.hidden = this._kind.value !== 'jacobian';
  }

  private readonly _tabs: Segments<string>;
  private readonly _kind = select('Plot', KINDS);
  private readonly _of = select('of', []);
  private readonly _by = select('by', []);
  private readonly _ofLabel = element('label', {}, ['of ', this._of]);
  private readonly _byLabel = element('label', {}, ['by ', this._by]);
  private readonly _submit = button('primary', 'Draw', () => undefined, {
    attributes: { type: 'submit' }
  });
  private readonly _caption = new Widget();
  private readonly _figure = new PanelLayout();
  private readonly _body = bodyOf(this._figure);
  private _plots: IPlot[] = [];
  private _shown: string | null = null;
  private _drawing = 0;
}

function bodyOf(layout: PanelLayout): Widget {
  const body = new Widget();
  body.addClass('workbench-Figure');
  body.layout = layout;
  return body;
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

/** Nodes that have a name, and the selected one; the last ones if there are many. */
function offered(graph: Graph, selected: number | null): number[] {
  const nodes: number[] = [];
  for (let node = graph.count - 1; node >= 0 && nodes.length < OFFERED; node--) {
    const named = graph.name(node) !== '' && graph.kind(node) !== 'constant';
    const wanted = named || node === selected || node === graph.header.output;
    if (wanted && graph.isArray(node)) {
      nodes.push(node);
    }
  }
  return nodes.reverse();
}
