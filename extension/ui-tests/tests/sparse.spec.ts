/** Patterns with their colours: in the tutorials as saved, fresh from a kernel, in the page. */

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';
import type { Locator } from '@playwright/test';

import { GraphOnPage, kernelReady, open, print, runAll, screenshotOf } from './graph';

const SETUP = `import numpy as np
import workbench as wb

def arrow(x):
    return np.concatenate([[np.sum(x**2)], x[0] * x[1:] ** 2])

def energy(x):
    return np.sum(x[1:] * x[:-1] ** 2)

wide = wb.sparsity(lambda x: x[2:] * x[:-2] + x[1:-1], np.ones(14))
tree = wb.sparsity(energy, np.ones(14), order=2)
long = wb.sparsity(lambda x: np.tanh(x[1:] * x[:-1]), np.ones(100_000))`;

/** One figure for each way to colour, and of one too large for single entries. */
const FIGURES = {
  columns: "wb.plots.sparsity(wide.colouring('columns'))",
  rows: "wb.plots.sparsity(wide.T.colouring('rows'))",
  both: 'wb.plots.sparsity(wb.sparsity(arrow, np.ones(14)).colouring("both"))',
  star: "wb.plots.sparsity(tree.colouring('star'))",
  pooled: 'wb.plots.sparsity(long)',
  zoomed: 'wb.plots.sparsity(long, window=((500, 530), (500, 530)))'
};

/** The Hessian by a and b: each entry of a meets its own of b, and its neighbour. */
const CELL = `%load_ext workbench
a, b = np.linspace(0.5, 1.5, 12), np.linspace(-1.0, 1.0, 12)`;
const PROGRAM = `%%autodiff total --wrt a b --name chain
s = a[1:] * a[:-1] + np.sin(b[1:])
total = np.sum(s * s)`;

/** The words of a figure that are cut off, or that lie on each other. */
const faults = (figure: Locator): Promise<string[]> =>
  figure.evaluate(node => {
    const frame = node.getBoundingClientRect();
    const words = [
      ...node.querySelectorAll<SVGTextElement>(
        '.gtitle, .gtitle-subtitle, .xtick text, .ytick text, .x2tick text, .y2tick text,' +
          ' .xtitle, .ytitle, .x2title, .y2title, .cbaxis text'
      )
    ].filter(({ textContent }) => textContent !== '');
    const boxes = words.map(word => word.getBoundingClientRect());
    const found: string[] = [];
    boxes.forEach((box, i) => {
      const text = words[i].textContent ?? '';
      if (
        box.left < frame.left - 1 ||
        box.right > frame.right + 1 ||
        box.top < frame.top - 1 ||
        box.bottom > frame.bottom + 1
      ) {
        found.push(`cut off: ${text}`);
      }
      boxes.slice(i + 1).forEach((other, k) => {
        const across =
          Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (across > 1 && down > 2) {
          found.push(`${text} lies on ${words[i + 1 + k].textContent ?? ''}`);
        }
      });
    });
    return found;
  });

/** The lowest contrast of the words of a figure against the page behind it. */
const contrast = (figure: Locator): Promise<number> =>
  figure.evaluate(node => {
    const read = (colour: string): number[] =>
      (/rgba?\(([^)]*)\)/.exec(colour)?.[1] ?? '0, 0, 0, 0').split(',').map(Number);
    const light = ([red, green, blue]: number[]): number => {
      const [r, g, b] = [red, green, blue].map(part => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    // The first ground behind it that is not clear.
    let behind: Element | null = node.querySelector('.main-svg');
    let ground = [255, 255, 255];
    for (; behind !== null; behind = behind.parentElement) {
      const found = read(getComputedStyle(behind).backgroundColor);
      if (found.length === 3 || found[3] === 1) {
        ground = found;
        break;
      }
    }
    const ratios = [...node.querySelectorAll('text')].map(word => {
      const pair = [light(read(getComputedStyle(word).fill)), light(ground)];
      return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    });
    return Math.min(...ratios);
  });

/** Look at each figure of the notebook: light and dark, wide and narrow. */
async function look(
  page: IJupyterLabPageFixture,
  names: readonly string[]
): Promise<void> {
  const figures = page.locator(
    '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea .js-plotly-plot'
  );
  for (const dark of [false, true]) {
    await (dark ? page.theme.setDarkTheme() : page.theme.setLightTheme());
    for (const width of [1400, 1000]) {
      await page.setViewportSize({ width, height: 1000 });
      for (const [k, name] of names.entries()) {
        const figure = figures.nth(k);
        await figure.scrollIntoViewIfNeeded();
        await expect(figure.locator('.main-svg').first()).toBeVisible();
        const what = `${name}, dark: ${dark}, ${width}`;
        await expect.poll(() => faults(figure), { message: what }).toEqual([]);
        // Colours fade from one theme to the other; 3 is what large marks need.
        await expect
          .poll(() => contrast(figure), { message: what })
          .toBeGreaterThan(3);
        const theme = dark ? 'dark' : 'light';
        await figure.screenshot({
          path: screenshotOf(`sparse-${name}-${theme}-${width}`)
        });
      }
    }
  }
}

test.use({ viewport: { width: 1400, height: 1000 } });

test('the figures of both tutorials, as they are saved', async ({ page, tmpPath }) => {
  test.setTimeout(240_000);
  await open(page, tmpPath, '07-sparse.ipynb');
  await look(page, ['wave', 'energy', 'arrow', 'alloy']);
  await page.theme.setLightTheme();
  await open(page, tmpPath, '08-optimise.ipynb');
  await look(page, ['pendulum', 'swing']);
});

test('each way to colour, and a pattern in the page', async ({ page }) => {
  test.setTimeout(480_000);
  await page.notebook.createNew('sparse.ipynb');
  await kernelReady(page);
  expect(await print(page, SETUP)).toBe('');
  for (const source of Object.values(FIGURES)) {
    await page.notebook.addCell('code', source);
  }
  await runAll(page);
  await expect(page.locator('.jp-OutputArea .js-plotly-plot')).not.toHaveCount(0);
  await look(page, Object.keys(FIGURES));
  const numbers = page
    .locator('.jp-OutputArea .js-plotly-plot')
    .first()
    .locator('.x2tick text:visible');
  await expect(numbers).toHaveText(['1', '2', '3']);

  await page.setViewportSize({ width: 1400, height: 1150 });
  await page.notebook.addCell('code', CELL);
  await page.notebook.addCell('code', PROGRAM);
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  const drawer = graph.panel.locator('.workbench-Drawer');
  const caption = drawer.locator('.workbench-CaptionWords');
  const figure = drawer.locator('.workbench-Figure');
  await graph.click(await graph.node('s, add'));
  await graph.button('Jacobian of s').click();
  await drawer.getByRole('radio', { name: 'sparsity' }).click();
  // Each entry of s reads two of a, and one of b.
  await expect(caption).toContainText('33 of 264 entries can differ from zero');
  await expect(caption).toContainText('3 colours of columns');
  await expect(drawer.locator('.workbench-Working')).toHaveCount(0);
  for (const dark of [true, false]) {
    await (dark ? page.theme.setDarkTheme() : page.theme.setLightTheme());
    for (const width of [1400, 1000]) {
      await page.setViewportSize({ width, height: 1150 });
      await expect.poll(() => faults(figure)).toEqual([]);
      const theme = dark ? 'dark' : 'light';
      await drawer.scrollIntoViewIfNeeded();
      await drawer.screenshot({ path: screenshotOf(`sparse-page-${theme}-${width}`) });
    }
  }
});
