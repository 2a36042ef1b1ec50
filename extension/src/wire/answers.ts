/** The answers of the kernel to what the page asked, read from untrusted data. */

import {
  LIMITS,
  PictureError,
  count,
  finite,
  integer,
  list,
  nodeList,
  number,
  oneOf,
  optional,
  record,
  text,
  within
} from './fields';
import {
  IDetail,
  IDistribution,
  IMatrix,
  IWindow,
  KernelMessage,
  PLOT_KINDS,
  PlotKind
} from './protocol';

const MODES = ['forward', 'reverse', ''] as const;

export function checkDetail(message: Record<string, unknown>, seq: number): IDetail {
  return {
    type: 'detail',
    seq,
    request: integer(message['request'], 'request'),
    node: integer(message['node'], 'node'),
    rule: optional(message['rule'], text, 'rule'),
    inputs: list(message['inputs'], 'inputs', LIMITS.strings).map((item, i) =>
      text(item, `inputs[${i}]`)
    ),
    params: list(message['params'], 'params', LIMITS.strings).map((item, i) => {
      const pair = list(item, `params[${i}]`, 2);
      return [text(pair[0], `params[${i}][0]`), text(pair[1], `params[${i}][1]`)];
    }),
    // Kernels from before this field do not send it.
    code: optional(message['code'] ?? null, text, 'code'),
    value: optional(message['value'], checkDistribution, 'value'),
    gradient: optional(message['gradient'], checkDistribution, 'gradient'),
    true_gradient: optional(
      message['true_gradient'],
      checkDistribution,
      'true_gradient'
    ),
    array: optional(message['array'], text, 'array'),
    gradient_array: optional(message['gradient_array'], text, 'gradient_array')
  };
}

export function checkPlot(
  message: Record<string, unknown>,
  seq: number
): Extract<KernelMessage, { type: 'plot' }> {
  const figure = record(message['figure'], 'figure');
  return {
    type: 'plot',
    seq,
    request: integer(message['request'], 'request'),
    title: text(message['title'], 'title'),
    note: text(message['note'], 'note'),
    figure: {
      data: list(figure['data'], 'figure.data', LIMITS.strings),
      layout: record(figure['layout'], 'figure.layout')
    },
    matrix: optional(message['matrix'] ?? null, checkMatrix, 'matrix'),
    views: list(message['views'] ?? [], 'views', PLOT_KINDS.length).map((item, i) =>
      oneOf<PlotKind>(item, PLOT_KINDS, `views[${i}]`)
    )
  };
}

export function checkProgress(
  message: Record<string, unknown>,
  seq: number
): Extract<KernelMessage, { type: 'progress' }> {
  return {
    type: 'progress',
    seq,
    request: integer(message['request'], 'request'),
    done: finite(message['done'], 'done'),
    total: finite(message['total'], 'total'),
    left: optional(message['left'] ?? null, finite, 'left')
  };
}

/** What a heat map shows of its matrix: a part that lies within it. */
function checkMatrix(value: unknown, where: string): IMatrix {
  const data = record(value, where);
  const most = Number.MAX_SAFE_INTEGER;
  const rows = count(data['rows'], `${where}.rows`, most);
  const columns = count(data['columns'], `${where}.columns`, most);
  const window = record(data['window'], `${where}.window`);
  const shown: IWindow = {
    rows: span(window['rows'], `${where}.window.rows`, rows),
    columns: span(window['columns'], `${where}.window.columns`, columns)
  };
  return {
    kind: oneOf<PlotKind>(data['kind'], PLOT_KINDS, `${where}.kind`),
    of: count(data['of'], `${where}.of`, LIMITS.nodes),
    wrt: nodeList(data['wrt'], `${where}.wrt`, LIMITS.nodes),
    path: nodeList(data['path'], `${where}.path`, LIMITS.nodes),
    mode: oneOf(data['mode'], MODES, `${where}.mode`),
    rows,
    columns,
    window: shown,
    block: pair(data['block'], `${where}.block`)
  };
}

function pair(value: unknown, where: string): [number, number] {
  const [first, second, ...more] = list(value, where, 2);
  if (second === undefined || more.length > 0) {
    throw new PictureError(`${where} is not a pair`);
  }
  return [integer(first, `${where}[0]`), integer(second, `${where}[1]`)];
}

function span(value: unknown, where: string, end: number): [number, number] {
  const [from, to] = pair(value, where);
  within(from, 0, to + 1, `${where}[0]`);
  within(to, 0, end + 1, `${where}[1]`);
  return [from, to];
}

function checkDistribution(value: unknown, where: string): IDistribution {
  const data = record(value, where);
  const field = (name: string): number => number(data[name], `${where}.${name}`);
  return {
    counts: list(data['counts'], `${where}.counts`, LIMITS.bins).map((item, i) =>
      number(item, `${where}.counts[${i}]`)
    ),
    low: field('low'),
    high: field('high'),
    zeros: field('zeros'),
    nan: field('nan'),
    inf: field('inf'),
    size: field('size')
  };
}
