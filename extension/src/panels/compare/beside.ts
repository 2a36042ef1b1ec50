/**
 * The other side of a comparison in a picture of its own, left of the graph. Both are
 * laid out alike and look at the same place; what is selected, folded, found and stepped
 * to in one is so in the other.
 */

import type { GraphCanvas } from '../../canvas/canvas';
import type { Change, GraphState } from '../../model/state';
import { element } from '../../ui/dom';
import type { IHost } from '../host';
import { View } from '../view';

export class OtherSide extends View {
  constructor(
    private readonly _host: IHost,
    /** The picture of the graph, on the right. */
    private readonly _right: GraphCanvas
  ) {
    super(_host.state.settings, { className: 'workbench-OtherSide', list: null });
    this.append(this._caption);
    this._right.node.append(this._rightCaption);
    const { state } = _host;
    state.changed.connect((_, change) => this._copy(state, this.state, change));
    this.state.changed.connect((_, change) => {
      if (change === 'graph') {
        this._copy(state, this.state, 'view');
        this._copy(state, this.state, 'selection');
      } else {
        this._copy(this.state, state, change);
      }
    });
    this.canvas.activated.connect((_, node) => this._right.activated.emit(node));
    this.canvas.overrideRequested.connect((_, node) => {
      this._right.overrideRequested.emit(node);
    });
    this.canvas.derivativeRequested.connect(() => this._right.derivativeRequested.emit());
    this.canvas.menuRequested.connect((_, at) => this._right.menuRequested.emit(at));
    this.setHidden(true);
  }

  /** Show the side that is compared with, or nothing. */
  follow(): void {
    const { recording, state } = this._host;
    const { beside, sides } = recording;
    const shown = beside !== null && state.stage !== 'simplified';
    this._caption.textContent = sides.before;
    this._rightCaption.textContent = sides.after;
    this._rightCaption.hidden = !shown;
    const change = shown === this.isHidden;
    this.setHidden(!shown);
    this.node.parentElement?.classList.toggle('workbench-mod-beside', shown);
    if (!shown) {
      if (change) {
        this._link(false);
        this.show(null);
      }
      return;
    }
    this.show(beside);
    if (change) {
      this._link(true);
    }
  }

  private _link(linked: boolean): void {
    this._right.linkWith(linked ? this.canvas : null);
    this.canvas.linkWith(linked ? this._right : null);
  }

  /** Do in one picture what was done in the other. */
  private _copy(from: GraphState, to: GraphState, change: Change): void {
    if (this._busy || this.isHidden || to.graph === null) {
      return;
    }
    this._busy = true;
    if (change === 'selection') {
      to.choose(from.marked, from.selected);
    } else if (change === 'hover') {
      to.hover(from.hovered);
    } else if (change === 'view') {
      to.setFolding(from.folding);
      to.search(from.query);
      to.setStep(from.step);
    }
    this._busy = false;
  }

  private readonly _caption = element('div', { class: 'workbench-SideCaption' });
  private readonly _rightCaption = element('div', {
    class: 'workbench-SideCaption',
    attributes: { hidden: '' }
  });
  /** Whether one picture is following the other. */
  private _busy = false;
}
