/** A kernel for tests: what it was sent is kept, what it sends is written out. */

import { Signal } from '@lumino/signaling';

import { GraphConnection } from '../../src/model/connection';
import type { IChannel, IReceived } from '../../src/wire/channel';
import type { IHeader, PageEvent } from '../../src/wire/protocol';
import type { INetwork } from './network';

/** The event of a name; undo and redo are one of two names. */
type EventOf<N extends PageEvent['event'], E = PageEvent> = E extends {
  event: infer Names;
}
  ? N extends Names
    ? E
    : never
  : never;

/** What a message says that carries a whole picture. */
export function whole(header: IHeader): Record<string, unknown> {
  return { of: null, header, columns: header.columns };
}

export class TestKernel implements IChannel {
  readonly sent: PageEvent[] = [];
  readonly received = new Signal<this, IReceived>(this);

  /** A connection to it that acknowledges at once. */
  connect(patience = 1000, timeout = 60_000, interrupt?: () => void): GraphConnection {
    return new GraphConnection({
      channel: this,
      afterDraw: callback => {
        callback();
      },
      patience,
      timeout,
      ...(interrupt && { interrupt })
    });
  }

  send(event: PageEvent): void {
    this.sent.push(event);
  }

  /** The events of one name that the page sent, in order. */
  events<N extends PageEvent['event']>(name: N): EventOf<N>[] {
    return this.sent.filter((event): event is EventOf<N> => event.event === name);
  }

  /** The last event of a name. */
  last<N extends PageEvent['event']>(name: N): EventOf<N> {
    const event = this.events(name).at(-1);
    if (event === undefined) {
      throw new Error(`the page sent no ${name}`);
    }
    return event;
  }

  /**
   * Send a message. Of a picture it is enough to say whether it is a snapshot or a patch:
   * that is of the last state, and answers nothing, if it is not said.
   */
  tell(content: Record<string, unknown>, buffers: DataView[] = []): number {
    const seq = ++this._seq;
    const { type, header } = content;
    let more: Record<string, unknown> = {};
    if (type === 'patch') {
      more = { of: this._state, answers: 0, ...content, type: 'picture' };
    } else if (type === 'snapshot') {
      more = { ...whole(header as IHeader), answers: null, ...content, type: 'picture' };
    }
    this.received.emit({ content: { seq, ...content, ...more }, buffers });
    if (type === 'patch' || type === 'snapshot') {
      this._state = seq;
    }
    return seq;
  }

  snapshot({ header, buffers }: INetwork): number {
    return this.tell({ type: 'snapshot', header }, buffers);
  }

  /** The buffers of a state in pieces of so many bytes; what names them there. */
  pieces(buffers: readonly DataView[], size: number, lost = -1): { pieces: number } {
    const sizes = buffers.map(({ byteLength }) => byteLength);
    const bytes = buffers.flatMap(one => [
      ...new Uint8Array(one.buffer, one.byteOffset, one.byteLength)
    ]);
    const first = this._seq + 1;
    for (let start = 0; start < bytes.length; start += size) {
      const part = Uint8Array.from(bytes.slice(start, start + size));
      const content = { type: 'piece', first, start, sizes };
      if (start / size === lost) {
        this._seq += 1;
      } else {
        this.tell(content, [new DataView(part.buffer)]);
      }
    }
    return { pieces: first };
  }

  /** A patch of the columns named, and of fields of the header. */
  patch(
    { header, buffers }: INetwork,
    names: readonly string[],
    fields: Record<string, unknown> = {},
    more: { of?: number; answers?: number | null } = {}
  ): number {
    const chosen = header.columns.flatMap(({ name }, i) =>
      names.includes(name) ? [i] : []
    );
    const columns = chosen.map(i => header.columns[i]);
    return this.tell(
      { type: 'patch', header: fields, columns, ...more },
      chosen.map(i => buffers[i])
    );
  }

  private _seq = 0;
  private _state = 0;
}
