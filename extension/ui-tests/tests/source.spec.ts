/** The source and the picture are one while a session is live. */

import { expect, test } from '@jupyterlab/galata';

import type { NotebookPanel } from '@jupyterlab/notebook';

import { GraphOnPage, kernelReady, print, runAll, screenshotOf } from './graph';

const LOAD = `%load_ext workbench
import numpy as np
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
weights = np.linspace(0.5, 1.5, 3)`;

const MODEL = `%%autodiff loss --wrt weights --name net
hidden = np.tanh(data @ weights)
loss = np.sum(hidden * hidden)`;

/** The gradients of the lines, written by hand in NumPy. */
const BY_HAND = `
import numpy as _np
_h = _np.tanh(data @ weights)
print(f"{_np.linalg.norm(2 * _h):.3g} {net.value:.3g}")`;

// With the server's own kernels: these can be restarted.
test.use({ viewport: { width: 1400, height: 1000 }, kernels: null, sessions: null });

test('lines tell their gradients, names their values, the cursor its nodes', async ({
  page
}) => {
  await page.notebook.createNew('source.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', LOAD);
  await page.notebook.addCell('code', MODEL);
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const [norm] = (await print(page, BY_HAND)).split(' ');

  const cell = page.locator('.jp-Notebook .jp-CodeCell').nth(1);
  const gradients = cell.locator('.workbench-LineGradient[title]:not([title=""])');
  await expect(gradients).toHaveCount(2);
  await expect(gradients.first()).toHaveAttribute('title', /^‖∂loss\/∂hidden‖ = /);
  const title = (await gradients.first().getAttribute('title')) ?? '';
  expect(Number(title.split('= ')[1])).toBeCloseTo(Number(norm), 1);
  await expect(gradients.last()).toHaveAttribute('title', '‖∂loss/∂loss‖ = 1');

  // They follow the session.
  await print(page, 'one = net.override("tanh", "0 * d"); net.run(weights=0 * weights); None');
  await expect(gradients.first()).toHaveAttribute('title', '‖∂loss/∂hidden‖ = 0');
  await print(page, 'net.undo(); net.run(weights=weights); None');
  await expect(gradients.first()).toHaveAttribute('title', title);

  // The name at the head of its line.
  const at = { position: { x: 14, y: 8 } };
  const name = cell.locator('.cm-line').nth(1);
  await cell.locator('.cm-line').nth(1).click();
  const outlined = (): Promise<number> =>
    graph.canvas.evaluate(
      canvas =>
        (canvas as unknown as { workbenchCanvas: { outlined: number } }).workbenchCanvas
          .outlined
    );
  // The product and tanh.
  await expect.poll(outlined).toBe(2);
  await page.screenshot({ path: screenshotOf('light-source') });
  await name.hover(at);
  const tooltip = page.locator('.workbench-NameTooltip');
  await expect(tooltip).toContainText('hidden · 20 · float64');
  await expect(tooltip).toContainText('gradient ‖·‖');
  await page.theme.setDarkTheme();
  await page.mouse.move(0, 0);
  await expect(tooltip).toHaveCount(0);
  await name.hover(at);
  await expect(tooltip).toBeVisible();
  await page.screenshot({ path: screenshotOf('dark-source') });

  // The menu of a node leads to its line; its keys do, too.
  const hidden = await graph.node('hidden, tanh');
  await graph.click(hidden);
  await graph.canvas.press('Shift+F10');
  const menu = page.locator('.workbench-NodeMenu');
  await expect(menu.getByText('Copy Node as Code')).toBeVisible();
  await page.screenshot({ path: screenshotOf('dark-menu') });
  await menu.getByText('Show Line in Cell').click();
  await expect(menu).toHaveCount(0);
  await expect(cell.locator('.cm-editor.cm-focused')).toBeVisible();

  // Without its session the editor is as it was.
  await page.evaluate(async () => {
    const { shell } = window.jupyterapp;
    const panel = shell.currentWidget as NotebookPanel;
    await panel.sessionContext.session?.kernel?.restart();
  });
  await expect(gradients).toHaveCount(0);
  await expect(graph.banner).toContainText('No kernel answers any more');
});
