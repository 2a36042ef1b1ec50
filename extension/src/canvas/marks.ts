/** What the reader points at, found and stepped to, in terms of the picture. */

import { Graph } from '../graph';
import type { GraphState } from '../model';
import { Scene } from './scene';

export interface IMarks {
  selected: number | null;
  hovered: number | null;
  /** The edges and bends on the way from the selected node to the output. */
  pathEdges: Uint8Array | null;
  pathBends: Uint8Array | null;
  /** The items that a search found; null if nothing was searched for. */
  matches: Uint8Array | null;
  /** How far the sweeps have come; null if all is shown. */
  valueDone: Uint8Array | null;
  gradientDone: Uint8Array | null;
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
    hovered: itemOf(state.hovered),
    ...pathOf(state.selected, scene),
    matches:
      state.matches.size === 0 ? null : flags(items.count, state.matches, itemOf),
    ...sweepsOf(state, scene),
    current:
      current === null || current.node >= graph.count
        ? null
        : { item: items.itemOf[current.node], sweep: current.sweep },
    failed: itemOf(failed),
    saved: savedOf(state, scene)
  };
}

/** The nodes on some way from a node to the output, both ends included. */
export function nodesBetween(graph: Graph, from: number, output: number): Uint8Array {
  const on = new Uint8Array(graph.count);
  if (output < from) {
    return on;
  }
  // Nodes read only earlier ones: one pass down marks what `from` reaches, one
  // pass up keeps of that what reaches the output.
  on[from] = 1;
  for (let node = from + 1; node <= output; node++) {
    for (const input of graph.inputs(node)) {
      if (on[input] === 1) {
        on[node] = 1;
        break;
      }
    }
  }
  if (on[output] === 0) {
    return new Uint8Array(graph.count);
  }
  const back = new Uint8Array(graph.count);
  back[output] = 1;
  for (let node = output; node >= from; node--) {
    if (back[node] === 1) {
      for (const input of graph.inputs(node)) {
        back[input] = on[input];
      }
    }
  }
  return back;
}

function pathOf(
  selected: number | null,
  scene: Scene
): Pick<IMarks, 'pathEdges' | 'pathBends'> {
  const { graph, items, layout } = scene;
  const { output } = graph.header;
  if (selected === null || selected > output) {
    return { pathEdges: null, pathBends: null };
  }
  const on = nodesBetween(graph, selected, output);
  const onEdge = new Uint8Array(graph.edgeCount);
  for (let node = selected + 1; node <= output; node++) {
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
  return { pathEdges, pathBends };
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

function flags(
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
