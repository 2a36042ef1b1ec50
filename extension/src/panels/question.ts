/** What the kernel is asked about the selected node, while values stream. */

import type { GraphConnection } from '../model/connection';
import { Latest } from '../model/latest';
import { errorText } from '../ui/words';
import type { INodeHost, Reason } from './host';

/**
 * The answer to a question about the selected node. While values stream it is asked
 * again and again, but never twice at once: a busy kernel finds one question.
 */
export class NodeQuestion<T> {
  constructor(
    protected readonly host: INodeHost,
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
    const { connection, recording, state } = this.host;
    const { selected } = state;
    const at = recording.about.at ?? null;
    const isOther = selected !== this._node || at !== this._at || reason !== 'values';
    if (isOther) {
      this._node = selected;
      this._at = at;
      this.answer = null;
      this._latest.drop();
    }
    if (selected !== null && connection !== null && recording.isWhole) {
      const put = (): Promise<T> => this._put(connection, selected);
      this._latest.askNext(put, isOther ? 0 : this._rhythm);
    }
  }

  dispose(): void {
    this._latest.drop();
    this._node = null;
  }

  private _node: number | null = null;
  /** The past run that was asked about. */
  private _at: number | null = null;
  private readonly _latest = new Latest<T>({
    take: answer => {
      this.answer = answer;
      this._onChange();
    },
    fail: error => {
      if (this.host.connection !== null) {
        this.host.say(errorText(error), 'error');
      }
    }
  });
}
