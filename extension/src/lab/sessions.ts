/**
 * The sessions of a notebook: those that are live in its kernel, and the pictures of
 * others that its outputs hold. Nothing here draws.
 */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IOutputModel } from '@jupyterlab/rendermime';
import { Signal } from '@lumino/signaling';

import type { GraphConnection } from '../model/connection';
import { Graph } from '../model/graph';
import { MIME_TYPE } from '../wire/protocol';
import { PictureError } from '../wire/schema';
import type { LiveGraphs } from './live';

export interface INotebookSession {
  /** What tells it from the others: the id of its model. */
  readonly key: string;
  /** Its variable; "" until the kernel has told. */
  readonly name: string;
  /** Null for a saved picture. */
  readonly connection: GraphConnection | null;
  /** What is known of it now; null until the kernel has told. */
  readonly graph: Graph | null;
}

export class NotebookSessions {
  constructor(
    readonly notebook: NotebookPanel,
    private readonly _live: LiveGraphs
  ) {
    _live.changed.connect(this._onLive, this);
    notebook.sessionContext.kernelChanged.connect(this._onLive, this);
    notebook.content.modelContentChanged.connect(this._onContent, this);
    notebook.disposed.connect(() => this.dispose());
    this._onLive();
  }

  /** A session came or went, or another state of one. */
  readonly changed = new Signal<this, void>(this);

  /** The live ones, the oldest first, then the saved ones in the order of the cells. */
  get list(): readonly INotebookSession[] {
    const live = this._connections().map(({ modelId, connection }) => ({
      key: modelId,
      name: connection.graph?.header.session ?? '',
      connection,
      graph: connection.graph
    }));
    // A picture is of before, where a session of its name lives.
    const names = new Set(live.map(({ name }) => name));
    this._saved ??= savedSessions(this.notebook);
    return [...live, ...this._saved.filter(({ name }) => !names.has(name))];
  }

  /** The newest session of a name; live before saved. */
  find(name: string): INotebookSession | null {
    const found = this.list.filter(session => session.name === name);
    const live = found.filter(({ connection }) => connection !== null);
    return live.at(-1) ?? found.at(-1) ?? null;
  }

  /** Whether a connection is to the kernel that the notebook runs. */
  has(connection: GraphConnection): boolean {
    return this._connections().some(one => one.connection === connection);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._follow([]);
      Signal.disconnectReceiver(this);
      Signal.clearData(this);
    }
  }

  private _connections(): ReturnType<LiveGraphs['list']> {
    const kernel = this.notebook.sessionContext.session?.kernel;
    return kernel ? this._live.list(kernel.id) : [];
  }

  private _onLive(): void {
    this._saved = null;
    this._follow(this._connections().map(({ connection }) => connection));
    this.changed.emit();
  }

  private _onContent(): void {
    if (this._saved !== null) {
      this._saved = null;
      this.changed.emit();
    }
  }

  private _follow(connections: readonly GraphConnection[]): void {
    for (const connection of this._followed) {
      if (!connections.includes(connection) && !connection.isDisposed) {
        connection.changed.disconnect(this._onConnection, this);
      }
    }
    for (const connection of connections) {
      connection.changed.connect(this._onConnection, this);
    }
    this._followed = connections;
  }

  private _onConnection(): void {
    this.changed.emit();
  }

  private _followed: readonly GraphConnection[] = [];
  /** Null until somebody looks: to read them all takes a while. */
  private _saved: readonly INotebookSession[] | null = null;
  private _isDisposed = false;
}

/** The pictures that the outputs of a notebook hold; of a name the last one. */
function savedSessions({ content }: NotebookPanel): readonly INotebookSession[] {
  const found = new Map<string, INotebookSession>();
  for (const cell of content.model?.cells ?? []) {
    if (cell.type !== 'code') {
      continue;
    }
    const { outputs } = cell as ICodeCellModel;
    for (let i = 0; i < outputs.length; i++) {
      const graph = readSaved(outputs.get(i));
      if (graph !== null) {
        const { session: name } = graph.header;
        found.set(name, { key: `saved ${name}`, name, connection: null, graph });
      }
    }
  }
  return [...found.values()];
}

/** By output: what one gives as its data is a copy each time. */
const read = new WeakMap<IOutputModel, Graph | null>();

/**
 * The saved picture in an output, untrusted and perhaps of another version; null if
 * there is none, or a damaged one.
 */
function readSaved(output: IOutputModel): Graph | null {
  const known = read.get(output);
  if (known !== undefined) {
    return known;
  }
  let graph: Graph | null = null;
  const data: unknown = output.data[MIME_TYPE];
  if (typeof data === 'object' && data !== null) {
    try {
      graph = Graph.fromSaved(data);
    } catch (error) {
      if (!(error instanceof PictureError)) {
        throw error;
      }
    }
  }
  read.set(output, graph);
  return graph;
}
