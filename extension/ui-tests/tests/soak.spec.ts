/** Hours of updates in minutes: memory stays bounded in the kernel and in the page. */

import type { CDPSession } from '@playwright/test';
import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print } from './graph';

const SETUP = `%load_ext workbench
import gc
import numpy as np
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
weights = np.linspace(0.5, 1.5, 3)`;

const MODEL = `%%autodiff loss --wrt weights --name live
hidden = np.tanh(data @ weights)
loss = np.sum(hidden * hidden)`;

/** Runs of the session in each part of the soak; the first part fills what is kept. */
const PART = 5000;
const PARTS = 4;

/** Bytes that a side may grow by after the first part: less than 1 kB an update. */
const MOST = 12e6;

const RUN = `
for step in range(${PART}):
    live.run(weights=weights * (1 + 0.1 * np.sin(step / 50)))
gc.collect()
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[1])
print(len(gc.get_objects()), pages * 4096, len(live.timeline))`;

interface IMemory {
  /** The objects that Python collects, and bytes of the whole process. */
  objects: number;
  resident: number;
  /** Runs in the timeline. */
  kept: number;
  /** Bytes of the page's heap, and how many DOM nodes and listeners there are. */
  heap: number;
  nodes: number;
  listeners: number;
}

async function measurePage(
  line: CDPSession
): Promise<Pick<IMemory, 'heap' | 'nodes' | 'listeners'>> {
  for (let i = 0; i < 3; i++) {
    await line.send('HeapProfiler.collectGarbage');
  }
  const { usedSize } = await line.send('Runtime.getHeapUsage');
  const { metrics } = await line.send('Performance.getMetrics');
  const read = (name: string): number =>
    metrics.find(one => one.name === name)?.value ?? NaN;
  return { heap: usedSize, nodes: read('Nodes'), listeners: read('JSEventListeners') };
}

test('20,000 updates with an open picture: memory is bounded @alone', async ({ page }) => {
  test.setTimeout(400_000);
  await page.notebook.createNew('soak.ipynb');
  await kernelReady(page);
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', MODEL);
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  await graph.click(await graph.node('hidden, tanh'));
  // Galata's page is a wrapper.
  const [plain] = page.context().pages();
  const line = await page.context().newCDPSession(plain);
  await line.send('Performance.enable');

  const texts = new Set<string | null>();
  const measured: IMemory[] = [];
  for (let part = 0; part < PARTS; part++) {
    const [objects, resident, kept] = (await print(page, RUN)).split(' ').map(Number);
    texts.add(await graph.panel.locator('.workbench-Title').textContent());
    // The last state comes before what is measured.
    await page.waitForTimeout(1000);
    measured.push({ objects, resident, kept, ...(await measurePage(line)) });
    console.log(`measured: ${(part + 1) * PART} updates`, measured.at(-1));
  }
  await graph.live();
  await expect(graph.banner).toBeHidden();

  const first = measured[0];
  const last = measured[PARTS - 1];
  // An object left behind by each update would be 15,000.
  expect(last.objects - first.objects).toBeLessThan(10_000);
  expect(last.resident - first.resident).toBeLessThan(MOST);
  expect(last.heap - first.heap).toBeLessThan(MOST);
  // Nothing of the page grows with the updates.
  expect(last.nodes).toBeLessThan(first.nodes + 500);
  expect(last.listeners).toBeLessThan(first.listeners + 200);
});
