/** A renderer of figures for tests: keeps what it draws, and can be zoomed. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import { PLOTLY } from '../../src/panels/plots/figure';

type Callback = (data: unknown) => void;

export class Figures {
  readonly drawn: Record<string, unknown>[] = [];

  /** `tells`: the nodes of figures have Plotly's `on`. */
  constructor(private readonly _tells = true) {}

  /** A registry that knows figures. */
  get registry(): IRenderMimeRegistry {
    const createRenderer = (): Widget => {
      const widget = new Widget();
      if (this._tells) {
        const callbacks = new Map<string, Callback>();
        Object.assign(widget.node, {
          on: (event: string, callback: Callback) => callbacks.set(event, callback)
        });
        this._callbacks = callbacks;
      }
      return Object.assign(widget, {
        renderModel: (model: { data: Record<string, unknown> }): Promise<void> => {
          this.drawn.push(model.data[PLOTLY] as Record<string, unknown>);
          return Promise.resolve();
        }
      });
    };
    const createModel = (options: object): object => options;
    const mimeTypes = [PLOTLY];
    const registry: unknown = { mimeTypes, createRenderer, createModel };
    return registry as IRenderMimeRegistry;
  }

  /** What the last figure tells: an event of Plotly. */
  tell(event: string, data: unknown): void {
    this._callbacks.get(event)?.(data);
  }

  private _callbacks = new Map<string, Callback>();
}
