// @vitest-environment jsdom
import { afterEach, expect, test } from 'vitest';

import { watchTheme } from '../../src/canvas/theme';

afterEach(() => {
  document.body.replaceChildren();
  delete document.body.dataset['jpThemeLight'];
});

/** A host on the page, and a canvas somewhere in it. */
function hostIn(parent: Node): { host: HTMLElement; canvas: HTMLElement } {
  const host = document.createElement('div');
  const panel = document.createElement('section');
  const canvas = document.createElement('canvas');
  panel.append(canvas);
  host.append(panel);
  parent.appendChild(host);
  return { host, canvas };
}

const SHADOW = (): ShadowRoot => {
  const outer = document.createElement('div');
  document.body.append(outer);
  return outer.attachShadow({ mode: 'open' });
};

test.each([
  ['the page', (): Node => document.body],
  ['a shadow root', SHADOW]
])('a theme on a host in %s is heard, and that of the body', async (_, makeParent) => {
  const { host, canvas } = hostIn(makeParent());
  let heard = 0;
  const stop = watchTheme(canvas, () => (heard += 1));

  host.dataset['jpThemeLight'] = 'false';
  await Promise.resolve();
  expect(heard).toBe(1);
  document.body.dataset['jpThemeLight'] = 'false';
  await Promise.resolve();
  expect(heard).toBe(2);

  // What has no theme in it is not heard, nor the theme of a host beside it.
  host.className = 'other';
  hostIn(document.body).host.dataset['jpThemeLight'] = 'false';
  await Promise.resolve();
  expect(heard).toBe(2);

  stop();
  host.dataset['jpThemeLight'] = 'true';
  await Promise.resolve();
  expect(heard).toBe(2);
});
