import { describe, expect, test } from 'vitest';

import { Graph } from '../../src/model/graph';
import type { IPatchColumn } from '../../src/wire/protocol';
import { Program, clip, deep, encodeColumn, network } from '../helpers/programs';

describe('questions to a graph', () => {
  const graph = network().graph();

  test('names, ops, shapes, places', () => {
    expect(graph.count).toBe(14);
    expect([graph.label(5), graph.name(5), graph.op(5)]).toEqual(['h', 'h', 'tanh']);
    expect([graph.label(2), graph.name(2)]).toEqual(['matmul', '']);
    expect(graph.shape(5)).toBe('569×16');
    expect(graph.place(5)).toBe('[3]:1');
    expect(graph.line(5)).toBe(1);
    expect(graph.line(0)).toBeNull();
    expect(graph.kind(0)).toBe('input');
    expect(graph.isWrt(1)).toBe(true);
    expect(graph.isWrt(0)).toBe(false);
  });

  test('edges in both directions', () => {
    expect(Array.from(graph.inputs(2))).toEqual([0, 1]);
    expect(Array.from(graph.consumers(5))).toEqual([7]);
    expect(Array.from(graph.consumers(13))).toEqual([]);
    for (let node = 0; node < graph.count; node++) {
      for (const reader of graph.consumers(node)) {
        expect(graph.inputs(reader)).toContain(node);
      }
    }
  });

  test('a node that reads another twice has two edges to it', () => {
    const program = new Program();
    const x = program.input('x');
    const square = program.op('multiply', [x, x]);
    expect(Array.from(program.graph().consumers(x))).toEqual([square, square]);
  });

  test('no gradient, a healthy one, a zero and one that is not a number', () => {
    const program = network();
    program.nodes[3].gradient = 0;
    program.nodes[4].gradient = Infinity;
    const sick = program.graph();
    expect(sick.hasGradient(0)).toBe(false);
    expect(sick.gradientStatistics(0)).toBeNull();
    expect(sick.gradNorm(5)).toBe(0.31);
    expect(sick.hasGradient(3)).toBe(true);
    expect(sick.gradNorm(3)).toBe(0);
    expect(sick.badGradients(4)).toBe(1);
  });

  test('scopes nest and count what is in them', () => {
    const { scopes } = deep(130).graph();
    const stage = scopes.get('stage0');
    const block = scopes.get('stage0/block1');
    expect(stage?.parent).toBeNull();
    expect(block).toMatchObject({ parent: 'stage0', depth: 1 });
    expect(stage?.nodes).toBe(4 * (block?.nodes ?? NaN));
  });
});

describe('pictures as they come', () => {
  const { header, buffers } = network().encode();
  const { columns } = header;
  const told = { of: null, header, columns, buffers };

  test('a whole one needs no other', () => {
    for (const base of [null, deep(130).graph()]) {
      const graph = Graph.read(told, base);
      expect([graph.count, graph.rewritten]).toEqual([14, null]);
    }
    const keys = Array.from({ length: 14 }, (_, i) => `0.${i}`);
    const { rewritten } = Graph.read({ ...told, keys, came: [3], went: [] }, null);
    expect(rewritten?.keys).toBe(keys);
    expect([...(rewritten?.came ?? [])]).toEqual([3]);
  });

  test('what changed is laid over the one that it is of, and is nothing alone', () => {
    const change = { of: 7, header: { seconds: 2 }, columns: [], buffers: [] };
    expect(Graph.read(change, network().graph()).header.seconds).toBe(2);
    expect(() => Graph.read(change, null)).toThrow('came without the picture');
  });

  test('a whole one is checked as one from a notebook is', () => {
    const bare: Partial<typeof header> = { ...header };
    delete bare.nodes;
    expect(() => Graph.read({ ...told, header: bare }, null)).toThrow('nodes is missing');
    const newer = { ...header, schema: 2, version: '9.0' };
    expect(() => Graph.read({ ...told, header: newer }, null)).toThrow('workbench 9.0');
    const short = { ...told, columns: columns.slice(1) };
    expect(() => Graph.read(short, null)).toThrow('buffers came');
  });
});

describe('patches', () => {
  test('a column is replaced, the rest is shared', () => {
    const before = network().graph();
    const change = encodeColumn(
      'change',
      Array.from({ length: 14 }, (_, i) => i)
    );
    const after = before.applyPatch({ seconds: 2 }, [change.column], [change.buffer]);
    expect(after.change(3)).toBe(3);
    expect(before.change(3)).toBe(0);
    expect(after.header.seconds).toBe(2);
    expect(after.sameStructure(before)).toBe(true);
    // The very arrays: a patch of values must not cost a walk over the edges.
    expect(after.consumers(5).buffer).toBe(before.consumers(5).buffer);
  });

  test('a column is laid into that of before, or into its twin', () => {
    const before = network().graph();
    const part = encodeColumn('true_edge_norm', [7, 8, 9]);
    const laid = (more: Partial<IPatchColumn>): Graph =>
      before.applyPatch(
        { overrides: [clip(5)] },
        [{ ...part.column, ...more }],
        [part.buffer]
      );
    const count = before.edgeCount;
    const after = laid({
      base: 'edge_norm',
      parts: [
        [0, 2],
        [count - 1, count]
      ]
    });
    const norms = Array.from({ length: count }, (_, e) => before.edgeNorm(e));
    const expected = [7, 8, ...norms.slice(2, count - 1), 9];
    const shown = after.withoutOverrides();
    expect(expected.map((_, e) => shown.edgeNorm(e))).toEqual(expected);
    expect(expected.map((_, e) => after.edgeNorm(e))).toEqual(norms);
  });

  test('parts that do not fit are refused', () => {
    const before = network().graph();
    const part = encodeColumn('edge_norm', [7, 8]);
    const lay = (more: Partial<IPatchColumn>) => (): Graph =>
      before.applyPatch({}, [{ ...part.column, ...more }], [part.buffer]);
    const refused: [Partial<IPatchColumn>, string][] = [
      [{ base: 'edge_norm', parts: [[0, 1]] }, 'are 1 entries; 2 came'],
      [{ base: 'edge_norm', parts: [[0, 3]] }, 'are 3 entries; 2 came'],
      [{ base: 'edge_norm' }, 'are 0 entries; 2 came'],
      [{ base: 'edge_norm', parts: [[-1, 1]] }, 'no part from -1'],
      [{ base: 'edge_norm', parts: [[1, 1]] }, 'no part from 1 to before 1'],
      [
        {
          base: 'edge_norm',
          parts: [
            [1, 2],
            [0, 1]
          ]
        },
        'no part from 0 to before 1 after entry 2'
      ],
      [{ base: 'edge_norm', parts: [[0, 1e9]] }, 'no part from 0 to before 1000000000'],
      [{ base: 'grad_stats', parts: [[0, 2]] }, 'the column edge_norm has'],
      [{ base: 'kind', parts: [[0, 2]] }, 'no such column is there'],
      [{ base: 'true_stats', parts: [[0, 2]] }, 'no such column is there'],
      [{ parts: [[0, 2]] }, 'no such column is there']
    ];
    for (const [more, why] of refused) {
      expect(lay(more), JSON.stringify(more)).toThrow(why);
    }
  });

  test('overrides come with their columns and go', () => {
    const program = network();
    program.overrides = [clip(5)];
    program.overridden.set(5, 0);
    const before = program.graph();
    expect(before.override(5)?.label).toBe('clip ±0.1');
    expect(before.trueStatistics(5)?.norm).toBe(0.31);
    const none = encodeColumn(
      'override',
      Array.from({ length: 14 }, () => -1)
    );
    const after = before.applyPatch({ overrides: [] }, [none.column], [none.buffer]);
    expect(after.override(5)).toBeNull();
    expect(after.trueStatistics(5)).toBeNull();
  });

  test('overrides cannot go while nodes still point at them', () => {
    const program = network();
    program.overrides = [clip(5)];
    program.overridden.set(5, 0);
    expect(() => program.graph().applyPatch({ overrides: [] }, [], [])).toThrow(
      'override[5] is 0'
    );
  });

  test('a header alone cannot make the graph larger', () => {
    expect(() => network().graph().applyPatch({ nodes: 20 }, [], [])).toThrow(
      'the column kind has 14 entries; a graph of 20 nodes'
    );
  });

  test('another graph with equal columns has the same structure', () => {
    expect(network().graph().sameStructure(network().graph())).toBe(true);
    expect(network().graph().sameStructure(deep(60).graph())).toBe(false);
  });
});

test('an empty graph, of a cell that failed at once', () => {
  const program = new Program();
  program.error = { node: null, message: 'NameError' };
  const graph: Graph = program.graph();
  expect(graph.count).toBe(0);
  expect(graph.header.output).toBe(-1);
});
