/** The numbers of a figure, as Plotly's JSON has them: nested lists, or base64. */

/** A matrix of numbers, row after row. */
export interface INumbers {
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
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const { dtype, bdata, shape } = value as Record<string, unknown>;
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
