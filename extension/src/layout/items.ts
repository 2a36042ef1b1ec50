/**
 * From a graph and its folded scopes to the boxes that are laid out: a node each,
 * or a folded scope with all that stands in it.
 */

import type { ILoop } from '../model/folds';
import { Graph } from '../model/graph';
import { adjacency } from '../model/adjacency';
import { ILayoutInput, MEASURES } from './types';

/** Iterations of a loop, both ends included. */
export interface ISpan {
  first: number;
  last: number;
}

export interface IItems {
  input: ILayoutInput;
  count: number;
  /** The box that shows a node. */
  itemOf: Int32Array;
  /** The node of a box; of a folded scope the last of its nodes. */
  node: Int32Array;
  /** The folded scope that a box stands for; null for a node. */
  scope: (string | null)[];
  /** The iterations of a loop that a box stands for; null for any other. */
  span: (ISpan | null)[];
  /** How many nodes a box stands for. */
  size: Int32Array;
  /** The edges of the graph behind edge e: `edges[edgeStart[e]]` and so on. */
  edgeStart: Int32Array;
  edges: Int32Array;
  /** The unfolded scopes, as `input.group` numbers them. */
  groups: string[];
  /** The unfolded scope that a box itself stands in: inputs can stand beside it. */
  member: Int32Array;
}

export function itemsOf(
  graph: Graph,
  folded: ReadonlySet<string>,
  open: ReadonlyMap<string, number> = new Map()
): IItems {
  const { itemOf, node, scope, size, span } = foldNodes(graph, folded, open);
  const count = node.length;
  const merged = mergeEdges(graph, itemOf, count);
  const { group, member, groups, groupParent } = groupItems(
    graph,
    node,
    scope,
    item => isPart(graph, scope[item], span[item]),
    merged
  );
  const leaf = new Uint8Array(count);
  for (let item = 0; item < count; item++) {
    leaf[item] = scope[item] === null && graph.kind(node[item]) !== 'op' ? 1 : 0;
  }
  return {
    input: {
      count,
      sources: merged.sources,
      targets: merged.targets,
      leaf,
      ...extentsOf(graph, node, scope, itemOf),
      group,
      groupParent
    },
    count,
    itemOf,
    node,
    scope,
    span,
    size,
    edgeStart: merged.edgeStart,
    edges: merged.edges,
    groups,
    member
  };
}

/** Whether other values on the same nodes leave every box as wide as it was. */
export function sameExtents(graph: Graph, items: IItems): boolean {
  const { left, right } = extentsOf(graph, items.node, items.scope, items.itemOf);
  return (
    right.every((reach, item) => reach === items.input.right[item]) &&
    left.every((reach, item) => reach === items.input.left[item])
  );
}

/** Whether a box stands for some iterations of a loop, beside one that is open. */
function isPart(graph: Graph, scope: string | null, span: ISpan | null): boolean {
  const times = scope === null ? 0 : (graph.loopAt(scope)?.times ?? 0);
  return span !== null && span.last - span.first + 1 < times;
}

/** What a folded card is called: "loop, lines 4–7, 500 steps", "steps 0–16". */
export function foldLabel(graph: Graph, items: IItems, item: number): string {
  const scope = items.scope[item] ?? '';
  const span = items.span[item];
  if (span === null || !isPart(graph, scope, span)) {
    return scope.slice(scope.lastIndexOf('/') + 1);
  }
  const { first, last } = span;
  return first === last ? `step ${first}` : `steps ${first}–${last}`;
}

function foldNodes(
  graph: Graph,
  folded: ReadonlySet<string>,
  open: ReadonlyMap<string, number>
): Pick<IItems, 'itemOf' | 'node' | 'scope' | 'size' | 'span'> {
  const { fold, cards } = foldOfNodes(graph, folded, open);
  const itemOf = new Int32Array(graph.count);
  const node: number[] = [];
  const scope: (string | null)[] = [];
  const size: number[] = [];
  const span: (ISpan | null)[] = [];
  const itemOfCard = new Int32Array(cards.length).fill(-1);
  const iterationIn = iterationReader(graph, cards);
  for (let i = 0; i < graph.count; i++) {
    const card = fold[i];
    let item = card < 0 ? -1 : itemOfCard[card];
    if (item < 0) {
      item = node.length;
      node.push(i);
      scope.push(card < 0 ? null : cards[card]);
      span.push(null);
      size.push(0);
      if (card >= 0) {
        itemOfCard[card] = item;
      }
    }
    itemOf[i] = item;
    node[item] = i;
    size[item]++;
    const at = card < 0 ? -1 : iterationIn(i, card);
    if (at >= 0) {
      const known = (span[item] ??= { first: at, last: at });
      known.first = Math.min(known.first, at);
      known.last = Math.max(known.last, at);
    }
  }
  const sizes = Int32Array.from(size);
  return { itemOf, node: Int32Array.from(node), scope, span, size: sizes };
}

/**
 * Reads in which iteration of the loop that a card stands for a node is; -1 for cards
 * of scopes. Nodes come in the order of the program, mostly many of one loop and card.
 */
function iterationReader(
  graph: Graph,
  cards: readonly string[]
): (node: number, card: number) => number {
  let [loop, card] = [-1, -1];
  // In a loop around its own all of a loop's nodes are in one iteration.
  let isOwn = false;
  let around = -1;
  return (node, of) => {
    const own = graph.loop(node);
    if (own < 0) {
      return -1;
    }
    if (own !== loop || of !== card) {
      [loop, card] = [own, of];
      const place = graph.placeIn(node, cards[of]);
      isOwn = place !== null && place.loop === graph.loops.get(own);
      around = place?.at ?? -1;
    }
    return isOwn ? graph.iteration(node) : around;
  };
}

/** What stands between the path of a loop and which of its cards is meant. */
const PART = '\n';

/** So many parameters of one folded scope are still shown beside it. */
const PARAMETERS = 6;

/**
 * The card that hides each node, -1 for none, and the folded scope of each card; a
 * loop of which an iteration is open has two, for those before and after it. Constants
 * that only one card reads are hidden with it, and parameters if there are many.
 */
function foldOfNodes(
  graph: Graph,
  folded: ReadonlySet<string>,
  open: ReadonlyMap<string, number>
): { fold: Int32Array; cards: string[] } {
  const { path, paths } = graph.folds;
  const cards: string[] = [];
  const known = new Map<string, number>();
  const cardOf = (scope: string, part = ''): number => {
    const key = part === '' ? scope : scope + PART + part;
    const card = known.get(key) ?? cards.push(scope) - 1;
    known.set(key, card);
    return card;
  };
  const around = paths.map(one => listFolds(one, folded));
  const cardOfNode = (node: number): number => {
    for (const one of around[path[node]]) {
      const place = graph.placeIn(node, one);
      // A loop in a loop has a card in each iteration there.
      const which = place === null ? '' : iterationsAround(place.loop);
      const at = place === null ? undefined : open.get(one);
      if (place === null || at === undefined) {
        return cardOf(one, which);
      }
      if (place.at !== at) {
        // One iteration is open, between those before and after it.
        return cardOf(one, which + (place.at < at ? '<' : '>'));
      }
    }
    return -1;
  };
  const fold = new Int32Array(graph.count).fill(-1);
  if (folded.size === 0) {
    return { fold, cards };
  }
  // Nodes of one path and loop share a card, and where iterations are open of one of
  // these; most nodes come after another such node.
  for (let node = 0; node < graph.count; node++) {
    const isLike =
      node > 0 &&
      path[node] === path[node - 1] &&
      graph.loop(node) === graph.loop(node - 1) &&
      (open.size === 0 || graph.iteration(node) === graph.iteration(node - 1));
    fold[node] = isLike ? fold[node - 1] : cardOfNode(node);
  }
  const only = onlyCards(graph, fold);
  const parameters = new Map<number, number[]>();
  for (let node = 0; node < graph.count; node++) {
    if (fold[node] >= 0) {
      continue;
    }
    const reader = only[node];
    if (reader < 0) {
      continue;
    }
    if (graph.kind(node) === 'constant') {
      fold[node] = reader;
    } else if (graph.isWrt(node)) {
      parameters.set(reader, [...(parameters.get(reader) ?? []), node]);
    }
  }
  for (const [reader, nodes] of parameters) {
    if (nodes.length > PARAMETERS) {
      for (const node of nodes) {
        fold[node] = reader;
      }
    }
  }
  return { fold, cards };
}

/** For each node the one card that all its readers are in; negative if there is none. */
function onlyCards(graph: Graph, fold: Int32Array): Int32Array {
  const [unread, several] = [-1, -2];
  const only = new Int32Array(graph.count).fill(unread);
  const { start, inputs } = graph.edges;
  for (let node = 0; node < graph.count; node++) {
    const card = fold[node] < 0 ? several : fold[node];
    for (let edge = start[node]; edge < start[node + 1]; edge++) {
      const input = inputs[edge];
      only[input] = only[input] === unread || only[input] === card ? card : several;
    }
  }
  return only;
}

/** The iterations around a loop, "3/0/"; "" for a loop in no other. */
function iterationsAround({ around }: ILoop): string {
  return around === null ? '' : `${iterationsAround(around.loop)}${around.at}/`;
}

/** The folded scopes and loops around a path, and itself, from the outermost. */
function listFolds(path: string, folded: ReadonlySet<string>): string[] {
  if (path === '' || folded.size === 0) {
    return [];
  }
  const found: string[] = [];
  for (let end = path.indexOf('/'); end >= 0; end = path.indexOf('/', end + 1)) {
    if (folded.has(path.slice(0, end))) {
      found.push(path.slice(0, end));
    }
  }
  return folded.has(path) ? [...found, path] : found;
}

interface IMergedEdges {
  sources: Int32Array;
  targets: Int32Array;
  edgeStart: Int32Array;
  edges: Int32Array;
}

/** One edge for all edges of the graph between the same two boxes. */
function mergeEdges(graph: Graph, itemOf: Int32Array, count: number): IMergedEdges {
  const from = new Int32Array(graph.edgeCount);
  const { start: first, inputs } = graph.edges;
  const targetsOf: number[] = [];
  const crossing: number[] = [];
  for (let node = 0; node < graph.count; node++) {
    const target = itemOf[node];
    for (let edge = first[node]; edge < first[node + 1]; edge++) {
      const source = itemOf[inputs[edge]];
      from[edge] = source;
      if (source !== target) {
        targetsOf.push(target);
        crossing.push(edge);
      }
    }
  }
  const into = adjacency(count, targetsOf, crossing);
  const sources: number[] = [];
  const targets: number[] = [];
  const owner = new Int32Array(graph.edgeCount);
  // The edge from a source into the box at hand, if `seenFor` says it is of it.
  const edgeFrom = new Int32Array(count);
  const seenFor = new Int32Array(count).fill(-1);
  for (let target = 0; target < count; target++) {
    for (let k = into.start[target]; k < into.start[target + 1]; k++) {
      const edge = into.items[k];
      const source = from[edge];
      if (seenFor[source] !== target) {
        seenFor[source] = target;
        edgeFrom[source] = sources.push(source) - 1;
        targets.push(target);
      }
      owner[edge] = edgeFrom[source];
    }
  }
  const owners = crossing.map(edge => owner[edge]);
  const { start, items } = adjacency(sources.length, owners, crossing);
  return {
    sources: Int32Array.from(sources),
    targets: Int32Array.from(targets),
    edgeStart: start,
    edges: items
  };
}

/** The unfolded scope of each box; an input goes with the ops that read it. */
function groupItems(
  graph: Graph,
  node: Int32Array,
  scope: (string | null)[],
  isPart: (item: number) => boolean,
  merged: IMergedEdges
): Pick<IItems, 'groups' | 'member'> & Pick<ILayoutInput, 'group' | 'groupParent'> {
  const groups: string[] = [];
  const parents: number[] = [];
  const known = new Map<string, number>([['', -1]]);
  const numberOf = (path: string): number => {
    const found = known.get(path);
    if (found !== undefined) {
      return found;
    }
    const parent = numberOf(parentOf(path));
    const number = groups.push(path) - 1;
    parents.push(parent);
    known.set(path, number);
    return number;
  };
  const paths = Array.from(node, (id, item) => {
    const fold = scope[item];
    return fold === null ? graph.fold(id) : isPart(item) ? fold : parentOf(fold);
  });
  const readers = new Map<number, string>();
  for (let edge = 0; edge < merged.sources.length; edge++) {
    const source = merged.sources[edge];
    const path = paths[merged.targets[edge]];
    const before = readers.get(source);
    readers.set(source, before === undefined ? path : commonPath(before, path));
  }
  const group = Int32Array.from(node, (id, item) => {
    const loose = paths[item] === '' && graph.kind(id) !== 'op';
    return numberOf(loose ? (readers.get(item) ?? '') : paths[item]);
  });
  const member = Int32Array.from(paths, numberOf);
  return { group, groups, member, groupParent: Int32Array.from(parents) };
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function commonPath(a: string, b: string): string {
  while (a !== b) {
    if (a.length >= b.length) {
      a = parentOf(a);
    } else {
      b = parentOf(b);
    }
  }
  return a;
}

function extentsOf(
  graph: Graph,
  node: Int32Array,
  scope: (string | null)[],
  itemOf: Int32Array
): { left: Float32Array; right: Float32Array } {
  // Two graphs beside each other are laid out alike: there is room for what each has.
  const graphs = graph.compared === null ? [graph] : [graph, graph.compared.other];
  const pill = new Float32Array(node.length);
  for (const [id, { label }] of graphs.flatMap(one => [...pillsOf(one)])) {
    const item = itemOf[id];
    pill[item] = Math.max(pill[item], MEASURES.tileGap + pillWidth(label));
  }
  const left = new Float32Array(node.length);
  const right = new Float32Array(node.length);
  node.forEach((id, item) => {
    const half = halfWidth(graph, id, scope[item] !== null);
    const tile = graphs.some(one => one.hasGradient(id)) ? MEASURES.tileGap + MEASURES.tile : 0;
    left[item] = half;
    right[item] = half + tile + pill[item];
  });
  return { left, right };
}

/** Half the width of a node's card. */
export function halfWidth(graph: Graph, node: number, folded: boolean): number {
  const { constant, width } = MEASURES;
  return (folded ? MEASURES.folded : graph.kind(node) === 'constant' ? constant : width) / 2;
}

// The pill beside a node's tile: the override that it runs, or one that is off.

export interface IPill {
  label: string;
  /** False for an override that is switched off. */
  on: boolean;
}

/** What stands beside a node whose rule does not run, for another gives it all. */
const WITHIN = 'within';

/** The pills of a graph's nodes; an override that runs hides those that are off. */
export function pillsOf(graph: Graph): Map<number, IPill> {
  const pills = new Map<number, IPill>();
  for (const override of graph.header.overrides) {
    if (!override.enabled) {
      for (const node of override.matched) {
        pills.set(node, { label: override.label, on: false });
      }
    }
  }
  if (graph.header.overrides.length > 0) {
    for (let node = 0; node < graph.count; node++) {
      const override = graph.override(node);
      if (override !== null) {
        const label = graph.isCovered(node) ? WITHIN : override.label;
        pills.set(node, { label, on: true });
      }
    }
  }
  return pills;
}

/** How wide a pill is drawn, and so how much room it gets. */
export function pillWidth(label: string): number {
  return Math.min(140, 20 + 6.8 * label.length);
}
