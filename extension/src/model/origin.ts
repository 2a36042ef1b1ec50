/**
 * Where the graph of a panel comes from: a saved picture, or a kernel for as long as it
 * answers. What comes goes to a recording, which says what is looked at. Nothing here
 * knows the DOM.
 */

import { Signal } from '@lumino/signaling';

import type { IPlotAnswer } from '../wire/protocol';
import type { ConnectionChange, End, GraphConnection } from './connection';
import type { Graph } from './graph';
import type { Recording } from './recording';

/** `connection`: there is another line to a kernel, none any more, or another picture. */
export type OriginChange = Exclude<ConnectionChange, 'graph' | 'values' | 'closed'> | 'connection';

export class Origin {
  constructor(private readonly _recording: Recording) {}

  readonly changed = new Signal<this, OriginChange>(this);

  /** What the kernel says without being asked, and plots it shows by itself. */
  readonly noticed = new Signal<this, string>(this);
  readonly plotted = new Signal<this, IPlotAnswer>(this);

  /** Null while the picture is a saved one. */
  get connection(): GraphConnection | null {
    return this._connection;
  }

  /** What is wrong with the saved picture; null for nothing. */
  get problem(): string | null {
    return this._problem;
  }

  /** What ended it, if it was live and is not any more. */
  get ended(): End | null {
    return this._ended;
  }

  /** The picture to show while there is no live one; null with a reason why not. */
  setSaved(saved: Graph | null, problem: string | null): void {
    this._problem = problem;
    // A live picture is brought up to date by the kernel, not by what is saved.
    if (!this._connection?.graph) {
      this._ended = null;
      this._recording.follow(this._connection, saved);
      this.changed.emit('connection');
    }
  }

  /** Show what a connection shows, and let its kernel be asked. */
  connectTo(connection: GraphConnection): void {
    if (connection === this._connection) {
      return;
    }
    this._release();
    this._connection = connection;
    this._ended = null;
    connection.changed.connect(this._onChange, this);
    connection.noticed.connect(this._onNotice, this);
    connection.plotted.connect(this._onPlot, this);
    if (connection.graph !== null) {
      this._recording.follow(connection, connection.graph);
    }
    this.changed.emit('connection');
  }

  /** Ask the kernel no more: it is not the one of the notebook any longer. */
  disconnect(): void {
    if (this._connection !== null) {
      this._end(this._connection, 'kernel');
    }
  }

  dispose(): void {
    this._release();
    this._recording.dispose();
  }

  private _onChange(sender: GraphConnection, change: ConnectionChange): void {
    if (sender !== this._connection) {
      return; // it has been let go of while it told of its end
    }
    switch (change) {
      case 'graph':
      case 'values':
        if (sender.graph !== null) {
          this._recording.follow(sender, sender.graph);
        }
        break;
      case 'closed':
        this._end(sender, sender.end);
        break;
      default:
        this.changed.emit(change);
    }
  }

  private _onNotice(_: GraphConnection, message: string): void {
    this.noticed.emit(message);
  }

  private _onPlot(_: GraphConnection, answer: IPlotAnswer): void {
    this.plotted.emit(answer);
  }

  private _end({ graph }: GraphConnection, end: End | null): void {
    this._release();
    this._ended = graph === null ? null : end;
    // The last live graph stays: it is newer than what the notebook holds. What is
    // drawn may be a past run of it, or compared.
    this._recording.follow(null, graph ?? this._recording.live);
    this.changed.emit('connection');
  }

  private _release(): void {
    const connection = this._connection;
    this._connection = null;
    if (connection !== null && !connection.isDisposed) {
      connection.changed.disconnect(this._onChange, this);
      connection.noticed.disconnect(this._onNotice, this);
      connection.plotted.disconnect(this._onPlot, this);
    }
  }

  private _connection: GraphConnection | null = null;
  private _problem: string | null = null;
  private _ended: End | null = null;
}
