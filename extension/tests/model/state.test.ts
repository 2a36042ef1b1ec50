import { beforeEach, describe, expect, it } from 'vitest';

import { Graph } from '../../src/model/graph';
import { type Change, GraphState } from '../../src/model/state';
import type { IFinding } from '../../src/wire/protocol';
import { H, LOSS, PRODUCT, SCALED, T, W, X, network } from '../helpers/network';
import { Program, readGraph, tangle } from '../helpers/programs';

function graphOf(changes: Parameters<typeof network>[1] = {}): Graph {
  const { header, buffers } = network([], changes);
  return readGraph(header, buffers);
}

describe('GraphState', () => {
  let state: GraphState;
  let changes: Change[];

  beforeEach(() => {
    state = new GraphState();
    state.setGraph(graphOf());
    changes = [];
    state.changed.connect((_, change) => changes.push(change));
  });

  it('selects and hovers only nodes that there are, and tells once', () => {
    state.select(H);
    state.select(H);
    state.hover(W);
    state.select(99);
    state.select(-1);
    expect(state.selected).toBeNull();
    expect(state.hovered).toBe(W);
    expect(changes).toEqual(['selection', 'hover', 'selection']);
  });

  it('keeps the selection when values change and when the node is still itself', () => {
    state.select(H);
    state.setGraph(graphOf(), 'values');
    expect(state.selected).toBe(H);
    state.setGraph(graphOf(), 'graph');
    expect(state.selected).toBe(H);
    const strings = network().header.strings.map(text => (text === 'h' ? 'z' : text));
    state.setGraph(graphOf({ strings }), 'graph');
    expect(state.selected).toBeNull();
  });

  it('folds a large graph that takes the place of a picture without nodes', () => {
    const fresh = new GraphState();
    fresh.setGraph(new Program().graph());
    fresh.setGraph(tangle(1000).graph(), 'graph');
    expect(fresh.folded.size).toBeGreaterThan(1);
  });

  it('G2: a marked node and a selected one are a pair, with the way between', () => {
    state.select(W);
    expect(state.pair).toBeNull();
    state.mark(W);
    expect(state.pair).toBeNull();
    state.select(H);
    expect(state.pair).toMatchObject({ of: H, wrt: W });
    expect([...(state.trail ?? [])]).toEqual([0, 1, 1, 1, 0, 0, 0]);
    state.select(LOSS);
    expect(state.pair).toMatchObject({ of: LOSS, wrt: W });
    state.select(T);
    expect(state.pair?.way).toBeNull();
    expect(state.trail).toBeNull();
    state.selectAlone(H);
    expect([state.marked, state.selected, state.pair]).toEqual([null, H, null]);
  });

  it('chooses in addition, and one of them less', () => {
    const chosen = (): (number | null)[] => [state.marked, state.selected];
    state.selectAlso(W);
    expect(chosen()).toEqual([null, W]);
    state.selectAlso(H);
    expect(chosen()).toEqual([W, H]);
    state.selectAlso(LOSS);
    expect(chosen()).toEqual([W, LOSS]);
    state.selectAlso(W);
    expect(chosen()).toEqual([null, LOSS]);
    state.selectAlso(H);
    state.selectAlso(H);
    expect(chosen()).toEqual([null, LOSS]);
    expect(changes).toEqual(Array.from({ length: 6 }, () => 'selection'));
  });

  it('keeps the pair while values stream, and as long as both nodes are there', () => {
    state.mark(W);
    state.select(H);
    state.setGraph(graphOf(), 'values');
    state.setGraph(graphOf(), 'graph');
    expect(state.pair).toMatchObject({ of: H, wrt: W });
    const strings = network().header.strings.map(text => (text === 'W' ? 'V' : text));
    state.setGraph(graphOf({ strings }), 'graph');
    expect([state.marked, state.selected]).toEqual([null, H]);
    state.mark(99);
    expect(state.marked).toBeNull();
  });

  it('shows a way until something else is selected', () => {
    state.showTrail([W, PRODUCT, 99, -1]);
    expect([...(state.trail ?? [])]).toEqual([0, 1, 1, 0, 0, 0, 0]);
    state.select(H);
    expect(state.trail).toBeNull();
    expect(changes).toEqual(['selection', 'selection']);
  });

  it('shows the way of a finding no longer than there is the finding', () => {
    const path = [H, PRODUCT, W];
    const finding = {
      kind: 'nan',
      severity: 'error',
      node: H,
      path,
      sweep: 'backward'
    };
    const words = { title: 'h', evidence: '', cause: '', fix: null };
    const list = [{ ...finding, ...words }] as IFinding[];
    const found = graphOf({
      findings: { stale: false, stopped: false, unchecked: [], list }
    });
    state.setGraph(found);
    state.showTrail([...path]);
    state.setGraph(found, 'values');
    expect(state.trail).not.toBeNull();
    state.setGraph(
      graphOf({ findings: { stale: false, stopped: false, unchecked: [], list: [] } }),
      'values'
    );
    expect(state.trail).toBeNull();
    // The way of a derivative is of no finding.
    state.showTrail([W, PRODUCT]);
    state.setGraph(graphOf(), 'values');
    expect(state.trail).not.toBeNull();
  });

  it('forgets everything with the graph', () => {
    state.select(H);
    state.search('tanh');
    state.setGraph(null);
    expect([state.selected, state.matches.size, state.stepCount]).toEqual([null, 0, 0]);
  });

  it('finds by name, op, shape, scope and line, whatever the case', () => {
    const found = (text: string): number[] => {
      state.search(text);
      return [...state.matches];
    };
    expect(found('TANH')).toEqual([H]);
    expect(found('np.TANH(')).toEqual([X, W, PRODUCT, H]);
    expect(found('multiply')).toEqual([SCALED]);
    expect(found('3×2')).toEqual([W]);
    expect(found('layer')).toEqual([PRODUCT, H]);
    expect(found('  ')).toEqual([]);
  });

  it('goes from hit to hit, round the end, both ways', () => {
    state.search('layer');
    expect(state.nextMatch()).toBe(PRODUCT);
    expect(state.nextMatch()).toBe(H);
    expect(state.nextMatch()).toBe(PRODUCT);
    expect(state.nextMatch(true)).toBe(H);
    state.search('nothing like it');
    expect(state.nextMatch()).toBeNull();
    expect(state.selected).toBe(H);
  });

  it('sweeps forward through the ops and backward through the gradients', () => {
    expect(state.stepCount).toBe(4 + 5);
    const seen: [string, number][] = [];
    for (let step = 1; step <= state.stepCount; step++) {
      state.setStep(step);
      seen.push([state.current!.sweep, state.current!.node]);
    }
    expect(seen).toEqual([
      ['forward', PRODUCT],
      ['forward', H],
      ['forward', SCALED],
      ['forward', LOSS],
      ['backward', LOSS],
      ['backward', SCALED],
      ['backward', H],
      ['backward', PRODUCT],
      ['backward', W]
    ]);
    expect(state.current).toMatchObject({ position: 5, count: 5 });
  });

  it('knows what is computed at a step', () => {
    state.setStep(2);
    expect([X, H, SCALED].map(node => state.hasValueNow(node))).toEqual([
      true,
      true,
      false
    ]);
    expect(state.hasGradientNow(LOSS)).toBe(false);
    state.setStep(6);
    expect([LOSS, SCALED, H, T].map(node => state.hasGradientNow(node))).toEqual([
      true,
      true,
      false,
      false
    ]);
    state.setStep(null);
    expect(state.hasGradientNow(H)).toBe(true);
    expect(state.current).toBeNull();
  });

  it('holds steps to what there is', () => {
    state.setStep(1000);
    expect(state.step).toBe(9);
    state.setStep(-3);
    expect(state.step).toBe(0);
    state.setGraph(null);
    expect(state.step).toBeNull();
  });

  it('folds and unfolds, and drops folds of scopes that are gone', () => {
    state.toggleFold('layer');
    expect(state.folded.has('layer')).toBe(true);
    const strings = network().header.strings.map(text =>
      text === 'layer' ? 'other' : text
    );
    state.setGraph(graphOf({ strings }));
    expect(state.folded.size).toBe(0);
    expect(changes).toEqual(['view', 'graph']);
  });

  it('shares its settings with other views, but for what is fixed in one', () => {
    const other = new GraphState(state.settings, { stage: 'traced' });
    state.settings.set({ stage: 'simplified', tileText: 'mean' });
    expect([state.stage, other.stage, other.tileText]).toEqual([
      'simplified',
      'traced',
      'mean'
    ]);
    expect(changes).toEqual(['view']);
  });

  it('tells of a view only when it is another', () => {
    state.settings.set({ stage: 'derivative' });
    state.settings.set({ colouring: 'gradient' });
    state.settings.set({ animated: true });
    expect(changes).toEqual([]);
    state.settings.set({ stage: 'traced' });
    state.settings.set({ colouring: 'change' });
    expect(changes).toEqual(['view', 'view']);
  });
});
