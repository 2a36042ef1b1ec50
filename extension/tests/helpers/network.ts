/**
 * A small graph for the tests of the page, as the kernel sends it:
 * loss = mean(tanh(X @ W) * t), with a scope, an override and two gradients.
 */

import {
  type ColumnDtype,
  type ColumnName,
  type IColumn,
  type IHeader,
  type IOverride,
  type ISaved,
  MIME_TYPE,
  SCHEMA,
  STATISTICS
} from '../../src/wire/protocol';

/** The ids of its nodes. */
export const X = 0;
export const W = 1;
export const PRODUCT = 2;
export const H = 3;
export const T = 4;
export const SCALED = 5;
export const LOSS = 6;

const STRINGS = [
  'X',
  'W',
  't',
  'h',
  'loss',
  'matmul',
  'tanh',
  'multiply',
  'mean',
  'float64',
  '5×3',
  '3×2',
  '5×2',
  '()',
  'layer',
  '[3]:1',
  '[3]:2',
  'h = np.tanh(X @ W)',
  'loss = np.mean(h * t)'
];

const at = (text: string | null): number =>
  text === null ? -1 : STRINGS.indexOf(text);

interface INode {
  kind: 0 | 1 | 2;
  name: string | null;
  op: string | null;
  shape: string;
  inputs: number[];
  gradient: number;
  line: number;
}

const input = (name: string, shape: string, gradient: number, line: number): INode => ({
  kind: 0,
  name,
  op: null,
  shape,
  inputs: [],
  gradient,
  line
});

const op = (
  name: string | null,
  op: string,
  shape: string,
  inputs: number[],
  gradient: number,
  line: number
): INode => ({ kind: 2, name, op, shape, inputs, gradient, line });

const NODES: readonly INode[] = [
  input('X', '5×3', NaN, 1),
  input('W', '3×2', 0.25, 1),
  op(null, 'matmul', '5×2', [X, W], 0.5, 1),
  op('h', 'tanh', '5×2', [PRODUCT], 0.75, 1),
  input('t', '5×2', NaN, 2),
  op(null, 'multiply', '5×2', [H, T], 1, 2),
  op('loss', 'mean', '()', [SCALED], 1, 2)
];

/** An override of `h`, as the kernel lists it. */
export function clipOfH(changes: Partial<IOverride> = {}): IOverride {
  return {
    id: 7,
    label: 'clip ±0.1',
    rule: 'clip(d, -0.1, 0.1)',
    data: true,
    stored: true,
    target: { kind: 'node', node: H },
    enabled: true,
    matched: [H],
    steps: '',
    covered: [],
    note: '',
    effects: [{ node: W, name: 'W', relative: 0.123, angle: 3 }],
    code: 'model.override("h", "clip(d, -0.1, 0.1)", label="clip ±0.1")',
    ...changes
  };
}

export interface INetwork {
  header: IHeader;
  buffers: DataView[];
}

/** The snapshot, with the given overrides; the first that matches a node runs. */
export function network(
  overrides: IOverride[] = [],
  changes: Partial<IHeader> = {}
): INetwork {
  const columns: IColumn[] = [];
  const buffers: DataView[] = [];
  const add = (name: ColumnName, dtype: ColumnDtype, values: number[]): void => {
    const data = { uint8: Uint8Array, int32: Int32Array, float64: Float64Array }[dtype];
    const array = data.from(values);
    columns.push({ name, dtype, length: values.length });
    buffers.push(new DataView(array.buffer));
  };
  const starts = NODES.reduce<number[]>(
    (all, { inputs }) => [...all, all[all.length - 1] + inputs.length],
    [0]
  );
  const statistics = (norm: number): number[] =>
    Number.isNaN(norm)
      ? STATISTICS.map(() => NaN)
      : [-norm, norm, norm / 4, norm / 2, norm, 0];
  const running = NODES.map((_, node) =>
    overrides.findIndex(({ enabled, matched }) => enabled && matched.includes(node))
  );
  const edges = NODES.flatMap(({ inputs }) => inputs);
  add(
    'kind',
    'uint8',
    NODES.map(({ kind }) => kind)
  );
  add(
    'op',
    'int32',
    NODES.map(({ op }) => at(op))
  );
  add(
    'name',
    'int32',
    NODES.map(({ name }) => at(name))
  );
  add(
    'dtype',
    'int32',
    NODES.map(() => at('float64'))
  );
  add(
    'shape',
    'int32',
    NODES.map(({ shape }) => at(shape))
  );
  add(
    'scope',
    'int32',
    NODES.map((_, i) => (i === PRODUCT || i === H ? at('layer') : -1))
  );
  add(
    'place',
    'int32',
    NODES.map(({ line }) => at(`[3]:${line}`))
  );
  add(
    'source',
    'int32',
    NODES.map(({ line }) => STRINGS.length - 3 + line)
  );
  add(
    'line',
    'int32',
    NODES.map(({ line }) => line)
  );
  add('input_start', 'int32', starts);
  add('inputs', 'int32', edges);
  add('saved_start', 'int32', NODES.map(() => 0).concat(0));
  add('saved', 'int32', []);
  add(
    'value_stats',
    'float64',
    NODES.flatMap(() => statistics(2))
  );
  add(
    'grad_stats',
    'float64',
    NODES.flatMap(({ gradient }) => statistics(gradient))
  );
  if (overrides.length > 0) {
    add(
      'true_stats',
      'float64',
      NODES.flatMap(({ gradient }) => statistics(2 * gradient))
    );
  }
  add(
    'edge_norm',
    'float64',
    edges.map(() => 0.5)
  );
  add(
    'change',
    'float64',
    NODES.map(({ gradient }) => (Number.isNaN(gradient) ? NaN : 0))
  );
  add('override', 'int32', running);
  return {
    buffers,
    header: {
      schema: SCHEMA,
      version: '0.1.0',
      session: 'model',
      nodes: NODES.length,
      edges: edges.length,
      output: LOSS,
      output_name: 'loss',
      output_value: 0.0831,
      wrt: [W],
      holders: [],
      branches: [],
      stops: [],
      strings: STRINGS,
      columns,
      overrides,
      undo: overrides.length > 0 ? 'override h' : null,
      redo: null,
      history: {
        done: overrides.map(({ label }) => `override ${label}`),
        undone: []
      },
      check: null,
      findings: null,
      profile: null,
      timeline: null,
      backend: 'numpy',
      seconds: 0.0006,
      error: null,
      ...changes
    }
  };
}

/** What a notebook saves of it, under our MIME type. */
export function savedNetwork(modelId = 'model-1'): Record<string, ISaved> {
  const { header, buffers } = network();
  const encode = (view: DataView): string =>
    btoa(String.fromCharCode(...new Uint8Array(view.buffer)));
  return {
    [MIME_TYPE]: {
      schema: SCHEMA,
      model_id: modelId,
      header,
      buffers: buffers.map(encode),
      moments: null,
      lesson: null,
      details: null
    }
  };
}
