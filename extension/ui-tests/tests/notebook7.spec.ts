/** The extension in Notebook 7, which the server of these tests has where it is installed. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { type Page, expect, test } from '@playwright/test';

import { GraphOnPage, kernelReady, print, runAll, screenshotOf } from './graph';

const NOTEBOOK = '01-first-gradient.ipynb';
const FILE = fileURLToPath(new URL(`../../../notebooks/${NOTEBOOK}`, import.meta.url));

/** The gradient by W1 is the one with half of what flows back through tanh, by hand. */
const HALVED = `
_X, _W1, _b1, _W2, _b2, _t = (model.values[n] for n in "X W1 b1 W2 b2 t".split())
_h = np.tanh(_X @ _W1 + _b1)
_p = 1 / (1 + np.exp(-(_h @ _W2 + _b2)))
_d = np.outer((_p - _t) / len(_t), _W2) * (1 - _h**2)
_far = lambda d: np.abs(model.grads["W1"] - _X.T @ d).max()
print(_far(_d) < 1e-9, _far(_d / 2) < 1e-9)`;

test.use({ viewport: { width: 1400, height: 1000 } });

/** Open a file in Notebook 7; false where it is not installed. */
async function openInNotebook7(page: Page, path: string): Promise<boolean> {
  const body = JSON.parse(readFileSync(FILE, 'utf8')) as object;
  await page.request.put(`/api/contents/${path}`, {
    data: { type: 'notebook', format: 'json', content: body }
  });
  const answer = await page.goto(`/notebooks/${path}`);
  if (answer?.status() === 404) {
    return false;
  }
  await page.waitForFunction(() => 'jupyterapp' in window);
  await page.evaluate(() => window.jupyterapp.restored);
  await page.waitForFunction(
    () => window.jupyterapp.shell.currentWidget !== null
  );
  return true;
}

test('Notebook 7: run, click, change, beside, sessions, palette, scrub', async ({
  page: plain
}) => {
  test.setTimeout(240_000);
  plain.setDefaultTimeout(30_000);
  const errors: string[] = [];
  plain.on('pageerror', error => errors.push(error.message));
  test.skip(!(await openInNotebook7(plain, NOTEBOOK)), 'Notebook 7 is not installed');
  // What the helpers use of a page of JupyterLab is here too.
  const page = plain as IJupyterLabPageFixture;
  const setTheme = (theme: 'Dark' | 'Light'): Promise<void> =>
    page.evaluate(
      name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name }),
      `JupyterLab ${theme}`
    );
  await kernelReady(page);
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  await page.screenshot({ path: screenshotOf('notebook7-light') });

  // Click a node, halve what flows back through it, undo.
  expect(await print(page, HALVED)).toBe('True False');
  await graph.click(await graph.node('h, tanh'));
  await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('htanh');
  await graph.chip('scale').click();
  await graph.field.fill('0.5 * d');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('requested gradients');
  expect(await print(page, HALVED)).toBe('False True');
  await graph.screenshot('notebook7-override');
  await graph.canvas.focus();
  await page.keyboard.press('u');
  await graph.showInspector();
  await expect(graph.tab('Overrides')).toHaveText('Overrides');
  expect(await print(page, HALVED)).toBe('True False');

  // Beside the notebook it has as much room as that, and nothing of it is cut.
  await page.setViewportSize({ width: 1000, height: 800 });
  await graph.button('Open beside the notebook').click();
  const beside = new GraphOnPage(page, '.workbench-Beside .workbench-Panel');
  await beside.ready();
  await beside.live();
  await expect
    .poll(async () => (await beside.panel.boundingBox())!.width)
    .toBeGreaterThan(450);
  const live = beside.panel.locator('.workbench-Live');
  await expect
    .poll(async () => {
      const { x, width } = (await live.boundingBox())!;
      return x + width;
    })
    .toBeLessThanOrEqual(1000);
  await page.screenshot({ path: screenshotOf('notebook7-beside-1000') });
  await setTheme('Dark');
  await page.screenshot({ path: screenshotOf('notebook7-beside-dark-1000') });
  await page.setViewportSize({ width: 1400, height: 1000 });
  await beside.ready();
  await page.screenshot({ path: screenshotOf('notebook7-beside-dark') });
  await setTheme('Light');
  await page.screenshot({ path: screenshotOf('notebook7-beside') });

  // Back to a run of the training, and to now.
  const strip = beside.panel.locator('.workbench-Runs');
  const status = strip.getByRole('status');
  await expect(status).toContainText('202 steps');
  await strip.getByRole('slider', { name: 'Run' }).fill('9');
  await expect(status).toHaveText(/^step \d+ of 202/);
  const step = /\d+/.exec((await status.textContent()) ?? '')?.[0];
  const loss = await print(page, `print(f"{model.timeline[${step}].loss:.4g}")`);
  await expect(beside.panel.locator('.workbench-Title')).toContainText(loss);
  await page.screenshot({ path: screenshotOf('notebook7-past') });
  await strip.getByRole('button', { name: 'Live' }).click();
  await expect(status).toContainText('202 steps');

  // The sidebar of sessions, from the View menu; its row leads to the graph beside.
  await page.locator('#jp-right-stack .jp-SidePanel-collapse').click();
  await expect(beside.panel).toBeHidden();
  await page.getByRole('menuitem', { name: 'View', exact: true }).click();
  await page.locator('.lm-Menu-item').filter({ hasText: 'Left Sidebar' }).click();
  await page.screenshot({ path: screenshotOf('notebook7-menu') });
  await page.locator('.lm-Menu-item').filter({ hasText: 'Workbench: sessions' }).click();
  const row = page.locator('.workbench-SessionRow');
  await expect(row).toHaveCount(1);
  await expect(row).toContainText('live');
  await page.screenshot({ path: screenshotOf('notebook7-sessions') });
  await row.click();
  await expect(beside.panel).toBeVisible();

  // The palette and a key open it, too.
  const hide = async (): Promise<void> => {
    await page.locator('#jp-right-stack .jp-SidePanel-collapse').click();
    await expect(beside.panel).toBeHidden();
  };
  await hide();
  await page.keyboard.press('Control+Shift+C');
  await page.locator('.lm-CommandPalette-input').fill('graph beside');
  await page.screenshot({ path: screenshotOf('notebook7-palette') });
  await page.keyboard.press('Enter');
  await expect(beside.panel).toBeVisible();
  await hide();
  await page.keyboard.press('Alt+Shift+W');
  await expect(beside.panel).toBeVisible();
  // These come with Notebook itself, without the extension too: the second where its
  // list of files is restored before the commands of that list are there.
  const known = /reading 'schema'|'filebrowser:open-path' not registered/;
  expect(errors.filter(text => !known.test(text))).toEqual([]);
});
