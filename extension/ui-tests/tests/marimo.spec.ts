/** The live graph in marimo, where it is installed: drawn, clicked, and heard. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { expect, test } from '@playwright/test';

import { GraphOnPage, screenshotOf } from './graph';

/** The second cell runs again when its button is pressed. */
const NOTEBOOK = `import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import numpy as np
    import workbench as wb

    again = mo.ui.run_button(label="Read")
    f = wb.trace(lambda w, x: np.sum(np.tanh(w * x)))
    model = wb.Session(f(np.ones(3), np.ones(3)), wrt=["w"], name="model")
    wb.show(model)
    return again, mo, model, np


@app.cell
def _(again, mo, model, np):
    again.value
    slope = 0 if model.overrides else 1 - np.tanh(1.0) ** 2
    right = bool(np.allclose(model.grads["w"], slope))
    mo.vstack([again, mo.md(f"overrides {len(model.overrides)}, gradient right: {right}")])
    return
`;

const folder = mkdtempSync(join(tmpdir(), 'workbench-marimo-'));
const server: { process: ChildProcess | null } = { process: null };

test.afterAll(() => {
  server.process?.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>(resolve => {
    probe.listen(0, '127.0.0.1', resolve);
  });
  const { port } = probe.address() as AddressInfo;
  await new Promise(resolve => probe.close(resolve));
  return port;
}

test.use({ viewport: { width: 1400, height: 1000 } });

test('marimo draws it live, and a click changes the gradient', async ({ page }) => {
  const found = spawnSync('python', ['-c', 'import marimo, anywidget']).status === 0;
  test.skip(!found, 'marimo is not installed');
  test.setTimeout(240_000);
  const path = join(folder, 'model.py');
  writeFileSync(path, NOTEBOOK);
  const port = await freePort();
  // As an app: it runs all cells by itself, and shows what they give.
  server.process = spawn(
    'marimo',
    ['run', path, '--headless', '--no-token', '--port', String(port)],
    { stdio: 'ignore' }
  );
  page.setDefaultTimeout(60_000);
  const errors: string[] = [];
  page.on('pageerror', error => errors.push(error.message));
  await expect(async () => {
    await page.goto(`http://127.0.0.1:${port}/`);
  }).toPass({ timeout: 60_000 });
  const graph = new GraphOnPage(page as IJupyterLabPageFixture);
  await graph.panel.waitFor({ timeout: 60_000 });
  await graph.ready();
  await graph.live();
  const told = page.getByText(/^overrides \d/);
  await expect(told).toHaveText('overrides 0, gradient right: True');
  await page.screenshot({ path: screenshotOf('marimo-light') });

  await graph.click(await graph.node('tanh'));
  await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('tanh');
  await graph.chip('stop').click();
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('100 %');
  await page.getByRole('button', { name: 'Read' }).click();
  await expect(told).toHaveText('overrides 1, gradient right: True');
  await page.screenshot({ path: screenshotOf('marimo-override') });
  await graph.button(/^Undo/).click();
  await expect(graph.tab('Overrides')).toHaveText('Overrides');
  await page.getByRole('button', { name: 'Read' }).click();
  await expect(told).toHaveText('overrides 0, gradient right: True');
  expect(errors).toEqual([]);

  await page.setViewportSize({ width: 1000, height: 800 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.screenshot({ path: screenshotOf('marimo-1000') });
});
