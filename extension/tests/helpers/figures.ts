/** Figures for tests: what is drawn is kept, and can be zoomed. */

import type { FigureMaker, IFigure } from '../../src/panels/plots/figure';
import { Box } from '../../src/ui/dom';

type Callback = (data: unknown) => void;

export class Figures {
  readonly drawn: Record<string, unknown>[] = [];

  /** `tells`: the nodes of figures have Plotly's `on`. */
  constructor(private readonly _tells = true) {}

  readonly make: FigureMaker = figure => {
    const box = new Box('figure');
    if (this._tells) {
      const callbacks = new Map<string, Callback>();
      Object.assign(box.node, {
        on: (event: string, callback: Callback) => callbacks.set(event, callback)
      });
      this._callbacks = callbacks;
    }
    const made: IFigure = Object.assign(box, {
      draw: (): Promise<void> => {
        this.drawn.push(figure);
        return Promise.resolve();
      },
      fill: () => undefined
    });
    return made;
  };

  /** What the last figure tells: an event of Plotly. */
  tell(event: string, data: unknown): void {
    this._callbacks.get(event)?.(data);
  }

  private _callbacks = new Map<string, Callback>();
}
