/** What a check and the doctor find in the network of the tests, as it travels. */

import {
  type IFinding,
  type IHeader,
  type INodeCheck,
  type IOverride,
  STATUSES,
  type Status
} from '../../src/wire/protocol';
import { H, type INetwork, LOSS, PRODUCT, SCALED, network } from './network';

/** The line of a check about one node. */
export function nodeCheck(
  node: number,
  status: Status,
  changes: Partial<INodeCheck> = {}
): INodeCheck {
  return {
    node,
    status,
    mode: 'rev',
    place: 'x[3, 1]',
    expected: 0.25,
    got: 0.5,
    ratio: status === 'wrong' ? 1234 : 0.5,
    text: `${status}, as the kernel says it`,
    ...changes
  };
}

export function finding(changes: Partial<IFinding> = {}): IFinding {
  return {
    kind: 'infinite-slope',
    severity: 'error',
    node: H,
    path: [H, PRODUCT],
    sweep: 'backward',
    title: 'tanh has an infinite slope at 0',
    evidence: '3 of 10 entries are 0',
    cause: 'The derivative of the root is 1 / (2 √x).',
    fix: {
      text: 'zero gradient where x is 0',
      code: 'model.override("h", "safe_sqrt")',
      attachable: true
    },
    ...changes
  };
}

/** The network after a check of these nodes, and with these findings. */
export function checkedNetwork(
  nodes: readonly INodeCheck[],
  options: {
    findings?: IFinding[] | null;
    overrides?: IOverride[];
    stale?: boolean;
    /** What is changed on purpose of the gradient by W. */
    changed?: { change: number | null; by: string[]; words: string };
    changes?: Partial<IHeader>;
    /** What was not looked at, in words. */
    unchecked?: string[];
    /** Whether it ended before it was done. */
    stopped?: boolean;
  } = {}
): INetwork {
  const { findings = null, overrides = [], stale = false, changes = {} } = options;
  const { changed, unchecked = [], stopped = false } = options;
  const counts = Object.fromEntries(STATUSES.map(status => [status, 0])) as Record<
    Status,
    number
  >;
  for (const { status } of nodes) {
    counts[status]++;
  }
  counts.right += [PRODUCT, H, SCALED, LOSS].length - nodes.length;
  const good = changed === undefined ? 'right' : 'changed';
  const verdict = counts.wrong === 0 ? good : 'wrong';
  const { header, buffers } = network(overrides, {
    check: {
      ok: counts.wrong === 0,
      verdict,
      changes: changed?.words ?? '',
      stopped,
      unchecked: [...unchecked],
      stale,
      summary: counts.wrong === 0 ? 'all rules are right' : '1 rule is wrong',
      counts,
      nodes: [...nodes],
      gradients: [
        {
          name: 'W',
          mode: 'rev',
          ok: counts.wrong === 0,
          verdict,
          change: changed?.change ?? null,
          by: changed?.by ?? [],
          text: 'W: 6 entries, worst 0.2 tolerances'
        }
      ]
    },
    findings:
      findings === null
        ? null
        : { stale, stopped: false, unchecked: [], list: [...findings] },
    ...changes
  });
  const status = new Uint8Array(header.nodes);
  const ratio = new Float64Array(header.nodes).fill(NaN);
  for (const node of [PRODUCT, H, SCALED, LOSS]) {
    status[node] = STATUSES.indexOf('right');
    ratio[node] = 0.1;
  }
  for (const one of nodes) {
    status[one.node] = STATUSES.indexOf(one.status);
    ratio[one.node] = one.ratio ?? Infinity;
  }
  header.columns.push(
    { name: 'check', dtype: 'uint8', length: header.nodes },
    { name: 'check_ratio', dtype: 'float64', length: header.nodes }
  );
  buffers.push(new DataView(status.buffer), new DataView(ratio.buffer));
  return { header, buffers };
}

/** The network with findings alone. */
export function diagnosed(
  findings: IFinding[],
  options: { stale?: boolean; overrides?: IOverride[]; unchecked?: string[] } = {}
): INetwork {
  const { stale = false, overrides = [], unchecked = [] } = options;
  return network(overrides, {
    findings: { stale, stopped: false, unchecked: [...unchecked], list: findings }
  });
}
