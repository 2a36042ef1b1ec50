/**
 * What travels between the kernel and the page, or is saved: written by
 * `extension/wire.py` from `workbench/session/wire/protocol/`, which says what each
 * field means. Change it there, and run `python extension/wire.py`.
 */

export const SCHEMA = 1;
export const MIME_TYPE = 'application/vnd.workbench.graph+json';
export const STATISTICS = ['min', 'max', 'mean', 'std', 'norm', 'bad'] as const;
export const KINDS = ['input', 'constant', 'op'] as const;
export const STATUSES = ['unchecked', 'right', 'wrong', 'kink', 'unsure',
  'overridden'] as const;
export type IColumns = { kind: Uint8Array; op: Int32Array; name: Int32Array;
  dtype: Int32Array; shape: Int32Array; scope: Int32Array; place: Int32Array;
  source: Int32Array; line: Int32Array; input_start: Int32Array; inputs: Int32Array;
  saved_start: Int32Array; saved: Int32Array; value_stats: Float64Array;
  grad_stats: Float64Array; true_stats?: Float64Array; edge_norm: Float64Array;
  true_edge_norm?: Float64Array; change: Float64Array; override: Int32Array;
  loop?: Int32Array; iteration?: Int32Array; check?: Uint8Array;
  check_ratio?: Float64Array; value_time?: Float64Array; value_bytes?: Float64Array;
  value_step?: Int32Array; rule_time?: Float64Array; rule_bytes?: Float64Array;
  rule_step?: Int32Array };
export type ILoopNorms = { node: number; steps: number; marks: number[];
  norms: (number | null)[] };
export type ColumnName = 'kind' | 'op' | 'name' | 'dtype' | 'shape' | 'scope' |
  'place' | 'source' | 'line' | 'input_start' | 'inputs' | 'saved_start' | 'saved' |
  'value_stats' | 'grad_stats' | 'true_stats' | 'edge_norm' | 'true_edge_norm' |
  'change' | 'override' | 'loop' | 'iteration' | 'check' | 'check_ratio' |
  'value_time' | 'value_bytes' | 'value_step' | 'rule_time' | 'rule_bytes' |
  'rule_step';
export type ColumnDtype = 'uint8' | 'int32' | 'float64';
export type IColumn = { name: ColumnName; dtype: ColumnDtype; length: number };
export type INodeTarget = { kind: 'node'; node: number };
export type IOpTarget = { kind: 'op'; op: string };
export type IScopeTarget = { kind: 'scope'; scope: string };
export type IOtherTarget = { kind: 'other'; text: string };
export type Target = INodeTarget | IOpTarget | IScopeTarget | IOtherTarget;
export type IEffect = { node: number; name: string; relative: number | null;
  angle: number | null };
export type IOverride = { id: number; label: string; rule: string; data: boolean;
  stored: boolean; target: Target; steps: string; enabled: boolean; matched: number[];
  covered: number[]; note: string; effects: IEffect[]; code: string };
export type IHistory = { done: string[]; undone: string[] };
export type Outcome = 'right' | 'wrong' | 'changed';
export type IStatusCounts = { unchecked: number; right: number; wrong: number;
  kink: number; unsure: number; overridden: number };
export type Status = 'unchecked' | 'right' | 'wrong' | 'kink' | 'unsure' | 'overridden';
export type INodeCheck = { node: number; status: Status; mode: string; place: string;
  expected: number | null; got: number | null; ratio: number | null; text: string };
export type IGradientCheck = { name: string; mode: string; ok: boolean;
  verdict: Outcome; change: number | null; by: string[]; text: string };
export type ICheck = { ok: boolean; verdict: Outcome; changes: string; stopped: boolean;
  unchecked: string[]; stale: boolean; summary: string; counts: IStatusCounts;
  nodes: INodeCheck[]; gradients: IGradientCheck[] };
export type IEdit = { cell: number; line: number; before: string[]; after: string[] };
export type IFix = { text: string; code: string; attachable: boolean; edit?: IEdit };
export type IFinding = { kind: string; severity: 'error' | 'warning' | 'note';
  node: number; path: number[]; sweep: 'forward' | 'backward'; title: string;
  evidence: string; cause: string; fix: IFix | null };
export type IFindings = { stale: boolean; stopped: boolean; unchecked: string[];
  list: IFinding[] };
export type IProfileStep = { name: string; ops: string; count: number; time: number;
  bytes: number };
export type IProfile = { stale: boolean; backend: string; time: number; bytes: number;
  steps: IProfileStep[] };
export type IMark = { step: number; kind: 'nan' | 'explosion' | 'overrides';
  node: number | null; text: string };
export type ITimeline = { count: number; keep: number; steps: number[];
  losses: (number | null)[]; gradients: (number | null)[]; marks: IMark[] };
export type IError = { node: number | null; message: string };
export type IHeader = { schema: number; version: string; session: string; nodes: number;
  edges: number; output: number; output_name: string; output_value: number | null;
  wrt: number[]; holders: number[]; loops?: ILoopNorms[]; around?: [number, number][];
  strings: string[]; columns: IColumn[]; overrides: IOverride[]; undo: string | null;
  redo: string | null; history: IHistory; check: ICheck | null;
  findings: IFindings | null; profile: IProfile | null; timeline: ITimeline | null;
  backend: string; device?: string; seconds: number; error: IError | null };
export type IMoments = { steps: number[]; losses: (number | null)[];
  overrides: (string | null)[]; norms: string };
export type ISaved = { schema: number; model_id: string; header: IHeader;
  buffers: string[]; moments: IMoments | null };
export type ISnapshotMessage = { type: 'snapshot'; seq: number; pieces?: number;
  header: IHeader };
export type IPatchColumn = { name: ColumnName; dtype: ColumnDtype; length: number;
  base?: ColumnName; parts?: [number, number][] };
export type IPatchMessage = { type: 'patch'; seq: number; pieces?: number; of: number;
  answers: number | null; header: Partial<IHeader>; columns: IPatchColumn[] };
export type IPieceMessage = { type: 'piece'; seq: number; first: number; start: number;
  sizes: number[] };
export type IDistribution = { counts: number[]; low: number; high: number;
  zeros: number; nan: number; inf: number; size: number };
export type IDeviceKernel = { title: string; source: string };
export type IDetail = { node: number; rule: string | null; inputs: string[];
  params: [string, string][]; code: string | null; value: IDistribution | null;
  gradient: IDistribution | null; true_gradient: IDistribution | null;
  array: string | null; gradient_array: string | null; runs_on?: string;
  kernels?: IDeviceKernel[]; type: 'detail'; seq: number; request: number };
export type IExpressionAnswer = { type: 'expression'; seq: number; request: number;
  ok: boolean; message: string };
export type IMomentAnswer = { type: 'moment'; seq: number; request: number;
  step: number; header: Partial<IHeader>; columns: IColumn[] };
export type IPeer = { name: string; refused: string };
export type IPeersAnswer = { type: 'peers'; seq: number; request: number;
  peers: IPeer[] };
export type IRunsAnswer = { type: 'runs'; seq: number; request: number;
  moments: IMoments | null };
export type INormsAnswer = { type: 'norms'; seq: number; request: number; node: number;
  steps: number[]; values: (number | null)[]; gradients: (number | null)[] };
export type IFigure = { data: unknown[]; layout: Record<string, unknown> };
export type PlotKind = 'jacobian' | 'hessian' | 'singular' | 'spectrum' | 'sparsity' |
  'check' | 'steps';
export type IWindow = { rows: [number, number]; columns: [number, number] };
export type IMatrix = { kind: PlotKind; of: number; wrt: number[]; path: number[];
  mode: 'forward' | 'reverse' | ''; rows: number; columns: number; window: IWindow;
  block: [number, number]; colours?: number };
export type IPlotAnswer = { type: 'plot'; seq: number; request: number; title: string;
  note: string; figure: IFigure; matrix: IMatrix | null; views: PlotKind[];
  overrides: string[]; is_true: boolean; verdict: 'right' | 'wrong' | 'changed' | null;
  zero: string };
export type IPassed = { node: number; name: string; before: IDistribution | null;
  after: IDistribution | null; before_norm: number | null; after_norm: number | null;
  change: number | null };
export type IPreviewAnswer = { type: 'preview'; seq: number; request: number;
  node: number; passed: IPassed[] };
export type IRewrite = { rule: string; group: string; note: string; before: string;
  after: string; site: string };
export type ISimplificationAnswer = { type: 'simplification'; seq: number;
  request: number; steps: IRewrite[]; total: number };
export type IProgramAnswer = { type: 'program'; seq: number; request: number;
  step: number; header: IHeader; nodes: number; keys: string[]; forward: number[];
  came: number[]; went: number[]; text: string };
export type IPlace = { node: number; step: number };
export type IInsideAnswer = { type: 'inside'; seq: number; request: number;
  path: IPlace[]; step: number | null; steps: number | null; marks: number[];
  norms: (number | null)[]; header: IHeader };
export type IProgressMessage = { type: 'progress'; seq: number; request: number;
  done: number; total: number; left: number | null };
export type IDoneMessage = { type: 'done'; seq: number; request: number };
export type IFailureMessage = { type: 'failure'; seq: number; request: number | null;
  message: string };
export type KernelMessage = ISnapshotMessage | IPatchMessage | IPieceMessage | IDetail |
  IExpressionAnswer | IMomentAnswer | IPeersAnswer | IRunsAnswer | INormsAnswer |
  IPlotAnswer | IPreviewAnswer | ISimplificationAnswer | IProgramAnswer |
  IInsideAnswer | IProgressMessage | IDoneMessage | IFailureMessage;
export type IHelloEvent = { type: 'event'; seq: number; event: 'hello'; schema: number;
  again?: boolean };
export type IAckEvent = { type: 'event'; seq: number; event: 'ack'; of: number };
export type IInspectEvent = { type: 'event'; seq: number; request: number;
  event: 'inspect'; node: number; path?: IPlace[] };
export type IMomentEvent = { type: 'event'; seq: number; request: number;
  event: 'moment'; step: number; session?: string };
export type IPeersEvent = { type: 'event'; seq: number; request: number;
  event: 'peers' };
export type IRunsEvent = { type: 'event'; seq: number; request: number; event: 'runs' };
export type INormsEvent = { type: 'event'; seq: number; request: number; event: 'norms';
  node: number };
export type ICheckExpressionEvent = { type: 'event'; seq: number; request: number;
  event: 'check-expression'; target: Target; rule: string; id?: number };
export type IOverrideEvent = { type: 'event'; seq: number; request: number;
  event: 'override'; id?: number; target: Target; rule: string; label: string;
  steps?: string };
export type ISwitchEvent = { type: 'event'; seq: number; request: number;
  event: 'switch'; id: number; enabled: boolean };
export type IRemoveEvent = { type: 'event'; seq: number; request: number;
  event: 'remove'; id: number };
export type IEditEvent = { type: 'event'; seq: number; request: number; event: 'edit';
  id: number; rule: string; label: string; steps?: string };
export type IMoveEvent = { type: 'event'; seq: number; request: number; event: 'move';
  id: number; to: number };
export type IUndoEvent = { type: 'event'; seq: number; request: number;
  event: 'undo' | 'redo'; steps: number };
export type IExamineEvent = { type: 'event'; seq: number; request: number;
  event: 'check' | 'diagnose' | 'profile' };
export type IFixEvent = { type: 'event'; seq: number; request: number; event: 'fix';
  finding: number };
export type IStopEvent = { type: 'event'; seq: number; request: number; event: 'stop';
  of: number };
export type IPlotEvent = { type: 'event'; seq: number; request: number; event: 'plot';
  plot: PlotKind; of: number | null; wrt: number[]; window: IWindow | null;
  overrides: boolean };
export type IPreviewEvent = { type: 'event'; seq: number; request: number;
  event: 'preview'; node: number; id?: number; target: Target; rule: string;
  steps?: string };
export type ISimplifyEvent = { type: 'event'; seq: number; request: number;
  event: 'simplify'; without: string[] };
export type IProgramEvent = { type: 'event'; seq: number; request: number;
  event: 'program'; without: string[]; step: number };
export type IInsideEvent = { type: 'event'; seq: number; request: number;
  event: 'inside'; path: IPlace[] };
export type PageEvent = IHelloEvent | IAckEvent | IInspectEvent | IMomentEvent |
  IPeersEvent | IRunsEvent | INormsEvent | ICheckExpressionEvent | IOverrideEvent |
  ISwitchEvent | IRemoveEvent | IEditEvent | IMoveEvent | IUndoEvent | IExamineEvent |
  IFixEvent | IStopEvent | IPlotEvent | IPreviewEvent | ISimplifyEvent | IProgramEvent |
  IInsideEvent;
