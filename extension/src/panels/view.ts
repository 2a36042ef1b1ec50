/**
 * One picture of a panel: the graph of the cell, what is inside a node, the derivative
 * simplified, the other side of a comparison. All of a panel are drawn by the same
 * settings; each has its own graph, and what is selected, folded and found in it.
 */

import { GraphCanvas } from '../canvas/canvas';
import { FOLDED_AT_ONCE, LayoutRunner } from '../layout/runner';
import type { IFolded } from '../model/folds';
import type { Graph } from '../model/graph';
import { Latest } from '../model/latest';
import { type FixedSettings, GraphState, type ViewSettings } from '../model/state';
import { Box } from '../ui/dom';
import type { IWithin, Reason } from './host';
import type { Player } from './player';
import { GraphTree } from './tree';

export interface IViewOptions {
  className: string;
  /** The name of the graph as a list; null where another view has it. */
  list: string | null;
  /** What is so in this view, whatever the settings are. */
  fixed?: FixedSettings;
}

export class View extends Box {
  constructor(
    settings: ViewSettings,
    { className, list, fixed = {} }: IViewOptions
  ) {
    super(className);
    this.node.classList.add('workbench-View');
    this.state = new GraphState(settings, fixed);
    this.canvas = new GraphCanvas({ state: this.state });
    this.append(this.picture.append(this.canvas));
    if (list !== null) {
      const tree = new GraphTree(this, list);
      this.picture.append(tree);
      this.state.changed.connect((_, change) => tree.refresh(change));
    }
  }

  readonly state: GraphState;
  readonly canvas: GraphCanvas;
  /** The box of the picture, with what lies over it and beside it. */
  readonly picture = new Box('workbench-Picture');

  /** Whether it is to be shown, over those that it was opened from. */
  get isOpen(): boolean {
    return true;
  }

  /** What stands beside it in the place of the inspector; null: the inspector. */
  get pane(): Box | null {
    return null;
  }

  /** What steps through it in the place of the sweeps; null: they are stepped. */
  get player(): Player | null {
    return null;
  }

  /** What is shown is within a node; null for a whole graph. */
  get within(): IWithin | null {
    return null;
  }

  /** The panel, or the line to its kernel, has changed. */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars
  refresh(_: Reason): void {
    return undefined;
  }

  /**
   * Show a graph; selection and viewport stay where only numbers changed. Of a large one
   * a worker first finds out how it is folded, so that the page does not stand still.
   */
  show(graph: Graph | null): void {
    this._newest = graph;
    if (graph !== null && !this._isFolded(graph)) {
      return;
    }
    const before = this.state.graph;
    if (graph === null || graph !== before) {
      const same = graph !== null && before?.sameStructure(graph) === true;
      this.state.setGraph(graph, same ? 'values' : 'graph');
    }
  }

  fitGraph(): void {
    this.canvas.showAll();
  }

  centre(node: number): void {
    this.canvas.centre(node);
  }

  find(node: number): void {
    this.canvas.find(node);
  }

  focusGraph(): void {
    this.canvas.node.focus({ preventScroll: true });
  }

  /** Whether the keyboard is in the picture. */
  get hasFocus(): boolean {
    return this.canvas.node.contains(document.activeElement);
  }

  override dispose(): void {
    this._folds.drop();
    super.dispose();
  }

  private _isFolded(graph: Graph): boolean {
    const { graph: shown } = this.state;
    if (graph.isFolded || graph.count <= FOLDED_AT_ONCE) {
      return true;
    }
    if (shown?.isFolded === true && shown.sameStructure(graph)) {
      graph.shareStructure(shown);
      return true;
    }
    if (this._awaited?.sameStructure(graph) !== true) {
      this._awaited = graph;
      this._folds.ask(signal => LayoutRunner.shared.fold(graph.foldInput(), signal));
    }
    return false;
  }

  private _takeFolds(folded: IFolded): void {
    const { _awaited: awaited, _newest: newest } = this;
    this._awaited = null;
    if (awaited !== null && newest?.sameStructure(awaited) === true) {
      newest.takeFolds(folded);
      this.show(newest);
    }
  }

  /** The graph to show, and the one of which a worker finds out how it is folded. */
  private _newest: Graph | null = null;
  private _awaited: Graph | null = null;
  private readonly _folds = new Latest<IFolded>({
    take: folded => this._takeFolds(folded)
  });
}
