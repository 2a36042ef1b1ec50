/** What a gradient check and the doctor found, read from untrusted data. */

import {
  LIMITS,
  boolean,
  count,
  finite,
  integer,
  list,
  nodeList,
  oneOf,
  optional,
  record,
  text,
  within
} from './fields';
import {
  ICheck,
  IFinding,
  IFindings,
  IFix,
  IGradientCheck,
  INodeCheck,
  OUTCOMES,
  Outcome,
  STATUSES,
  Status
} from './protocol';

const SEVERITIES = ['error', 'warning', 'note'] as const;
const SWEEPS = ['forward', 'backward'] as const;

/** The last gradient check; null before the first, and from a schema without. */
export function checkCheck(value: unknown, nodes: number): ICheck | null {
  return optional(
    value ?? null,
    (item, where) => readCheck(item, where, nodes),
    'check'
  );
}

/** What the doctor found; null if it was not asked. */
export function checkFindings(value: unknown, nodes: number): IFindings | null {
  return optional(
    value ?? null,
    (item, where) => readFindings(item, where, nodes),
    'findings'
  );
}

function readCheck(value: unknown, where: string, nodes: number): ICheck {
  const data = record(value, where);
  const counts = record(data['counts'], `${where}.counts`);
  const ok = boolean(data['ok'], `${where}.ok`);
  return {
    ok,
    verdict: readOutcome(data['verdict'], ok, `${where}.verdict`),
    changes: text(data['changes'] ?? '', `${where}.changes`),
    stopped: boolean(data['stopped'], `${where}.stopped`),
    stale: boolean(data['stale'], `${where}.stale`),
    summary: text(data['summary'], `${where}.summary`),
    counts: Object.fromEntries(
      STATUSES.map(status => [
        status,
        count(counts[status] ?? 0, `${where}.counts.${status}`, LIMITS.nodes)
      ])
    ) as Record<Status, number>,
    nodes: list(data['nodes'], `${where}.nodes`, LIMITS.found).map((item, i) =>
      readNode(item, `${where}.nodes[${i}]`, nodes)
    ),
    gradients: list(data['gradients'], `${where}.gradients`, LIMITS.found).map(
      (item, i) => readGradient(item, `${where}.gradients[${i}]`)
    )
  };
}

function readNode(value: unknown, where: string, nodes: number): INodeCheck {
  const data = record(value, where);
  return {
    node: nodeOf(data['node'], `${where}.node`, nodes),
    status: oneOf(data['status'], STATUSES, `${where}.status`),
    mode: text(data['mode'], `${where}.mode`),
    place: text(data['place'], `${where}.place`),
    expected: optional(data['expected'], finite, `${where}.expected`),
    got: optional(data['got'], finite, `${where}.got`),
    ratio: optional(data['ratio'], finite, `${where}.ratio`),
    text: text(data['text'], `${where}.text`)
  };
}

/** A verdict; of a picture that has none, what it says of being wrong. */
function readOutcome(value: unknown, ok: boolean, where: string): Outcome {
  return value === undefined
    ? ok
      ? 'right'
      : 'wrong'
    : oneOf(value, OUTCOMES, where);
}

function readGradient(value: unknown, where: string): IGradientCheck {
  const data = record(value, where);
  const ok = boolean(data['ok'], `${where}.ok`);
  return {
    name: text(data['name'], `${where}.name`),
    mode: text(data['mode'], `${where}.mode`),
    ok,
    verdict: readOutcome(data['verdict'], ok, `${where}.verdict`),
    change: optional(data['change'] ?? null, finite, `${where}.change`),
    by: list(data['by'] ?? [], `${where}.by`, LIMITS.found).map((item, i) =>
      text(item, `${where}.by[${i}]`)
    ),
    text: text(data['text'], `${where}.text`)
  };
}

function readFindings(value: unknown, where: string, nodes: number): IFindings {
  const data = record(value, where);
  return {
    stale: boolean(data['stale'], `${where}.stale`),
    stopped: boolean(data['stopped'], `${where}.stopped`),
    list: list(data['list'], `${where}.list`, LIMITS.found).map((item, i) =>
      readFinding(item, `${where}.list[${i}]`, nodes)
    )
  };
}

function readFinding(value: unknown, where: string, nodes: number): IFinding {
  const data = record(value, where);
  const words = (name: 'kind' | 'title' | 'evidence' | 'cause'): string =>
    text(data[name], `${where}.${name}`);
  return {
    kind: words('kind'),
    severity: oneOf(data['severity'], SEVERITIES, `${where}.severity`),
    node: nodeOf(data['node'], `${where}.node`, nodes),
    path: nodeList(data['path'], `${where}.path`, nodes),
    sweep: oneOf(data['sweep'], SWEEPS, `${where}.sweep`),
    title: words('title'),
    evidence: words('evidence'),
    cause: words('cause'),
    fix: optional(data['fix'], readFix, `${where}.fix`)
  };
}

function readFix(value: unknown, where: string): IFix {
  const data = record(value, where);
  return {
    text: text(data['text'], `${where}.text`),
    code: text(data['code'], `${where}.code`),
    attachable: boolean(data['attachable'], `${where}.attachable`)
  };
}

function nodeOf(value: unknown, where: string, nodes: number): number {
  const node = integer(value, where);
  within(node, 0, nodes, where);
  return node;
}
