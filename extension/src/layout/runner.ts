/**
 * Runs layouts and foldings off the page's thread, in one worker that all views
 * share; where no worker can be had (a strict page, a test) the same code runs here.
 */

import type { IFoldInput, IFolded } from '../model/folds';
import { startWorker } from './start';
import { ILayout, ILayoutInput } from './types';
import { type IWork, type Task, perform } from './work';
import type { IJob } from './worker';

/**
 * Up to so many boxes a layout takes a millisecond or two: less than a message
 * to a worker and back, and the picture is there in the same frame.
 */
export const AT_ONCE = 300;

/** Up to so many nodes it is found as quickly how a program is folded. */
export const FOLDED_AT_ONCE = 5000;

/**
 * Of fewer nodes the parts of a picture are made in one task: beyond, the page is to
 * answer in between.
 */
export const IN_ONE_TASK = 100_000;

/** Which thread has done it. */
type Where = 'worker' | 'page';

type Output = IWork[keyof IWork]['output'];

/** A message of the worker. */
interface IDone {
  id: number;
  output: Output;
}

export class LayoutRunner {
  /** The runner of all views on this page. */
  static get shared(): LayoutRunner {
    return (LayoutRunner._shared ??= new LayoutRunner(startWorker));
  }

  constructor(private readonly _start: () => Worker | null) {}

  /** Where the last layout ran. */
  get where(): Where | null {
    return this._where;
  }

  /** Lay out: at once for a small graph, else in the worker if there is one. */
  lay(input: ILayoutInput, signal?: AbortSignal): ILayout | Promise<ILayout> {
    const isLarge = input.count > AT_ONCE;
    return this._run({ kind: 'layout', input }, isLarge, signal, (output, where) => {
      this._where = where;
      return output as ILayout;
    });
  }

  /** Find how a program is folded, in the worker if there is one. */
  fold(input: IFoldInput, signal?: AbortSignal): IFolded | Promise<IFolded> {
    return this._run({ kind: 'folds', input }, true, signal, output => output as IFolded);
  }

  /** The result as `read` reads it; never that of a task that was called off. */
  private _run<T>(
    task: Task,
    isLarge: boolean,
    signal: AbortSignal | undefined,
    read: (output: Output, where: Where) => T
  ): T | Promise<T> {
    const worker = isLarge ? this._worker() : null;
    if (worker === null) {
      return read(perform(task).output, 'page');
    }
    const id = ++this._last;
    signal?.addEventListener('abort', () => this._open.delete(id));
    return new Promise(resolve => {
      const done = (output: Output, where: Where): void => resolve(read(output, where));
      this._open.set(id, { task, done });
      const job: IJob = { id, task };
      // Not transferred: if the worker fails the page needs the input itself.
      worker.postMessage(job);
    });
  }

  private _worker(): Worker | null {
    if (this._running !== undefined) {
      return this._running;
    }
    const worker = this._start();
    this._running = worker;
    if (worker !== null) {
      worker.onmessage = (event: MessageEvent<IDone>) => {
        const { id, output } = event.data;
        const waiting = this._open.get(id);
        this._open.delete(id);
        waiting?.done(output, 'worker');
      };
      worker.onerror = event => {
        event.preventDefault();
        this._giveUp(worker);
      };
    }
    return worker;
  }

  /** Do without a worker from now on, and do here what it was asked for. */
  private _giveUp(worker: Worker): void {
    worker.terminate();
    this._running = null;
    const open = [...this._open.values()];
    this._open.clear();
    for (const { task, done } of open) {
      done(perform(task).output, 'page');
    }
  }

  private static _shared: LayoutRunner | undefined;
  private _running: Worker | null | undefined;
  private _where: Where | null = null;
  private _last = 0;
  private _open = new Map<
    number,
    { task: Task; done: (output: Output, where: Where) => void }
  >();
}
