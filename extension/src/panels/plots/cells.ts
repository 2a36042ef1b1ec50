/**
 * Which entries of a matrix the cells of a heat map stand for, and which are left
 * when it is zoomed. Pure. Cell k of an axis reaches from k - 1/2 to k + 1/2.
 */

import { type Graph, equal } from '../../model/graph';
import { countEntries } from '../../ui/words';
import type { IMatrix, IWindow } from '../../wire/protocol';

export type Span = [number, number];

/** What is seen of a figure: the ends of both axes, in cells; null: all of it. */
export interface IRange {
  x: Span | null;
  y: Span | null;
}

/** The first entry of each cell, and the end: no cell reaches over an edge. */
export function startsOf(
  sizes: readonly number[],
  window: Span,
  block: number
): number[] {
  const starts: number[] = [];
  let begin = 0;
  for (const size of sizes) {
    const end = Math.min(begin + size, window[1]);
    for (let at = Math.max(begin, window[0]); at < end; at += block) {
      starts.push(at);
    }
    begin += size;
  }
  return [...starts, window[1]];
}

/** The cells of a heat map along both of its axes. */
export class Cells {
  /** The first entry of each cell, and the end. */
  readonly rows: readonly number[];
  readonly columns: readonly number[];

  /** `second`: of second derivatives, which have the same nodes on both axes. */
  constructor(
    graph: Graph,
    readonly matrix: IMatrix,
    second: boolean
  ) {
    const sizes = (nodes: readonly number[]): number[] =>
      nodes.map(node =>
        node < graph.count ? (countEntries(graph.shape(node)) ?? NaN) : NaN
      );
    const { of, wrt, rows, columns, window, block } = matrix;
    this.rows = axisStarts(sizes(second ? wrt : [of]), rows, window.rows, block[0]);
    this.columns = axisStarts(sizes(wrt), columns, window.columns, block[1]);
  }

  /** Whether every cell is one entry. */
  get single(): boolean {
    const { window } = this.matrix;
    return (
      this.rows.length - 1 === window.rows[1] - window.rows[0] &&
      this.columns.length - 1 === window.columns[1] - window.columns[0]
    );
  }

  /** The entries that are seen in a range of the figure, as far as there are any. */
  windowOf(range: IRange): IWindow {
    const { rows, columns, window } = this.matrix;
    return {
      rows: visibleSpan(this.rows, range.y, window.rows, rows),
      columns: visibleSpan(this.columns, range.x, window.columns, columns)
    };
  }

  /** The cell around a cell whose sides are longer or shorter by a factor. */
  zoomAround(row: number, column: number, factor: number): IWindow {
    const { rows, columns, window } = this.matrix;
    return {
      rows: scaleSpan(window.rows, middleOf(this.rows, row), factor, rows),
      columns: scaleSpan(window.columns, middleOf(this.columns, column), factor, columns)
    };
  }
}

/** Whether two windows are of the same entries; null is the whole matrix. */
export function sameWindow(
  matrix: IMatrix,
  a: IWindow | null,
  b: IWindow | null
): boolean {
  const whole: IWindow = { rows: [0, matrix.rows], columns: [0, matrix.columns] };
  const ends = ({ rows, columns }: IWindow): number[] => [...rows, ...columns];
  return equal(ends(a ?? whole), ends(b ?? whole));
}

/** The window, or null where it is the whole matrix: how the kernel is asked. */
export function partOf(matrix: IMatrix, window: IWindow): IWindow | null {
  return sameWindow(matrix, window, null) ? null : window;
}

/** The cells of an axis, by its groups if they add up, else all of one size. */
function axisStarts(
  sizes: readonly number[],
  size: number,
  window: Span,
  block: number
): number[] {
  const step = Math.max(1, block);
  const whole = sizes.reduce((a, b) => a + b, 0) === size ? sizes : [size];
  return startsOf(whole, window, step);
}

function visibleSpan(
  starts: readonly number[],
  range: Span | null,
  window: Span,
  size: number
): Span {
  if (range === null) {
    return window;
  }
  const low = Math.min(...range);
  const high = Math.max(...range);
  const count = starts.length - 1;
  const length = (window[1] - window[0]) / count;
  // A cell counts as seen if a tenth of it is; beyond the window there are more.
  const middle = Math.floor((low + high) / 2 + 0.5);
  const first = Math.min(middle, Math.floor(low + 0.5 + 0.1));
  const last = Math.max(middle, Math.ceil(high + 0.5 - 0.1) - 1);
  const at = (cell: number): number =>
    cell < 0
      ? Math.floor(window[0] + cell * length)
      : cell >= count
        ? Math.ceil(window[1] + (cell - count) * length)
        : starts[cell];
  const begin = Math.min(Math.max(0, at(first)), size - 1);
  return [begin, Math.min(Math.max(begin + 1, at(last + 1)), size)];
}

function middleOf(starts: readonly number[], cell: number): number {
  return (starts[cell] + starts[cell + 1]) / 2;
}

/** A span of so many times its length, around a place and within an axis. */
function scaleSpan(span: Span, around: number, factor: number, size: number): Span {
  const length = Math.min(
    size,
    Math.max(1, Math[factor > 1 ? 'ceil' : 'floor']((span[1] - span[0]) * factor))
  );
  const begin = Math.round(around - length / 2);
  const from = Math.min(Math.max(0, begin), size - length);
  return [from, from + length];
}
