/** Nothing misleads: overrides in captions, previews, where NaN starts, failed cells. */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
x = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
W = np.linspace(-0.6, 0.9, 12).reshape(3, 4)
v = np.array([0.0, 2.0, 4.0])`;

const MODEL = `%%autodiff loss --wrt W --name net
a = x @ W
h = np.tanh(a)
loss = np.sum(h * h)`;

const LOG = `%%autodiff loss --wrt v --name logs
y = np.log(v)
z = y * v
loss = np.sum(z)`;

const BROKEN = `%%autodiff loss --wrt W --name broken
h = np.tanh(x @ W)
q = h @ v
loss = np.sum(q)`;

test.use({ viewport: { width: 1400, height: 1150 } });

async function run(page: IJupyterLabPageFixture, cell: string): Promise<GraphOnPage> {
  await page.notebook.createNew('truth.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', cell);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  return graph;
}

test('a preview before Apply, and a derivative that says what makes it', async ({
  page
}) => {
  const graph = await run(page, MODEL);
  await graph.live();
  const h = await graph.node('h, tanh');
  await graph.click(h);
  await graph.field.fill('0.5 * d');
  const preview = graph.panel.locator('.workbench-Preview');
  await expect(preview).toContainText('would pass on to a', { timeout: 20_000 });
  await expect(preview).toContainText('50');
  expect(await print(page, 'print(net.overrides)')).toBe('[]');
  await graph.screenshot('light-preview');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('scale ×0.5');
  await expect(preview).toContainText('passes on to a', { timeout: 20_000 });
  const facts = graph.panel.locator('.workbench-NodeSummary .workbench-Facts');
  await expect(facts).toContainText('rule in force');
  await expect(facts).toContainText('0.5 * d');
  await graph.click(h);
  await graph.screenshot('light-passes-on');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-passes-on');
  await page.theme.setLightTheme();

  // A derivative names what makes it another one, and shows the true one.
  expect(await print(page, 'net.edit(1, "0 * d", name="halt")')).toBe('');
  await graph.click(await graph.node('a, matmul'));
  await graph.click(h, ['Shift']);
  await graph.panel
    .locator('.workbench-PairStrip')
    .getByRole('button', { name: 'Derivative' })
    .click();
  const caption = graph.panel.locator('.workbench-Drawer .workbench-Caption');
  await expect(caption).toContainText('with 1 override: halt at h', { timeout: 30_000 });
  await expect(caption).toContainText('stopped by halt at h');
  await graph.screenshot('light-all-zero');
  await graph.button('Show true').click();
  await expect(caption).toContainText('the true one, without 1 override', {
    timeout: 30_000
  });
  await expect(caption).not.toContainText('stopped by');
  await graph.screenshot('light-true');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-true');
  await graph.button('Show with overrides').click();
  await expect(caption).toContainText('stopped by halt at h', { timeout: 30_000 });
});

test('a loss that is NaN says where that starts, and asks the doctor', async ({
  page
}) => {
  const graph = await run(page, LOG);
  await graph.live();
  await expect(graph.panel.locator('.workbench-Value')).toHaveText('loss = NaN');
  await expect(graph.banner).toContainText(
    'Infinity starts at y = log, line 2: 1 of 3 entries'
  );
  // NumPy's warning stands at the user's lines, each once.
  const errors = page.locator('.jp-OutputArea-output[data-mime-type*="stderr"]');
  await expect(errors).toContainText('divide by zero encountered in log');
  await expect(errors).not.toContainText('derivative of');
  await graph.screenshot('light-nan');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-nan');
  await graph.button('Diagnose').click();
  await expect(graph.panel.locator('.workbench-Finding').first()).toBeVisible({
    timeout: 30_000
  });
  await expect(graph.button('Show findings')).toBeVisible();
  await graph.screenshot('dark-nan-found');
});

test('a failed cell shows its graph so far beneath the error', async ({ page }) => {
  await page.notebook.createNew('failed.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', BROKEN);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await expect(graph.banner).toContainText('(4, 4) @ (3,): 4 ≠ 3');
  await expect(
    graph.panel.locator('.workbench-Cell > * > .workbench-Tree [data-node]')
  ).toHaveCount(6);
  await graph.screenshot('light-failed');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-failed');
});
