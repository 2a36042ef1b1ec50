/**
 * What no schema says of the data from the kernel or a saved notebook: its version,
 * buffers as long as their columns, and parts of matrices that lie within them.
 */

import { bytesOf, checkColumnList } from './columns';
import {
  type IHeader,
  IInsideAnswer,
  ILoopNorms,
  type IMatrix,
  type IDetail,
  type ILesson,
  type IMoments,
  type IProgramAnswer,
  type ISaved,
  type KernelMessage,
  SCHEMA
} from './protocol';
import { PictureError, fieldsOf, quote, read, tagsOf, escapeUnseen } from './schema';

/** Refuse what a newer workbench wrote, by name and number. */
function checkSchema(data: unknown, header: unknown = data): void {
  const schema = fieldsOf(data)['schema'] ?? SCHEMA; // what is missing is told later
  const { version } = fieldsOf(header);
  if (typeof schema !== 'number' || !Number.isSafeInteger(schema) || schema < 1) {
    throw new PictureError(`there is no schema ${quote(schema)}; the first one is 1`);
  }
  if (schema > SCHEMA) {
    const writer =
      typeof version === 'string' ? escapeUnseen(version.slice(0, 40)) : '(unknown)';
    throw new PictureError(
      `this picture was written by workbench ${writer} with schema ${schema}; ` +
        `this page reads up to ${SCHEMA}: update autodiff-workbench`
    );
  }
}

/** A header as the kernel or a notebook holds it; the columns come later. */
export function checkHeader(value: unknown): IHeader {
  checkSchema(value);
  return checkLists(read('Header', value, 'the header') as IHeader);
}

/** Neither a column is listed twice nor an override, which the page knows by its id. */
function checkLists(header: IHeader): IHeader {
  const { columns, overrides } = header;
  checkColumnList(columns);
  if (new Set(overrides.map(({ id }) => id)).size < overrides.length) {
    throw new PictureError('two of the overrides have one id');
  }
  checkTimeline(header);
  header.loops?.forEach(checkMarks);
  if (header.around?.some(([outer], loop) => outer >= loop)) {
    throw new PictureError('a loop stands in one that does not come before it');
  }
  return { ...header, schema: SCHEMA };
}

/** Of each run in the timeline and in branches all is told, in order. */
function checkTimeline({ timeline, branches }: IHeader): void {
  const { steps = [], losses = [], gradients = [] } = timeline ?? {};
  if (losses.length !== steps.length || gradients.length !== steps.length) {
    throw new PictureError(
      `the timeline has ${steps.length} steps, ${losses.length} losses and ` +
        `${gradients.length} gradients`
    );
  }
  for (const branch of branches) {
    const places = [branch.step - 1, ...branch.steps, branch.count + 1];
    const isOrdered = places.every((place, i) => i === 0 || places[i - 1] < place);
    if (branch.losses.length !== branch.steps.length || !isOrdered) {
      throw new PictureError('a branch of the runs has not a loss for each step, in order');
    }
  }
}

/** A saved picture: its header and its buffers, decoded. */
export function checkSaved(value: unknown): {
  header: IHeader;
  buffers: DataView[];
  moments: IMoments | null;
  lesson: ILesson | null;
  details: IDetail[] | null;
} {
  const inner = fieldsOf(value)['header'];
  checkSchema(value, inner);
  checkSchema(inner);
  const saved = read('Saved', value, 'the saved picture') as ISaved;
  const header = checkLists(saved.header);
  if (saved.buffers.length !== header.columns.length) {
    throw new PictureError(
      `the saved picture names ${header.columns.length} columns and holds ` +
        `${saved.buffers.length} buffers`
    );
  }
  const buffers = saved.buffers.map((item, i) => {
    const { name } = header.columns[i];
    // Looked at before it is decoded: base64 makes four characters of three bytes.
    if (item.length > 4 * Math.ceil(bytesOf(header.columns[i]) / 3) + 4) {
      throw new PictureError(`the buffer of column ${name} is not its base64`);
    }
    return decodeBase64(item, name);
  });
  const { details, lesson, moments } = saved;
  for (const [what, told] of [
    ['the lesson', lesson?.nodes],
    ['the list of details', details]
  ] as const) {
    if (told && told.length !== header.nodes) {
      throw new PictureError(
        `${what} tells of ${told.length} of ${header.nodes} nodes`
      );
    }
  }
  return { header, buffers, moments, lesson, details };
}

/** A message of a kernel in a browser comes as text, for None would be lost otherwise. */
export function unpackMessage(content: unknown): unknown {
  const { json } = fieldsOf(content);
  if (typeof json !== 'string') {
    return content;
  }
  try {
    return JSON.parse(json) as unknown;
  } catch {
    throw new PictureError('the kernel sent a text that is not JSON');
  }
}

/** A message from the kernel; its buffers are looked at when they are decoded. */
export function checkMessage(value: unknown): KernelMessage {
  const { type } = fieldsOf(value);
  if (type !== undefined && !tagsOf('KernelMessage').includes(type as string)) {
    throw new PictureError(
      `the kernel sent a message of type ${quote(type)}, which this page ` +
        'does not know: update autodiff-workbench'
    );
  }
  const message = read('KernelMessage', value, 'the message') as KernelMessage;
  if ('columns' in message) {
    checkColumnList(message.columns);
  }
  if (message.type === 'program') {
    checkProgram(message);
  } else if (message.type === 'inside') {
    checkInside(message);
  } else if (message.type === 'plot' && message.matrix !== null) {
    checkMatrix(message.matrix);
  }
  return message;
}

/** A program says as much of each of its nodes. */
function checkProgram({ header, nodes, keys, forward }: IProgramAnswer): void {
  const counts = { nodes, keys: keys.length, forward: forward.length };
  for (const [name, count] of Object.entries(counts)) {
    if (count !== header.nodes) {
      throw new PictureError(
        `a program of ${quote(header.nodes)} nodes came with ${name} of ${count}`
      );
    }
  }
}

/** A step inside a loop is one of its steps. */
function checkInside({ step, steps, marks, norms }: IInsideAnswer): void {
  const count = steps ?? 0;
  if ((step === null) !== (steps === null) || (step !== null && step >= count)) {
    throw new PictureError(`the inside of a node is at step ${step} of ${steps}`);
  }
  checkMarks({ steps: count, marks, norms });
}

/** Each mark along a loop is one of its steps, and has a norm. */
function checkMarks({
  steps,
  marks,
  norms
}: Pick<ILoopNorms, 'steps' | 'marks' | 'norms'>): void {
  if (marks.length !== norms.length || marks.some(mark => mark >= steps)) {
    throw new PictureError(
      `a loop of ${steps} steps came with ${marks.length} marks, ${norms.length} norms`
    );
  }
}

/** A heat map shows a part that lies within its matrix. */
function checkMatrix({ rows, columns, window }: IMatrix): void {
  const spans = [
    ['rows', window.rows, rows],
    ['columns', window.columns, columns]
  ] as const;
  for (const [name, [from, to], end] of spans) {
    for (const [i, at, low, high] of [[0, from, 0, to], [1, to, 0, end]]) {
      if (at < low || at > high) {
        throw new PictureError(
          `matrix.window.${name}[${i}] is ${at}; it must be from ${low} to ${high}`
        );
      }
    }
  }
}

/** The sequence number of a message that is not understood. */
export function sequenceOf(content: unknown): number | null {
  const { seq } = fieldsOf(content);
  return typeof seq === 'number' && Number.isInteger(seq) ? seq : null;
}

/** The bytes of a text in base64. */
export function decodeBase64(encoded: string, name: string): DataView {
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
