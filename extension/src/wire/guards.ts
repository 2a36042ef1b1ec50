/**
 * What comes from the kernel or out of a saved notebook is not trusted: these
 * functions look at every size, index and type before anything is drawn, and
 * say what is wrong in words that the page can show.
 */

import { checkDetail, checkPlot, checkProgress } from './answers';
import { checkHistory, checkOverrides } from './attached';
import { BYTES, checkColumnList } from './columns';
import {
  LIMITS,
  PictureError,
  boolean,
  count,
  integer,
  list,
  nodeList,
  number,
  optional,
  quoted,
  record,
  text,
  within
} from './fields';
import { checkCheck, checkFindings } from './found';
import { IHeader, ISaved, KernelMessage, SCHEMA } from './protocol';

export { checkColumns, decodeColumns } from './columns';
export type { IColumns } from './columns';
export { LIMITS, PictureError } from './fields';

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
