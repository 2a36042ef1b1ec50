/**
 * The site of `make site`, served as a folder: tutorial 1 runs in the browser alone, and
 * its live picture is changed. It needs a site whose Pyodide can be had without a
 * network: `notebooks/guide/lite.py OUT --pyodide ARCHIVE --wheels FOLDER`, and OUT in
 * WORKBENCH_LITE_SITE. The documentation is build/docs/html, of `make docs` or of its
 * long test, or WORKBENCH_SITE.
 */

import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { expect, type Page, test } from '@playwright/test';

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { GraphOnPage } from './graph';

const SITE = process.env.WORKBENCH_LITE_SITE;
const PAGES =
  process.env.WORKBENCH_SITE ??
  fileURLToPath(new URL('../../../build/docs/html', import.meta.url));
const NO_PAGES = 'needs the documentation: `make docs`, or its test among the long ones';
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
/** Pages of each kind: front, pictures, tutorials, text, tables, a name, the search. */
const LOOKED_AT = [
  'guide/index',
  'guide/gallery',
  'guide/tutorials/index',
  '00-five-minutes',
  '05-find-the-bad-gradient',
  '06-how-a-derivative-is-made',
  'guide/how-to/any-derivative',
  'guide/how-to/watch-a-training',
  'guide/reference/rules',
  'guide/reference/functions',
  'guide/explanation/where',
  'api/workbench.grad',
  'api/workbench.Session-class',
  'search'
];
const NOTEBOOK = '01-first-gradient.ipynb';
/** Its cells, texts and those that install counted. */
const [INSTALL, IMPORTS, NETWORK, LAST] = [0, 2, 6, 23];
const TYPES: Record<string, string> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.mjs': 'text/javascript',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm'
};

/** NumPy 2.0 of Pyodide 0.27 lacks functions of which Workbench names five. */
const STAND_INS = `
import numpy as np
def _absent(*arguments, **settings):
    raise NotImplementedError("not in NumPy 2.0")
for _name in ("cumulative_prod", "cumulative_sum", "matvec", "unstack", "vecmat"):
    if not hasattr(np, _name):
        setattr(np, _name, _absent)
`;

interface INotebook {
  cells: { cell_type: string; source: string; outputs?: unknown[] }[];
}

/** The file that a static host answers with; of the notebook, without its outputs. */
function readAnswer(file: string): Buffer {
  const bytes = readFileSync(file);
  if (file === join(SITE ?? '', 'jupyter-lite.json')) {
    const settings = JSON.parse(bytes.toString()) as {
      'jupyter-config-data': Record<string, unknown>;
    };
    settings['jupyter-config-data'].exposeAppInBrowser = true; // for this test
    return Buffer.from(JSON.stringify(settings));
  }
  if (!file.endsWith(`files/${NOTEBOOK}`)) {
    return bytes;
  }
  const notebook = JSON.parse(bytes.toString()) as INotebook;
  for (const cell of notebook.cells) {
    if (cell.cell_type === 'code') {
      cell.outputs = [];
    }
  }
  notebook.cells[0].source += STAND_INS;
  return Buffer.from(JSON.stringify(notebook));
}

/** A static host, and how many bytes of each part of the site it has sent. */
async function serve(folder: string): Promise<{
  server: Server;
  address: string;
  sent: Map<string, number>;
}> {
  const sent = new Map<string, number>();
  const server = createServer((asked, answer) => {
    const path = decodeURIComponent(new URL(asked.url!, 'http://host').pathname);
    let file = join(folder, normalize(path));
    if (existsSync(file) && statSync(file).isDirectory()) {
      file = join(file, 'index.html');
    }
    if (!existsSync(file)) {
      answer.writeHead(404).end();
      return;
    }
    const bytes = readAnswer(file);
    sent.set(path, bytes.length);
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    answer.writeHead(200, { 'Content-Type': type }).end(bytes);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { server, address: `http://127.0.0.1:${port}`, sent };
}

function sizeOf(sent: Map<string, number>, part: RegExp): number {
  let size = 0;
  for (const [path, bytes] of sent) {
    size += part.test(path) ? bytes : 0;
  }
  return size;
}

/** Wait until a cell has run; its number counts the texts too. */
async function waitForCell(page: Page, index: number, timeout: number): Promise<void> {
  await page.waitForFunction(
    i => {
      const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
      const { executionCount } = content.model!.cells.get(i) as ICodeCellModel;
      return executionCount !== null;
    },
    index,
    { timeout, polling: 100 }
  );
}

/** Bring a cell into view: those that nobody sees are not in the document. */
async function showCell(page: Page, index: number): Promise<void> {
  await page.evaluate(async i => {
    const { content } = window.jupyterapp.shell.currentWidget as NotebookPanel;
    content.activeCellIndex = i;
    await content.scrollToItem(i);
  }, index);
}

test('tutorial 1 runs in the browser alone, and its picture is live', async ({ page }) => {
  test.skip(
    SITE === undefined,
    'needs a site with its own Pyodide, in the folder that WORKBENCH_LITE_SITE names'
  );
  test.setTimeout(600_000);
  const { server, address, sent } = await serve(SITE!);
  const foreign: string[] = [];
  page.on('request', request => {
    if (/^https?:/.test(request.url()) && !request.url().startsWith(address)) {
      foreign.push(request.url());
    }
  });
  try {
    const start = Date.now();
    await page.goto(`${address}/lab/index.html?path=${NOTEBOOK}`);
    await expect(page.locator('.jp-Notebook')).toBeVisible({ timeout: 120_000 });
    const opened = Date.now();
    await page.evaluate(async () => {
      const { commands, shell } = window.jupyterapp;
      await (shell.currentWidget as NotebookPanel).sessionContext.ready;
      void commands.execute('notebook:run-all-cells');
    });
    await waitForCell(page, INSTALL, 300_000);
    const installed = Date.now();
    await waitForCell(page, IMPORTS, 200_000);
    const imported = Date.now();
    await waitForCell(page, NETWORK, 200_000);
    const first = sizeOf(sent, /pypi.*whl$/);
    expect([...sent.keys()].filter(path => path.includes('plotly-'))).toEqual([]);
    await waitForCell(page, LAST, 200_000);
    const ran = Date.now();
    await showCell(page, NETWORK);
    await expect(page.locator('.workbench-Panel')).toHaveCount(1);
    await expect(page.getByText('is missing')).toHaveCount(0);

    const graph = new GraphOnPage(page as unknown as IJupyterLabPageFixture);
    await graph.ready();
    await graph.live();
    await graph.click(await graph.node('h, tanh'));
    await graph.chip('clip').click();
    await expect(graph.field).toHaveValue(/^clip\(d, -(\S+), \1\)$/);
    const told = Date.now();
    await graph.button('Apply').click();
    await expect(graph.effect).toContainText('requested gradients');
    const shown = Date.now();
    await graph.screenshot('site-tutorial-1');

    const seconds = (from: number, to: number): string =>
      `${((to - from) / 1000).toFixed(1)} s`;
    console.log(
      `page ${seconds(start, opened)}, Pyodide and packages ` +
        `${seconds(opened, installed)}, imports ${seconds(installed, imported)}, ` +
        `the other cells ${seconds(imported, ran)}, override to effect ` +
        `${shown - told} ms; bytes: Pyodide ${sizeOf(sent, /static\/pyodide/)}, wheels ` +
        `${first} and for plots ${sizeOf(sent, /pypi.*whl$/) - first}, of them Workbench ` +
        `${sizeOf(sent, /autodiff_workbench/)}; its page ` +
        `${sizeOf(sent, /extensions\/autodiff-workbench/)}`
    );
    expect(foreign).toEqual([]);
  } finally {
    server.close();
  }
});

test('a picture on a page of the documentation opens live', async ({ page }) => {
  test.skip(!existsSync(PAGES), NO_PAGES);
  const { server, address, sent } = await serve(PAGES);
  try {
    await page.goto(`${address}/01-first-gradient.html`);
    const place = page.locator('.workbench-picture').first();
    await expect(place.locator('img')).toBeVisible();
    expect(sent.has('/_static/page.html')).toBe(false); // until it is asked for
    await place.getByRole('button', { name: 'Open live' }).click();
    const frame = place.frameLocator('iframe');
    await expect(frame.locator('.workbench-Canvas').first()).toHaveAttribute(
      'data-ready',
      /.*/
    );
    await expect(frame.getByText('saved picture')).toBeVisible();
  } finally {
    server.close();
  }
});

interface IAxe {
  run(options: { runOnly: string[] }): Promise<{
    violations: { id: string; nodes: { html: string }[] }[];
  }>;
}

test('axe-core finds nothing on the pages, in the light and in the dark', async ({
  page
}) => {
  test.skip(!existsSync(PAGES), NO_PAGES);
  test.setTimeout(400_000);
  const { server, address } = await serve(PAGES);
  try {
    const found: string[] = [];
    for (const name of LOOKED_AT) {
      for (const theme of ['light', 'dark']) {
        await page.addInitScript(chosen => {
          localStorage.setItem('theme', chosen);
          localStorage.setItem('mode', chosen);
        }, theme);
        await page.goto(`${address}/${name}.html`);
        await expect(page.locator('html')).toHaveAttribute('data-theme', theme);
        await page.addStyleTag({ content: '* { transition: none !important; }' });
        await page.addScriptTag({ path: AXE });
        const breaches = await page.evaluate(async () => {
          const { axe } = window as unknown as { axe: IAxe };
          const { violations } = await axe.run({ runOnly: ['wcag2a', 'wcag2aa'] });
          return violations.flatMap(({ id, nodes }) =>
            nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`)
          );
        });
        found.push(...breaches.map(text => `${name}, ${theme}: ${text}`));
      }
    }
    expect(found).toEqual([]);
  } finally {
    server.close();
  }
});
