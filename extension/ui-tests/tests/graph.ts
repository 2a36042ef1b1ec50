/** A graph on the page, as a test sees and touches it. */

import { fileURLToPath } from 'node:url';

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { expect, type Locator } from '@playwright/test';

import type { NotebookPanel } from '@jupyterlab/notebook';

interface IRect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** What the picture offers to tests; see `ICanvasProbe` of the extension. */
type Probed = HTMLElement & {
  workbenchCanvas: { boxOf(node: number): IRect | null };
};

const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export class GraphOnPage {
  /** The panel, the first of the page; and parts of it. */
  readonly panel: Locator;
  readonly canvas: Locator;
  readonly field: Locator;
  readonly effect: Locator;
  readonly banner: Locator;

  constructor(
    readonly page: IJupyterLabPageFixture,
    selector = '.workbench-Panel'
  ) {
    this.panel = page.locator(selector).first();
    this.canvas = this.panel.locator('.workbench-Cell > * > .workbench-Canvas');
    this.field = this.panel.locator('.workbench-Expression');
    this.effect = this.panel.locator('.workbench-Effect');
    this.banner = this.panel.locator('.workbench-Banner');
  }

  /** Wait until it is drawn. */
  async ready(): Promise<void> {
    // Notebooks draw only the cells that are seen.
    await this.panel.scrollIntoViewIfNeeded();
    await expect(this.canvas).toHaveAttribute('data-ready', /.*/);
  }

  /** Wait until the kernel answers it. */
  async live(): Promise<void> {
    await expect(this.panel.locator('.workbench-Backend')).toHaveClass(/mod-live/);
  }

  /** The id of the node that begins with this name and op, "h, tanh". */
  async node(sentence: string): Promise<number> {
    const line = this.panel
      .locator('.workbench-Cell > * > .workbench-Tree [data-node]')
      .filter({ hasText: new RegExp(`^${sentence}\\b`) });
    return Number(await line.first().getAttribute('data-node'));
  }

  /** Click the card of a node where it is drawn, with all of the graph in view. */
  async click(node: number, modifiers: 'Shift'[] = []): Promise<void> {
    await this.button('Fit the graph into view').click();
    await this.canvas.scrollIntoViewIfNeeded();
    // The picture moves softly: the box is read until it stays where it is.
    const box = await this.canvas.evaluate(async (canvas, id) => {
      const read = (): IRect | null => (canvas as Probed).workbenchCanvas.boxOf(id);
      for (let before = '', same = 0; same < 3; same++) {
        if (JSON.stringify(read()) !== before) {
          before = JSON.stringify(read());
          same = 0;
        }
        await new Promise(resolve => setTimeout(resolve, 30));
        // A busy machine draws few frames in that time, and none moves it.
        await new Promise(resolve => requestAnimationFrame(resolve));
      }
      return read();
    }, node);
    if (box === null) {
      throw new Error(`node ${node} is not in the picture`);
    }
    await this.canvas.click({
      position: { x: box.x + box.width / 2, y: box.y + box.height / 2 },
      modifiers
    });
    // The tooltip of what lies under the pointer would be in the screenshots.
    await this.page.mouse.move(0, 0);
  }

  chip(name: string): Locator {
    return this.panel.getByRole('radio', { name, exact: true });
  }

  button(name: string | RegExp): Locator {
    return this.panel.getByRole('button', { name, exact: true });
  }

  tab(name: string | RegExp): Locator {
    return this.panel.getByRole('tab', { name });
  }

  /** Open the inspector, which is closed until something is chosen. */
  async showInspector(): Promise<void> {
    const inspector = this.button('Inspector');
    if ((await inspector.getAttribute('aria-pressed')) !== 'true') {
      await inspector.click();
    }
  }

  async showTab(name: string | RegExp): Promise<void> {
    await this.showInspector();
    await this.tab(name).click();
  }

  /** Keep a picture of it, in a folder that git does not. */
  async screenshot(name: string): Promise<void> {
    await this.panel.scrollIntoViewIfNeeded();
    await this.page.mouse.move(0, 0);
    await this.screenshotAsIs(name);
  }

  /** Keep a picture of it as it is, with the pointer where it is. */
  async screenshotAsIs(name: string): Promise<void> {
    // They are for eyes: `make test` has no time for them.
    if (process.env.WORKBENCH_TEST_LANE !== 'smoke') {
      await this.panel.screenshot({ path: screenshotOf(name) });
    }
  }
}

/** Where a screenshot of this name is kept. */
export function screenshotOf(name: string): string {
  return file(`../screenshots/${name}.png`);
}

/** Open a notebook of the repository in a folder of its own, with its kernel ready. */
export async function open(
  page: IJupyterLabPageFixture,
  folder: string,
  name: string
): Promise<void> {
  const target = `${folder}/${name}`;
  await page.contents.uploadFile(file(`../../../notebooks/${name}`), target);
  await page.notebook.openByPath(target);
  await kernelReady(page);
}

export async function kernelReady(page: IJupyterLabPageFixture): Promise<void> {
  await page.evaluate(async () => {
    const panel = window.jupyterapp.shell.currentWidget as NotebookPanel;
    await panel.sessionContext.ready;
  });
}

/** Load the page again, as a reader would, and open the notebook in it. */
export async function openAgain(
  page: IJupyterLabPageFixture,
  path: string
): Promise<void> {
  const loaded = page.waitForEvent('load');
  await page.evaluate(() => {
    window.location.reload();
  });
  await loaded;
  await page.waitForFunction(() => 'jupyterapp' in window);
  await page.evaluate(async name => {
    await window.jupyterapp.restored;
    await window.jupyterapp.commands.execute('docmanager:open', { path: name });
  }, path);
  await kernelReady(page);
}

/** Run all cells and wait until the last one is done. */
export async function runAll(page: IJupyterLabPageFixture): Promise<void> {
  const good = await page.evaluate(() =>
    window.jupyterapp.commands.execute('notebook:run-all-cells')
  );
  expect(good, 'a cell of the notebook failed').not.toBe(false);
}

/** Run code in the kernel of the notebook, as a cell would; what it prints. */
export async function print(
  page: IJupyterLabPageFixture,
  code: string
): Promise<string> {
  return page.evaluate(async source => {
    // A picture beside its notebook may be the current widget.
    const { shell } = window.jupyterapp;
    const panel = [shell.currentWidget, ...shell.widgets('main')].find(
      widget => widget !== null && 'sessionContext' in widget
    ) as NotebookPanel;
    const future = panel.sessionContext.session?.kernel?.requestExecute({
      code: source
    });
    if (future === undefined) {
      throw new Error('the notebook has no kernel');
    }
    const printed: string[] = [];
    future.onIOPub = ({ content }) => {
      const { text, traceback } = content as { text?: string; traceback?: string[] };
      printed.push(text ?? traceback?.join('\n') ?? '');
    };
    await future.done;
    return printed.join('').trim();
  }, code);
}
