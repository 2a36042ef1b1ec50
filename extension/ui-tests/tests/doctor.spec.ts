/** The doctor and the gradient check in the page (rows G3 and G5). */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, openAgain, print } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
v = np.array([0.0, 4.0, 0.25])
x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
W = np.linspace(0.2, 0.9, 12).reshape(3, 4)`;

/** The root has an infinite slope at 0, and 0 · inf is NaN. */
const ROOT = `%%autodiff loss --wrt v --name root
r = np.sqrt(v)
loss = np.sum(r * (r + 0.0))`;

/** By hand: the derivative of sum(v) wherever it is defined. */
const GRADIENT = `print(root.grads["v"].tolist())`;

/** An op whose derivative is that of another function: 3 y² in place of 3 x². */
const CARELESS = `import workbench as wb
class Cube(wb.Op):
    def compute(self, x):
        return x**3

    def vjp(self, node, g):
        (y,) = node.outputs
        return 3 * y**2 * g

cube = Cube()`;

const CUBES = `%%autodiff loss --wrt W --name cubes
h = np.tanh(x @ W)
c = cube(h)
loss = np.mean(c * c)`;

// High enough for a graph with its drawer.
test.use({ viewport: { width: 1280, height: 1150 } });

async function graphOf(
  page: IJupyterLabPageFixture,
  cell: string,
  before = ''
): Promise<GraphOnPage> {
  await page.notebook.createNew('doctor.ipynb');
  await kernelReady(page);
  // Not typed into a cell: its editor would indent what is indented already.
  expect(await print(page, before)).toBe('');
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', cell);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  return graph;
}

test('G3: a NaN gradient, the doctor, a click on the fix: finite @smoke', async ({ page }) => {
  const graph = await graphOf(page, ROOT);
  expect(await print(page, GRADIENT)).toContain('nan');
  await expect(graph.panel.locator('.workbench-Found')).toBeHidden();

  await graph.showTab('Checks');
  const doctor = graph.panel.getByRole('region', { name: 'Doctor' });
  await doctor.getByRole('button', { name: 'Diagnose', exact: true }).click();
  const finding = graph.panel.locator('.workbench-Doctor .workbench-Finding').first();
  await expect(finding).toBeVisible({ timeout: 30_000 });
  await expect(finding).toContainText('Error');
  await expect(finding).toContainText('r = np.sqrt(v)');
  await expect(graph.panel.locator('.workbench-Found')).toContainText(/\d findings?/);
  const blamed = finding.locator('.workbench-NodeLink');
  await expect(blamed).toHaveText('r');
  await blamed.click();
  await graph.screenshot('light-diagnosed');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-diagnosed');
  await page.theme.setLightTheme();
  // The list for screen readers says it of the same node.
  const line = graph.panel.locator('.workbench-Tree [data-node]').filter({
    hasText: /^r, sqrt/
  });
  await expect(line).toContainText('error: ');

  await finding.getByRole('button', { name: 'Attach fix' }).click();
  await graph.showInspector();
  await expect(graph.tab('Overrides 1')).toBeVisible();
  // The doctor has looked again by itself: nothing is left to find.
  await expect(graph.panel.locator('.workbench-Doctor')).toContainText(
    /both passes are healthy|no error/i,
    { timeout: 30_000 }
  );
  const after = await print(page, GRADIENT);
  expect(after).not.toContain('nan');
  const numbers = JSON.parse(after) as number[];
  expect(numbers.every(Number.isFinite)).toBe(true);
  // Where the root has a derivative, the gradient is the true one: 1.
  expect(numbers[1]).toBeCloseTo(1, 4);
  expect(numbers[2]).toBeCloseTo(1, 4);
  await graph.screenshot('light-fixed');
});

test('G5: a custom op with a wrong rule is the red node', async ({ page, tmpPath }) => {
  const graph = await graphOf(page, CUBES, CARELESS);
  await page.evaluate(() => document.body.focus());
  await graph.click(await graph.node('h, tanh'));
  await page.keyboard.press('c');
  const check = graph.panel.locator('.workbench-GradientCheck');
  const wrong = check.locator('.workbench-NodeCheck.workbench-mod-wrong');
  await expect(wrong).toHaveCount(1, { timeout: 30_000 });
  await expect(wrong).toContainText('expected');
  await expect(wrong.locator('.workbench-NodeLink')).toHaveText('c');
  await expect(check.locator('.workbench-Counts')).toContainText('1 wrong');
  await expect(graph.button('1 wrong rule: show checks')).toBeVisible();
  await graph.screenshot('light-wrong');

  // The numbers of the panel are those of the two formulas.
  const facts = await wrong.locator('dd').allTextContents();
  const [row, column] = /\[(\d+), (\d+)\]/.exec(facts[0])!.slice(1).map(Number);
  const [expected, got] = facts.slice(1, 3).map(text => Number(text.replace('−', '-')));
  const ratio = Number(
    await print(page, `_h = np.tanh(x @ W)[${row}, ${column}]; print((_h**6 / _h**2))`)
  );
  expect(got / expected).toBeCloseTo(ratio, 5);

  await wrong.locator('.workbench-NodeLink').click();
  await graph.showTab('Node');
  await expect(graph.panel.locator('.workbench-CheckLine')).toContainText(
    'The rule is wrong'
  );
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-wrong');

  // The saved picture shows it without a kernel.
  await page.notebook.save();
  await openAgain(page, `${tmpPath}/doctor.ipynb`);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('notebook:shutdown-kernel')
  );
  await graph.ready();
  await graph.showTab('Checks 1');
  await expect(wrong).toContainText('expected');
  await expect(graph.button('Check again')).toBeDisabled();
});
