/**
 * Graphs for tests, written as small programs and encoded as the kernel sends
 * them. The gradients are invented; where a test needs true ones it reads the
 * golden snapshot that the kernel wrote.
 */

import { COLUMN_RULES } from '../../src/wire/schema';
import { Graph } from '../../src/model/graph';
import { checkHeader } from '../../src/wire/guards';
import {
  ColumnName,
  IColumn,
  IHeader,
  IOverride,
  KINDS,
  SCHEMA,
  STATISTICS
} from '../../src/wire/protocol';

/** The graph of a snapshot: its header and its buffers, as the kernel sends them. */
export function readGraph(header: unknown, buffers: readonly DataView[]): Graph {
  return Graph.fromHeader(checkHeader(header), buffers);
}

interface INode {
  kind: (typeof KINDS)[number];
  op: string;
  name: string;
  shape: string;
  scope: string;
  line: number;
  source: string;
  inputs: number[];
  saved: number[];
  gradient: number;
  loop: number;
  iteration: number;
}

export interface IOptions {
  name?: string;
  shape?: string;
  scope?: string;
  line?: number;
  source?: string;
  saved?: number[];
  /** The norm of its gradient, NaN for none. */
  gradient?: number;
  /** The number of the loop that it stands in, and the iteration there. */
  loop?: number;
  iteration?: number;
}

/** A program under construction; each method returns the id of its node. */
export class Program {
  readonly nodes: INode[] = [];
  wrt: number[] = [];
  holders: number[] = [];
  loops: IHeader['loops'] = [];
  around: [number, number][] = [];
  overrides: IOverride[] = [];
  overridden = new Map<number, number>();
  changes = new Map<number, number>();
  error: IHeader['error'] = null;

  input(name: string, options: IOptions = {}): number {
    return this._add('input', '', [], { ...options, name });
  }

  constant(text: string): number {
    return this._add('constant', '', [], { name: text, gradient: NaN });
  }

  op(op: string, inputs: number[], options: IOptions = {}): number {
    return this._add('op', op, inputs, options);
  }

  encode(): { header: IHeader; buffers: DataView[] } {
    return encode(this);
  }

  graph(): Graph {
    const { header, buffers } = this.encode();
    return readGraph(header, buffers);
  }

  private _add(
    kind: INode['kind'],
    op: string,
    inputs: number[],
    options: IOptions
  ): number {
    return (
      this.nodes.push({
        kind,
        op,
        name: options.name ?? '',
        shape: options.shape ?? '()',
        scope: options.scope ?? '',
        line: options.line ?? -1,
        source: options.source ?? '',
        inputs,
        saved: options.saved ?? [],
        gradient: options.gradient ?? 1,
        loop: options.loop ?? -1,
        iteration: options.iteration ?? -1
      }) - 1
    );
  }
}

function encode(program: Program): { header: IHeader; buffers: DataView[] } {
  const { nodes } = program;
  const strings: string[] = [];
  const known = new Map<string, number>();
  const string = (text: string): number => {
    if (text === '') {
      return -1;
    }
    let position = known.get(text);
    if (position === undefined) {
      position = strings.push(text) - 1;
      known.set(text, position);
    }
    return position;
  };
  const statistics = (norm: number): number[] =>
    Number.isNaN(norm)
      ? STATISTICS.map(() => NaN)
      : [-norm, norm, 0, norm / 2, norm, Number.isFinite(norm) ? 0 : 1];
  const starts = (lists: number[][]): number[] => {
    let end = 0;
    return [0, ...lists.map(list => (end += list.length))];
  };
  const inputs = nodes.map(node => node.inputs);
  const saved = nodes.map(node => node.saved);
  const data: Partial<Record<ColumnName, number[]>> = {
    kind: nodes.map(node => KINDS.indexOf(node.kind)),
    op: nodes.map(node => string(node.op)),
    name: nodes.map(node => string(node.name)),
    dtype: nodes.map(() => string('float64')),
    shape: nodes.map(node => string(node.shape)),
    scope: nodes.map(node => string(node.scope)),
    place: nodes.map(node => string(node.line < 0 ? '' : `[3]:${node.line}`)),
    source: nodes.map(node => string(node.source)),
    line: nodes.map(node => node.line),
    input_start: starts(inputs),
    inputs: inputs.flat(),
    saved_start: starts(saved),
    saved: saved.flat(),
    value_stats: nodes.flatMap(() => statistics(1)),
    grad_stats: nodes.flatMap(node => statistics(node.gradient)),
    edge_norm: nodes.flatMap(node => node.inputs.map(i => nodes[i].gradient)),
    change: nodes.map((node, i) =>
      Number.isNaN(node.gradient) ? NaN : (program.changes.get(i) ?? 0)
    ),
    override: nodes.map((_, i) => program.overridden.get(i) ?? -1)
  };
  if (nodes.some(node => node.loop >= 0)) {
    data.loop = nodes.map(node => node.loop);
    data.iteration = nodes.map(node => node.iteration);
  }
  if (program.overrides.length > 0) {
    data.true_stats = data.grad_stats;
  }
  const columns: IColumn[] = [];
  const buffers: DataView[] = [];
  for (const [name, values] of Object.entries(data) as [ColumnName, number[]][]) {
    const { column, buffer } = encodeColumn(name, values);
    columns.push(column);
    buffers.push(buffer);
  }
  const output = nodes.length - 1;
  const header: IHeader = {
    schema: SCHEMA,
    version: '0.1.0',
    session: 'model',
    nodes: nodes.length,
    edges: inputs.flat().length,
    output,
    output_name: output < 0 ? '' : nodes[output].name,
    output_value: 0.0831,
    wrt: program.wrt,
    holders: program.holders,
    loops: program.loops,
    around: program.around,
    strings,
    columns,
    overrides: program.overrides,
    undo: null,
    redo: null,
    history: { done: [], undone: [] },
    check: null,
    findings: null,
    profile: null,
    timeline: null,
    branches: [],
    stops: [],
    backend: 'numpy',
    seconds: 0.0006,
    error: program.error
  };
  return { header, buffers };
}

/** A column with its buffer, little-endian as on the wire. */
export function encodeColumn(
  name: ColumnName,
  values: number[]
): { column: IColumn; buffer: DataView } {
  if (name === 'kind') {
    const buffer = new DataView(Uint8Array.from(values).buffer);
    return { column: { name, dtype: 'uint8', length: values.length }, buffer };
  }
  const wide = COLUMN_RULES[name].dtype === 'float64';
  const buffer = new DataView(new ArrayBuffer(values.length * (wide ? 8 : 4)));
  values.forEach((value, i) => {
    if (wide) {
      buffer.setFloat64(i * 8, value, true);
    } else {
      buffer.setInt32(i * 4, value, true);
    }
  });
  return {
    column: { name, dtype: wide ? 'float64' : 'int32', length: values.length },
    buffer
  };
}

/** The two-layer network of the design's picture. */
export function network(): Program {
  const program = new Program();
  const first = { line: 1, source: 'h = np.tanh(X @ W1 + b1)' };
  const second = { line: 2, source: 'p = 1 / (1 + np.exp(-(h @ W2 + b2)))' };
  const third = { line: 3, source: 'loss = -np.mean(t * np.log(p))' };
  const x = program.input('X', { shape: '569×30', gradient: NaN });
  const w1 = program.input('W1', { shape: '30×16', gradient: 0.04 });
  const product = program.op('matmul', [x, w1], {
    shape: '569×16',
    gradient: 0.04,
    saved: [x],
    ...first
  });
  const b1 = program.input('b1', { shape: '16', gradient: 0.003 });
  const sum = program.op('add', [product, b1], {
    shape: '569×16',
    gradient: 0.04,
    ...first
  });
  const h = program.op('tanh', [sum], {
    name: 'h',
    shape: '569×16',
    gradient: 0.31,
    ...first
  });
  program.nodes[h].saved = [h];
  const w2 = program.input('W2', { shape: '16', gradient: 0.04 });
  const product2 = program.op('matmul', [h, w2], {
    shape: '569',
    gradient: 0.04,
    saved: [h, w2],
    ...second
  });
  const b2 = program.input('b2', { gradient: 0.003 });
  const sum2 = program.op('add', [product2, b2], {
    shape: '569',
    gradient: 0.04,
    ...second
  });
  const p = program.op('sigmoid', [sum2], {
    name: 'p',
    shape: '569',
    gradient: 0.31,
    ...second
  });
  program.nodes[p].saved = [p];
  const t = program.input('t', { shape: '569', gradient: NaN });
  const entropy = program.op('cross_entropy', [t, p], {
    shape: '569',
    gradient: 0.003,
    saved: [t, p],
    ...third
  });
  program.op('mean', [entropy], { name: 'loss', gradient: 1, ...third });
  program.wrt = [w1, b1, w2, b2];
  return program;
}

/** An override of one node, as the kernel describes it. */
export function clip(node: number, effects: IOverride['effects'] = []): IOverride {
  return {
    id: 1,
    label: 'clip ±0.1',
    rule: 'clip(d, -0.1, 0.1)',
    data: true,
    stored: true,
    target: { kind: 'node', node },
    enabled: true,
    matched: [node],
    steps: '',
    covered: [],
    note: '',
    effects,
    code: 'model.override("h", "clip(d, -0.1, 0.1)")'
  };
}

/** A repeatable stream of numbers in [0, 1): mulberry32. */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A program of about `count` nodes: blocks in scopes, with skips and parameters. */
export function deep(count: number, seed = 1): Program {
  const next = random(seed);
  const program = new Program();
  let value = program.input('x', { shape: '64×32', gradient: NaN });
  const unary = ['tanh', 'exp', 'square', 'sqrt', 'log1p', 'sin'];
  for (let block = 0; program.nodes.length + 14 <= count; block++) {
    const scope = `stage${Math.floor(block / 4)}/block${block}`;
    const at = { scope, shape: '64×32' };
    const grad = (): { gradient: number } => ({ gradient: 10 ** (-5 * next()) });
    const skip = value;
    for (let layer = 0; layer < 2; layer++) {
      const w = program.input(`W${block}_${layer}`, { shape: '32×32', ...grad() });
      const b = program.input(`b${block}_${layer}`, { shape: '32', ...grad() });
      program.wrt.push(w, b);
      const saved = [value, w];
      value = program.op('matmul', [value, w], { ...at, ...grad(), saved });
      value = program.op('add', [value, b], { ...at, ...grad() });
      const op = unary[Math.floor(next() * unary.length)];
      value = program.op(op, [value], { ...at, ...grad(), saved: [value] });
    }
    const gate = program.op('tanh', [skip], { ...at, ...grad(), saved: [skip] });
    value = program.op('multiply', [value, gate], { ...at, ...grad() });
    value = program.op('add', [value, skip], { ...at, ...grad(), name: `h${block}` });
  }
  program.op('mean', [value], { name: 'loss', gradient: 1 });
  return program;
}

/** Any program: each op reads one to three of the nodes shortly before it. */
export function tangle(count: number, seed = 1): Program {
  const next = random(seed);
  const program = new Program();
  for (let i = 0; i < Math.max(1, Math.floor(count / 10)); i++) {
    program.input(`x${i}`, { gradient: 10 ** (-5 * next()) });
  }
  while (program.nodes.length < count) {
    const end = program.nodes.length;
    const reach = Math.min(end, next() < 0.1 ? end : 12);
    const inputs = Array.from({ length: 1 + Math.floor(next() * 3) }, () =>
      Math.max(0, end - 1 - Math.floor(next() * reach))
    );
    program.op(inputs.length === 1 ? 'sin' : 'add', inputs, {
      shape: '8',
      gradient: 10 ** (-5 * next())
    });
  }
  return program;
}
