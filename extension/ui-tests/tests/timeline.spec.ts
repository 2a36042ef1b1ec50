/** A training that is watched: back to its runs, and its marks. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const MODEL = `%load_ext workbench
import numpy as np
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
target = data @ [1.0, -2.0, 0.5] > 0
w = np.zeros(3)`;

const CELL = `%%autodiff loss --wrt w --name net
p = 1 / (1 + np.exp(-data @ w))
loss = -np.mean(np.log(np.where(target, p, 1 - p)))`;

// On one line: what is typed into a cell is indented by the editor.
const LOOP = `for step in range(200): net.run(w=w); w = w - 0.5 * net.grads["w"]
net.run(w=np.array([np.inf, 0.0, 0.0]))
value = net.run(w=w)`;

test.use({ viewport: { width: 1400, height: 1000 } });

test('a training is watched, scrubbed back, and its NaN is found', async ({ page }) => {
  test.setTimeout(180_000);
  await page.notebook.createNew('timeline.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', MODEL);
  await page.notebook.addCell('code', CELL);
  await page.notebook.addCell('code', LOOP);
  for (const cell of [0, 1]) {
    await page.notebook.runCell(cell, true);
  }
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const strip = graph.panel.locator('.workbench-Runs');
  await expect(strip).toBeHidden();
  await page.notebook.runCell(2, true);
  await expect(strip).toBeVisible();
  await expect(strip.getByRole('status')).toHaveText('202 steps');

  // The inspector has the node's norms over the steps.
  const node = await graph.node('w');
  await graph.click(node);
  await expect(graph.panel.locator('.workbench-Norms figure')).toHaveCount(2);
  await graph.screenshot('timeline-live');

  // Back to a step: the tile of w shows the norm that the kernel remembers.
  const slider = strip.getByRole('slider', { name: 'Run' });
  await slider.fill('9');
  await expect(strip.getByRole('status')).toHaveText(/^step \d+ of 202$/);
  const step = /\d+/.exec((await strip.getByRole('status').textContent()) ?? '')?.[0];
  const norm = await print(
    page,
    `print(f"{net.timeline[${step}].gradients['w']:.4g}", f"{net.timeline[${step}].loss:.4g}")`
  );
  const [gradient, loss] = norm.split(' ');
  const table = graph.panel.locator('.workbench-Table');
  await expect(table).toContainText(gradient);
  await expect(graph.panel.locator('.workbench-Title')).toContainText(loss);
  await expect(graph.panel.locator('.workbench-PastRun')).toHaveText(
    `step ${step} of 202; live: 202`
  );
  await graph.screenshot('timeline-past');

  // The keyboard moves it, and the mark leads to the node with the NaN.
  await slider.press('ArrowRight');
  await expect(slider).toHaveJSProperty('valueAsNumber', 10);
  const mark = strip.getByRole('button', { name: /^Step 201: NaN|^Step 201: inf/ });
  await mark.click();
  await expect(strip.getByRole('status')).toHaveText('step 201 of 202');
  // The norms of a past run tell of infinity, and of no count.
  await expect(graph.banner).toContainText('Infinity starts at log, line 3');
  await expect(graph.banner).not.toContainText('entries');
  await graph.screenshot('timeline-nan');

  await strip.getByRole('button', { name: 'Live' }).click();
  await expect(strip.getByRole('status')).toHaveText('202 steps');
  await expect(graph.panel.locator('.workbench-PastRun')).toHaveCount(0);
});
