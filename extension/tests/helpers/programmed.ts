/** The network with other numbers: what is not finite, and what flows along edges. */

import { Graph } from '../../src/model/graph';
import { type ColumnName, type IOverride, STATISTICS } from '../../src/wire/protocol';
import { type INetwork, network } from './network';

interface INumbers {
  /** By node: its value has so many entries that are not finite. */
  values?: Record<number, INonFinite>;
  gradients?: Record<number, INonFinite>;
  /** By edge: the norm of what flows back. */
  edges?: Record<number, number>;
  trueEdges?: readonly number[];
  overrides?: IOverride[];
  output?: number | null;
}

interface INonFinite {
  bad: number;
  /** NaN, or an infinity. */
  min: number;
}

export function programmedNetwork(numbers: INumbers): INetwork {
  const { overrides = [], output = 0.5 } = numbers;
  const made = network(overrides, { output_value: output });
  const { columns } = made.header;
  const column = (name: ColumnName): Float64Array => {
    const view = made.buffers[columns.findIndex(one => one.name === name)];
    return new Float64Array(view.buffer);
  };
  const spoil = (name: ColumnName, nodes: Record<number, INonFinite>): void => {
    for (const [node, { bad, min }] of Object.entries(nodes)) {
      const first = Number(node) * STATISTICS.length;
      // As NumPy has it: a NaN is in all of them, an infinity at one end.
      const all = Number.isNaN(min) ? NaN : Infinity;
      column(name).set([min, all, NaN, NaN, all, bad], first);
    }
  };
  spoil('value_stats', numbers.values ?? {});
  spoil('grad_stats', numbers.gradients ?? {});
  for (const [edge, norm] of Object.entries(numbers.edges ?? {})) {
    column('edge_norm')[Number(edge)] = norm;
  }
  if (numbers.trueEdges !== undefined) {
    const data = Float64Array.from(numbers.trueEdges);
    columns.push({ name: 'true_edge_norm', dtype: 'float64', length: data.length });
    made.buffers.push(new DataView(data.buffer));
  }
  return made;
}

export function programmedGraph(numbers: INumbers): Graph {
  const { header, buffers } = programmedNetwork(numbers);
  return Graph.fromHeader(header, buffers);
}
