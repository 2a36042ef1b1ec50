/** Where a node ran, on a device of tests: its memory is the host's. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
from tests.backends.cupy.standin import Standin
from workbench.backends.cupy import devices
from workbench.session import profile

owns = lambda self, x: isinstance(x, np.ndarray)
devices._RUNTIME = type("Host", (Standin,), {"owns": owns})()
profile.is_on_device = lambda x: True

X = np.sin(np.arange(6000.0)).reshape(200, 30)
W = np.cos(np.arange(960.0)).reshape(30, 32) / 5
v = np.sin(np.arange(32.0)) / 5`;

const NETWORK = `%%autodiff loss --wrt W v --backend cupy
h = np.tanh(X @ W)
p = 1 / (1 + np.exp(-(h @ v)))
loss = np.mean((p - 0.5) ** 2)`;

test('the badge names the device, the inspector shows the CUDA', async ({ page }) => {
  await page.notebook.createNew('gpu.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', NETWORK);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const backend = graph.panel.locator('.workbench-Backend');
  await expect(backend).toHaveText('cupy op by op · a device of tests');

  expect(await print(page, '_ = ad.wait(); _ = ad.run(); _ = ad.wait()')).toBe('');
  await expect(backend).toHaveText('cupy · a device of tests', { timeout: 60_000 });
  await graph.click(await graph.node('h, tanh'));
  const facts = graph.panel.locator('.workbench-Facts');
  await expect(facts).toContainText('cupy · a device of tests');
  const code = graph.panel.locator('.workbench-Code');
  await expect(code.filter({ hasText: 'CUDA, value: kernel' })).toContainText('tanh(');
  await graph.screenshot('light-gpu');
  await page.theme.setDarkTheme();
  await page.setViewportSize({ width: 1000, height: 800 });
  await graph.screenshot('dark-gpu');
});
