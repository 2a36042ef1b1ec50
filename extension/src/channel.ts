/** What the wire is made of, as the page sees it: whatever carries messages. */

import type { ISignal } from '@lumino/signaling';

import type { PageEvent } from './protocol';

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
