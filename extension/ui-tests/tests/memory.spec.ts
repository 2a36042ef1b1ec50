/** A notebook that is closed leaves nothing behind: not in the page, not in the kernel. */

import type { CDPSession } from '@playwright/test';
import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print, runAll } from './graph';

const PATH = 'closed.ipynb';
const SETUP = `%load_ext workbench
import gc
import numpy as np
from workbench.jupyter.link import Link
from workbench.jupyter.widget import LinkedWidget
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
weights = np.linspace(0.5, 1.5, 3)`;
const MODELS = ['first', 'second', 'third'];
const model = (name: string): string => `%%autodiff loss --wrt weights --name ${name}
hidden = np.tanh(data @ weights)
loss = np.sum(hidden * hidden)`;

/** Sessions, their ends of the wire, and widgets that are in the kernel's memory. */
const COUNT = `
gc.collect()
kept = gc.get_objects()
print([sum(isinstance(one, kind) for one in kept) for kind in (Link, LinkedWidget)])
del kept`;

/**
 * JupyterLab keeps the elements of closed cells, and the empty output of each; a panel,
 * with all that stands in it, goes.
 */
const PANEL = 'workbench-Panel';

/** So often it is opened and closed. */
const TIMES = 2;

/** How many elements of a class are in the page's memory, on the page or not. */
async function countElements(line: CDPSession, name: string): Promise<number> {
  const group = 'memory';
  for (let i = 0; i < 3; i++) {
    await line.send('HeapProfiler.collectGarbage');
  }
  const { result } = await line.send('Runtime.evaluate', {
    expression: 'HTMLDivElement.prototype',
    objectGroup: group
  });
  const { objects } = await line.send('Runtime.queryObjects', {
    prototypeObjectId: result.objectId!,
    objectGroup: group
  });
  const { result: count } = await line.send('Runtime.callFunctionOn', {
    objectId: objects.objectId!,
    functionDeclaration: `function () {
      return this.filter(one => one.nodeType === 1 && one.classList.contains('${name}')).length;
    }`,
    returnByValue: true
  });
  await line.send('Runtime.releaseObjectGroup', { objectGroup: group });
  return Number(count.value);
}

test('a notebook of three pictures, opened and closed, leaves none behind', async ({
  page
}) => {
  test.setTimeout(240_000);
  await page.notebook.createNew(PATH);
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  for (const name of MODELS) {
    await page.notebook.addCell('code', model(name));
  }
  await page.notebook.save();
  // Galata's page is a wrapper.
  const [plain] = page.context().pages();
  const line = await page.context().newCDPSession(plain);
  for (let time = 0; time < TIMES; time++) {
    if (time > 0) {
      await page.notebook.openByPath(PATH);
      await page.notebook.activate(PATH);
      await kernelReady(page);
    }
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    await graph.click(await graph.node('hidden, tanh'));
    await expect(graph.panel.locator('.workbench-Bars')).toHaveCount(2);
    // The kernel has a link and a widget for each session that its names hold.
    expect(await print(page, COUNT)).toBe(`[${MODELS.length}, ${MODELS.length}]`);
    // Those on the page are counted: ones that stay would be.
    expect(await countElements(line, PANEL)).toBeGreaterThanOrEqual(MODELS.length);
    await page.notebook.save();
    await page.evaluate(async () => {
      await window.jupyterapp.commands.execute('application:close');
    });
    await expect(page.locator('.workbench-Panel')).toHaveCount(0);
    // What a closed document has planned comes to its end first.
    await expect.poll(() => countElements(line, PANEL)).toBe(0);
  }
});
