/** What a header lists, by the nodes that it is about. Pure. */

import type { IFinding, IHeader } from './protocol';

/** The findings at each node that has some, most important first. */
export function findingsByNode({ findings }: IHeader): Map<number, IFinding[]> {
  const found = new Map<number, IFinding[]>();
  for (const finding of findings?.list ?? []) {
    const known = found.get(finding.node);
    if (known === undefined) {
      found.set(finding.node, [finding]);
    } else {
      known.push(finding);
    }
  }
  return found;
}

/** The nodes within what overrides that are on replace. */
export function coveredNodes({ overrides }: IHeader): Set<number> {
  return new Set(overrides.flatMap(({ enabled, covered }) => (enabled ? covered : [])));
}
