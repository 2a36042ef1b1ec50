/** Loops as loops: one iteration among hundreds, and overrides in some of them. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const SETUP = `%load_ext workbench
import workbench as wb
import numpy as np
rng = np.random.default_rng(0)
W = rng.normal(size=(8, 8)) / 3
xs = rng.normal(size=(500, 8))
v0, k = np.array([0.0, 1.0]), 2.0`;

// The editor would indent what follows a line that ends with a colon.
const LOOP = `%%autodiff loss --name net --wrt W
h = np.zeros(8)
for t in range(500): h = np.tanh(W @ h + xs[t])
loss = np.sum(h**2)`;

async function begin(
  page: ConstructorParameters<typeof GraphOnPage>[0],
  cell: string
): Promise<GraphOnPage> {
  await page.notebook.createNew('loops.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', cell);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  return graph;
}

test('a loop of 500 steps, one step at a time', async ({ page }) => {
  const graph = await begin(page, LOOP);
  const { panel } = graph;
  const strip = panel.locator('.workbench-IterationStrip');
  const field = strip.getByRole('textbox');
  await graph.screenshot('loops-folded');

  // The card of the loop opens the step that is selected.
  await graph.click(await graph.node('loss, sum'));
  await graph.canvas.focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(field).toHaveValue('499');
  await field.fill('17');
  await field.press('Enter');
  await expect(strip.getByRole('status')).toHaveText('step 17 of 500');
  await graph.ready();
  await graph.button('Fit the graph into view').click();
  await graph.screenshot('loops-step-17');
  await field.fill('400');
  await field.press('Enter');
  await expect(strip.getByRole('status')).toHaveText('step 400 of 500');
  await expect(field).toBeFocused();
  await strip.getByRole('button', { name: 'Step after' }).click();
  await expect(strip.getByRole('status')).toHaveText('step 401 of 500');

  // Search lands in a step, and says in which.
  const search = panel.getByRole('searchbox');
  await search.fill('tanh');
  await search.press('Enter');
  await search.press('Shift+Enter');
  await expect(panel.locator('.workbench-Hits')).toContainText('step 499 of 500');
  await expect(strip.getByRole('status')).toHaveText('step 499 of 500');
  await search.fill('');
  await graph.screenshot('loops-found');

  // An override in this step, then in some, then in all.
  await graph.chip('scale').click();
  await graph.field.fill('0 * d');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('changes');
  expect(await print(page, 'print(net.grads["W"].any())')).toBe('False');
  await graph.chip('its loop').click();
  const steps = panel.getByRole('textbox', { name: 'in steps' });
  await steps.fill('10:20');
  await expect(panel.locator('.workbench-RuleForm')).toContainText('steps 10 to 19');
  await graph.field.fill('0.5 * d');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('in steps 10 to 19');
  expect(await print(page, 'print(len(net.overrides[0].matched))')).toBe('10');
  await graph.screenshot('loops-range');
  await steps.fill('');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('in all 500 steps');
  expect(await print(page, 'print(len(net.overrides[0].matched))')).toBe('500');

  await page.theme.setDarkTheme();
  await page.setViewportSize({ width: 1000, height: 800 });
  await graph.ready();
  await graph.screenshot('loops-dark-1000');

  // In a narrow panel as well what opens leaves output and parameters in sight.
  const width = await panel.evaluate(({ clientWidth }) => clientWidth);
  await page.setViewportSize({ width: 1000 - width + 560, height: 800 });
  await expect.poll(() => panel.evaluate(({ clientWidth }) => clientWidth)).toBe(560);
  await strip.getByRole('button', { name: 'Fold' }).click();
  await expect(strip).toHaveCount(0);
  await graph.click(await graph.node('loss, sum'));
  await graph.canvas.focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(strip).toHaveCount(1);
  const links = panel.locator('.workbench-Canvas-signposts button');
  await expect(links.filter({ visible: true })).toHaveCount(0);
  await expect(graph.canvas.locator('.workbench-Canvas-minimap')).toBeHidden();
  await graph.screenshot('loops-dark-560');
  await page.theme.setLightTheme();
  await graph.screenshot('loops-light-560');
  await strip.getByRole('button', { name: 'Fold' }).click();
  await expect(strip).toHaveCount(0);
});

const SCAN = `%%autodiff loss --name net --wrt W
hs = wb.scan(lambda x, h, W: np.tanh(W @ h + x), [xs], [np.zeros(8)], [W])
loss = np.sum(hs[-1] ** 2)`;

test('a scan of 500 steps opens at one of them', async ({ page }) => {
  const graph = await begin(page, SCAN);
  const { panel } = graph;
  const inside = panel.locator('.workbench-Inside');
  const picture = inside.locator('.workbench-Canvas');
  const strip = inside.locator('.workbench-IterationStrip');
  const field = strip.getByRole('textbox');
  // Its card shows the gradient along the loop, and the list tells it.
  const loop = panel.locator('.workbench-Tree [data-node]').filter({ hasText: /^scan,/ });
  await expect(loop).toContainText('gradient along 500 steps');
  await graph.screenshot('loops-scan');
  await graph.click(await graph.node('scan'));
  await graph.button('Look inside').click();
  await expect(picture).toHaveAttribute('data-ready', /.*/);
  await expect(strip.getByRole('status')).toHaveText('step 0 of 500');
  await field.fill('17');
  await field.press('Enter');
  await expect(strip.getByRole('status')).toHaveText('step 17 of 500');
  await field.fill('499');
  await field.press('Enter');
  await expect(strip.getByRole('status')).toHaveText('step 499 of 500');

  // Search goes on in there, and the node has its numbers of this step.
  const search = panel.getByRole('searchbox');
  await search.fill('tanh');
  await search.press('Enter');
  const pane = panel.getByRole('complementary', { name: 'Node inside' });
  await expect(pane.locator('.workbench-NodeName')).toContainText('tanh');
  await expect(pane.locator('.workbench-Facts')).toContainText('g · (1 − y²)');
  await expect(pane.locator('.workbench-Distributions')).toContainText('gradient');
  await search.fill('');
  await graph.screenshot('inside-light');

  // A rule in this step alone, then in some.
  const steps = pane.getByRole('textbox', { name: 'in steps' });
  await expect(steps).toHaveValue('499');
  await pane.getByRole('radio', { name: 'scale', exact: true }).click();
  await pane.locator('.workbench-Expression').fill('0 * d');
  await pane.getByRole('button', { name: 'Apply' }).click();
  await expect(pane.locator('.workbench-Current')).toContainText('in step 499');
  expect(await print(page, 'print(net.grads["W"].any())')).toBe('False');
  await steps.fill('490:500');
  await expect(pane.locator('.workbench-RuleForm')).toContainText('steps 490 to 499');
  await pane.getByRole('button', { name: 'Apply' }).click();
  await expect(pane.locator('.workbench-Current')).toContainText('in steps 490 to 499');
  await graph.screenshot('inside-range');
  await page.theme.setDarkTheme();
  await page.setViewportSize({ width: 1000, height: 800 });
  await graph.screenshot('inside-dark-1000');
  await inside.getByRole('button', { name: 'whole graph' }).click();
  await expect(inside).toBeHidden();
  await graph.ready();
  await graph.screenshot('inside-left');
});

const SHORT = `%%autodiff loss --name net --wrt W
hs = wb.scan(lambda x, h, W: np.tanh(W @ h + x), [xs[:40]], [np.zeros(8)], [W])
loss = np.sum(hs[-1] ** 2)`;
const TRAIN = `weights = [W]
for run in range(30): net.run(W=weights[run]); weights.append(weights[run] - 0.05 * net.grads["W"])`;

/** The state after a step of a run, as a loop of plain NumPy has it. */
const stateOf = (run: number, step: number): string => `
h = np.zeros(8)
for t in range(${step} + 1): h = np.tanh(weights[${run} - 1] @ h + xs[t])
print(h)`;

for (const [theme, width, height] of [
  ['light', 1400, 900],
  ['dark', 1000, 700]
] as const) {
  test(`a scan of 30 runs is scrubbed inside, ${theme}`, async ({ page }) => {
    test.setTimeout(150_000);
    await page.setViewportSize({ width, height });
    if (theme === 'dark') {
      await page.theme.setDarkTheme();
    }
    const graph = await begin(page, SHORT);
    expect(await print(page, TRAIN)).toBe('');
    const runs = graph.panel.locator('.workbench-Runs');
    await expect(runs.getByRole('status')).toHaveText(/^30 steps · 30 kept, .*B$/);
    await graph.click(await graph.node('scan'));
    await graph.button('Look inside').click();
    const inside = graph.panel.locator('.workbench-Inside');
    const strip = inside.locator('.workbench-IterationStrip');
    await strip.getByRole('textbox').fill('17');
    await strip.getByRole('textbox').press('Enter');
    await expect(strip.getByRole('status')).toHaveText('step 17 of 40');
    const search = graph.panel.getByRole('searchbox');
    await search.fill('tanh');
    await search.press('Enter');
    await search.fill('');
    const pane = graph.panel.getByRole('complementary', { name: 'Node inside' });
    const numbers = pane.locator('.workbench-NodeNumbers');
    await expect(numbers).toContainText(await print(page, stateOf(30, 17)));
    await graph.screenshot(`scan-${theme}-live`);

    // To a run of the past: the same step of the scan, in the numbers of that run.
    const slider = runs.getByRole('slider', { name: 'Run' });
    for (const run of [10, 1]) {
      await slider.fill(String(run - 1));
      await expect(runs.getByRole('status')).toHaveText(`step ${run} of 30`);
      await expect(strip.getByRole('status')).toHaveText('step 17 of 40');
      await expect(numbers).toContainText(await print(page, stateOf(run, 17)));
      await graph.screenshot(`scan-${theme}-run-${run}`);
    }

    // And along the scan of that run.
    await strip.getByRole('textbox').fill('39');
    await strip.getByRole('textbox').press('Enter');
    await expect(strip.getByRole('status')).toHaveText('step 39 of 40');
    await expect(numbers).toContainText(await print(page, stateOf(1, 39)));
    await runs.getByRole('button', { name: 'Live' }).click();
    await expect(numbers).toContainText(await print(page, stateOf(30, 39)));
  });
}

const NEST = `%%autodiff loss --name net --wrt W
from functools import reduce
inner = lambda W, h: reduce(lambda h, x: np.tanh(W @ h + x), xs[:12], h)
h = np.zeros(8)
for i in range(10): h = 1.2 * np.sin(inner(W, h))
loss = np.sum(h**2)`;

test('a loop in a loop opens level by level', async ({ page }) => {
  await page.setViewportSize({ width: 1400, height: 900 });
  const graph = await begin(page, NEST);
  const { panel } = graph;
  const all = panel.locator('.workbench-IterationStrip');
  await graph.screenshot('loops-nest-folded');
  await graph.click(await graph.node('loss, sum'));
  await graph.canvas.focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(all).toHaveCount(1);
  await all.first().getByRole('textbox').fill('3');
  await all.first().getByRole('textbox').press('Enter');
  await expect(all.first().getByRole('status')).toHaveText('step 3 of 10');
  await graph.ready();
  await graph.button('Fit the graph into view').click();
  await graph.screenshot('loops-nest-outer');

  // Search lands in a step of the inner loop, in a step of the outer one.
  const search = panel.getByRole('searchbox');
  await search.fill('tanh');
  await search.press('Shift+Enter');
  await expect(panel.locator('.workbench-Hits')).toContainText('in step 9 of 10');
  await expect(all).toHaveCount(2);
  await search.fill('');
  await all.nth(1).getByRole('textbox').fill('5');
  await all.nth(1).getByRole('textbox').press('Enter');
  await expect(all.nth(1).getByRole('status')).toHaveText('step 5 of 12');
  await all.first().getByRole('textbox').fill('4');
  await all.first().getByRole('textbox').press('Enter');
  await expect(all.first().getByRole('status')).toHaveText('step 4 of 10');
  await expect(all.nth(1).getByRole('status')).toHaveText('step 5 of 12');
  await graph.ready();
  await graph.button('Fit the graph into view').click();
  await graph.screenshot('loops-nest-inner');
  await page.theme.setDarkTheme();
  await page.setViewportSize({ width: 1000, height: 800 });
  await graph.ready();
  await graph.screenshot('loops-nest-dark-1000');
  await all.first().getByRole('button', { name: 'Fold' }).click();
  await expect(all).toHaveCount(0);
});

const PARTS = `%load_ext workbench
import workbench as wb
import numpy as np
a, b = wb.vectors("a b")
swing = wb.OpFromGraph([a, b], [np.sin(a) * b], name="swing")
layer = wb.checkpoint(lambda h: np.tanh(1.5 * h))
turn = lambda h: wb.cond(np.sum(h) > 0.2, lambda h: np.tanh(h) - 0.3, np.cos, h)
w = np.array([0.5, -0.2])
def by_hand(a, b):
    h = np.tanh(1.5 * np.sin(a) * b)
    for t in range(6):
        h = np.tanh(h) - 0.3 if np.sum(h).real > 0.2 else np.cos(h)
    return np.sum(h**2)
by_a = [by_hand(w + 1e-30j * e, 2 * w).imag / 1e-30 for e in np.eye(2)]
by_b = [by_hand(w, 2 * w + 1e-30j * e).imag / 1e-30 for e in np.eye(2)]
by_a, by_b = np.array(by_a), np.array(by_b)`;

const CHOICES = `%%autodiff loss --name net --wrt w
hs = wb.scan(turn, initial=[layer(swing(w, 2 * w))], n_steps=6)
loss = np.sum(hs[-1] ** 2)`;

test('a branch, the graph of an op and a checkpoint open as well', async ({ page }) => {
  await page.notebook.createNew('inside.ipynb');
  await kernelReady(page);
  // The editor would indent the lines of a function once more.
  expect(await print(page, PARTS)).toBe('');
  await page.notebook.setCell(0, 'code', CHOICES);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const { panel } = graph;
  const inside = panel.locator('.workbench-Inside');
  const picture = inside.locator('.workbench-Canvas');
  const crumbs = inside.getByRole('navigation', { name: 'Inside' });
  const list = inside.locator('.workbench-Tree [data-node]');
  const strip = inside.locator('.workbench-IterationStrip');
  const pane = panel.getByRole('complementary', { name: 'Node inside' });
  const search = panel.getByRole('searchbox');
  const gradient = (truth: string): Promise<string> =>
    print(page, `print(np.allclose(net.grads["w"], ${truth}))`);
  expect(await gradient('by_a + 2 * by_b')).toBe('True');

  // The graph of an op has no steps; a rule at one of its nodes is heard outside.
  await graph.click(await graph.node('swing'));
  await graph.button('Look inside').click();
  await expect(picture).toHaveAttribute('data-ready', /.*/);
  await expect(crumbs).toContainText('swing');
  await expect(strip).toBeHidden();
  await search.fill('sin');
  await search.press('Enter');
  await expect(pane.locator('.workbench-NodeName')).toContainText('sin');
  await expect(pane.locator('.workbench-Distributions')).toContainText('gradient');
  await search.fill('');
  await pane.getByRole('radio', { name: 'scale', exact: true }).click();
  await pane.locator('.workbench-Expression').fill('0 * d');
  await pane.getByRole('button', { name: 'Apply' }).click();
  await expect(pane.locator('.workbench-Current')).toBeVisible();
  expect(await gradient('2 * by_b')).toBe('True');
  await graph.screenshot('inside-op');
  await inside.getByRole('button', { name: 'whole graph' }).click();
  await graph.button(/^Undo:/).click();
  await graph.showInspector();
  await expect(graph.tab('Overrides')).toHaveText('Overrides');
  expect(await gradient('by_a + 2 * by_b')).toBe('True');

  await graph.click(await graph.node('checkpoint'));
  await graph.button('Look inside').click();
  await expect(list.filter({ hasText: /^tanh/ })).toHaveCount(1);
  await inside.getByRole('button', { name: 'whole graph' }).click();

  // In a loop the branch is the one that the step took.
  await graph.click(await graph.node('scan'));
  await graph.button('Look inside').click();
  for (const [step, taken, other] of [
    ['0', /^tanh/, /^cos/],
    ['1', /^cos/, /^tanh/]
  ] as const) {
    await strip.getByRole('textbox').fill(step);
    await strip.getByRole('textbox').press('Enter');
    await expect(strip.getByRole('status')).toHaveText(`step ${step} of 6`);
    await search.fill('cond');
    await search.press('Enter');
    await search.fill('');
    await pane.getByRole('button', { name: 'Look inside' }).click();
    await expect(crumbs).toContainText(`scan, step ${step}`);
    await expect(list.filter({ hasText: taken })).toHaveCount(1);
    await expect(list.filter({ hasText: other })).toHaveCount(0);
    await expect(strip).toBeHidden();
    await graph.screenshot(`inside-branch-${step}`);
    await crumbs.getByRole('button', { name: `scan, step ${step}` }).click();
    await expect(strip.getByRole('status')).toHaveText(`step ${step} of 6`);
  }
  await page.theme.setDarkTheme();
  await page.setViewportSize({ width: 1000, height: 800 });
  await graph.screenshot('inside-branch-dark-1000');
});

const PHYSICS = `%%autodiff E --name physics --wrt v0 k
x, v = np.array([1.0, 0.0]), v0
for t in range(400): v = v - 0.01 * (k * x + 0.1 * v); x = x + 0.01 * v
E = np.sum(x**2) + np.sum(v**2)`;

/** Whether the gradient by v0 is that of a loop by hand, halved at v in step 200. */
const HALVED = `
_x, _v = np.array([1.0, 0.0]), v0
for _ in range(400):
    _v = _v - 0.01 * (k * _x + 0.1 * _v)
    _x = _x + 0.01 * _v
_dx, _dv = 2 * _x, 2 * _v
for _t in reversed(range(400)):
    _dv = _dv + 0.01 * _dx
    _dv = _dv * (0.5 if _t == 200 else 1)
    _dx = _dx - 0.01 * k * _dv
    _dv = _dv - 0.001 * _dv
print(np.allclose(physics.grads["v0"], _dv, rtol=1e-10))
`;

test('a physics loop of 400 steps, with an override of one step from copied code', async ({
  page
}) => {
  await page.setViewportSize({ width: 1400, height: 900 });
  const graph = await begin(page, PHYSICS);
  const { panel } = graph;
  const strip = panel.locator('.workbench-IterationStrip');
  await graph.screenshot('physics-folded-1400');

  await graph.click(await graph.node('E, add'));
  await graph.canvas.focus();
  for (let up = 0; up < 3; up++) {
    await page.keyboard.press('ArrowUp');
  }
  await page.keyboard.press('Enter');
  const field = strip.getByRole('textbox');
  await expect(field).toHaveValue('399');
  await graph.ready();
  await graph.screenshot('physics-opened-1400');
  const last = await graph.node('v, subtract');
  await field.fill('200');
  await field.press('Enter');
  await expect(strip.getByRole('status')).toHaveText('step 200 of 400');
  // The picture follows the words: until then the list names the nodes of step 399.
  await expect.poll(() => graph.node('v, subtract')).not.toBe(last);
  await graph.ready();
  await graph.click(await graph.node('v, subtract'));
  await graph.field.fill('0.5 * d');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('changes');

  const code = await print(page, 'print(physics.code())');
  expect(code).toBe("physics.override('v', vjp='0.5 * d', steps=200)");
  const changed = await print(page, 'print(physics.grads["v0"])');
  await graph.button(/^Undo/).click();
  await expect.poll(() => print(page, 'print(len(physics.overrides))')).toBe('0');
  expect(await print(page, 'print(physics.grads["v0"])')).not.toBe(changed);
  await print(page, code);
  expect(await print(page, 'print(physics.grads["v0"])')).toBe(changed);
  expect(await print(page, HALVED)).toBe('True');
  await page.theme.setDarkTheme();
  await page.setViewportSize({ width: 1000, height: 700 });
  await graph.ready();
  await graph.screenshot('physics-dark-1000');
});
