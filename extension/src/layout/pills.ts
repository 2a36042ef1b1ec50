/** The pill beside a node's tile: the override that it runs, or one that is off. */

import { Graph } from '../model/graph';

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
