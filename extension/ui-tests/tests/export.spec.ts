/** What leaves the notebook: the picture as a file, opened from the disk. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { expect, type IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import type { Download, Page } from '@playwright/test';

import { GraphOnPage, kernelReady, print, screenshotOf } from './graph';

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

const HOSTILE = '</script><img src=x onerror=alert(1)>';

const folder = mkdtempSync(join(tmpdir(), 'workbench-export-'));
test.afterAll(() => rmSync(folder, { recursive: true }));

/** Open a file from the disk in a page that must ask for nothing else. */
async function openFile(
  page: Page,
  path: string,
  look: { colorScheme: 'light' | 'dark'; width: number }
): Promise<{ graph: GraphOnPage; asked: string[]; errors: string[] }> {
  const browser = page.context().browser();
  const context = await browser!.newContext({
    viewport: { width: look.width, height: 800 },
    colorScheme: look.colorScheme
  });
  const opened = await context.newPage();
  const asked: string[] = [];
  const errors: string[] = [];
  opened.on('request', request => asked.push(request.url()));
  opened.on('pageerror', error => errors.push(error.message));
  opened.on('console', message => {
    if (message.type() === 'error') {
      errors.push(message.text());
    }
  });
  opened.on('dialog', dialog => {
    errors.push(dialog.message());
    void dialog.dismiss();
  });
  await opened.goto(pathToFileURL(path).href);
  // What it uses of a page of JupyterLab every page has.
  const graph = new GraphOnPage(opened as IJupyterLabPageFixture);
  return { graph, asked, errors };
}

/** What the menu of the bar saves. */
async function save(graph: GraphOnPage, format: string): Promise<Buffer> {
  const coming = graph.page.waitForEvent('download');
  await graph.panel.getByLabel('Save picture').selectOption(format);
  return readDownload(await coming);
}

async function readDownload(download: Download): Promise<Buffer> {
  const path = join(folder, download.suggestedFilename());
  await download.saveAs(path);
  return readFileSync(path);
}

test('the picture leaves the notebook as HTML, SVG and PNG @smoke', async ({ page }) => {
  await page.notebook.createNew('export.ipynb');
  await kernelReady(page);
  expect(await print(page, '')).toBe('');
  await page.notebook.setCell(0, 'code', SETUP);
  await page.notebook.addCell('code', NETWORK);
  await page.notebook.run();
  const live = new GraphOnPage(page);
  await live.ready();
  await live.live();
  const path = join(folder, 'model.html');
  const code = `_ = model.override("h", "clip(d, -1e-3, 1e-3)", name=${JSON.stringify(HOSTILE)})
_ = model.check(); _ = model.diagnose()
print(model.to_html(${JSON.stringify(path)}))`;
  expect(await print(page, code)).toBe(path);
  const h = await live.node('h, tanh');

  for (const look of [
    { colorScheme: 'light', width: 1400 },
    { colorScheme: 'dark', width: 1000 }
  ] as const) {
    const { graph, asked, errors } = await openFile(page, path, look);
    await graph.ready();
    expect(await graph.page.title()).toBe('model · Workbench');
    await graph.click(h);
    const inspector = graph.panel.getByRole('complementary', { name: 'Inspector', exact: true });
    await expect(inspector).toContainText('h = np.tanh(X @ W1 + b1)');
    await expect(inspector).toContainText(HOSTILE);
    // What a kernel would say of it, and the lines with their numbers.
    await expect(inspector.locator('figure .workbench-Histogram')).toHaveCount(2);
    const lines = inspector.locator('.workbench-SourceLines button');
    await expect(lines).toHaveCount(3);
    for (const line of await lines.all()) {
      await expect(line.locator('.workbench-LineGradient')).toHaveText(/[0-9]/);
    }
    await graph.page.screenshot({
      path: screenshotOf(`export-${look.colorScheme}-${look.width}`)
    });
    await lines.last().click();
    await expect(inspector.locator('.workbench-NodeName')).toContainText('loss');
    await expect(inspector).toContainText('∂loss/∂b1');
    await graph.click(h);
    // It moves under the pointer.
    const box = (): Promise<{ x: number } | null> =>
      graph.canvas.evaluate(
        (canvas, node) =>
          (
            canvas as unknown as {
              workbenchCanvas: { boxOf(node: number): { x: number } | null };
            }
          ).workbenchCanvas.boxOf(node),
        h
      );
    const before = await box();
    const ground = (await graph.canvas.boundingBox())!;
    await graph.page.mouse.move(ground.x + 20, ground.y + 60);
    await graph.page.mouse.down();
    await graph.page.mouse.move(ground.x + 80, ground.y + 90, { steps: 4 });
    await graph.page.mouse.up();
    await expect.poll(async () => (await box())!.x - before!.x).toBeCloseTo(60, 0);
    // What needs a kernel is not offered.
    await expect(graph.button('Jacobian, Hessian, gradient check')).toHaveCount(0);
    await graph.showTab(/Overrides/);
    await expect(inspector).toContainText(HOSTILE);
    await graph.showTab('Checks');
    await expect(inspector).toContainText('encoder');
    expect(await graph.page.locator('img').count()).toBe(0);
    expect(asked).toEqual([pathToFileURL(path).href]);
    expect(errors).toEqual([]);
    await graph.page.context().close();
  }

  // The page makes the same file by itself, and images of what is seen.
  const html = await save(live, 'html');
  expect(html.toString().split('workbench-data')[0]).toBe(
    readFileSync(path).toString().split('workbench-data')[0]
  );
  const data = /id="workbench-data">(.*?)<\/script>/s.exec(html.toString())![1];
  const { details } = JSON.parse(data) as { details: { node: number }[] | null };
  expect(details?.map(({ node }) => node)).toEqual([...Array(12).keys()]);
  const again = await openFile(page, join(folder, 'model.html'), {
    colorScheme: 'light',
    width: 1280
  });
  await again.graph.ready();
  await again.graph.showInspector();
  await expect(again.graph.tab(/Overrides/)).toContainText('1');
  expect(again.errors).toEqual([]);
  // The file saves images too.
  const svg = (await save(again.graph, 'svg')).toString();
  expect(svg).toContain('>tanh</text>');
  // It says what it is, and what its colours mean.
  expect(svg).toContain('<title>model · loss = ');
  expect(svg).toMatch(/>model · loss = [0-9.]+<\/text>/);
  expect(svg).toMatch(/>gradient ‖·‖ {2}[^<]+<\/text>/);
  // The edges of one colour are one outline.
  const outlines = svg.match(/<path d="[^"]*/g)!.join('');
  expect(outlines.match(/C/g)!.length).toBeGreaterThan(5);
  expect(svg).not.toContain('<img');
  await again.graph.page.goto(pathToFileURL(join(folder, 'model.svg')).href);
  await again.graph.page.screenshot({ path: screenshotOf('export-svg') });
  await again.graph.page.context().close();
  const png = await save(live, 'png');
  const canvas = (await live.canvas.boundingBox())!;
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  // Two pixels for one, and without the room of the minimap.
  const width = png.readUInt32BE(16);
  expect(width % 2).toBe(0);
  expect(width).toBeGreaterThan(canvas.width);
  expect(width).toBeLessThanOrEqual(2 * Math.round(canvas.width));
  expect(png.readUInt32BE(20)).toBeGreaterThan(2 * canvas.height);
});
