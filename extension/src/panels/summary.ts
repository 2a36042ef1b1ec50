/** What checks and the doctor found in all of a graph, in a few words. Pure. */

import type { Graph } from '../graph';
import type { IFinding } from '../protocol';
import { foremost } from '../verdicts';
import { formatCount, formatPlural } from './numbers';

export interface ISummary {
  text: string;
  /** How many in all, where there is no room for words. */
  count: string;
  severity: IFinding['severity'];
  /** Whether all of it is of before the last change. */
  stale: boolean;
}

/** "1 wrong rule · 2 findings"; null if there is nothing that asks for a look. */
export function summaryOf({ header }: Graph): ISummary | null {
  const { check, findings } = header;
  const wrong = check?.counts.wrong ?? 0;
  const list = findings?.list ?? [];
  const first = foremost(list);
  if (wrong === 0 && first === null) {
    return null;
  }
  return {
    text: [
      ...(wrong > 0 ? [formatPlural(wrong, 'wrong rule')] : []),
      ...(first === null ? [] : [formatPlural(list.length, 'finding')])
    ].join(' · '),
    count: formatCount(wrong + list.length),
    severity: wrong > 0 ? 'error' : (first?.severity ?? 'note'),
    stale:
      (wrong === 0 || check?.stale === true) &&
      (first === null || findings?.stale === true)
  };
}
