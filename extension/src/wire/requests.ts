/**
 * What the page has asked and not yet been told: each request waits for its
 * answer, at most so long, and after a moment it is worth a spinner.
 */

import type {
  IAbout,
  IFailureMessage,
  IPicture,
  IProgressMessage,
  IRequests,
  KernelMessage,
  RequestName
} from './protocol';

/** The kernel said no, or cannot be asked any more: the message is for people. */
export class RequestError extends Error {}

/** What answers a request that is no command; a picture comes with buffers. */
export type Answer = Exclude<
  Extract<KernelMessage, { request: number | null }>,
  IProgressMessage | IFailureMessage
> & { buffers?: readonly DataView[] };

/** What is sent with a request. */
export type Asked<K extends RequestName> = IRequests[K]['asked'];

/** A picture with the buffers that came with it. */
export type IPictureReceived = IPicture & { buffers: readonly DataView[] };

/** What a request is answered with; a picture has its buffers. */
export type Answered<K extends RequestName> = IRequests[K]['answer'] extends IPicture
  ? IRequests[K]['answer'] & IPictureReceived
  : IRequests[K]['answer'];

/** The requests that are answered by a message of their name. */
export type QuestionName = {
  [K in RequestName]: IRequests[K]['answer'] extends { type: K } ? K : never;
}[RequestName];

/** Those that are answered with a picture. */
export type PictureName = {
  [K in RequestName]: IRequests[K]['answer'] extends IPicture ? K : never;
}[RequestName];

/** What was asked for: its answer, and how to call it off. */
export interface ILongRequest<T> {
  readonly answer: Promise<T>;
  /** It is not wanted any more. */
  stop(): void;
}

/** How far a long request is. */
export interface IProgress {
  done: number;
  total: number;
  /** Seconds left, as far as can be told. */
  left: number | null;
}

export interface IRequestOptions {
  /** Milliseconds until a missing answer is worth a spinner. */
  patience: number;
  /** Milliseconds without an answer, or word of progress, until it is given up. */
  timeout: number;
  /** An answer takes longer than a moment, or came. */
  onBusy: () => void;
}

interface IPending {
  /** Null for a command, which is answered by a failure or by a state. */
  answer: Answer['type'] | null;
  onProgress: ((progress: IProgress) => void) | null;
  /** Whether it tells how far it is: then there is something better than a spinner. */
  told: boolean;
  resolve: (message: Answer | null) => void;
  reject: (reason: RequestError) => void;
  since: number;
}

/**
 * The kernel sends its answers to all pages of a session. So the numbers of a page begin
 * at random, as `session/wire/protocol/events.py` says; all are exact in a double.
 */
const PAGE_REQUESTS = 2 ** 20;
const MOST_PAGES = 2 ** 32;

export class Requests {
  constructor(private readonly _options: IRequestOptions) {}

  /** Whether an answer has been missing for longer than a moment. */
  get busy(): boolean {
    return this._busy;
  }

  /** A new request: its number and the promise of its answer. */
  open(
    answer: Answer['type'] | null,
    onProgress: ((progress: IProgress) => void) | null = null
  ): { request: number; promise: Promise<Answer | null> } {
    const request = ++this._last;
    const promise = new Promise<Answer | null>((resolve, reject) => {
      this._pending.set(request, {
        answer,
        onProgress,
        told: false,
        resolve,
        reject,
        since: Date.now()
      });
    });
    this._watch();
    return { request, promise };
  }

  /** Give a request its answer. */
  settle(request: number, result: Answer | RequestError): boolean {
    const pending = this._pending.get(request);
    if (pending === undefined) {
      return false;
    }
    this._pending.delete(request);
    if (result instanceof RequestError) {
      pending.reject(result);
    } else if (result.type === pending.answer) {
      pending.resolve(result);
    } else {
      pending.reject(new RequestError('The kernel answered a different request.'));
    }
    this._watch();
    return true;
  }

  /** The commands up to a request are done, if it is one of this page. */
  settleCommands(last = this._last): void {
    if (last > this._last) {
      return;
    }
    for (const [request, { answer, resolve }] of this._pending) {
      if (answer === null && request <= last) {
        this._pending.delete(request);
        resolve(null);
      }
    }
    this._watch();
  }

  /** A request is on its way: it is not given up while it says so. */
  progress(request: number, { done, total, left }: IProgress): void {
    const pending = this._pending.get(request);
    if (pending !== undefined) {
      pending.since = Date.now();
      pending.told = true;
      pending.onProgress?.({ done, total, left });
      this._watch();
    }
  }

  /** No answer will come any more: all that waits is told why. */
  close(reason: string): void {
    clearTimeout(this._timer);
    const pending = [...this._pending.values()];
    this._pending.clear();
    this._busy = false;
    for (const { reject } of pending) {
      reject(new RequestError(reason));
    }
  }

  /** Look again when the oldest request runs out of patience, or of time. */
  private _watch(): void {
    clearTimeout(this._timer);
    const { patience, timeout, onBusy } = this._options;
    const now = Date.now();
    let next = Infinity;
    let busy = false;
    for (const [request, { since, reject, told }] of this._pending) {
      const waited = now - since;
      if (waited >= timeout) {
        this._pending.delete(request);
        const minutes = Math.max(1, Math.round(timeout / 60000));
        reject(
          new RequestError(`No answer from the kernel for ${minutes} min; try again.`)
        );
        continue;
      }
      busy ||= !told && waited >= patience;
      const left = waited < patience ? patience : timeout;
      next = Math.min(next, left - waited);
    }
    if (next < Infinity) {
      this._timer = setTimeout(() => {
        this._watch();
      }, next);
    }
    if (busy !== this._busy) {
      this._busy = busy;
      onBusy();
    }
  }

  private readonly _pending = new Map<number, IPending>();
  private _busy = false;
  private _last = drawFirst();
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** The number of no request, after which those of this page come. */
function drawFirst(): number {
  return Math.floor(Math.random() * MOST_PAGES) * PAGE_REQUESTS;
}

// The gradient check, the doctor, the profile and a branch: they run long, one at a time.

export type JobKind = 'check' | 'diagnose' | 'profile' | 'run-again';

/** What each of them is asked besides. */
export type JobFields<K extends JobKind> = IRequests[K]['asked'] & IAbout;

export interface IJob {
  readonly kind: JobKind;
  /** Null until the kernel says how far it is. */
  progress: IProgress | null;
  /** Whether it was asked to stop. */
  stopping: boolean;
}

interface IJobsOptions {
  begin: (
    kind: JobKind,
    fields: JobFields<JobKind>,
    onProgress: (progress: IProgress) => void
  ) => { request: number; promise: Promise<unknown> };
  /** Ask the kernel to stop a request. */
  stop: (request: number) => void;
  onChange: () => void;
}

const NAMES: Record<JobKind, string> = {
  check: 'a gradient check',
  diagnose: 'a diagnosis',
  profile: 'a profile',
  'run-again': 'a branch'
};

export class Jobs {
  constructor(private readonly _options: IJobsOptions) {}

  /** What runs; null if nothing does. */
  get current(): IJob | null {
    return this._job;
  }

  /** Run one until it is done or was stopped. */
  async run<K extends JobKind>(kind: K, fields: JobFields<K>): Promise<void> {
    if (this._job !== null) {
      throw new RequestError(
        `The kernel is already running ${NAMES[this._job.kind]}: stop it first, or wait.`
      );
    }
    const job: IJob = { kind, progress: null, stopping: false };
    this._job = job;
    const { begin, onChange } = this._options;
    const { request, promise } = begin(kind, fields, progress => {
      job.progress = progress;
      onChange();
    });
    this._request = request;
    onChange();
    try {
      await promise;
    } finally {
      this._job = null;
      onChange();
    }
  }

  /** Stop what runs; what it has is kept. */
  stop(): void {
    if (this._job !== null && !this._job.stopping) {
      this._job.stopping = true;
      this._options.stop(this._request);
      this._options.onChange();
    }
  }

  private _job: IJob | null = null;
  private _request = 0;
}
