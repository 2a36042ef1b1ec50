import { describe, expect, test } from 'vitest';

import { scaleOf } from '../../src/canvas/scale';
import { sparklineOf, sparklinesOf } from '../../src/canvas/sparkline';
import { foldLabel, itemsOf } from '../../src/layout/items';
import { spreadNorms } from '../../src/model/folds';
import type { Graph } from '../../src/model/graph';
import { GraphState } from '../../src/model/state';
import { alongLoopText, nodeSentence, stepText } from '../../src/ui/words';
import { Program } from '../helpers/programs';

const PATH = 'loop, lines 2–3, 50 steps';

/** A loop, as the kernel has found it; its gradients grow by half in each step. */
function loop(times: number, scope = ''): Program {
  const program = new Program();
  const w = program.input('W');
  program.wrt = [w];
  let h = program.input('h', { gradient: NaN });
  for (let iteration = 0; iteration < times; iteration++) {
    const source = 'h = np.tanh(W * h + 1)';
    const gradient = 1.5 ** iteration;
    const at = { scope, source, gradient, loop: 0, iteration };
    const product = program.op('multiply', [w, h], { ...at, line: 2 });
    const one = program.constant('1');
    const sum = program.op('add', [product, one], { ...at, line: 2 });
    h = program.op('tanh', [sum], { ...at, line: 3, name: `h${iteration}` });
  }
  program.op('mean', [h], { name: 'loss', line: 4 });
  return program;
}

/** The id of the tanh of a step: two inputs, then four nodes a step. */
const tanhOf = (iteration: number): number => 2 + 4 * iteration + 3;

describe('loops of a program', () => {
  test('a loop is a scope, named by how often and where', () => {
    const graph = loop(50).graph();
    expect(graph.fold(2)).toBe(PATH);
    expect(graph.scope(2)).toBe('');
    expect(graph.scopes.get(PATH)).toMatchObject({ nodes: 150, depth: 0 });
    expect(graph.fold(graph.count - 1)).toBe('');
    expect(graph.loopAt(PATH)).toMatchObject({ times: 50 });
    expect(graph.loopAt('elsewhere')).toBeNull();
  });

  test('folded it is one card, its constants with it', () => {
    const graph = loop(50).graph();
    const items = itemsOf(graph, new Set([PATH]));
    // The parameter, the data, the loop and the loss.
    expect(items.count).toBe(4);
    expect(Math.max(...items.size)).toBe(150 + 50);
    // One edge from the parameter, not fifty.
    const { sources } = items.input;
    expect(sources.filter(source => source === items.itemOf[0])).toHaveLength(1);
  });

  test('a loop in a scope stands in that scope', () => {
    const graph = loop(10, 'rnn').graph();
    const path = 'rnn/loop, lines 2–3, 10 steps';
    expect(graph.fold(2)).toBe(path);
    expect(graph.scopes.get(path)).toMatchObject({ parent: 'rnn', depth: 1 });
  });

  test('nodes at the same place of two steps are told from others', () => {
    const graph = loop(50).graph();
    expect(graph.isSamePlace(tanhOf(3), tanhOf(40))).toBe(true);
    expect(graph.isSamePlace(tanhOf(3), tanhOf(40) - 1)).toBe(false);
    expect(graph.isSamePlace(0, 0)).toBe(false);
    expect(graph.isSamePlace(tanhOf(3), graph.count - 1)).toBe(false);
  });

  test('a graph of a kernel that finds no loops has none', () => {
    const program = loop(30);
    program.nodes.forEach(node => (node.loop = -1));
    expect(program.graph().scopes.size).toBe(0);
  });
});

describe('one iteration among many', () => {
  const graph = loop(50).graph();
  const open = (at: number): ReturnType<typeof itemsOf> =>
    itemsOf(graph, new Set([PATH]), new Map([[PATH, at]]));

  test('stands between a card for those before it and one for those after it', () => {
    const items = open(17);
    // The parameter, the data and the loss; two cards; four nodes of the step.
    expect(items.count).toBe(3 + 2 + 4);
    const cards = [tanhOf(3), tanhOf(16), tanhOf(18), tanhOf(49)].map(
      node => items.itemOf[node]
    );
    expect(cards[0]).toBe(cards[1]);
    expect(cards[2]).toBe(cards[3]);
    expect(foldLabel(graph, items, cards[0])).toBe('steps 0–16');
    expect(foldLabel(graph, items, cards[2])).toBe('steps 18–49');
    expect(items.scope[items.itemOf[tanhOf(17)]]).toBeNull();
    // All of them in the outline of the loop.
    for (const item of [...cards, items.itemOf[tanhOf(17)]]) {
      expect(items.groups[items.member[item]]).toBe(PATH);
    }
  });

  test('at the ends there is one such card', () => {
    const first = open(0);
    expect(foldLabel(graph, first, first.itemOf[tanhOf(9)])).toBe('steps 1–49');
    const last = open(49);
    expect(foldLabel(graph, last, last.itemOf[tanhOf(9)])).toBe('steps 0–48');
    expect(last.count).toBe(3 + 1 + 4);
    const second = open(1);
    expect(foldLabel(graph, second, second.itemOf[tanhOf(0)])).toBe('step 0');
  });

  test('a parameter of all steps has an edge to each card and to its reader', () => {
    const items = open(17);
    const { sources } = items.input;
    expect(sources.filter(source => source === items.itemOf[0])).toHaveLength(3);
  });
});

describe('what is open', () => {
  function shown(times: number): GraphState {
    const state = new GraphState();
    state.setGraph(loop(times).graph());
    return state;
  }

  test('a loop of 100 nodes and more is folded from the start', () => {
    expect([...shown(50).folded]).toEqual([PATH]);
    expect([...shown(30).folded]).toEqual([]);
  });

  test('its card opens one iteration, and folds again', () => {
    const state = shown(50);
    state.toggleFold(PATH);
    expect(state.folding.open.get(PATH)).toBe(0);
    state.openIteration(PATH, 17);
    state.toggleFold(PATH);
    expect(state.folding.open.size).toBe(0);
    expect(state.folded.has(PATH)).toBe(true);
    // Where one has been.
    state.toggleFold(PATH);
    expect(state.folding.open.get(PATH)).toBe(17);
    state.unfold(PATH);
    expect(state.folded.has(PATH)).toBe(false);
    state.toggleFold(PATH);
    expect(state.folded.has(PATH)).toBe(true);
  });

  test('its card opens the iteration of the node that is selected', () => {
    const state = shown(50);
    const { nodes } = state.graph!.loopAt(PATH)!;
    state.select(nodes[nodes.length - 1]);
    state.toggleFold(PATH);
    expect(state.folding.open.get(PATH)).toBe(49);
  });

  test('a hit in a folded scope opens it, and all around it', () => {
    const program = new Program();
    const x = program.input('x');
    const hidden = program.op('sinh', [x], { scope: 'a/b' });
    program.op('sum', [hidden], { name: 'loss' });
    const state = new GraphState();
    state.setGraph(program.graph());
    for (const path of ['a/b', 'a']) {
      state.toggleFold(path);
    }
    expect(state.folded.size).toBe(2);
    state.search('sinh');
    expect(state.nextMatch()).toBe(hidden);
    expect(state.folded.size).toBe(0);
  });

  test.each([
    [400, 49],
    [-3, 0],
    [17.4, 17],
    [Infinity, undefined],
    [NaN, undefined]
  ])('iteration %s opens %s', (asked, expected) => {
    const state = shown(50);
    state.openIteration(PATH, asked);
    expect(state.folding.open.get(PATH)).toBe(expected);
  });

  test('search lands in the iteration of a hit', () => {
    const state = shown(50);
    state.search('h42');
    expect(state.nextMatch()).toBe(tanhOf(42));
    expect(state.folding.open.get(PATH)).toBe(42);
  });

  test('search leaves a loop alone that is not folded', () => {
    const state = shown(50);
    state.unfold(PATH);
    state.search('h42');
    state.nextMatch();
    expect(state.folding.open.size).toBe(0);
  });

  test('values of a later run leave it open, a shorter loop does not', () => {
    const state = shown(50);
    state.openIteration(PATH, 17);
    state.setGraph(loop(50).graph(), 'values');
    expect(state.folding.open.get(PATH)).toBe(17);
    state.setGraph(loop(50).graph(), 'graph');
    expect(state.folding.open.get(PATH)).toBe(17);
    state.setGraph(loop(12).graph(), 'graph');
    expect(state.folding.open.size).toBe(0);
  });
});

describe('the gradients of a loop', () => {
  test('are the largest norm of each iteration', () => {
    const program = loop(50);
    program.nodes[tanhOf(7)].gradient = 1e9;
    program.nodes[tanhOf(9)].gradient = Infinity;
    const graph = program.graph();
    const norms = graph.iterationNorms(graph.loopAt(PATH)!);
    expect(norms).toHaveLength(50);
    expect([norms[0], norms[2], norms[7], norms[9]]).toEqual([1, 2.25, 1e9, Infinity]);
  });

  test('are bars on the cards of folded iterations', () => {
    const graph = loop(50).graph();
    const items = itemsOf(graph, new Set([PATH]), new Map([[PATH, 1]]));
    const scale = scaleOf(graph.count, node => graph.gradNorm(node));
    const found = sparklinesOf(graph, items, scale);
    // Step 0 alone needs none.
    expect([...found.keys()]).toEqual([items.itemOf[tanhOf(9)]]);
    const { height } = found.get(items.itemOf[tanhOf(9)])!;
    expect(height).toHaveLength(48);
    expect(height[0]).toBe(0);
    expect(height[47]).toBe(1);
    expect([...height]).toEqual([...height].sort((a, b) => a - b));
  });

  test('are bars on the card of a loop that is one node, and words in the list', () => {
    const program = new Program();
    const scan = program.op('scan', [program.input('w')]);
    program.holders = [scan];
    program.op('sum', [scan], { name: 'loss' });
    const marks = [0, 250];
    program.loops = [{ node: scan, steps: 500, marks, norms: [1, 100] }];
    const graph = program.graph();
    const items = itemsOf(graph, new Set());
    const scale = scaleOf(graph.count, node => graph.gradNorm(node));
    const found = sparklinesOf(graph, items, scale);
    expect([...found.keys()]).toEqual([items.itemOf[scan]]);
    const { height } = found.get(items.itemOf[scan])!;
    expect(height).toHaveLength(60);
    expect([height[0], height[29], height[30], height[59]]).toEqual([0, 0, 1, 1]);
    expect(nodeSentence(graph, scan)).toContain(
      'gradient along 500 steps: 1 at step 0, 100 at step 250'
    );
    // Of the past, or without the overrides, nothing is known of it.
    expect(graph.withoutOverrides().stepNorms(scan)).toBeNull();
  });

  test('as words name the ends and the largest', () => {
    const marks = [4, 2, 0];
    expect(alongLoopText({ steps: 6, marks, norms: [3, null, 1] })).toBe(
      'gradient along 6 steps: 1 at step 0, 3 at step 4, largest not finite at step 2'
    );
    expect(alongLoopText({ steps: 1, marks: [0], norms: [2] })).toBe(
      'gradient along 1 step: 2 at step 0'
    );
    expect(alongLoopText({ steps: 6, marks: [], norms: [] })).toBe('');
  });

  test('of many iterations a bar is the largest of several', () => {
    const norms = Float64Array.from({ length: 1000 }, () => 1);
    norms[503] = 1000;
    norms[777] = NaN;
    norms[900] = Infinity;
    const { height, warmth } = sparklineOf(norms, { low: -1, high: 3 }, 100);
    expect(height).toHaveLength(100);
    expect(height[50]).toBe(1);
    expect(height[77]).toBe(0);
    expect(warmth[90]).toBeNaN();
    expect(height[90]).toBe(1);
  });

  test('that are all equal are low, not high; where there are none is nothing', () => {
    const { height } = sparklineOf([2, 2, 2], { low: -1, high: 1 }, 10);
    expect(Math.max(...height)).toBeLessThanOrEqual(1);
    expect([...sparklineOf([NaN, NaN], { low: 0, high: 1 }, 10).height]).toEqual([
      NaN,
      NaN
    ]);
    expect([...sparklineOf([0, 1], { low: 0, high: 1 }, 10).height]).toEqual([0, 1]);
  });
});

describe('the norms along a loop', () => {
  test('hold from mark to mark', () => {
    const found = spreadNorms({ marks: [0, 2, 4], norms: [1, 2, 3], steps: 6 });
    expect([...found]).toEqual([1, 1, 2, 2, 3, 3]);
  });

  test('go the other way where the loop does, and are infinite where unknown', () => {
    const found = spreadNorms({ marks: [4, 2, 0], norms: [3, null, 1], steps: 5 });
    expect([...found]).toEqual([1, 1, Infinity, Infinity, 3]);
  });

  test('are told of so many parts of it', () => {
    const found = spreadNorms({ marks: [0, 500], norms: [1, 2], steps: 1000 }, 4);
    expect([...found]).toEqual([1, 1, 2, 2]);
    // More marks than parts: each part has one of them.
    const marks = Array.from({ length: 8 }, (_, i) => i);
    const many = spreadNorms({ marks, norms: marks, steps: 8 }, 4);
    expect([...many]).toEqual([1, 3, 5, 7]);
  });

  test('are nothing where nothing arrives', () => {
    expect(spreadNorms({ marks: [], norms: [], steps: 9 })).toHaveLength(0);
  });
});

describe('a loop in a loop', () => {
  const [OUTER, INNER] = ['loop, lines 2–4, 6 steps', 'loop, lines 2–4, 6 steps/loop, line 3, 8 steps'];

  /** Six iterations of a multiply, eight tanh and a sine; the kernel's numbers. */
  function nest(): { graph: Graph; node: (i: number, j: number) => number } {
    const program = new Program();
    let h = program.input('x');
    program.wrt = [h];
    program.around = [[-1, -1]];
    for (let i = 0; i < 6; i++) {
      program.around.push([0, i]);
      h = program.op('multiply', [h], { line: 2, loop: 0, iteration: i });
      for (let j = 0; j < 8; j++) {
        const gradient = 10 ** i * 2 ** j;
        h = program.op('tanh', [h], { line: 3, loop: 1 + i, iteration: j, gradient });
        h = program.op('add', [h], { line: 3, loop: 1 + i, iteration: j, gradient });
      }
      h = program.op('sin', [h], { line: 4, loop: 0, iteration: i });
    }
    program.op('mean', [h], { name: 'loss', line: 5 });
    return { graph: program.graph(), node: (i, j) => 1 + 18 * i + 1 + 2 * j };
  }

  test('folds at each level', () => {
    const { graph, node } = nest();
    expect(graph.fold(node(0, 0))).toBe(INNER);
    expect(graph.fold(node(5, 7))).toBe(INNER);
    expect(graph.loopAt(OUTER)).toMatchObject({ times: 6, around: null });
    expect(graph.loopAt(OUTER)!.nodes).toHaveLength(6 * 18);
    const state = new GraphState();
    state.setGraph(graph);
    expect([...state.folded].sort()).toEqual([OUTER, INNER]);
    const folded = itemsOf(graph, state.folded, state.folding.open);
    expect(folded.count).toBe(3);
    expect(foldLabel(graph, folded, 1)).toBe(OUTER);
    expect(folded.span[1]).toEqual({ first: 0, last: 5 });
  });

  test('one iteration of the outer one shows the inner as a card, then one of it', () => {
    const { graph, node } = nest();
    const state = new GraphState();
    state.setGraph(graph);
    state.toggleFold(OUTER);
    state.openIteration(OUTER, 2);
    let items = itemsOf(graph, state.folded, state.folding.open);
    // x, before, multiply, the inner loop, sine, after, loss.
    expect(items.count).toBe(7);
    const card = items.itemOf[node(2, 0)];
    expect(items.itemOf[node(2, 7)]).toBe(card);
    expect(items.itemOf[node(1, 7)]).not.toBe(card);
    expect(items.scope[card]).toBe(INNER);
    expect(foldLabel(graph, items, card)).toBe('loop, line 3, 8 steps');
    expect(items.groups[items.member[card]]).toBe(OUTER);
    const scale = scaleOf(graph.count, one => graph.gradNorm(one));
    expect(sparklinesOf(graph, items, scale).get(card)!.height).toHaveLength(8);

    state.toggleFold(INNER);
    state.openIteration(INNER, 3);
    items = itemsOf(graph, state.folded, state.folding.open);
    expect(items.count).toBe(7 + 3);
    expect(items.scope[items.itemOf[node(2, 3)]]).toBeNull();
    const before = items.itemOf[node(2, 0)];
    expect(foldLabel(graph, items, before)).toBe('steps 0–2');
    expect(items.itemOf[node(1, 0)]).not.toBe(before);
    // The norms of the strip are those of this iteration.
    const loop = graph.loopIn(INNER, state.folding.open)!;
    expect(graph.iterationNorms(loop)[3]).toBe(100 * 8);
    expect(stepText(graph, node(2, 3))).toBe('step 3 of 8, in step 2 of 6');

    // Folding the outer one folds what is in it.
    state.toggleFold(OUTER);
    expect(state.folding.open.size).toBe(0);
  });

  test('has a card in each iteration where all are shown', () => {
    const { graph, node } = nest();
    const items = itemsOf(graph, new Set([INNER]));
    const cards = [0, 1, 2, 3, 4, 5].map(i => items.itemOf[node(i, 0)]);
    expect(new Set(cards).size).toBe(6);
    expect(cards.map(card => items.size[card])).toEqual(cards.map(() => 16));
  });

  test('opens at each level where a node in it is looked for', () => {
    const { graph, node } = nest();
    const state = new GraphState();
    state.setGraph(graph);
    state.reveal(node(4, 6));
    expect(state.folding.open.get(OUTER)).toBe(4);
    expect(state.folding.open.get(INNER)).toBe(6);
    expect(state.folding.isInSight(INNER)).toBe(true);
    const items = itemsOf(graph, state.folded, state.folding.open);
    expect(items.scope[items.itemOf[node(4, 6)]]).toBeNull();
  });

  test('is told from one that a damaged picture puts around itself', () => {
    const program = new Program();
    program.op('sum', [program.input('x')], { name: 'loss' });
    program.around = [[0, 1]];
    expect(() => program.graph()).toThrow('a loop stands in one that does not come');
    // Of loops without end those within reach are told.
    program.around = Array.from({ length: 5000 }, (_, k): [number, number] => [k - 1, 0]);
    program.around.forEach((_, k) => {
      program.op('tanh', [0], { loop: k, iteration: 0 });
    });
    const graph = program.graph();
    expect(graph.loops.size).toBe(5000);
    expect(itemsOf(graph, new Set(graph.scopes.keys())).count).toBeGreaterThan(1);
  });
});
