/** A lesson: both sweeps of a small network with numbers, live and in a file alone. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, screenshotOf } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
x = np.array([[0.5, -1.0], [1.0, 2.0]])
y = np.array([[1.0], [0.0]])
W1, W2 = np.array([[0.1, -0.2], [0.3, 0.4]]), np.array([[1.0], [-2.0]])`;
const NETWORK = `%%autodiff loss --wrt W1 W2 --name net
a = x @ W1
h = np.tanh(a)
p = h @ W2
loss = np.mean((p - y) ** 2)`;

const folder = mkdtempSync(join(tmpdir(), 'workbench-lesson-'));
test.afterAll(() => rmSync(folder, { recursive: true }));

test('a lesson of a two-layer net exported and clicked through without a kernel', async ({
  page
}) => {
  await page.notebook.createNew('lesson.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', NETWORK);
  await page.notebook.run();
  const live = new GraphOnPage(page);
  await live.ready();
  await live.live();
  await live.button('Step through both sweeps').click();
  const numbers = live.panel.locator('.workbench-StepNumbers');
  await expect(numbers).toContainText('inputs are given');
  await live.button('One step forward').click();
  const line = live.panel.locator('.workbench-StepLine');
  await expect(line).toHaveAttribute('title', 'a = x @ W1');
  // JupyterLab typesets it.
  await expect(line.locator('mjx-container')).toBeVisible();
  await page.screenshot({ path: screenshotOf('lesson-live') });
  // A ~ 0.5 · 0.1 − 1 · 0.3, and so on.
  await expect(numbers.locator('pre').last()).toHaveText(/−0\.25\s+−0\.5\s+0\.7\s+0\.6/);

  // Saved while it is stepped through, the file begins with the lesson.
  const waiting = page.waitForEvent('download');
  await live.panel.getByLabel('Save picture').selectOption('html');
  const path = join(folder, 'net.html');
  await (await waiting).saveAs(path);

  for (const look of [
    { colorScheme: 'light', viewport: { width: 1400, height: 900 } },
    { colorScheme: 'dark', viewport: { width: 1000, height: 700 } }
  ] as const) {
    const context = await page
      .context()
      .browser()!
      .newContext({ ...look, reducedMotion: 'reduce' });
    const file = await context.newPage();
    const asked: string[] = [];
    file.on('request', request => asked.push(request.url()));
    await file.goto(pathToFileURL(path).href);
    const line = file.locator('.workbench-StepLine');
    const shown = file.locator('.workbench-StepNumbers');
    await expect(shown).toContainText('inputs are given');
    await file.getByRole('slider', { name: 'Step' }).focus();
    const lines: string[] = [];
    const last = Number(await file.getByRole('slider', { name: 'Step' }).getAttribute('max'));
    for (let step = 1; step <= last; step++) {
      await file.keyboard.press('ArrowRight');
      await expect(file.getByRole('slider', { name: 'Step' })).toHaveValue(String(step));
      lines.push((await line.textContent())!);
      if (lines.at(-1)!.startsWith('∂loss/∂a ')) {
        await file.screenshot({ path: screenshotOf(`lesson-${look.colorScheme}`) });
      }
    }
    expect(lines.slice(0, 2)).toEqual(['a = x @ W1', 'h = tanh(a)']);
    expect(lines).toContain('∂loss/∂a = ∂loss/∂h · (1 − h²)');
    expect(lines).toContain('∂loss/∂h = ∂loss/∂p W2ᵀ');
    expect(lines).toContain('∂loss/∂W2 = hᵀ ∂loss/∂p');
    // Forward before backward, each node once.
    expect(lines.findIndex(text => text.startsWith('∂'))).toBe(6);
    // It plays by itself, from the start.
    await file.getByLabel('Speed').selectOption('4');
    await file.getByRole('button', { name: 'Play', exact: true }).click();
    await expect(line).toHaveText('h = tanh(a)', { timeout: 10_000 });
    await file.getByRole('button', { name: 'Pause' }).click();
    expect(asked).toEqual([pathToFileURL(path).href]);
    await context.close();
  }
});
