/**
 * The stage "Simplified": the derivative as a program of its own, at one step of its
 * simplification, drawn by the same means as the graph of the cell.
 */

import { GraphCanvas } from '../../canvas/canvas';
import { Replay } from '../../model/replay';
import { type Change, GraphState } from '../../model/state';
import { Box } from '../../ui/dom';
import type { IHost, Reason } from '../host';
import { GraphTree } from '../tree';
import { Timeline } from './timeline';

export class Rewrites extends Box {
  constructor(private readonly _host: IHost) {
    super('workbench-Rewrites');
    this.state.setView('stage', 'traced');
    this.state.setView('colouring', 'none');
    this._tree = new GraphTree(
      {
        state: this.state,
        centre: node => this.canvas.centre(node),
        focusGraph: () => this.focusGraph()
      },
      'The derivative at this step as a list'
    );
    this.timeline = new Timeline(_host, this.replay);
    const picture = new Box('workbench-RewritesPicture');
    this.append(picture.append(this.canvas, this._tree), this.timeline);
    this.replay.changed.connect(this._onReplay, this);
    this.state.changed.connect(this._onState, this);
    this.timeline.drawSteps();
  }

  readonly replay = new Replay();
  readonly state = new GraphState();
  readonly canvas = new GraphCanvas({ state: this.state });
  readonly timeline: Timeline;

  focusGraph(): void {
    this.canvas.node.focus({ preventScroll: true });
  }

  /** The node of the session that one of the program belongs to; null for none. */
  forwardOf(node: number): number | null {
    const found = this.replay.program?.forward[node] ?? -1;
    return found < 0 ? null : found;
  }

  refresh(reason: Reason): void {
    const { animated, tileText, bins } = this._host.state;
    this.state.setView('animated', animated);
    this.state.setView('tileText', tileText);
    this.state.setView('bins', bins);
    this.timeline.refresh(reason);
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
    this.timeline.drawSteps();
  }

  /** What is selected stays so where it is there at the other step too. */
  private _moveSelection(graph: GraphState['graph']): void {
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
    }
    this._tree.refresh(change);
  }

  private readonly _tree: GraphTree;
  private _selected: number | null = null;
}
