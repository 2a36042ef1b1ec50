/** What checks and the doctor found in all of a graph, in a few words. Pure. */

import type { Graph } from '../../model/graph';
import { foremost } from '../../model/verdicts';
import { formatCount, formatPlural } from '../../ui/numbers';
import type { ICheck, IFinding } from '../../wire/protocol';

export interface ISummary {
  text: string;
  /** How many in all, where there is no room for words. */
  count: string;
  severity: IFinding['severity'] | 'changed';
  /** Whether all of it is of before the last change. */
  stale: boolean;
}

/**
 * "1 wrong rule · 1 changed on purpose · 2 findings", of rules and of gradients; null if
 * there is nothing that asks for a look.
 */
export function summaryOf({ header }: Graph): ISummary | null {
  const { check, findings } = header;
  const wrong = check?.counts.wrong ?? 0;
  const changed = changedNames(check).length;
  const list = findings?.list ?? [];
  const first = foremost(list);
  if (wrong === 0 && changed === 0 && first === null) {
    return null;
  }
  return {
    text: [
      ...(wrong > 0 ? [formatPlural(wrong, 'wrong rule')] : []),
      ...(changed > 0 ? [`${formatPlural(changed, 'gradient')} changed`] : []),
      ...(first === null ? [] : [formatPlural(list.length, 'finding')])
    ].join(' · '),
    count: formatCount(wrong + changed + list.length),
    severity: wrong > 0 ? 'error' : (first?.severity ?? 'changed'),
    stale:
      (wrong + changed === 0 || check?.stale === true) &&
      (first === null || findings?.stale === true)
  };
}

/** The inputs whose gradients are changed on purpose, each once. */
function changedNames(check: ICheck | null): string[] {
  const lines = check?.gradients.filter(one => one.verdict === 'changed') ?? [];
  const known = lines.filter(({ mode }) => mode !== '');
  return [...new Set(known.map(({ name }) => name))];
}
