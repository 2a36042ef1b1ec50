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
  await expect(strip.getByRole('status')).toHaveText(/^202 steps · \d+ kept, .*B$/);

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
  // All of the step is there: the count of its entries too.
  await expect(graph.banner).toContainText('Infinity starts at log, line 3');
  await expect(graph.banner).toContainText('entries');
  await graph.screenshot('timeline-nan');

  await strip.getByRole('button', { name: 'Live' }).click();
  await expect(strip.getByRole('status')).toHaveText(/^202 steps · \d+ kept, .*B$/);
  await expect(graph.panel.locator('.workbench-PastRun')).toBeHidden();
});

const SPRINGS = `%load_ext workbench
import numpy as np
import workbench as wb
w = np.array([0.5, 2.0, 3.0])`;

// The first step is far too long: at the second the logarithm is of a negative number.
const LOGS = `%%autodiff loss --wrt w --name fit
h = np.log(w)
loss = np.sum(h ** 2) + np.sum(w)`;

const DIVERGE = `v = w
for step in range(120): fit.run(w=v); v = v - 5.0 * fit.grads["w"]`;

const MEND = 'fit.override("loss", "0.01 * d")';

for (const [theme, width, height] of [
  ['light', 1400, 900],
  ['dark', 1000, 700]
] as const) {
  test(`a training that breaks at step 2 is found and mended, ${theme}`, async ({ page }) => {
    test.setTimeout(240_000);
    await page.setViewportSize({ width, height });
    if (theme === 'dark') {
      await page.theme.setDarkTheme();
    }
    await page.notebook.createNew('breaks.ipynb');
    await kernelReady(page);
    await page.notebook.setCell(0, 'code', SPRINGS);
    await page.notebook.addCell('code', LOGS);
    await page.notebook.addCell('code', DIVERGE);
    for (const cell of [0, 1]) {
      await page.notebook.runCell(cell, true);
    }
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    await page.notebook.runCell(2, true);
    await expect(graph.banner).toContainText('NaN since step 2 of 120: log, line 2');
    await graph.screenshot(`breaks-${theme}-live`);

    // There everything is of step 2: numbers, what is inside, the doctor.
    await graph.banner.getByRole('button', { name: 'Go there' }).click();
    const strip = graph.panel.locator('.workbench-Runs');
    await expect(strip.getByRole('status')).toHaveText('step 2 of 120');
    await expect(graph.banner).toContainText('NaN starts at h = log, line 2: 2 of 3 entries');
    const value = await print(page, 'print(fit.at(2).values["w"])');
    const node = await graph.node('w');
    await graph.click(node);
    const numbers = graph.panel.locator('.workbench-NodeNumbers').first();
    await expect(numbers).toContainText(value.trim());
    await graph.banner.getByRole('button', { name: 'Diagnose' }).click();
    const doctor = graph.panel.locator('.workbench-Doctor');
    await expect(doctor).toContainText('1 finding', { timeout: 30_000 });
    await expect(doctor).toContainText('log');
    await expect(doctor).not.toContainText('w holds');
    await graph.screenshot(`breaks-${theme}-doctor`);

    // Back to the present, which was asked nothing.
    await strip.getByRole('button', { name: 'Live' }).click();
    await expect(doctor).not.toContainText('1 finding');

    // Run again from step 1 with another gradient: a second curve, compared.
    await page.notebook.addCell('code', MEND);
    await page.notebook.runCell(3, true);
    const again = strip.getByRole('button', { name: 'Run again' });
    await expect(again).toBeDisabled();
    await strip.getByRole('slider', { name: 'Run' }).fill('0');
    await expect(strip.getByRole('status')).toContainText('step 1 of 120');
    await again.click();
    await expect(strip.getByRole('status')).toContainText(/branch from run 1: loss 2\.48/);
    await expect(strip.locator('path.workbench-mod-branch')).toHaveCount(1);
    const told = await print(
      page,
      'print(fit.branches[0].timeline.first_bad, fit.branches[0].timeline.count)'
    );
    expect(told.trim(), 'the branch is well').toBe('None 120');
    await strip.getByRole('button', { name: 'Compare' }).click();
    await expect(graph.panel.locator('.workbench-Compare')).toContainText('branch from run 1');
    await graph.screenshot(`breaks-${theme}-branch`);
    await strip.getByRole('button', { name: 'Compare' }).click();

    // Without the kernel what was seen stays, step 2 among it.
    await page.evaluate(async () => {
      const manager = window.jupyterapp.serviceManager.sessions;
      await manager.shutdownAll();
    });
    await expect(graph.banner).toContainText('the last state');
    await graph.banner.getByRole('button', { name: 'Go there' }).click();
    await expect(strip.getByRole('status')).toContainText('step 2 of 120');
    await expect(numbers).toBeAttached();
    await expect(strip.locator('path.workbench-mod-branch')).toHaveCount(1);
    await graph.screenshot(`breaks-${theme}-gone`);
  });
}
