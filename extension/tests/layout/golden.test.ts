/**
 * The snapshot that the kernel wrote, read by the page: its numbers are checked
 * against the same network worked out here, in plain arithmetic.
 */

import { expect, test } from 'vitest';

import golden from '../../../tests/session/wire/golden/snapshot.json';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import { Graph } from '../../src/model/graph';

const graph = Graph.fromSaved(golden);

function find(label: string): number {
  const node = Array.from({ length: graph.count }, (_, i) => i).find(
    i => graph.label(i) === label
  );
  expect(node, `a node called ${label}`).toBeDefined();
  return node!;
}

/** Loss of the network in `session/wire/golden/write.py`, and its true gradients. */
function workedOut(): { loss: number; h: number; w1: number; b2: number } {
  const x = (i: number, j: number): number => Math.sin(3 * i + j);
  const w1 = (j: number, k: number): number => Math.cos(2 * j + k);
  const b1 = [0.25, -0.5];
  const w2 = [1.5, -0.75];
  const rows = [0, 1, 2, 3, 4, 5, 6, 7];
  let loss = 0;
  let squares = 0;
  let b2 = 0;
  const gradient = [0, 0, 0, 0, 0, 0];
  for (const i of rows) {
    const h = [0, 1].map(k =>
      Math.tanh([0, 1, 2].reduce((sum, j) => sum + x(i, j) * w1(j, k), b1[k]))
    );
    const p = 1 / (1 + Math.exp(-(h[0] * w2[0] + h[1] * w2[1] + 0.125)));
    const t = i % 2;
    loss -= (t * Math.log(p) + (1 - t) * Math.log(1 - p)) / rows.length;
    squares += h[0] ** 2 + h[1] ** 2;
    // The logit's gradient, and from it those of W1 and b2.
    const logit = (p - t) / rows.length;
    b2 += logit;
    for (const j of [0, 1, 2]) {
      for (const k of [0, 1]) {
        gradient[2 * j + k] += logit * w2[k] * (1 - h[k] ** 2) * x(i, j);
      }
    }
  }
  return { loss, h: Math.sqrt(squares), w1: Math.hypot(...gradient), b2: Math.abs(b2) };
}

test('values and true gradients are those of the network', () => {
  const { loss, h, w1, b2 } = workedOut();
  expect(graph.header.output_value).toBeCloseTo(loss, 12);
  expect(graph.valueNorm(find('h'))).toBeCloseTo(h, 12);
  expect(graph.trueStatistics(find('W1'))?.norm).toBeCloseTo(w1, 12);
  expect(graph.trueStatistics(find('b2'))?.norm).toBeCloseTo(b2, 12);
});

test('what overrides change is what the statistics say', () => {
  const w1 = find('W1');
  const truth = graph.trueStatistics(w1)?.norm ?? NaN;
  expect(graph.change(w1)).toBeGreaterThan(0.5);
  expect(graph.gradNorm(w1)).toBeLessThan(truth);
  expect(graph.change(graph.header.output)).toBe(0);
  expect(graph.override(find('h'))?.rule).toBe('clip(d, -0.05, 0.05)');
  const off = graph.header.overrides.find(override => !override.enabled);
  expect(off?.matched.map(node => graph.op(node))).toEqual(['log', 'log']);
  expect(graph.override(off!.matched[0])).toBeNull();
});

test('what is right, wrong, and changed on purpose', () => {
  const { check } = graph.header;
  expect([check?.ok, check?.verdict]).toEqual([false, 'wrong']);
  expect(check?.changes).toContain('change W1 by 25 % on purpose');
  expect(
    check?.gradients.map(({ name, verdict, change, by }) => [name, verdict, change, by])
  ).toEqual([
    ['W1', 'changed', 0.25, ['clip ±0.05', 'half']],
    ['b2', 'right', null, []],
    ['W2', 'wrong', null, []],
    ['adjoint', 'right', null, []]
  ]);
});

test('lines, places, scopes and what rules read', () => {
  const h = find('h');
  expect(graph.place(h)).toBe('[3]:2');
  expect(graph.source(h).trim()).toBe('h = np.tanh(X @ W1 + b1)');
  expect(graph.scope(h)).toBe('encoder');
  expect(Array.from(graph.saved(h))).toContain(h);
  expect([...graph.scopes.keys()]).toEqual(['encoder', 'decoder', 'decoder/out']);
  expect(graph.shape(h)).toBe('8×2');
  expect(graph.kind(find('X'))).toBe('input');
  expect(graph.hasGradient(find('X'))).toBe(false);
});

test('it is laid out, open and folded', () => {
  const open = itemsOf(graph, new Set());
  expect(layOut(open.input).bounds.right).toBeGreaterThan(0);
  const folded = itemsOf(graph, new Set(['encoder', 'decoder']));
  expect(folded.scope.filter(scope => scope !== null)).toEqual(['encoder', 'decoder']);
  expect(folded.count).toBeLessThan(open.count);
});
