import { describe, expect, test } from 'vitest';

import { contrast } from '../../src/canvas/theme';
import { detailAt, fadedOn, recededOn } from '../../src/canvas/frame';
import { looksOf } from '../../src/canvas/looks';
import { marksOf } from '../../src/canvas/marks';
import { Motion, blendLooks } from '../../src/canvas/motion';
import { levelOf, scaleOf } from '../../src/canvas/scale';
import { Scene } from '../../src/canvas/scene';
import { fittingSize } from '../../src/canvas/text';
import { describeItem } from '../../src/canvas/tooltip';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import { Graph } from '../../src/model/graph';
import { nodesBetween } from '../../src/model/paths';
import { GraphState } from '../../src/model/state';
import { shortNumber, shortPair, shortPercent } from '../../src/ui/numbers';
import { H } from '../helpers/network';
import { Program, clip, deep, network, random, tangle } from '../helpers/programs';
import { savedWithRuns } from '../helpers/runs';

function sceneOf(graph: Graph, folded: ReadonlySet<string> = new Set()): Scene {
  const items = itemsOf(graph, folded);
  return new Scene(graph, items, layOut(items.input));
}

function stateOf(graph: Graph): GraphState {
  const state = new GraphState();
  state.setGraph(graph);
  return state;
}

describe('numbers on tiles', () => {
  test.each([
    [0, '0'],
    [1, '1.0'],
    [0.31, '0.31'],
    [0.04, '4e-2'],
    [0.003, '3e-3'],
    [0.0996, '0.10'],
    [0.999, '1.0'],
    [9.96, '10'],
    [42.4, '42'],
    [999.7, '1e3'],
    [3.2e5, '3e5'],
    [1e-300, '1e-300'],
    [-2.5, '−2.5'],
    [NaN, 'NaN'],
    [Infinity, 'inf']
  ])('%d reads %s', (value, text) => {
    expect(shortNumber(value)).toBe(text);
  });

  test.each([
    [0.0097, 0.0123, '0.0097 → 0.012'],
    [1.02, 1.04, '1.02 → 1.04'],
    [3.14e-9, 3.12e-9, '3.14e−9 → 3.12e−9'],
    [0.3, 4, '0.30 → 4.0'],
    [0.3, 0.3, '0.30 → 0.30'],
    [NaN, NaN, 'NaN → NaN']
  ])('%d and %d differ as they read: %s', (before, after, text) => {
    expect(shortPair(before, after).join(' → ')).toBe(text);
  });

  test.each([
    [0, '0'],
    [0.001, '<1%'],
    [0.123, '12%'],
    [3.4, '340%'],
    [25, '25×'],
    [Infinity, 'inf']
  ])('a change of %d reads %s', (value, text) => {
    expect(shortPercent(value)).toBe(text);
  });

  test('a scale of norms is logarithmic and ignores what is not finite', () => {
    const norms = [1e-2, 1, 0, NaN, Infinity, 1e-6];
    const scale = scaleOf(norms.length, i => norms[i]);
    expect(scale).toEqual({ low: -6, high: 0 });
    expect(levelOf(scale, 1e-3)).toBeCloseTo(0.5);
    expect(levelOf(scale, 0)).toBeNaN();
    expect(levelOf(scale, NaN)).toBeNaN();
    expect(levelOf(scale, 1e9)).toBe(1);
    expect(levelOf(scale, Infinity)).toBe(1);
  });

  test('equal norms are in the middle, not at an end', () => {
    const scale = scaleOf(5, () => 3);
    expect(levelOf(scale, 3)).toBeCloseTo(0.5);
  });
});

describe('looks', () => {
  test('a fold tells the largest change of what is in it', () => {
    const program = new Program();
    let h = program.input('x');
    for (const change of [0.02, 0.5, 0]) {
      h = program.op('sin', [h], { scope: 'block' });
      program.changes.set(h, change);
    }
    program.op('sum', [h]);
    const graph = program.graph();
    const items = itemsOf(graph, new Set(['block']));
    const layout = layOut(items.input);
    const item = items.itemOf[1];
    const looks = looksOf(graph, items, layout, 'change');
    expect(looks.text[item]).toBe('50%');
    expect(looks.tile[item]).toBeCloseTo(0.5);
    expect(describeItem(new Scene(graph, items, layout), item)).toContainEqual(
      expect.stringMatching(/^a gradient in it changed by 50\s%$/)
    );
  });

  test('moods, numbers, pills and marks of change', () => {
    const program = network();
    program.nodes[2].gradient = 0;
    program.nodes[4].gradient = Infinity;
    program.overrides = [clip(5), { ...clip(10), id: 2, enabled: false }];
    program.overridden.set(5, 0);
    program.changes.set(1, 0.12);
    const scene = sceneOf(program.graph());
    const { graph, items, layout } = scene;
    const looks = looksOf(graph, items, layout, 'gradient');
    expect(looks.mood.slice(0, 6)).toEqual([
      'none',
      'plain',
      'zero',
      'plain',
      'bad',
      'plain'
    ]);
    expect(looks.text[5]).toBe('0.31');
    expect(looks.pill[5]).toEqual({ label: 'clip ±0.1', on: true });
    expect(looks.pill[10]).toEqual({ label: 'clip ±0.1', on: false });
    expect(Array.from(looks.changed.slice(0, 3))).toEqual([0, 1, 0]);
    expect(looks.tile[5]).toBeGreaterThan(looks.tile[1]);
    expect(looksOf(graph, items, layout, 'change').text[1]).toBe('12%');
    // What the settings have tiles say; infinity is said in any case.
    const told = looksOf(graph, items, layout, 'gradient', 'none').text;
    expect([told[5], told[4]]).toEqual(['', 'inf']);
    expect(looksOf(graph, items, layout, 'gradient', 'mean').tileText).toBe('mean');
    expect(looks.card[5]).toBeNaN();
    expect(looksOf(graph, items, layout, 'value').card[5]).toBeCloseTo(0.5);
  });

  test('a tile of a past run says its norm where no more is kept', () => {
    const saved = Graph.fromSaved(savedWithRuns());
    const { header, columns, buffers } = saved.moments!.find(1);
    const past = saved.applyPatch(header, columns, buffers);
    const { graph, items, layout } = sceneOf(past);
    const norms = looksOf(graph, items, layout, 'gradient').text;
    expect(norms[H]).toBe(shortNumber(100 + H));
    for (const text of ['largest', 'mean'] as const) {
      expect(looksOf(graph, items, layout, 'gradient', text).text).toEqual(norms);
    }
  });

  test('a trunk is as warm as the warmest of its branches', () => {
    const program = new Program();
    const x = program.input('x', { gradient: 1 });
    let value = program.op('sin', [x], { gradient: 1e-4 });
    for (let i = 0; i < 3; i++) {
      value = program.op('sin', [value], { gradient: 1e-4 });
    }
    program.op('add', [value, x], { gradient: 1e-4 });
    const { graph, items, layout } = sceneOf(program.graph());
    const looks = looksOf(graph, items, layout, 'gradient');
    expect(looks.bend.length).toBeGreaterThan(0);
    for (const level of looks.bend) {
      expect(level).toBe(1);
    }
  });

  test('looks go from old to new and end there', () => {
    const scene = sceneOf(network().graph());
    const of = (graph: Graph): ReturnType<typeof looksOf> =>
      looksOf(graph, scene.items, scene.layout, 'gradient');
    const cooler = network();
    cooler.nodes[5].gradient = 0.003;
    const [from, to] = [of(network().graph()), of(cooler.graph())];
    const half = blendLooks(from, to, 0.5);
    expect(half.tile[5]).toBeCloseTo((from.tile[5] + to.tile[5]) / 2);
    expect(half.text[5]).toBe('3e-3');
    expect(blendLooks(from, to, 1)).toBe(to);
    const motion = new Motion();
    motion.begin(1000);
    expect(motion.running(1100)).toBe(true);
    expect(motion.at(1300)).toBe(1);
    expect(motion.running(1300)).toBe(false);
  });

  test('there is text only where it can be read', () => {
    expect(detailAt(0.1)).toEqual({
      curves: false,
      name: false,
      label: false,
      text: false,
      numbers: false
    });
    // The network of the first tutorial, all of it on a page of 1280.
    expect(detailAt(0.28)).toMatchObject({ name: true, label: false, text: false });
    expect(detailAt(0.4)).toMatchObject({ name: true, label: true, text: false });
    expect(detailAt(1)).toMatchObject({ name: false, label: false, text: true, numbers: false });
    expect(detailAt(2)).toMatchObject({ text: true, numbers: true });
  });
});

test('what recedes is still to be seen on dark ground', () => {
  // A border of a quarter of the ink, as the theme has it, on ground of 17 of 255.
  const seen = (part: number): number => 17 + part * 0.26 * 238;
  for (const part of [recededOn({ dark: true }), fadedOn({ dark: true })]) {
    const [lighter, ground] = [seen(part), 17].map(grey =>
      contrast([grey, grey, grey], [0, 0, 0])
    );
    expect(lighter / ground).toBeGreaterThan(1.15);
  }
  expect(fadedOn({ dark: true })).toBeLessThan(recededOn({ dark: true }));
});

describe('the scene', () => {
  test.each([11, 12, 13, 14])(
    'what is seen is found without looking at all (%i)',
    seed => {
      const next = random(seed);
      const scene = sceneOf(tangle(120, seed).graph());
      const { bounds, items } = scene;
      for (let i = 0; i < 40; i++) {
        const left = bounds.left + next() * (bounds.right - bounds.left);
        const top = bounds.top + next() * (bounds.bottom - bounds.top);
        const seen = {
          left,
          top,
          right: left + next() * 900,
          bottom: top + next() * 500
        };
        const found = new Set<number>();
        scene.eachItem(seen, item => found.add(item));
        for (let item = 0; item < items.count; item++) {
          const card = scene.card(item);
          const inside =
            card.x <= seen.right &&
            card.x + card.width >= seen.left &&
            card.y <= seen.bottom &&
            card.y + card.height >= seen.top;
          expect(found.has(item) || !inside, `item ${item}`).toBe(true);
        }
      }
    }
  );

  test('a point finds its card, its tile, and nothing between', () => {
    const scene = sceneOf(network().graph());
    const card = scene.card(5);
    expect(scene.hit(card.x + 5, card.y + 5, true)).toEqual({ kind: 'item', item: 5 });
    const tile = scene.tile(5);
    expect(scene.hit(tile.x + 5, tile.y + 5, true)).toEqual({ kind: 'item', item: 5 });
    expect(scene.hit(card.x + 5, card.y - 5, true)).toBeNull();
  });

  test('the name of an unfolded scope is found, from where it can be read', () => {
    const scene = sceneOf(deep(60).graph());
    const outline = scene.outlines.find(
      ({ group }) => scene.items.groups[group] === 'stage0/block1'
    )!;
    const { x, y } = outline.label;
    const hit = scene.hit(x + 3, y + 3, true);
    expect(hit).toEqual({ kind: 'group', group: outline.group });
    expect(scene.hit(x + 3, y + 3, false)).toBeNull();
    // Names of nested scopes that begin in one row do not lie on each other.
    for (const a of scene.outlines) {
      for (const b of scene.outlines) {
        const apart =
          a === b ||
          a.label.x >= b.label.x + b.label.width ||
          b.label.x >= a.label.x + a.label.width ||
          a.label.y !== b.label.y;
        expect(apart).toBe(true);
      }
    }
  });

  test('unfolding begins where the folded card was', () => {
    const graph = deep(60).graph();
    const folded = sceneOf(graph, new Set(['stage0/block1']));
    const open = sceneOf(graph);
    open.moveFrom(folded, open.graph.counterparts(folded.graph)!);
    const inside = graph.count - 8;
    const card = folded.items.itemOf[inside];
    open.moving = 1;
    expect(open.x(inside)).toBeCloseTo(folded.x(card), 3);
    expect(open.top(inside)).toBeCloseTo(folded.top(card), 3);
    open.moving = 0;
    expect(open.x(inside)).toBe(open.layout.x[inside]);
  });
});

describe('marks', () => {
  test('the way to the output is all ways, and nothing beside them', () => {
    for (const seed of [21, 22, 23]) {
      const graph = tangle(60, seed).graph();
      const reaches = (from: number, to: number): boolean =>
        from === to ||
        Array.from(graph.consumers(from)).some(next => reaches(next, to));
      const output = graph.count - 1;
      for (const from of [0, 7, 30, output]) {
        const on = nodesBetween(graph, from, output);
        for (let node = 0; node < graph.count; node++) {
          const expected = reaches(from, node) && reaches(node, output);
          expect(on[node], `seed ${seed}, ${from} by ${node}`).toBe(expected ? 1 : 0);
        }
      }
    }
  });

  test('G2: a pair lights the way between its nodes, and nothing beside it', () => {
    const scene = sceneOf(network().graph());
    const state = stateOf(scene.graph);
    const { itemOf } = scene.items;
    const last = scene.graph.count - 1;
    const first = scene.graph.inputs(scene.graph.inputs(last)[0])[0];
    state.select(first);
    expect(marksOf(state, scene).trail).toBeNull();
    state.selectAlso(last);
    const marks = marksOf(state, scene);
    expect([marks.marked, marks.selected]).toEqual([itemOf[first], itemOf[last]]);
    const way = nodesBetween(scene.graph, first, last);
    expect(Array.from(marks.trail ?? [])).toEqual(
      Array.from(scene.items.node, node => way[node])
    );
    const { sources, targets } = scene.items.input;
    marks.pathEdges?.forEach((on, edge) => {
      const [above, below] = [sources[edge], targets[edge]];
      const both = way[scene.items.node[above]] & way[scene.items.node[below]];
      expect(on, `edge ${edge}`).toBe(both);
    });
    state.selectAlone(null);
    expect(marksOf(state, scene).pathEdges).toBeNull();
  });

  test('selection, search, step, saved values, the failing node', () => {
    const program = network();
    program.error = { node: 12, message: 'shapes do not match' };
    const scene = sceneOf(program.graph());
    const state = stateOf(scene.graph);
    state.select(7);
    state.search('matmul');
    const marks = marksOf(state, scene);
    expect(marks.selected).toBe(7);
    expect(marks.failed).toBe(12);
    expect(Array.from(marks.matches ?? []).flatMap((on, i) => (on ? [i] : []))).toEqual(
      [2, 7]
    );
    expect(marks.saved).toEqual([
      { from: 5, to: 7 },
      { from: 6, to: 7 }
    ]);
    expect(marks.pathEdges?.reduce((a, b) => a + b)).toBe(4);
    state.setStep(3);
    const stepped = marksOf(state, scene);
    expect(stepped.current).toEqual({ item: 5, sweep: 'forward' });
    expect(stepped.valueDone?.[4]).toBe(1);
    expect(stepped.valueDone?.[7]).toBe(0);
    expect(stepped.gradientDone?.some(done => done === 1)).toBe(false);
  });
});

test('the note on a node is plain text, markup and all', () => {
  const program = network();
  program.nodes[5].name = '<img src=x onerror=alert(1)>';
  program.changes.set(5, 0.12);
  const scene = sceneOf(program.graph());
  expect(describeItem(scene, 5)).toEqual([
    '<img src=x onerror=alert(1)> · tanh',
    '569×16 · float64',
    '[3]:1  h = np.tanh(X @ W1 + b1)',
    'gradient ‖·‖ 0.31',
    expect.stringMatching(/^changed by 12\s%$/)
  ]);
});

test('a name that is a little too long is written smaller, and no smaller', () => {
  expect(fittingSize(128, 13, 100)).toBe(13);
  expect(fittingSize(128, 13, 140)).toBe(11.5);
  expect(fittingSize(128, 13, 400)).toBe(10);
});
