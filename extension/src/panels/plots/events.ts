/**
 * What a drawn figure tells of itself. The renderer is JupyterLab's own extension of
 * plotly, which hangs `on` at the node that it draws in; where that is not so, figures
 * are drawn all the same and tell nothing.
 */

import type { IRange, Span } from './cells';

/** A part of the figure was chosen, or a cell of it clicked. */
export interface IFigureEvents {
  /** The ends of the axes have changed; both null: all is to be seen again. */
  zoomed(range: IRange): void;
  /** A cell was clicked. */
  clicked(row: number, column: number): void;
  /** What a drag does now: zoom, pan. */
  dragged(mode: string): void;
  /** It was drawn again, perhaps in another place. */
  drawn(): void;
}

interface IEmitter {
  on(event: string, callback: (data: unknown) => void): void;
}

/** Listen to a drawn figure; false where it tells nothing. */
export function listen(node: HTMLElement, to: IFigureEvents): boolean {
  if (!isEmitter(node)) {
    return false;
  }
  node.on('plotly_relayout', data => {
    const change = asRecord(data);
    if (typeof change['dragmode'] === 'string') {
      to.dragged(change['dragmode']);
    }
    const range = rangeOf(change);
    if (range !== null) {
      to.zoomed(range);
    }
  });
  node.on('plotly_click', data => {
    const cell = cellOf(data);
    if (cell !== null) {
      to.clicked(...cell);
    }
  });
  node.on('plotly_afterplot', () => {
    to.drawn();
  });
  return true;
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

/** The row and column of the cell that was clicked. */
function cellOf(data: unknown): [number, number] | null {
  const { points } = asRecord(data);
  const point = asRecord(Array.isArray(points) ? (points as unknown[])[0] : null);
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

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)
    : {};
}
