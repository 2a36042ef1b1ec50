/** How long the page takes: measured lines in the output, no test fails on a time. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
x = np.linspace(0.1, 1.0, 569 * 16).reshape(569, 16)`;

// The editor would indent what follows a line that ends with a colon.
const CELL = `%%autodiff y --name speed
h = x
for _ in range(50): h = np.tanh(h * 1.01)
y = np.sum(h)`;

type Probed = HTMLElement & { workbenchCanvas: { frames: number } };

/** The middle of some times, in whole milliseconds. */
const middle = (times: number[]): number =>
  Math.round(times.sort((a, b) => a - b)[times.length >> 1]);

test('the time from cell to picture, and of an override', async ({ page }) => {
  await page.notebook.createNew('speed.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', CELL);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();

  await page.notebook.selectCells(1);
  const drawn: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    drawn.push(
      await page.evaluate(async () => {
        const old = document.querySelector('.workbench-Canvas');
        const start = performance.now();
        void window.jupyterapp.commands.execute('notebook:run-cell');
        const fresh = (): boolean => {
          const now = document.querySelector<Probed>('.workbench-Canvas');
          return now !== null && now !== old && now.workbenchCanvas.frames > 0;
        };
        while (!fresh()) {
          await new Promise(resolve => requestAnimationFrame(resolve));
        }
        return performance.now() - start;
      })
    );
  }

  await graph.ready();
  await graph.live();
  await graph.click(await graph.node('y, sum'));
  const applied: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    await graph.chip('expression').click();
    await graph.field.fill(`${String(0.5 + round / 10)} * d`);
    await expect(graph.button('Apply')).toBeEnabled();
    applied.push(
      await graph.panel.evaluate(async panel => {
        const effect = (): string =>
          panel.querySelector('.workbench-Effect')?.textContent ?? '';
        const buttons = [...panel.querySelectorAll('button')];
        const apply = buttons.find(button => button.textContent === 'Apply');
        const before = effect();
        const start = performance.now();
        apply?.click();
        while (effect() === before || !effect().includes('changes')) {
          await new Promise(resolve => requestAnimationFrame(resolve));
        }
        return performance.now() - start;
      })
    );
  }
  console.log(
    `measured: 102 nodes of 569×16, cell to picture ${String(middle(drawn))} ms,` +
      ` override to effect ${String(middle(applied))} ms (goals 300 and 100)`
  );
  expect(drawn.length + applied.length).toBe(10);
});
