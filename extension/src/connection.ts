/**
 * The page's end of the wire: one connection for each live model, shared by all
 * its views. It holds the graph, acknowledges what was drawn, and turns answers
 * into promises. Nothing here knows the DOM.
 */

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Graph } from './graph';
import { checkMessage } from './guards';
import { IDetail, KernelMessage, PageEvent, SCHEMA, Target } from './protocol';
import { PictureError } from './reading';

/** A message as it comes off the wire, not yet looked at. */
export interface IReceived {
  content: unknown;
  buffers: readonly DataView[];
}

/** What carries messages: the comm of a widget model. */
export interface IChannel {
  readonly received: ISignal<unknown, IReceived>;
  send(event: PageEvent): void;
}

/**
 * - `graph`, `values`: the graph changed, with other nodes or the same ones.
 * - `problem`: what the kernel sent cannot be drawn, or can again.
 * - `busy`: an answer takes longer than a moment, or came.
 * - `closed`: the kernel or the model is gone.
 */
export type ConnectionChange = 'graph' | 'values' | 'problem' | 'busy' | 'closed';

export type ExpressionAnswer = Extract<KernelMessage, { type: 'expression' }>;
export type PlotAnswer = Extract<KernelMessage, { type: 'plot' }>;
export type PlotKind = Extract<PageEvent, { event: 'plot' }>['plot'];

export interface IConnectionOptions {
  channel: IChannel;
  /** Calls back when the page has drawn what it was told so far. */
  afterDraw: (callback: () => void) => void;
  /** Stops what the kernel computes now; absent where that cannot be done. */
  interrupt?: () => void;
  /** Milliseconds until a missing answer is worth a spinner. */
  patience?: number;
  /** Milliseconds until a missing answer is given up. */
  timeout?: number;
}

/** The kernel said no, or cannot be asked any more: the message is for people. */
export class RequestError extends Error {}

/** An event without what the connection fills in. */
type Bare<E> = E extends { request: number }
  ? Omit<E, 'type' | 'seq' | 'request'>
  : never;

type Answer = IDetail | ExpressionAnswer | PlotAnswer;

interface IPending {
  /** Null for a command, which is answered by a failure or not at all. */
  answer: Answer['type'] | null;
  resolve: (message: Answer | null) => void;
  reject: (reason: RequestError) => void;
  since: number;
}

const GONE = 'The kernel is gone: run the cell again.';

export class GraphConnection implements IDisposable {
  constructor(options: IConnectionOptions) {
    this._channel = options.channel;
    this._afterDraw = options.afterDraw;
    this.interrupt = options.interrupt ?? null;
    this._patience = options.patience ?? 1000;
    this._timeout = options.timeout ?? 10 * 60 * 1000;
    this._channel.received.connect(this._onReceived, this);
    this.hello();
  }

  /** Stop what the kernel computes now; null where that cannot be done. */
  readonly interrupt: (() => void) | null;

  get changed(): ISignal<this, ConnectionChange> {
    return this._changed;
  }

  /** What the kernel says without being asked, and plots it shows by itself. */
  get noticed(): ISignal<this, string> {
    return this._noticed;
  }

  get plotted(): ISignal<this, PlotAnswer> {
    return this._plotted;
  }

  get graph(): Graph | null {
    return this._graph;
  }

  /** Why what the kernel sent last cannot be drawn. */
  get problem(): string | null {
    return this._problem;
  }

  /** Whether an answer has been missing for longer than a moment. */
  get busy(): boolean {
    return this._busy;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Ask for a snapshot: at the start, and after the line was down. */
  hello(): void {
    this._drawn = 0;
    this._send({ event: 'hello', schema: SCHEMA });
  }

  /** The distributions and small arrays of a node. */
  async inspect(node: number): Promise<IDetail> {
    return (await this._request({ event: 'inspect', node }, 'detail')) as IDetail;
  }

  /** Whether the kernel would take this rule for this target. */
  async checkExpression(target: Target, rule: string): Promise<ExpressionAnswer> {
    const event = { event: 'check-expression', target, rule } as const;
    return (await this._request(event, 'expression')) as ExpressionAnswer;
  }

  /** A figure; may take as long as the derivative takes. */
  async plot(plot: PlotKind, of: number | null, wrt: number[]): Promise<PlotAnswer> {
    const event = { event: 'plot', plot, of, wrt } as const;
    return (await this._request(event, 'plot')) as PlotAnswer;
  }

  /** Attach a rule, or with `id` replace that of an override. */
  async override(
    target: Target,
    rule: string,
    label: string,
    id?: number
  ): Promise<void> {
    const known = id === undefined ? {} : { id };
    const event = { event: 'override', target, rule, label, ...known } as const;
    await this._request(event, null);
  }

  async switchOverride(id: number, enabled: boolean): Promise<void> {
    await this._request({ event: 'switch', id, enabled }, null);
  }

  async removeOverride(id: number): Promise<void> {
    await this._request({ event: 'remove', id }, null);
  }

  async undo(): Promise<void> {
    await this._request({ event: 'undo' }, null);
  }

  async redo(): Promise<void> {
    await this._request({ event: 'redo' }, null);
  }

  /** The kernel or the model is gone: all that waits is told so. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._channel.received.disconnect(this._onReceived, this);
    clearTimeout(this._timer);
    const pending = [...this._pending.values()];
    this._pending.clear();
    this._busy = false;
    for (const { reject } of pending) {
      reject(new RequestError(GONE));
    }
    this._changed.emit('closed');
    Signal.clearData(this);
  }

  private _send(
    event:
      | { event: 'hello'; schema: number }
      | { event: 'ack'; of: number }
      | (Bare<PageEvent> & { request: number })
  ): void {
    this._seq += 1;
    this._channel.send({ type: 'event', seq: this._seq, ...event });
  }

  private _request(
    event: Bare<PageEvent>,
    answer: IPending['answer']
  ): Promise<Answer | null> {
    if (this._isDisposed) {
      return Promise.reject(new RequestError(GONE));
    }
    const request = ++this._requests;
    const promise = new Promise<Answer | null>((resolve, reject) => {
      this._pending.set(request, { answer, resolve, reject, since: Date.now() });
    });
    this._send({ ...event, request });
    this._watch();
    return promise;
  }

  private _onReceived(_: unknown, { content, buffers }: IReceived): void {
    let message: KernelMessage;
    try {
      message = checkMessage(content);
    } catch (error) {
      this._fail(error);
      this._acknowledge(sequenceOf(content));
      return;
    }
    switch (message.type) {
      case 'snapshot':
      case 'patch':
        this._onState(message, buffers);
        break;
      case 'failure':
        if (
          message.request === null ||
          !this._settle(message.request, new RequestError(message.message))
        ) {
          this._noticed.emit(message.message);
        }
        break;
      case 'plot':
        if (!this._settle(message.request, message)) {
          this._plotted.emit(message);
        }
        break;
      default:
        this._settle(message.request, message);
    }
    this._acknowledge(message.seq);
  }

  private _onState(
    message: Extract<KernelMessage, { type: 'snapshot' | 'patch' }>,
    buffers: readonly DataView[]
  ): void {
    // What is older than what is drawn has nothing new to say.
    if (message.seq <= this._drawn) {
      return;
    }
    const before = this._graph;
    let graph: Graph;
    try {
      if (message.type === 'snapshot') {
        graph = Graph.fromMessage(message.header, buffers);
      } else if (before === null) {
        this._startAgain();
        return;
      } else {
        graph = before.patched(message.header, message.columns, buffers);
      }
    } catch (error) {
      if (message.type === 'patch') {
        // A patch for a graph that this page does not have.
        this._startAgain();
      } else {
        this._fail(error);
      }
      return;
    }
    this._drawn = message.seq;
    this._startedAgain = false;
    this._graph = graph;
    if (this._problem !== null) {
      this._problem = null;
      this._changed.emit('problem');
    }
    const same = before?.sameStructure(graph) ?? false;
    this._changed.emit(same ? 'values' : 'graph');
    const { header } = message;
    if ('overrides' in header || 'undo' in header || 'redo' in header) {
      this._settleCommands(Infinity);
    }
  }

  /** Ask for a whole snapshot, once, until one comes. */
  private _startAgain(): void {
    if (!this._startedAgain) {
      this._startedAgain = true;
      this.hello();
    }
  }

  private _fail(error: unknown): void {
    if (!(error instanceof PictureError)) {
      throw error;
    }
    this._problem = error.message;
    this._changed.emit('problem');
  }

  /**
   * Give a request its answer. The kernel answers in order, so the commands sent
   * before it, which are answered only when they fail, have not failed.
   */
  private _settle(request: number, result: Answer | RequestError): boolean {
    const pending = this._pending.get(request);
    this._settleCommands(request);
    if (pending === undefined) {
      return false;
    }
    this._pending.delete(request);
    if (result instanceof RequestError) {
      pending.reject(result);
    } else if (result.type === pending.answer) {
      pending.resolve(result);
    } else {
      pending.reject(new RequestError('The kernel answered another question.'));
    }
    this._watch();
    return true;
  }

  private _settleCommands(before: number): void {
    for (const [request, { answer, resolve }] of this._pending) {
      if (answer === null && request < before) {
        this._pending.delete(request);
        resolve(null);
      }
    }
    this._watch();
  }

  private _acknowledge(of: number | null): void {
    if (of === null) {
      return;
    }
    this._afterDraw(() => {
      if (!this._isDisposed) {
        this._send({ event: 'ack', of });
      }
    });
  }

  /** Look again when the oldest request runs out of patience, or of time. */
  private _watch(): void {
    clearTimeout(this._timer);
    const now = Date.now();
    let next = Infinity;
    let busy = false;
    for (const [request, { since, reject }] of this._pending) {
      const waited = now - since;
      if (waited >= this._timeout) {
        this._pending.delete(request);
        const minutes = Math.max(1, Math.round(this._timeout / 60000));
        reject(
          new RequestError(`No answer from the kernel for ${minutes} min; ask again.`)
        );
        continue;
      }
      busy ||= waited >= this._patience;
      const left = waited < this._patience ? this._patience : this._timeout;
      next = Math.min(next, left - waited);
    }
    if (next < Infinity) {
      this._timer = setTimeout(() => {
        this._watch();
      }, next);
    }
    if (busy !== this._busy) {
      this._busy = busy;
      this._changed.emit('busy');
    }
  }

  private readonly _channel: IChannel;
  private readonly _afterDraw: (callback: () => void) => void;
  private readonly _patience: number;
  private readonly _timeout: number;
  private readonly _changed = new Signal<this, ConnectionChange>(this);
  private readonly _noticed = new Signal<this, string>(this);
  private readonly _plotted = new Signal<this, PlotAnswer>(this);
  private readonly _pending = new Map<number, IPending>();
  private _graph: Graph | null = null;
  private _problem: string | null = null;
  private _busy = false;
  private _isDisposed = false;
  private _startedAgain = false;
  private _drawn = 0;
  private _requests = 0;
  private _seq = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** The sequence number of a message that is not understood. */
function sequenceOf(content: unknown): number | null {
  if (typeof content !== 'object' || content === null) {
    return null;
  }
  const { seq } = content as { seq?: unknown };
  return typeof seq === 'number' && Number.isInteger(seq) ? seq : null;
}
