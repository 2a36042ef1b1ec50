/**
 * The columns of a snapshot: buffers into typed arrays, and the check that every
 * length and every index is one that the graph can have.
 */

import {
  type ColumnDtype,
  type ColumnName,
  type IColumn,
  type IColumns,
  type IHeader,
  type IPatchColumn,
  STATISTICS
} from './protocol';
import { COLUMN_RULES, PictureError, quote } from './schema';

const ARRAYS = { uint8: Uint8Array, int32: Int32Array, float64: Float64Array };

/** The bytes that a column has. */
export function bytesOf({ dtype, length }: IColumn): number {
  return ARRAYS[dtype].BYTES_PER_ELEMENT * length;
}

/** Each column once, of the type that it must be. */
export function checkColumnList(columns: readonly IColumn[]): void {
  const names = new Set<string>();
  columns.forEach(({ name, dtype }, i) => {
    if (names.has(name)) {
      throw new PictureError(`columns[${i}] is ${quote(name)}, which is listed twice`);
    }
    names.add(name);
    const known = COLUMN_RULES[name].dtype;
    if (dtype !== known) {
      throw new PictureError(
        `the column ${name} is ${quote(dtype)}; it must be ${known}`
      );
    }
  });
}

/**
 * The buffers as typed arrays, each of the type and length that was announced. Those of
 * a message are copied: they need not be aligned, and are not `ours` to keep.
 */
export function decodeColumns(
  columns: readonly IColumn[],
  buffers: readonly DataView[],
  ours = false
): Partial<IColumns> {
  if (columns.length !== buffers.length) {
    throw new PictureError(
      `${columns.length} columns were announced, ${buffers.length} buffers came`
    );
  }
  const decoded: Partial<Record<ColumnName, IColumns[ColumnName]>> = {};
  columns.forEach((column, i) => {
    const { name, dtype, length } = column;
    const bytes = bytesOf(column);
    if (buffers[i].byteLength !== bytes) {
      throw new PictureError(
        `column ${name} should have ${length} entries of ${dtype}, ${bytes} bytes; ` +
          `it has ${buffers[i].byteLength}`
      );
    }
    decoded[name] = decode(dtype, ours ? buffers[i] : copy(buffers[i]));
  });
  return decoded as Partial<IColumns>;
}

/**
 * The columns of a patch: those that came whole, and those that came in parts, laid
 * into the columns of before.
 */
export function decodePatch(
  columns: readonly IPatchColumn[],
  buffers: readonly DataView[],
  before: IColumns,
  ours = false
): Partial<IColumns> {
  const fresh: Partial<Record<ColumnName, IColumns[ColumnName]>> = decodeColumns(
    columns,
    buffers,
    ours
  );
  for (const { name, dtype, base, parts } of columns) {
    const values = fresh[name];
    if (base === undefined && parts === undefined) {
      continue;
    }
    const old = base && before[base];
    if (!old || !values || COLUMN_RULES[base].dtype !== dtype) {
      throw new PictureError(
        `parts of the column ${name} came, and no such column is there to lay them in`
      );
    }
    const whole = old.slice();
    let [from, end] = [0, 0];
    for (const [start, stop] of parts ?? []) {
      if (start < end || stop <= start || stop > whole.length) {
        throw new PictureError(
          `the column ${name} has no part from ${start} to before ${stop} after ` +
            `entry ${end} of ${whole.length}`
        );
      }
      whole.set(values.subarray(from, from + stop - start), start);
      from += stop - start;
      end = stop;
    }
    if (from !== values.length) {
      throw new PictureError(
        `the parts of the column ${name} are ${from} entries; ${values.length} came`
      );
    }
    fresh[name] = whole;
  }
  return fresh as Partial<IColumns>;
}

/**
 * All columns there, of the right length, and every index inside its range. What has
 * not changed, and whose bounds have not, is not looked at again.
 */
export function checkColumns(
  header: IHeader,
  columns: Partial<IColumns>,
  changed: (name: ColumnName) => boolean = () => true
): IColumns {
  const { nodes, edges } = header;
  const sizes: Record<string, number> = {
    nodes,
    edges,
    starts: nodes + 1,
    statistics: nodes * STATISTICS.length,
    strings: header.strings.length,
    overrides: header.overrides.length,
    steps: header.profile?.steps.length ?? 0
  };
  for (const [key, rule] of Object.entries(COLUMN_RULES)) {
    const name = key as ColumnName;
    const column = columns[name];
    if (column === undefined) {
      if (rule.optional) {
        continue;
      }
      throw new PictureError(`the column ${name} is missing`);
    }
    if (rule.length !== null && column.length !== sizes[rule.length]) {
      throw new PictureError(
        `the column ${name} has ${column.length} entries; a graph of ${nodes} nodes ` +
          `and ${edges} edges needs ${sizes[rule.length]}`
      );
    }
    if (rule.low !== null && rule.below !== null && changed(name)) {
      const end = typeof rule.below === 'string' ? sizes[rule.below] : rule.below;
      checkRange(column, rule.low, end, name);
    }
  }
  const whole = columns as IColumns;
  if (changed('input_start') || changed('inputs')) {
    checkStarts(whole.input_start, edges, 'input_start');
    checkOrder(whole.input_start, whole.inputs);
  }
  if (changed('saved_start') || changed('saved')) {
    checkStarts(whole.saved_start, whole.saved.length, 'saved_start');
  }
  return whole;
}

function checkRange(
  column: NonNullable<IColumns[ColumnName]>,
  low: number,
  end: number,
  name: string
): void {
  // Each kind of numbers has a loop of its own: one for all is ten times as slow.
  const at =
    column instanceof Int32Array
      ? findOutside(column, low, end)
      : column instanceof Uint8Array
        ? findOutsideBytes(column, low, end)
        : column.findIndex(entry => entry < low || entry >= end);
  if (at >= 0) {
    throw new PictureError(
      `${name}[${at}] is ${column[at]}; it must be from ${low} to ${end - 1}`
    );
  }
}

/** The first entry that is not from `low` to before `end`; -1 for none. */
function findOutside(column: Int32Array, low: number, end: number): number {
  for (let i = 0; i < column.length; i++) {
    if (column[i] < low || column[i] >= end) {
      return i;
    }
  }
  return -1;
}

function findOutsideBytes(column: Uint8Array, low: number, end: number): number {
  for (let i = 0; i < column.length; i++) {
    if (column[i] < low || column[i] >= end) {
      return i;
    }
  }
  return -1;
}

function checkStarts(starts: Int32Array, end: number, name: string): void {
  let before = 0;
  for (let i = 0; i < starts.length; i++) {
    if (starts[i] < before || (i === 0 && starts[i] !== 0)) {
      throw new PictureError(
        `${name} does not rise from 0: entry ${i} is ${starts[i]}`
      );
    }
    before = starts[i];
  }
  if (before !== end) {
    throw new PictureError(`${name} ends at ${before}; its list has ${end} entries`);
  }
}

/** A node reads only earlier nodes: that is what keeps the picture free of circles. */
function checkOrder(starts: Int32Array, inputs: Int32Array): void {
  for (let node = 0; node + 1 < starts.length; node++) {
    for (let e = starts[node]; e < starts[node + 1]; e++) {
      if (inputs[e] < 0 || inputs[e] >= node) {
        throw new PictureError(
          `node ${node} reads node ${inputs[e]}; it can only read earlier ones`
        );
      }
    }
  }
}

/** Columns as a notebook keeps them: what they are, and their bytes in base64. */
export function encodeColumns(columns: Partial<IColumns>): {
  columns: IColumn[];
  buffers: string[];
} {
  const listed: IColumn[] = [];
  const buffers: string[] = [];
  for (const [name, rule] of Object.entries(COLUMN_RULES)) {
    const column = columns[name as ColumnName];
    if (column !== undefined) {
      const dtype = rule.dtype as ColumnDtype;
      listed.push({ name: name as ColumnName, dtype, length: column.length });
      buffers.push(encodeBase64(encode(column)));
    }
  }
  return { columns: listed, buffers };
}

function encodeBase64(bytes: Uint8Array): string {
  let text = '';
  // A call takes only so many arguments.
  for (let i = 0; i < bytes.length; i += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  }
  return btoa(text);
}

/** A copy of the bytes of an array, in the order of the wire. */
function encode(array: NonNullable<IColumns[ColumnName]>): Uint8Array {
  const { buffer, byteOffset, byteLength, BYTES_PER_ELEMENT: width } = array;
  const bytes = new Uint8Array(buffer, byteOffset, byteLength).slice();
  swapBytes(bytes, width);
  return bytes;
}

const LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** The bytes of a view in a buffer of their own. */
function copy({ buffer, byteOffset, byteLength }: DataView): DataView {
  const bytes = new Uint8Array(byteLength);
  bytes.set(new Uint8Array(buffer, byteOffset, byteLength));
  return new DataView(bytes.buffer);
}

/** A whole buffer as numbers. */
function decode(dtype: ColumnDtype, { buffer }: DataView): IColumns[ColumnName] {
  const array = new ARRAYS[dtype](buffer as ArrayBuffer);
  swapBytes(new Uint8Array(buffer), array.BYTES_PER_ELEMENT);
  return array;
}

/** Turn numbers round, in place, where this machine writes them the other way. */
function swapBytes(bytes: Uint8Array, width: number): void {
  if (!LITTLE_ENDIAN && width > 1) {
    for (let i = 0; i < bytes.length; i += width) {
      bytes.subarray(i, i + width).reverse();
    }
  }
}
