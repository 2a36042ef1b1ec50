/** What the reader points at, found and stepped to, in terms of the picture. */

import { nodesBetween } from '../model/paths';
import type { GraphState } from '../model/state';
import type { ILesson } from '../wire/protocol';
import { Scene } from './scene';

export interface IMarks {
  selected: number | null;
  /** The first of two nodes that are chosen together. */
  marked: number | null;
  hovered: number | null;
  /** The items that hold what the line of the cursor computes. */
  outlined: ReadonlySet<number>;
  /** The items on the way that is shown; all others recede. Null: none is shown. */
  trail: Uint8Array | null;
  /** The edges and bends on it, else on the way from the selection to the output. */
  pathEdges: Uint8Array | null;
  pathBends: Uint8Array | null;
  /** The items that a search found; null if nothing was searched for. */
  matches: Uint8Array | null;
  /** The items that a rewrite made, and those that it took away; null without one. */
  came: Uint8Array | null;
  went: Uint8Array | null;
  /** How far the sweeps have come; null if all is shown. */
  valueDone: Uint8Array | null;
  gradientDone: Uint8Array | null;
  /** The numbers and formulas of the sweeps, by node; null where all is shown. */
  lesson: ILesson | null;
  current: { item: number; sweep: 'forward' | 'backward' } | null;
  /** The item in which the cell failed. */
  failed: number | null;
  /** Values that the gradient rule of the node pointed at reads. */
  saved: { from: number; to: number }[];
}

/**
 * The marks of a state on a scene. While another graph is being laid out the state
 * may already speak of nodes that the scene does not have: they get no marks.
 */
export function marksOf(state: GraphState, scene: Scene): IMarks {
  const { graph, items } = scene;
  const itemOf = (node: number | null): number | null =>
    node === null || node >= graph.count ? null : items.itemOf[node];
  const failed = graph.header.error?.node ?? null;
  const { current } = state;
  return {
    selected: itemOf(state.selected),
    marked: itemOf(state.marked),
    hovered: itemOf(state.hovered),
    outlined: outlinedOf(state, scene),
    ...pathOf(state, scene),
    matches:
      state.matches.size === 0 ? null : flagItems(items.count, state.matches, itemOf),
    came: graph.rewritten && flagItems(items.count, graph.rewritten.came, itemOf),
    went: graph.rewritten && flagItems(items.count, graph.rewritten.went, itemOf),
    ...sweepsOf(state, scene),
    lesson: lessonOf(state, scene),
    current:
      current === null || current.node >= graph.count
        ? null
        : { item: items.itemOf[current.node], sweep: current.sweep },
    failed: itemOf(failed),
    saved: savedOf(state, scene)
  };
}

export function outlinedOf({ outlined }: GraphState, scene: Scene): IMarks['outlined'] {
  const { graph, items } = scene;
  const known = [...outlined].filter(node => node < graph.count);
  return new Set(known.map(node => items.itemOf[node]));
}

function pathOf(
  state: GraphState,
  scene: Scene
): Pick<IMarks, 'trail' | 'pathEdges' | 'pathBends'> {
  const { graph, items, layout } = scene;
  const { output } = graph.header;
  const { selected } = state;
  const shown = state.trail?.length === graph.count ? state.trail : null;
  if (shown === null && (selected === null || selected > output)) {
    return { trail: null, pathEdges: null, pathBends: null };
  }
  const on = shown ?? nodesBetween(graph, selected!, output);
  const onEdge = new Uint8Array(graph.edgeCount);
  for (let node = 0; node < graph.count; node++) {
    if (on[node] === 1) {
      const first = graph.firstEdge(node);
      graph.inputs(node).forEach((input, k) => {
        onEdge[first + k] = on[input];
      });
    }
  }
  const pathEdges = new Uint8Array(layout.via.length);
  const pathBends = new Uint8Array(layout.vertices - layout.count);
  for (let edge = 0; edge < pathEdges.length; edge++) {
    for (let k = items.edgeStart[edge]; k < items.edgeStart[edge + 1]; k++) {
      pathEdges[edge] |= onEdge[items.edges[k]];
    }
    if (pathEdges[edge] === 1) {
      let vertex = layout.via[edge];
      while (vertex >= layout.count && pathBends[vertex - layout.count] === 0) {
        pathBends[vertex - layout.count] = 1;
        vertex = layout.above[vertex];
      }
    }
  }
  return { trail: shown === null ? null : itemsOn(shown, scene), pathEdges, pathBends };
}

/** The items that hold a node of a way. */
function itemsOn(on: Uint8Array, { items }: Scene): Uint8Array {
  const found = new Uint8Array(items.count);
  on.forEach((is, node) => {
    found[items.itemOf[node]] |= is;
  });
  return found;
}

function lessonOf({ lesson, step }: GraphState, { graph }: Scene): ILesson | null {
  return step !== null && lesson?.nodes.length === graph.count ? lesson : null;
}

function sweepsOf(
  state: GraphState,
  scene: Scene
): Pick<IMarks, 'valueDone' | 'gradientDone'> {
  if (state.step === null) {
    return { valueDone: null, gradientDone: null };
  }
  const { items } = scene;
  const valueDone = new Uint8Array(items.count);
  const gradientDone = new Uint8Array(items.count);
  items.node.forEach((node, item) => {
    valueDone[item] = state.hasValueNow(node) ? 1 : 0;
    gradientDone[item] = state.hasGradientNow(node) ? 1 : 0;
  });
  return { valueDone, gradientDone };
}

/** The values that the gradient rule of the node pointed at reads. */
export function savedOf(state: GraphState, scene: Scene): IMarks['saved'] {
  const node = state.hovered ?? state.selected;
  if (node === null || node >= scene.graph.count || state.stage === 'traced') {
    return [];
  }
  const { itemOf } = scene.items;
  const links = new Map<number, { from: number; to: number }>();
  for (const saved of scene.graph.saved(node)) {
    links.set(itemOf[saved], { from: itemOf[saved], to: itemOf[node] });
  }
  return [...links.values()];
}

function flagItems(
  count: number,
  nodes: ReadonlySet<number>,
  itemOf: (node: number) => number | null
): Uint8Array {
  const found = new Uint8Array(count);
  for (const node of nodes) {
    const item = itemOf(node);
    if (item !== null) {
      found[item] = 1;
    }
  }
  return found;
}
