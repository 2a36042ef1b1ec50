/**
 * What travels between the kernel and the page, and what a saved notebook holds.
 *
 * The same shapes are written by `workbench/session/wire/` and
 * `workbench/jupyter/link.py`; the tests of both sides read
 * `tests/session/wire/golden/snapshot.json`. Nothing here knows the DOM.
 */

/**
 * The version of everything below. A reader refuses a newer one, and takes what an
 * older one lacks as absent: 2 added checks, findings, history and matrices.
 */
export const SCHEMA = 2;

/** The MIME type of a saved picture (drawn without a kernel). */
export const MIME_TYPE = 'application/vnd.workbench.graph+json';

/** The rows of `value_stats`, `grad_stats` and `true_stats`, in this order. */
export const STATISTICS = ['min', 'max', 'mean', 'std', 'norm', 'bad'] as const;

/** What a check says of a node's rule: its code in the column `check`. */
export const STATUSES = [
  'unchecked',
  'right',
  'wrong',
  'kink',
  'unsure',
  'overridden'
] as const;
export type Status = (typeof STATUSES)[number];

/**
 * What a check says of gradients; "changed" is on purpose, by overrides or by ops that
 * are there for it. Older pictures of schema 2 say only whether they are wrong.
 */
export const OUTCOMES = ['right', 'wrong', 'changed'] as const;
export type Outcome = (typeof OUTCOMES)[number];

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
 *   rule the node runs, -1 for the true rule. A node that lies within a matched
 *   pattern or cut-out has it too: its own rule does not run.
 * - `check` uint8[n]: position in STATUSES; absent before the first check.
 * - `check_ratio` float64[n]: the error of the worst entry in tolerances, NaN for
 *   a node that was not checked; absent before the first check.
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
  | 'override'
  | 'check'
  | 'check_ratio';

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
  /** The expression, the named rule, or the name of a Python function. */
  rule: string;
  /** True if the rule is a text that the page can edit. */
  data: boolean;
  /** True if the rule is data, so that it can be saved: a text or a list of nodes. */
  stored: boolean;
  target: Target;
  /** The steps of a loop as one writes them: "3", "10:20"; "" for all. */
  steps: string;
  enabled: boolean;
  /** The nodes whose gradient it gives; of a pattern the last node of each match. */
  matched: number[];
  /** The other nodes of its matches: their own rules do not run. */
  covered: number[];
  /** Where another override has the say over some of its nodes, in words. */
  note: string;
  effects: IEffect[];
  /** The line of Python that does the same. */
  code: string;
}

/** One node of a gradient check that is worth a line. */
export interface INodeCheck {
  node: number;
  status: Status;
  /** "rev" or "fwd". */
  mode: string;
  /** The worst entry, "x[3, 1]"; empty where there is none. */
  place: string;
  expected: number | null;
  got: number | null;
  /** The error in tolerances. */
  ratio: number | null;
  text: string;
}

/** The gradient of the whole program by one input in one mode, or an equation. */
export interface IGradientCheck {
  name: string;
  mode: string;
  ok: boolean;
  verdict: Outcome;
  /** What is changed on purpose, relatively; null if nothing, or beyond comparison. */
  change: number | null;
  /** The labels of what changes it. */
  by: string[];
  text: string;
}

/** The last gradient check of the session. */
export interface ICheck {
  /** Nothing is wrong. */
  ok: boolean;
  verdict: Outcome;
  /** What is changed on purpose, by what and by how much; "" if nothing is. */
  changes: string;
  /** Stopped before it was done. */
  stopped: boolean;
  /** Of the session as it was before its last change. */
  stale: boolean;
  summary: string;
  /** How many nodes have each status. */
  counts: Record<Status, number>;
  /** The nodes that are not simply right, the wrong ones first; the first 200. */
  nodes: INodeCheck[];
  /** The gradients of the whole program, one line for each input and mode. */
  gradients: IGradientCheck[];
}

export interface IFix {
  /** What it does, in a few words. */
  text: string;
  /** The line of Python. */
  code: string;
  /** Whether the page can attach it; otherwise the program has to change. */
  attachable: boolean;
}

/** One thing that the doctor found. */
export interface IFinding {
  kind: string;
  severity: 'error' | 'warning' | 'note';
  node: number;
  /** From the node to blame to where it shows. */
  path: number[];
  sweep: 'forward' | 'backward';
  title: string;
  evidence: string;
  cause: string;
  fix: IFix | null;
}

/** What the doctor found, most important first. */
export interface IFindings {
  stale: boolean;
  stopped: boolean;
  list: IFinding[];
}

/** What was changed, in words: oldest first; `undone` in the order of redo. */
export interface IHistory {
  done: string[];
  undone: string[];
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
  history: IHistory;
  /** Null before the first check. */
  check: ICheck | null;
  /** Null before the doctor was asked. */
  findings: IFindings | null;
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
      /** What a heat map shows of its matrix; null for other figures. */
      matrix: IMatrix | null;
      /** The other plots of the same nodes. */
      views: PlotKind[];
    }
  /** How far a long request is. */
  | {
      type: 'progress';
      seq: number;
      request: number;
      done: number;
      total: number;
      /** Seconds left, as far as can be told. */
      left: number | null;
    }
  /** A long command is done (or was stopped); its state was sent before. */
  | { type: 'done'; seq: number; request: number }
  /** The answer to a request that could not be met, or a notice (request null). */
  | { type: 'failure'; seq: number; request: number | null; message: string };

/**
 * What the page can have drawn of derivatives:
 *
 * - `jacobian`: a heat map of one node's derivative by others.
 * - `hessian`: a heat map of the output's second derivative.
 * - `singular`: the singular values of a Jacobian.
 * - `spectrum`: the eigenvalues of a Hessian.
 * - `sparsity`: which entries of the matrix are not zero.
 * - `check`: the errors of the gradients' entries.
 * - `steps`: the error of differences against their step, for one node.
 */
export const PLOT_KINDS = [
  'jacobian',
  'hessian',
  'singular',
  'spectrum',
  'sparsity',
  'check',
  'steps'
] as const;
export type PlotKind = (typeof PLOT_KINDS)[number];

/** Which entries of a matrix: rows and columns, each from and to (excluded). */
export interface IWindow {
  rows: [number, number];
  columns: [number, number];
}

/** What a heat map shows. */
export interface IMatrix {
  kind: PlotKind;
  of: number;
  wrt: number[];
  /** The nodes between the two, both included. */
  path: number[];
  mode: 'forward' | 'reverse' | '';
  rows: number;
  columns: number;
  /** What is shown of it; each cell stands for `block` entries each way. */
  window: IWindow;
  block: [number, number];
}

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
  /** Whether a rule would do; with `id`, for the target of that override. */
  | {
      type: 'event';
      seq: number;
      event: 'check-expression';
      request: number;
      target: Target;
      rule: string;
      id?: number;
    }
  /**
   * Attach a rule; with `id`, replace that override's rule and target. `steps` is
   * written as in IOverride; without, those of the override that is replaced stay.
   */
  | {
      type: 'event';
      seq: number;
      event: 'override';
      request: number;
      id?: number;
      target: Target;
      rule: string;
      label: string;
      steps?: string;
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
  /** Another rule for an override, whatever its target is. */
  | {
      type: 'event';
      seq: number;
      event: 'edit';
      request: number;
      id: number;
      rule: string;
      label: string;
      steps?: string;
    }
  /** Put an override at another place in the order; 0 is the first. */
  | {
      type: 'event';
      seq: number;
      event: 'move';
      request: number;
      id: number;
      to: number;
    }
  /** So many steps back or forth, one by default. */
  | {
      type: 'event';
      seq: number;
      event: 'undo' | 'redo';
      request: number;
      steps?: number;
    }
  /** Check all rules at their nodes, and the gradients as a whole. Long. */
  | { type: 'event'; seq: number; event: 'check'; request: number }
  /** Ask the doctor. Long. */
  | { type: 'event'; seq: number; event: 'diagnose'; request: number }
  /** Attach the fix of a finding, by its position in the list. */
  | { type: 'event'; seq: number; event: 'fix'; request: number; finding: number }
  /** Stop a long request; what it has is kept. */
  | { type: 'event'; seq: number; event: 'stop'; request: number; of: number }
  | {
      type: 'event';
      seq: number;
      event: 'plot';
      request: number;
      plot: PlotKind;
      /** The node differentiated; null: the session's output. */
      of: number | null;
      /** The nodes differentiated by; empty: the session's `wrt`. */
      wrt: number[];
      /** The part of the matrix, an IWindow, to show; null: all of it. */
      window: { rows: [number, number]; columns: [number, number] } | null;
    };
