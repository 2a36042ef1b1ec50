/**
 * The frames of `notebooks/images/training.webp`: a network trains beside its picture,
 * and an override is attached. Its maker, `../training.py`, runs this; no test does.
 */

import { join } from 'node:path';

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady } from './graph';

const FRAMES = process.env.WORKBENCH_FRAMES ?? 'frames';

const DATA = `%load_ext workbench
import time
import numpy as np

rng = np.random.default_rng(3)
X = rng.normal(size=(200, 3))
t = np.sin(X @ [1.0, -2.0, 0.5])
W1, b1 = rng.normal(size=(3, 8)), np.zeros(8)
W2 = 0.3 * rng.normal(size=8)`;

const NETWORK = `%%autodiff loss --wrt W1 b1 W2 --name net
h = np.tanh(X @ W1 + b1)
y = h @ W2
loss = np.mean((y - t) ** 2)`;

const TRAINING = `W = {"W1": W1, "b1": b1, "W2": W2}
for step in range(400):
    net.run(W)
    W = {k: w - 0.1 * net.grads[k] for k, w in W.items()}
    time.sleep(0.08)`;

/** An arrow where the pointer is, which no screenshot shows. */
const showPointer = (page: IJupyterLabPageFixture): Promise<void> =>
  page.evaluate(() => {
    const arrow = document.createElement('div');
    arrow.style.cssText =
      'position: fixed; left: 0; top: 0; width: 18px; height: 26px; z-index: 99999;' +
      'pointer-events: none; background: #111; transition: transform 250ms;' +
      'filter: drop-shadow(0 0 1px #fff) drop-shadow(0 0 1px #fff);' +
      'clip-path: polygon(0 0, 0 78%, 27% 62%, 46% 100%, 64% 92%, 46% 56%, 84% 56%)';
    document.body.append(arrow);
    document.addEventListener(
      'mousemove',
      ({ clientX, clientY }) => {
        arrow.style.transform = `translate(${clientX}px, ${clientY}px)`;
      },
      { capture: true }
    );
  });

/** Take frames until it is stopped; a few each second, as fast as the machine can. */
function record(page: IJupyterLabPageFixture): () => Promise<void> {
  let going = true;
  const taken = (async () => {
    for (let i = 0; going; i++) {
      const name = `${String(i).padStart(4, '0')}.png`;
      await page.screenshot({ path: join(FRAMES, name) });
      await page.waitForTimeout(60);
    }
  })();
  return async () => {
    going = false;
    await taken;
  };
}

test.use({ viewport: { width: 1360, height: 780 } });

test('a network trains, and an override is attached', async ({ page }) => {
  await page.notebook.createNew('training.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', DATA);
  await page.notebook.addCell('code', NETWORK);
  await page.notebook.addCell('code', TRAINING);
  await page.evaluate(() => {
    const { shell } = window.jupyterapp;
    const found = [...shell.widgets('main')].find(({ id }) => id.startsWith('launcher'));
    found?.close();
  });
  await page.sidebar.close();
  await page.notebook.runCell(0);
  await page.notebook.runCell(1);
  const inCell = new GraphOnPage(page, '.jp-OutputArea .workbench-Panel');
  await inCell.ready();
  await inCell.live();
  await inCell.button('Open beside the notebook').click();
  const graph = new GraphOnPage(page, '.workbench-Beside .workbench-Panel');
  await graph.ready();
  await graph.live();
  // The picture has the larger part of the window.
  const handle = page.locator('.lm-DockPanel-handle[data-orientation="horizontal"]');
  const { x, y, height } = (await handle.first().boundingBox())!;
  await page.mouse.move(x + 2, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(470, y + height / 2, { steps: 4 });
  await page.mouse.up();
  await graph.showInspector();
  await graph.button('Fit the graph into view').click();
  await page.evaluate(() => {
    document.querySelector('.jp-WindowedPanel-outer')?.scrollTo(0, 0);
  });
  await showPointer(page);
  await page.mouse.move(300, 560);
  await page.waitForTimeout(500);

  const stop = record(page);
  await page.activity.activateTab('training.ipynb');
  await page.notebook.selectCells(2);
  await page.keyboard.press('Control+Enter');
  await page.waitForTimeout(2500);
  await graph.click(await graph.node('h, tanh'));
  await page.waitForTimeout(1200);
  await graph.chip('clip').hover();
  await page.waitForTimeout(500);
  await graph.chip('clip').click();
  await page.waitForTimeout(1500);
  await graph.button('Apply').hover();
  await page.waitForTimeout(500);
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('requested gradients');
  await page.waitForTimeout(2000);
  await graph.button('Fit the graph into view').click();
  await page.waitForTimeout(3000);
  await stop();
});
