/** A heat map as numbers: which entry each cell is, and what it says. */

import { firstWhere } from '../../model/adjacency';
import type { Graph } from '../../model/graph';
import { formatNumber, formatPercent } from '../../ui/numbers';
import type { IMatrix, IPlotAnswer } from '../../wire/protocol';
import { fieldsOf } from '../../wire/schema';
import { Cells } from './cells';
import type { IRing } from './figure';

/** An entry, or the first of a block of them. */
export interface IEntry {
  row: number;
  column: number;
}

export class HeatMap {
  /** The heat map of an answer; null for other figures. */
  static of(answer: IPlotAnswer, graph: Graph, second: boolean): HeatMap | null {
    const { matrix } = answer;
    if (matrix === null || matrix.rows === 0 || matrix.columns === 0) {
      return null;
    }
    return new HeatMap(answer, new Cells(graph, matrix, second), second);
  }

  private constructor(
    { figure }: IPlotAnswer,
    readonly cells: Cells,
    private readonly _second: boolean
  ) {
    const trace = fieldsOf(figure.data[0]);
    const numbers = readMatrix(trace['z']);
    const fits =
      numbers?.rows === cells.rows.length - 1 &&
      numbers.columns === cells.columns.length - 1;
    this._numbers = fits ? numbers : null;
    // What a cell says beside its number; of the second trace what is no number.
    this._texts = trace['text'];
    this._badTexts = fieldsOf(figure.data[1])['text'];
    this._rowTexts = readTexts(trace['y']);
    this._columnTexts = readTexts(trace['x']);
  }

  /** Whether its cells can be walked: their numbers are known. */
  get walkable(): boolean {
    return this._numbers !== null;
  }

  /** The cell that an entry is in; the nearest, if it is not shown. */
  cellOf({ row, column }: IEntry): IRing {
    const { rows, columns } = this.cells;
    return {
      row: cellWith(rows, row),
      column: cellWith(columns, column),
      rows: rows.length - 1,
      columns: columns.length - 1
    };
  }

  /** Whether an entry is among those that are shown. */
  shows({ row, column }: IEntry): boolean {
    const { rows, columns } = this.cells.matrix.window;
    return (
      row >= rows[0] && row < rows[1] && column >= columns[0] && column < columns[1]
    );
  }

  /** The first entry of a cell; of one outside, of the nearest. */
  entryOf(row: number, column: number): IEntry {
    const { rows, columns } = this.cells;
    return {
      row: rows[Math.min(Math.max(row, 0), rows.length - 2)],
      column: columns[Math.min(Math.max(column, 0), columns.length - 2)]
    };
  }

  /** "∂ p[3] / ∂ W1[0, 2] = 0.0123", for one entry or a block. */
  textOf(entry: IEntry): string {
    const { row, column, columns } = this.cellOf(entry);
    const value = this._numbers?.values[row * columns + column];
    const above = labelText(this._rowTexts, row, entry.row);
    const below = labelText(this._columnTexts, column, entry.column);
    const what = this._second
      ? `∂² / ∂ ${above} ∂ ${below}`
      : `∂ ${above} / ∂ ${below}`;
    if (value === undefined) {
      return what;
    }
    if (this.cells.matrix.kind === 'sparsity') {
      return `${what}${patternText(value, this.cells.matrix, this.cells.single)}`;
    }
    const aside = textAt(this._texts, row, column);
    if (Number.isNaN(value)) {
      return `${what} = ${textAt(this._badTexts, row, column) || 'NaN'}`;
    }
    const shown = formatNumber(value, 8) + aside;
    return this.cells.single ? `${what} = ${shown}` : `${what}: largest ${shown}`;
  }

  private readonly _numbers: INumbers | null;
  private readonly _texts: unknown;
  private readonly _badTexts: unknown;
  private readonly _rowTexts: string[] | null;
  private readonly _columnTexts: string[] | null;
}

/**
 * What a pattern says of a cell: the colour of its entry, or the share that is not zero;
 * NaN where all is. One that follows from the program tells what can differ from zero.
 */
function patternText(value: number, { colours }: IMatrix, single: boolean): string {
  const structural = colours !== undefined;
  if (Number.isNaN(value)) {
    const always = structural ? 'always ' : '';
    return single ? ` is ${always}zero` : `: all ${always}zero`;
  }
  const differs = structural ? 'can differ from zero' : 'is not zero';
  if (!single) {
    return `: ${formatPercent(value)} ${structural ? 'can differ from' : 'not'} zero`;
  }
  return ` ${differs}${colours ? `, colour ${value}` : ''}`;
}

/** The text of a cell in nested lists; "" where there is none. */
function textAt(texts: unknown, row: number, column: number): string {
  const line: unknown = Array.isArray(texts) ? (texts as unknown[])[row] : null;
  const text: unknown = Array.isArray(line) ? (line as unknown[])[column] : null;
  return typeof text === 'string' ? text : '';
}

/** Plotly's labels are markup: what the kernel has escaped is text again. */
function labelText(texts: string[] | null, cell: number, entry: number): string {
  const text = texts?.at(cell);
  return text === undefined
    ? `[${entry}]`
    : text.replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&amp;/g, '&');
}

function cellWith(starts: readonly number[], entry: number): number {
  return firstWhere(0, starts.length - 2, cell => starts[cell + 1] > entry);
}

// The numbers of a figure, as Plotly's JSON has them: nested lists, or base64.

/** A matrix of numbers, row after row. */
interface INumbers {
  rows: number;
  columns: number;
  values: ArrayLike<number>;
}

/** Plotly's names of number types. */
const TYPES = {
  f4: Float32Array,
  f8: Float64Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array
} as const;

/** Read a matrix; null where it is none that this page understands. */
export function readMatrix(value: unknown): INumbers | null {
  return Array.isArray(value) ? fromLists(value) : fromBase64(value);
}

/** Read a list of labels; null where it is none. */
export function readTexts(value: unknown): string[] | null {
  return Array.isArray(value) && value.every(item => typeof item === 'string')
    ? value
    : null;
}

function fromLists(rows: readonly unknown[]): INumbers | null {
  const [first] = rows;
  const columns = Array.isArray(first) ? first.length : 0;
  const values = new Float64Array(rows.length * columns);
  for (const [i, row] of rows.entries()) {
    if (!Array.isArray(row) || row.length !== columns) {
      return null;
    }
    for (const [j, entry] of (row as unknown[]).entries()) {
      // JSON has no NaN: null stands for it.
      values[i * columns + j] = typeof entry === 'number' ? entry : NaN;
    }
  }
  return { rows: rows.length, columns, values };
}

function fromBase64(value: unknown): INumbers | null {
  const { dtype, bdata, shape } = fieldsOf(value);
  if (typeof bdata !== 'string' || typeof shape !== 'string' || !isType(dtype)) {
    return null;
  }
  const [rows, columns, ...more] = shape.split(',').map(Number);
  let binary: string;
  try {
    binary = atob(bdata);
  } catch {
    return null;
  }
  const size = TYPES[dtype].BYTES_PER_ELEMENT;
  if (more.length > 0 || binary.length !== rows * columns * size) {
    return null;
  }
  const bytes = Uint8Array.from(binary, letter => letter.charCodeAt(0));
  return { rows, columns, values: new TYPES[dtype](bytes.buffer) };
}

function isType(dtype: unknown): dtype is keyof typeof TYPES {
  return typeof dtype === 'string' && Object.hasOwn(TYPES, dtype);
}
