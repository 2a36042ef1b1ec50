import { describe, expect, test } from 'vitest';

import { Graph } from '../../src/model/graph';
import { PictureError } from '../../src/wire/schema';
import { checkHeader, checkMessage, checkSaved, unpackMessage } from '../../src/wire/guards';
import { type ColumnName, type IHeader } from '../../src/wire/protocol';
import { clipOfH } from '../helpers/network';
import { encodeColumn, readGraph, network } from '../helpers/programs';

/** A snapshot of the network with one column replaced. */
function withColumn(name: ColumnName, values: number[]): () => Graph {
  const { header, buffers } = network().encode();
  const at = header.columns.findIndex(column => column.name === name);
  const { column, buffer } = encodeColumn(name, values);
  header.columns[at] = column;
  buffers[at] = buffer;
  return () => readGraph(header, buffers);
}

function base64(view: DataView): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  return btoa(String.fromCharCode(...bytes));
}

function savedNetwork(): Record<string, unknown> {
  const { header, buffers } = network().encode();
  return { schema: 1, model_id: 'abc', header, buffers: buffers.map(base64) };
}

describe('schema', () => {
  test('a newer one is refused, with both versions and the cure', () => {
    const { header } = network().encode();
    expect(() => checkHeader({ ...header, schema: 7, version: '9.2.0' })).toThrow(
      'this picture was written by workbench 9.2.0 with schema 7; ' +
        'this page reads up to 1: update autodiff-workbench'
    );
  });

  test('what would not be seen of its version is written out', () => {
    const { header } = network().encode();
    expect(() => checkHeader({ ...header, schema: 7, version: '9\u202e2' })).toThrow(
      'written by workbench 9\\u202e2 with'
    );
  });

  test('a newer saved picture is refused before anything else is read', () => {
    const saved = { schema: 3, header: { version: '3.0.0' } };
    expect(() => checkSaved(saved)).toThrow(
      'written by workbench 3.0.0 with schema 3; this page reads up to 1'
    );
  });

  test.each([0, -1, 1.5, '1', null])('%j is no schema', schema => {
    expect(() => checkHeader({ ...network().encode().header, schema })).toThrow(
      PictureError
    );
  });
});

describe('headers', () => {
  const cases: [string, (header: IHeader) => unknown, string][] = [
    ['a list', () => [], 'the header is not an object'],
    ['too many nodes', h => ({ ...h, nodes: 1e9 }), 'nodes is 1000000000; it must be from 0 to 1000000'],
    ['negative edges', h => ({ ...h, edges: -1 }), 'edges is -1'],
    ['a number among strings', h => ({ ...h, strings: ['a', 1] }), 'strings[1] is not'],
    [
      'a huge string',
      h => ({ ...h, strings: ['x'.repeat(200_000)] }),
      'strings[0] has 200000 characters; this page takes at most 100000'
    ],
    ['an output beyond', h => ({ ...h, output: 14 }), 'output is 14; it must be'],
    ['a wrt beyond', h => ({ ...h, wrt: [1, 99] }), 'wrt[1] is 99; it must be from 0'],
    [
      'an override twice',
      h => ({ ...h, overrides: [clipOfH(), clipOfH()] }),
      'two of the overrides have one id'
    ],
    [
      'a column twice',
      h => ({ ...h, columns: [h.columns[0], h.columns[0]] }),
      'columns[1] is "kind", which is listed twice'
    ],
    [
      'a column that is not known',
      h => ({ ...h, columns: [{ ...h.columns[0], name: 'color' }] }),
      'columns[0].name is "color", not one of "kind"'
    ],
    [
      'a column of another type',
      h => ({ ...h, columns: [{ ...h.columns[0], dtype: 'float64' }] }),
      'the column kind is "float64"; it must be uint8'
    ],
    [
      'the failing node beyond',
      h => ({ ...h, error: { node: 50, message: '' } }),
      'error.node is 50'
    ]
  ];
  test.each(cases)('%s', (_, change, message) => {
    expect(() => checkHeader(change(network().encode().header))).toThrow(message);
  });

  test.each([
    ['a loss for each step', { losses: [1] }],
    ['steps in order', { steps: [3, 2] }],
    ['no step before its first', { steps: [1, 3] }],
    ['no step after its last', { steps: [2, 5] }]
  ])('a branch has %s', (_, change) => {
    const branch = { name: 'b', step: 2, count: 4, text: '', steps: [2, 4], losses: [1, null] };
    const { header } = network().encode();
    expect(checkHeader({ ...header, branches: [branch] }).branches).toEqual([branch]);
    expect(() => checkHeader({ ...header, branches: [{ ...branch, ...change }] })).toThrow(
      'a branch of the runs has not a loss for each step, in order'
    );
  });

  test('what would not be seen of a text is written out', () => {
    const { header } = network().encode();
    const strings = ['a\u202eb', '\u200bx\u0000', 'tab\tand\nline', '\ud800', 'é😀 שלום'];
    const read = checkHeader({ ...header, strings: [...header.strings, ...strings] });
    expect(read.strings.slice(-5)).toEqual([
      'a\\u202eb',
      '\\u200bx\\u0000',
      'tab\tand\nline',
      '\\ud800',
      'é😀 שלום'
    ]);
  });

  test('what is not in the protocol is left out', () => {
    const header = checkHeader({ ...network().encode().header, surprise: 1 });
    expect(header).not.toHaveProperty('surprise');
  });
});

describe('columns', () => {
  test('a buffer of the wrong size', () => {
    const { header, buffers } = network().encode();
    buffers[1] = new DataView(new ArrayBuffer(4));
    expect(() => readGraph(header, buffers)).toThrow(
      'column op should have 14 entries of int32, 56 bytes; it has 4'
    );
  });

  test('too few buffers', () => {
    const { header, buffers } = network().encode();
    expect(() => readGraph(header, buffers.slice(1))).toThrow(
      '18 columns were announced, 17 buffers came'
    );
  });

  test('a column that is missing', () => {
    const { header, buffers } = network().encode();
    header.columns.pop();
    expect(() => readGraph(header, buffers.slice(0, -1))).toThrow(
      'the column override is missing'
    );
  });

  test('a column that is too short', () => {
    expect(withColumn('change', [0])).toThrow(
      'the column change has 1 entries; a graph of 14 nodes and 13 edges needs 14'
    );
  });

  test('a string that is not there', () => {
    const op = Array.from({ length: 14 }, () => 999);
    expect(withColumn('op', op)).toThrow('op[0] is 999; it must be from -1 to');
  });

  test('a kind that is not there', () => {
    const kinds = Array.from({ length: 14 }, () => 9);
    expect(withColumn('kind', kinds)).toThrow('kind[0] is 9; it must be from 0 to 2');
  });

  test('an override that is not there', () => {
    const override = Array.from({ length: 14 }, () => 0);
    expect(withColumn('override', override)).toThrow(
      'override[0] is 0; it must be from -1 to -1'
    );
  });

  test('a node that reads a later one, which would be a circle', () => {
    const { header, buffers } = network().encode();
    const at = header.columns.findIndex(column => column.name === 'inputs');
    buffers[at].setInt32(0, 13, true);
    expect(() => readGraph(header, buffers)).toThrow(
      'node 2 reads node 13; it can only read earlier ones'
    );
  });

  test('starts that fall, and starts that end elsewhere', () => {
    const falling = [0, 0, 0, 2, 1, ...Array.from({ length: 10 }, () => 13)];
    expect(withColumn('input_start', falling)).toThrow('does not rise from 0: entry 4');
    const short = Array.from({ length: 15 }, () => 0);
    expect(withColumn('input_start', short)).toThrow(
      'input_start ends at 0; its list has 13 entries'
    );
  });

  test('buffers need not be aligned', () => {
    const { header, buffers } = network().encode();
    const shifted = buffers.map(view => {
      const bytes = new Uint8Array(view.byteLength + 3);
      bytes.set(new Uint8Array(view.buffer), 3);
      return new DataView(bytes.buffer, 3);
    });
    expect(readGraph(header, shifted).gradNorm(5)).toBe(0.31);
  });
});

describe('saved pictures', () => {
  test('one that is whole', () => {
    const graph = Graph.fromSaved(savedNetwork());
    expect(graph.count).toBe(14);
    expect(graph.label(5)).toBe('h');
    expect(Array.from(graph.inputs(7))).toEqual([5, 6]);
  });

  test('a buffer far longer than its column is refused before it is decoded', () => {
    const saved = savedNetwork();
    (saved['buffers'] as string[])[0] = 'A'.repeat(100_000);
    expect(() => checkSaved(saved)).toThrow(
      'the buffer of column kind is not its base64'
    );
  });

  test('what is not base64', () => {
    const saved = savedNetwork();
    (saved['buffers'] as string[])[0] = '<script>';
    expect(() => checkSaved(saved)).toThrow('the buffer of column kind is not base64');
  });

  test.each([null, 'text', 3, [], {}])('%j is no picture', value => {
    expect(() => checkSaved(value)).toThrow(PictureError);
  });
});

describe('messages', () => {
  test('an unknown type is named', () => {
    expect(() => checkMessage({ type: 'dance', seq: 1 })).toThrow(
      'the kernel sent a message of type "dance", which this page does not know'
    );
  });

  test('a failure and an answer come through', () => {
    const failure = { type: 'failure', seq: 3, request: null, message: 'no' };
    expect(checkMessage(failure)).toEqual(failure);
    const answer = { type: 'check-expression', seq: 4, request: 2, ok: true, message: '' };
    expect(checkMessage(answer)).toEqual(answer);
  });

  test('a detail whose histogram is broken', () => {
    const detail = {
      type: 'inspect',
      seq: 1,
      request: 1,
      node: 0,
      rule: null,
      inputs: [],
      params: [],
      code: null,
      value: { counts: [1, 'two'] },
      gradient: null,
      true_gradient: null,
      array: null,
      gradient_array: null
    };
    expect(() => checkMessage(detail)).toThrow('value.counts[1] is not a whole number');
  });
});

describe('what a browser\'s Python sends', () => {
  test('fields that may be null may be missing', () => {
    const { header } = network().encode();
    Reflect.deleteProperty(header, 'undo');
    Reflect.deleteProperty(header, 'redo');
    expect(checkHeader(header)).toMatchObject({ undo: null, redo: null });
  });

  test('a message as text is the message', () => {
    const message = { type: 'done', request: 3, seq: 4 };
    expect(unpackMessage({ json: JSON.stringify(message) })).toEqual(message);
    expect(unpackMessage(message)).toBe(message);
    expect(() => unpackMessage({ json: '{' })).toThrow(
      'the kernel sent a text that is not JSON'
    );
  });
});
