/** What a run costs: the backend's word, the colours of nodes by time and bytes. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, openAgain, print } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
X = np.sin(np.arange(60_000.0)).reshape(2000, 30)
t = np.cos(np.arange(2000.0))
W1, b1 = np.cos(np.arange(960.0)).reshape(30, 32) / 5, np.zeros(32)
W2 = np.sin(np.arange(32.0)) / 5`;

const NETWORK = `%%autodiff loss --wrt W1 b1 W2 --backend compiled
h = np.tanh(X @ W1 + b1)
p = 1 / (1 + np.exp(-(h @ W2)))
loss = np.mean((p - t) ** 2)`;

const NOTEBOOK = 'costs.ipynb';

test('the time and the bytes of each node, compiled, live and saved', async ({
  page,
  tmpPath
}) => {
  await page.notebook.createNew(NOTEBOOK);
  await kernelReady(page);
  expect(await print(page, '')).toBe('');
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', NETWORK);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const backend = graph.panel.locator('.workbench-Backend');
  await expect(backend).toHaveText('numpy');

  const colour = graph.panel.locator('.workbench-Colour');
  await colour.selectOption('time');
  const legend = graph.panel.locator('.workbench-Legend');
  await expect(legend).toContainText('time, compiled', { timeout: 60_000 });
  await expect(legend).toContainText(/[µm]s in all/);
  // The profile has waited for compiled code: the next run is computed by it.
  await expect(backend).toHaveText('compiled');
  const node = await graph.node('h, tanh');
  await graph.click(node);
  const facts = graph.panel.locator('.workbench-Facts');
  await expect(facts).toContainText(/value: .*s · .*% · .*B · in kernel \d with/);
  await expect(facts).toContainText(/rule: .*in kernel \d with \d+ other ops/);
  await graph.screenshot('light-time');

  await colour.selectOption('bytes');
  await expect(legend).toContainText('bytes read and written, compiled');
  await graph.screenshot('light-bytes');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-bytes');
  await colour.selectOption('time');
  await graph.screenshot('dark-time');
  await page.theme.setLightTheme();

  // Another rule: what was measured is of before, until a run is measured again.
  expect(await print(page, `_ = ad.override("h", "clip(d, -1e-6, 1e-6)")`)).toBe('');
  await expect(legend).toContainText('before the last change');
  await legend.getByRole('button', { name: 'Measure' }).click();
  await expect(legend).not.toContainText('before the last change', { timeout: 60_000 });
  await expect(legend).toContainText('time, compiled');

  // Saved with the notebook, and there without a kernel.
  await page.notebook.save();
  await openAgain(page, `${tmpPath}/${NOTEBOOK}`);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('notebook:shutdown-kernel')
  );
  const saved = new GraphOnPage(page);
  await saved.ready();
  await expect(saved.panel.locator('.workbench-Backend')).toHaveText('saved');
  await saved.panel.locator('.workbench-Colour').selectOption('time');
  await expect(saved.panel.locator('.workbench-Legend')).toContainText('time, compiled');
  await expect(
    saved.panel.locator('.workbench-Legend').getByRole('button')
  ).toHaveCount(0);
  await saved.screenshot('light-time-saved');
});
