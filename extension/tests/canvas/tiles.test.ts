import { describe, expect, test } from 'vitest';

import { type IGround, sameGround, thinningAt } from '../../src/canvas/frame';
import { looksOf } from '../../src/canvas/looks';
import { marksOf } from '../../src/canvas/marks';
import { Scene } from '../../src/canvas/scene';
import { signsOf } from '../../src/canvas/signposts';
import type { ITheme } from '../../src/canvas/theme';
import { type ITileMaker, SIDE, TileCache } from '../../src/canvas/tiles';
import { placeNote } from '../../src/canvas/tooltip';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import { GraphState } from '../../src/model/state';
import { network, tangle } from '../helpers/programs';

/** An image that knows what was painted on it, and when. */
interface IPainted {
  bounds: string;
  turn: number;
}

/** A cache with a clock of its own, on which each tile takes 5 milliseconds. */
class Bench {
  turn = 0;
  painted: string[] = [];
  put: { image: IPainted; x: number; y: number; side: number }[] = [];
  private _time = 0;
  readonly cache = new TileCache<IPainted>(() => this._time);

  private readonly _maker: ITileMaker<IPainted> = {
    make: () => ({ bounds: '', turn: -1 }),
    paint: (image, { left, top, right, bottom }) => {
      image.bounds = [left, top, right, bottom].join(' ');
      image.turn = this.turn;
      this.painted.push(image.bounds);
      this._time += 5;
    },
    put: (image, x, y, side) => this.put.push({ image: { ...image }, x, y, side })
  };

  draw(view: { scale: number; x: number; y: number }, milliseconds = Infinity): boolean {
    this.turn++;
    this.painted = [];
    this.put = [];
    return this.cache.draw(view, { width: 1000, height: 600 }, milliseconds, this._maker);
  }
}

const HOME = { scale: 1, x: 0, y: 0 };

describe('tiles', () => {
  test('cover what is seen, once, each with its part of the picture', () => {
    const bench = new Bench();
    expect(bench.draw(HOME)).toBe(true);
    expect(bench.painted).toEqual([
      `0 0 ${SIDE} ${SIDE}`,
      `${SIDE} 0 ${2 * SIDE} ${SIDE}`,
      `0 ${SIDE} ${SIDE} ${2 * SIDE}`,
      `${SIDE} ${SIDE} ${2 * SIDE} ${2 * SIDE}`
    ]);
    expect(bench.put.map(({ x, y, side }) => [x, y, side])).toEqual([
      [0, 0, SIDE],
      [SIDE, 0, SIDE],
      [0, SIDE, SIDE],
      [SIDE, SIDE, SIDE]
    ]);
  });

  test('move with the view; only what comes into sight is painted', () => {
    const bench = new Bench();
    bench.draw({ ...HOME, x: -10, y: -10 });
    bench.draw({ ...HOME, x: -20, y: -15 });
    expect(bench.painted).toEqual([]);
    expect(bench.put[0]).toMatchObject({ x: -20, y: -15 });
    bench.draw({ ...HOME, x: -60, y: -15 });
    expect(bench.painted).toHaveLength(2);
    expect(bench.painted[0]).toBe(`${2 * SIDE} 0 ${3 * SIDE} ${SIDE}`);
  });

  test('while the view moves they are stretched, and painted when it is still', () => {
    const bench = new Bench();
    bench.draw(HOME);
    expect(bench.draw({ scale: 1.2, x: 0, y: 0 }, 7)).toBe(false);
    expect(bench.painted).toEqual([]);
    expect(bench.put[0].side).toBeCloseTo(1.2 * SIDE);
    expect(bench.draw({ scale: 1.2, x: 0, y: 0 })).toBe(true);
    expect(bench.painted).toHaveLength(4);
    expect(bench.put.every(({ side }) => Math.abs(side - SIDE) < 1e-9)).toBe(true);
  });

  test('beyond a stretch they are painted at the zoom that is', () => {
    const bench = new Bench();
    bench.draw(HOME);
    bench.draw({ scale: 2.5, x: 0, y: 0 }, 1000);
    expect(bench.painted).toHaveLength(4);
  });

  test('a drawing in movement paints for as long as it may, and one at least', () => {
    const bench = new Bench();
    expect(bench.draw(HOME, 1)).toBe(false);
    expect(bench.painted).toHaveLength(1);
    expect(bench.draw(HOME, 7)).toBe(false);
    expect(bench.painted).toHaveLength(2);
    expect(bench.draw(HOME, 7)).toBe(true);
  });

  test('outdated ones are shown until they are painted again', () => {
    const bench = new Bench();
    bench.draw(HOME);
    bench.cache.outdate();
    expect(bench.draw(HOME, 1)).toBe(false);
    expect(bench.put).toHaveLength(4);
    expect(bench.put.map(({ image }) => image.turn).sort()).toEqual([1, 1, 1, 2]);
    expect(bench.draw(HOME)).toBe(true);
    expect(bench.put.map(({ image }) => image.turn).every(turn => turn > 1)).toBe(true);
  });

  test('of another picture nothing is shown', () => {
    const bench = new Bench();
    bench.draw(HOME);
    bench.cache.clear();
    expect(bench.cache.size).toBe(0);
    bench.draw(HOME, 1);
    expect(bench.put).toHaveLength(1);
  });

  test('their number is bounded, and those in sight stay', () => {
    const bench = new Bench();
    for (let i = 0; i < 200; i++) {
      bench.draw({ scale: 1, x: -300 * i, y: 0 });
      expect(bench.put.length).toBeGreaterThanOrEqual(4);
    }
    expect(bench.cache.size).toBeLessThanOrEqual(64);
  });
});

describe('the ground', () => {
  const theme = {} as ITheme;
  const state = new GraphState();
  state.setGraph(network().graph());
  const graph = state.graph!;
  const items = itemsOf(graph, new Set());
  const scene = new Scene(graph, items, layOut(items.input));
  const looks = looksOf(graph, items, scene.layout, 'gradient');
  const now = (): IGround => ({
    scene,
    looks,
    theme,
    stage: state.stage,
    marks: marksOf(state, scene)
  });

  test('pointing and choosing leave it as it is', () => {
    const before = now();
    state.hover(5);
    state.select(4);
    expect(sameGround(before, now())).toBe(true);
  });

  test.each<[string, () => void, () => void]>([
    ['a search', () => state.search('tanh'), () => state.search('')],
    ['a step', () => state.setStep(3), () => state.setStep(null)],
    [
      'a way',
      () => state.showTrail([1, 3]),
      () => {
        state.select(1);
        state.selectAlone(null);
      }
    ],
    [
      'a stage',
      () => state.settings.set({ stage: 'traced' }),
      () => state.settings.set({ stage: 'derivative' })
    ]
  ])('%s changes it, and back again', (_, change, back) => {
    state.selectAlone(null);
    const before = now();
    change();
    expect(sameGround(before, now())).toBe(false);
    back();
    expect(sameGround(before, now())).toBe(true);
  });

  test('other numbers, another scene and another theme change it', () => {
    const before = now();
    const other = looksOf(graph, items, scene.layout, 'value');
    expect(sameGround(before, { ...now(), looks: other })).toBe(false);
    const again = new Scene(graph, items, scene.layout);
    expect(sameGround(before, { ...now(), scene: again })).toBe(false);
    expect(sameGround(before, { ...now(), theme: { ...theme } })).toBe(false);
  });
});

describe('from far away', () => {
  test('as many edges are left out in each tile of a zoom', () => {
    const graph = tangle(20_000).graph();
    const items = itemsOf(graph, new Set());
    const scene = new Scene(graph, items, layOut(items.input));
    const at = (x: number, scale: number): number =>
      thinningAt(scene, { scale, x, y: x / 2 }, 600);
    expect(at(0, 1e-3)).toBeGreaterThan(1);
    expect(at(0, 1e-3)).toBe(at(-5000, 1e-3));
    expect(at(0, 0.5)).toBe(1);
  });

  test('signposts lead to the output and what it is differentiated by', () => {
    const graph = network().graph();
    const items = itemsOf(graph, new Set());
    const scene = new Scene(graph, items, layOut(items.input));
    const view = { scale: 1, x: 400, y: -scene.bounds.bottom / 2 };
    const signs = signsOf(scene, view, { width: 800, height: 100 });
    const { output, wrt } = graph.header;
    expect(signs).toContainEqual({
      item: items.itemOf[output],
      label: 'loss',
      arrow: '↓'
    });
    expect(signs.some(({ item }) => item === items.itemOf[wrt[0]])).toBe(true);
    const all = { width: 1e5, height: 1e5 };
    expect(signsOf(scene, { scale: 1, x: 5e4, y: 10 }, all)).toEqual([]);
  });
});

describe('the note beside a card', () => {
  const page = { width: 800, height: 600 };
  const note = { width: 200, height: 100 };
  const card = { x: 300, y: 200, width: 150, height: 44 };
  const meets = (at: { x: number; y: number }, other: typeof card): boolean =>
    at.x < other.x + other.width &&
    other.x < at.x + note.width &&
    at.y < other.y + other.height &&
    other.y < at.y + note.height;

  test('stands below it where there is room', () => {
    expect(placeNote(card, [card], note, page)).toEqual({ x: 300, y: 252 });
  });

  test('covers no card where there is room for it anywhere', () => {
    const column = Array.from({ length: 8 }, (_, i) => ({ ...card, y: 74 * i }));
    const at = placeNote(column[3], column, note, page);
    expect(column.filter(other => meets(at, other))).toEqual([]);
    expect(at.x).toBe(458);
  });

  test('stays on the page', () => {
    const corner = { ...card, x: 700, y: 580 };
    const at = placeNote(corner, [corner], note, page);
    expect(at.x + note.width).toBeLessThanOrEqual(page.width);
    expect(at.y + note.height).toBeLessThanOrEqual(page.height);
  });
});
