/**
 * A graph in the output of a cell. What the notebook holds is drawn at once, without a
 * kernel; where the model that it is of is live in the kernel of this very notebook, it
 * becomes live too: in a copy, whose kernel is another one, it does not.
 */

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { PanelLayout, Widget } from '@lumino/widgets';

import type { GraphConnection } from '../model/connection';
import { Graph } from '../model/graph';
import { element } from '../ui/dom';
import { PictureError, fieldsOf } from '../wire/schema';
import { MIME_TYPE } from '../wire/protocol';
import type { Documents, LiveGraphs, Resolver } from './live';
import type { PanelWidget } from './panel';

/** Before SVG (80) and text, after nothing. */
const RANK = 10;

export interface ISavedGraphOptions {
  live: LiveGraphs;
  /** Null for a page that is one document, with one kernel, and has no tracker. */
  documents: Pick<Documents, 'changed' | 'kernelOf'> | null;
  /** A panel in the document of this resolver. */
  makePanel: (resolver: Resolver) => PanelWidget;
}

export class SavedGraph extends Widget implements IRenderMime.IRenderer {
  constructor(
    private readonly _options: ISavedGraphOptions,
    private readonly _resolver: Resolver
  ) {
    super();
    this.addClass('workbench-SavedGraph');
    this.layout = this._content;
    this._note.hide();
    this._content.addWidget(this._note);
    _options.live.changed.connect(this._onLive, this);
    _options.documents?.changed.connect(this._follow, this);
  }

  /** Draw what the notebook holds: untrusted, and perhaps of another version. */
  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data: unknown = model.data[MIME_TYPE];
    this._modelId = modelIdOf(data);
    this._saved = null;
    this._problem = null;
    try {
      this._saved = Graph.fromSaved(data);
    } catch (error) {
      if (!(error instanceof PictureError)) {
        throw error;
      }
      this._problem = error.message;
    }
    this._show();
    return Promise.resolve();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._options.live.changed.disconnect(this._onLive, this);
      this._options.documents?.changed.disconnect(this._follow, this);
      super.dispose();
    }
  }

  private _onLive(_: LiveGraphs, modelId: string): void {
    if (modelId === this._modelId) {
      this._follow();
    }
  }

  /** Be live where the model is, or is again; keep the last live graph where not. */
  private _follow(): void {
    const { connection = null, state } = this._widget?.panel ?? {};
    const found = this._findConnection();
    if (found === connection) {
      return;
    }
    if (found === null && (state?.graph ?? null) !== null) {
      // What is saved may be older than that graph. One that closes tells by itself.
      if (connection?.isDisposed === false) {
        this._widget?.panel.disconnect();
      }
      return;
    }
    this._show();
  }

  /** The live model that the picture is of, in the kernel of its document. */
  private _findConnection(): GraphConnection | null {
    const { live, documents } = this._options;
    if (this._modelId === null) {
      return null;
    }
    if (documents === null) {
      return live.find(this._modelId);
    }
    const kernelId = documents.kernelOf(this._resolver);
    return kernelId === null ? null : live.find(this._modelId, kernelId);
  }

  private _show(): void {
    const connection = this._findConnection();
    if (this._saved === null && connection === null) {
      // Nothing to draw, and nobody to ask: say why, in text.
      this._widget?.dispose();
      this._widget = null;
      const why = this._problem ?? 'it is empty';
      this._note.node.textContent = `Workbench cannot draw this picture: ${why}`;
      this._note.show();
      return;
    }
    this._note.hide();
    if (this._widget === null) {
      this._widget = this._options.makePanel(this._resolver);
      this._content.addWidget(this._widget);
    }
    const { panel } = this._widget;
    if (connection === null) {
      panel.disconnect();
    }
    panel.setSaved(this._saved, this._problem);
    if (connection !== null) {
      panel.connectTo(connection);
    }
  }

  private readonly _content = new PanelLayout();
  private readonly _note = new Widget({
    node: element('p', { class: 'workbench-Note', role: 'status' })
  });
  private _widget: PanelWidget | null = null;
  private _modelId: string | null = null;
  private _saved: Graph | null = null;
  private _problem: string | null = null;
}

/** The factory for notebooks, consoles and "create new view for output". */
export function rendererFactory(
  options: ISavedGraphOptions
): IRenderMime.IRendererFactory {
  return {
    safe: true,
    mimeTypes: [MIME_TYPE],
    defaultRank: RANK,
    createRenderer: ({ resolver }) => new SavedGraph(options, resolver)
  };
}

/** The live model that the picture is of, even if the picture cannot be read. */
function modelIdOf(data: unknown): string | null {
  const { model_id: modelId } = fieldsOf(data);
  return typeof modelId === 'string' && modelId !== '' ? modelId : null;
}
