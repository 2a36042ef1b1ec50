/** Which graph a command of the palette or a key means: the one in use. */

import { ISignal, Signal } from '@lumino/signaling';

import type { GraphPanel } from '../panels/shell/panel';

export class PanelTracker {
  /** The current graph, or what can be done with it, changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The graph used last that is still on the page. */
  get current(): GraphPanel | null {
    return this._panels.find(panel => panel.isVisible) ?? null;
  }

  /** All that are there, the one used last first. */
  get panels(): readonly GraphPanel[] {
    return this._panels;
  }

  add(panel: GraphPanel): void {
    this._panels.push(panel);
    const use = (): void => {
      this._use(panel);
    };
    panel.node.addEventListener('focusin', use);
    panel.node.addEventListener('pointerdown', use);
    panel.state.changed.connect((_, change) => {
      if (change !== 'hover') {
        this._changed.emit();
      }
    });
    panel.disposed.connect(() => {
      this._panels = this._panels.filter(other => other !== panel);
      this._changed.emit();
    });
  }

  private _use(panel: GraphPanel): void {
    if (this._panels[0] !== panel) {
      this._panels = [panel, ...this._panels.filter(other => other !== panel)];
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _panels: GraphPanel[] = [];
}
