// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from 'vitest';

import script from '../../../notebooks/guide/_static/pictures.js?raw';

const PLACE = '<script type="application/json" id="workbench-data">';

describe('pictures of the documentation', () => {
  const load = vi.fn<(address: URL) => Promise<unknown>>();
  const place = (): Element => document.querySelector('.workbench-picture')!;
  const click = async (): Promise<void> => {
    place().querySelector<HTMLElement>('button')!.click();
    await new Promise(resolve => setTimeout(resolve));
  };
  const message = (): string => place().querySelector('[role=status]')!.textContent;
  const loaded = (text: string): unknown => ({
    ok: true,
    text: () => Promise.resolve(text)
  });

  beforeEach(() => {
    load.mockReset();
    document.body.innerHTML =
      '<div class="workbench-picture"><img alt="a graph" src="data:,">' +
      '<script type="application/json">{"name":"</i>"}</script></div>';
    Object.defineProperty(document, 'currentScript', {
      value: { src: 'https://docs.test/_static/pictures.js' },
      configurable: true
    });
    // eslint-disable-next-line @typescript-eslint/no-implied-eval
    const run = new Function('fetch', script) as (fetch: typeof load) => void;
    run(load);
  });

  it('open live in a frame, with labels as text', async () => {
    load.mockResolvedValue(loaded(`<p>${PLACE}</script></p>`));
    await click();
    expect(load.mock.calls.map(String)).toEqual([
      'https://docs.test/_static/page.html'
    ]);
    const frame = place().querySelector('iframe')!;
    expect(frame.getAttribute('srcdoc')).toBe(
      `<p>${PLACE}{"name":"\\u003c/i>"}</script></p>`
    );
    expect(frame.title).toBe('a graph');
    expect(place().querySelector('button')).toBeNull();
  });

  it.each([
    ['the site answers 404', () => Promise.resolve({ ok: false, status: 404 })],
    ['Failed to fetch', () => Promise.reject(new TypeError('Failed to fetch'))]
  ])('say why they stay as they are, and try again: %s', async (why, answer) => {
    load.mockImplementationOnce(answer);
    await click();
    expect(place().querySelector('iframe')).toBeNull();
    expect(place().querySelector('img')).not.toBeNull();
    expect(message()).toBe(
      `It does not open: page.html cannot be loaded (${why}).` +
        ' Check the network, and press the button again.'
    );
    load.mockResolvedValue(loaded(PLACE));
    await click();
    expect(load).toHaveBeenCalledTimes(2);
    expect(place().querySelector('iframe')).not.toBeNull();
  });
});
