/** The renderer in hosts of anywidget: a bare page with a model of its own, JupyterLab. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { inflateSync } from 'node:zlib';

import { expect, test as lab } from '@jupyterlab/galata';
import { test } from '@playwright/test';

import { GraphOnPage, kernelReady, print, screenshotOf } from './graph';

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8');

interface ISaved {
  header: object;
  buffers: string[];
}

/** A picture that a notebook holds: what the kernel of the bare page has. */
function savedPicture(): ISaved {
  return JSON.parse(read('tests/session/wire/golden/snapshot.json')) as ISaved;
}

/** A host with the least that anywidget gives: a model, an element, a module. */
const HOST = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Host</title>
<body style="color: #eee; background: #202020"><main id="one"></main><main id="two"></main>
<script>
// Some hosts have require.js: no part of the renderer may be taken for a module of it.
window.define = () => { throw new Error('define of require.js is called'); };
window.define.amd = {};
</script>
<script type="module">
import { mount } from './renderer.js';
const heard = new Set();
const sent = (window.sent = []);
const saved = await (await fetch('./picture.json')).json();
const buffers = saved.buffers.map(text =>
  new DataView(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer));
const model = {
  get: name => ({ key: 'k', height: 320 })[name],
  on: (_, call) => heard.add(call),
  off: (_, call) => heard.delete(call),
  send: event => {
    sent.push(event);
    if (event.event === 'hello') {
      queueMicrotask(() => heard.forEach(call =>
        call({ type: 'picture', seq: 1, of: null, answers: null,
          header: saved.header, columns: saved.header.columns }, buffers)));
    }
  }
};
window.heard = heard;
window.ends = ['one', 'two'].map(id => mount({ model, el: document.getElementById(id) }));
</script></body></html>`;

test('a bare page mounts it, and takes it off again', async ({ page }) => {
  const [, packed] = /id="workbench-renderer">([^<]*)</.exec(
    read('workbench/session/page.html')
  )!;
  const script = inflateSync(Buffer.from(packed, 'base64')).toString();
  const files: Record<string, [string, string]> = {
    '/': ['text/html', HOST],
    '/renderer.js': ['text/javascript', script],
    '/picture.json': ['application/json', JSON.stringify(savedPicture())]
  };
  const errors: string[] = [];
  page.on('pageerror', error => errors.push(error.message));
  await page.route('http://host.test/**', route => {
    const found = files[new URL(route.request().url()).pathname];
    return found
      ? route.fulfill({ contentType: found[0], body: found[1] })
      : route.fulfill({ status: 404, body: '' });
  });
  await page.goto('http://host.test/');
  const panels = page.locator('.workbench-Panel');
  await expect(panels).toHaveCount(2);
  await expect(panels.nth(1).locator('.workbench-Backend')).toHaveClass(/mod-live/);
  await expect(panels.first().locator('.workbench-Canvas').first()).toHaveAttribute(
    'data-ready',
    /.*/
  );
  // The two views share one line to the kernel, which was greeted once.
  const events = await page.evaluate(() =>
    (window as unknown as { sent: { event: string }[] }).sent.map(one => one.event)
  );
  expect(events.filter(event => event === 'hello')).toHaveLength(1);
  expect(events).toContain('ack');
  // The page is dark, and so is the picture.
  await expect(page.locator('.workbench-Standalone').first()).toHaveAttribute(
    'data-jp-theme-light',
    'false'
  );
  await page.screenshot({ path: screenshotOf('anywidget-bare') });
  const left = await page.evaluate(() => {
    const { ends, heard } = window as unknown as {
      ends: (() => void)[];
      heard: Set<unknown>;
    };
    for (const end of ends) {
      end();
    }
    return heard.size;
  });
  expect(left).toBe(0);
  await expect(panels).toHaveCount(0);
  expect(errors).toEqual([]);
});

lab('JupyterLab draws it as a widget, live, and saves a loader', async ({
  page,
  tmpPath
}) => {
  await page.notebook.createNew('anywidget.ipynb');
  await kernelReady(page);
  const here = 'import importlib.util as u; print(bool(u.find_spec("anywidget")))';
  lab.skip((await print(page, here)) === 'False', 'anywidget is not installed');
  await page.notebook.setCell(
    0,
    'code',
    `import numpy as np, workbench as wb
f = wb.trace(lambda w, x: np.sum(np.tanh(w * x)))
model = wb.Session(f(np.ones(3), np.ones(3)), wrt=["w"], name="model")
wb.show(model, widget="anywidget")`
  );
  await page.notebook.run();
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  await graph.click(await graph.node('tanh'));
  await expect(graph.panel.getByRole('complementary', { name: 'Inspector', exact: true })).toContainText('tanh');
  await expect(graph.button('Jacobian, Hessian, gradient check')).toHaveCount(0);
  // Both ways: an override of the kernel is drawn, and undone from the page.
  expect(await print(page, '_ = model.override("tanh", "clip(d, -0.1, 0.1)")')).toBe('');
  await graph.showInspector();
  await expect(graph.tab(/Overrides/)).toContainText('1');
  await graph.screenshot('anywidget-lab');
  await graph.button(/^Undo/).click();
  await graph.showInspector();
  await expect(graph.tab(/Overrides/)).not.toContainText('1');
  expect(await print(page, 'print(len(model.overrides))')).toBe('0');
  await page.notebook.save();
  const saved = await page.evaluate(async path => {
    const model = await window.jupyterapp.serviceManager.contents.get(path);
    return JSON.stringify(model.content);
  }, `${tmpPath}/anywidget.ipynb`);
  expect(saved).toContain('image/svg+xml');
  expect(saved.length).toBeLessThan(40_000);
});
