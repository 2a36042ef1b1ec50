/** What the kernel is asked about the selected node, while values stream. */

import type { GraphConnection } from '../model/connection';
import { errorText } from '../ui/words';
import type { IHost, Reason } from './host';

/**
 * The answer to a question about the selected node. While values stream it is asked
 * again and again, but never twice at once: a busy kernel finds one question.
 */
export class NodeQuestion<T> {
  constructor(
    private readonly _host: IHost,
    private readonly _onChange: () => void,
    private readonly _put: (connection: GraphConnection, node: number) => Promise<T>,
    /** Milliseconds between two questions about a node, at least. */
    private readonly _rhythm: number
  ) {}

  /** The kernel's answer about the selected node; null until it comes. */
  answer: T | null = null;

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { selected } = this._host.state;
    if (selected !== this._node || reason !== 'values') {
      this._node = selected;
      this.answer = null;
      this._asking = null;
      this._ask();
    } else if (this._asking !== null) {
      this._again = true;
    } else {
      this._askLater();
    }
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._asking = null;
    this._node = null;
  }

  private _askLater(): void {
    clearTimeout(this._timer);
    const wait = Math.max(0, this._asked + this._rhythm - Date.now());
    this._timer = setTimeout(() => {
      this._ask();
    }, wait);
  }

  private _ask(): void {
    clearTimeout(this._timer);
    const { connection } = this._host;
    if (this._node === null || connection === null) {
      return;
    }
    this._asked = Date.now();
    this._again = false;
    const asking = this._put(connection, this._node);
    this._asking = asking;
    asking.then(
      answer => {
        if (asking === this._asking) {
          this.answer = answer;
          this._onChange();
          this._settle();
        }
      },
      (error: unknown) => {
        if (asking === this._asking && this._host.connection !== null) {
          this._host.say(errorText(error), 'error');
          this._settle();
        }
      }
    );
  }

  private _settle(): void {
    this._asking = null;
    if (this._again) {
      this._askLater();
    }
  }

  private _node: number | null = null;
  private _asking: Promise<T> | null = null;
  private _again = false;
  private _asked = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
