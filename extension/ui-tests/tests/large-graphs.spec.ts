/**
 * Large graphs, and the first view of any: what may lie over what, what can be read,
 * and that nothing moves the view unasked.
 */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, screenshotOf } from './graph';

interface IRect {
  x: number;
  y: number;
  width: number;
  height: number;
}

type Probed = HTMLElement & {
  workbenchCanvas: {
    boxOf(node: number): IRect | null;
    readonly frames: number;
    readonly leastText: number;
    readonly size: { width: number; height: number };
  };
};

const SETUP = `%load_ext workbench
import numpy as np
rng = np.random.default_rng(7)
x = np.linspace(0.1, 1.0, 8)
W = 0.1 * rng.standard_normal((8, 8))`;

const NET = `%%autodiff loss --wrt W --name small
h = np.tanh(W @ x)
p = np.exp(W @ h)
loss = np.sum(p * p) + np.mean(h)`;

const RECURRENT = `%%autodiff loss --wrt W --name recurrent
h = x
for step in range(120): h = np.tanh(W @ h + 0.1)
loss = np.sum(h)`;

const TANGLE = `%%autodiff y --wrt x --name tangle
values = [x, np.sin(x), np.cos(x)]
for i in range(10000): values.append(OPS[KINDS[i]](values[A[i] % len(values)], values[B[i] % len(values)]))
y = np.sum(np.stack(values[-200:]))`;

const TANGLE_SETUP = `OPS = [np.add, np.subtract, lambda a, b: np.sin(a), lambda a, b: np.tanh(a + b)]
KINDS = rng.integers(0, 4, 10000)
A = rng.integers(0, 10**6, 10000)
B = A - rng.integers(1, 30, 10000)`;

/** The cards that can be seen, and what lies over the picture, on the page. */
interface IView {
  cards: IRect[];
  over: Record<string, IRect | null>;
  leastText: number;
}

async function look(graph: GraphOnPage): Promise<IView> {
  return graph.panel.evaluate(panel => {
    const canvas = panel.querySelector<Probed>(
      '.workbench-Cell > * > .workbench-Canvas'
    )!;
    const probe = canvas.workbenchCanvas;
    const origin = canvas.getBoundingClientRect();
    const cards = new Map<string, IRect>();
    for (let node = 0; node < 30_000; node++) {
      const box = probe.boxOf(node);
      if (box === null) {
        break;
      }
      const { width, height } = probe.size;
      const right = Math.min(box.x + box.width, width);
      const bottom = Math.min(box.y + box.height, height);
      const x = Math.max(0, box.x);
      const y = Math.max(0, box.y);
      if (right > x && bottom > y) {
        const seen = { x: x + origin.x, y: y + origin.y, width: right - x, height: bottom - y };
        cards.set(JSON.stringify(seen), seen);
      }
    }
    const over: Record<string, IRect | null> = {};
    for (const name of ['Legend', 'Canvas-minimap', 'Canvas-signposts', 'Canvas-tooltip']) {
      const part = panel.querySelector<HTMLElement>(`.workbench-${name}`);
      const box = part?.getBoundingClientRect();
      over[name] =
        box === undefined || box.width === 0
          ? null
          : { x: box.x, y: box.y, width: box.width, height: box.height };
    }
    return { cards: [...cards.values()], over, leastText: probe.leastText };
  });
}

function meet(a: IRect, b: IRect): boolean {
  return (
    a.x < b.x + b.width - 0.5 &&
    b.x < a.x + a.width - 0.5 &&
    a.y < b.y + b.height - 0.5 &&
    b.y < a.y + a.height - 0.5
  );
}

/** Nothing lies over a card, and what is written can be read. */
async function expectClear(graph: GraphOnPage): Promise<void> {
  const { cards, over, leastText } = await look(graph);
  expect(cards.length).toBeGreaterThan(1);
  for (const [name, rect] of Object.entries(over)) {
    const covered = rect === null ? [] : cards.filter(card => meet(card, rect));
    expect(covered, `${name} lies over cards`).toEqual([]);
  }
  expect(leastText).toBeGreaterThanOrEqual(9);
  expect(leastText).toBeLessThan(40);
}

/** Whether a node's card is in sight, or a link leads to it. */
async function isReachable(graph: GraphOnPage, node: number, label: string): Promise<boolean> {
  const inSight = await graph.canvas.evaluate((canvas, id) => {
    const probe = (canvas as Probed).workbenchCanvas;
    const box = probe.boxOf(id);
    return (
      box !== null &&
      box.x >= 0 &&
      box.y >= 0 &&
      box.x + box.width <= probe.size.width &&
      box.y + box.height <= probe.size.height
    );
  }, node);
  const links = graph.panel.locator('.workbench-Canvas-signposts button');
  return inSight || (await links.filter({ hasText: label }).count()) > 0;
}

async function boxOf(graph: GraphOnPage, node: number): Promise<IRect | null> {
  return graph.canvas.evaluate(
    (canvas, id) => (canvas as Probed).workbenchCanvas.boxOf(id),
    node
  );
}

/** The same once it stays: while a picture opens, the page around it may still move. */
async function settledBox(graph: GraphOnPage, node: number): Promise<IRect | null> {
  let before = await boxOf(graph, node);
  await expect(async () => {
    await new Promise(resolve => setTimeout(resolve, 600));
    const box = await boxOf(graph, node);
    const stays = JSON.stringify(box) === JSON.stringify(before);
    before = box;
    expect(stays).toBe(true);
  }).toPass();
  return before;
}

/** Run a cell, and wait for its picture. */
async function show(page: IJupyterLabPageFixture, cell: string): Promise<void> {
  await page.notebook.setCell(1, 'code', cell);
  await page.notebook.selectCells(1);
  await page.evaluate(async () => {
    const old = document.querySelector('.workbench-Canvas');
    await window.jupyterapp.commands.execute('notebook:run-cell');
    const fresh = (): boolean => {
      const now = document.querySelector<Probed>('.workbench-Canvas');
      return now !== null && now !== old && now.dataset['ready'] !== undefined;
    };
    while (!fresh()) {
      await new Promise(resolve => requestAnimationFrame(resolve));
    }
  });
}

/** How many ops the largest graphs have. */
const MANY = 100_000;

const SCOPED = `%%autodiff y --wrt x --name scoped
h = x
for i in range(${String(MANY / 2)}): layer = wb.scope(f'block{i // 5000}/layer{i // 250 % 20}'); layer.__enter__(); h = np.sin(h) * 1.01; layer.__exit__(None, None, None)
y = np.sum(h)`;

const LARGE_TANGLE = `%%autodiff y --wrt x --name many
values = [x, np.sin(x), np.cos(x)]
for i in range(${String(MANY)}): values.append(OPS[KINDS[i % 10000]](values[A[i % 10000] % len(values)], values[B[i % 10000] % len(values)]))
y = np.sum(np.stack(values[-200:]))`;

test('the first view, and what does not move it', async ({ page }) => {
  await page.setViewportSize({ width: 1400, height: 900 });
  await page.notebook.createNew('large.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', `${SETUP}\n${TANGLE_SETUP}`);
  await page.notebook.addCell('code', NET);
  await page.notebook.runCell(0);
  const graph = new GraphOnPage(page);

  for (const [name, cell, output, wrt] of [
    ['small', NET, 'loss', 'W'],
    ['recurrent', RECURRENT, 'loss', 'W'],
    ['tangle', TANGLE, 'y', 'x']
  ] as const) {
    await show(page, cell);
    await graph.ready();
    await graph.live();
    await page.mouse.move(0, 0);
    await expectClear(graph);
    for (const label of [output, wrt]) {
      const node = await graph.node(label);
      expect(await isReachable(graph, node, label), `${name}: ${label}`).toBe(true);
    }
    const node = await graph.node(output);
    const before = await settledBox(graph, node);
    await graph.screenshotAsIs(`large-${name}-1400-light`);
    await page.theme.setDarkTheme();
    await graph.screenshotAsIs(`large-${name}-1400-dark`);
    expect(await boxOf(graph, node)).toEqual(before);
    await page.setViewportSize({ width: 1000, height: 900 });
    // A view that nobody moved is fitted again, and again when the page is as before.
    await expect.poll(() => boxOf(graph, node)).not.toEqual(before);
    await settledBox(graph, node);
    expect(await isReachable(graph, node, output), `${name}: ${output}`).toBe(true);
    await graph.screenshotAsIs(`large-${name}-1000-dark`);
    await page.theme.setLightTheme();
    await page.screenshot({ path: screenshotOf(`large-${name}-1000-light`) });
    await page.setViewportSize({ width: 1400, height: 900 });
    await expect.poll(() => boxOf(graph, node)).toEqual(before);
  }
});

test('a graph of very many nodes opens folded', async ({ page }) => {
  test.setTimeout(600_000);
  await page.setViewportSize({ width: 1400, height: 900 });
  await page.notebook.createNew('many.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', `${SETUP}\nimport workbench as wb\n${TANGLE_SETUP}`);
  await page.notebook.addCell('code', SCOPED);
  await page.notebook.runCell(0);
  const graph = new GraphOnPage(page);
  for (const [name, cell] of [
    ['scopes', SCOPED],
    ['a tangle', LARGE_TANGLE]
  ] as const) {
    await show(page, cell);
    await graph.ready();
    const cards = graph.panel.locator(
      '.workbench-Cell > * > .workbench-Tree [role=treeitem]'
    );
    await graph.screenshotAsIs(`large-many-${name.replace('a ', '')}`);
    // The tree of cards is made once the worker has folded the graph.
    await expect.poll(() => cards.count(), { timeout: 60_000 }).toBeGreaterThan(3);
    expect(await cards.count()).toBeLessThan(1000);
  }
});
