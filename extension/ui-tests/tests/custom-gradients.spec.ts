import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, open, print, runAll, screenshotOf } from './graph';

/** Small enough to cut most of the gradient by the wells. */
const BOUND = 0.001;

/**
 * The gradient by the wells, written by hand in NumPy: each house pulls at its nearest
 * well, along the line between them. How far the session's gradient is from it, and
 * from it clipped.
 */
const BY_HAND = `
import numpy as _np
_x, _w = village.values["houses"], village.values["wells"]
_diff = _x[:, None, :] - _w[None, :, :]
_z = _np.sqrt((_diff**2).sum(axis=2))
_near = _z == _z.min(axis=1, keepdims=True)
_true = -(_near[:, :, None] * _diff / _z[:, :, None]).sum(axis=0) / len(_x)
_far = lambda g: _np.abs(village.grads["wells"] - g).max()
print(_far(_true) < 1e-9, _far(_np.clip(_true, -${BOUND}, ${BOUND})) < 1e-9)
`;

// High enough for a graph with its drawer.
test.use({ viewport: { width: 1280, height: 1150 } });

test("a user's op is a node: its rule is shown, its gradient clipped by mouse", async ({
  page,
  tmpPath
}) => {
  await open(page, tmpPath, '02-custom-gradients.ipynb');
  await runAll(page);
  const graph = new GraphOnPage(page);
  await graph.ready();
  await graph.live();
  expect(await print(page, BY_HAND)).toBe('True False');

  await graph.click(await graph.node('ways, cdist'));
  await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('wayscdist');
  const facts = graph.panel.locator('.workbench-Facts');
  await expect(facts).toContainText('houses, wells');
  await expect(facts).toContainText('Cdist.vjp');
  const source = graph.panel.locator('.workbench-Source');
  await expect(source).toContainText('ways = cdist(houses, wells)');
  await graph.screenshot('light-custom-op');

  await graph.chip('clip').click();
  await graph.panel.getByLabel('from', { exact: true }).fill(String(-BOUND));
  await graph.panel.getByLabel('to', { exact: true }).fill(String(BOUND));
  await expect(graph.panel.locator('.workbench-Message')).toHaveText('ok');
  await graph.button('Apply').click();
  await expect(graph.effect).toContainText('changes ∂loss/∂wells by');
  expect(await print(page, BY_HAND)).toBe('False True');
  expect(await print(page, 'print(village.code())')).toContain('clip(d, -');
  await graph.screenshot('light-custom-op-clipped');

  await graph.button(/^Undo/).click();
  await graph.showInspector();
  await expect(graph.tab('Overrides')).toHaveText('Overrides');
  expect(await print(page, BY_HAND)).toBe('True False');
});

test('programs of symbols are drawn, whole and within their column', async ({
  page,
  tmpPath
}) => {
  await open(page, tmpPath, '03-symbols-and-loops.ipynb');
  await runAll(page);
  const drawn = page.locator('.jp-RenderedSVG img');
  await expect(drawn).toHaveCount(2);
  for (const [place, name] of ['symbols', 'loop'].entries()) {
    const picture = drawn.nth(place);
    await picture.scrollIntoViewIfNeeded();
    await picture.screenshot({ path: screenshotOf(`light-${name}`) });
    // As large as it was made, so it was read; and nothing of it is cut.
    const [made, shown, room] = await picture.evaluate(node => {
      const image = node as HTMLImageElement;
      return [image.naturalWidth, image.width, image.parentElement!.clientWidth];
    });
    expect(made).toBeGreaterThan(300);
    expect(shown).toBe(made);
    expect(shown).toBeLessThanOrEqual(room);
  }
});
