/**
 * The page's end of the wire: one connection for each live model, shared by all
 * its views. It holds the graph, acknowledges what was drawn, and turns answers
 * into promises. Nothing here knows the DOM.
 */

import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import type { IChannel, IReceived } from '../wire/channel';
import { checkMessage, sequenceOf, unpackMessage } from '../wire/guards';
import { Pieces } from '../wire/pieces';
import {
  IPieceMessage,
  IPictureMessage,
  IAbout,
  IPlotAnswer,
  IRequests,
  KernelMessage,
  PageEvent,
  RequestEvent,
  RequestName,
  SCHEMA
} from '../wire/protocol';
import {
  Answer,
  type Answered,
  type Asked,
  type IJob,
  ILongRequest,
  IProgress,
  type JobFields,
  type JobKind,
  Jobs,
  type IPictureReceived,
  type PictureName,
  type QuestionName,
  RequestError,
  Requests
} from '../wire/requests';
import { PictureError } from '../wire/schema';
import { Graph } from './graph';

/**
 * - `graph`, `values`: the graph changed, with other nodes or the same ones.
 * - `problem`: what the kernel sent cannot be drawn, or can again.
 * - `busy`: an answer takes longer than a moment, or came; or the kernel hears nothing
 *   until its cell is done, or hears again.
 * - `job`: a check or the doctor began, is further, or is done.
 * - `closed`: the kernel or the model is gone.
 */
export type ConnectionChange =
  'graph' | 'values' | 'problem' | 'busy' | 'job' | 'closed';

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
  /** Milliseconds until the state is asked for again; twice as many each time. */
  retry?: number;
}

/** Milliseconds until the state is asked for again at the latest. */
const LONGEST_RETRY = 60_000;

/** What was asked for as a picture, and its graph. */
export type Drawn<K extends PictureName> = Answered<K> & { graph: Graph };

/** The derivative as a program at one step of its simplification. */
export type IProgram = Drawn<'program'>;

/** The program inside a node, at one step of a loop. */
export type IInside = Drawn<'inside'>;

/** What is sent, without what the connection fills in. */
type Bare<E> = E extends PageEvent ? Omit<E, 'type' | 'seq' | 'request'> : never;
type Unsent = Bare<PageEvent>;

/** What changes the session. */
type Command = Bare<
  RequestEvent<
    { [K in RequestName]: IRequests[K]['answer'] extends null ? K : never }[RequestName]
  >
>;

const GONE = 'The kernel is gone: run the cell again.';
const LEFT = 'The session has ended: run the cell again.';

/** What ended a connection: the kernel, or, while that goes on, its session. */
export type End = 'kernel' | 'session';

const HELLO = { event: 'hello', schema: SCHEMA } as const;

export class GraphConnection implements IDisposable {
  constructor(options: IConnectionOptions) {
    this._channel = options.channel;
    this._afterDraw = options.afterDraw;
    this.interrupt = options.interrupt ?? null;
    this._requests = new Requests({
      patience: options.patience ?? 1000,
      timeout: options.timeout ?? 10 * 60 * 1000,
      onBusy: () => this.changed.emit('busy')
    });
    this._jobs = new Jobs({
      begin: (kind, fields, onProgress) =>
        this._begin({ event: kind, ...fields } as unknown as Unsent, 'done', onProgress),
      stop: this._stop.bind(this),
      onChange: () => {
        if (!this._isDisposed) {
          this.changed.emit('job');
        }
      }
    });
    this._retry = options.retry ?? 5000;
    this._channel.received.connect(this._onReceived, this);
    this.hello();
  }

  /** Stop what the kernel computes now; null where that cannot be done. */
  readonly interrupt: (() => void) | null;

  readonly changed = new Signal<this, ConnectionChange>(this);

  /** What the kernel says without being asked, and plots it shows by itself. */
  readonly noticed = new Signal<this, string>(this);
  readonly plotted = new Signal<this, IPlotAnswer>(this);

  graph: Graph | null = null;

  /** Why what the kernel sent last cannot be drawn. */
  problem: string | null = null;

  /** Whether an answer has been missing for longer than a moment. */
  get busy(): boolean {
    return this._requests.busy;
  }

  /** The check or diagnosis that runs; null if there is none. */
  get job(): IJob | null {
    return this._jobs.current;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Why it is closed: its kernel went, or its session alone; null while it is not. */
  get end(): End | null {
    return this._end;
  }

  /** Whether the kernel hears nothing until the cell that it runs is done. */
  get isDeaf(): boolean {
    return this._isDeaf;
  }

  setDeaf(deaf: boolean): void {
    if (deaf !== this._isDeaf && !this._isDisposed) {
      this._isDeaf = deaf;
      this.changed.emit('busy');
    }
  }

  /** Ask for a snapshot: at the start, and after the line was down. */
  hello(): void {
    this._drawn = 0;
    this._send(HELLO);
    this._askAgain(this._retry);
  }

  /** Ask once more if no state comes: what was asked may be lost. */
  private _askAgain(wait: number): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      // A kernel that is deaf has the question, and will answer.
      if (!this._isDeaf) {
        this._send({ ...HELLO, again: true });
      }
      this._askAgain(Math.min(2 * wait, LONGEST_RETRY));
    }, wait);
  }

  /**
   * Ask the kernel: `wire/protocol.ts` lists what, with the fields of each question and
   * its answer. A long one may say how far it is, and can be called off.
   */
  ask<K extends QuestionName>(
    name: K,
    fields: Asked<K> & IAbout,
    onProgress: ((progress: IProgress) => void) | null = null
  ): ILongRequest<Answered<K>> {
    const event = { event: name, ...fields } as unknown as Unsent;
    const { request, promise } = this._begin(event, name, onProgress);
    return {
      answer: promise as Promise<unknown> as Promise<Answered<K>>,
      stop: () => this._stop(request)
    };
  }

  /** Ask for another graph, which may be what to change in the one that is drawn. */
  draw<K extends PictureName>(name: K, fields: Asked<K> & IAbout): ILongRequest<Drawn<K>> {
    const { answer, stop } = this.ask(name, fields);
    const read = async (): Promise<Drawn<K>> => {
      const found = await answer;
      return { ...found, graph: Graph.read(found as IPictureReceived, this.graph) };
    };
    return { answer: read(), stop };
  }

  /** Change what is overridden; refused, it rejects with the reason. */
  async command(event: Command): Promise<void> {
    await this._begin(event, null).promise;
  }

  /** Check all rules and gradients, or ask the doctor; `job` tells how far it is. */
  async run<K extends JobKind>(kind: K, fields: JobFields<K>): Promise<void> {
    await this._jobs.run(kind, fields);
  }

  /** Stop the check or diagnosis that runs; what it has is kept. */
  stop(): void {
    this._jobs.stop();
  }

  /** The kernel or the session is gone: all that waits is told so. */
  dispose(end: End = 'kernel'): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._end = end;
    clearTimeout(this._timer);
    this._pieces.clear();
    this._channel.received.disconnect(this._onReceived, this);
    this._requests.close(end === 'kernel' ? GONE : LEFT);
    this.changed.emit('closed');
    Signal.clearData(this);
  }

  private _send(event: Unsent & { request?: number }): void {
    this._seq += 1;
    this._channel.send({ type: 'event', seq: this._seq, ...event } as PageEvent);
  }

  /** Stop a request: it answers itself, and to this there is no answer. */
  private _stop(of: number): void {
    this._begin({ event: 'stop', of }, null).promise.catch(() => undefined);
  }

  private _begin(
    event: Unsent,
    answer: Answer['type'] | null,
    onProgress: ((progress: IProgress) => void) | null = null
  ): { request: number; promise: Promise<Answer | null> } {
    if (this._isDisposed) {
      return { request: 0, promise: Promise.reject(new RequestError(GONE)) };
    }
    const opened = this._requests.open(answer, onProgress);
    this._send({ ...event, request: opened.request });
    return opened;
  }

  private _onReceived(_: unknown, received: IReceived): void {
    const { buffers } = received;
    let { content } = received;
    let message: KernelMessage;
    try {
      content = unpackMessage(content);
      message = checkMessage(content);
    } catch (error) {
      this._fail(error);
      this._acknowledge(sequenceOf(content));
      return;
    }
    switch (message.type) {
      case 'picture':
        this._onState(message, buffers);
        break;
      case 'piece':
        this._onPiece(message, buffers);
        break;
      case 'failure':
        if (
          message.request === null ||
          !this._requests.settle(message.request, new RequestError(message.message))
        ) {
          this.noticed.emit(message.message);
        }
        break;
      case 'plot':
        if (!this._requests.settle(message.request, message)) {
          this.plotted.emit(message);
        }
        break;
      case 'progress':
        this._requests.progress(message.request, message);
        break;
      default:
        this._requests.settle(
          message.request,
          'columns' in message ? { ...message, buffers } : message
        );
    }
    // The kernel waits for the word on a state, and for no other.
    if (message.type === 'picture') {
      this._acknowledge(message.seq);
    }
  }

  /** Put a piece of a state by, and ask for the next one: there is nothing to draw. */
  private _onPiece(message: IPieceMessage, buffers: readonly DataView[]): void {
    try {
      this._pieces.take(message, buffers);
    } catch (error) {
      this._fail(error);
    }
    // If no more of them come the state is asked for again.
    this._askAgain(this._retry);
    this._send({ event: 'ack', of: message.seq });
  }

  private _onState(message: IPictureMessage, buffers: readonly DataView[]): void {
    const before = this.graph;
    const isPatch = message.of !== null;
    // What is older than what is drawn has nothing new to say, nor has a patch while a
    // whole picture is on its way.
    const isAwaited = before !== null && this._drawn === 0;
    if (message.seq <= this._drawn || (isAwaited && isPatch)) {
      return;
    }
    const ours = message.pieces === undefined ? null : this._pieces.finish(message.pieces);
    if (message.pieces !== undefined && ours === null) {
      // A page that has come in the midst of it has asked for a state of its own.
      if (this._drawn !== 0) {
        this._startAgain();
      }
      return;
    }
    if (isPatch && (before === null || message.of !== this._drawn)) {
      // A patch of a state that never came.
      this._startAgain();
      return;
    }
    let graph: Graph;
    try {
      graph = Graph.read({ ...message, buffers: ours ?? buffers }, before, ours !== null);
    } catch (error) {
      if (isPatch) {
        // A patch for a graph that this page does not have.
        this._startAgain();
      } else {
        this._fail(error);
      }
      return;
    }
    this._drawn = message.seq;
    this._startedAgain = false;
    clearTimeout(this._timer);
    this.graph = graph;
    if (this.problem !== null) {
      this.problem = null;
      this.changed.emit('problem');
    }
    const same = before?.sameStructure(graph) ?? false;
    if (same && before !== null) {
      graph.shareStructure(before);
    }
    this.changed.emit(same ? 'values' : 'graph');
    this._requests.settleCommands(message.answers ?? undefined);
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
    this.problem = error.message;
    this.changed.emit('problem');
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

  private readonly _channel: IChannel;
  private readonly _afterDraw: (callback: () => void) => void;
  private readonly _requests: Requests;
  private readonly _jobs: Jobs;
  private readonly _retry: number;
  private readonly _pieces = new Pieces();
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDeaf = false;
  private _isDisposed = false;
  private _end: End | null = null;
  private _startedAgain = false;
  private _drawn = 0;
  private _seq = 0;
}
