/**
 * Which pictures are live: the connections of this page under the ids of their widget
 * models and of their kernels, and which document runs which kernel. A saved picture
 * looks here for the model that it is of, in the kernel of the document that it stands
 * in and in no other, and hears when one comes or goes.
 */

import type { IConsoleTracker } from '@jupyterlab/console';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
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

  /** The newest connection to a model of a kernel; of any, where none is named. */
  find(modelId: string, kernelId?: string | null): GraphConnection | null {
    const found = this._known.findLast(
      one =>
        one.modelId === modelId && (kernelId === undefined || one.kernelId === kernelId)
    );
    return found?.connection ?? null;
  }

  /** The live graphs of a kernel, the oldest first. */
  list(kernelId: string): readonly ILiveGraph[] {
    const found = new Map<string, ILiveGraph>();
    for (const one of this._known) {
      if (one.kernelId === kernelId) {
        // Two notebooks of one kernel may have a connection each: the newest counts.
        found.delete(one.modelId);
        found.set(one.modelId, one);
      }
    }
    return [...found.values()];
  }

  /** Make a connection known until it is closed or the result is disposed. */
  add(
    modelId: string,
    connection: GraphConnection,
    kernelId: string | null = null
  ): IDisposable {
    const made = { modelId, connection, kernelId };
    this._known.push(made);
    const forget = new DisposableDelegate(() => {
      this._known = this._known.filter(one => one !== made);
      this.changed.emit(modelId);
    });
    connection.changed.connect((_, change) => {
      if (change === 'closed') {
        forget.dispose();
      }
    });
    this.changed.emit(modelId);
    return forget;
  }

  /** The oldest first. */
  private _known: ILiveGraph[] = [];
}

/** The live pictures of this page. */
export const liveGraphs = new LiveGraphs();

/** What tells a document from others: all that is drawn in it resolves links by it. */
export type Resolver = IRenderMime.IResolver | null;

/**
 * The notebooks and consoles of the page. A picture knows its document by the resolver
 * that its renderer was made with: a view of one output, outside of its notebook, too.
 */
export class Documents {
  constructor(
    private readonly _notebooks: INotebookTracker,
    private readonly _consoles: IConsoleTracker | null
  ) {
    for (const tracker of [_notebooks, _consoles]) {
      tracker?.forEach(document => {
        this._watch(document);
      });
      tracker?.widgetAdded.connect((_, document) => {
        this._watch(document);
        this.changed.emit();
      });
    }
  }

  /** A document came, or runs another kernel. */
  readonly changed = new Signal<this, void>(this);

  /** The kernel that a document runs; null if it runs none or is not known. */
  kernelOf(resolver: Resolver): string | null {
    const found =
      this.notebookOf(resolver) ??
      this._consoles?.find(({ console }) => isOf(console, resolver));
    return found?.sessionContext.session?.kernel?.id ?? null;
  }

  /** The notebook of a picture, of its views the one that has it; null in a console. */
  notebookOf(resolver: Resolver, picture?: HTMLElement): NotebookPanel | null {
    const views = this._notebooks.filter(({ content }) => isOf(content, resolver));
    const around = views.find(({ node }) => picture && node.contains(picture));
    return around ?? views.at(0) ?? null;
  }

  private _watch({ sessionContext }: Pick<NotebookPanel, 'sessionContext'>): void {
    sessionContext.kernelChanged.connect(this._onKernel, this);
  }

  private _onKernel(): void {
    this.changed.emit();
  }
}

/** Whether what draws the outputs of a document has this resolver. */
function isOf(
  { isDisposed, rendermime }: Pick<NotebookPanel['content'], 'isDisposed' | 'rendermime'>,
  resolver: Resolver
): boolean {
  return !isDisposed && resolver !== null && rendermime.resolver === resolver;
}
