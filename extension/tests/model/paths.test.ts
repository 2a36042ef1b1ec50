import { describe, expect, it } from 'vitest';

import { nodesBetween, pairOf, nodesReadBy, nodesReachedFrom } from '../../src/model/paths';
import { deep, tangle } from '../helpers/programs';

/** The nodes that are marked. */
const on = (marks: Uint8Array | null): number[] =>
  [...(marks ?? [])].flatMap((is, node) => (is === 1 ? [node] : []));

describe('ways through a graph', () => {
  it('lead to all that reads a node, and from all that it reads', () => {
    for (const seed of [31, 32, 33]) {
      const graph = tangle(50, seed).graph();
      const reaches = (from: number, to: number): boolean =>
        from === to ||
        Array.from(graph.consumers(from)).some(next => reaches(next, to));
      const all = Array.from({ length: graph.count }, (_, node) => node);
      for (const node of [0, 9, 25, graph.count - 1]) {
        const label = `seed ${seed}, node ${node}`;
        expect(on(nodesReachedFrom(graph, node)), label).toEqual(
          all.filter(other => reaches(node, other))
        );
        expect(on(nodesReadBy(graph, node)), label).toEqual(
          all.filter(other => reaches(other, node))
        );
      }
    }
  });

  it('G2: a pair is the later node by the earlier one, and what lies between', () => {
    const graph = tangle(40, 5).graph();
    const output = graph.count - 1;
    const from = graph.inputs(output)[0];
    const pair = pairOf(graph, output, from);
    expect(pair).toEqual(pairOf(graph, from, output));
    expect([pair.of, pair.wrt]).toEqual([output, from]);
    expect(on(pair.way)).toEqual(on(nodesBetween(graph, from, output)));
    expect(on(pair.way)).toContain(from);
  });

  it('there is none between what does not depend on each other', () => {
    const graph = tangle(40, 5).graph();
    const inputs = Array.from({ length: graph.count }, (_, node) => node).filter(
      node => graph.kind(node) !== 'op'
    );
    expect(pairOf(graph, inputs[0], inputs[1]).way).toBeNull();
  });

  it('of a hundred thousand nodes are found at once, without recursion', () => {
    const graph = deep(100_000).graph();
    const { way } = pairOf(graph, 0, graph.count - 1);
    expect(way?.[0]).toBe(1);
  });
});
