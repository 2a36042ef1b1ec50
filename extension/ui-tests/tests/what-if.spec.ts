/** What if this weight were another, and where would the loop break? By hand. */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print, runAll } from './graph';

test.use({ viewport: { width: 1400, height: 1000 } });

const LOAD = `%load_ext workbench
import numpy as np
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
weights = np.linspace(0.5, 1.5, 3)`;

/** A hundred nodes. */
const MODEL = `%%autodiff loss --wrt weights --name live
hidden = data @ weights
for k in range(32): hidden = hidden - 0.02 * np.tanh(hidden)
loss = np.sum(hidden * hidden)`;

async function openModel(page: IJupyterLabPageFixture): Promise<GraphOnPage> {
  await page.notebook.createNew('what-if.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', LOAD);
  await page.notebook.addCell('code', MODEL);
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  return graph;
}

test('a weight on a slider: loss and gradients follow, one undo takes it back', async ({
  page
}) => {
  test.setTimeout(240_000);
  const graph = await openModel(page);
  const bar = graph.panel.locator('.workbench-Title');
  const before = await bar.textContent();
  await graph.click(await graph.node('weights'));
  const slider = graph.panel.getByRole('slider', { name: /^Value of weights\[0\]/ });
  await expect(slider).toBeVisible();
  await graph.screenshot('light-slider');

  // A drag with the mouse, in twenty moves.
  const { x, y, width, height } = (await slider.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height / 2);
  await page.mouse.down();
  const start = Date.now();
  for (let k = 1; k <= 20; k++) {
    await page.mouse.move(x + width * (0.5 + 0.015 * k), y + height / 2);
  }
  await expect(bar).not.toHaveText(before!);
  console.log('measured: 20 moves of the slider at 100 nodes, ms', Date.now() - start);
  await page.mouse.up();
  const place = `print(f"{live.values['weights'][0]:.4g}", f"{float(live.value):.4g}", len(live.graph.nodes), live.history.done)`;
  await expect
    .poll(async () => (await print(page, place)).split(' ')[0])
    .toBe(await slider.getAttribute('aria-valuetext'));
  const [value, loss, count, ...done] = (await print(page, place)).split(' ');
  expect(Number(value)).toBeGreaterThan(1);
  expect(Number(count)).toBeGreaterThan(95);
  expect(done.join(' ')).toBe(`['weights[0] = ${value}']`);
  await expect(bar).toContainText(loss);
  // Both sweeps: the norm of the gradient beside the weight.
  const norm = await print(page, `print(f"{np.linalg.norm(live.grads['weights']):.4g}")`);
  await expect(graph.panel.locator('.workbench-Table')).toContainText(norm);
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-slider');
  await page.theme.setLightTheme();

  await graph.button(/^Undo: weights\[0\]/).click();
  await expect(bar).toHaveText(before!);
  await expect(slider).toHaveAttribute('aria-valuetext', '0.5');
});

test('a condition on a gradient stops a loop, and is taken off again', async ({ page }) => {
  test.setTimeout(240_000);
  const graph = await openModel(page);
  await graph.click(await graph.node('weights'));
  await graph.button('Stop a loop here …').click();
  const form = graph.panel.getByRole('group', { name: 'Stop a loop here' });
  await form.getByRole('combobox').selectOption('has a norm above');
  await form.getByRole('textbox').fill('0.001');
  await form.getByRole('textbox').press('Enter');
  await expect(graph.panel.locator('.workbench-Stop')).toHaveText(
    /A loop stops when the gradient of weights has a norm above 0.001/
  );
  await graph.screenshot('light-stop');
  const loop = 'for k in range(9): live.run(weights=weights * (1 + k))';
  expect(await print(page, loop)).toContain('LoopStoppedError');
  await graph.button(/^Remove: a loop stops/).click();
  await expect(graph.panel.locator('.workbench-Stop')).toHaveCount(0);
  expect(await print(page, loop)).toBe('');
});
