/**
 * What comes from the kernel or out of a saved notebook is not trusted: these
 * functions look at every size, index and type before anything is drawn, and
 * say what is wrong in words that the page can show.
 */

import { BYTES, checkColumnList } from './columns';
import {
  LIMITS,
  PictureError,
  boolean,
  count,
  finite,
  integer,
  list,
  nodeList,
  number,
  oneOf,
  optional,
  quoted,
  record,
  text,
  within
} from './fields';
import {
  ICheck,
  IDetail,
  IDistribution,
  IEffect,
  IFinding,
  IFindings,
  IFix,
  IGradientCheck,
  IHeader,
  IHistory,
  IMatrix,
  INodeCheck,
  IOverride,
  ISaved,
  IWindow,
  KernelMessage,
  OUTCOMES,
  Outcome,
  PLOT_KINDS,
  PlotKind,
  SCHEMA,
  STATUSES,
  Status,
  Target
} from './protocol';

/** Refuse what a newer workbench wrote, by name and number. */
export function checkSchema(schema: unknown, version: unknown): void {
  const number = integer(schema, 'schema');
  if (number > SCHEMA) {
    const writer = typeof version === 'string' ? version.slice(0, 40) : '(unknown)';
    throw new PictureError(
      `this picture was written by workbench ${writer} with schema ${number}; ` +
        `this page reads up to ${SCHEMA}: update autodiff-workbench`
    );
  }
  if (number < 1) {
    throw new PictureError(`there is no schema ${number}; the first one is 1`);
  }
}

/** A header as the kernel or a notebook holds it; the columns come later. */
export function checkHeader(value: unknown): IHeader {
  const header = record(value, 'the header');
  checkSchema(header['schema'], header['version']);
  const nodes = count(header['nodes'], 'nodes', LIMITS.nodes);
  const edges = count(header['edges'], 'edges', LIMITS.edges);
  const strings = list(header['strings'], 'strings', LIMITS.strings).map((item, i) =>
    text(item, `strings[${i}]`)
  );
  const output = integer(header['output'], 'output');
  within(output, -1, nodes, 'output');
  return {
    schema: SCHEMA,
    version: text(header['version'], 'version'),
    session: text(header['session'], 'session'),
    nodes,
    edges,
    output,
    output_name: text(header['output_name'], 'output_name'),
    output_value: optional(header['output_value'], number, 'output_value'),
    wrt: nodeList(header['wrt'], 'wrt', nodes),
    strings,
    columns: checkColumnList(header['columns']),
    overrides: checkOverrides(header['overrides'], nodes),
    undo: optional(header['undo'], text, 'undo'),
    redo: optional(header['redo'], text, 'redo'),
    history: checkHistory(header['history']),
    check: checkCheck(header['check'], nodes),
    findings: checkFindings(header['findings'], nodes),
    backend: text(header['backend'], 'backend'),
    seconds: number(header['seconds'], 'seconds'),
    error: optional(
      header['error'],
      (item, where) => checkError(item, where, nodes),
      'error'
    )
  };
}

/** A saved picture: its header and its buffers, decoded. */
export function checkSaved(value: unknown): {
  saved: ISaved;
  buffers: DataView[];
} {
  const data = record(value, 'the saved picture');
  const inner = data['header'];
  const version =
    typeof inner === 'object' && inner !== null
      ? (inner as Record<string, unknown>)['version']
      : null;
  checkSchema(data['schema'], version);
  const header = checkHeader(inner);
  const texts = list(data['buffers'], 'buffers', header.columns.length);
  if (texts.length !== header.columns.length) {
    throw new PictureError(
      `the saved picture names ${header.columns.length} columns and holds ` +
        `${texts.length} buffers`
    );
  }
  const encoded: string[] = [];
  const buffers = texts.map((item, i) => {
    const column = header.columns[i];
    const bytes = BYTES[column.dtype] * column.length;
    // Looked at before it is decoded: base64 makes four characters of three bytes.
    if (typeof item !== 'string' || item.length > 4 * Math.ceil(bytes / 3) + 4) {
      throw new PictureError(`the buffer of column ${column.name} is not its base64`);
    }
    encoded.push(item);
    return decodeBase64(item, column.name);
  });
  return {
    saved: {
      schema: SCHEMA,
      model_id: text(data['model_id'], 'model_id'),
      header,
      buffers: encoded
    },
    buffers
  };
}

/** A message from the kernel; its buffers are looked at when they are decoded. */
export function checkMessage(value: unknown): KernelMessage {
  const message = record(value, 'the message');
  const seq = integer(message['seq'], 'seq');
  const type = message['type'];
  switch (type) {
    case 'snapshot':
      return { type, seq, header: checkHeader(message['header']) };
    case 'patch':
      return {
        type,
        seq,
        // Its fields are checked when they are merged: they mean nothing alone.
        header: record(message['header'], 'header'),
        columns: checkColumnList(message['columns'])
      };
    case 'detail':
      return checkDetail(message, seq);
    case 'expression':
      return {
        type,
        seq,
        request: integer(message['request'], 'request'),
        ok: boolean(message['ok'], 'ok'),
        message: text(message['message'], 'message')
      };
    case 'plot':
      return checkPlot(message, seq);
    case 'progress':
      return checkProgress(message, seq);
    case 'done':
      return { type, seq, request: integer(message['request'], 'request') };
    case 'failure':
      return {
        type,
        seq,
        request: optional(message['request'], integer, 'request'),
        message: text(message['message'], 'message')
      };
    default:
      throw new PictureError(
        `the kernel sent a message of type ${quoted(type)}, which this page ` +
          'does not know: update autodiff-workbench'
      );
  }
}

function checkError(value: unknown, where: string, nodes: number): IHeader['error'] {
  const data = record(value, where);
  const node = optional(data['node'], integer, `${where}.node`);
  if (node !== null) {
    within(node, 0, nodes, `${where}.node`);
  }
  return { node, message: text(data['message'], `${where}.message`) };
}

function decodeBase64(encoded: string, name: string): DataView {
  let binary: string;
  try {
    binary = atob(encoded);
  } catch {
    throw new PictureError(`the buffer of column ${name} is not base64`);
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  return new DataView(bytes.buffer);
}

// Overrides and the history of their changes. What an older kernel or notebook does
// not say is absent: nothing covered, no note.

function checkOverrides(value: unknown, nodes: number): IOverride[] {
  return list(value, 'overrides', LIMITS.overrides).map((item, i) =>
    checkOverride(item, `overrides[${i}]`, nodes)
  );
}

/** What was changed; of a kernel that does not say, nothing. */
function checkHistory(value: unknown): IHistory {
  const data = record(value ?? { done: [], undone: [] }, 'history');
  const texts = (name: 'done' | 'undone'): string[] =>
    list(data[name], `history.${name}`, LIMITS.overrides).map((item, i) =>
      text(item, `history.${name}[${i}]`)
    );
  return { done: texts('done'), undone: texts('undone') };
}

function checkOverride(value: unknown, where: string, nodes: number): IOverride {
  const data = record(value, where);
  const isData = boolean(data['data'], `${where}.data`);
  return {
    id: integer(data['id'], `${where}.id`),
    label: text(data['label'], `${where}.label`),
    rule: text(data['rule'], `${where}.rule`),
    data: isData,
    stored: boolean(data['stored'] ?? isData, `${where}.stored`),
    target: checkTarget(data['target'], `${where}.target`, nodes),
    steps: text(data['steps'] ?? '', `${where}.steps`),
    enabled: boolean(data['enabled'], `${where}.enabled`),
    matched: nodeList(data['matched'], `${where}.matched`, nodes),
    covered: nodeList(data['covered'] ?? [], `${where}.covered`, nodes),
    note: text(data['note'] ?? '', `${where}.note`),
    effects: list(data['effects'], `${where}.effects`, LIMITS.nodes).map((item, i) =>
      checkEffect(item, `${where}.effects[${i}]`, nodes)
    ),
    code: text(data['code'], `${where}.code`)
  };
}

function checkTarget(value: unknown, where: string, nodes: number): Target {
  const data = record(value, where);
  const kind = data['kind'];
  switch (kind) {
    case 'node': {
      const node = integer(data['node'], `${where}.node`);
      within(node, 0, nodes, `${where}.node`);
      return { kind, node };
    }
    case 'op':
      return { kind, op: text(data['op'], `${where}.op`) };
    case 'scope':
      return { kind, scope: text(data['scope'], `${where}.scope`) };
    case 'other':
      return { kind, text: text(data['text'], `${where}.text`) };
    default:
      throw new PictureError(
        `${where}.kind is ${quoted(kind)}, not node, op, scope or other`
      );
  }
}

function checkEffect(value: unknown, where: string, nodes: number): IEffect {
  const data = record(value, where);
  const node = integer(data['node'], `${where}.node`);
  within(node, 0, nodes, `${where}.node`);
  return {
    node,
    name: text(data['name'], `${where}.name`),
    relative: optional(data['relative'], finite, `${where}.relative`),
    angle: optional(data['angle'], finite, `${where}.angle`)
  };
}

// What a gradient check and the doctor found.

const SEVERITIES = ['error', 'warning', 'note'] as const;
const SWEEPS = ['forward', 'backward'] as const;

/** The last gradient check; null before the first, and from a schema without. */
function checkCheck(value: unknown, nodes: number): ICheck | null {
  return optional(
    value ?? null,
    (item, where) => readCheck(item, where, nodes),
    'check'
  );
}

/** What the doctor found; null if it was not asked. */
function checkFindings(value: unknown, nodes: number): IFindings | null {
  return optional(
    value ?? null,
    (item, where) => readFindings(item, where, nodes),
    'findings'
  );
}

function readCheck(value: unknown, where: string, nodes: number): ICheck {
  const data = record(value, where);
  const counts = record(data['counts'], `${where}.counts`);
  const ok = boolean(data['ok'], `${where}.ok`);
  return {
    ok,
    verdict: readOutcome(data['verdict'], ok, `${where}.verdict`),
    changes: text(data['changes'] ?? '', `${where}.changes`),
    stopped: boolean(data['stopped'], `${where}.stopped`),
    stale: boolean(data['stale'], `${where}.stale`),
    summary: text(data['summary'], `${where}.summary`),
    counts: Object.fromEntries(
      STATUSES.map(status => [
        status,
        count(counts[status] ?? 0, `${where}.counts.${status}`, LIMITS.nodes)
      ])
    ) as Record<Status, number>,
    nodes: list(data['nodes'], `${where}.nodes`, LIMITS.found).map((item, i) =>
      readNode(item, `${where}.nodes[${i}]`, nodes)
    ),
    gradients: list(data['gradients'], `${where}.gradients`, LIMITS.found).map(
      (item, i) => readGradient(item, `${where}.gradients[${i}]`)
    )
  };
}

function readNode(value: unknown, where: string, nodes: number): INodeCheck {
  const data = record(value, where);
  return {
    node: nodeOf(data['node'], `${where}.node`, nodes),
    status: oneOf(data['status'], STATUSES, `${where}.status`),
    mode: text(data['mode'], `${where}.mode`),
    place: text(data['place'], `${where}.place`),
    expected: optional(data['expected'], finite, `${where}.expected`),
    got: optional(data['got'], finite, `${where}.got`),
    ratio: optional(data['ratio'], finite, `${where}.ratio`),
    text: text(data['text'], `${where}.text`)
  };
}

/** A verdict; of a picture that has none, what it says of being wrong. */
function readOutcome(value: unknown, ok: boolean, where: string): Outcome {
  return value === undefined
    ? ok
      ? 'right'
      : 'wrong'
    : oneOf(value, OUTCOMES, where);
}

function readGradient(value: unknown, where: string): IGradientCheck {
  const data = record(value, where);
  const ok = boolean(data['ok'], `${where}.ok`);
  return {
    name: text(data['name'], `${where}.name`),
    mode: text(data['mode'], `${where}.mode`),
    ok,
    verdict: readOutcome(data['verdict'], ok, `${where}.verdict`),
    change: optional(data['change'] ?? null, finite, `${where}.change`),
    by: list(data['by'] ?? [], `${where}.by`, LIMITS.found).map((item, i) =>
      text(item, `${where}.by[${i}]`)
    ),
    text: text(data['text'], `${where}.text`)
  };
}

function readFindings(value: unknown, where: string, nodes: number): IFindings {
  const data = record(value, where);
  return {
    stale: boolean(data['stale'], `${where}.stale`),
    stopped: boolean(data['stopped'], `${where}.stopped`),
    list: list(data['list'], `${where}.list`, LIMITS.found).map((item, i) =>
      readFinding(item, `${where}.list[${i}]`, nodes)
    )
  };
}

function readFinding(value: unknown, where: string, nodes: number): IFinding {
  const data = record(value, where);
  const words = (name: 'kind' | 'title' | 'evidence' | 'cause'): string =>
    text(data[name], `${where}.${name}`);
  return {
    kind: words('kind'),
    severity: oneOf(data['severity'], SEVERITIES, `${where}.severity`),
    node: nodeOf(data['node'], `${where}.node`, nodes),
    path: nodeList(data['path'], `${where}.path`, nodes),
    sweep: oneOf(data['sweep'], SWEEPS, `${where}.sweep`),
    title: words('title'),
    evidence: words('evidence'),
    cause: words('cause'),
    fix: optional(data['fix'], readFix, `${where}.fix`)
  };
}

function readFix(value: unknown, where: string): IFix {
  const data = record(value, where);
  return {
    text: text(data['text'], `${where}.text`),
    code: text(data['code'], `${where}.code`),
    attachable: boolean(data['attachable'], `${where}.attachable`)
  };
}

function nodeOf(value: unknown, where: string, nodes: number): number {
  const node = integer(value, where);
  within(node, 0, nodes, where);
  return node;
}

// Answers of the kernel to what the page asked.

const MODES = ['forward', 'reverse', ''] as const;

function checkDetail(message: Record<string, unknown>, seq: number): IDetail {
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

function checkPlot(
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

function checkProgress(
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
