/** A picture beside a loop that runs: what Run All starts is seen, and heard. */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import {
  GraphOnPage,
  kernelReady,
  print,
  runAll,
  screenshotOf
} from './graph';

const LOAD = `%load_ext workbench
import time
import numpy as np`;

const DATA = `data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
weights = np.linspace(0.5, 1.5, 3)`;

const MODEL = `%%autodiff loss --wrt weights --name live
hidden = np.tanh(data @ weights)
loss = np.sum(hidden * hidden)`;

// The loop waits at step 80, still at work, until it has heard what it is told: on a
// slow machine it has a minute. No step pauses for long enough to be calm.
const LOOP = `step, heard, end = 0, None, time.monotonic() + 60
while step < 100: live.run(weights=weights); weights = weights * 0.99; heard = step if heard is None and live.overrides else heard; step += heard is not None or step < 80 or time.monotonic() > end; time.sleep(0.05)
print("heard at", heard, "of", step)`;

/** The texts of the title bar that were seen while the last cell ran. */
const watchBar = (page: IJupyterLabPageFixture): Promise<void> =>
  page.evaluate(() => {
    const texts = new Set<string>();
    Object.assign(window, { seenTexts: texts });
    const bar = document.querySelector('.workbench-Title')!;
    new MutationObserver(() => {
      const prompts = document.querySelectorAll('.jp-Notebook .jp-InputPrompt');
      if ([...prompts].at(-1)?.textContent?.includes('*')) {
        texts.add(bar.textContent ?? '');
      }
    }).observe(bar, { subtree: true, childList: true, characterData: true });
  });

const seenTexts = (page: IJupyterLabPageFixture): Promise<number> =>
  page.evaluate(() => (window as unknown as { seenTexts: Set<string> }).seenTexts.size);

/** A notebook with these cells, which have not run. */
async function createNotebook(
  page: IJupyterLabPageFixture,
  name: string,
  cells: readonly string[]
): Promise<void> {
  await page.notebook.createNew(name);
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', cells[0]);
  for (const source of cells.slice(1)) {
    await page.notebook.addCell('code', source);
  }
}

test.use({ viewport: { width: 1400, height: 1000 } });

test('Run All: a loop is seen while it runs, and hears an override @smoke', async ({
  page
}) => {
  test.setTimeout(240_000);
  await createNotebook(page, 'live.ipynb', [LOAD, DATA, MODEL, LOOP]);
  // All cells stand in the kernel's line before the first has run.
  await page.evaluate(() => {
    void window.jupyterapp.commands.execute('notebook:run-all-cells');
  });
  const graph = new GraphOnPage(page);
  await graph.ready();
  await watchBar(page);
  await expect.poll(() => seenTexts(page), { timeout: 60_000 }).toBeGreaterThan(10);
  await graph.live();

  await graph.click(await graph.node('hidden, tanh'));
  await graph.chip('stop').click();
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('100 %');

  const printed = page.locator('.jp-Notebook .jp-Cell').last().locator('pre');
  const heard = printed.filter({ hasText: 'heard at' });
  await expect(heard).toBeVisible({ timeout: 120_000 });
  const step = /heard at (\d+)/.exec((await heard.last().textContent()) ?? '')?.[1];
  console.log(`measured: heard at step ${step}, ${await seenTexts(page)} texts seen`);
  expect(Number(step)).toBeLessThan(90);
});

test('beside the notebook: follows the session, is in the sidebar, comes back', async ({
  page
}) => {
  test.setTimeout(240_000);
  const said: string[] = [];
  page.on('console', message => said.push(message.text()));
  await createNotebook(page, 'beside.ipynb', [LOAD, DATA, MODEL]);
  await runAll(page);
  const graph = new GraphOnPage(page, '.jp-OutputArea .workbench-Panel');
  await graph.ready();
  await graph.live();
  await graph.button('Open beside the notebook').click();

  const beside = new GraphOnPage(page, '.workbench-Beside .workbench-Panel');
  await beside.ready();
  await beside.live();
  // At full height: as high as the notebook beside it.
  const whole = (await page.locator('.jp-NotebookPanel').boundingBox())!.height;
  expect((await beside.panel.boundingBox())!.height).toBeGreaterThan(0.85 * whole);
  // In the cell a line says where it is, until it comes back.
  const away = graph.panel.getByText('live is shown beside the notebook.');
  await expect(away).toBeVisible();
  await page.screenshot({ path: screenshotOf('light-away') });
  expect((await graph.panel.boundingBox())!.height).toBeLessThan(60);
  await graph.button('Show it here').click();
  await expect(beside.panel).toHaveCount(0);
  await expect(away).toBeHidden();
  await graph.ready();
  await graph.button('Open beside the notebook').click();
  await beside.live();
  const bar = beside.panel.locator('.workbench-Title');
  const before = await bar.textContent();
  await print(page, 'live.run(weights=2 * weights); None');
  await expect(bar).not.toHaveText(before!);
  await page.screenshot({ path: screenshotOf('light-beside') });

  // The cell runs again: another session under the same name.
  await page.activity.activateTab('beside.ipynb');
  await page.notebook.selectCells(2);
  await page.notebook.runCell(2);
  await expect(bar).toHaveText(before!);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')
  );
  await runAll(page);
  await expect(bar).toHaveText(before!);
  expect(said.filter(text => /comm/i.test(text))).toEqual([]);
  await print(page, 'one = live.override("tanh", "0 * d")');
  await expect(beside.button(/^Undo:/)).toBeEnabled();

  await page.sidebar.openTab('workbench-sessions');
  const row = page.locator('.workbench-SessionRow');
  await expect(row).toHaveCount(1);
  await expect(row).toContainText('loss = ');
  await expect(row).toContainText('1 override');
  await expect(row).toContainText('live');
  await print(page, 'other = wb.show(wb.trace(lambda x: (x * x).sum())(data))');
  await page.screenshot({ path: screenshotOf('light-sessions') });
  await page.theme.setDarkTheme();
  await page.screenshot({ path: screenshotOf('dark-sessions') });
  await page.theme.setLightTheme();

  // A click and a key open it again.
  const tab = page.locator('.lm-DockPanel-tabBar .lm-TabBar-tab[title^="Session live"]');
  await tab.locator('.lm-TabBar-tabCloseIcon').click();
  await expect(beside.panel).toHaveCount(0);
  await row.click();
  await beside.live();
  await tab.locator('.lm-TabBar-tabCloseIcon').click();
  await expect(beside.panel).toHaveCount(0);
  await page.activity.activateTab('beside.ipynb');
  await page.notebook.selectCells(0);
  await page.keyboard.press('Alt+Shift+W');
  await beside.live();

  // It is there again when the page is loaded again.
  const loaded = page.waitForEvent('load');
  await page.evaluate(() => {
    window.location.reload();
  });
  await loaded;
  await expect(beside.panel).toBeVisible({ timeout: 60_000 });
});
