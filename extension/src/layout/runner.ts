/**
 * Runs layouts off the page's thread, in one worker that all views share; where
 * no worker can be had (a strict page, a test) the same code runs here.
 */

import { layOut } from './layout';
import { startWorker } from './start';
import { ILayout, ILayoutInput } from './types';
import type { IJob } from './worker';

/**
 * Up to so many boxes a layout takes a millisecond or two: less than a message
 * to a worker and back, and the picture is there in the same frame.
 */
export const AT_ONCE = 300;

export class LayoutRunner {
  /** The runner of all views on this page. */
  static get shared(): LayoutRunner {
    return (LayoutRunner._shared ??= new LayoutRunner(startWorker));
  }

  constructor(private readonly _start: () => Worker | null) {}

  /** Where the last layout ran. */
  get where(): 'worker' | 'page' | null {
    return this._where;
  }

  /**
   * Lay out, and hand the result over: at once for a small graph, else when the
   * worker is done. Returns a function that calls it off.
   */
  request(input: ILayoutInput, done: (layout: ILayout) => void): () => void {
    const worker = input.count > AT_ONCE ? this._worker() : null;
    if (worker === null) {
      this._where = 'page';
      done(layOut(input));
      return () => undefined;
    }
    const id = ++this._last;
    this._open.set(id, { input, done });
    const job: IJob = { id, input };
    // Not transferred: if the worker fails the page needs the input itself.
    worker.postMessage(job);
    return () => this._open.delete(id);
  }

  private _worker(): Worker | null {
    if (this._running !== undefined) {
      return this._running;
    }
    const worker = this._start();
    this._running = worker;
    if (worker !== null) {
      worker.onmessage = (event: MessageEvent<{ id: number; layout: ILayout }>) => {
        const { id, layout } = event.data;
        const waiting = this._open.get(id);
        this._open.delete(id);
        this._where = 'worker';
        waiting?.done(layout);
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
    this._where = 'page';
    for (const { input, done } of open) {
      done(layOut(input));
    }
  }

  private static _shared: LayoutRunner | undefined;
  private _running: Worker | null | undefined;
  private _where: 'worker' | 'page' | null = null;
  private _last = 0;
  private _open = new Map<
    number,
    { input: ILayoutInput; done: (layout: ILayout) => void }
  >();
}
