import { expect, type IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import type { Locator } from '@playwright/test';

import { GraphOnPage, kernelReady, open, runAll } from './graph';

/** Calculus as it is learned at school: the derivative by hand is 2 x + 1. */
const LOAD = `%load_ext workbench
x = 3.0`;
const QUADRATIC = `%%autodiff y --name quadratic
y = x * x + x - 2`;

/** The stage with the derivative as a program, and its timeline. */
class Simplified {
  readonly stage: Locator;
  readonly canvas: Locator;
  readonly slider: Locator;
  readonly code: Locator;
  readonly rule: Locator;
  readonly sides: Locator;
  readonly lines: Locator;

  constructor(readonly graph: GraphOnPage) {
    const { panel } = graph;
    this.stage = panel.locator('.workbench-Rewrites');
    this.canvas = this.stage.locator('.workbench-Canvas');
    this.slider = this.stage.getByRole('slider');
    this.code = this.stage.locator('.workbench-WholeProgram');
    this.rule = this.stage.locator('.workbench-RuleName');
    this.sides = this.stage.locator('.workbench-RuleSides');
    this.lines = this.stage.getByRole('treeitem');
  }

  async open(): Promise<void> {
    await this.graph.chip('Simplified').click();
    await this.ready();
  }

  /** Go by the list to the node that the override made, as the keyboard does. */
  async showOverridden(): Promise<void> {
    const line = this.lines.filter({ hasText: /, override clip/ });
    await line.first().dispatchEvent('click');
    await this.graph.page.keyboard.press('Escape');
    await this.ready();
  }

  async ready(): Promise<void> {
    await expect(this.canvas).toHaveAttribute('data-ready', /.*/);
  }
}

async function openQuadratic(page: IJupyterLabPageFixture): Promise<GraphOnPage> {
  await page.notebook.createNew();
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', LOAD);
  await page.notebook.addCell('code', QUADRATIC);
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  return graph;
}

test.use({ viewport: { width: 1280, height: 900 } });

test.describe('the derivative, simplified', () => {
  test('D2: from the chain rule to 2 * x + 1, a rule off and on again', async ({
    page
  }) => {
    const graph = await openQuadratic(page);
    const simplified = new Simplified(graph);
    await simplified.open();
    const { code, lines, rule, sides, slider } = simplified;
    await expect(code).toHaveAttribute('title', '∂y/∂x = 2 * x + 1');
    await graph.screenshot('light-simplified-last');
    await slider.focus();
    await page.keyboard.press('Home');
    await expect(code).toHaveAttribute('title', '∂y/∂x = 1 * x + x * 1 + 1 - 0');
    await expect(lines).toHaveCount(6);
    await graph.screenshot('light-simplified-first');
    const steps = [
      ['one times x', '1 * x', 'x', 'x + x * 1 + 1 - 0'],
      ['one times x', 'x * 1', 'x', 'x + x + 1 - 0'],
      ['x plus x', 'x + x', '2 * x', '2 * x + 1 - 0'],
      ['x minus zero', '2 * x + 1 - 0', '2 * x + 1', '2 * x + 1']
    ];
    for (const [name, before, after, whole] of steps) {
      await page.keyboard.press('ArrowRight');
      await expect(rule).toHaveText(name);
      await expect(sides.locator('del')).toHaveText(before);
      await expect(sides.locator('ins')).toHaveText(after);
      await expect(code).toHaveAttribute('title', `∂y/∂x = ${whole}`);
      await simplified.ready();
    }
    await page.keyboard.press('ArrowLeft');
    await expect(rule).toHaveText('x plus x');
    await expect(lines.filter({ hasText: 'new in this step' })).toHaveCount(1);
    await expect(lines.filter({ hasText: 'gone with this step' })).toHaveCount(1);
    await expect(simplified.stage).toContainText(/exact_rules\.py:\d+/);
    await simplified.ready();
    await graph.screenshot('light-simplified-step');

    await graph.button('Switch this rule off').click();
    await expect(graph.button('Use the rule “x plus x” again')).toBeVisible();
    await page.keyboard.press('Tab');
    await slider.focus();
    await page.keyboard.press('End');
    await expect(code).toHaveAttribute('title', '∂y/∂x = x + x + 1');
    await page.theme.setDarkTheme();
    await graph.screenshot('dark-simplified-off');
    await graph.button('Use the rule “x plus x” again').click();
    await expect(code).toHaveAttribute('title', '∂y/∂x = 2 * x + 1 - 0');

    // It plays to the end by itself, and stops there.
    await slider.focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('Space');
    await expect(graph.button('Pause')).toBeVisible();
    await expect(code).toHaveAttribute('title', '∂y/∂x = 2 * x + 1');
    await expect(graph.button('Play the steps')).toBeVisible();
  });

  test("the tutorial's network, with an override that stays to be seen", async ({
    page,
    tmpPath
  }) => {
    await open(page, tmpPath, '01-first-gradient.ipynb');
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    await graph.click(await graph.node('h, tanh'));
    await graph.chip('clip').click();
    await graph.button('Apply').click();
    await expect(graph.effect).toContainText('changes');
    const simplified = new Simplified(graph);
    await simplified.open();
    await expect(simplified.stage.locator('.workbench-Pill')).toContainText('clip');
    await expect(
      simplified.lines.filter({ hasText: 'override clip' })
    ).not.toHaveCount(0);
    await simplified.showOverridden();
    await graph.screenshot('light-simplified-network');
    await page.theme.setDarkTheme();
    await simplified.slider.focus();
    await page.keyboard.press('ArrowLeft');
    await simplified.ready();
    await graph.screenshot('dark-simplified-network');
    // A node of the derivative leads to the node of the cell that it belongs to.
    await simplified.canvas.focus();
    await page.keyboard.press('ArrowDown');
    await expect(graph.panel.locator('.workbench-NodeName')).not.toHaveText('htanh');
    await page.sidebar.close('left');
    await page.setViewportSize({ width: 600, height: 1100 });
    await simplified.ready();
    await graph.screenshot('dark-simplified-narrow');
    const overflow = await graph.panel.evaluate(
      node => node.scrollWidth - node.clientWidth
    );
    expect(overflow).toBe(0);
  });

  test('a saved notebook says that it is not available', async ({ page, tmpPath }) => {
    await open(page, tmpPath, '01-first-gradient.ipynb');
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.live();
    await new Simplified(graph).open();
    await page.notebook.save();
    await page.evaluate(() =>
      window.jupyterapp.commands.execute('notebook:shutdown-kernel')
    );
    // Without its kernel the picture goes back to what it can show.
    await expect(graph.chip('Derivative')).toHaveAttribute('aria-checked', 'true');
    await graph.ready();
    await page.notebook.close(false);
    await page.notebook.openByPath(`${tmpPath}/01-first-gradient.ipynb`);
    await kernelReady(page);
    await graph.ready();
    const stage = graph.chip('Simplified');
    await expect(stage).toHaveAttribute('aria-disabled', 'true');
    await stage.click({ force: true });
    await expect(graph.banner).toContainText('not available in a saved picture');
    await expect(graph.chip('Derivative')).toHaveAttribute('aria-checked', 'true');
  });
});
