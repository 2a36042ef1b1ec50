/**
 * The runs that a saved picture holds itself, since no kernel can be asked: each is
 * read as the kernel would tell it. Nothing here knows the DOM.
 */

import { decodeBase64 } from '../wire/guards';
import {
  type IColumn,
  type IDifference,
  type IHeader,
  type IMoments,
  STATISTICS
} from '../wire/protocol';
import type { IPictureReceived } from '../wire/requests';
import { PictureError } from '../wire/schema';

/** A run, or another session, as what to change in the graph to show it. */
export type IMoment = IPictureReceived & {
  step: number;
  whole: boolean;
  /** Of another program: the nodes that differ, and what is there. */
  differing?: readonly IDifference[];
};

const NORM = STATISTICS.indexOf('norm');
const BAD = STATISTICS.indexOf('bad');

/** The norm of an array that there is not. */
const MISSING = -1;

export class SavedMoments {
  /** Runs that came with a header; damaged ones are refused. */
  constructor(
    readonly data: IMoments,
    private readonly _header: IHeader
  ) {
    const { steps, losses, overrides, norms } = data;
    const { nodes, edges, timeline } = _header;
    const rising = steps.every((step, i) => step > (i === 0 ? 0 : steps[i - 1]));
    if (!rising || (steps.at(-1) ?? 0) > (timeline?.count ?? 0)) {
      throw new PictureError('the saved runs are not one after another');
    }
    if (losses.length !== steps.length || overrides.length !== steps.length) {
      throw new PictureError(
        `${steps.length} saved runs came with ${losses.length} losses and ` +
          `${overrides.length} overrides`
      );
    }
    this._norms = decodeBase64(norms, 'norms');
    const bytes = 4 * steps.length * (2 * nodes + edges);
    if (this._norms.byteLength !== bytes) {
      throw new PictureError(
        `the norms of saved runs should have ${bytes} bytes; they have ` +
          `${this._norms.byteLength}`
      );
    }
  }

  /** Why the picture of a run has no overrides to show; null where it has those of now. */
  noteOf(step: number): string | null {
    return this.data.overrides[this.data.steps.indexOf(step)] ?? null;
  }

  /** The kept run that is nearest to one. */
  find(step: number): IMoment {
    const { steps, losses } = this.data;
    const at = steps.reduce(
      (best, one, i) => (Math.abs(one - step) < Math.abs(steps[best] - step) ? i : best),
      0
    );
    const { nodes, edges } = this._header;
    const start = at * (2 * nodes + edges);
    const none = new Float64Array(nodes).fill(NaN);
    const columns: [IColumn['name'], Float64Array][] = [
      ['value_stats', this._statistics(start, nodes)],
      ['grad_stats', this._statistics(start + nodes, nodes)],
      // What the true rules would have passed is not kept.
      ['true_stats', new Float64Array(nodes * STATISTICS.length).fill(NaN)],
      ['edge_norm', this._read(start + 2 * nodes, edges)],
      ['true_edge_norm', new Float64Array(edges).fill(NaN)],
      ['change', none]
    ];
    const nothing = { check: null, findings: null, loops: [] };
    const header = { output_value: losses[at], ...nothing };
    const listed: IColumn[] = columns.map(([name, { length }]) => {
      return { name, dtype: 'float64', length };
    });
    const buffers = columns.map(([, numbers]) => pack(numbers));
    if (this.noteOf(steps[at]) === null) {
      return { of: 0, step: steps[at], whole: false, header, columns: listed, buffers };
    }
    // It had other overrides: words tell them, and no node has a pill.
    listed.push({ name: 'override', dtype: 'int32', length: nodes });
    buffers.push(new DataView(new Int32Array(nodes).fill(-1).buffer));
    return {
      of: 0,
      step: steps[at],
      whole: false,
      header: { ...header, overrides: [] },
      columns: listed,
      buffers
    };
  }

  private _statistics(start: number, count: number): Float64Array {
    const table = new Float64Array(count * STATISTICS.length).fill(NaN);
    this._read(start, count).forEach((norm, i) => {
      const missing = this._norms.getFloat32(4 * (start + i), true) === MISSING;
      if (!missing) {
        table[i * STATISTICS.length + NORM] = norm;
        // A norm does not tell how many entries are not finite.
        table[i * STATISTICS.length + BAD] = Number.isFinite(norm) ? 0 : Infinity;
      }
    });
    return table;
  }

  private _read(start: number, count: number): Float64Array {
    return Float64Array.from({ length: count }, (_, i) => {
      const norm = this._norms.getFloat32(4 * (start + i), true);
      return norm === MISSING ? NaN : norm;
    });
  }

  private readonly _norms: DataView;
}

/** Numbers as they travel. */
function pack(numbers: Float64Array): DataView {
  const view = new DataView(new ArrayBuffer(8 * numbers.length));
  numbers.forEach((number, i) => view.setFloat64(8 * i, number, true));
  return view;
}
