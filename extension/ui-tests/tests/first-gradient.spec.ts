import { expect, galata, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, open, openAgain, print, runAll } from './graph';

const NOTEBOOK = '01-first-gradient.ipynb';

/** Small enough to cut most of the gradient of the hidden layer. */
const BOUND = 0.0001;

/**
 * The gradient by W1 with the derivative of tanh clipped, written by hand in NumPy:
 * how far the session's gradient is from it, and from the true one.
 */
const BY_HAND = `
import numpy as _np
_X, _W1, _b1, _W2, _b2, _t = (model.values[n] for n in "X W1 b1 W2 b2 t".split())
_h = _np.tanh(_X @ _W1 + _b1)
_p = 1 / (1 + _np.exp(-(_h @ _W2 + _b2)))
_d = _np.outer((_p - _t) / len(_t), _W2) * (1 - _h**2)
_far = lambda d: _np.abs(model.grads["W1"] - _X.T @ d).max() / _np.abs(_X.T @ _d).max()
print(_far(_d) < 1e-9, _far(_np.clip(_d, -${BOUND}, ${BOUND})) < 1e-9)
`;

// High enough for a graph with its drawer.
test.use({ viewport: { width: 1280, height: 1150 } });

test.describe('the first tutorial', () => {
  test('an override by mouse is the gradient that the kernel holds @smoke', async ({
    page,
    tmpPath
  }) => {
    await open(page, tmpPath, NOTEBOOK);
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    expect(await print(page, BY_HAND)).toBe('True False');

    const h = await graph.node('h, tanh');
    await graph.click(h);
    await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('htanh');
    await expect(graph.panel.locator('.workbench-Source')).toContainText('np.tanh(');
    await expect(graph.panel.locator('.workbench-Bars')).toHaveCount(2);
    await graph.screenshot('light-node');

    // The bar stays as it is, whatever is searched for and drawn.
    const bar = graph.panel.locator('.workbench-TopBar');
    const height = (await bar.boundingBox())!.height;
    const search = graph.panel.getByRole('searchbox');
    await graph.panel.getByLabel('Colour').selectOption('change');
    await search.fill('matmul');
    await expect(graph.panel.locator('.workbench-Hits')).toHaveText(/^\d+ hits?$/);
    expect((await bar.boundingBox())!.height).toBe(height);
    await graph.screenshot('light-search');
    await search.press('Escape');
    await graph.panel.getByLabel('Colour').selectOption('gradient');

    await graph.chip('clip').click();
    // The bound is of the size of the gradient, so that it cuts.
    await expect(graph.field).toHaveValue(/^clip\(d, -(\S+), \1\)$/);
    const bound = Number((await graph.field.inputValue()).split(/[ )]/)[2]);
    expect(bound).toBeGreaterThan(0);
    expect(bound).toBeLessThan(0.01);
    await graph.panel.getByLabel('from', { exact: true }).fill(String(-BOUND));
    await graph.panel.getByLabel('to', { exact: true }).fill(String(BOUND));
    await expect(graph.panel.locator('.workbench-Message')).toHaveText('ok');
    await graph.button('Apply').click();
    await expect(graph.effect).toContainText('changes 2 of 4 requested gradients');
    expect(await print(page, BY_HAND)).toBe('False True');
    await graph.screenshot('light-override');

    await graph.showTab(/Overrides 1/);
    await expect(graph.panel.locator('.workbench-Override')).toContainText('clip');
    await graph.screenshot('light-overrides');

    await graph.button(/^Undo:/).click();
    await graph.showInspector();
    await expect(graph.tab('Overrides')).toHaveText('Overrides');
    expect(await print(page, BY_HAND)).toBe('True False');
    await graph.button(/^Redo:/).click();
    await graph.showInspector();
    await expect(graph.tab('Overrides')).toHaveText('Overrides 1');
    expect(await print(page, BY_HAND)).toBe('False True');

    await graph.showTab('Node');
    await graph.field.fill('clip(gradient, -1, 1)');
    await expect(graph.panel.locator('.workbench-Message')).toContainText('gradient');
    await expect(graph.button('Apply')).toBeDisabled();
    await graph.screenshot('light-refused');
  });

  test('derivatives are plotted and checked, in the dark and on a narrow page', async ({
    page,
    tmpPath
  }) => {
    await open(page, tmpPath, NOTEBOOK);
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    await graph.click(await graph.node('loss'));
    await graph.showTab('Checks');
    // The tutorial has checked it by code, and the page knows.
    await graph.button('Check again').click();
    const check = graph.panel.locator('.workbench-GradientCheck');
    // What it says of the check before, while it runs, is of before the last change.
    await expect(graph.button('Check again')).toBeVisible({ timeout: 60_000 });
    await expect(check).toContainText('All rules and gradients agree');
    await expect(check).not.toContainText('before the last change');
    await graph.button('Plot the errors').click();
    const drawer = graph.panel.locator('.workbench-Drawer');
    await expect(drawer.locator('.js-plotly-plot')).toBeVisible({ timeout: 30_000 });
    await graph.screenshot('light-check');
    await drawer.getByLabel('Plot', { exact: true }).selectOption('hessian');
    await drawer.getByLabel('by').selectOption({ label: 'b1 · 16' });
    await drawer.getByRole('button', { name: 'Draw', exact: true }).click();
    await expect(drawer.getByRole('tab')).toHaveCount(2);
    await expect(drawer.locator('.js-plotly-plot')).toBeVisible({ timeout: 30_000 });
    await page.theme.setDarkTheme();
    await graph.screenshot('dark-hessian');

    await page.sidebar.close('left');
    await page.setViewportSize({ width: 600, height: 1400 });
    await graph.ready();
    await graph.click(await graph.node('h, tanh'));
    await graph.screenshot('dark-narrow');
    const overflow = await graph.panel.evaluate(
      node => node.scrollWidth - node.clientWidth
    );
    expect(overflow).toBe(0);
  });

  test('a saved notebook shows its graph, and runs nothing', async ({
    page,
    tmpPath
  }) => {
    await open(page, tmpPath, NOTEBOOK);
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    await page.notebook.save();
    await page.evaluate(() =>
      window.jupyterapp.commands.execute('notebook:shutdown-kernel')
    );
    await expect(graph.banner).toContainText('the kernel was shut down');
    await page.notebook.close(false);

    await page.notebook.openByPath(`${tmpPath}/${NOTEBOOK}`);
    await kernelReady(page);
    await graph.ready();
    await expect(graph.banner).toHaveText(
      'saved picture · run the cell to make it live'
    );
    await graph.click(await graph.node('h, tanh'));
    await expect(graph.panel.locator('.workbench-Table')).toContainText('‖·‖');
    await expect(graph.button('Apply')).toBeHidden();
    await page.theme.setDarkTheme();
    await graph.screenshot('dark-saved');
    expect(await print(page, 'print("model" in globals(), "workbench" in dir())')).toBe(
      'False False'
    );
  });
});

test.describe('with settings of its own', () => {
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      'autodiff-workbench:plugin': { height: 440, colouring: 'value' }
    }
  });

  test('is live again after the page is loaded again', async ({ page, tmpPath }) => {
    await open(page, tmpPath, NOTEBOOK);
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.live();
    await page.notebook.save();
    await openAgain(page, `${tmpPath}/${NOTEBOOK}`);
    await graph.ready();
    await graph.live();
    await expect(graph.panel.locator('.workbench-Main')).toHaveCSS('height', '440px');
    await expect(graph.panel.getByLabel('Colour')).toHaveValue('value');
    await graph.click(await graph.node('h, tanh'));
    await graph.chip('reverse').click();
    await graph.field.press('Enter');
    await expect(graph.effect).toContainText('∂loss/∂');

    // The keys of the picture, which a notebook would take for its cells.
    const cells = await page.locator('.jp-Notebook .jp-Cell').count();
    await graph.click(await graph.node('h, tanh'));
    await page.keyboard.press('u');
    await graph.showInspector();
    await expect(graph.tab('Overrides')).toHaveText('Overrides');
    await page.keyboard.press('ArrowUp');
    await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('add');
    await page.keyboard.press('/');
    await page.keyboard.type('W2');
    await page.keyboard.press('Enter');
    await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('W2input');
    await page.keyboard.press('Escape');
    await page.keyboard.press('c');
    await expect(graph.panel.locator('.workbench-GradientCheck')).toContainText(
      /\d+ right/,
      { timeout: 30_000 }
    );
    await expect(page.locator('.jp-Notebook .jp-Cell')).toHaveCount(cells);
  });
});
