/** The gradients of a loop, iteration by iteration, as small bars on its card. */

import type { IItems } from '../layout/items';
import { spreadNorms } from '../model/folds';
import type { Graph } from '../model/graph';
import type { ITheme } from './theme';
import { LEVELS } from './theme';
import { type INormScale, levelOf } from './scale';
import type { IRect } from './viewport';

/** So many bars at most: of several iterations the largest norm is shown. */
const BARS = 60;

export interface ISparkline {
  /** How high each bar is, from 0 to 1; NaN for none. */
  height: Float32Array;
  /** How warm each bar is, from 0 to 1; NaN where a gradient is not finite. */
  warmth: Float32Array;
}

/** The sparklines of cards that stand for a loop, or some iterations of one, by item. */
export function sparklinesOf(
  graph: Graph,
  items: IItems,
  scale: INormScale
): Map<number, ISparkline> {
  const found = new Map<number, ISparkline>();
  const show = (item: number, norms: ArrayLike<number>): void => {
    const sparkline = sparklineOf(norms, scale, BARS);
    if (sparkline.height.some(height => !Number.isNaN(height))) {
      found.set(item, sparkline);
    }
  };
  items.span.forEach((span, item) => {
    const steps = items.scope[item] === null ? graph.stepNorms(items.node[item]) : null;
    if (steps !== null && steps.steps > 1) {
      show(item, spreadNorms(steps, Math.min(steps.steps, BARS)));
    }
    const loop = span === null ? null : graph.loopAt(items.scope[item] ?? '');
    if (span !== null && loop !== null && span.last > span.first) {
      const norms = graph.iterationNorms(loop).subarray(span.first, span.last + 1);
      show(item, norms);
    }
  });
  return found;
}

/**
 * Norms as bars: their heights compare them with each other, over at least a decade,
 * their warmth with all norms of the graph.
 */
export function sparklineOf(
  norms: ArrayLike<number>,
  scale: INormScale,
  most: number
): ISparkline {
  const count = Math.min(norms.length, most);
  const largest = new Float64Array(count).fill(NaN);
  for (let i = 0; i < norms.length; i++) {
    const bar = Math.floor((i * count) / norms.length);
    if (norms[i] > largest[bar] || Number.isNaN(largest[bar])) {
      largest[bar] = norms[i];
    }
  }
  const logs = Array.from(largest, norm => Math.log10(norm)).filter(Number.isFinite);
  const high = logs.reduce((a, b) => Math.max(a, b), -Infinity);
  const low = Math.min(
    logs.reduce((a, b) => Math.min(a, b), Infinity),
    high - 1
  );
  const height = new Float32Array(count);
  const warmth = new Float32Array(count);
  largest.forEach((norm, bar) => {
    const at = (Math.log10(norm) - low) / (high - low);
    height[bar] = Number.isNaN(norm) ? NaN : norm === Infinity ? 1 : Math.max(0, at);
    warmth[bar] = norm === Infinity ? NaN : levelOf(scale, norm) || 0;
  });
  return { height, warmth };
}

/** Draw the bars into a rectangle. */
export function drawSparkline(
  context: CanvasRenderingContext2D,
  theme: ITheme,
  { height, warmth }: ISparkline,
  rect: IRect
): void {
  const step = rect.width / height.length;
  const width = Math.max(step * 0.78, Math.min(step, 0.8));
  height.forEach((part, bar) => {
    if (Number.isNaN(part)) {
      return;
    }
    const warm = warmth[bar];
    context.fillStyle = Number.isNaN(warm)
      ? theme.error
      : theme.warm.fill[Math.max(2, Math.round(warm * (LEVELS - 1)))];
    const tall = Math.max(1, part * rect.height);
    const x = rect.x + bar * step;
    context.fillRect(x, rect.y + rect.height - tall, width, tall);
  });
}
