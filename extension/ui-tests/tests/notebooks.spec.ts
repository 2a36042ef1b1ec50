/** What becomes of pictures when kernels die, notebooks move, or are a stranger's. */

import { readFileSync } from 'node:fs';

import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import type { NotebookPanel } from '@jupyterlab/notebook';

import { GraphOnPage, kernelReady, openAgain, runAll, screenshotOf } from './graph';

const LOAD = `%load_ext workbench
import os, signal, time
import numpy as np
data = np.linspace(-1.0, 1.0, 60).reshape(20, 3)
weights = np.linspace(0.5, 1.5, 3)`;

const MODEL = `%%autodiff loss --wrt weights --name live
hidden = np.tanh(data @ weights)
loss = np.sum(hidden * hidden)`;

/** The kernel dies in the middle of a stream of changes. */
const DIES = `for step in range(1000): live.run(weights=weights * 0.99**step); time.sleep(0.02); step == 250 and os.kill(os.getpid(), signal.SIGKILL)`;

test.use({ viewport: { width: 1400, height: 1000 } });

/** A cell of a notebook file. */
const cellOf = (source: string, outputs: unknown[] = []): unknown => ({
  cell_type: 'code',
  execution_count: outputs.length > 0 ? 3 : null,
  id: `cell-${source.length}`,
  metadata: { trusted: true },
  source,
  outputs
});

/** Write a notebook file, and open it. */
async function openNotebook(
  page: IJupyterLabPageFixture,
  path: string,
  cells: readonly unknown[]
): Promise<void> {
  const notebook = {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: 'python3', display_name: 'Python 3' } },
    cells
  };
  await page.contents.uploadContent(JSON.stringify(notebook), 'text', path);
  await page.notebook.openByPath(path);
  await kernelReady(page);
}

/** Run code in the kernel of one of the notebooks; what it prints. */
async function runIn(
  page: IJupyterLabPageFixture,
  path: string,
  code: string
): Promise<string> {
  return page.evaluate(
    async ([end, source]) => {
      const found = [...window.jupyterapp.shell.widgets('main')].find(
        one => 'context' in one && (one as NotebookPanel).context.path.endsWith(end)
      ) as NotebookPanel;
      const { kernel } = found.sessionContext.session!;
      const future = kernel!.requestExecute({ code: source });
      let printed = '';
      future.onIOPub = ({ content: said }) => {
        printed += (said as { text?: string }).text ?? '';
      };
      await future.done;
      return printed.trim();
    },
    [path, code]
  );
}

/** Bring the notebook of a file to the front; the id of its (first) view. */
async function activate(page: IJupyterLabPageFixture, name: string): Promise<string> {
  return page.evaluate(end => {
    const { shell } = window.jupyterapp;
    const { id } = [...shell.widgets('main')].find(
      one => 'context' in one && (one as NotebookPanel).context.path.endsWith(end)
    )!;
    shell.activateById(id);
    return id;
  }, name);
}

/** The id of the widget that commands are about. */
async function currentId(page: IJupyterLabPageFixture): Promise<string | undefined> {
  return page.evaluate(() => window.jupyterapp.shell.currentWidget?.id);
}

/** Activate a notebook until commands are about it: a panel that opens takes the focus. */
async function bringToFront(
  page: IJupyterLabPageFixture,
  name: string
): Promise<string> {
  let id = '';
  await expect(async () => {
    id = await activate(page, name);
    expect(await currentId(page)).toBe(id);
  }).toPass();
  return id;
}

/** The picture of one of the notebooks, drawn, which comes to the front. */
async function graphIn(
  page: IJupyterLabPageFixture,
  name: string
): Promise<GraphOnPage> {
  const id = await activate(page, name);
  const graph = new GraphOnPage(page, `[id="${id}"] .workbench-Panel`);
  await graph.ready();
  return graph;
}

test('a kernel dies in mid-stream: words, the last picture, and a new run', async ({
  page,
  tmpPath
}) => {
  test.setTimeout(240_000);
  await openNotebook(page, `${tmpPath}/dies.ipynb`, [LOAD, MODEL, DIES].map(one => cellOf(one)));
  await page.evaluate(() => {
    void window.jupyterapp.commands.execute('notebook:run-all-cells');
  });
  const graph = new GraphOnPage(page);
  await graph.ready();
  const bar = graph.panel.locator('.workbench-Title');
  const seen = new Set<string | null>();
  await expect
    .poll(async () => seen.add(await bar.textContent()).size, { timeout: 60_000 })
    .toBeGreaterThan(2);
  await expect(graph.banner).toContainText('No kernel answers any more', {
    timeout: 60_000
  });
  // JupyterLab says that the kernel is started again.
  const dialog = page.locator('.jp-Dialog');
  await dialog
    .getByRole('button', { name: 'Ok' })
    .click({ timeout: 30_000 })
    .catch(() => undefined);
  await expect(bar).toContainText('loss = ');
  await graph.click(await graph.node('hidden, tanh'));
  const inspector = graph.panel.locator('.workbench-Inspector').first();
  await expect(inspector).toContainText('hidden');
  await graph.screenshot('light-kernel-died');

  await kernelReady(page);
  await page.notebook.selectCells(2);
  await page.notebook.deleteCells();
  await runAll(page);
  await graph.ready();
  await graph.live();
  await expect(graph.banner).toBeHidden();
});

test('two notebooks: each picture follows its own, renamed, and in two views', async ({
  page,
  tmpPath
}) => {
  test.setTimeout(240_000);
  const besides = page.locator('.workbench-Beside');
  for (const name of ['one.ipynb', 'two.ipynb']) {
    await openNotebook(page, `${tmpPath}/${name}`, [LOAD, MODEL].map(one => cellOf(one)));
    await runAll(page);
    await page.evaluate(
      path => window.jupyterapp.commands.execute('workbench:open-beside', path),
      { path: `${tmpPath}/${name}`, name: 'live' }
    );
  }
  await expect(besides).toHaveCount(2);
  // By the notebook that the tab says it is of.
  const barOf = (name: string): Promise<string> =>
    page.evaluate(wanted => {
      const found = [...window.jupyterapp.shell.widgets('main')].find(
        ({ title: { caption } }) =>
          caption.startsWith('Session live of ') && caption.endsWith(`/${wanted}`)
      );
      return found?.node.querySelector('.workbench-Title')?.textContent ?? 'none';
    }, name);
  const before = await barOf('two.ipynb');
  expect(await barOf('one.ipynb')).toBe(before);
  await runIn(page, 'one.ipynb', 'live.run(weights=2 * weights)');
  await expect.poll(() => barOf('one.ipynb')).not.toBe(before);
  expect(await barOf('two.ipynb')).toBe(before);
  await page.screenshot({ path: screenshotOf('light-two-notebooks') });

  // Renamed, its panel stays with it, and follows what its cell makes next.
  await page.evaluate(async () => {
    const found = [...window.jupyterapp.shell.widgets('main')].find(
      one => 'context' in one && (one as NotebookPanel).context.path.endsWith('one.ipynb')
    ) as NotebookPanel;
    await found.context.save();
    await found.context.rename('renamed.ipynb');
  });
  await expect.poll(() => barOf('renamed.ipynb')).not.toBe('none');
  await runIn(page, 'renamed.ipynb', 'live.run(weights=3 * weights)');
  const third = await barOf('renamed.ipynb');

  // A second view of it, and the first one closes.
  const first = await bringToFront(page, 'renamed.ipynb');
  await page.evaluate(() => window.jupyterapp.commands.execute('docmanager:clone'));
  const panels = page.locator('.jp-NotebookPanel');
  await expect(panels).toHaveCount(3);
  await page.evaluate(async id => {
    const views = [...window.jupyterapp.shell.widgets('main')].filter(
      one =>
        'context' in one && (one as NotebookPanel).context.path.endsWith('renamed.ipynb')
    ) as NotebookPanel[];
    for (const { context, revealed, sessionContext } of views) {
      await Promise.all([context.ready, revealed, sessionContext.ready]);
    }
    views.find(one => one.id === id)!.dispose();
  }, first);
  await expect(panels).toHaveCount(2);
  const second = await bringToFront(page, 'renamed.ipynb');
  expect(second).not.toBe(first);
  await runAll(page);
  // The cell made another session, at the weights of the start.
  await expect.poll(() => barOf('renamed.ipynb')).toBe(before);
  expect(third).not.toBe(before);
  await expect(besides).toHaveCount(2);
});

test('a copy of a notebook is live in its own kernel alone', async ({ page, tmpPath }) => {
  test.setTimeout(240_000);
  const path = `${tmpPath}/own.ipynb`;
  await openNotebook(page, path, [LOAD, MODEL].map(one => cellOf(one)));
  await runAll(page);
  const own = await graphIn(page, 'own.ipynb');
  await own.live();
  const copy = await page.evaluate(async from => {
    const { commands, serviceManager } = window.jupyterapp;
    await commands.execute('docmanager:save');
    return (await serviceManager.contents.copy(from, from.replace(/[^/]*$/, ''))).path;
  }, path);
  const name = copy.split('/').at(-1)!;
  const state = 'print(len(live.overrides))';

  // As a reader opens it: with a kernel of its own, in which nothing has run.
  await page.notebook.openByPath(copy);
  await kernelReady(page);
  let copied = await graphIn(page, name);
  await expect(copied.banner).toContainText('saved picture');
  await expect(copied.panel.locator('.workbench-mod-live')).toHaveCount(0);
  await copied.click(await copied.node('hidden, tanh'));
  await expect(copied.chip('stop')).toHaveCount(0);
  await copied.screenshot('light-copied');
  await page.theme.setDarkTheme();
  await copied.screenshot('dark-copied');
  await page.theme.setLightTheme();

  // A view of an output belongs to the notebook of the output.
  await activate(page, 'own.ipynb');
  await own.live();
  await page.notebook.selectCells(1);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('notebook:create-output-view')
  );
  const view = new GraphOnPage(page, '.jp-LinkedOutputView .workbench-Panel');
  await view.live();
  await activate(page, name);
  await page.notebook.selectCells(1);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('notebook:create-output-view')
  );
  const copiedView = page.locator('.jp-LinkedOutputView .workbench-Panel').last();
  await expect(copiedView.locator('.workbench-Banner')).toContainText('saved picture');

  // What it does when it has run is done in its own kernel.
  await activate(page, name);
  await runAll(page);
  copied = await graphIn(page, name);
  await copied.live();
  await copied.click(await copied.node('hidden, tanh'));
  await copied.chip('stop').click();
  await copied.button('Apply').click();
  await expect(copied.effect).toContainText('100 %');
  expect(await runIn(page, name, state)).toBe('1');
  expect(await runIn(page, 'own.ipynb', state)).toBe('0');

  // With the kernel of the other one, which its reader has chosen, it is live there.
  await page.evaluate(async end => {
    const { commands, shell } = window.jupyterapp;
    const views = [...shell.widgets('main')].filter(one => 'context' in one);
    const find = (file: string): NotebookPanel =>
      (views as NotebookPanel[]).find(one => one.context.path.endsWith(file))!;
    const { id } = find('own.ipynb').sessionContext.session!.kernel!;
    const again = find(end).context.path;
    await find(end).context.revert();
    await find(end).sessionContext.shutdown();
    find(end).dispose();
    await commands.execute('docmanager:open', { path: again, kernel: { id } });
  }, name);
  await kernelReady(page);
  copied = await graphIn(page, name);
  await copied.live();
  await openAgain(page, path);
  await (await graphIn(page, 'own.ipynb')).live();
});

test('a stranger’s notebook: opened, it runs nothing, and its labels are text @smoke', async ({
  page,
  tmpPath
}) => {
  const path = '../../../tests/session/wire/golden/snapshot.json';
  const golden = readFileSync(new URL(path, import.meta.url), 'utf8');
  const evil = '<img src=x onerror="window.strange = 1"><script>window.strange = 1</script>';
  const picture = JSON.parse(golden) as { header: { strings: string[] } };
  const { strings } = picture.header;
  strings.forEach((text, i) => {
    if (text === 'h' || text === 'encoder' || text.startsWith('h = ')) {
      strings[i] = evil;
    }
  });
  const output = (data: unknown): unknown => ({
    output_type: 'display_data',
    metadata: {},
    data
  });
  const type = 'application/vnd.workbench.graph+json';
  await openNotebook(page, `${tmpPath}/strange.ipynb`, [
    cellOf('%%autodiff loss\nimport os; os.environ["STRANGE"] = "1"', [
      output({ [type]: picture, 'text/html': evil, 'text/plain': 'a graph' })
    ]),
    cellOf('%%autodiff other', [output({ [type]: { schema: 99 }, 'text/plain': 'p' })])
  ]);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await expect(graph.banner).toContainText('saved picture');
  await expect(page.locator('.workbench-Note').last()).toContainText('cannot draw this picture');
  const line = graph.panel.locator('.workbench-Tree [data-node]').filter({
    hasText: '<img src=x'
  });
  await expect(line.first()).toHaveCount(1);
  await graph.showTab(/^Checks/);
  await expect(graph.panel.getByRole('button', { name: /Apply to cell/ })).toHaveCount(0);
  await expect(graph.panel.getByRole('button', { name: /Attach fix/ })).toHaveCount(0);
  await graph.screenshot('light-strange');
  await page.theme.setDarkTheme();
  await graph.screenshot('dark-strange');
  await page.theme.setLightTheme();

  // Nothing of it was markup, nothing ran: not in the page, not in the kernel.
  await expect(graph.panel.locator('img, script')).toHaveCount(0);
  const state = await page.evaluate(async () => {
    const { content, sessionContext } = window.jupyterapp.shell
      .currentWidget as NotebookPanel;
    const future = sessionContext.session!.kernel!.requestExecute({
      code: 'import os, sys; print("STRANGE" in os.environ, "workbench" in sys.modules)'
    });
    let printed = '';
    future.onIOPub = ({ content: said }) => {
      printed += (said as { text?: string }).text ?? '';
    };
    await future.done;
    const { sharedModel } = content.widgets[0].model;
    return {
      strange: 'strange' in window,
      count: (sharedModel as unknown as { execution_count: number }).execution_count,
      printed: printed.trim()
    };
  });
  expect(state).toEqual({ strange: false, count: 3, printed: 'False False' });

  // At 940 px, without the sidebar, the inspector stands under the graph.
  await graph.showInspector();
  await page.setViewportSize({ width: 940, height: 1000 });
  await page.sidebar.close('left');
  const inspector = graph.panel.locator('.workbench-Inspector').first();
  await expect
    .poll(async () => {
      const [a, b] = [await inspector.boundingBox(), await graph.canvas.boundingBox()];
      return a !== null && b !== null && a.y >= b.y + b.height - 1;
    })
    .toBe(true);
  await graph.screenshot('light-strange-940');
});
