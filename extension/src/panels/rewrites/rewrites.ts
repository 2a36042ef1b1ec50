/**
 * The stage "Simplified": the derivative as a program of its own, at one step of its
 * simplification, drawn by the same means as the graph of the cell.
 */

import type { Graph } from '../../model/graph';
import { Replay } from '../../model/replay';
import type { Change, GraphState } from '../../model/state';
import type { IHost, Reason } from '../host';
import { View } from '../view';
import { Timeline } from './timeline';

export class Rewrites extends View {
  constructor(private readonly _host: IHost) {
    super(_host.state.settings, {
      className: 'workbench-Rewrites',
      list: 'The derivative at this step as a list',
      fixed: { stage: 'traced', colouring: 'none' }
    });
    this._timeline = new Timeline(_host, this.replay);
    this.append(this._timeline);
    this.replay.changed.connect(this._onReplay, this);
    this.state.changed.connect(this._onState, this);
    this._timeline.drawSteps();
  }

  readonly replay = new Replay();

  override get isOpen(): boolean {
    return this._host.state.stage === 'simplified';
  }

  override get player(): Timeline {
    return this._timeline;
  }

  /** The node of the session that one of the program belongs to; null for none. */
  forwardOf(node: number): number | null {
    const found = this.replay.program?.forward[node] ?? -1;
    return found < 0 ? null : found;
  }

  override refresh(reason: Reason): void {
    this._timeline.refresh(reason);
  }

  override setHidden(hidden: boolean): void {
    super.setHidden(hidden);
    if (hidden) {
      this._timeline.pause();
    } else {
      this.replay.show(
        this._host.connection,
        this._host.state.graph,
        this._host.recording.about
      );
    }
  }

  override dispose(): void {
    this.replay.stop();
    super.dispose();
  }

  private _onReplay({ program }: Replay): void {
    const graph = program?.graph ?? null;
    if (graph !== this.state.graph) {
      this._moveSelection(graph);
      this.state.setGraph(graph, 'graph');
    }
    this._timeline.drawSteps();
  }

  /** What is selected stays so where it is there at the other step too. */
  private _moveSelection(graph: Graph | null): void {
    const { graph: before, selected } = this.state;
    const found =
      before === null || graph === null || selected === null
        ? null
        : (graph.counterparts(before)?.indexOf(selected) ?? -1);
    this._selected = found === -1 ? null : found;
  }

  private _onState(state: GraphState, change: Change): void {
    if (change === 'graph') {
      const selected = this._selected;
      this._selected = null;
      state.selectAlone(selected);
    } else if (change === 'selection') {
      const { selected } = state;
      this._host.state.selectAlone(selected === null ? null : this.forwardOf(selected));
    }
  }

  private readonly _timeline: Timeline;
  private _selected: number | null = null;
}
