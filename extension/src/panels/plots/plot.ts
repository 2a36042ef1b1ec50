/** The plots of a drawer: what was asked of the kernel, and what came. */

import type { GraphConnection } from '../../model/connection';
import type { Graph } from '../../model/graph';
import { Latest, answerTo } from '../../model/latest';
import { errorText } from '../../ui/words';
import { type IAbout, type IPlotAnswer, type IWindow, PLOTS, type PlotKind } from '../../wire/protocol';
import type { IProgress } from '../../wire/requests';

/** What belongs together: one tab shows all views of the same nodes. */
export type Family = 'jacobian' | 'hessian' | 'check' | 'steps';

/** Whether a kind of plot is made of something: a window, say. */
export function needs(kind: PlotKind, what: 'overrides' | 'window'): boolean {
  return (PLOTS[kind].needs as readonly string[]).includes(what);
}

/** Which family a kind belongs to; of a pattern the node tells: Hessians have none. */
export function familyOf(kind: PlotKind, of: number | null): Family {
  return PLOTS[kind].views[0] ?? (of === null ? 'hessian' : 'jacobian');
}

/** The heat maps: views of a matrix, or of a part of it. */
export function isMap(kind: PlotKind): boolean {
  return needs(kind, 'window');
}

/** One tab of the drawer: a question, its views, and how far the kernel is. */
export class Plot {
  constructor(
    readonly key: string,
    readonly family: Family,
    /** The view that is shown or asked for. */
    public kind: PlotKind,
    readonly of: number | null,
    readonly wrt: number[]
  ) {}

  /** What is drawn; stays until the next answer comes. */
  answer: IPlotAnswer | null = null;
  /** Which view `answer` is. */
  answered: PlotKind | null = null;
  failure: string | null = null;
  /** How far the kernel is with the answer that is missing, if it says so. */
  progress: IProgress | null = null;
  /** The part that the heat maps show; null: all. */
  window: IWindow | null = null;
  /** Whether overrides are in force; false: the true derivative is asked for. */
  overrides = true;
  /** The entry that was chosen in them. */
  entry: { row: number; column: number } | null = null;
  /** The views that the kernel offers of these nodes. */
  views: PlotKind[] = [];

  /** An answer is missing. */
  get waiting(): boolean {
    return this._latest.isWaiting;
  }

  /** Whether what is drawn is older than the numbers of a graph. */
  isStale(graph: Graph | null): boolean {
    return (
      this.answer !== null &&
      graph !== null &&
      this._shown?.sameNumbers(graph) === false
    );
  }

  /** Whether both axes are of the same nodes. */
  get second(): boolean {
    return this.family === 'hessian';
  }

  /**
   * Ask for a view; calls back when it is further, and when it is answered or
   * refused, unless something else was asked for meanwhile.
   */
  ask(
    connection: GraphConnection,
    graph: Graph | null,
    kind: PlotKind,
    window: IWindow | null,
    about: IAbout,
    { onProgress, onSettled }: { onProgress: () => void; onSettled: () => void }
  ): void {
    this._graph = graph;
    this.kind = kind;
    this.window = window;
    this.failure = null;
    this.progress = null;
    this._onSettled = onSettled;
    const part = isMap(kind) ? window : null;
    const of = this._node(kind);
    this._latest.ask(signal => {
      const tell = (progress: IProgress): void => {
        if (!signal.aborted) {
          this.progress = progress;
          onProgress();
        }
      };
      const { wrt, overrides } = this;
      const fields = { plot: kind, of, wrt, window: part, overrides, ...about };
      return answerTo(connection.ask('plot', fields, tell), signal);
    });
  }

  /** Let the kernel stop what it computes for this; nothing of it is wanted. */
  drop(): void {
    this._latest.drop();
  }

  /**
   * Stop, and wait no longer: the kernel ends at its next step, which may take a
   * while, and its answer is not wanted.
   */
  cancel(): void {
    if (this.waiting) {
      this.drop();
      this._refuse('Stopped.');
    }
  }

  /** Take an answer that came by itself. */
  receive(answer: IPlotAnswer, graph: Graph | null): void {
    this._graph = graph;
    this._take(answer, this.kind);
  }

  /** What was drawn before stays, and is what is shown. */
  private _refuse(why: string): void {
    this.failure = why;
    if (this.answer !== null) {
      this.kind = this.answered ?? this.kind;
      this.window = this._drawn;
      this.overrides = !this.answer.is_true;
    }
  }

  private _take(answer: IPlotAnswer, kind: PlotKind): void {
    this._drawn = this.window;
    this._shown = this._graph;
    this.answer = answer;
    this.answered = kind;
    this._chosen = answer.matrix?.of ?? this._chosen;
    // What is left out of the answer's list is not offered any more.
    this.views = answer.views.includes(kind) ? answer.views : [kind, ...answer.views];
  }

  /**
   * The node that a view is asked of. The pattern of a Jacobian has to name it, for
   * without a node it is the Hessian's.
   */
  private _node(kind: PlotKind): number | null {
    return kind === 'sparsity' && this.family === 'jacobian'
      ? (this.of ?? this._chosen)
      : this.of;
  }

  /** The graph that was asked about last. */
  private _graph: Graph | null = null;
  /** The graph that `answer` is of. */
  private _shown: Graph | null = null;
  /** The node that the kernel chose where none was named. */
  private _chosen: number | null = null;
  /** The part that `answer` shows. */
  private _drawn: IWindow | null = null;
  private _onSettled: () => void = () => undefined;
  private readonly _latest = new Latest<IPlotAnswer>({
    take: answer => this._take(answer, this.kind),
    fail: error => this._refuse(errorText(error)),
    settled: () => this._onSettled()
  });
}
