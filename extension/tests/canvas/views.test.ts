import { describe, expect, test, vi } from 'vitest';

import { Camera } from '../../src/canvas/camera';
import { actionOf, stepFrom } from '../../src/canvas/keyboard';
import { Scene } from '../../src/canvas/scene';
import { contrast, parseColour } from '../../src/canvas/theme';
import {
  FOOT,
  LEGIBLE,
  blendViews,
  fitView,
  keepInSight,
  openingView,
  overflows,
  rectOnPage,
  visibleBounds,
  zoomAt
} from '../../src/canvas/viewport';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import { network } from '../helpers/programs';

const PAGE = { width: 800, height: 600 };

describe('views', () => {
  const bounds = { left: -100, top: 0, right: 500, bottom: 300 };

  test('all is shown, in the middle, no larger than life', () => {
    const view = fitView(bounds, PAGE);
    expect(view.scale).toBe(1);
    expect(overflows(view, bounds, PAGE)).toBe(false);
    const middle = rectOnPage(view, { x: 200, y: 150, width: 0, height: 0 });
    expect(middle).toMatchObject({ x: 400, y: 300 });
    const large = { left: 0, top: 0, right: 4000, bottom: 90 };
    expect(fitView(large, PAGE).scale).toBeCloseTo(760 / 4000);
  });

  test('what can be read whole opens whole, its output in sight', () => {
    const tall = { left: 0, top: 0, right: 300, bottom: 850 };
    const view = openingView(tall, PAGE, { width: 700, height: 574 }, 150);
    expect(overflows(view, tall, PAGE)).toBe(false);
    expect(view.scale).toBeGreaterThan(LEGIBLE);
  });

  test('what is too wide to be read whole opens as wide as can be read', () => {
    const wide = { left: 0, top: 0, right: 900, bottom: 90_000 };
    const inner = { width: 700, height: 574 };
    const view = openingView(wide, PAGE, inner, 150);
    const seen = visibleBounds(view, inner);
    expect(seen.left).toBeLessThanOrEqual(0);
    expect(seen.right).toBeGreaterThanOrEqual(900);
  });

  test('what cannot be read whole opens at its top, as much as can be read', () => {
    const tall = { left: 0, top: 0, right: 300, bottom: 90_000 };
    const view = openingView(tall, PAGE, PAGE, 150);
    expect(view.scale).toBe(LEGIBLE);
    expect(visibleBounds(view, PAGE).top).toBeLessThanOrEqual(0);
    expect(visibleBounds(view, PAGE).top).toBeGreaterThan(-40);
  });

  test('a zoom keeps what is under the pointer', () => {
    const view = { scale: 0.7, x: 31, y: -17 };
    const after = zoomAt(view, 1.9, 123, 456);
    const point = (v: typeof view): [number, number] => [
      (123 - v.x) / v.scale,
      (456 - v.y) / v.scale
    ];
    expect(point(after)[0]).toBeCloseTo(point(view)[0], 9);
    expect(point(after)[1]).toBeCloseTo(point(view)[1], 9);
  });

  test('the picture cannot be lost', () => {
    const far = keepInSight({ scale: 1, x: 1e6, y: -1e6 }, bounds, PAGE);
    const seen = visibleBounds(far, PAGE);
    expect(seen.right).toBeGreaterThan(bounds.left);
    expect(seen.top).toBeLessThan(bounds.bottom);
  });

  test('half-way between two views what stays in place stays in place', () => {
    const from = { scale: 0.5, x: 10, y: 20 };
    const to = zoomAt(from, 4, 300, 200);
    const half = blendViews(from, to, 0.5);
    expect(half.scale).toBeCloseTo(1);
    expect((300 - half.x) / half.scale).toBeCloseTo((300 - from.x) / from.scale, 9);
    expect(blendViews(from, to, 1).x).toBeCloseTo(to.x, 9);
  });
});

describe('the camera', () => {
  function cameraOn(bounds: Parameters<typeof fitView>[0]): Camera {
    const camera = new Camera(
      () => false,
      () => undefined
    );
    camera.resize(PAGE);
    camera.advance(0, bounds, 0);
    return camera;
  }
  const tall = { left: 0, top: 0, right: 300, bottom: 5000 };

  test('the wheel moves as far as there is picture, then leaves it to the page', () => {
    const camera = cameraOn(tall);
    expect(camera.scroll(0, 100)).toBe(false);
    expect(camera.scroll(0, -100)).toBe(true);
    expect(visibleBounds(camera.view, PAGE).top).toBeCloseTo(80 / LEGIBLE);
    camera.scroll(0, -1e6);
    expect(camera.scroll(0, -100)).toBe(false);
    expect(visibleBounds(camera.view, PAGE).bottom).toBeCloseTo(
      5000 + (20 + FOOT) / LEGIBLE
    );
  });

  test('a resized page keeps a view that was moved', () => {
    const small = { left: 0, top: 0, right: 300, bottom: 300 };
    const camera = cameraOn(small);
    camera.pan(1, 0);
    const { view } = camera;
    camera.resize({ width: 220, height: 220 });
    camera.advance(1, small, 0);
    expect(camera.view).toEqual(view);
    expect(camera.overflows).toBe(true);
  });

  test('a view that nobody moved is fitted again, whenever the page is resized', () => {
    const small = { left: 0, top: 0, right: 300, bottom: 300 };
    const camera = cameraOn(small);
    vi.spyOn(performance, 'now').mockReturnValue(1e9);
    camera.resize({ width: 240, height: 240 });
    camera.advance(2, small, 0);
    expect(camera.overflows).toBe(false);
    camera.resize({ width: 900, height: 500 });
    camera.advance(3, small, 0);
    const middle = rectOnPage(camera.view, { x: 150, y: 150, width: 0, height: 0 });
    expect(middle).toMatchObject({ x: 450, y: 250 });
    vi.restoreAllMocks();
  });

  test('a view in which a card is chosen stays, and moves no further than to see it', () => {
    const small = { left: 0, top: 0, right: 700, bottom: 300 };
    const camera = cameraOn(small);
    const { view } = camera;
    const [left, right] = [0, 500].map(x => ({ x, y: 60, width: 150, height: 44 }));
    camera.resize({ width: 500, height: 600 }, left);
    camera.advance(1, small, 0);
    expect(camera.view).toEqual(view);
    camera.resize({ width: 400, height: 600 }, right);
    camera.advance(2, small, 0);
    expect(camera.sees(right)).toBe(true);
    expect([camera.view.scale, camera.view.y]).toEqual([view.scale, view.y]);
  });

  test('all stays in sight on another page and in another layout, once asked for', () => {
    const camera = cameraOn(tall);
    camera.zoomAt(2, 0, 0);
    expect(camera.refit()).toBe(false);
    camera.fit();
    camera.resize({ width: 400, height: 200 });
    camera.advance(1, tall, 0);
    expect(camera.overflows).toBe(false);
    camera.follow(0, 0, { ...tall, bottom: 9000 });
    expect(camera.refit()).toBe(true);
    expect(camera.overflows).toBe(false);
    camera.pan(0, 1);
    const { view } = camera;
    camera.resize(PAGE);
    camera.advance(2, { ...tall, bottom: 9000 }, 0);
    expect(camera.view).toEqual(view);
  });

  test('a minimap and signposts have room of their own', () => {
    const camera = cameraOn(tall);
    camera.column = 90;
    camera.advance(1, tall, 0);
    expect(camera.size).toEqual({ width: PAGE.width - 90, height: PAGE.height - FOOT });
    camera.fit();
    camera.advance(2, tall, 0);
    expect(camera.size).toEqual(PAGE);
  });

  test('fit before the first drawing shows all of it then', () => {
    const camera = new Camera(
      () => false,
      () => undefined
    );
    camera.resize(PAGE);
    camera.fit();
    camera.advance(0, tall, 0);
    expect(overflows(camera.view, tall, PAGE)).toBe(false);
  });

  test('two places are gathered as far as they can be read, else nothing moves', () => {
    const camera = cameraOn(tall);
    expect(camera.gather({ left: 0, top: 300, right: 200, bottom: 1000 })).toBe(true);
    const seen = visibleBounds(camera.view, camera.size);
    expect(seen.top).toBeLessThanOrEqual(300);
    expect(seen.bottom).toBeGreaterThanOrEqual(1000);
    const before = camera.view;
    expect(camera.gather({ left: 0, top: 300, right: 200, bottom: 4000 })).toBe(false);
    expect(camera.view).toBe(before);
  });

  test('a card is brought into sight by the shortest way', () => {
    const camera = cameraOn(tall);
    const before = camera.view;
    camera.reveal({ x: 20, y: 60, width: 150, height: 44 });
    expect(camera.view.y).toBe(before.y);
    camera.reveal({ x: 20, y: 2000, width: 150, height: 44 });
    expect(visibleBounds(camera.view, PAGE).bottom).toBeCloseTo(
      2044 + (40 + FOOT) / LEGIBLE
    );
  });
});

describe('keys', () => {
  function networkScene(): Scene {
    const graph = network().graph();
    const items = itemsOf(graph, new Set());
    return new Scene(graph, items, layOut(items.input));
  }

  const key = (name: string, more: Partial<KeyboardEvent> = {}): KeyboardEvent =>
    ({
      key: name,
      ctrlKey: false,
      metaKey: false,
      altKey: false,
      ...more
    }) as KeyboardEvent;

  test('ours, and those that are left to others', () => {
    expect(actionOf(key('ArrowUp'))).toEqual({ do: 'walk', direction: 'up' });
    expect(actionOf(key('o'))).toEqual({ do: 'override' });
    expect(actionOf(key('m'))).toEqual({ do: 'mark' });
    expect(actionOf(key('f'))).toEqual({ do: 'fit' });
    for (const other of ['/', 'c', 'u', 'a', 'Tab']) {
      expect(actionOf(key(other))).toBeNull();
    }
    expect(actionOf(key('f', { ctrlKey: true }))).toBeNull();
    expect(actionOf(key('ArrowUp', { metaKey: true }))).toBeNull();
  });

  test('arrows walk edges, and back the way they came', () => {
    const scene = networkScene();
    expect(stepFrom(scene, 5, 'up', null)).toBe(4);
    expect(stepFrom(scene, 5, 'down', null)).toBe(7);
    expect(stepFrom(scene, 4, 'up', 3)).toBe(3);
    expect(stepFrom(scene, 7, 'up', null)).toBe(5);
    expect(stepFrom(scene, 7, 'up', 6)).toBe(6);
    expect(stepFrom(scene, 5, 'right', null)).toBe(6);
    expect(stepFrom(scene, 5, 'left', null)).toBeNull();
    expect(stepFrom(scene, 13, 'down', null)).toBeNull();
  });
});

describe('colours', () => {
  test('as a canvas writes them', () => {
    expect(parseColour('#1976d2')).toEqual({ colour: [25, 118, 210], alpha: 1 });
    expect(parseColour('rgba(0, 0, 0, 0.87)')).toEqual({
      colour: [0, 0, 0],
      alpha: 0.87
    });
    expect(parseColour('tomato')).toBeNull();
  });

  test('contrast is that of the standard', () => {
    expect(contrast([0, 0, 0], [255, 255, 255])).toBeCloseTo(21, 6);
    // #777 on white, a known case: 4.48.
    expect(contrast([119, 119, 119], [255, 255, 255])).toBeCloseTo(4.48, 2);
  });
});
