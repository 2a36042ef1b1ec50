/** What a profile measures in the network of the tests, as it travels. */

import type { ColumnName, IProfile } from '../../src/wire/protocol';
import { H, type INetwork, LOSS, PRODUCT, SCALED, network } from './network';

/** Seconds of a value and of a rule, and the step of each; bytes are 1e9 times that. */
type Cost = [time: number, step: number];
const VALUES: Record<number, Cost> = {
  [PRODUCT]: [2e-5, -1],
  [H]: [1.2e-5, 0],
  [SCALED]: [1e-6, 0],
  [LOSS]: [1e-6, 0]
};
const RULES: Record<number, Cost> = { [PRODUCT]: [6e-5, -1], [H]: [6e-6, 0] };

export const PROFILE: IProfile = {
  stale: false,
  backend: 'compiled',
  time: 1e-4,
  bytes: 1e5,
  steps: [{ name: 'kernel 2', ops: 'tanh, 3 multiply, sum', count: 6, time: 2e-5, bytes: 2e4 }]
};

/** The network after a profile. */
export function measuredNetwork(changes: Partial<IProfile> = {}): INetwork {
  const { header, buffers } = network([], { profile: { ...PROFILE, ...changes } });
  const add = (name: ColumnName, column: Float64Array | Int32Array): void => {
    const dtype = column instanceof Int32Array ? 'int32' : 'float64';
    header.columns.push({ name, dtype, length: header.nodes });
    buffers.push(new DataView(column.buffer));
  };
  for (const [what, costs] of [['value', VALUES], ['rule', RULES]] as const) {
    const times = new Float64Array(header.nodes).fill(NaN);
    const steps = new Int32Array(header.nodes).fill(-1);
    for (const [node, [time, step]] of Object.entries(costs)) {
      times[+node] = time;
      steps[+node] = step;
    }
    add(`${what}_time`, times);
    add(`${what}_bytes`, times.map(time => time * 1e9));
    add(`${what}_step`, steps);
  }
  return { header, buffers };
}
