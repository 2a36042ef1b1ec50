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
const NOTEBOOK = `# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

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

/** Serve the notebook as an app, which runs all cells; false without marimo. */
async function openMarimo(page: IJupyterLabPageFixture): Promise<boolean> {
  if (spawnSync('python', ['-c', 'import marimo, anywidget']).status !== 0) {
    return false;
  }
  const path = join(folder, 'model.py');
  writeFileSync(path, NOTEBOOK);
  const port = await freePort();
  server.process = spawn(
    'marimo',
    ['run', path, '--headless', '--no-token', '--port', String(port)],
    { stdio: 'ignore' }
  );
  page.setDefaultTimeout(60_000);
  await expect(async () => {
    await page.goto(`http://127.0.0.1:${port}/`);
  }).toPass({ timeout: 60_000 });
  return true;
}

/** How light the name of the selected node is, from 0 to 1. */
const lightness = (graph: GraphOnPage): Promise<number> =>
  graph.panel.locator('.workbench-NodeName').evaluate(node => {
    const [red, green, blue] = getComputedStyle(node).color.match(/\d+/g)!.map(Number);
    return (red + green + blue) / 765;
  });

test('marimo draws it live, light and dark, and a click changes the gradient', async ({
  page: plain
}) => {
  test.setTimeout(240_000);
  const page = plain as IJupyterLabPageFixture;
  const errors: string[] = [];
  page.on('pageerror', error => errors.push(error.message));
  test.skip(!(await openMarimo(page)), 'marimo is not installed');
  const graph = new GraphOnPage(page);
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

  // The host's theme is that of the reader's system, and the picture follows it.
  expect(await lightness(graph)).toBeLessThan(0.5);
  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(() => lightness(graph)).toBeGreaterThan(0.5);
  await page.screenshot({ path: screenshotOf('marimo-dark') });
  await graph.button(/^Undo/).click();
  await graph.showInspector();
  await expect(graph.tab('Overrides')).toHaveText('Overrides');
  await page.getByRole('button', { name: 'Read' }).click();
  await expect(told).toHaveText('overrides 0, gradient right: True');
  expect(errors).toEqual([]);

  await page.setViewportSize({ width: 1000, height: 800 });
  await page.screenshot({ path: screenshotOf('marimo-dark-1000') });
});
