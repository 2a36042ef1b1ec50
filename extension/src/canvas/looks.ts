/**
 * What the numbers of a graph look like: how warm and wide each edge is, how warm
 * each tile, and what is written on it. Made anew when values or colouring change.
 */

import { IItems, IPill, pillsOf } from '../layout/items';
import { ILayout } from '../layout/types';
import {
  type Fate,
  type IChange,
  QUANTITIES,
  changeOf,
  levelOfChange,
  limitOf
} from '../model/comparison';
import { Graph, type ICost } from '../model/graph';
import { type Role, nonFiniteOf } from '../model/nonfinite';
import type { Colouring, TileText } from '../model/state';
import { type IVerdict, verdictsOf } from '../model/verdicts';
import {
  formatBytes,
  formatSeconds,
  shortNumber,
  shortPair,
  shortPercent,
  shortScaled
} from '../ui/numbers';
import { type INormScale, levelOf, normScale, scaleOf } from './scale';
import { type ISparkline, sparklinesOf } from './sparkline';

/** From this ratio on a gradient counts as changed by an override. */
export const CHANGED = 1e-9;

/** `came` and `went`: of two states that are compared, one has such an array. */
export type Mood = 'none' | 'zero' | 'bad' | 'plain' | 'came' | 'went';

export interface ILooks {
  colouring: Colouring;
  tileText: TileText;
  /** Whether colours tell changes between two states: 0.5 on a scale is none. */
  diverging: boolean;
  /** Where a tile is on its scale, 0 to 1. */
  tile: Float32Array;
  mood: Mood[];
  /** What is written on a tile. */
  text: string[];
  /** What is written above it: the number before, where two states are compared. */
  above: readonly string[];
  /** Where a card is on the scale of values or costs; NaN if it is not coloured. */
  card: Float32Array;
  /** What the value of a card is where it is NaN or infinite somewhere. */
  roles: Role[];
  /** What a node with an override passes on; most nodes have none. */
  passed: ReadonlyMap<number, IPassedLook>;
  changed: Uint8Array;
  pill: (IPill | null)[];
  /** What checks and the doctor say, by item; most have nothing. */
  verdicts: ReadonlyMap<number, IVerdict>;
  /** Where the gradient in a bend or edge is on the scale; NaN if there is none. */
  bend: Float32Array;
  edge: Float32Array;
  /** The gradients of folded iterations, by item. */
  sparklines: ReadonlyMap<number, ISparkline>;
}

export function looksOf(
  graph: Graph,
  items: IItems,
  layout: ILayout,
  colouring: Colouring,
  tileText: TileText = 'norm'
): ILooks {
  const { count } = items;
  const looks: ILooks = {
    colouring,
    tileText,
    diverging: graph.compared?.view === 'colours' && !isCost(colouring),
    above: [],
    tile: new Float32Array(count),
    mood: [],
    text: [],
    card: new Float32Array(count).fill(NaN),
    roles: Array.from({ length: count }, () => 'none'),
    passed: new Map(),
    changed: new Uint8Array(count),
    pill: Array.from({ length: count }, () => null),
    verdicts: verdictsOf(graph, items.itemOf),
    bend: new Float32Array(layout.vertices - layout.count).fill(NaN),
    edge: new Float32Array(layout.via.length).fill(NaN),
    sparklines: new Map()
  };
  const gradients = normScale(graph, 'gradient');
  looks.sparklines = sparklinesOf(graph, items, gradients);
  if (isCost(colouring)) {
    lookOfCosts(graph, items, looks, colouring);
  } else if (looks.diverging) {
    lookOfChanges(graph, items, looks);
  } else {
    lookOfItems(graph, items, looks, gradients, tileText);
  }
  lookOfEdges(graph, items, layout, looks, gradients);
  for (const [node, pill] of pillsOf(graph)) {
    const item = items.itemOf[node];
    if (pill.on || looks.pill[item] === null) {
      looks.pill[item] = pill;
    }
  }
  for (let node = 0; node < graph.count; node++) {
    looks.changed[items.itemOf[node]] |= graph.change(node) > CHANGED ? 1 : 0;
  }
  nonFiniteOf(graph).roles.forEach((role, node) => {
    const item = items.itemOf[node];
    if (GRAVITY.indexOf(role) > GRAVITY.indexOf(looks.roles[item])) {
      looks.roles[item] = role;
    }
  });
  return { ...looks, passed: passedLooks(graph, items, looks, gradients) };
}

/** What is told of a folded scope: the gravest of what its nodes are. */
const GRAVITY: readonly Role[] = ['none', 'harmless', 'follower', 'origin'];

/** What a node passes on with its override, beside what arrives at it. */
export interface IPassedLook {
  /** Where it is on the scale of gradients, 0 to 1; NaN for 0. */
  level: number;
  mood: Mood;
  text: string;
  /** "0.31 → 0.10": what the true rule passes on, and what passes now. */
  change: string;
}

/** By item; a folded scope has none, nor a node inside what an override replaces. */
function passedLooks(
  graph: Graph,
  items: IItems,
  { colouring, mood, diverging }: ILooks,
  gradients: INormScale
): Map<number, IPassedLook> {
  const found = new Map<number, IPassedLook>();
  const told = colouring !== 'change' && !isCost(colouring) && !diverging;
  if (graph.header.overrides.length === 0 || !told) {
    return found;
  }
  items.node.forEach((node, item) => {
    const norm = graph.passedNorm(node);
    const own = graph.override(node) !== null && !graph.isCovered(node);
    if (own && items.scope[item] === null && mood[item] !== 'none' && !Number.isNaN(norm)) {
      const before = graph.truePassedNorm(node);
      const text = shortNumber(norm);
      found.set(item, {
        level: levelOf(gradients, norm),
        mood: !Number.isFinite(norm) ? 'bad' : norm === 0 ? 'zero' : 'plain',
        text,
        change: Number.isNaN(before) ? text : shortPair(before, norm).join(' → ')
      });
    }
  });
  return found;
}

function lookOfItems(
  graph: Graph,
  items: IItems,
  looks: ILooks,
  gradients: INormScale,
  tileText: TileText
): void {
  const byChange = looks.colouring === 'change';
  const changes = byChange ? largestChanges(graph, items) : null;
  const values =
    looks.colouring === 'value'
      ? normScale(graph, 'value')
      : null;
  for (let item = 0; item < items.count; item++) {
    const node = items.node[item];
    const norm = graph.gradNorm(node);
    const change = changes?.[item] ?? NaN;
    looks.tile[item] = byChange
      ? Math.min(1, Math.max(0, change))
      : levelOf(gradients, norm);
    looks.mood.push(
      !graph.hasGradient(node)
        ? 'none'
        : graph.badGradients(node) > 0 || !Number.isFinite(norm)
          ? 'bad'
          : norm === 0
            ? 'zero'
            : 'plain'
    );
    looks.text.push(
      byChange && looks.mood[item] !== 'bad' ? shortPercent(change) : tileOf(graph, node, tileText)
    );
    if (values !== null) {
      looks.card[item] = levelOf(values, graph.valueNorm(node));
    }
  }
}

/** How much overrides change the gradient of each item: of a fold what changes most. */
export function largestChanges(graph: Graph, items: IItems): Float64Array {
  const largest = new Float64Array(items.count).fill(NaN);
  for (let node = 0; node < graph.count; node++) {
    const item = items.itemOf[node];
    const change = graph.change(node);
    if (change > largest[item] || Number.isNaN(largest[item])) {
      largest[item] = change;
    }
  }
  return largest;
}

/**
 * The node that tells of each item in a comparison of two states: of a fold the one
 * whose gradient changes most, else its last one.
 */
function mostChangedNodes(
  graph: Graph,
  items: IItems,
  sizeAt: (node: number) => number
): Int32Array {
  const found = items.node.slice();
  const most = new Float64Array(items.count).fill(-1);
  for (let node = 0; node < graph.count; node++) {
    const item = items.itemOf[node];
    const size = items.scope[item] === null ? -1 : sizeAt(node);
    if (size > most[item]) {
      most[item] = size;
      found[item] = node;
    }
  }
  return found;
}

/** What the tile of a node says of its gradient; NaN and infinity in any case. */
function tileOf(graph: Graph, node: number, text: TileText): string {
  const norm = graph.gradNorm(node);
  const statistics = graph.gradientStatistics(node);
  if (text === 'norm' || statistics === null || !Number.isFinite(norm)) {
    return shortNumber(norm);
  }
  if (text === 'none') {
    return '';
  }
  const { min, max, mean, bad } = statistics;
  const told = text === 'mean' ? mean : Math.abs(min) > Math.abs(max) ? min : max;
  // Of a past run only the norm is known.
  return shortNumber(Number.isNaN(told) && bad === 0 ? norm : told);
}

const FATES: Record<Fate, Mood> = {
  none: 'none',
  same: 'plain',
  changed: 'plain',
  came: 'came',
  went: 'went',
  bad: 'bad'
};

/** Of two states: on tiles what became of gradients, on cards of values. */
function lookOfChanges(graph: Graph, items: IItems, looks: ILooks): void {
  const measure = graph.compared?.measure ?? 'ratio';
  const [gradients, values] = QUANTITIES.map(what => limitOf(graph, what));
  const above: string[] = [];
  const told = mostChangedNodes(graph, items, node => {
    const change = changeOf(graph, node, 'gradient');
    return change === null ? -1 : Math.abs(levelOfChange(change, measure, gradients) - 0.5);
  });
  for (let item = 0; item < items.count; item++) {
    const node = told[item];
    const change = changeOf(graph, node, 'gradient');
    const value = changeOf(graph, node, 'value');
    const { fate, before, after } = change ?? NOTHING;
    looks.mood.push(FATES[fate]);
    looks.tile[item] = change === null ? NaN : levelOfChange(change, measure, gradients);
    above.push(fate === 'came' ? '–' : shortNumber(before));
    looks.text.push(fate === 'went' ? '–' : shortNumber(after));
    if (value !== null) {
      looks.card[item] = levelOfChange(value, measure, values);
    }
  }
  looks.above = above;
}

const NOTHING: IChange = { fate: 'none', before: NaN, after: NaN };

/** What nodes cost: a colouring of cards by their values, of tiles by their rules. */
export type CostColouring = Extract<Colouring, 'time' | 'bytes'>;

export function isCost(colouring: Colouring): colouring is CostColouring {
  return colouring === 'time' || colouring === 'bytes';
}

/** The scale of what the values and the rules of nodes cost. */
export function costScale(graph: Graph, what: CostColouring): INormScale {
  const cost = (i: number): number => {
    const node = i >> 1;
    return (i & 1 ? graph.ruleCost(node) : graph.valueCost(node))?.[what] ?? NaN;
  };
  return scaleOf(2 * graph.count, cost);
}

/** A cost in the unit that leaves a short number. */
export function formatCost(what: CostColouring, cost: number): string {
  return what === 'time' ? formatSeconds(cost) : formatBytes(cost);
}

/** A folded scope costs what its nodes cost together. */
function lookOfCosts(
  graph: Graph,
  items: IItems,
  looks: ILooks,
  what: CostColouring
): void {
  const scale = costScale(graph, what);
  const [values, rules] = [graph.valueCost, graph.ruleCost].map(costOf => {
    const sums = new Float64Array(items.count).fill(NaN);
    for (let node = 0; node < graph.count; node++) {
      const cost: ICost | null = costOf.call(graph, node);
      if (cost !== null) {
        const item = items.itemOf[node];
        sums[item] = (sums[item] || 0) + cost[what];
      }
    }
    return sums;
  });
  for (let item = 0; item < items.count; item++) {
    const rule = rules[item];
    looks.card[item] = levelOf(scale, values[item]);
    looks.tile[item] = levelOf(scale, rule);
    const plain = Number.isNaN(rule) ? 'zero' : 'plain';
    looks.mood.push(graph.hasGradient(items.node[item]) ? plain : 'none');
    looks.text.push(Number.isNaN(rule) ? '' : shortScaled(rule));
  }
}

function lookOfEdges(
  graph: Graph,
  items: IItems,
  layout: ILayout,
  looks: ILooks,
  gradients: INormScale
): void {
  for (let edge = 0; edge < looks.edge.length; edge++) {
    let norm = NaN;
    for (let k = items.edgeStart[edge]; k < items.edgeStart[edge + 1]; k++) {
      const found = graph.edgeNorm(items.edges[k]);
      norm = Number.isNaN(norm) ? found : Math.max(norm, found);
    }
    if (Number.isNaN(norm)) {
      continue;
    }
    // A zero flows too: the thinnest and palest edge.
    const at = norm > 0 ? levelOf(gradients, norm) : 0;
    looks.edge[edge] = at;
    const via = layout.via[edge];
    if (via >= layout.count) {
      raiseLevel(looks.bend, via - layout.count, at);
    }
  }
  // A trunk carries what its branches carry; bends are numbered downwards.
  for (let bend = looks.bend.length - 1; bend >= 0; bend--) {
    const above = layout.above[bend + layout.count];
    if (above >= layout.count && !Number.isNaN(looks.bend[bend])) {
      raiseLevel(looks.bend, above - layout.count, looks.bend[bend]);
    }
  }
}

function raiseLevel(levels: Float32Array, i: number, at: number): void {
  if (!(levels[i] >= at)) {
    levels[i] = at;
  }
}
