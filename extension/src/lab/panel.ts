/**
 * Between the panels and Lumino, the only place where they meet: a panel as a widget of
 * JupyterLab, the panels that are there, and JupyterLab's figures as boxes of a panel.
 */

import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { JSONObject } from '@lumino/coreutils';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { type FigureMaker, type IFigure, PLOTLY } from '../panels/plots/figure';
import type { GraphPanel } from '../panels/shell/panel';
import { Box } from '../ui/dom';

/** A panel as a widget: it comes, goes and ends with it. */
export class PanelWidget extends Widget {
  constructor(readonly panel: GraphPanel) {
    super({ node: panel.node });
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      this.panel.dispose();
    }
  }

  protected override onAfterAttach(): void {
    this.panel.attach();
  }

  protected override onBeforeDetach(): void {
    this.panel.detach();
  }
}

/** The panels of the page, and which one a command of the palette or a key means. */
export class PanelTracker {
  /** The current graph, or what can be done with it, changed. */
  readonly changed = new Signal<this, void>(this);

  /** The graph used last that is still on the page. */
  get current(): GraphPanel | null {
    return this._widgets.find(widget => widget.isVisible)?.panel ?? null;
  }

  /** All that are there, the one used last first. */
  get panels(): readonly GraphPanel[] {
    return this._widgets.map(({ panel }) => panel);
  }

  add(widget: PanelWidget): void {
    this._widgets.push(widget);
    const use = (): void => this._use(widget);
    widget.node.addEventListener('focusin', use);
    widget.node.addEventListener('pointerdown', use);
    widget.panel.state.changed.connect((_, change) => {
      if (change !== 'hover') {
        this.changed.emit();
      }
    });
    widget.disposed.connect(() => {
      this._widgets = this._widgets.filter(other => other !== widget);
      this.changed.emit();
    });
  }

  private _use(widget: PanelWidget): void {
    if (this._widgets[0] !== widget) {
      this._widgets = [widget, ...this._widgets.filter(other => other !== widget)];
      this.changed.emit();
    }
  }

  private _widgets: PanelWidget[] = [];
}

/** What draws figures with the renderer that a page has for them. */
export function figureMaker(rendermime: IRenderMimeRegistry): FigureMaker {
  return figure =>
    rendermime.mimeTypes.includes(PLOTLY) ? new Figure(rendermime, figure) : null;
}

/** A widget that draws a figure, as a box of a panel. */
class Figure extends Box implements IFigure {
  constructor(
    private readonly _rendermime: IRenderMimeRegistry,
    private readonly _figure: Record<string, unknown>
  ) {
    const widget = _rendermime.createRenderer(PLOTLY);
    super('workbench-FigureDrawn', widget.node);
    this._widget = widget;
  }

  draw(): Promise<void> {
    // What came over the wire as JSON is JSON.
    const data = { [PLOTLY]: this._figure as JSONObject };
    return this._widget.renderModel(this._rendermime.createModel({ data }));
  }

  fill(): void {
    MessageLoop.postMessage(this._widget, Widget.ResizeMessage.UnknownSize);
  }

  override dispose(): void {
    super.dispose();
    this._widget.dispose();
  }

  protected override onAttach(): void {
    MessageLoop.sendMessage(this._widget, Widget.Msg.BeforeAttach);
    MessageLoop.sendMessage(this._widget, Widget.Msg.AfterAttach);
  }

  protected override onDetach(): void {
    MessageLoop.sendMessage(this._widget, Widget.Msg.BeforeDetach);
    MessageLoop.sendMessage(this._widget, Widget.Msg.AfterDetach);
  }

  private readonly _widget: IRenderMime.IRenderer;
}
