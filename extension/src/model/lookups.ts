/** What a header lists, by the nodes that it is about. Pure. */

import type { IFinding, IHeader } from '../wire/protocol';

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

/** Whether the same overrides run with the same rules. */
export function sameRules(a: IHeader, b: IHeader): boolean {
  const rules = ({ overrides }: IHeader): string =>
    JSON.stringify(overrides.map(({ id, rule, enabled }) => [id, rule, enabled]));
  return a.overrides === b.overrides || rules(a) === rules(b);
}

/** Whether two lists have the same entries. */
export function equal(
  a: ArrayLike<number | string> | undefined,
  b: ArrayLike<number | string> | undefined
): boolean {
  if (a === b) {
    return true;
  }
  if (a === undefined || b === undefined || a.length !== b.length) {
    return false;
  }
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) {
      return false;
    }
  }
  return true;
}
