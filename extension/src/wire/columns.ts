/**
 * The columns of a snapshot: buffers into typed arrays, and the check that every
 * length and every index is one that the graph can have.
 */

import { LIMITS, PictureError, count, list, quoted, record, text } from './fields';
import {
  ColumnDtype,
  ColumnName,
  IColumn,
  IHeader,
  KINDS,
  STATISTICS,
  STATUSES
} from './protocol';

/** The decoded columns of a graph, under their names on the wire. */
export interface IColumns {
  kind: Uint8Array;
  op: Int32Array;
  name: Int32Array;
  dtype: Int32Array;
  shape: Int32Array;
  scope: Int32Array;
  place: Int32Array;
  source: Int32Array;
  line: Int32Array;
  input_start: Int32Array;
  inputs: Int32Array;
  saved_start: Int32Array;
  saved: Int32Array;
  value_stats: Float64Array;
  grad_stats: Float64Array;
  true_stats?: Float64Array;
  edge_norm: Float64Array;
  change: Float64Array;
  override: Int32Array;
  check?: Uint8Array;
  check_ratio?: Float64Array;
}

/** How long a column must be; null: as its column of starts says. */
type Length = (nodes: number, edges: number) => number | null;

const perNode: Length = nodes => nodes;
const perStart: Length = nodes => nodes + 1;
const perEdge: Length = (_, edges) => edges;
const perStatistic: Length = nodes => nodes * STATISTICS.length;
const free: Length = () => null;

const COLUMNS: Record<ColumnName, { dtype: ColumnDtype; length: Length }> = {
  kind: { dtype: 'uint8', length: perNode },
  op: { dtype: 'int32', length: perNode },
  name: { dtype: 'int32', length: perNode },
  dtype: { dtype: 'int32', length: perNode },
  shape: { dtype: 'int32', length: perNode },
  scope: { dtype: 'int32', length: perNode },
  place: { dtype: 'int32', length: perNode },
  source: { dtype: 'int32', length: perNode },
  line: { dtype: 'int32', length: perNode },
  input_start: { dtype: 'int32', length: perStart },
  inputs: { dtype: 'int32', length: perEdge },
  saved_start: { dtype: 'int32', length: perStart },
  saved: { dtype: 'int32', length: free },
  value_stats: { dtype: 'float64', length: perStatistic },
  grad_stats: { dtype: 'float64', length: perStatistic },
  true_stats: { dtype: 'float64', length: perStatistic },
  edge_norm: { dtype: 'float64', length: perEdge },
  change: { dtype: 'float64', length: perNode },
  override: { dtype: 'int32', length: perNode },
  check: { dtype: 'uint8', length: perNode },
  check_ratio: { dtype: 'float64', length: perNode }
};

/** The columns that point into `strings`. */
const NAMED = ['op', 'name', 'dtype', 'shape', 'scope', 'place', 'source'] as const;

const OPTIONAL: ReadonlySet<string> = new Set<ColumnName>([
  'true_stats',
  'check',
  'check_ratio'
]);

/** The size of one entry. */
export const BYTES: Record<ColumnDtype, number> = { uint8: 1, int32: 4, float64: 8 };

/** The names, types and lengths of the buffers that follow. */
export function checkColumnList(value: unknown): IColumn[] {
  const names = new Set<string>();
  return list(value, 'columns', Object.keys(COLUMNS).length).map((item, i) => {
    const data = record(item, `columns[${i}]`);
    const name = text(data['name'], `columns[${i}].name`);
    if (!Object.hasOwn(COLUMNS, name) || names.has(name)) {
      throw new PictureError(
        `columns[${i}] is ${quoted(name)}: unknown or twice`
      );
    }
    names.add(name);
    const known = name as ColumnName;
    const dtype = COLUMNS[known].dtype;
    if (data['dtype'] !== dtype) {
      throw new PictureError(
        `the column ${name} is ${quoted(data['dtype'])}; it must be ${dtype}`
      );
    }
    const most = LIMITS.edges * STATISTICS.length;
    return { name: known, dtype, length: count(data['length'], name, most) };
  });
}

/** The buffers as typed arrays, each of the type and length that was announced. */
export function decodeColumns(
  columns: readonly IColumn[],
  buffers: readonly DataView[]
): Partial<IColumns> {
  if (columns.length !== buffers.length) {
    throw new PictureError(
      `${columns.length} columns were announced, ${buffers.length} buffers came`
    );
  }
  const decoded: Partial<Record<ColumnName, Uint8Array | Int32Array | Float64Array>> =
    {};
  columns.forEach((column, i) => {
    const bytes = BYTES[column.dtype] * column.length;
    if (buffers[i].byteLength !== bytes) {
      throw new PictureError(
        `column ${column.name} should have ${column.length} entries of ` +
          `${column.dtype}, ${bytes} bytes; it has ${buffers[i].byteLength}`
      );
    }
    decoded[column.name] = decode(column, buffers[i]);
  });
  return decoded as Partial<IColumns>;
}

/** All columns there, of the right length, and every index inside its range. */
export function checkColumns(
  header: IHeader,
  columns: Partial<IColumns>,
  changed: (name: ColumnName) => boolean = () => true
): IColumns {
  const { nodes, edges } = header;
  for (const name of Object.keys(COLUMNS) as ColumnName[]) {
    const column = columns[name];
    if (column === undefined) {
      if (OPTIONAL.has(name)) {
        continue;
      }
      throw new PictureError(`the column ${name} is missing`);
    }
    const length = COLUMNS[name].length(nodes, edges);
    if (length !== null && column.length !== length) {
      throw new PictureError(
        `the column ${name} has ${column.length} entries; a graph of ${nodes} nodes ` +
          `and ${edges} edges needs ${length}`
      );
    }
  }
  const whole = columns as IColumns;
  for (const name of NAMED) {
    checkRange(whole[name], -1, header.strings.length, name);
  }
  checkRange(whole.override, -1, header.overrides.length, 'override');
  if (whole.check !== undefined) {
    checkRange(whole.check, 0, STATUSES.length, 'check');
  }
  if (changed('kind')) {
    checkRange(whole.kind, 0, KINDS.length, 'kind');
  }
  if (changed('input_start') || changed('inputs')) {
    checkStarts(whole.input_start, edges, 'input_start');
    checkOrder(whole.input_start, whole.inputs);
  }
  if (changed('saved_start') || changed('saved')) {
    checkStarts(whole.saved_start, whole.saved.length, 'saved_start');
    checkRange(whole.saved, 0, nodes, 'saved');
  }
  return whole;
}

function checkRange(
  column: Uint8Array | Int32Array,
  low: number,
  end: number,
  name: string
): void {
  for (let i = 0; i < column.length; i++) {
    if (column[i] < low || column[i] >= end) {
      throw new PictureError(
        `${name}[${i}] is ${column[i]}; it must be from ${low} to ${end - 1}`
      );
    }
  }
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

const LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function decode(
  column: IColumn,
  view: DataView
): Uint8Array | Int32Array | Float64Array {
  // A copy: message buffers need not be aligned, and are not ours to keep.
  const bytes = new Uint8Array(view.byteLength);
  bytes.set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  const width = BYTES[column.dtype];
  if (!LITTLE_ENDIAN && width > 1) {
    for (let i = 0; i < bytes.length; i += width) {
      bytes.subarray(i, i + width).reverse();
    }
  }
  switch (column.dtype) {
    case 'uint8':
      return bytes;
    case 'int32':
      return new Int32Array(bytes.buffer);
    case 'float64':
      return new Float64Array(bytes.buffer);
  }
}
