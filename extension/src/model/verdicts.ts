/**
 * What the gradient check and the doctor say of each node, added up for what is
 * shown as one: a node, or all the nodes of a folded scope. Pure.
 */

import { type IFinding, type IStop, STATUSES, type Status } from '../wire/protocol';
import type { Graph } from './graph';
import { nonFiniteOf } from './nonfinite';

/** How much is to be said of a node, or of several together. */
export interface IVerdict {
  /** How many rules have each status; what is right or unchecked does not count. */
  counts: Partial<Record<Status, number>>;
  /** The worst error of a wrong rule, in tolerances; NaN if none is wrong. */
  ratio: number;
  findings: IFinding[];
  /** The first NaN or infinity that its value or its gradient rule makes, if it does. */
  begins: { what: 'NaN' | '∞'; sweep: 'forward' | 'backward' } | null;
  /** The conditions on its gradient at which a loop of runs stops. */
  stops: IStop[];
  /** Of the session before its last change: the check, or the findings. */
  staleCheck: boolean;
  staleFindings: boolean;
}

const SILENT: ReadonlySet<Status> = new Set(['unchecked', 'right']);

/** The verdicts by what shows each node; by the nodes themselves without `shownBy`. */
export function verdictsOf(
  graph: Graph,
  shownBy: ArrayLike<number> | null = null
): Map<number, IVerdict> {
  const verdicts = new Map<number, IVerdict>();
  const { findings } = graph.header;
  const at = (node: number): IVerdict => {
    const key = shownBy === null ? node : shownBy[node];
    let verdict = verdicts.get(key);
    if (verdict === undefined) {
      verdict = emptyVerdict(graph);
      verdicts.set(key, verdict);
    }
    return verdict;
  };
  if (graph.isChecked) {
    for (let node = 0; node < graph.count; node++) {
      const status = graph.check(node);
      if (!SILENT.has(status)) {
        const verdict = at(node);
        verdict.counts[status] = (verdict.counts[status] ?? 0) + 1;
        if (status === 'wrong') {
          const ratio = graph.checkRatio(node);
          verdict.ratio = verdict.ratio >= ratio ? verdict.ratio : ratio;
        }
      }
    }
  }
  for (const finding of findings?.list ?? []) {
    at(finding.node).findings.push(finding);
  }
  for (const stop of graph.header.stops) {
    for (const node of stop.nodes) {
      at(node).stops.push(stop);
    }
  }
  for (const { node, isNaN, sweep } of nonFiniteOf(graph).origins) {
    at(node).begins ??= { what: isNaN ? 'NaN' : '∞', sweep };
  }
  return verdicts;
}

/** The verdict on one node; null if there is nothing to say. */
export function verdictOf(graph: Graph, node: number): IVerdict | null {
  const status = graph.check(node);
  const findings = [...graph.findings(node)];
  const stops = graph.header.stops.filter(({ nodes }) => nodes.includes(node));
  if (SILENT.has(status) && findings.length + stops.length === 0) {
    return null;
  }
  return {
    ...emptyVerdict(graph),
    counts: SILENT.has(status) ? {} : { [status]: 1 },
    ratio: status === 'wrong' ? graph.checkRatio(node) : NaN,
    findings,
    stops
  };
}

function emptyVerdict({ header: { check, findings } }: Graph): IVerdict {
  return {
    counts: {},
    ratio: NaN,
    findings: [],
    begins: null,
    stops: [],
    staleCheck: check?.stale ?? false,
    staleFindings: findings?.stale ?? false
  };
}

/** Whether something is wrong that has to be seen from afar. */
export function isAlarming({ begins, counts, findings }: IVerdict): boolean {
  return (
    begins !== null ||
    (counts.wrong ?? 0) > 0 ||
    findings.some(({ severity }) => severity === 'error')
  );
}

/** What is said of two, said of both together. */
export function addVerdicts(a: IVerdict, b: IVerdict): IVerdict {
  const counts = { ...a.counts };
  for (const status of STATUSES) {
    const count = (a.counts[status] ?? 0) + (b.counts[status] ?? 0);
    if (count > 0) {
      counts[status] = count;
    }
  }
  return {
    ...a,
    counts,
    ratio: a.ratio >= b.ratio || Number.isNaN(b.ratio) ? a.ratio : b.ratio,
    begins: a.begins ?? b.begins,
    findings: [...a.findings, ...b.findings],
    stops: [...a.stops, ...b.stops]
  };
}

/** The finding that is spoken of first: the most severe, then the first. */
export function gravestFinding(findings: readonly IFinding[]): IFinding | null {
  return (
    findings.find(({ severity }) => severity === 'error') ??
    findings.find(({ severity }) => severity === 'warning') ??
    findings.at(0) ??
    null
  );
}
