import { describe, expect, test } from 'vitest';

import { type IItems, itemsOf, sameExtents } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import { AT_ONCE, LayoutRunner } from '../../src/layout/runner';
import { perform } from '../../src/layout/work';
import type { IJob } from '../../src/layout/worker';
import { type ILayout, MEASURES } from '../../src/layout/types';
import { type Graph } from '../../src/model/graph';
import { Program, clip, deep, network, random, tangle } from '../helpers/programs';

const OPEN: ReadonlySet<string> = new Set();

function laidOut(
  graph: Graph,
  folded = OPEN
): { items: IItems; layout: ILayout; graph: Graph } {
  const items = itemsOf(graph, folded);
  return { graph, items, layout: layOut(items.input) };
}

/** Everything that holds for every layout, whatever the graph. */
function expectSound({ items, layout }: { items: IItems; layout: ILayout }): void {
  const { count, vertices, x, layer, rowStart, rowVertices, above, via } = layout;
  const { sources, targets, left, right } = items.input;
  expect(Array.from(rowVertices).sort((a, b) => a - b)).toEqual(
    Array.from({ length: vertices }, (_, i) => i)
  );
  for (let row = 0; row + 1 < rowStart.length; row++) {
    let end = -Infinity;
    for (let i = rowStart[row]; i < rowStart[row + 1]; i++) {
      const vertex = rowVertices[i];
      expect(layer[vertex]).toBe(row);
      expect(Number.isFinite(x[vertex])).toBe(true);
      const start = x[vertex] - (vertex < count ? left[vertex] : 0);
      expect(start, `row ${row}`).toBeGreaterThanOrEqual(end - 1e-6);
      end = x[vertex] + (vertex < count ? right[vertex] : 0);
    }
  }
  for (let vertex = count; vertex < vertices; vertex++) {
    expect(layer[vertex] - layer[above[vertex]]).toBe(1);
  }
  for (let edge = 0; edge < via.length; edge++) {
    if (via[edge] >= 0) {
      expect(layout.owner[via[edge]]).toBe(sources[edge]);
      expect(layer[targets[edge]] - layer[via[edge]]).toBe(1);
    }
  }
}

describe('rows', () => {
  test('every edge goes down, and inputs stand just above their first reader', () => {
    const { graph, items, layout } = laidOut(deep(300).graph());
    for (let edge = 0; edge < items.input.sources.length; edge++) {
      const rows = [items.input.sources[edge], items.input.targets[edge]];
      expect(layout.layer[rows[0]]).toBeLessThan(layout.layer[rows[1]]);
    }
    for (let node = 0; node < graph.count; node++) {
      if (graph.kind(node) === 'input') {
        const readers = Array.from(graph.consumers(node), r => layout.layer[r]);
        expect(layout.layer[node]).toBe(Math.min(...readers) - 1);
      }
    }
  });

  test('an op that only reads inputs comes down to where it is read', () => {
    const program = new Program();
    let value = program.input('x');
    const t = program.input('t');
    const early = program.op('negative', [t]);
    for (let i = 0; i < 10; i++) {
      value = program.op('sin', [value]);
    }
    const last = program.op('multiply', [value, early]);
    const { layout } = laidOut(program.graph());
    expect(layout.layer[early]).toBe(layout.layer[last] - 1);
    expect(layout.layer[t]).toBe(layout.layer[last] - 2);
  });

  test('a branch of several ops that reads only inputs comes down as a whole', () => {
    const program = new Program();
    const x = program.input('X');
    const u = program.input('U');
    let h = program.input('h');
    const first: number[] = [];
    const reads: number[] = [];
    for (let i = 0; i < 20; i++) {
      const row = program.op('getitem', [x]);
      first.push(row);
      const product = program.op('matmul', [row, u]);
      h = program.op('add', [h, product]);
      reads.push(h);
    }
    const { layout } = laidOut(program.graph());
    for (let i = 1; i < 20; i++) {
      expect(layout.layer[reads[i]] - layout.layer[first[i]]).toBe(2);
    }
    expect(layout.bounds.right - layout.bounds.left).toBeLessThan(1500);
  });

  test('many inputs of one op fill several rows, which a page has room for', () => {
    const program = new Program();
    const inputs = Array.from({ length: 10 }, (_, i) => program.input(`x${i}`));
    program.op('stack', inputs);
    const { layout, items } = laidOut(program.graph());
    expect(layout.rowTop.length - 1).toBe(3);
    expect(layout.bounds.right - layout.bounds.left).toBeLessThan(0.75 * 10 * 250);
    expectSound({ layout, items });
  });

  test('no row is empty', () => {
    const { layout } = laidOut(tangle(200, 7).graph());
    for (let row = 0; row + 1 < layout.rowStart.length; row++) {
      expect(layout.rowStart[row + 1]).toBeGreaterThan(layout.rowStart[row]);
    }
  });
});

describe('places', () => {
  test('the main line of the network is upright, its arguments in reading order', () => {
    const { layout } = laidOut(network().graph());
    const [x, w1, matmul, b1, add, h, w2, matmul2, b2, add2, p, t, entropy, loss] =
      layout.x;
    for (const spine of [add, h, matmul2, add2, p, entropy, loss]) {
      expect(spine).toBeCloseTo(matmul, 3);
    }
    expect(x).toBeLessThan(w1);
    expect((x + w1) / 2).toBeCloseTo(matmul, 3);
    for (const right of [b1, w2, b2]) {
      expect(right).toBeGreaterThan(matmul + MEASURES.width / 2);
    }
    expect(t).toBeLessThan(matmul - MEASURES.width / 2);
  });

  test('a long program with side branches does not drift sideways', () => {
    const { layout } = laidOut(deep(3000).graph());
    expect(layout.bounds.right - layout.bounds.left).toBeLessThan(1000);
  });

  test.each([1, 2, 3, 4, 5, 6, 7, 8])('nothing overlaps (tangle, seed %i)', seed => {
    const size = 20 + Math.floor(random(seed)() * 200);
    expectSound(laidOut(tangle(size, seed).graph()));
  });

  test('nothing overlaps in a deep program, and scopes stay together', () => {
    const { items, layout, graph } = laidOut(deep(400).graph());
    expectSound({ items, layout });
    // Each inner scope is one run in each row.
    for (let row = 0; row + 1 < layout.rowStart.length; row++) {
      const runs: number[] = [];
      for (let i = layout.rowStart[row]; i < layout.rowStart[row + 1]; i++) {
        const item = layout.rowVertices[i];
        const group = item < graph.count ? items.input.group[item] : -2;
        if (group !== -2 && group !== runs.at(-1)) {
          runs.push(group);
        }
      }
      expect(new Set(runs).size, `row ${row}`).toBe(runs.length);
    }
  });

  test('the same graph is laid out the same', () => {
    const a = laidOut(tangle(150, 3).graph());
    const b = laidOut(tangle(150, 3).graph());
    expect(Array.from(a.layout.x)).toEqual(Array.from(b.layout.x));
  });

  test('nothing, and a single node', () => {
    expect(laidOut(new Program().graph()).layout.vertices).toBe(0);
    const one = new Program();
    one.input('x');
    expect(laidOut(one.graph()).layout.rowTop.length).toBe(2);
  });
});

describe('long edges', () => {
  test('an input that every step reads costs one bend a row', () => {
    const program = new Program();
    const w = program.input('W');
    let value = program.input('h');
    for (let i = 0; i < 200; i++) {
      value = program.op('matmul', [value, w]);
    }
    const { layout } = laidOut(program.graph());
    expect(layout.vertices - layout.count).toBeLessThan(210);
    expect(Array.from(layout.via).every(via => via >= 0)).toBe(true);
  });

  test('a thousand states stacked at the end do not need a million bends', () => {
    const program = new Program();
    const states: number[] = [];
    let value = program.input('h');
    for (let i = 0; i < 1000; i++) {
      value = program.op('tanh', [value]);
      states.push(value);
    }
    program.op('stack', states);
    const { layout } = laidOut(program.graph());
    expect(layout.vertices).toBeLessThan(8 * layout.count);
    expect(Array.from(layout.via).some(via => via < 0)).toBe(true);
  });

  test('a chain of 100,000 ops is laid out without recursion', () => {
    const program = new Program();
    let value = program.input('x');
    for (let i = 1; i < 100_000; i++) {
      value = program.op('sin', [value]);
    }
    const { layout } = laidOut(program.graph());
    expect(layout.rowTop.length - 1).toBe(100_000);
    expect(layout.bounds.right - layout.bounds.left).toBeLessThan(250);
  }, 20_000);
});

describe('folding', () => {
  const graph = deep(130).graph();

  test('a folded scope is one box with all its nodes and parameters', () => {
    const items = itemsOf(graph, new Set(['stage0', 'stage1', 'stage2']));
    const at = items.scope.indexOf('stage0');
    // Four blocks of nine ops and four parameters.
    expect(items.size[at]).toBe(4 * (9 + 4));
    const parameter = Array.from({ length: graph.count }, (_, i) => i).find(
      node => graph.label(node) === 'W0_0'
    )!;
    expect(items.itemOf[parameter]).toBe(at);
    // Data is not hidden.
    expect(items.scope[items.itemOf[0]]).toBeNull();
    expect(items.size.reduce((a, b) => a + b)).toBe(graph.count);
  });

  test('a few parameters stay in sight beside their scope', () => {
    const items = itemsOf(graph, new Set(['stage0/block0']));
    const parameter = Array.from({ length: graph.count }, (_, i) => i).find(
      node => graph.label(node) === 'W0_0'
    )!;
    expect(items.scope[items.itemOf[parameter]]).toBeNull();
  });

  test('a tangle folded into clusters flows down, no edge past the rows', () => {
    for (const seed of [1, 2, 3]) {
      const graph = tangle(4000, seed).graph();
      const { input } = itemsOf(graph, new Set(graph.scopes.keys()));
      expect(input.count).toBeLessThan(40);
      const { layer, via } = layOut(input);
      input.sources.forEach((source, edge) => {
        expect(layer[source]).toBeLessThan(layer[input.targets[edge]]);
        expect(via[edge]).toBeGreaterThanOrEqual(0);
      });
    }
  });

  test('the outermost folded scope wins', () => {
    const items = itemsOf(graph, new Set(['stage0', 'stage0/block1']));
    expect(items.scope).toContain('stage0');
    expect(items.scope).not.toContain('stage0/block1');
  });

  test('edges between the same two boxes are one, with all that is behind it', () => {
    const items = itemsOf(graph, new Set(['stage0/block0', 'stage0/block1']));
    const a = items.scope.indexOf('stage0/block0');
    const b = items.scope.indexOf('stage0/block1');
    const { sources, targets } = items.input;
    const between = Array.from(sources.keys()).filter(
      edge => sources[edge] === a && targets[edge] === b
    );
    expect(between).toHaveLength(1);
    const [edge] = between;
    // The next block reads the state three times: matmul, gate and skip.
    expect(items.edgeStart[edge + 1] - items.edgeStart[edge]).toBe(3);
  });

  test('a fold that closes a circle is still drawn, with one edge past the rows', () => {
    const program = new Program();
    const x = program.input('x');
    const a = program.op('sin', [x], { scope: 'outer' });
    const between = program.op('cos', [a]);
    program.op('tan', [between], { scope: 'outer' });
    const { items, layout } = laidOut(program.graph(), new Set(['outer']));
    expect(items.count).toBe(3);
    expectSound({ items, layout });
    expect(Array.from(layout.via).filter(via => via < 0)).toHaveLength(1);
  });

  test('an override widens its box, and only that asks for another layout', () => {
    const plain = network().graph();
    const items = itemsOf(plain, OPEN);
    const program = network();
    program.nodes[5].gradient = 0.1;
    expect(sameExtents(program.graph(), items)).toBe(true);
    program.overrides = [clip(5)];
    program.overridden.set(5, 0);
    expect(sameExtents(program.graph(), items)).toBe(false);
    // Switched off it keeps its room: nothing moves when it is switched.
    const on = itemsOf(program.graph(), OPEN);
    program.overrides = [{ ...clip(5), enabled: false }];
    program.overridden.clear();
    expect(sameExtents(program.graph(), on)).toBe(true);
  });
});

describe('runner', () => {
  test('small graphs are laid out at once, on the page', () => {
    const runner = new LayoutRunner(() => {
      throw new Error('no worker is started for a small graph');
    });
    expect(runner.lay(itemsOf(network().graph(), OPEN).input)).not.toBeInstanceOf(Promise);
    expect(runner.where).toBe('page');
  });

  test('without a worker large graphs are laid out on the page too', () => {
    const runner = new LayoutRunner(() => null);
    const layout = runner.lay(itemsOf(deep(2 * AT_ONCE).graph(), OPEN).input);
    expect((layout as ILayout).vertices).toBeGreaterThan(AT_ONCE);
    expect(runner.where).toBe('page');
  });

  test('a program is divided in the worker as on the page', async () => {
    const graph = tangle(1000).graph();
    const sent: IJob[] = [];
    const worker = {
      postMessage: (job: IJob) => sent.push(job)
    } as unknown as Worker;
    const runner = new LayoutRunner(() => worker);
    const folds = runner.fold(graph.foldInput());
    expect(folds).toBeInstanceOf(Promise);
    const { id, task } = structuredClone(sent[0]);
    const data = { id, output: perform(task).output };
    worker.onmessage?.({ data } as MessageEvent);
    expect(await folds).toEqual({ folds: graph.folds, loops: graph.loops });
    expect(graph.scopes.size).toBeGreaterThan(1);
  });
});
