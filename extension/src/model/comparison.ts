/**
 * Two states of one graph, compared node by node: what became of the norm of each value
 * and gradient. Nothing here knows the DOM.
 */

import type { Graph, Measure } from './graph';

/** What is compared, and what the numbers of a node mean. */
export const QUANTITIES = ['gradient', 'value'] as const;
export type Quantity = (typeof QUANTITIES)[number];

/**
 * - `none`: there is no such array on either side.
 * - `came`, `went`: on one side alone.
 * - `bad`: a NaN or an infinity on one side, or on both.
 */
export type Fate = 'none' | 'same' | 'changed' | 'came' | 'went' | 'bad';

export interface IChange {
  fate: Fate;
  /** The norms; NaN where there is none. */
  before: number;
  after: number;
}

/** A ratio so near to 1 is no change: other orders of summation give that much. */
const SAME = 1e-9;

/** A scale of ratios reaches from at least this power of two to at most that one. */
const [LEAST, MOST] = [1, 10];

/** What became of the norm of a node; of a graph that is compared with none, null. */
export function changeOf(graph: Graph, node: number, what: Quantity): IChange | null {
  const { compared } = graph;
  if (compared === null) {
    return null;
  }
  const graphs = [graph, compared.other];
  const [first, second] = compared.otherFirst ? graphs.reverse() : graphs;
  const [before, after] = [first, second].map(one => normOf(one, node, what));
  const bad = [first, second].some(one => isBad(one, node, what));
  const there = [first, second].map(one => hasArray(one, node, what));
  return { fate: fateOf(before, after, there, bad), before, after };
}

function fateOf(
  before: number,
  after: number,
  [wasThere, isThere]: readonly boolean[],
  bad: boolean
): Fate {
  if (!wasThere || !isThere) {
    return isThere ? 'came' : wasThere ? 'went' : 'none';
  }
  if (bad) {
    return 'bad';
  }
  const size = Math.max(before, after);
  return size === 0 || Math.abs(after - before) <= SAME * size ? 'same' : 'changed';
}

function hasArray(graph: Graph, node: number, what: Quantity): boolean {
  return what === 'gradient' ? graph.hasGradient(node) : graph.hasValue(node);
}

function normOf(graph: Graph, node: number, what: Quantity): number {
  return what === 'gradient' ? graph.gradNorm(node) : graph.valueNorm(node);
}

function isBad(graph: Graph, node: number, what: Quantity): boolean {
  const bad = what === 'gradient' ? graph.badGradients(node) : graph.badValues(node);
  return bad > 0 || (hasArray(graph, node, what) && !Number.isFinite(normOf(graph, node, what)));
}

/** How far a change goes on its scale: a power of two, or a difference. */
export function sizeOf({ fate, before, after }: IChange, measure: Measure): number {
  if (fate === 'same') {
    return 0;
  }
  if (fate !== 'changed') {
    return NaN;
  }
  return measure === 'ratio' ? Math.log2(after / before) : after - before;
}

/** The end of the scale of all changes of one kind, which reaches as far both ways. */
export function limitOf(graph: Graph, what: Quantity): number {
  const { measure } = graph.compared ?? { measure: 'ratio' };
  let most = 0;
  for (let node = 0; node < graph.count; node++) {
    const change = changeOf(graph, node, what);
    const size = change === null ? NaN : Math.abs(sizeOf(change, measure));
    if (Number.isFinite(size)) {
      most = Math.max(most, size);
    }
  }
  return measure === 'ratio' ? Math.min(Math.max(most, LEAST), MOST) : most || 1;
}

/** Where a change is on that scale: 0 the most down, 0.5 no change, 1 the most up. */
export function levelOfChange(change: IChange, measure: Measure, limit: number): number {
  const part = sizeOf(change, measure) / limit;
  return 0.5 + 0.5 * Math.min(1, Math.max(-1, part));
}

/** Whether both sides have the same NaN or infinity, which is no change. */
export function isAsBad({ fate, before, after }: IChange): boolean {
  return fate === 'bad' && Object.is(before, after);
}

/** The nodes whose norms changed, the largest change first; what came or went before. */
export function rankChanges(graph: Graph): number[] {
  const sizes = new Map<number, number>();
  for (let node = 0; node < graph.count; node++) {
    const size = Math.max(
      ...QUANTITIES.map(what => {
        const change = changeOf(graph, node, what);
        if (change === null || change.fate === 'none' || isAsBad(change)) {
          return 0;
        }
        const found = Math.abs(sizeOf(change, 'ratio'));
        return Number.isNaN(found) ? Infinity : found;
      })
    );
    if (size > 0) {
      sizes.set(node, size);
    }
  }
  return [...sizes.keys()].sort((a, b) => sizes.get(b)! - sizes.get(a)! || a - b);
}
