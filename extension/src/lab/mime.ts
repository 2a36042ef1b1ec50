/**
 * A graph in the output of a cell. What the notebook holds is drawn at once,
 * without a kernel; where the model that it is of is live, it becomes live too.
 */

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { PanelLayout, Widget } from '@lumino/widgets';

import { Graph } from '../model/graph';
import type { GraphPanel } from '../panels/shell/panel';
import { element } from '../ui/dom';
import { PictureError, fieldsOf } from '../wire/schema';
import { MIME_TYPE } from '../wire/protocol';
import { LiveGraphs } from './live';

/** Before SVG (80) and text, after nothing. */
const RANK = 10;

export interface ISavedGraphOptions {
  live: LiveGraphs;
  makePanel: () => GraphPanel;
}

export class SavedGraph extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly _options: ISavedGraphOptions) {
    super();
    this.addClass('workbench-SavedGraph');
    this.layout = this._content;
    this._note.hide();
    this._content.addWidget(this._note);
    this._options.live.changed.connect(this._onLive, this);
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
      super.dispose();
    }
  }

  private _onLive(_: LiveGraphs, modelId: string): void {
    if (modelId !== this._modelId) {
      return;
    }
    const gone = this._options.live.get(modelId) === null;
    if (gone && this._panel !== null && this._panel.state.graph !== null) {
      // The panel keeps its last live graph: what is saved may be older.
      return;
    }
    this._show();
  }

  private _show(): void {
    const connection =
      this._modelId === null ? null : this._options.live.get(this._modelId);
    if (this._saved === null && connection === null) {
      // Nothing to draw, and nobody to ask: say why, in text.
      this._panel?.dispose();
      this._panel = null;
      const why = this._problem ?? 'it is empty';
      this._note.node.textContent = `Workbench cannot draw this picture: ${why}`;
      this._note.show();
      return;
    }
    this._note.hide();
    if (this._panel === null) {
      this._panel = this._options.makePanel();
      this._content.addWidget(this._panel);
    }
    this._panel.setSaved(this._saved, this._problem);
    if (connection !== null) {
      this._panel.attachTo(connection);
    }
  }

  private readonly _content = new PanelLayout();
  private readonly _note = new Widget({
    node: element('p', { class: 'workbench-Note', role: 'status' })
  });
  private _panel: GraphPanel | null = null;
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
    createRenderer: () => new SavedGraph(options)
  };
}

/** The live model that the picture is of, even if the picture cannot be read. */
function modelIdOf(data: unknown): string | null {
  const { model_id: modelId } = fieldsOf(data);
  return typeof modelId === 'string' && modelId !== '' ? modelId : null;
}
