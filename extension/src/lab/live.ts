/**
 * Which pictures are live: the connections of this page under the ids of their
 * widget models. A saved picture looks here for the model that it is of, and
 * hears when one comes or goes. Nothing here knows the DOM.
 */

import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { GraphConnection } from '../model/connection';

export class LiveGraphs {
  /** The id of a model that came or went. */
  readonly changed = new Signal<this, string>(this);

  get(modelId: string): GraphConnection | null {
    return this._connections.get(modelId) ?? null;
  }

  /** Make a connection known until it is closed or the result is disposed. */
  add(modelId: string, connection: GraphConnection): IDisposable {
    this._connections.set(modelId, connection);
    const forget = new DisposableDelegate(() => {
      if (this._connections.get(modelId) === connection) {
        this._connections.delete(modelId);
        this.changed.emit(modelId);
      }
    });
    connection.changed.connect((_, change) => {
      if (change === 'closed') {
        forget.dispose();
      }
    });
    this.changed.emit(modelId);
    return forget;
  }

  private readonly _connections = new Map<string, GraphConnection>();
}

/** The live pictures of this page. */
export const liveGraphs = new LiveGraphs();
