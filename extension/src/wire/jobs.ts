/** The gradient check and the doctor: they run long, one at a time. */

import { IProgress, RequestError } from './requests';

export type JobKind = 'check' | 'diagnose';

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
    onProgress: (progress: IProgress) => void
  ) => { request: number; promise: Promise<unknown> };
  /** Ask the kernel to stop a request. */
  stop: (request: number) => void;
  onChange: () => void;
}

const NAMES: Record<JobKind, string> = {
  check: 'a gradient check',
  diagnose: 'a diagnosis'
};

export class Jobs {
  constructor(private readonly _options: IJobsOptions) {}

  /** What runs; null if nothing does. */
  get current(): IJob | null {
    return this._job;
  }

  /** Run one until it is done or was stopped. */
  async run(kind: JobKind): Promise<void> {
    if (this._job !== null) {
      throw new RequestError(
        `The kernel is at ${NAMES[this._job.kind]} already: stop it first, or wait.`
      );
    }
    const job: IJob = { kind, progress: null, stopping: false };
    this._job = job;
    const { begin, onChange } = this._options;
    const { request, promise } = begin(kind, progress => {
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
