import { describe, expect, it } from 'vitest';

import { looksOf } from '../../src/canvas/looks';
import { Scene } from '../../src/canvas/scene';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import {
  changeOf,
  levelOfChange,
  limitOf,
  rankChanges,
  sizeOf
} from '../../src/model/comparison';
import type { Graph, ICompared } from '../../src/model/graph';
import { comparedLines, nodeSentence, sidesOf } from '../../src/ui/words';
import { Program } from '../helpers/programs';

/** x, then four ops; each with a gradient of this norm, NaN for none. */
function chain(norms: readonly number[]): Graph {
  const program = new Program();
  let last = program.input('x', { gradient: norms[0] });
  norms.slice(1).forEach((gradient, i) => {
    last = program.op(`op${i + 1}`, [last], { gradient });
  });
  return program.graph();
}

function compare(
  before: Graph,
  after: Graph,
  how: Partial<Pick<ICompared, 'view' | 'measure'>> = {}
): Graph {
  return after.compareWith({
    other: before,
    otherFirst: true,
    label: 'now',
    otherLabel: 'run 1',
    view: 'colours',
    measure: 'ratio',
    ...how
  });
}

const before = chain([1, 2, 0, NaN, 4]);
const after = chain([4, 2, 1, 3, NaN]);

describe('two states of a graph', () => {
  it('tells of each node what became of it', () => {
    const graph = compare(before, after);
    const fates = [0, 1, 2, 3, 4].map(node => changeOf(graph, node, 'gradient')?.fate);
    expect(fates).toEqual(['changed', 'same', 'changed', 'came', 'went']);
    expect(changeOf(graph, 0, 'gradient')).toEqual({
      fate: 'changed',
      before: 1,
      after: 4
    });
    expect(changeOf(after, 0, 'gradient')).toBeNull();
  });

  it('has a scale that reaches as far both ways, with no change in its middle', () => {
    const graph = compare(chain([1, 8, 2]), chain([8, 1, 2]));
    const limit = limitOf(graph, 'gradient');
    expect(limit).toBe(3);
    const levels = [0, 1, 2].map(node =>
      levelOfChange(changeOf(graph, node, 'gradient')!, 'ratio', limit)
    );
    expect(levels).toEqual([1, 0, 0.5]);
    const other = compare(chain([1, 8, 2]), chain([5, 1, 2]), { measure: 'difference' });
    expect(limitOf(other, 'gradient')).toBe(7);
    expect(sizeOf(changeOf(other, 0, 'gradient')!, 'difference')).toBe(4);
  });

  it('ranks what came, went or grew from zero before all ratios', () => {
    const graph = compare(before, after);
    expect(rankChanges(graph)).toEqual([2, 3, 4, 0]);
    expect(rankChanges(compare(before, before))).toEqual([]);
  });

  it('ranks a NaN or an infinity that both sides have as no change', () => {
    const infinite = chain([1, Infinity, 2]);
    const same = compare(infinite, infinite);
    expect(changeOf(same, 1, 'gradient')?.fate).toBe('bad');
    expect(rankChanges(same)).toEqual([]);
    expect(rankChanges(compare(chain([1, 3, 2]), infinite))).toEqual([1]);
  });

  it('is told from either side in the same order', () => {
    const right = compare(before, after, { view: 'beside' });
    const left = before.compareWith({
      ...right.compared!,
      other: after,
      otherFirst: false,
      label: 'run 1',
      otherLabel: 'now'
    });
    for (const graph of [left, right]) {
      expect(sidesOf(graph)).toEqual({ before: 'run 1', after: 'now' });
      expect(changeOf(graph, 0, 'gradient')).toMatchObject({ before: 1, after: 4 });
      expect(comparedLines(graph, 0)[0]).toBe('gradient norm 1 in run 1, 4 now: × 4');
      expect(comparedLines(graph, 3)[0]).toBe('gradient norm 3 now, none in run 1');
    }
  });

  it('has both numbers in the tree and on the tiles', () => {
    const graph = compare(before, after);
    expect(nodeSentence(graph, 0)).toContain('gradient norm 1 in run 1, 4 now: × 4');
    const items = itemsOf(graph, new Set());
    const scene = new Scene(graph, items, layOut(items.input));
    const looks = looksOf(graph, items, scene.layout, 'gradient');
    expect(looks.diverging).toBe(true);
    const item = items.itemOf[0];
    expect([looks.above[item], looks.text[item]]).toEqual(['1.0', '4.0']);
    expect(looks.mood[items.itemOf[3]]).toBe('came');
    expect(looks.mood[items.itemOf[4]]).toBe('went');
  });

  it('is laid out alike on both sides, with room for what each has', () => {
    const right = compare(before, after, { view: 'beside' });
    const left = before.compareWith({ ...right.compared!, other: after });
    const inputs = [left, right].map(graph => itemsOf(graph, new Set()).input);
    expect(inputs[0].right).toEqual(inputs[1].right);
    // A tile for each gradient that one of the two has.
    expect(new Set(inputs[0].right).size).toBe(1);
  });
});
