/**
 * What travels between the kernel and the page, and what a saved notebook holds.
 *
 * The same shapes are written by `workbench/snapshot/` and
 * `workbench/jupyter/widget.py`; `tests/golden/snapshot.json` is read by the
 * tests of both sides. Nothing here knows the DOM.
 */

/** The version of everything below. A reader refuses a newer one. */
export const SCHEMA = 1;

/** The MIME type of a saved picture (drawn without a kernel). */
export const MIME_TYPE = 'application/vnd.workbench.graph+json';

/** The rows of `value_stats`, `grad_stats` and `true_stats`, in this order. */
export const STATISTICS = ['min', 'max', 'mean', 'std', 'norm', 'bad'] as const;

/** What a node is: its code in the column `kind`. */
export const KINDS = ['input', 'constant', 'op'] as const;

/**
 * The columns of a snapshot: flat little-endian arrays. With n nodes and m
 * edges (edge e is one input of one node; the inputs of node i are
 * `inputs[input_start[i]] .. inputs[input_start[i + 1] - 1]`):
 *
 * - `kind` uint8[n]: position in KINDS.
 * - `op`, `name`, `dtype`, `shape`, `scope`, `place`, `source` int32[n]:
 *   positions in `strings`, -1 for none. `shape` reads "569×16", "()" for a
 *   scalar; `scope` reads "encoder/layer1"; `place` reads "[3]:1" or
 *   "net.py:20"; `source` is the text of that line.
 * - `line` int32[n]: the line in the cell, 1-based, -1 for none.
 * - `input_start` int32[n + 1], `inputs` int32[m]: ids of forward inputs.
 *   Every input's id is smaller than the id of the node that reads it.
 * - `saved_start` int32[n + 1], `saved` int32[k]: the forward nodes whose
 *   values the gradient rule of node i reads.
 * - `value_stats`, `grad_stats` float64[n * 6]: STATISTICS of each node,
 *   NaN where there is none (no value, no gradient, not a number). `bad` counts
 *   the entries that are NaN or infinite: 0 is a healthy array, NaN no array.
 * - `true_stats` float64[n * 6]: the gradient with all overrides off; absent
 *   when there is no override (a patch that empties `overrides` drops it).
 * - `edge_norm` float64[m]: L2 norm of what flows back along an edge, NaN
 *   where nothing does.
 * - `change` float64[n]: ‖g − g_true‖ / ‖g_true‖ of a node's gradient; 0 where
 *   overrides change nothing, NaN where there is no gradient.
 * - `override` int32[n]: the position in `overrides` of the override whose
 *   rule the node runs, -1 for the true rule.
 */
export type ColumnName =
  | 'kind'
  | 'op'
  | 'name'
  | 'dtype'
  | 'shape'
  | 'scope'
  | 'place'
  | 'source'
  | 'line'
  | 'input_start'
  | 'inputs'
  | 'saved_start'
  | 'saved'
  | 'value_stats'
  | 'grad_stats'
  | 'true_stats'
  | 'edge_norm'
  | 'change'
  | 'override';

export type ColumnDtype = 'uint8' | 'int32' | 'float64';

/** One buffer of a snapshot or patch; buffers come in the order of this list. */
export interface IColumn {
  name: ColumnName;
  dtype: ColumnDtype;
  length: number;
}

export type Target =
  | { kind: 'node'; node: number }
  | { kind: 'op'; op: string }
  | { kind: 'scope'; scope: string }
  | { kind: 'other'; text: string };

/** What an override did to the gradient of one `wrt` node. */
export interface IEffect {
  node: number;
  name: string;
  /** ‖g − g_true‖ / ‖g_true‖ */
  relative: number | null;
  /** The angle between the two, in degrees. */
  angle: number | null;
}

export interface IOverride {
  id: number;
  label: string;
  /** The expression, or the name of a Python function. */
  rule: string;
  /** True if the rule is data (an expression), so that it can be edited. */
  data: boolean;
  target: Target;
  enabled: boolean;
  matched: number[];
  effects: IEffect[];
  /** The line of Python that does the same. */
  code: string;
}

export interface IHeader {
  schema: number;
  /** The version of workbench that wrote this. */
  version: string;
  session: string;
  nodes: number;
  edges: number;
  /** The node that was differentiated, -1 if there is none (a failed cell). */
  output: number;
  output_name: string;
  /** Its value if it is a finite scalar. */
  output_value: number | null;
  wrt: number[];
  strings: string[];
  columns: IColumn[];
  overrides: IOverride[];
  /** What undo and redo would do, null if there is nothing. */
  undo: string | null;
  redo: string | null;
  backend: string;
  /** Seconds of the last forward and backward run together. */
  seconds: number;
  /** A cell that failed half-way: the graph so far, the failing node if known. */
  error: { node: number | null; message: string } | null;
}

/** The data under MIME_TYPE in a saved notebook: untrusted. */
export interface ISaved {
  schema: number;
  /** The live widget that this is the picture of. */
  model_id: string;
  header: IHeader;
  /** Base64 of each buffer. */
  buffers: string[];
}

/** A histogram: `counts` of equal bins from `low` to `high`, finite values only. */
export interface IDistribution {
  counts: number[];
  low: number;
  high: number;
  zeros: number;
  nan: number;
  inf: number;
  size: number;
}

/** Kernel to page. Every message carries a sequence number to acknowledge. */
export type KernelMessage =
  | { type: 'snapshot'; seq: number; header: IHeader }
  | {
      type: 'patch';
      seq: number;
      /** The fields of the header that changed. */
      header: Partial<IHeader>;
      /** The columns that changed, each whole; one buffer each. */
      columns: IColumn[];
    }
  | IDetail
  | { type: 'expression'; seq: number; request: number; ok: boolean; message: string }
  | {
      type: 'plot';
      seq: number;
      request: number;
      title: string;
      note: string;
      /** A Plotly figure: the data of application/vnd.plotly.v1+json. */
      figure: { data: unknown[]; layout: Record<string, unknown> };
    }
  /** The answer to a request that could not be met, or a notice (request null). */
  | { type: 'failure'; seq: number; request: number | null; message: string };

export interface IDetail {
  type: 'detail';
  seq: number;
  request: number;
  node: number;
  /** The gradient rule in plain mathematics, "g · (1 − y²)". */
  rule: string | null;
  /** What the op takes: the names of Tensors and the text of constants. */
  inputs: string[];
  params: [string, string][];
  /** What runs inside the op, as code: a loop, branches, a kernel. */
  code: string | null;
  value: IDistribution | null;
  gradient: IDistribution | null;
  true_gradient: IDistribution | null;
  /** Small arrays in full, as NumPy prints them. */
  array: string | null;
  gradient_array: string | null;
}

/** Page to kernel. `seq` counts up from 1 in each view of the page. */
export type PageEvent =
  /** The page is there: send a snapshot. */
  | { type: 'event'; seq: number; event: 'hello'; schema: number }
  /** The message with this sequence number has been drawn. */
  | { type: 'event'; seq: number; event: 'ack'; of: number }
  | { type: 'event'; seq: number; event: 'inspect'; request: number; node: number }
  | {
      type: 'event';
      seq: number;
      event: 'check-expression';
      request: number;
      target: Target;
      rule: string;
    }
  /** Attach a rule; with `id`, replace that override's rule and target. */
  | {
      type: 'event';
      seq: number;
      event: 'override';
      request: number;
      id?: number;
      target: Target;
      rule: string;
      label: string;
    }
  | {
      type: 'event';
      seq: number;
      event: 'switch';
      request: number;
      id: number;
      enabled: boolean;
    }
  | { type: 'event'; seq: number; event: 'remove'; request: number; id: number }
  | { type: 'event'; seq: number; event: 'undo'; request: number }
  | { type: 'event'; seq: number; event: 'redo'; request: number }
  | {
      type: 'event';
      seq: number;
      event: 'plot';
      request: number;
      plot: 'jacobian' | 'hessian' | 'check';
      /** Jacobian: the node differentiated. Otherwise the session's output. */
      of: number | null;
      /** The nodes differentiated by; empty: the session's `wrt`. */
      wrt: number[];
    };
