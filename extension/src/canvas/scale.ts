/** Logarithmic scales: where a norm lies among others. */

import type { Quantity } from '../model/comparison';
import type { Graph } from '../model/graph';

/** Decades below the largest norm that a scale tells apart. */
const DECADES = 8;

/** A scale spans at least so many decades, or equal norms would look extreme. */
const LEAST = 2;

/** A logarithmic scale of norms. */
export interface INormScale {
  /** The decimal logarithms of its ends. */
  low: number;
  high: number;
}

/** A scale for the positive finite ones among some norms. */
export function scaleOf(count: number, norm: (i: number) => number): INormScale {
  let least = Infinity;
  let most = 0;
  for (let i = 0; i < count; i++) {
    const found = norm(i);
    if (found > 0 && found < Infinity) {
      least = found < least ? found : least;
      most = found > most ? found : most;
    }
  }
  if (most === 0) {
    return { low: -1, high: 1 };
  }
  const high = Math.log10(most);
  const low = Math.max(Math.log10(least), high - DECADES);
  const short = Math.max(0, LEAST - (high - low)) / 2;
  return { low: low - short, high: high + short };
}

const known = new WeakMap<Graph, Partial<Record<Quantity, INormScale>>>();

/**
 * A scale for the norms of a graph, found once; beside another graph, for the norms
 * of both.
 */
export function normScale(graph: Graph, what: Quantity): INormScale {
  let scales = known.get(graph);
  if (scales === undefined) {
    scales = {};
    known.set(graph, scales);
  }
  return (scales[what] ??= findScale(graph, what));
}

function findScale(graph: Graph, what: Quantity): INormScale {
  const { count, compared } = graph;
  const read = (one: Graph, node: number): number =>
    what === 'gradient' ? one.gradNorm(node) : one.valueNorm(node);
  return compared === null
    ? scaleOf(count, node => read(graph, node))
    : scaleOf(2 * count, i =>
        i < count ? read(graph, i) : read(compared.other, i - count)
      );
}

/** Where a norm is on a scale, 0 to 1; NaN for one that is not positive. */
export function levelOf(scale: INormScale, norm: number): number {
  if (!(norm > 0)) {
    return NaN;
  }
  const at = (Math.log10(norm) - scale.low) / (scale.high - scale.low);
  return Math.min(1, Math.max(0, at));
}
