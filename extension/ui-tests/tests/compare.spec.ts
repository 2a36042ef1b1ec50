/** Two moments, variants and sessions of a program, compared. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const MODEL = `%load_ext workbench
import numpy as np
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
target = data @ [1.0, -2.0, 0.5] > 0
w = np.full(3, 2.0)`;

const cell = (name: string): string => `%%autodiff loss --wrt w --name ${name}
h = np.tanh(data @ w)
p = 1 / (1 + np.exp(-h))
loss = -np.mean(np.log(np.where(target, p, 1 - p)))`;

// The same with another op on its second line.
const RELU = cell('bent').replace('np.tanh(data @ w)', 'np.maximum(data @ w, 0)');

const OTHER = `import workbench as wb
v = np.ones(3)
small = wb.Session(wb.trace(lambda v: np.sum(v**2))(v), name="small")
wb.show(small)`;

// On one line: what is typed into a cell is indented by the editor.
const LOOP = `for step in range(120): net.run(w=w); w = w - 0.8 * net.grads["w"]
one = net.override("tanh", "0.25 * d", name="damped")
for step in range(80): net.run(w=w); w = w - 0.8 * net.grads["w"]`;

const BEND = 'for step in range(50): bent.run(w=w); w = w - 0.8 * bent.grads["w"]';

test.use({ viewport: { width: 1400, height: 1100 } });

test('two runs, both variants and two sessions are compared', async ({ page }) => {
  test.setTimeout(240_000);
  await page.notebook.createNew('compare.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', MODEL);
  for (const source of [cell('net'), LOOP, cell('twin'), OTHER, RELU, BEND]) {
    await page.notebook.addCell('code', source);
  }
  for (const at of [0, 1, 2, 3, 4, 5, 6]) {
    await page.notebook.runCell(at, true);
  }
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const strip = graph.panel.locator('.workbench-Runs');
  const bar = graph.panel.getByRole('group', { name: 'Comparison' });
  await expect(strip.getByRole('status')).toContainText('200 steps');
  await expect(bar).toBeHidden();

  // A past run has its own overrides: none. The last one has its pill.
  const slider = strip.getByRole('slider', { name: 'Run' });
  await slider.fill('9');
  await expect(strip.getByRole('status')).toHaveText(/^step \d+ of 200/);
  await graph.showTab('Overrides');
  const rules = graph.panel.getByRole('list', { name: 'Overrides' }).locator('li');
  await expect(rules).toHaveCount(0);
  await strip.getByRole('button', { name: 'Live' }).click();
  await expect(rules).toHaveText(/damped/);

  // Without the override and with it: the tree and the inspector have both numbers.
  await strip.getByRole('button', { name: 'Compare' }).click();
  await expect(bar).toBeVisible();
  const choice = bar.getByRole('combobox', { name: 'Compare with' });
  await expect(choice).toHaveValue('true');
  await expect(bar.getByRole('status')).toContainText('nodes changed, most: ');
  const w = await graph.node('w');
  await graph.click(w);
  const table = graph.panel.locator('.workbench-NodeNumbers .workbench-Table');
  await expect(table.locator('thead')).toHaveText('without overridesnow');
  const [before, after] = (
    await print(page, 'print("%.4g %.4g" % net.compare()["w"].gradients)')
  ).split(' ');
  await expect(table).toContainText(`‖gradient‖${before}${after}`);
  const line = graph.panel.locator('.workbench-Cell > * > .workbench-Tree [data-node]');
  await expect(line.filter({ hasText: /^w\b/ }).first()).toContainText(
    /gradient norm \S+ without overrides, \S+ now: × 0\.\d+/
  );
  await graph.screenshot('compare-overrides');

  // Two runs: A by its number, B by the slider; the difference instead of the ratio.
  await choice.selectOption('run');
  await bar.getByRole('spinbutton').fill('5');
  await slider.fill('99');
  await expect(table.locator('thead')).toHaveText(/^run 5run \d+$/);
  const [first, last] = (/^run (\d+)run (\d+)$/.exec(
    (await table.locator('thead').textContent()) ?? ''
  ) ?? ['', '1', '1']).slice(1);
  const loss = await print(
    page,
    `print("%.4g %.4g" % net.compare(${first}, ${last})["w"].values)`
  );
  await expect(table).toContainText(`‖value‖${loss.replace(' ', '')}`);
  await graph.screenshot('compare-runs');
  await bar.getByRole('radio', { name: '± difference' }).click();
  await expect(graph.panel.locator('.workbench-Legend')).toContainText('−');
  await graph.screenshot('compare-difference');

  // Side by side: both pictures look at the same place, and have the same selection.
  await bar.getByRole('radio', { name: 'Side by side' }).click();
  const left = graph.panel.locator('.workbench-OtherSide');
  await expect(left).toBeVisible();
  await expect(left.locator('.workbench-SideCaption')).toHaveText('run 5');
  await expect(left.locator('.workbench-Canvas')).toHaveAttribute('data-ready', /.*/);
  await graph.canvas.press('f');
  await graph.canvas.press('+');
  await graph.canvas.press('ArrowDown');
  const boxes = async (): Promise<unknown[]> =>
    Promise.all(
      [graph.canvas, left.locator('.workbench-Canvas')].map(canvas =>
        canvas.evaluate(
          (node, id) =>
            (
              node as HTMLElement & {
                workbenchCanvas: { boxOf(node: number): unknown };
              }
            ).workbenchCanvas.boxOf(id),
          w
        )
      )
    );
  await expect
    .poll(async () => {
      const [right, other] = await boxes();
      return JSON.stringify(right) === JSON.stringify(other);
    })
    .toBe(true);
  await expect(graph.canvas).toHaveAttribute('aria-label', /, at matmul$/);
  await expect(left.locator('.workbench-Canvas')).toHaveAttribute('aria-label', /, at matmul$/);
  await graph.screenshot('compare-beside');
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('apputils:change-theme', {
      theme: 'JupyterLab Dark'
    })
  );
  await graph.screenshot('compare-beside-dark');
  await bar.getByRole('radio', { name: 'Difference', exact: true }).click();
  await graph.screenshot('compare-dark');
  await page.setViewportSize({ width: 1000, height: 900 });
  await graph.screenshot('compare-dark-1000');
  await bar.getByRole('radio', { name: 'Side by side' }).click();
  await graph.screenshot('compare-beside-dark-1000');
  await page.setViewportSize({ width: 1400, height: 1100 });

  // Another session of the program; one of another program is refused in words.
  await expect(choice.locator('option', { hasText: 'small' })).toHaveAttribute(
    'disabled',
    ''
  );
  await expect(choice.locator('option', { hasText: 'small' })).toContainText(
    'another program: it has'
  );
  await choice.selectOption('session twin');
  await expect(left.locator('.workbench-SideCaption')).toHaveText('session twin');
  await bar.getByRole('radio', { name: 'Difference', exact: true }).click();
  await expect(table.locator('thead')).toHaveText(/^session twinrun \d+$/);

  // A program with another op: its nodes are paired, both losses are in one chart.
  await choice.selectOption('session bent');
  await expect(table.locator('thead')).toHaveText(/^session bentrun \d+$/);
  await expect(strip.locator('path.workbench-mod-other')).toHaveCount(1);
  expect(await print(page, 'print(net.compare(bent)["h"].other)')).toContain('h');
  await bar.getByRole('radio', { name: 'Side by side' }).click();
  await expect(left.locator('.workbench-SideCaption')).toHaveText('session bent');
  await graph.screenshot('compare-programs');
  await bar.getByRole('radio', { name: 'Difference', exact: true }).click();

  // Escape leaves it, from the picture, after what is selected there, or from the bar.
  await graph.canvas.press('Escape');
  await expect(bar).toBeVisible();
  await graph.canvas.press('Escape');
  await expect(bar).toBeHidden();
  await expect(left).toBeHidden();
  await page.evaluate(() => window.jupyterapp.commands.execute('workbench:compare'));
  await expect(bar).toBeVisible();
  await choice.press('Escape');
  await expect(bar).toBeHidden();
});
