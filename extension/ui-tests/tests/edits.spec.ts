/** The doctor's advice, applied to the cell and taken back (section 5). */

import { expect, test } from '@jupyterlab/galata';

import type { NotebookPanel } from '@jupyterlab/notebook';

import { GraphOnPage, kernelReady, print, screenshotOf } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
z = np.array([[1000.0, 1.0, -2.0], [0.5, 800.0, 3.0]])`;

/** Two faults of one text in a line; the second is meant, and is of two lines. */
const CELL = `%%autodiff loss --wrt z --name soft
# the loss
a = np.log(1 + np.exp(z / 1000)) + 2 * np.log(
    1 + np.exp(z))
loss = np.mean(a)`;

const APPLIED = `%%autodiff loss --wrt z --name soft
# the loss
a = np.log(1 + np.exp(z / 1000)) + 2 * np.logaddexp(0, z)
loss = np.mean(a)`;

/** By hand: the derivative of the softplus is the logistic function. */
const EXPECTED = `from scipy.special import expit
print(bool(np.allclose(soft.grads["z"], (expit(z / 1000) / 1000 + 2 * expit(z)) / 6)))`;

test.use({ viewport: { width: 1400, height: 1000 } });

test('§5: advice is applied to the cell, which runs again, and undone', async ({
  page
}) => {
  await page.notebook.createNew('edits.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', '');
  const source = (): Promise<string> =>
    page.evaluate(() => {
      const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
      return content.widgets[1].model.sharedModel.getSource();
    });
  const change = (text: string): Promise<void> =>
    page.evaluate(now => {
      const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
      content.widgets[1].model.sharedModel.setSource(now);
    }, text);
  const lock = (editable: boolean): Promise<void> =>
    page.evaluate(now => {
      const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
      content.widgets[1].model.setMetadata('editable', now);
    }, editable);
  const trust = (trusted: boolean): Promise<void> =>
    page.evaluate(now => {
      const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
      (content.widgets[1].model as unknown as { trusted: boolean }).trusted = now;
    }, trusted);
  await change(CELL); // typed, it would be indented twice
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();

  await graph.showTab('Checks');
  const doctor = graph.panel.locator('.workbench-Doctor');
  await doctor.getByRole('button', { name: 'Diagnose', exact: true }).click();
  const finding = doctor.locator('.workbench-Finding').first();
  await expect(finding).toBeVisible({ timeout: 30_000 });
  const offer = finding.getByRole('button', { name: 'Apply to cell …' });
  const apply = finding.getByRole('button', { name: 'Apply and run' });
  const refusal = finding.locator('.workbench-Refusal');

  // The change is shown, and nothing else happens.
  await offer.click();
  await expect(finding.locator('del')).toHaveCount(2);
  await expect(finding.locator('ins')).toHaveCount(1);
  await expect(finding.locator('ins')).toContainText('2 * np.logaddexp(0, z)');
  expect(await source()).toBe(CELL);
  await finding.scrollIntoViewIfNeeded();
  await graph.screenshot('light-edit-offered');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-edit-offered');
  await page.theme.setLightTheme();

  // Where the cell is not what was analysed, or not to be changed, words say so.
  const refused = async (words: string): Promise<void> => {
    await offer.click();
    await offer.click();
    await expect(refusal).toContainText(words);
    await expect(apply).toBeDisabled();
  };
  await change(CELL.replace('# the loss\n', ''));
  await refused('was edited since it ran: its line 3 is not “a = np.log(1 +');
  await graph.screenshot('light-edit-refused');
  await change(CELL);
  await lock(false);
  await refused('locked');
  await lock(true);
  await trust(false);
  await refused('not trusted');
  await trust(true);
  await offer.click();
  await offer.click();
  await expect(refusal).toHaveCount(0);

  // Applied: the cell has run, the doctor has looked again, the numbers are right.
  await apply.click();
  await expect.poll(source).toBe(APPLIED);
  await expect(doctor).toContainText('Nothing found: both passes are healthy', {
    timeout: 30_000
  });
  const changed = doctor.getByRole('group', { name: 'Changed in the cell' });
  await expect(changed.locator('ins')).toContainText('np.logaddexp(0, z)');
  expect(await print(page, EXPECTED)).toBe('True');
  await graph.screenshot('light-edit-applied');
  await page.setViewportSize({ width: 1000, height: 1000 });
  await graph.screenshot('light-edit-applied-1000');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-edit-applied-1000');
  await page.theme.setLightTheme();
  await page.setViewportSize({ width: 1400, height: 1000 });

  // It is one step of the cell's own undo, which is known here.
  const cell = (await page.notebook.getCellInputLocator(1))!;
  await cell.locator('.cm-content').click();
  await page.keyboard.press('Control+z');
  await expect.poll(source).toBe(CELL);
  await page.keyboard.press('Control+Shift+z');
  await expect.poll(source).toBe(APPLIED);

  await changed.getByRole('button', { name: 'Undo in the cell' }).click();
  await expect.poll(source).toBe(CELL);
  await expect(doctor.locator('.workbench-Finding').first()).toContainText(
    'overflows',
    { timeout: 30_000 }
  );
  await expect(changed).toHaveCount(0);
  expect(await print(page, EXPECTED)).toBe('False');
  await page.screenshot({ path: screenshotOf('light-edit-undone') });
});
