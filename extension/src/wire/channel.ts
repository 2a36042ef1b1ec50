/** What the wire is made of, as the page sees it: whatever carries messages. */

import type { ISignal } from '@lumino/signaling';

import type { PageEvent } from './protocol';

/** A message as it comes off the wire, not yet looked at. */
export interface IReceived {
  content: unknown;
  buffers: readonly DataView[];
}

/** Milliseconds until events are sent though nothing says that they may be. */
const PATIENCE = 2000;

/** What carries messages: the comm of a widget model. */
export interface IChannel {
  readonly received: ISignal<unknown, IReceived>;
  send(event: PageEvent): void;
}

/** Passes events on in their order: at once, or when it is ready, and never after. */
export class Gate {
  /**
   * Without `ready` it is open. With it, events are kept until it has come to an end,
   * good or bad, or `PATIENCE` is over: it may be a promise that nobody keeps.
   */
  constructor(
    private readonly _send: (event: PageEvent) => void,
    ready: Promise<unknown> | null
  ) {
    if (ready !== null) {
      this._kept = [];
      this._timer = setTimeout(this._open, PATIENCE);
      ready.then(this._open, this._open);
    }
  }

  send(event: PageEvent): void {
    if (this._isClosed) {
      return;
    }
    if (this._kept !== null) {
      this._kept.push(event);
    } else {
      this._send(event);
    }
  }

  /** Nobody listens any more: what is kept is let go. */
  close(): void {
    clearTimeout(this._timer);
    this._isClosed = true;
    this._kept = null;
  }

  private readonly _open = (): void => {
    clearTimeout(this._timer);
    // What comes meanwhile is last in the line.
    for (const event of this._kept ?? []) {
      this._send(event);
    }
    this._kept = null;
  };

  /** Null once it is open. */
  private _kept: PageEvent[] | null = null;
  private _isClosed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** What is used of a comm of JupyterLab's; each part came with some version. */
export interface ILane {
  readonly subshellStarted?: Promise<unknown>;
  readonly commsOverSubshells?: unknown;
}

/** Whether a kernel has subshells, to be asked once `info` is there. */
export interface ISubshells {
  readonly info?: Promise<unknown>;
  readonly supportsSubshells?: boolean;
}

/**
 * Whether a comm has its own lane in the kernel, so that what it says is heard while a
 * cell runs: said before that is known, it would wait behind all cells. Null where
 * there is none, so that nothing needs to wait.
 */
export function waitForLane(
  comm: ILane | undefined,
  kernel: ISubshells | null
): Promise<boolean> | null {
  const started = comm?.subshellStarted?.then(
    () => true,
    () => false
  );
  if (started === undefined || comm?.commsOverSubshells === 'disabled') {
    return null;
  }
  return kernel?.info === undefined
    ? started
    : kernel.info.then(() => (kernel.supportsSubshells === false ? false : started));
}
