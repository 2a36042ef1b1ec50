/** The panel of overrides in the page (rows F4 and G1), by mouse and by keyboard. */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
x = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
W = np.linspace(-0.6, 0.9, 12).reshape(3, 4)
b = np.linspace(-0.1, 0.1, 4)`;

const MODEL = `%%autodiff loss --wrt W b --name net
a = x @ W + b
h = np.tanh(a)
loss = np.sum(h * h)`;

/** The gradient of b, by hand: of each override that is on, its factor. */
const SCALED = `
_h = np.tanh(x @ W + b)
_true = (2 * _h * (1 - _h**2)).sum(axis=0)
print(round(float((net.grads["b"] / _true)[0]), 6))`;

test.use({ viewport: { width: 1280, height: 1000 } });

async function graphOf(
  page: IJupyterLabPageFixture,
  attach: string
): Promise<GraphOnPage> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.notebook.createNew('overrides.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', MODEL);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  expect(await print(page, attach)).toBe('');
  return graph;
}

/** Two rules for every tanh: the later one has the say. */
const TWO = `net.override("tanh", "3 * d")
net.override("tanh", "5 * d")`;

test('G1: switched, moved, edited, taken back and copied by mouse', async ({
  page
}) => {
  const graph = await graphOf(page, TWO);
  await graph.showTab('Overrides 2');
  const rows = graph.panel.locator('.workbench-Override');
  const pills = rows.locator('.workbench-Pill');
  await expect(pills).toHaveText(['scale ×3', 'scale ×5']);
  expect(await print(page, SCALED)).toBe('5.0');
  await expect(rows.nth(0)).toContainText('scale ×5');
  await graph.screenshot('light-panel-overrides');

  // By its handle the first goes below the second, and so has the say.
  const handle = rows.nth(0).locator('.workbench-Handle');
  await handle.scrollIntoViewIfNeeded();
  const from = (await handle.boundingBox())!;
  const to = (await rows.nth(1).boundingBox())!;
  await page.mouse.move(from.x + 8, from.y + 10);
  await page.mouse.down();
  await page.mouse.move(from.x + 8, from.y + 40, { steps: 4 });
  await page.mouse.move(from.x + 8, to.y + to.height - 5, { steps: 6 });
  await graph.screenshotAsIs('light-panel-dragged');
  await page.mouse.up();
  await expect(pills).toHaveText(['scale ×5', 'scale ×3']);
  expect(await print(page, SCALED)).toBe('3.0');

  await rows.nth(1).getByRole('switch').click();
  await expect(rows.nth(1)).toHaveClass(/workbench-mod-off/);
  expect(await print(page, SCALED)).toBe('5.0');

  await rows.nth(0).getByRole('button', { name: 'Edit' }).click();
  const field = rows.nth(0).getByRole('textbox');
  await field.fill('clip(q, -1, 1)');
  await expect(rows.nth(0).locator('.workbench-Message')).toContainText('q');
  await graph.screenshot('light-panel-edit');
  await field.fill('7 * d');
  await expect(rows.nth(0).locator('.workbench-Message')).toContainText('ok');
  await rows.nth(0).getByRole('button', { name: 'Apply' }).click();
  await expect(pills.nth(0)).toHaveText('scale ×7');
  expect(await print(page, SCALED)).toBe('7.0');

  await graph.button('Copy all as code').click();
  const code = await page.evaluate(() => navigator.clipboard.readText());
  expect(code.split('\n')).toHaveLength(2);
  expect(await print(page, 'print(net.code())')).toBe(code);

  // Through the history to where nothing was changed, and to the end again.
  await graph.panel.locator('.workbench-History summary').click();
  const steps = graph.panel.locator('.workbench-Step');
  await expect(steps).toHaveCount(6);
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-panel-overrides');
  await steps.nth(0).click();
  await expect(rows).toHaveCount(0);
  expect(await print(page, SCALED)).toBe('1.0');
  await steps.nth(2).click();
  await expect(pills).toHaveText(['scale ×3', 'scale ×5']);
  expect(await print(page, SCALED)).toBe('5.0');
  await steps.nth(5).click();
  await expect(pills.nth(0)).toHaveText('scale ×7');
  expect(await print(page, SCALED)).toBe('7.0');
});

test('G1: all of it by keyboard alone @smoke', async ({ page }) => {
  const graph = await graphOf(page, TWO);
  const cells = await page.locator('.jp-Notebook .jp-Cell').count();
  await graph.click(await graph.node('h, tanh'));
  await page.keyboard.press('Shift+O');
  await expect(graph.tab('Overrides 2')).toBeFocused();
  const rows = graph.panel.locator('.workbench-Override');
  const pills = rows.locator('.workbench-Pill');
  await expect(pills).toHaveText(['scale ×3', 'scale ×5']);

  /** Go on with Tab until a control of this name has the keyboard. */
  const tabTo = async (name: RegExp): Promise<void> => {
    for (let i = 0; i < 30; i++) {
      await page.keyboard.press('Tab');
      const found = await page.evaluate(() => {
        const active = document.activeElement;
        return active?.getAttribute('aria-label') ?? active?.textContent ?? '';
      });
      if (name.test(found)) {
        return;
      }
    }
    throw new Error(`Tab does not reach ${name}`);
  };

  await tabTo(/^Move scale ×3/);
  await page.keyboard.press('ArrowDown');
  await expect(pills).toHaveText(['scale ×5', 'scale ×3']);
  expect(await print(page, SCALED)).toBe('3.0');
  // The keyboard has gone along: the next control is the switch of the same row.
  await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  await expect(rows.nth(1)).toHaveClass(/workbench-mod-off/);
  expect(await print(page, SCALED)).toBe('5.0');
  await page.keyboard.press('Space');
  await expect(rows.nth(1)).not.toHaveClass(/workbench-mod-off/);

  await tabTo(/^Edit$/);
  await page.keyboard.press('Enter');
  await expect(rows.nth(1).getByRole('textbox')).toBeFocused();
  await page.keyboard.type('2 * d');
  await page.keyboard.press('Enter');
  await expect(pills.nth(1)).toHaveText('scale ×2');
  expect(await print(page, SCALED)).toBe('2.0');
  await expect(rows.nth(1).getByRole('button', { name: 'Edit' })).toBeFocused();

  await tabTo(/^Copy as code$/);
  await page.keyboard.press('Enter');
  await expect(rows.nth(1)).toContainText('Copied');

  await page.keyboard.press('u');
  await expect(pills.nth(1)).toHaveText('scale ×3');
  await page.keyboard.press('Shift+U');
  await expect(pills.nth(1)).toHaveText('scale ×2');

  await tabTo(/^History/);
  await page.keyboard.press('Space');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect(rows).toHaveCount(0);
  expect(await print(page, SCALED)).toBe('1.0');
  await expect(page.locator('.jp-Notebook .jp-Cell')).toHaveCount(cells);
});

test('a check says what is changed on purpose, and captions what is in force', async ({
  page
}) => {
  const graph = await graphOf(page, 'net.override("tanh", "0 * d")');
  const check = graph.panel.locator('.workbench-GradientCheck');
  await graph.showTab('Checks');
  await graph.button('Check gradients').click();
  await expect(check.locator('.workbench-Hint')).toHaveText(
    'Nothing is wrong. Overrides (scale ×0) change W by 100 %, b by 100 % on purpose.',
    { timeout: 60_000 }
  );
  await expect(check).not.toContainText('all gradients right');
  await expect(check).not.toContainText('agree with differences.');
  const lines = check.locator('summary');
  for (const line of await lines.all()) {
    await line.click();
  }
  await expect(check.locator('.workbench-Gradient.workbench-mod-changed')).toHaveCount(
    2
  );
  const found = graph.panel.locator('.workbench-Found');
  await expect(found).toHaveText(/^2 gradients changed/);
  await expect(graph.panel.locator('.workbench-Legend')).toContainText(
    'changed on purpose'
  );
  await graph.screenshot('light-changed');

  await graph.click(await graph.node('a, add'));
  await graph.click(await graph.node('h, tanh'), ['Shift']);
  const strip = graph.panel.locator('.workbench-PairStrip');
  await expect(strip).toContainText('with 1 override: scale ×0');
  await strip.getByRole('button', { name: 'Derivative' }).click();
  const drawer = graph.panel.locator('.workbench-Drawer');
  await expect(drawer.locator('.js-plotly-plot')).toBeVisible({ timeout: 30_000 });
  await expect(drawer.locator('.workbench-Caption')).toContainText(
    'with 1 override: scale ×0'
  );
  await graph.screenshot('light-jacobian-override');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-jacobian-override');
  await graph.showTab('Checks');
  await graph.button('Plot the errors').click();
  await expect(drawer.locator('.workbench-Caption')).toContainText('on purpose');
  await graph.screenshot('dark-changed');
});

const LOOPED = `%%autodiff loss --wrt w --name net
h = np.tanh(w)
h = wb.scan(lambda h, w: np.tanh(w * h), None, [h], w, n_steps=3, last=True)
loss = np.sum(h)`;

/** The gradient with another factor in one step of the loop, written out by hand. */
const ONE_STEP = `
_w = np.array([0.7, -0.4])
_s = [np.tanh(_w)]
for _ in range(3):
    _s.append(np.tanh(_w * _s[-1]))
_g, _d = np.ones(2), np.zeros(2)
for _i in (2, 1, 0):
    _b = _g * (1 - _s[_i + 1] ** 2) * (0.5 if _i == 1 else 1)
    _d, _g = _d + _b * _s[_i], _b * _w
_d = _d + _g * (1 - _s[0] ** 2)
print(np.allclose(net.grads["w"], _d))`;

test('G1: a rule for one step of a loop, by mouse, in the light and in the dark', async ({
  page
}) => {
  await page.notebook.createNew('steps.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', `${SETUP}\nw = np.array([0.7, -0.4])`);
  await page.notebook.addCell('code', LOOPED);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  await graph.click(await graph.node('h, tanh'));
  await graph.panel.getByRole('radio', { name: /tanh/ }).last().click();
  await graph.field.fill('0.5 * d');
  const steps = graph.panel.getByRole('textbox', { name: /steps/i });
  await steps.fill('1');
  await graph.screenshot('light-steps');
  await graph.button('Apply').click();
  await expect(graph.tab('Overrides 1')).toBeVisible();
  expect(await print(page, ONE_STEP)).toBe('True');
  await graph.showTab('Overrides 1');
  await expect(graph.panel.locator('.workbench-Override')).toContainText('in step 1');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-steps');

  // Edited in the list, it keeps the step.
  const row = graph.panel.locator('.workbench-Override').first();
  await row.getByRole('button', { name: 'Edit' }).click();
  await graph.screenshot('dark-steps-edited');
  await row.getByRole('textbox').first().fill('0.25 * d');
  await page.keyboard.press('Enter');
  await expect(row).toContainText('in step 1');
  expect(await print(page, ONE_STEP.replace('0.5 if', '0.25 if'))).toBe('True');
});
