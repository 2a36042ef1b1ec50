/**
 * The figure of a plot, with a ring around one cell of a heat map. JupyterLab's renderer
 * draws it. The next figure comes up when it is drawn, so nothing flickers.
 */

import { Box, element } from '../../ui/dom';
import type { IPlotAnswer } from '../../wire/protocol';
import { fieldsOf } from '../../wire/schema';
import type { IRange, Span } from './cells';

/** What is asked of the figure's owner. */
export interface IPictureOwner {
  /** Other ends of the axes: a part, or with both null all of it. */
  onZoom(range: IRange): void;
  /** A cell was clicked. */
  onClick(row: number, column: number): void;
  /** A key was pressed in the figure; true if it meant something. */
  onKey(key: string): boolean;
  /** The figure cannot be drawn. */
  onFailure(why: string): void;
}

/** A figure of Plotly that stands on the page. */
export interface IFigure extends Box {
  /** Draw it; rejects with why that cannot be. */
  draw(): Promise<void>;
  /** Fill its element, which has another size. */
  fill(): void;
}

/** Makes a figure of its JSON; null where nothing draws figures. `lab/panel.ts` does. */
export type FigureMaker = (figure: Record<string, unknown>) => IFigure | null;

/** The ring around a cell: which one, of how many. */
export interface IRing {
  row: number;
  column: number;
  rows: number;
  columns: number;
}

export class FigurePicture extends Box {
  constructor(
    private readonly _make: FigureMaker,
    private readonly _owner: IPictureOwner
  ) {
    super('workbench-Figure', element('div', { role: 'group' }));
    // Its keys are its own: arrows walk the cells, not those of the notebook.
    this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
    this.node.addEventListener('keydown', event => {
      const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
      if (plain && this._owner.onKey(event.key)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
    this._ring.hidden = true;
    this.append(this._ring);
    this.setHidden(true);
  }

  /** The figure has cells that can be walked by keys; what they are, in words. */
  set walkable(words: string | null) {
    this.node.tabIndex = words === null ? -1 : 0;
    if (words === null) {
      this.node.removeAttribute('aria-label');
    } else {
      this.node.setAttribute('aria-label', words);
    }
  }

  /**
   * Draw a figure in the place of the last; calls back when it is there. False where
   * nothing draws figures.
   */
  draw(figure: IPlotAnswer['figure'], onDrawn: () => void): boolean {
    const made = this._make(themedFigure(figure, this.node, this._dragmode));
    if (made === null) {
      this.clear();
      return false;
    }
    const drawing = ++this._drawing;
    this.setHidden(false);
    this._range = { x: null, y: null };
    made.node.classList.add('workbench-mod-coming');
    this._figures = [...this._figures, made];
    this.append(made);
    made.draw().then(
      () => {
        if (drawing === this._drawing && !made.isDisposed) {
          this._comeUp(made);
          onDrawn();
        } else {
          this._dispose(one => one === made);
        }
      },
      (error: unknown) => {
        this._dispose(one => one === made);
        this._owner.onFailure(`The figure could not be drawn: ${String(error)}`);
      }
    );
    return true;
  }

  clear(): void {
    this._drawing += 1;
    this._dispose(() => true);
    this.ring(null);
    this.setHidden(true);
  }

  /** Put the ring around a cell, or away. */
  ring(ring: IRing | null): void {
    this._ringed = ring;
    this._placeRing();
  }

  protected override onAttach(): void {
    this._sizes ??= new ResizeObserver(() => this._followSize());
    this._sizes.observe(this.node);
  }

  protected override onDetach(): void {
    this._sizes?.disconnect();
  }

  private _followSize(): void {
    this._figures.forEach(one => one.fill());
    // Plotly draws again by itself, somewhat later.
    setTimeout(() => {
      this._placeRing();
    }, SETTLED);
  }

  private _comeUp(figure: IFigure): void {
    this._dispose(one => one !== figure);
    figure.node.classList.remove('workbench-mod-coming');
    figure.fill();
    this._listen(figure.node);
    this._placeRing();
  }

  private _dispose(isGone: (figure: IFigure) => boolean): void {
    const gone = this._figures.filter(isGone);
    this._figures = this._figures.filter(one => !gone.includes(one));
    gone.forEach(one => one.dispose());
  }

  private _listen(node: HTMLElement): void {
    if (!isEmitter(node)) {
      return;
    }
    node.on('plotly_relayout', data => {
      const change = fieldsOf(data);
      const { dragmode } = change;
      const range = rangeOf(change);
      this._dragmode = typeof dragmode === 'string' ? dragmode : this._dragmode;
      if (range !== null) {
        this._range = range;
        this._placeRing();
        this._owner.onZoom(range);
      }
    });
    node.on('plotly_click', data => {
      const cell = cellOf(data);
      if (cell !== null) {
        this._owner.onClick(...cell);
      }
    });
    node.on('plotly_afterplot', () => this._placeRing());
  }

  /** The ring lies over its cell, in what Plotly lets the pointer drag. */
  private _placeRing(): void {
    const plot = this.node.querySelector('.nsewdrag');
    const ring = this._ringed;
    if (ring === null || plot === null) {
      this._ring.hidden = true;
      return;
    }
    const around = this.node.getBoundingClientRect();
    const box = plot.getBoundingClientRect();
    const x = cellExtent(ring.column, this._range.x ?? [-0.5, ring.columns - 0.5]);
    const y = cellExtent(ring.row, this._range.y ?? [-0.5, ring.rows - 0.5]);
    this._ring.hidden = x === null || y === null;
    if (x !== null && y !== null) {
      Object.assign(this._ring.style, {
        left: `${box.left - around.left + x.from * box.width}px`,
        top: `${box.top - around.top + y.from * box.height}px`,
        width: `${x.length * box.width}px`,
        height: `${y.length * box.height}px`
      });
    }
  }

  /** What is shown, and what is to take its place. */
  private _figures: readonly IFigure[] = [];
  private readonly _ring = element('div', { class: 'workbench-Ring' });
  private _sizes: ResizeObserver | null = null;
  private _range: IRange = { x: null, y: null };
  private _ringed: IRing | null = null;
  private _dragmode: string | null = null;
  private _drawing = 0;
}

/** Milliseconds after which a figure has drawn itself in another size. */
const SETTLED = 250;

/** Where a cell lies along an axis, in parts of it; null where it is not seen. */
function cellExtent(cell: number, range: Span): { from: number; length: number } | null {
  const low = Math.min(...range);
  const length = Math.max(...range) - low;
  const from = Math.max(0, (cell - 0.5 - low) / length);
  const to = Math.min(1, (cell + 0.5 - low) / length);
  return to > from ? { from, length: to - from } : null;
}

// What a drawn figure tells of itself. The renderer is JupyterLab's own extension of
// plotly, which hangs `on` at the node that it draws in; where that is not so, figures
// are drawn all the same and tell nothing.

interface IEmitter {
  on(event: string, callback: (data: unknown) => void): void;
}

/** The range that a change of the layout asks for; null if it is another change. */
export function rangeOf(change: Record<string, unknown>): IRange | null {
  const axes = (['x', 'y'] as const).map(axis => {
    const name = `${axis}axis`;
    const whole = change[`${name}.range`];
    const [low, high] = Array.isArray(whole)
      ? (whole as unknown[])
      : [change[`${name}.range[0]`], change[`${name}.range[1]`]];
    const known = isFinite(low) && isFinite(high);
    const all = change[`${name}.autorange`] !== undefined;
    return { span: known ? ([low, high] as Span) : null, asked: known || all };
  });
  const [x, y] = axes;
  return x.asked || y.asked ? { x: x.span, y: y.span } : null;
}

/** The row and column of the cell that was clicked; null beside the matrix itself. */
export function cellOf(data: unknown): [number, number] | null {
  const { points } = fieldsOf(data);
  const point = fieldsOf(Array.isArray(points) ? (points as unknown[])[0] : null);
  const { xaxis, yaxis } = fieldsOf(point['data']);
  if ((xaxis ?? 'x') !== 'x' || (yaxis ?? 'y') !== 'y') {
    return null; // a cell of the compressed matrix
  }
  const index = point['pointIndex'] ?? point['pointNumber'];
  const [row, column] = Array.isArray(index) ? (index as unknown[]) : [];
  return isFinite(row) && isFinite(column) ? [row, column] : null;
}

function isEmitter(node: object): node is IEmitter {
  return typeof (node as { on?: unknown }).on === 'function';
}

function isFinite(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

// A figure of the kernel in the colours of the page's theme.

/** The MIME type of Plotly figures; JupyterLab draws it, Workbench does not. */
export const PLOTLY = 'application/vnd.plotly.v1+json';

/** The layout's axes have names like xaxis, yaxis2. */
const AXIS = /^[xy]axis\d*$/;

/**
 * The figure with the theme's font and lines, on the page's own background;
 * `dragmode`: what a drag does in it, if the reader chose that.
 */
function themedFigure(
  figure: IPlotAnswer['figure'],
  node: HTMLElement,
  dragmode: string | null = null
): Record<string, unknown> {
  const style = getComputedStyle(node);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const text = colour('--jp-ui-font-color1');
  const line = colour('--jp-border-color2');
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line };
  const layout: Record<string, unknown> = {
    ...figure.layout,
    autosize: true,
    paper_bgcolor: 'rgba(0, 0, 0, 0)',
    plot_bgcolor: 'rgba(0, 0, 0, 0)',
    font: {
      ...fieldsOf(figure.layout['font']),
      color: text,
      family: colour('--jp-ui-font-family')
    },
    // Its buttons appear over the figure; Plotly's own guess is a dark bar on white.
    modebar: {
      bgcolor: 'rgba(0, 0, 0, 0)',
      color: colour('--jp-ui-font-color2'),
      activecolor: colour('--jp-brand-color1')
    },
    xaxis: fieldsOf(figure.layout['xaxis']),
    yaxis: fieldsOf(figure.layout['yaxis'])
  };
  layout['margin'] ??= { l: 60, r: 20, t: 'title' in figure.layout ? 48 : 16, b: 44 };
  if (dragmode !== null) {
    layout['dragmode'] = dragmode;
  }
  // The drawer decides the size.
  delete layout['width'];
  delete layout['height'];
  for (const [name, value] of Object.entries(layout)) {
    if (AXIS.test(name)) {
      layout[name] = { ...axis, ...fieldsOf(value) };
    }
  }
  // Its tips would cover the page; what it does is said in the drawer.
  const config = { displaylogo: false, showSendToCloud: false, showTips: false };
  return { data: figure.data, layout, config };
}
