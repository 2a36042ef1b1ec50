import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, open, print, runAll } from './graph';

const NOTEBOOK = '10-your-numpy.ipynb';

/** Between the smallest and the largest derivative by a singular value. */
const BOUND = 0.5;

/**
 * The gradient by A written by hand in NumPy, with what flows back to the singular
 * values clipped: how far the session's gradient is from it, and from the true one.
 * Singular values move by the diagonal of uᵀ dA v. The rotation u vᵀ moves within
 * the columns of u by the skew part of it, over s_i + s_j, and out of them by dA v / s.
 */
const BY_HAND = `
import numpy as _np
_A = factors.values["A"]
_u, _s, _vh = _np.linalg.svd(_A, full_matrices=False)
_g = 3 * (_u @ _vh) ** 2
_p = _u.T @ _g @ _vh.T
_rest = _u @ ((_p - _p.T) / _np.add.outer(_s, _s)) @ _vh
_rest = _rest + (_g - _u @ (_u.T @ _g)) @ _vh.T / _s @ _vh
_far = lambda d: _np.abs(factors.grads["A"] - _u @ _np.diag(d) @ _vh - _rest).max()
print(_far(1 / _s) < 1e-9, _far(_np.clip(1 / _s, -${BOUND}, ${BOUND})) < 1e-9)
`;

/** The panel below the cell of a graph with this name; the notebook has three. */
const panelOf = (name: string): string =>
  `.jp-CodeCell:has-text("--name ${name}") .workbench-Panel`;

// High enough for a graph with its drawer.
test.use({ viewport: { width: 1280, height: 1150 } });

test('one output of svd is clipped by mouse, and the kernel holds that gradient', async ({
  page,
  tmpPath
}) => {
  await open(page, tmpPath, NOTEBOOK);
  await runAll(page);
  const graph = new GraphOnPage(page, panelOf('factors'));
  await graph.ready();
  await graph.live();
  expect(await print(page, BY_HAND)).toBe('True False');

  await graph.click(await graph.node('svd'));
  const facts = graph.panel.locator('.workbench-Facts');
  await expect(facts).toContainText('outputsU: 6 × 4 · float64S: 4 · float64');
  await expect(facts).toContainText('Vᴴ');
  await graph.screenshot('light-svd');

  await graph.click(await graph.node('S, of svd'));
  await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('Sof svd');
  await graph.chip('clip').click();
  await graph.panel.getByLabel('from', { exact: true }).fill(String(-BOUND));
  await graph.panel.getByLabel('to', { exact: true }).fill(String(BOUND));
  await expect(graph.panel.locator('.workbench-Message')).toHaveText('ok');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('changes ∂loss/∂A by');
  expect(await print(page, BY_HAND)).toBe('False True');
  await graph.screenshot('light-svd-clipped');

  await graph.button('Jacobian of S').click();
  const drawer = graph.panel.locator('.workbench-Drawer');
  await expect(drawer.locator('.js-plotly-plot')).toBeVisible({ timeout: 30_000 });
  await graph.screenshot('light-svd-jacobian');
  await graph.button(/^Undo/).click();
  await graph.showInspector();
  await expect(graph.tab('Overrides')).toHaveText('Overrides');
  expect(await print(page, BY_HAND)).toBe('True False');
});

test('the stores of a loop are one card, which opens', async ({ page, tmpPath }) => {
  await open(page, tmpPath, NOTEBOOK);
  await runAll(page);
  const graph = new GraphOnPage(page, panelOf('smoothing'));
  await graph.ready();
  await graph.live();
  const tree = graph.panel.locator('.workbench-Cell > * > .workbench-Tree');
  await expect(tree).toContainText('loop, line 5, 39 steps');
  await graph.screenshot('light-stores');

  const stores = tree.locator('[data-node]').filter({ hasText: 'index_set' });
  await expect(stores).toHaveCount(1);
  // By keyboard it opens one step, with the store of that step.
  await graph.click(await graph.node('subtract'));
  await graph.canvas.focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(stores).toHaveCount(2);
  const strip = graph.panel.locator('.workbench-IterationStrip');
  await strip.getByRole('textbox').fill('17');
  await strip.getByRole('textbox').press('Enter');
  await expect(strip.getByRole('status')).toHaveText('step 17 of 39');
  await graph.ready();
  await graph.button('Fit the graph into view').click();
  await graph.screenshot('light-stores-open');
});
