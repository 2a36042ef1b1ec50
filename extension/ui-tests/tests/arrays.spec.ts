/** Arrays as pictures in the inspector: an image, a line, a change, histograms. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print, runAll } from './graph';

test.use({ viewport: { width: 1400, height: 1000 } });

const TRAIN = `%load_ext workbench
import numpy as np
rng = np.random.default_rng(7)
data = rng.normal(size=(40, 20))
weights = rng.normal(size=(20, 12))`;

const MODEL = `%%autodiff loss --wrt weights --name net
hidden = np.tanh(data @ weights)
loss = np.mean(hidden ** 2)`;

const LOOP = `for k in range(30):
    net.run(weights=weights)
    weights = weights - 20 * net.grads["weights"]`;

test('an image, one neuron, the change, and histograms over thirty runs', async ({
  page
}) => {
  test.setTimeout(120_000);
  await page.notebook.createNew('arrays.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', TRAIN);
  await page.notebook.addCell('code', MODEL);
  await page.notebook.addCell('code', LOOP);
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  await graph.click(await graph.node('weights'));
  const part = graph.panel.locator('.workbench-ArrayPicture');
  await part.getByRole('button').click();
  const image = part.locator('canvas');
  await expect(image).toHaveAttribute('width', '12');
  await expect(image).toHaveAttribute('height', '20');

  // What a pixel stands for, as NumPy has it.
  const at = async (x: number, y: number): Promise<void> => {
    const { x: left, y: top, width, height } = (await image.boundingBox())!;
    await page.mouse.move(left + (x + 0.5) * (width / 12), top + (y + 0.5) * (height / 20));
  };
  await image.scrollIntoViewIfNeeded();
  await at(5, 3);
  const caption = part.locator('figcaption');
  const entry = await print(page, `print(f"{net.values['weights'][3, 5]:.6g}")`);
  await expect(caption).toHaveText(`[3, 5] = ${entry.replace('-', '−')}`);
  // Its colour: warm above zero, blue below.
  const [red, , blue] = await image.evaluate((canvas: HTMLCanvasElement) => [
    ...canvas.getContext('2d')!.getImageData(5, 3, 1, 1).data
  ]);
  expect(red > blue).toBe(Number(entry) > 0);
  await graph.screenshot('light-array-image');

  const views = part.getByRole('combobox', { name: 'What of the array' });
  await views.selectOption('since run 1');
  await expect(caption).toContainText('change since run 1');
  const change = `net.values['weights'] - net.at(1).values['weights']`;
  const range = await print(
    page,
    `d = ${change}; print(f"{d.min():.3g} … {d.max():.3g}")`
  );
  await expect(caption).toContainText(range.replaceAll('-', '−'));
  await graph.screenshot('light-array-change');

  // One neuron, of the gradient.
  await part.getByRole('radio', { name: 'Gradient' }).click();
  await views.selectOption('now');
  await part.getByRole('spinbutton', { name: 'axis 1' }).fill('4');
  await expect(part.locator('svg path.workbench-mod-gradient')).toBeVisible();
  const neuron = await print(
    page,
    `d = net.grads['weights'][:, 4]; print(f"{d.min():.3g} … {d.max():.3g}")`
  );
  await expect(caption).toHaveText(neuron.replaceAll('-', '−'));
  await graph.screenshot('light-array-line');

  await part.getByRole('spinbutton', { name: 'axis 1' }).fill('');
  await part.getByRole('radio', { name: 'Value' }).click();
  await views.selectOption('over the runs');
  await expect(part.locator('.workbench-Ridge g')).toHaveCount(24);
  await expect(caption).toHaveText('runs 1 to 30, the last in front');
  await graph.screenshot('light-array-ridge');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-array-ridge');
  await views.selectOption('now');
  await expect(image).toBeVisible();
  await graph.screenshot('dark-array-image');
});
