import { describe, expect, test } from 'vitest';

import { type ICluster, LEGIBLE, findClusters } from '../../src/model/clusters';
import { GraphState } from '../../src/model/state';
import { Program, random, tangle } from '../helpers/programs';

/** Clusters of a sequence given by what each step reads. */
function clustersOf(inputs: readonly (readonly number[])[]): ICluster[] {
  return findClusters({
    count: inputs.length,
    eachInput: (step, visit) => {
      inputs[step].forEach(visit);
    },
    beginsLine: () => false
  });
}

function chain(count: number, before: number | null, begin: number): number[][] {
  return Array.from({ length: count }, (_, i) =>
    i > 0 ? [begin + i - 1] : before === null ? [] : [before]
  );
}

/** Any steps: each reads up to three before it, mostly near ones. */
function anySteps(count: number, seed: number): number[][] {
  const next = random(seed);
  return Array.from({ length: count }, (_, step) =>
    Array.from({ length: step === 0 ? 0 : 1 + Math.floor(3 * next()) }, () =>
      Math.floor(next() < 0.3 ? next() * step : Math.max(0, step - 1 - 9 * next()))
    )
  );
}

function all(clusters: readonly ICluster[]): ICluster[] {
  return clusters.flatMap(cluster => [cluster, ...all(cluster.parts)]);
}

describe('clusters of a sequence', () => {
  test('what can be read as it stands is left so', () => {
    expect(clustersOf(chain(LEGIBLE, null, 0))).toEqual([]);
  });

  test.each([1, 2, 3])('each step is in one part, at every depth (seed %d)', seed => {
    const inputs = anySteps(4000, seed);
    const clusters = clustersOf(inputs);
    const sorted = (parts: readonly ICluster[]): number[] =>
      parts.flatMap(({ steps }) => Array.from(steps)).sort((a, b) => a - b);
    expect(sorted(clusters)).toEqual(inputs.map((_, step) => step));
    for (const { steps, parts } of all(clusters)) {
      expect(parts.length === 0 ? Array.from(steps) : sorted(parts)).toEqual(
        Array.from(steps)
      );
      expect(parts.length > 0 || steps.length <= LEGIBLE).toBe(true);
    }
  });

  test.each([4, 5, 6])('no two parts read each other (seed %d)', seed => {
    const inputs = anySteps(3000, seed);
    const partOf = new Int32Array(inputs.length);
    clustersOf(inputs).forEach(({ steps }, part) => {
      for (const step of steps) {
        partOf[step] = part;
      }
    });
    for (const [step, list] of inputs.entries()) {
      for (const input of list) {
        expect(partOf[input]).toBeLessThanOrEqual(partOf[step]);
      }
    }
  });

  test('it is cut where one value is alive', () => {
    // Two stretches whose steps all read their first and last; one value between.
    const dense = (begin: number, before: number[]): number[][] =>
      Array.from({ length: 150 }, (_, i) => (i === 0 ? before : [begin, begin + i - 1]));
    const inputs = [...dense(0, []), ...dense(150, [149])];
    const begins = clustersOf(inputs).map(({ steps }) => steps[0]);
    expect(begins).toContain(150);
  });

  test('what is not connected stands side by side', () => {
    // Two chains whose steps take turns.
    const inputs = Array.from({ length: 600 }, (_, i) => (i < 2 ? [] : [i - 2]));
    for (const { steps } of clustersOf(inputs)) {
      expect(new Set(steps.map(step => step % 2)).size).toBe(1);
    }
  });
});

describe('clusters of a program', () => {
  const next = random(11);
  /** Ops in no order, so that nothing is taken for a loop. */
  const anyOp = (): string => `f${Math.floor(40 * next())}`;

  test('a tangle opens as a few cards, its output in sight', () => {
    const graph = tangle(3000).graph();
    const state = new GraphState();
    state.setGraph(graph);
    const shown = new Set<string>();
    for (let node = 0; node < graph.count; node++) {
      shown.add(graph.fold(node).split('/')[0] || graph.label(node));
    }
    expect(shown.size).toBeLessThan(40);
    expect([...state.folded]).toContain(graph.fold(1500).split('/')[0]);
    expect(graph.fold(graph.header.output)).toBe('');
  });

  test('parts are named by their lines, and cut where a line begins', () => {
    const program = new Program();
    let value = program.input('x');
    for (let i = 0; i < 600; i++) {
      value = program.op(anyOp(), [value], { line: 1 + Math.floor(i / 57) });
    }
    program.op('sum', [value], { name: 'loss', line: 20 });
    const graph = program.graph();
    expect(graph.fold(1)).toBe('part 1 · line 1');
    const ends = [...graph.scopes.keys()].map(path => path.replace(/.* · /, ''));
    expect(ends.filter(text => text.startsWith('lines')).length).toBeLessThan(
      ends.length
    );
  });

  test('a few inputs that are differentiated by stay beside the parts', () => {
    const program = new Program();
    const wrt = [program.input('W'), program.input('b')];
    program.wrt = wrt;
    let value = wrt[0];
    for (let i = 0; i < 400; i++) {
      const one = program.constant('1');
      value = program.op(anyOp(), [value, one, wrt[1]]);
    }
    program.op('sum', [value], { name: 'loss' });
    const graph = program.graph();
    expect(wrt.map(node => graph.fold(node))).toEqual(['', '']);
    const constant = 2;
    expect(graph.kind(constant)).toBe('constant');
    expect(graph.fold(constant)).toBe(graph.fold(constant + 1));
    expect(graph.fold(constant)).not.toBe('');
  });

  test('a user’s scope that is long is divided inside', () => {
    const program = new Program();
    let value = program.input('x');
    for (let i = 0; i < 500; i++) {
      value = program.op(anyOp(), [value], { scope: 'encoder' });
    }
    program.op('sum', [value], { name: 'loss' });
    const graph = program.graph();
    expect(graph.fold(1)).toMatch(/^encoder\/part 1/);
    expect(graph.scope(1)).toBe('encoder');
  });
});
