/**
 * Plots of derivatives, below the graph: opens when asked for. Figures come from
 * the kernel and are drawn by JupyterLab's own renderer for them. A heat map that is
 * zoomed is asked for again, as finely as its part allows.
 */

import type { JSX, ReactNode } from 'react';

import type { Graph } from '../../model/graph';
import { Kept } from '../../model/latest';
import { Button, type IChoice, IconButton, Segments } from '../../ui/controls';
import { Box } from '../../ui/dom';
import { makeSplitter } from '../../ui/splitter';
import { shapeText } from '../../ui/words';
import { type IPlotAnswer, type IWindow, PLOTS, type PlotKind } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { Part } from '../part';
import { Caption } from './caption';
import { Explorer } from './explorer';
import { type FigureMaker, FigurePicture } from './figure';
import { HeatMap } from './heatmap';
import { Plot, familyOf } from './plot';

/** So many plots are kept. */
const KEPT = 8;

/** Pixels: the least and the most that a figure is high. */
const HEIGHT = { least: 160, most: 1200 } as const;

/** The height that a reader gave figures holds for the next drawer too. */
let height = 340;

export class Drawer extends Box {
  constructor(
    private readonly _host: IHost,
    makeFigure: FigureMaker
  ) {
    super('workbench-Drawer');
    super.setHidden(true);
    this._caption = new Caption(_host, {
      view: kind => this._askAgain(kind),
      whole: () => this._explorer.showAll(),
      setOverrides: overrides => {
        if (this._plot !== null) {
          this._plot.overrides = overrides;
          this._askAgain();
        }
      },
      again: () => this._askAgain(),
      stop: () => {
        this._plot?.cancel();
        this._showCaption();
      },
      showWay: ({ path, of }) => {
        _host.state.showTrail(path);
        _host.find(of);
      }
    });
    this._head = new DrawerHead(_host, {
      tabs: () => ({
        choices: this._plots.values.map(({ key, answer, kind }) => {
          const title = answer?.title ?? PLOTS[kind].title;
          return { value: key, label: title, title };
        }),
        chosen: this._shown
      }),
      onChoose: key => this._show(key),
      onClose: () => this._close()
    });
    this._picture = new FigurePicture(makeFigure, {
      onZoom: range => this._explorer.zoomTo(range),
      onClick: (row, column) => this._explorer.chooseCell(row, column),
      onKey: key => this._explorer.pressKey(key),
      onFailure: why => this._caption.say(why)
    });
    this._explorer = new Explorer(this._picture, this._caption, (plot, kind, part) => {
      this._ask(plot, kind, part);
    });
    const sizes = makeSplitter({
      label: 'Height of the plots',
      along: 'y',
      sign: 1,
      size: () => height,
      limits: () => HEIGHT,
      resize: size => {
        height = Math.round(size);
        this._setHeight();
      }
    });
    this.append(this._head, this._caption, this._picture, sizes);
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
    const plot = this._plots.get(key) ?? new Plot(key, family, kind, of, wrt);
    this._ask(plot, kind, null);
    this._plots.set(key, plot);
    this._head.choose(kind, of, wrt);
    this._show(plot.key);
  }

  /** Show a plot that the kernel sent by itself. */
  receive(answer: IPlotAnswer): void {
    const key = `kernel ${answer.title}`;
    const check = answer.title.toLowerCase().includes('check');
    const kind = answer.matrix?.kind ?? (check ? 'check' : 'jacobian');
    const { of = null, wrt = [] } = answer.matrix ?? {};
    const second = familyOf(kind, of) === 'hessian';
    const plot = new Plot(key, familyOf(kind, of), kind, second ? null : of, wrt);
    plot.receive(answer, this._host.state.graph);
    this._plots.set(key, plot);
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
      this._head.chooseSelected();
    }
  }

  /** Draw the figure again: the theme changed. */
  redraw(): void {
    this._draw();
  }

  override dispose(): void {
    this._explorer.rest();
    this._plots.clear();
    super.dispose();
  }

  override setHidden(hidden: boolean): void {
    const isShown = this.isHidden && !hidden;
    super.setHidden(hidden);
    if (isShown) {
      this._head.chooseSelected();
      this._draw();
    }
  }

  private get _plot(): Plot | null {
    return (this._shown === null ? null : this._plots.get(this._shown)) ?? null;
  }

  private _close(): void {
    this._host.toggleDrawer();
    this._host.focusGraph();
  }

  private _forget(): void {
    this._explorer.rest();
    this._plots.clear();
    this._shown = null;
    this._head.refresh('graph');
    this._draw();
  }

  /** Ask the kernel for a view, or a part of one. */
  private _ask(plot: Plot, kind: PlotKind, window: IWindow | null): void {
    const { connection, recording, state } = this._host;
    this._explorer.rest();
    if (connection === null) {
      return;
    }
    // A figure of its own is to be seen; a finer one takes the place of another.
    const first = plot.answer === null;
    plot.ask(connection, state.graph, kind, window, recording.about, {
      onProgress: () => this._showCaption(),
      onSettled: () => this._finish(plot, first)
    });
    this._showCaption();
  }

  /** Ask for the plot that is shown again, or for another view of it. */
  private _askAgain(kind = this._plot?.kind): void {
    if (this._plot !== null && kind !== undefined) {
      this._ask(this._plot, kind, this._plot.window);
    }
  }

  private _finish(plot: Plot, first: boolean): void {
    this._head.refresh('values');
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
    this._head.refresh('values');
    this._draw();
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
    } else if (!this._picture.draw(answer.figure, onDrawn)) {
      this._caption.say(
        'Figures need the JupyterLab renderer of plotly: ' +
          'pip install plotly, then reload the page.'
      );
    }
  }

  private _showCaption(): void {
    const plot = this._plot;
    if (plot === null) {
      this._caption.say('Choose what to differentiate, and with respect to what.');
    } else {
      this._caption.tell(plot, plot.isStale(this._host.state.graph));
    }
  }

  private _setHeight(): void {
    this.node.style.setProperty('--workbench-figure', `${height}px`);
  }

  private readonly _head: DrawerHead;
  private readonly _caption: Caption;
  private readonly _picture: FigurePicture;
  private readonly _explorer: Explorer;
  private readonly _plots = new Kept<string, Plot>(KEPT, plot => plot.drop());
  private _shown: string | null = null;
}

// The head of the drawer: its tabs, and what to differentiate by what.

/** So many nodes are offered to choose from. */
const OFFERED = 200;

/** What the form offers; the other kinds are views of these. */
const CHOICES: readonly IOption[] = (['jacobian', 'hessian', 'check'] as const).map(
  kind => ({ value: kind, label: PLOTS[kind].title })
);

interface IOption {
  value: string;
  label: string;
}

/** What is chosen in the form; nodes by their ids, '' for all. */
interface IChosen {
  kind: string;
  of: string;
  by: string;
}

interface IHeadOptions {
  tabs: () => { choices: IChoice<string>[]; chosen: string | null };
  onChoose: (key: string) => void;
  onClose: () => void;
}

class DrawerHead extends Part {
  constructor(
    host: IHost,
    private readonly _options: IHeadOptions
  ) {
    super(host, 'workbench-DrawerHead');
    this.draw();
  }

  /** Show what was asked for, as far as the form has it. */
  choose(kind: PlotKind, of: number | null, wrt: readonly number[]): void {
    if (CHOICES.some(({ value }) => value === kind)) {
      this._chosen.kind = kind;
    }
    this._asked = [of, ...wrt].filter(node => node !== null);
    this.chooseSelected();
    if (of !== null) {
      this._chosen.of = String(of);
    }
    if (wrt.length < 2) {
      this._chosen.by = wrt.join();
    }
    this.draw();
  }

  /** Choose the nodes that are selected in the picture, as far as they fit. */
  chooseSelected(): void {
    const { graph, pair } = this.host.state;
    const node = this._selected();
    if (graph === null) {
      return;
    }
    const output = String(graph.header.output);
    const { of } = this._chosen;
    if (pair !== null && pair.way !== null) {
      this._take({ of: String(pair.of), by: String(pair.wrt) });
    } else if (node !== null && graph.kind(node) === 'op') {
      this._take({ of: String(node) });
    } else if (node !== null && graph.hasGradient(node)) {
      this._take({ of: output, by: String(node) });
    } else if (!this._ofOptions(graph).some(({ value }) => value === of)) {
      this._take({ of: output });
    } else {
      this.draw();
    }
  }

  protected render(): ReactNode {
    const { graph } = this.host.state;
    const { kind, of, by } = this._chosen;
    const live = this.host.connection !== null;
    return (
      <>
        <Segments
          label="Plots"
          look="tabs"
          {...this._options.tabs()}
          onChoose={this._options.onChoose}
        />
        <form
          className="workbench-PlotForm"
          onSubmit={event => {
            event.preventDefault();
            const [wanted, node, wrt] = [
              ...event.currentTarget.querySelectorAll('select')
            ].map(({ value }) => value);
            this.host.plot(
              wanted as PlotKind,
              wanted === 'jacobian' ? Number(node) : null,
              wrt === '' ? [] : [Number(wrt)]
            );
          }}
        >
          {this._select('kind', 'Plot', CHOICES, kind)}
          <label hidden={kind !== 'jacobian'}>
            {'of '}
            {this._select('of', 'of', graph === null ? [] : this._ofOptions(graph), of)}
          </label>
          <label>
            {'by '}
            {this._select('by', 'by', graph === null ? [] : this._byOptions(graph), by)}
          </label>
          <Button look="primary" type="submit" disabled={!live || graph === null}>
            Draw
          </Button>
        </form>
        <IconButton icon="close" label="Close" onClick={this._options.onClose} />
      </>
    );
  }

  private _select(
    name: keyof IChosen,
    label: string,
    options: readonly IOption[],
    value: string
  ): JSX.Element {
    return (
      <select
        className="workbench-Select"
        aria-label={label}
        data-lm-suppress-shortcuts="true"
        value={value}
        onChange={event => this._take({ [name]: event.currentTarget.value })}
      >
        {options.map(option => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    );
  }

  private _take(chosen: Partial<IChosen>): void {
    Object.assign(this._chosen, chosen);
    this.draw();
  }

  private _ofOptions(graph: Graph): IOption[] {
    return this._nodes(graph)
      .filter(node => graph.kind(node) === 'op')
      .map(node => optionOf(graph, node));
  }

  private _byOptions(graph: Graph): IOption[] {
    const { output, wrt } = graph.header;
    const wanted = this._choosable();
    return [
      { value: '', label: `all (${wrt.map(node => graph.label(node)).join(', ')})` },
      ...this._nodes(graph)
        .filter(node => wanted.has(node) || graph.hasGradient(node))
        .filter(node => node !== output)
        .map(node => optionOf(graph, node))
    ];
  }

  /** The selected node, if a derivative can be of it or by it: one array. */
  private _selected(): number | null {
    const { graph, selected } = this.host.state;
    return selected !== null && graph?.isArray(selected) === true ? selected : null;
  }

  /** The nodes that can be chosen whether they have a name or not. */
  private _choosable(): Set<number> {
    const selected = this._selected();
    return new Set(selected === null ? this._asked : [...this._asked, selected]);
  }

  /** Nodes that have a name, and those wanted; the last ones if there are many. */
  private _nodes(graph: Graph): number[] {
    const wanted = this._choosable();
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

  /** The nodes of what was asked for last. */
  private _asked: number[] = [];
  private readonly _chosen: IChosen = { kind: 'jacobian', of: '', by: '' };
}

function optionOf(graph: Graph, node: number): IOption {
  return {
    value: String(node),
    label: `${graph.label(node)} · ${shapeText(graph.shape(node))}`
  };
}
