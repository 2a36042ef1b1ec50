// @vitest-environment jsdom
import { expect, test } from 'vitest';

import { CAPTION_HEIGHT, drawCaption } from '../../src/canvas/caption';
import { SvgContext, SvgPath } from '../../src/canvas/svg';
import type { ITheme } from '../../src/canvas/theme';

/** The numbers of an outline. */
function numbersOf(d: string): number[] {
  return Array.from(d.matchAll(/-?[\d.]+/g), ([text]) => Number(text));
}

const draw = (how: (context: SvgContext) => void): string => {
  const context = new SvgContext(200, 100, text => 10 * text.length);
  how(context);
  return context.finish();
};

test('what is drawn later lies on top, in the transform and the look of its time', () => {
  const text = draw(context => {
    context.setTransform(2, 0, 0, 2, 5, 7);
    context.fillStyle = 'rgb(1, 2, 3)';
    context.fillRect(0, 0, 4, 4);
    context.save();
    context.globalAlpha = 0.5;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(1, 1);
    context.bezierCurveTo(1, 2, 3, 2, 3, 9);
    context.stroke();
    context.restore();
    context.fillText('h', 1, 2);
  });
  expect(text).toBe(
    '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"' +
      ' viewBox="0 0 200 100"><g transform="matrix(2 0 0 2 5 7)">' +
      '<rect x="0" y="0" width="4" height="4" fill="rgb(1, 2, 3)"/>' +
      '<path d="M1 1C1 2 3 2 3 9" fill="none" stroke="#000" stroke-width="1"' +
      ' stroke-dasharray="3 3" opacity="0.5"/>' +
      '<text x="1" y="2" style="font:10px sans-serif;white-space:pre"' +
      ' fill="rgb(1, 2, 3)">h</text></g></svg>\n'
  );
});

test('an outline clips what is drawn until the look is restored', () => {
  const text = draw(context => {
    context.save();
    context.beginPath();
    context.rect(1, 2, 3, 4);
    context.clip();
    context.fillRect(0, 0, 9, 9);
    context.restore();
    context.fillRect(0, 0, 8, 8);
  });
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml');
  const [within, free] = parsed.querySelectorAll('rect');
  const id = /^url\(#(.*)\)$/.exec(within.getAttribute('clip-path') ?? '')?.[1];
  const outline = parsed.querySelector(`clipPath[id="${id}"] > path`);
  expect(outline?.getAttribute('d')).toBe('M1 2h3v4h-3Z');
  expect(within.getAttribute('width')).toBe('9');
  expect(free.hasAttribute('clip-path')).toBe(false);
});

test('labels and fonts are text, whatever they say', () => {
  const label = `</text><script>alert("1 & 2")</script>\u0000`;
  const text = draw(context => {
    context.font = '10px "A&B", sans-serif';
    context.fillText(label, 0, 0);
  });
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml');
  expect(parsed.querySelector('parsererror, script')).toBeNull();
  expect(parsed.querySelector('text')?.textContent).toBe(label.replace('\u0000', ''));
});

test('a corner is round where a circle touches both its sides', () => {
  // From (0, 0) along x to the corner (10, 0), then down: the circle about (7, 3).
  const right = new SvgPath();
  right.moveTo(0, 0);
  right.arcTo(10, 0, 10, 10, 3);
  expect(numbersOf(right.d)).toEqual([0, 0, 7, 0, 3, 3, 0, 0, 1, 10, 3]);
  // The other way round, and a corner that is none.
  const left = new SvgPath();
  left.moveTo(0, 0);
  left.arcTo(10, 0, 10, -10, 3);
  expect(numbersOf(left.d).slice(-3)).toEqual([0, 10, -3]);
  const flat = new SvgPath();
  flat.moveTo(0, 0);
  flat.arcTo(10, 0, 20, 0, 3);
  expect(numbersOf(flat.d)).toEqual([0, 0, 10, 0]);
});

test('text is as wide as on the page', () => {
  expect(new SvgContext(1, 1, text => 10 * text.length).measureText('abc').width).toBe(
    30
  );
});

test('a caption below the picture names it and tells what its colours mean', () => {
  const colours = { ground: '#fff', quiet: '#777', text: '#111', font: 'serif' };
  const theme = colours as unknown as ITheme;
  const legend = { title: 'gradient <norm>', low: '1e-3', high: '2', fill: ['#aaa', '#00f'] };
  const size = { width: 600, height: 100 };
  const svg = new SvgContext(600, 100 + CAPTION_HEIGHT, text => 6 * text.length);
  drawCaption(svg as unknown as CanvasRenderingContext2D, size, 1, theme, {
    name: 'model · loss = 0.5',
    legend
  });
  const parsed = new DOMParser().parseFromString(svg.finish('a <b> model'), 'image/svg+xml');
  expect(parsed.querySelector('svg > title')!.textContent).toBe('a <b> model');
  const texts = [...parsed.querySelectorAll('text')];
  expect(texts.map(({ textContent }) => textContent)).toEqual([
    '2',
    'gradient <norm>  1e-3',
    'model · loss = 0.5'
  ]);
  const all = [...parsed.querySelectorAll('rect')];
  expect(all.map(one => one.getAttribute('fill'))).toEqual(['#fff', '#aaa', '#00f']);
  // All of it lies below the picture, and nothing over another.
  for (const one of [...all, ...texts]) {
    expect(Number(one.getAttribute('y'))).toBeGreaterThanOrEqual(100);
  }
  const [high, low, name] = texts.map(one => Number(one.getAttribute('x')));
  const bars = all.slice(1).map(one => Number(one.getAttribute('x')));
  expect(low).toBeLessThan(bars[0]);
  expect(bars[1] + 36).toBeLessThan(high - 6);
  expect(name + 6 * 18).toBeLessThan(low - 6 * 21);
});
