/**
 * Which pictures are live: the connections of this page under the ids of their
 * widget models. A saved picture looks here for the model that it is of, and
 * hears when one comes or goes. Nothing here knows the DOM.
 */

import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { GraphConnection } from '../model/connection';

export interface ILiveGraph {
  readonly modelId: string;
  readonly connection: GraphConnection;
  /** Null where the kernel is not known, as in pages other than JupyterLab. */
  readonly kernelId: string | null;
}

export class LiveGraphs {
  /** The id of a model that came or went. */
  readonly changed = new Signal<this, string>(this);

  get(modelId: string): GraphConnection | null {
    return this._known.get(modelId)?.connection ?? null;
  }

  /** The live graphs of a kernel, the oldest first. */
  list(kernelId: string): readonly ILiveGraph[] {
    return [...this._known.values()].filter(one => one.kernelId === kernelId);
  }

  /** Make a connection known until it is closed or the result is disposed. */
  add(
    modelId: string,
    connection: GraphConnection,
    kernelId: string | null = null
  ): IDisposable {
    this._known.delete(modelId); // so that it is the newest
    this._known.set(modelId, { modelId, connection, kernelId });
    const forget = new DisposableDelegate(() => {
      if (this._known.get(modelId)?.connection === connection) {
        this._known.delete(modelId);
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

  private readonly _known = new Map<string, ILiveGraph>();
}

/** The live pictures of this page. */
export const liveGraphs = new LiveGraphs();
