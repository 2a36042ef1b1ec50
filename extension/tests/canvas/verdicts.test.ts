/** What the picture, its list and its notes say of checks and findings. */

import { describe, expect, test } from 'vitest';

import { isShown, marksOn } from '../../src/canvas/badges';
import { detailAt } from '../../src/canvas/frame';
import { looksOf } from '../../src/canvas/looks';
import { Scene } from '../../src/canvas/scene';
import { describeItem } from '../../src/canvas/tooltip';
import { itemsOf, pillsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import type { Graph } from '../../src/model/graph';
import { isAlarming, verdictsOf } from '../../src/model/verdicts';
import { nodeSentence, summaryOf } from '../../src/ui/words';
import { checkedNetwork, finding, nodeCheck } from '../helpers/checked';
import {
  H,
  type INetwork,
  PRODUCT,
  SCALED,
  W,
  clipOfH,
  network
} from '../helpers/network';
import { readGraph } from '../helpers/programs';

const graphOf = ({ header, buffers }: INetwork): Graph =>
  readGraph(header, buffers);

function sceneOf(graph: Graph, folded: ReadonlySet<string> = new Set()): Scene {
  const items = itemsOf(graph, folded);
  return new Scene(graph, items, layOut(items.input));
}

describe('the summary of the bar', () => {
  const changed = { change: 1, by: ['stop'], words: 'stop changes W' };

  test('says how many gradients are changed on purpose, after what is wrong', () => {
    expect(summaryOf(graphOf(checkedNetwork([])))).toBeNull();
    const known = [nodeCheck(SCALED, 'overridden')];
    expect(summaryOf(graphOf(checkedNetwork(known, { changed })))).toEqual({
      text: '1 gradient changed',
      count: '1',
      severity: 'changed',
      stale: false
    });
    const both = { changed, findings: [finding()] };
    expect(summaryOf(graphOf(checkedNetwork(known, both)))).toEqual({
      text: '1 gradient changed · 1 finding',
      count: '2',
      severity: 'error',
      stale: false
    });
    // What was changed before the last change tells nothing of what is now.
    const old = checkedNetwork(known, { ...both, stale: true });
    expect(summaryOf(graphOf(old))).toMatchObject({ text: '1 finding', stale: true });
    const undone = checkedNetwork(known, { changed, stale: true });
    expect(summaryOf(graphOf(undone))).toBeNull();
    expect(marksOn(verdictsOf(graphOf(undone)).get(SCALED)!)).toEqual([]);
    // A gradient that is wrong is that, whatever else is said of it.
    const wrong = checkedNetwork([nodeCheck(H, 'wrong')], { changed });
    expect(summaryOf(graphOf(wrong))?.text).toBe('1 wrong rule');
  });
});

describe('verdicts', () => {
  test('a graph without checks and findings has none', () => {
    expect(verdictsOf(graphOf(network())).size).toBe(0);
  });

  test('a wrong rule is marked with its error, and seen from afar', () => {
    const graph = graphOf(checkedNetwork([nodeCheck(H, 'wrong')]));
    const scene = sceneOf(graph);
    const { verdicts } = looksOf(graph, scene.items, scene.layout, 'gradient');
    expect([...verdicts.keys()]).toEqual([scene.items.itemOf[H]]);
    const verdict = verdicts.get(scene.items.itemOf[H])!;
    expect(isAlarming(verdict)).toBe(true);
    expect(marksOn(verdict)).toEqual([
      { look: 'wrong', sign: '✗', words: '1e3×', stale: false }
    ]);
  });

  test('a folded scope shows what is wrong inside it', () => {
    const graph = graphOf(
      checkedNetwork([nodeCheck(H, 'wrong'), nodeCheck(PRODUCT, 'wrong', { ratio: 9 })])
    );
    const scene = sceneOf(graph, new Set(['layer']));
    const { verdicts } = looksOf(graph, scene.items, scene.layout, 'gradient');
    const item = scene.items.itemOf[H];
    expect(marksOn(verdicts.get(item)!)[0].words).toBe('2 wrong');
    expect(verdicts.get(item)!.ratio).toBe(1234);
    expect(describeItem(scene, item)).toContain(
      'wrong gradient rule at 2 nodes, 1200 times the allowed error'
    );
  });

  test('kinks and overridden rules are marked, but alarm nobody', () => {
    const graph = graphOf(
      checkedNetwork([nodeCheck(H, 'kink'), nodeCheck(SCALED, 'overridden')])
    );
    const verdicts = verdictsOf(graph);
    expect([...verdicts.values()].some(isAlarming)).toBe(false);
    expect(marksOn(verdicts.get(H)!)[0]).toMatchObject({ look: 'quiet', sign: '∧' });
    expect(marksOn(verdicts.get(SCALED)!)[0]).toMatchObject({
      look: 'changed',
      words: 'changed'
    });
    expect(nodeSentence(graph, SCALED)).toContain('rule changed on purpose');
    // Drawn wherever a card can be read, and from afar what is wrong alone.
    const shown = [2, 1, 0.62, 0.4, 0.2].map(scale => {
      return isShown(verdicts.get(SCALED)!, detailAt(scale));
    });
    expect(shown).toEqual([true, true, true, true, false]);
    const wrong = verdictsOf(graphOf(checkedNetwork([nodeCheck(H, 'wrong')])));
    expect(isShown(wrong.get(H)!, detailAt(0.2))).toBe(true);
  });

  test('findings: the gravest is named, the others are counted', () => {
    const graph = graphOf(
      checkedNetwork([nodeCheck(H, 'wrong')], {
        findings: [
          finding({ severity: 'note', kind: 'dead-relu' }),
          finding({ severity: 'error', kind: 'infinite-slope' })
        ],
        stale: true
      })
    );
    const [wrong, found] = marksOn(verdictsOf(graph).get(H)!);
    expect(wrong.stale).toBe(true);
    expect(found).toEqual({
      look: 'error',
      sign: '!',
      words: 'infinite slope +1',
      stale: true
    });
  });

  test('the list for screen readers says it too', () => {
    const graph = graphOf(
      checkedNetwork([nodeCheck(H, 'wrong')], { findings: [finding()] })
    );
    expect(nodeSentence(graph, H)).toContain(
      'wrong gradient rule, 1200 times the allowed error, ' +
        'error: tanh has an infinite slope at 0'
    );
    expect(nodeSentence(graph, W)).not.toContain('rule');
  });
});

test('a node within a match says so, and does not repeat the rule', () => {
  const override = clipOfH({ covered: [PRODUCT] });
  const { header, buffers } = network([override]);
  const at = header.columns.findIndex(({ name }) => name === 'override');
  buffers[at].setInt32(4 * PRODUCT, 0, true);
  const graph = graphOf({ header, buffers });
  expect(graph.isCovered(PRODUCT)).toBe(true);
  expect(graph.isCovered(H)).toBe(false);
  expect(pillsOf(graph).get(PRODUCT)).toEqual({ label: 'within', on: true });
  expect(pillsOf(graph).get(H)).toEqual({ label: 'clip ±0.1', on: true });
  expect(nodeSentence(graph, PRODUCT)).toContain('within the override clip ±0.1');
});
