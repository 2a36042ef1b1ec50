/**
 * What travels between the kernel and the page, or is saved: written by
 * `extension/wire.py` from `workbench/session/wire/protocol/` and what the functions of
 * `workbench/jupyter/answers.py` take and give, where it says what each field means.
 * Change it there, and run `python extension/wire.py`.
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
export const PLOTS = {
  jacobian: { title: 'Jacobian', view: 'Jacobian',
    views: ['jacobian', 'singular', 'sparsity'],
    needs: ['of', 'wrt', 'window', 'robust', 'overrides', 'progress'] },
  hessian: { title: 'Hessian', view: 'Hessian',
    views: ['hessian', 'gauss_newton', 'fisher', 'spectrum', 'landscape', 'spread', 'sparsity'],
    needs: ['wrt', 'window', 'robust', 'overrides', 'progress'] },
  gauss_newton: { title: 'Hessian', view: 'Gauss-Newton',
    views: ['hessian', 'gauss_newton', 'fisher', 'spectrum', 'landscape', 'spread', 'sparsity'],
    needs: ['of', 'wrt', 'window', 'robust', 'progress'] },
  fisher: { title: 'Hessian', view: 'Fisher',
    views: ['hessian', 'gauss_newton', 'fisher', 'spectrum', 'landscape', 'spread', 'sparsity'],
    needs: ['of', 'wrt', 'window', 'robust', 'progress'] },
  singular: { title: 'Jacobian', view: 'singular values',
    views: ['jacobian', 'singular', 'sparsity'],
    needs: ['of', 'wrt', 'progress', 'overrides'] },
  spectrum: { title: 'Hessian', view: 'eigenvalues',
    views: ['hessian', 'gauss_newton', 'fisher', 'spectrum', 'landscape', 'spread', 'sparsity'],
    needs: ['wrt', 'progress', 'overrides', 'count'] },
  landscape: { title: 'Hessian', view: 'landscape',
    views: ['hessian', 'gauss_newton', 'fisher', 'spectrum', 'landscape', 'spread', 'sparsity'],
    needs: ['wrt', 'progress', 'directions', 'reach', 'points'] },
  spread: { title: 'Hessian', view: 'examples',
    views: ['hessian', 'gauss_newton', 'fisher', 'spectrum', 'landscape', 'spread', 'sparsity'],
    needs: ['of', 'wrt', 'progress', 'overrides'] },
  sparsity: { title: 'Sparsity', view: 'sparsity', views: [],
    needs: ['of', 'wrt', 'window', 'progress', 'overrides'] },
  check: { title: 'Gradient check', view: 'errors', views: ['check'], needs: ['wrt'] },
  steps: { title: 'Step sizes', view: 'step sizes', views: ['steps'], needs: ['of'] }
} as const;
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
  list: IFinding[]; step?: number };
export type IProfileStep = { name: string; ops: string; count: number; time: number;
  bytes: number };
export type IProfile = { stale: boolean; backend: string; time: number; bytes: number;
  steps: IProfileStep[] };
export type IMark = { step: number; kind: 'nan' | 'explosion' | 'overrides' | 'stop';
  node: number | null; text: string };
export type ITimeline = { count: number; keep: number; steps: number[];
  losses: (number | null)[]; gradients: (number | null)[]; marks: IMark[];
  first_bad: number | null; kept: number; kept_bytes: number };
export type IBranch = { name: string; step: number; count: number; text: string;
  steps: number[]; losses: (number | null)[] };
export type IStop = { id: number; nodes: number[]; text: string };
export type IError = { node: number | null; message: string };
export type IHeader = { schema: number; version: string; session: string; nodes: number;
  edges: number; output: number; output_name: string; output_value: number | null;
  wrt: number[]; holders: number[]; loops?: ILoopNorms[]; around?: [number, number][];
  strings: string[]; columns: IColumn[]; overrides: IOverride[]; undo: string | null;
  redo: string | null; history: IHistory; check: ICheck | null;
  findings: IFindings | null; profile: IProfile | null; timeline: ITimeline | null;
  branches: IBranch[]; stops: IStop[]; backend: string; device?: string;
  seconds: number; error: IError | null };
export type IMoments = { steps: number[]; losses: (number | null)[];
  overrides: (string | null)[]; norms: string };
export type ILessonNode = { value: string; gradient: string; made: string;
  rule: string };
export type ILesson = { open: boolean; nodes: ILessonNode[] };
export type IDistribution = { counts: number[]; low: number; high: number;
  zeros: number; nan: number; inf: number; size: number };
export type IDeviceKernel = { title: string; source: string };
export type IDetail = { node: number; rule: string | null; inputs: string[];
  params: [string, string][]; code: string | null; value: IDistribution | null;
  gradient: IDistribution | null; true_gradient: IDistribution | null;
  array: string | null; gradient_array: string | null; jacobians?: [string, string][];
  runs_on?: string; kernels?: IDeviceKernel[] };
export type ISaved = { schema: number; model_id: string; header: IHeader;
  buffers: string[]; moments: IMoments | null; lesson: ILesson | null;
  details: IDetail[] | null };
export type IPatchColumn = { name: ColumnName; dtype: ColumnDtype; length: number;
  base?: ColumnName; parts?: [number, number][] };
export type IPictureMessage = { of: number | null; header: Partial<IHeader>;
  columns: IPatchColumn[]; type: 'picture'; seq: number; pieces?: number;
  answers: number | null };
export type IPieceMessage = { type: 'piece'; seq: number; first: number; start: number;
  sizes: number[] };
export type IFigure = { data: unknown[]; layout: Record<string, unknown> };
export type PlotKind = 'jacobian' | 'hessian' | 'gauss_newton' | 'fisher' | 'singular' |
  'spectrum' | 'landscape' | 'spread' | 'sparsity' | 'check' | 'steps';
export type IWindow = { rows: [number, number]; columns: [number, number] };
export type IMatrix = { kind: PlotKind; of: number; wrt: number[]; path: number[];
  mode: 'forward' | 'reverse' | ''; rows: number; columns: number; window: IWindow;
  block: [number, number]; colours?: number };
export type IPlotAnswer = { type: 'plot'; seq: number; request: number; title: string;
  note: string; figure: IFigure; matrix: IMatrix | null; views: PlotKind[];
  overrides: string[]; is_true: boolean; verdict: 'right' | 'wrong' | 'changed' | null;
  zero: string };
export type IRewrite = { rule: string; group: string; note: string; before: string;
  after: string; site: string };
export type ISimplifyAnswer = { type: 'simplify'; seq: number; request: number;
  steps: IRewrite[]; total: number };
export type IProgramAnswer = { type: 'program'; seq: number; request: number;
  of: number | null; header: Partial<IHeader>; columns: IPatchColumn[]; step: number;
  nodes: number; keys: string[]; forward: number[]; came: number[]; went: number[];
  text: string };
export type IPlace = { node: number; step: number };
export type IInsideAnswer = { type: 'inside'; seq: number; request: number;
  of: number | null; header: Partial<IHeader>; columns: IPatchColumn[]; path: IPlace[];
  step: number | null; steps: number | null; marks: number[];
  norms: (number | null)[] };
export type IInspectInsideAnswer = { type: 'inspect-inside'; seq: number;
  request: number; node: number; rule: string | null; inputs: string[];
  params: [string, string][]; code: string | null; value: IDistribution | null;
  gradient: IDistribution | null; true_gradient: IDistribution | null;
  array: string | null; gradient_array: string | null; jacobians?: [string, string][];
  runs_on?: string; kernels?: IDeviceKernel[] };
export type IInspectAnswer = { type: 'inspect'; seq: number; request: number;
  node: number; rule: string | null; inputs: string[]; params: [string, string][];
  code: string | null; value: IDistribution | null; gradient: IDistribution | null;
  true_gradient: IDistribution | null; array: string | null;
  gradient_array: string | null; jacobians?: [string, string][]; runs_on?: string;
  kernels?: IDeviceKernel[] };
export type ArrayQuantity = 'value' | 'gradient';
export type IArrayAnswer = { type: 'array'; seq: number; request: number; node: number;
  quantity: ArrayQuantity; shape: number[]; index: (number | null)[];
  is_complex: boolean; block: [number, number]; values: (number | null)[][];
  against: number | null };
export type IArrayHistoryAnswer = { type: 'array-history'; seq: number; request: number;
  node: number; quantity: ArrayQuantity; index: (number | null)[]; steps: number[];
  histograms: IDistribution[] };
export type INormsAnswer = { type: 'norms'; seq: number; request: number; node: number;
  steps: number[]; values: (number | null)[]; gradients: (number | null)[] };
export type IRunsAnswer = { type: 'runs'; seq: number; request: number;
  moments: IMoments | null };
export type ILessonAnswer = { type: 'lesson'; seq: number; request: number;
  lesson: ILesson | null };
export type IDetailsAnswer = { type: 'details'; seq: number; request: number;
  details: IDetail[] | null };
export type IDifference = { node: number; other: string; op: string };
export type IMomentAnswer = { type: 'moment'; seq: number; request: number;
  of: number | null; header: Partial<IHeader>; columns: IPatchColumn[]; step: number;
  whole: boolean; differing: IDifference[] };
export type IPeer = { name: string; refused: string };
export type IPeersAnswer = { type: 'peers'; seq: number; request: number;
  peers: IPeer[] };
export type IPeerAnswer = { type: 'peer'; seq: number; request: number;
  of: number | null; header: Partial<IHeader>; columns: IPatchColumn[]; step: number;
  whole: boolean; differing: IDifference[] };
export type ICheckExpressionAnswer = { type: 'check-expression'; seq: number;
  request: number; ok: boolean; message: string };
export type IPassed = { node: number; name: string; before: IDistribution | null;
  after: IDistribution | null; before_norm: number | null; after_norm: number | null;
  change: number | null };
export type IPreviewAnswer = { type: 'preview'; seq: number; request: number;
  node: number; passed: IPassed[] };
export type IEntryAnswer = { type: 'entry'; seq: number; request: number; node: number;
  index: number; place: string; value: number | null; count: number; largest: number };
export type IProgressMessage = { type: 'progress'; seq: number; request: number;
  done: number; total: number; left: number | null };
export type IDoneMessage = { type: 'done'; seq: number; request: number };
export type IFailureMessage = { type: 'failure'; seq: number; request: number | null;
  message: string };
export type KernelMessage = IPictureMessage | IPieceMessage | IPlotAnswer |
  ISimplifyAnswer | IProgramAnswer | IInsideAnswer | IInspectInsideAnswer |
  IInspectAnswer | IArrayAnswer | IArrayHistoryAnswer | INormsAnswer | IRunsAnswer |
  ILessonAnswer | IDetailsAnswer | IMomentAnswer | IPeersAnswer | IPeerAnswer |
  ICheckExpressionAnswer | IPreviewAnswer | IEntryAnswer | IProgressMessage |
  IDoneMessage | IFailureMessage;
export type IHelloEvent = { type: 'event'; seq: number; event: 'hello'; schema: number;
  again?: boolean };
export type IAckEvent = { type: 'event'; seq: number; event: 'ack'; of: number };
export type IStopEvent = { type: 'event'; seq: number; request: number; event: 'stop';
  of: number };
export type ArrayTime = 'first' | 'last';
export type IPicture = { of: number | null; header: Partial<IHeader>;
  columns: IPatchColumn[] };
export interface IRequests {
  plot: { asked: { plot: PlotKind; wrt: number[]; of?: number | null;
    window?: IWindow | null; overrides?: boolean }; answer: IPlotAnswer };
  simplify: { asked: { without: string[] }; answer: ISimplifyAnswer };
  program: { asked: { without: string[]; step: number }; answer: IProgramAnswer };
  inside: { asked: { path: IPlace[] }; answer: IInsideAnswer };
  'inspect-inside': { asked: { path: IPlace[];
    node: number }; answer: IInspectInsideAnswer };
  inspect: { asked: { node: number }; answer: IInspectAnswer };
  array: { asked: { node: number; quantity: ArrayQuantity; index: (number | null)[];
    against?: ArrayTime | null }; answer: IArrayAnswer };
  'array-history': { asked: { node: number; quantity: ArrayQuantity;
    index: (number | null)[] }; answer: IArrayHistoryAnswer };
  norms: { asked: { node: number }; answer: INormsAnswer };
  runs: { asked: object; answer: IRunsAnswer };
  lesson: { asked: object; answer: ILessonAnswer };
  details: { asked: object; answer: IDetailsAnswer };
  moment: { asked: { step: number }; answer: IMomentAnswer };
  peers: { asked: object; answer: IPeersAnswer };
  peer: { asked: { name: string }; answer: IPeerAnswer };
  'check-expression': { asked: { target: Target; rule: string;
    id?: number | null }; answer: ICheckExpressionAnswer };
  preview: { asked: { node: number; target: Target; rule: string; id?: number | null;
    steps?: string | null }; answer: IPreviewAnswer };
  override: { asked: { target: Target; rule: string; label: string; id?: number | null;
    steps?: string | null }; answer: null };
  edit: { asked: { id: number; rule: string; label: string;
    steps?: string | null }; answer: null };
  switch: { asked: { id: number; enabled: boolean }; answer: null };
  remove: { asked: { id: number }; answer: null };
  move: { asked: { id: number; to: number }; answer: null };
  undo: { asked: { steps?: number }; answer: null };
  redo: { asked: { steps?: number }; answer: null };
  fix: { asked: { finding: number; at?: number | null }; answer: null };
  'stop-when': { asked: { node: number; not_finite?: boolean; norm_above?: number | null;
    norm_below?: number | null; angle_above?: number | null }; answer: null };
  'stop-no-more': { asked: { id: number }; answer: null };
  entry: { asked: { node: number; index: number }; answer: IEntryAnswer };
  'change-entry': { asked: { node: number; index: number; value: number;
    drag: number }; answer: null };
  check: { asked: object; answer: IDoneMessage };
  diagnose: { asked: object; answer: IDoneMessage };
  profile: { asked: object; answer: IDoneMessage };
  'run-again': { asked: { step: number }; answer: IDoneMessage };
}
/** The run of the past that is asked about; absent: what there is now. */
export type IAbout = { at?: number };
export type RequestName = keyof IRequests;
export type RequestEvent<K extends RequestName = RequestName> = K extends RequestName
  ? { type: 'event'; seq: number; request: number; event: K } & IAbout &
      IRequests[K]['asked']
  : never;
export type PageEvent = IHelloEvent | IAckEvent | IStopEvent | RequestEvent;
