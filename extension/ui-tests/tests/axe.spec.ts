/** What a screen reader and low vision need: axe-core finds nothing, light or dark. */

import { createRequire } from 'node:module';

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady } from './graph';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

interface IAxe {
  run(
    root: string,
    options: { runOnly: string[] }
  ): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
}

/** The rules that a part of the page breaks, each with the elements. */
const breaches = (page: IJupyterLabPageFixture, root: string): Promise<string[]> =>
  page.evaluate(async selector => {
    const { axe } = window as unknown as { axe: IAxe };
    const { violations } = await axe.run(selector, { runOnly: ['wcag2a', 'wcag2aa'] });
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`)
    );
  }, root);

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
X = np.sin(np.arange(120.0)).reshape(30, 4)
t = np.cos(np.arange(30.0))
W1, b1 = np.cos(np.arange(32.0)).reshape(4, 8) / 2, np.zeros(8)
W2 = np.sin(np.arange(8.0))`;

const NETWORK = `%%autodiff loss --wrt W1 b1 W2 --name model
with wb.scope("encoder"): h = np.tanh(X @ W1 + b1)
with wb.scope("head"): e = h @ W2 - t
loss = np.mean(e**2)`;

test.use({ viewport: { width: 1400, height: 1150 } });

test('axe-core finds nothing in any panel, in the light and in the dark @smoke', async ({
  page
}) => {
  test.setTimeout(240_000);
  await page.notebook.createNew('axe.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', NETWORK);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  await page.addScriptTag({ path: AXE });
  // Colours that fade from one theme to the other would be looked at twice.
  await page.addStyleTag({ content: '* { transition: none !important; }' });
  await page.sidebar.openTab('workbench-sessions');

  let dark = false;
  const look = async (what: string, root = '.workbench-Panel'): Promise<void> => {
    // In the theme that there is, then in the other.
    for (const change of [false, true]) {
      if (change) {
        dark = !dark;
        await (dark ? page.theme.setDarkTheme() : page.theme.setLightTheme());
      }
      await expect
        .poll(() => breaches(page, root), { message: `${what}, dark: ${dark}` })
        .toEqual([]);
    }
  };
  await look('nothing selected');
  await look('sidebar', '.workbench-Sessions');
  await graph.click(await graph.node('h, tanh'));
  await graph.chip('clip').click();
  await expect(graph.panel.locator('.workbench-Message')).toHaveText('ok');
  await look('a node and a rule');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('requested gradients');
  await graph.showTab(/Overrides 1/);
  await look('overrides');
  await graph.showTab('Checks');
  await graph.button('Diagnose').click();
  await expect(graph.button('Diagnose again')).toBeVisible({ timeout: 60_000 });
  await look('checks');
  await graph.button('Step through both sweeps').click();
  await look('steps');
  await graph.button('Step through both sweeps').click();
  await graph.button('Jacobian, Hessian, gradient check').click();
  await look('drawer');
  await graph.button('Jacobian, Hessian, gradient check').click();
  await graph.panel.getByRole('radio', { name: 'Simplified' }).click();
  await expect(graph.panel.locator('.workbench-Rewrites')).toBeVisible();
  await look('simplified');
  await graph.panel.getByRole('radio', { name: 'Derivative' }).click();
  await graph.button('Open beside the notebook').click();
  await expect(page.locator('.workbench-Beside .workbench-Panel')).toBeVisible();
  await look('beside', '.workbench-Beside .workbench-Panel');
});
