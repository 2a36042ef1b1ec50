// @vitest-environment jsdom
import { expect, test } from 'vitest';

import { drawCards } from '../../src/canvas/cards';
import { detailAt } from '../../src/canvas/frame';
import { looksOf } from '../../src/canvas/looks';
import { marksOf } from '../../src/canvas/marks';
import { Scene } from '../../src/canvas/scene';
import { SvgContext, SvgPath } from '../../src/canvas/svg';
import { LEAST, Pen } from '../../src/canvas/text';
import { readTheme } from '../../src/canvas/theme';
import { LEGIBLE } from '../../src/canvas/viewport';
import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import type { Graph } from '../../src/model/graph';
import { GraphState } from '../../src/model/state';
import { Program } from '../helpers/programs';

interface IText {
  text: string;
  /** Pixels of the page. */
  size: number;
}

/** What stands on cards and tiles at the smallest zoom that a picture opens with. */
function textsAtFloor(graph: Graph): IText[] {
  const state = new GraphState();
  state.setGraph(graph);
  const items = itemsOf(graph, state.folded);
  const scene = new Scene(graph, items, layOut(items.input));
  const { left, top, right, bottom } = scene.bounds;
  // Letters as wide as those of the fonts that are usual: mono 0.602 of the size.
  const context = new SvgContext(right - left, bottom - top, (text, font) => {
    const size = parseFloat(font.replace('600 ', ''));
    return size * text.length * (font.includes('mono') ? 0.602 : 0.62);
  }) as unknown as CanvasRenderingContext2D & SvgContext;
  const theme = { ...readTheme(document.body), mono: 'monospace', font: 'sans-serif' };
  drawCards({
    context,
    scene,
    looks: looksOf(graph, items, scene.layout, 'gradient'),
    marks: marksOf(state, scene),
    theme,
    pen: new Pen(context, theme, LEGIBLE),
    makePath: () => new SvgPath() as unknown as Path2D,
    view: { scale: LEGIBLE, x: 0, y: 0 },
    seen: scene.bounds,
    stage: 'derivative',
    detail: detailAt(LEGIBLE),
    every: 1
  });
  const parsed = new DOMParser().parseFromString(context.finish(), 'image/svg+xml');
  return Array.from(parsed.querySelectorAll('text'), node => ({
    text: node.textContent,
    size: LEGIBLE * parseFloat(/([\d.]+)px/.exec(node.getAttribute('style') ?? '')![1])
  }));
}

/** Two layers, with gradients as long as they are written. */
function classifier(): Graph {
  const program = new Program();
  const x = program.input('X', { shape: '569×30', gradient: NaN });
  const w = program.input('W1', { shape: '30×16', gradient: 1.3e-12 });
  const product = program.op('matmul', [x, w], { shape: '569×16', gradient: 4.4e-2 });
  const h = program.op('tanh', [product], { shape: '569×16', name: 'h', gradient: 0.31 });
  program.op('sum', [h], { name: 'loss', gradient: 1 });
  return program.graph();
}

test('what opens has each shape and each gradient, in letters that can be read', () => {
  const graph = classifier();
  const texts = textsAtFloor(graph);
  expect(Math.min(...texts.map(({ size }) => size))).toBeGreaterThanOrEqual(LEAST);
  expect(LEAST).toBeGreaterThanOrEqual(10);
  const told = texts.map(({ text }) => text);
  for (const text of ['X', '569×30', '30×16', '1e-12', '4e-2', 'h', 'tanh', '0.31', '1.0']) {
    expect(told).toContain(text);
  }
});

test('a loop tells its lines and its steps, one step its number', () => {
  const program = new Program();
  let v = program.input('v0', { shape: '2' });
  for (let iteration = 0; iteration < 400; iteration++) {
    v = program.op('multiply', [v], { loop: 0, iteration, line: 4, shape: '2' });
    v = program.op('add', [v], { loop: 0, iteration, line: 6, shape: '2' });
  }
  program.op('sum', [v], { name: 'E' });
  const told = textsAtFloor(program.graph()).map(({ text }) => text);
  expect(told).toContain('loop, lines 4–6');
  expect(told).toContain('400 steps');
});
