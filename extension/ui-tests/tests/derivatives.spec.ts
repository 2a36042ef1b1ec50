/** Any derivative in the picture (row G2): two nodes chosen, a heat map to zoom. */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';
import type { Locator } from '@playwright/test';

import { GraphOnPage, kernelReady, print } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
W = np.linspace(-0.9, 1.1, 12).reshape(4, 3)
x = np.array([0.5, -1.0, 2.0])
t = np.array([1.0, 0.0, 1.0, 0.0])
c = np.array([1.0, 4.0, 25.0, 100.0])
v = np.array([0.3, -0.2, 0.7, 1.5])
u = np.linspace(-1.0, 2.0, 100_000)
r = np.linspace(-1.0, 1.0, 30_000)`;

const NETWORK = `%%autodiff loss --wrt W --name net
z = W @ x
h = np.tanh(z)
loss = np.sum((h - t) ** 2)`;

/** Its Hessian by v has the entries of c on its diagonal, and no others. */
const QUADRATIC = `%%autodiff q --wrt v --name bowl
q = np.sum(c * v * v) / 2`;

/** Entry i of s is the sum of a thousand squares: its derivatives are 2 u there. */
const LARGE = `%%autodiff total --wrt u --name wide
s = np.sum(np.reshape(u * u, (100, 1000)), axis=1)
total = np.sum(np.sqrt(s))`;

// High enough for a graph with its drawer.
test.use({ viewport: { width: 1280, height: 1150 } });

/** Each entry of w by each of r: 900 million derivatives, which takes a while. */
const HUGE = `%%autodiff total --wrt r --name huge
w = np.tanh(r)
total = np.sum(w)`;

/** A notebook with a program, run, and its graph. */
async function graphOf(
  page: IJupyterLabPageFixture,
  cell: string
): Promise<GraphOnPage> {
  await page.notebook.createNew('derivatives.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', cell);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  return graph;
}

/** The drawer of a graph, and the heat map in it. */
class DrawerOnPage {
  readonly node: Locator;
  readonly caption: Locator;
  readonly entry: Locator;
  readonly figure: Locator;

  constructor(readonly graph: GraphOnPage) {
    this.node = graph.panel.locator('.workbench-Drawer');
    this.caption = this.node.locator('.workbench-CaptionWords');
    this.entry = this.node.locator('.workbench-Entry');
    this.figure = this.node.locator('.workbench-Figure');
  }

  async drawn(): Promise<void> {
    // A pattern has the compressed matrix beside it, in axes of its own.
    const axes = this.figure.locator('.nsewdrag').first();
    await expect(axes).toBeVisible({ timeout: 30_000 });
    await expect(this.node.locator('.workbench-Working')).toHaveCount(0);
  }

  /** Where a cell is on the page, of so many rows and columns. */
  async cell(
    row: number,
    column: number,
    rows: number,
    columns: number
  ): Promise<{ x: number; y: number }> {
    const box = (await this.figure.locator('.nsewdrag').boundingBox())!;
    return {
      x: box.x + ((column + 0.5) / columns) * box.width,
      y: box.y + ((row + 0.5) / rows) * box.height
    };
  }

  /** Drag over the figure from one cell to another, of so many rows and columns. */
  async drag(from: Place, to: Place, [rows, columns]: Place): Promise<void> {
    const { mouse } = this.graph.page;
    const start = await this.cell(...from, rows, columns);
    const end = await this.cell(...to, rows, columns);
    await mouse.move(start.x, start.y);
    await mouse.down();
    await mouse.move(end.x, end.y, { steps: 4 });
    await mouse.up();
  }
}

/** A row and a column, or how many there are. */
type Place = [number, number];

/** The entry ∂h[i]/∂W[i, j] of the network, by hand. */
const entryOf = (i: number, j: number): string => `
import math as _m
_z = sum(float(W[${i}, k]) * float(x[k]) for k in range(3))
print(f"{(1 - _m.tanh(_z) ** 2) * float(x[${j}]):.8g}")`;

test('G2: two nodes by mouse, a heat map, and its entries are right @smoke', async ({
  page
}) => {
  const graph = await graphOf(page, NETWORK);
  const drawer = new DrawerOnPage(graph);
  const strip = graph.panel.locator('.workbench-PairStrip');
  await graph.click(await graph.node('h, tanh'));
  await expect(strip).toBeHidden();
  await graph.click(await graph.node('W'), ['Shift']);
  await expect(strip).toContainText('∂ h / ∂ W');
  await expect(strip).toContainText('4 × 12');
  await graph.screenshot('light-pair');
  await strip.getByRole('button', { name: 'Derivative' }).click();
  await drawer.drawn();
  await expect(drawer.node.getByRole('tab')).toHaveText(/∂h \/ ∂W/);

  const cell = await drawer.cell(2, 7, 4, 12);
  await page.mouse.move(cell.x, cell.y);
  const expected = await print(page, entryOf(2, 1));
  const hover = drawer.figure.locator('.hoverlayer');
  await expect(hover).toContainText('W[2, 1]');
  const hovered = (await hover.textContent())!.replace('−', '-');
  expect(hovered).toContain(expected.slice(0, 6));
  await page.mouse.click(cell.x, cell.y);
  await expect(drawer.entry).toContainText('∂ h[2] / ∂ W[2, 1] = ');
  const told = async (): Promise<number> =>
    Number((await drawer.entry.textContent())!.split(' = ')[1].replace('−', '-'));
  expect(await told()).toBeCloseTo(Number(expected), 6);
  await graph.screenshot('light-derivative');

  // The keys walk on; where rows do not meet there is nothing.
  await drawer.figure.focus();
  await page.keyboard.press('ArrowRight');
  await expect(drawer.entry).toContainText('∂ h[2] / ∂ W[2, 2] = ');
  expect(await told()).toBeCloseTo(Number(await print(page, entryOf(2, 2))), 6);
  await page.keyboard.press('ArrowUp');
  await expect(drawer.entry).toHaveText('∂ h[1] / ∂ W[2, 2] = 0');

  // The other views of the same nodes.
  await drawer.node.getByRole('radio', { name: 'singular values' }).click();
  await expect(drawer.node.getByRole('tab')).toHaveText(/Singular values/);
  await expect(drawer.caption).toContainText('rank');
  await graph.screenshot('light-singular');
  await drawer.node.getByRole('radio', { name: 'sparsity' }).click();
  await expect(drawer.caption).toContainText('12 of 48 entries can differ from zero');
  await expect(drawer.caption).toContainText('1 colour of rows');
  // An entry tells its colour; the compressed matrix beside is not walked.
  await drawer.figure.focus();
  await page.keyboard.press('ArrowRight');
  await expect(drawer.entry).toContainText(
    /can differ from zero, colour 1|is always zero/
  );
  await graph.screenshot('light-sparsity');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-sparsity');
  await drawer.node.getByRole('radio', { name: 'Jacobian' }).click();
  await drawer.drawn();
  await graph.screenshot('dark-derivative');

  // A click elsewhere lets go of the pair.
  await graph.click(await graph.node('loss'));
  await expect(strip).toBeHidden();
});

test('G2: two nodes by keyboard alone, refused where there is no way', async ({
  page
}) => {
  const graph = await graphOf(page, NETWORK);
  const drawer = new DrawerOnPage(graph);
  const strip = graph.panel.locator('.workbench-PairStrip');
  const said = graph.panel.locator('.workbench-Pair [role=status]');
  await graph.canvas.focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('/');
  await page.keyboard.type('z');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await graph.canvas.focus();
  await page.keyboard.press('m');
  await expect(said).toContainText('z is marked. Select a second node');
  await page.keyboard.press('ArrowDown');
  await expect(strip).toContainText('∂ h / ∂ z');
  await expect(said).toContainText('h is computed from z');
  await page.keyboard.press('Enter');
  await drawer.drawn();
  await expect(drawer.node.getByRole('tab')).toHaveText(/∂h \/ ∂z/);
  await expect(drawer.caption).toContainText('75% zeros');

  // By keyboard into the heat map, closer, and out of the drawer.
  await drawer.figure.focus();
  await page.keyboard.press('ArrowDown');
  await expect(drawer.entry).toContainText('∂ h[0] / ∂ z[0] = ');
  await page.keyboard.press('+');
  await expect(drawer.caption).toContainText('row 0, column 0 of it');
  await page.keyboard.press('0');
  await expect(drawer.caption).not.toContainText('row 0');
  await page.keyboard.press('Escape');
  await expect(drawer.node).toBeHidden();
  await expect(graph.canvas).toBeFocused();

  await page.keyboard.press('Escape');
  await expect(strip).toBeHidden();
  await graph.click(await graph.node('x'));
  await graph.click(await graph.node('t'), ['Shift']);
  await expect(strip).toContainText('is computed from the other');
  await graph.screenshot('light-no-way');
});

test('G2: zooming asks for finer entries, down to single ones', async ({ page }) => {
  const graph = await graphOf(page, LARGE);
  const drawer = new DrawerOnPage(graph);
  await graph.click(await graph.node('s, sum'));
  await graph.click(await graph.node('u'), ['Shift']);
  await graph.panel
    .locator('.workbench-PairStrip')
    .getByRole('button', { name: 'Derivative' })
    .click();
  await drawer.drawn();
  await expect(drawer.caption).toContainText('100 × 100,000');
  await expect(drawer.caption).toContainText('largest magnitude of its block');
  await graph.screenshot('light-pooled');

  await drawer.drag([40, 80], [49, 91], [100, 200]);
  await expect(drawer.caption).toContainText('rows 40 to 49, columns 40,000 to 45,999');
  await drawer.drawn();
  await graph.screenshot('light-zoomed');
  await drawer.drag([0, 20], [1, 29], [10, 200]);
  await expect(drawer.caption).toContainText('rows 40 to 41, columns 40,600 to 40,899');
  await drawer.drawn();
  await drawer.drag([0, 50], [1, 59], [2, 150]);
  await expect(drawer.caption).toContainText('columns 40,700 to 40,719');
  await expect(drawer.caption).not.toContainText('block');
  await drawer.drawn();
  await graph.screenshot('light-entries');
  const cell = await drawer.cell(0, 3, 2, 20);
  await page.mouse.click(cell.x, cell.y);
  await expect(drawer.entry).toContainText('∂ s[40] / ∂ u[40703] = ');
  const [, index, value] = /u\[(\d+)\] = (.*)$/.exec(
    (await drawer.entry.textContent())!
  )!;
  const expected = 2 * (-1 + (3 * Number(index)) / 99_999);
  expect(Number(value.replace('−', '-'))).toBeCloseTo(expected, 6);

  // A double click shows all again, as Plotly has it.
  const middle = await drawer.cell(1, 10, 2, 20);
  await page.mouse.dblclick(middle.x, middle.y);
  await expect(drawer.caption).toContainText('(1 × 500)');
  // Plotly's own tips would cover the page.
  await expect(page.locator('.plotly-notifier .notifier-note')).toHaveCount(0);
});

test('G2: a Hessian has eigenvalues and a condition number', async ({ page }) => {
  const graph = await graphOf(page, QUADRATIC);
  const drawer = new DrawerOnPage(graph);
  await graph.click(await graph.node('v'));
  await graph.button('Hessian by v').click();
  await drawer.drawn();
  await expect(drawer.caption).toContainText('4 × 4');
  await graph.screenshot('light-hessian');
  await drawer.node.getByRole('radio', { name: 'eigenvalues' }).click();
  await expect(drawer.caption).toContainText('4 positive');
  await expect(drawer.caption).toContainText('from 1 to 100; condition number 100');
  await graph.screenshot('light-spectrum');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-spectrum');
  await drawer.node.getByRole('radio', { name: 'landscape' }).click();
  await expect(drawer.caption).toContainText('from');
  await expect(drawer.node.getByText('curvature 100')).toBeVisible();
  await graph.screenshot('dark-landscape');
  await page.theme.setLightTheme();
  await graph.screenshot('light-landscape');
});

test('G2: a long one is stopped, and the next one answers', async ({ page }) => {
  const graph = await graphOf(page, HUGE);
  const drawer = new DrawerOnPage(graph);
  await graph.click(await graph.node('w, tanh'));
  await graph.click(await graph.node('r'), ['Shift']);
  await page.keyboard.press('Enter');
  const stop = drawer.node.getByRole('button', { name: 'Stop' });
  await expect(drawer.caption).toContainText('The kernel is working on it');
  await stop.click();
  await expect(drawer.caption).toHaveText('Stopped.');

  const menu = graph.panel.getByLabel('Derivative between this node and another');
  const offered = await graph.panel
    .locator('.workbench-DerivativeMenu option')
    .evaluateAll(all => all.map(one => (one as HTMLOptionElement).value));
  await menu.fill(offered.find(text => /^∂ total\b.*\/ ∂ r\b/.test(text)) ?? '');
  await drawer.drawn();
  await expect(drawer.caption).toContainText('1 × 30,000');
  await expect(drawer.node.getByRole('tab')).toHaveCount(2);
  await expect(drawer.caption).not.toContainText('the graph changed');
});
