/**
 * Where NaN and infinity begin in both passes, what follows from them, and which
 * infinities do no harm. It costs nothing but a look at the counts that each node has:
 * the doctor, who runs the program again, says why. Pure.
 */

import type { Graph, IStatistics } from './graph';

/**
 * - `origin`: the first with entries that are not finite, all that it reads is finite.
 * - `follower`: it reads one that is not finite, or a step before has made it.
 * - `harmless`: what reads it is finite again, as exp(−∞) is 0.
 */
export type Role = 'none' | 'origin' | 'follower' | 'harmless';

/** A node whose value, or whose gradient rule, makes the first NaN or infinity. */
export interface IOrigin {
  node: number;
  sweep: 'forward' | 'backward';
  /** The node that has the entries: itself, or an input that its rule passes on to. */
  shown: number;
  /** Whether there is a NaN among them; if not, they are infinite. */
  isNaN: boolean;
  /** How many entries are not finite; null where only a norm is known. */
  count: number | null;
}

export interface INonFinite {
  /** What the value of each node is; shorter than the graph only if it is empty. */
  roles: readonly Role[];
  /** The origins, those of the forward pass first, in the order of the passes. */
  origins: readonly IOrigin[];
}

const FINITE: INonFinite = { roles: [], origins: [] };

const known = new WeakMap<Graph, INonFinite>();

/** What is not finite in a graph; looked for once. */
export function nonFiniteOf(graph: Graph): INonFinite {
  let found = known.get(graph);
  if (found === undefined) {
    found = findNonFinite(graph);
    known.set(graph, found);
  }
  return found;
}

/** The role of a node's value. */
export function roleOf(graph: Graph, node: number): Role {
  return nonFiniteOf(graph).roles[node] ?? 'none';
}

function findNonFinite(graph: Graph): INonFinite {
  let values = false;
  let gradients = false;
  for (let node = 0; node < graph.count; node++) {
    values ||= graph.badValues(node) > 0;
    gradients ||= graph.badGradients(node) > 0;
  }
  if (!values && !gradients) {
    return FINITE;
  }
  const roles = values ? rolesOf(graph) : [];
  const origins: IOrigin[] = [];
  roles.forEach((role, node) => {
    if (role === 'origin') {
      const found = describeBad(graph.valueStatistics(node));
      origins.push({ node, sweep: 'forward', shown: node, ...found });
    }
  });
  if (gradients && !spoils(graph, roles)) {
    origins.push(...gradientOrigins(graph));
  }
  return { roles, origins };
}

/** Whether a value that is not finite reaches the output: gradients follow from it. */
function spoils(graph: Graph, roles: readonly Role[]): boolean {
  const { output } = graph.header;
  return output >= 0 && (roles[output] ?? 'none') !== 'none';
}

function rolesOf(graph: Graph): Role[] {
  const { output } = graph.header;
  const isBad = (node: number): boolean => graph.badValues(node) > 0;
  // From the output back: does what is not finite reach it, or an end of a failed cell?
  const spreads = new Uint8Array(graph.count);
  for (let node = graph.count - 1; node >= 0; node--) {
    if (isBad(node)) {
      const readers = [...graph.consumers(node)];
      const ends = node === output || readers.length === 0;
      const hurts = readers.some(
        reader => spreads[reader] === 1 || isSpoilt(graph, node, reader)
      );
      spreads[node] = ends || hurts ? 1 : 0;
    }
  }
  return Array.from({ length: graph.count }, (_, node) =>
    !isBad(node)
      ? 'none'
      : spreads[node] === 0
        ? 'harmless'
        : isFedBack(graph, node) || graph.inputs(node).some(input => spreads[input] === 1)
          ? 'follower'
          : 'origin'
  );
}

/** Whether an input is what a step before has made: that is where it began. */
function isFedBack(graph: Graph, node: number): boolean {
  const { timeline, wrt } = graph.header;
  const step = timeline?.first_bad ?? null;
  return (
    timeline !== null &&
    step !== null &&
    (graph.step ?? timeline.count) > step &&
    graph.kind(node) !== 'op' &&
    wrt.includes(node)
  );
}

/** Whether the rule of a finite reader passes something on that is not finite. */
function isSpoilt(graph: Graph, node: number, reader: number): boolean {
  return (
    graph.badGradients(reader) === 0 &&
    graph.hasGradient(reader) &&
    (graph.badGradients(node) > 0 ||
      graph.inputs(reader).some(input => graph.badGradients(input) > 0))
  );
}

/** The nodes whose rules make a gradient that is not finite out of one that is. */
function gradientOrigins(graph: Graph): IOrigin[] {
  const origins: IOrigin[] = [];
  const told = new Set<number>();
  for (let node = graph.count - 1; node >= 0; node--) {
    const readers = [...graph.consumers(node)].filter(one => graph.hasGradient(one));
    if (graph.badGradients(node) === 0 || readers.some(one => graph.badGradients(one) > 0)) {
      continue;
    }
    const found = describeBad(graph.gradientStatistics(node));
    for (const reader of readers) {
      if (!told.has(reader) && passesBad(graph, reader, node)) {
        told.add(reader);
        origins.push({ node: reader, sweep: 'backward', shown: node, ...found });
      }
    }
  }
  return origins;
}

/** Whether what flows from a reader back to a node is not finite. */
function passesBad(graph: Graph, reader: number, node: number): boolean {
  const first = graph.firstEdge(reader);
  return graph
    .inputs(reader)
    .some((input, k) => input === node && !Number.isFinite(graph.edgeNorm(first + k)));
}

/**
 * Whether there is a NaN among entries, and how many of them are not finite. A norm
 * alone tells the first: it is infinite only if there is no NaN.
 */
export function describeBad(statistics: IStatistics | null): Pick<IOrigin, 'isNaN' | 'count'> {
  const { min = NaN, norm = NaN, bad = 0 } = statistics ?? {};
  const count = Number.isFinite(bad) ? bad : null;
  return { isNaN: Number.isNaN(count === null ? norm : min), count };
}
