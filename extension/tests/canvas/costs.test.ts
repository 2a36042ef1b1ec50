/** What the picture, its notes and words say of what nodes cost. */

import { describe, expect, test } from 'vitest';

import { costScale, looksOf } from '../../src/canvas/looks';
import { Scene } from '../../src/canvas/scene';
import { describeItem } from '../../src/canvas/tooltip';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import type { Graph } from '../../src/model/graph';
import { shortScaled } from '../../src/ui/numbers';
import { costLines, nodeSentence } from '../../src/ui/words';
import { PROFILE, measuredNetwork } from '../helpers/measured';
import { H, LOSS, PRODUCT, SCALED, W, network } from '../helpers/network';
import { readGraph } from '../helpers/programs';

const graphOf = (...changes: Parameters<typeof measuredNetwork>): Graph => {
  const { header, buffers } = measuredNetwork(...changes);
  return readGraph(header, buffers);
};

function sceneOf(graph: Graph, folded: ReadonlySet<string> = new Set()): Scene {
  const items = itemsOf(graph, folded);
  return new Scene(graph, items, layOut(items.input));
}

const KERNEL = 'in kernel 2 with 5 other ops';

describe('costs', () => {
  test('a node has them after a profile', () => {
    const { header, buffers } = network();
    const before = readGraph(header, buffers);
    expect([before.valueCost(H), before.ruleCost(H)]).toEqual([null, null]);
    const graph = graphOf();
    expect(graph.valueCost(H)).toEqual({
      time: 1.2e-5,
      bytes: 12_000,
      share: 0.12,
      step: PROFILE.steps[0]
    });
    expect(graph.valueCost(PRODUCT)?.step).toBeNull();
    expect([graph.valueCost(W), graph.ruleCost(SCALED)]).toEqual([null, null]);
  });

  test('are words in a note, in the inspector and for screen readers', () => {
    const graph = graphOf();
    const lines = [
      `value: 12 µs · 12\u00a0% · 12 kB · ${KERNEL}`,
      `rule: 6 µs · 6\u00a0% · 6 kB · ${KERNEL}`
    ];
    expect(costLines(graph, H)).toEqual(lines);
    expect(costLines(graph, W)).toEqual([]);
    expect(costLines(graph, PRODUCT)[1]).toBe('rule: 60 µs · 60\u00a0% · 60 kB');
    const scene = sceneOf(graph);
    expect(describeItem(scene, scene.items.itemOf[H])).toEqual(
      expect.arrayContaining(lines)
    );
    expect(nodeSentence(graph, H)).toContain(lines.join(', '));
    expect(costLines(graphOf({ stale: true }), LOSS)).toEqual([
      `value: 1 µs · 1\u00a0% · 1 kB · ${KERNEL} (before the last change)`
    ]);
  });

  test('colour cards by values and tiles by rules, on one scale', () => {
    const graph = graphOf();
    const { items, layout } = sceneOf(graph);
    for (const what of ['time', 'bytes'] as const) {
      const looks = looksOf(graph, items, layout, what);
      const at = (node: number): number => items.itemOf[node];
      expect(looks.tile[at(PRODUCT)]).toBeGreaterThan(looks.card[at(PRODUCT)]);
      expect(looks.card[at(LOSS)]).toBe(looks.card[at(SCALED)]);
      expect(looks.card[at(PRODUCT)]).toBeGreaterThan(looks.card[at(H)]);
      expect(looks.card[at(W)]).toBeNaN();
      expect(looks.text[at(PRODUCT)]).toBe(what === 'time' ? '60µ' : '60k');
      // It has a gradient, but no rule that was measured.
      expect([looks.mood[at(W)], looks.text[at(W)]]).toEqual(['zero', '']);
    }
    const { low, high } = costScale(graph, 'time');
    expect([10 ** low, 10 ** high].map(x => +x.toPrecision(6))).toEqual([
      +(Math.sqrt(1e-6 * 6e-5) / 10).toPrecision(6),
      +(Math.sqrt(1e-6 * 6e-5) * 10).toPrecision(6)
    ]);
  });

  test.each([
    [1.26e-6, '1.3µ'],
    [6.7e-4, '670µ'],
    [9.99e-4, '999µ'],
    [9.999e-4, '1m'],
    [0.04, '40m'],
    [3e-11, '0n'],
    [1.5, '1.5'],
    [100_000, '100k'],
    [7_630_000, '7.6M'],
    [0, '0']
  ])('%d is written short as %s', (value, text) => {
    expect(shortScaled(value)).toBe(text);
  });

  test('of a folded scope are those of its nodes together', () => {
    const graph = graphOf();
    const { items, layout } = sceneOf(graph, new Set(['layer']));
    const looks = looksOf(graph, items, layout, 'time');
    const item = items.itemOf[H];
    expect(items.itemOf[PRODUCT]).toBe(item);
    expect(looks.text[item]).toBe('66µ');
    expect(describeItem(sceneOf(graph, new Set(['layer'])), item).join()).not.toContain(
      'kernel'
    );
  });

  test('go with the profile that they are of', () => {
    const after = graphOf().applyPatch({ profile: null }, [], []);
    expect(after.valueCost(H)).toBeNull();
    // A patch of a profile alone: the steps that the columns name must be there.
    expect(() =>
      graphOf().applyPatch({ profile: { ...PROFILE, steps: [] } }, [], [])
    ).toThrow('value_step');
  });
});
