/**
 * A graph with its bar, inspector and drawer: one view. It shows a saved picture
 * until it is attached to a connection, and its last live one when that is closed.
 */

import { GraphCanvas } from '../../canvas/canvas';
import { watchTheme } from '../../canvas/theme';
import { FOLDED_AT_ONCE, LayoutRunner } from '../../layout/runner';
import type { ConnectionChange, End, GraphConnection } from '../../model/connection';
import type { IFolded } from '../../model/folds';
import type { Graph } from '../../model/graph';
import { Latest } from '../../model/latest';
import { Recording } from '../../model/recording';
import {
  BINS,
  type Change,
  type Colouring,
  FOLD_FROM,
  GraphState,
  type TileText
} from '../../model/state';
import { Box, copyText, element } from '../../ui/dom';
import { makeSplitter } from '../../ui/splitter';
import { errorText } from '../../ui/words';
import type { IPlotAnswer, PlotKind } from '../../wire/protocol';
import type { JobKind } from '../../wire/requests';
import { Asking, type Format, type ICellEditing, type IHost, type Reason } from '../host';
import { CompareBar } from '../compare/bar';
import { BesidePane } from '../compare/beside';
import { Inspector } from '../inspector/inspector';
import { PairBar, showDerivative } from '../inspector/pair';
import type { Drawer } from '../plots/drawer';
import { Rewrites } from '../rewrites/rewrites';
import { RunStrip } from '../runs/strip';
import { Banner, SAVED, SAVED_PAGE, bannerOf } from './banner';
import { Inside } from './inside';
import { Iterations } from './iterations';
import { Legend } from './legend';
import { download, fillPage } from './save';
import { Stepper } from './stepper';
import { TopBar } from './topbar';
import { GraphTree } from '../tree';

export interface IPanelOptions {
  settings?: IPanelSettings;
  /** Makes the drawer of plots; without it there are none. */
  makeDrawer?: ((host: IHost) => Drawer) | null;
  /** Gets the empty page in which a picture is saved; without it there is none. */
  loadPage?: (() => Promise<string>) | null;
  /** Goes to a node's line in its cell; true if there is such a line. */
  reveal?: ((panel: GraphPanel, graph: Graph, node: number) => boolean) | null;
  /** Changes the cells of the notebook that a panel belongs to. */
  editing?: ((panel: GraphPanel) => ICellEditing) | null;
  /** Shows what a panel shows in a panel of its own. */
  openBeside?: ((panel: GraphPanel) => void) | null;
  /** It is such a panel: as high as the room that it is given. */
  tall?: boolean;
  /** It is a page of its own: there is no cell to run. */
  alone?: boolean;
}

const EMPTY = 'No graph yet: run a cell that begins with %%autodiff loss';

export class GraphPanel extends Box implements IHost {
  constructor(options: IPanelOptions = {}) {
    const attributes = { 'aria-label': 'Graph of the cell' };
    super('workbench-Panel', element('div', { role: 'region', attributes }));
    this._reveal = options.reveal ?? null;
    this._loadPage = options.loadPage ?? null;
    this.editing = options.editing?.(this) ?? null;
    const { openBeside = null, tall = false, alone = false } = options;
    this.alone = alone;
    this.openBeside = openBeside && (() => openBeside(this));
    this.node.classList.toggle('workbench-mod-tall', tall);
    const settings = options.settings ?? STANDARD;
    this.state.setView('colouring', settings.colouring);
    this.state.setView('animated', settings.animated);
    this.state.foldFrom = settings.foldFrom;
    this.state.setView('tileText', settings.tileText);
    this.state.setView('bins', settings.bins);

    this._drawer = options.makeDrawer?.(this) ?? null;
    this._parts = [
      this._topBar,
      this._inspector,
      ...(this._drawer === null ? [] : [this._drawer]),
      this._legend,
      this._pair,
      this._iterations,
      this._stepper,
      this._runs,
      this._compare,
      this._tree,
      this._inside
    ];
    this._layOut();
    this.setHeight(settings.height);

    this.state.changed.connect(this._onState, this);
    this.recording.changed.connect(this._showRun, this);
    this.node.addEventListener('keydown', this._leaveComparison);
    this.canvas.activated.connect((_, node) => {
      this.state.select(node);
      if (!this.lookInside(node)) {
        this._openInspector(true);
        this._inspector.showTab('node');
      }
    });
    this.canvas.overrideRequested.connect((_, node) => this.startOverride(node));
    this.canvas.derivativeRequested.connect(() => this.showDerivative());
    if (tall) {
      this._openInspector(false); // it is narrow: the picture first
    }
    this._refresh('graph');
  }

  readonly openBeside: (() => void) | null;
  readonly alone: boolean;
  readonly editing: ICellEditing | null;
  readonly state = new GraphState();
  readonly recording = new Recording();
  readonly canvas = new GraphCanvas({ state: this.state });
  private _connection: GraphConnection | null = null;
  /** The graph of which a worker finds out how it is folded. */
  private _awaited: Graph | null = null;
  readonly asking = new Asking(this, () => this._banner.clear());

  get connection(): GraphConnection | null {
    return this._connection;
  }

  readonly within = null;

  get shown(): GraphState {
    if (this._isInside) {
      return this._inside.state;
    }
    return this._isSimplified && this._rewrites !== null
      ? this._rewrites.state
      : this.state;
  }

  get unsimplified(): string | null {
    const { graph } = this.state;
    if (this._connection === null) {
      return this._savedText('The simplified derivative is not available in a saved picture');
    }
    return graph === null || graph.header.output < 0
      ? 'There is no derivative to simplify: the cell has no output to differentiate.'
      : null;
  }

  get canPlot(): boolean {
    return this._drawer !== null;
  }

  get drawerOpen(): boolean {
    return this._drawer?.isHidden === false;
  }

  get inspectorOpen(): boolean {
    return this._showsInspector;
  }

  get canReveal(): boolean {
    return this._reveal !== null;
  }

  get canUndo(): boolean {
    return this._connection !== null && Boolean(this.state.graph?.header.undo);
  }

  get canRedo(): boolean {
    return this._connection !== null && Boolean(this.state.graph?.header.redo);
  }

  /** The picture to show while there is no live one; null with a reason why not. */
  setSaved(saved: Graph | null, problem: string | null = null): void {
    this._savedProblem = problem;
    // A live picture is brought up to date by the kernel, not by what is saved.
    if (!this._connection?.graph) {
      this._ended = null;
      this._show(saved);
      this._refresh('connection');
    }
  }

  /** Show what a connection shows, and let its kernel be asked. */
  connectTo(connection: GraphConnection): void {
    if (connection === this._connection) {
      return;
    }
    this._release();
    this._connection = connection;
    this._ended = null;
    connection.changed.connect(this._onConnection, this);
    connection.noticed.connect(this._onNotice, this);
    connection.plotted.connect(this._onPlot, this);
    if (connection.graph !== null) {
      this._show(connection.graph);
    }
    this._refresh('connection');
  }

  /** Ask the kernel no more: it is not the one of the notebook any longer. */
  disconnect(): void {
    if (this._connection !== null) {
      this._end(this._connection, 'kernel');
    }
  }

  setHeight(height: number): void {
    this.node.style.setProperty('--workbench-height', `${Math.round(height)}px`);
  }

  fitGraph(): void {
    this._shownCanvas.showAll();
  }

  centre(node: number): void {
    this.canvas.centre(node);
  }

  find(node: number): void {
    this._shownCanvas.find(node);
  }

  focusSearch(): void {
    this._topBar.focusSearch();
  }

  focusGraph(): void {
    this._shownCanvas.node.focus({ preventScroll: true });
  }

  /** Step the sweeps; the palette and the keyboard come here. */
  step(by: number): void {
    if (this._isSimplified) {
      this._rewrites?.timeline.move(by);
    } else {
      this._stepper.pause();
      this._stepper.move(by);
    }
  }

  togglePlay(): void {
    if (this._isSimplified) {
      this._rewrites?.timeline.toggle();
    } else {
      this._stepper.toggle();
    }
  }

  lookInside(node: number): boolean {
    const { graph } = this.state;
    if (this._connection === null || graph?.isHolder(node) !== true) {
      return false;
    }
    this._inside.leave(0);
    this._inside.enter(node, graph.label(node));
    this._inside.canvas.node.focus({ preventScroll: true });
    return true;
  }

  startOverride(node: number | null = this.state.selected): void {
    if (node === null) {
      this.say('Select a node first.');
      return;
    }
    this._leaveInside();
    this.state.select(node);
    this._openInspector(true);
    this._inspector.startOverride();
  }

  /** Put the selected node aside for a derivative, or take it back. */
  markNode(): void {
    const { selected, marked } = this.state;
    if (selected === null) {
      this.say('Select a node first.');
    } else {
      this.state.mark(selected === marked ? null : selected);
    }
  }

  /** Compare what is shown with another moment, or leave the comparison. */
  toggleComparison(): void {
    const { recording } = this;
    this._leaveInside();
    if (recording.against !== null) {
      recording.compareWith(null);
    } else if (recording.proposed === null) {
      this.say(this._savedText('There is nothing to compare with in this saved picture'));
    } else {
      recording.startComparison();
    }
  }

  /** Draw the derivative between the two nodes that are chosen. */
  showDerivative(): void {
    showDerivative(this);
  }

  /** Check all gradients, or ask the doctor. */
  run(kind: JobKind): void {
    if (this._connection === null) {
      this.say(this.alone ? SAVED_PAGE : SAVED);
      return;
    }
    this.showChecks();
    this.asking.run(kind);
  }

  showChecks(): void {
    this._leaveInside();
    this._openInspector(true);
    this._inspector.showTab('checks');
  }

  /** All overrides, with the keyboard in their list. */
  showOverrides(): void {
    this._leaveInside();
    this._openInspector(true);
    this._inspector.showTab('overrides');
    this._inspector.focusTab();
  }

  reveal(node: number): void {
    const { graph } = this.state;
    if (graph !== null && this._reveal?.(this, graph, node) === false) {
      this.say('That line is not in this notebook any more.');
    }
  }

  get canSavePage(): boolean {
    return this._loadPage !== null;
  }

  save(format: Format): void {
    const { graph } = this.state;
    this._makeFile(format).then(
      content => {
        if (graph !== null && content !== null) {
          download(content, graph.header.session, format);
        }
      },
      (error: unknown) => this.say(`It was not saved: ${errorText(error)}`, 'error')
    );
  }

  private async _makeFile(format: Format): Promise<Blob | null> {
    switch (format) {
      case 'svg':
        return new Blob([this._shownCanvas.drawSvg()], { type: 'image/svg+xml' });
      case 'png':
        return this._shownCanvas.drawPng();
      case 'html': {
        const { graph } = this.state;
        // A live picture has its runs in the kernel; a failed cell has none.
        const live = graph !== null && graph.header.timeline !== null;
        const [page = '', runs] = await Promise.all([
          this._loadPage?.(),
          live ? this._connection?.ask('runs', {}).answer : undefined
        ]);
        return graph && new Blob([fillPage(page, graph, runs?.moments)], { type: 'text/html' });
      }
    }
  }

  copy(text: string): Promise<boolean> {
    return copyText(text, this.node);
  }

  plot(kind: PlotKind, of: number | null, wrt: number[]): void {
    if (this._connection === null || !this.canPlot) {
      return;
    }
    this._openDrawer(true);
    this._drawer?.plot(kind, of, wrt);
    this._drawer?.node.scrollIntoView({ block: 'nearest' });
  }

  toggleDrawer(): void {
    this._openDrawer(!this.drawerOpen);
  }

  toggleInspector(): void {
    this._openInspector(!this.inspectorOpen);
  }

  say(message: string, tone: 'quiet' | 'error' = 'quiet'): void {
    this._banner.say(message, tone);
  }

  override dispose(): void {
    this._folds.drop();
    this._release();
    this.recording.dispose();
    super.dispose();
  }

  protected override onAttach(): void {
    this._sizes.observe(this.node);
    this._unwatch = watchTheme(this.node, () => {
      // Figures carry colours in their data; the rest follows the theme by itself.
      this._drawer?.redraw();
      this._legend.refresh('view');
    });
    this._legend.refresh('view');
  }

  protected override onDetach(): void {
    this._sizes.disconnect();
    this._unwatch();
  }

  private _onState(_: GraphState, change: Change): void {
    if (change !== 'hover' && change !== 'selection') {
      this._showStage();
    }
    this._refresh(change);
    // What is selected in the picture is to be seen; a list keeps its place.
    const inPicture = this.canvas.node.contains(document.activeElement);
    if (change === 'selection' && inPicture && this.state.selected !== null) {
      this._inspector.showTab('node');
    }
  }

  private _onConnection(sender: GraphConnection, change: ConnectionChange): void {
    if (sender !== this._connection) {
      return; // it has been let go of while it told of its end
    }
    switch (change) {
      case 'graph':
      case 'values':
        if (sender.graph !== null) {
          this._show(sender.graph);
        }
        break;
      case 'closed':
        this._end(sender, sender.end);
        break;
      case 'job':
        this._inspector.refreshJob();
        this._legend.refresh('connection');
        break;
      default:
        this._topBar.refresh('connection');
        this._showBanner();
    }
  }

  private _end({ graph }: GraphConnection, end: End | null): void {
    this._release();
    this._ended = graph === null ? null : end;
    // The last live graph stays: it is newer than what the notebook holds. What is
    // drawn may be a past run of it, or compared.
    this.recording.follow(null, graph ?? this.recording.live);
    this._refresh('connection');
  }

  private _onNotice(_: GraphConnection, message: string): void {
    this.say(message, 'error');
  }

  private _onPlot(_: GraphConnection, answer: IPlotAnswer): void {
    this._openDrawer(true);
    this._drawer?.receive(answer);
  }

  private _show(graph: Graph | null): void {
    this.recording.follow(this._connection, graph);
  }

  /** What is not to be had, and how to get it where that can be. */
  private _savedText(what: string): string {
    return this.alone ? `${what}.` : `${what}: run the cell.`;
  }

  /** Show the present or a past run, or say that there are more of them. */
  private _showRun(): void {
    const { graph } = this.recording;
    if (graph !== null && !this._isFolded(graph)) {
      return;
    }
    if (graph === null || graph !== this.state.graph) {
      // Selection and viewport stay where only numbers changed.
      const same = graph !== null && this.state.graph?.sameStructure(graph) === true;
      this.state.setGraph(graph, same ? 'values' : 'graph');
    } else {
      this._runs.refresh('values');
      this._compare.refresh('values');
      this._topBar.refresh('values');
    }
    this._beside.refresh();
  }

  /**
   * Whether it is known how a graph is folded. Of a large one the worker finds that
   * out, so that the page does not stand still; the graph is shown then.
   */
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
    const awaited = this._awaited;
    const { graph: newest } = this.recording;
    this._awaited = null;
    if (awaited !== null && newest?.sameStructure(awaited) === true) {
      newest.takeFolds(folded);
      this._showRun();
    }
  }

  /** Escape, where nothing else takes it: in the pictures, the bar and the strip. */
  private readonly _leaveComparison = (event: KeyboardEvent): void => {
    const { target } = event;
    const places = [this.canvas, this._beside, this._compare, this._runs];
    if (
      event.key === 'Escape' &&
      !event.defaultPrevented &&
      !this._compare.isHidden &&
      target instanceof Node &&
      places.some(({ node }) => node.contains(target))
    ) {
      event.preventDefault();
      event.stopPropagation();
      this.recording.compareWith(null);
      this.focusGraph();
    }
  };

  private _release(): void {
    const connection = this._connection;
    this._connection = null;
    if (connection !== null && !connection.isDisposed) {
      connection.changed.disconnect(this._onConnection, this);
      connection.noticed.disconnect(this._onNotice, this);
      connection.plotted.disconnect(this._onPlot, this);
    }
  }

  private get _isSimplified(): boolean {
    return this.state.stage === 'simplified';
  }

  /** Whether what is inside a node is shown in the place of the graph. */
  /** Show the graph of the cell, whose inspector has what is asked for. */
  private _leaveInside(): void {
    if (this._inside.isOpen) {
      this._inside.leave(0);
    }
  }

  private get _isInside(): boolean {
    return this._inside.isOpen && !this._isSimplified;
  }

  private get _shownCanvas(): GraphCanvas {
    if (this._isInside) {
      return this._inside.canvas;
    }
    return this._isSimplified && this._rewrites !== null
      ? this._rewrites.canvas
      : this.canvas;
  }

  /** Show the graph of the cell, or its derivative simplified. */
  private _showStage(): void {
    if (this._isSimplified && this.unsimplified !== null) {
      this.state.setView('stage', 'derivative');
      return;
    }
    if (this._isSimplified && this._rewrites === null) {
      this._rewrites = this._makeRewrites();
    }
    this._picture.setHidden(this._isSimplified || this._isInside);
    this._inside.setHidden(!this._isInside);
    for (const strip of [this._pair, this._iterations]) {
      strip.node.classList.toggle('workbench-mod-away', this._isSimplified || this._isInside);
    }
    this._openInspector(this._showsInspector);
    this._beside.refresh();
    this._rewrites?.setHidden(!this._isSimplified);
    if (this._isSimplified) {
      this._rewrites?.replay.show(this._connection, this.state.graph);
    } else {
      this._rewrites?.timeline.pause();
    }
  }

  /** Made when it is first asked for: many a graph is never looked at so. */
  private _makeRewrites(): Rewrites {
    const made = new Rewrites(this);
    made.state.changed.connect((state, change) => {
      if (change === 'selection') {
        const { selected } = state;
        this.state.selectAlone(selected === null ? null : made.forwardOf(selected));
        if (selected !== null && made.canvas.node.contains(document.activeElement)) {
          this._inspector.showTab('node');
        }
      }
      if (change !== 'hover') {
        this._topBar.refresh('view');
      }
    });
    made.canvas.activated.connect(() => {
      this._openInspector(true);
      this._inspector.showTab('node');
    });
    made.canvas.overrideRequested.connect((_, node) => {
      this.startOverride(made.forwardOf(node));
    });
    this._stage.append(made);
    return made;
  }

  private _refresh(reason: Reason): void {
    for (const part of this._parts) {
      part.refresh(reason);
    }
    this._rewrites?.refresh(reason);
    if (reason === 'connection' || reason === 'graph') {
      this._showStage();
    }
    if (reason === 'graph' || reason === 'values' || reason === 'connection') {
      this._showBanner();
    }
  }

  private _showBanner(): void {
    const { graph } = this.state;
    const told = bannerOf(
      graph,
      this._connection,
      this._savedProblem,
      this._ended,
      this.alone
    );
    this._banner.inform(told);
    this._empty.hidden = !told.empty;
  }

  private _openDrawer(open: boolean): void {
    this._drawer?.setHidden(!open);
    this._topBar.refresh('connection');
  }

  private _openInspector(open: boolean): void {
    this._showsInspector = open;
    this._inspector.setHidden(!open || this._isInside);
    this._inside.pane.setHidden(!open || !this._isInside);
    this.node.classList.toggle('workbench-mod-wide', !open);
    this._topBar.refresh('connection');
  }

  /** Where the parts stand; the splitters between them say how large they are. */
  private _layOut(): void {
    const inspectorWidth = makeSplitter({
      label: 'Width of the inspector',
      along: 'x',
      sign: -1,
      size: () =>
        (this._isInside ? this._inside.pane : this._inspector).node.offsetWidth,
      limits: () => ({
        least: INSPECTOR.least,
        most: Math.max(INSPECTOR.least, this.node.offsetWidth - INSPECTOR.spared)
      }),
      resize: width => {
        this.node.style.setProperty('--workbench-inspector', `${width}px`);
      }
    });
    this._picture.append(
      this.canvas,
      this._beside,
      this._empty,
      this._legend,
      this._tree
    );
    this._stage.append(this._picture, this._inside, this._iterations, this._pair);
    const main = new Box('workbench-Main').append(
      this._stage,
      inspectorWidth,
      this._inspector,
      this._inside.pane
    );
    const height = makeSplitter({
      label: 'Height of the graph',
      along: 'y',
      sign: 1,
      size: () => main.node.offsetHeight,
      limits: () => HEIGHT,
      resize: size => this.setHeight(size)
    });
    this.append(
      this._topBar,
      this._banner,
      main,
      this._compare,
      this._runs,
      this._stepper,
      height,
      ...(this._drawer === null ? [] : [this._drawer])
    );
  }

  /** Put parts away that a width has no room for. */
  private _fitWidth(width: number): void {
    if (width > 0) {
      this.node.classList.toggle('workbench-mod-roomy', width >= ROOMY);
      this.node.classList.toggle('workbench-mod-medium', width < MEDIUM);
      this.node.classList.toggle('workbench-mod-narrow', width < NARROW);
      this.node.classList.toggle('workbench-mod-slim', width < SLIM);
    }
  }

  private readonly _topBar = new TopBar(this);
  private readonly _legend = new Legend(this);
  private readonly _pair = new PairBar(this);
  private readonly _iterations = new Iterations(this);
  private readonly _stepper = new Stepper(this);
  private readonly _runs = new RunStrip(this);
  private readonly _compare = new CompareBar(this);
  private readonly _beside = new BesidePane(this, this.canvas);
  private readonly _tree = new GraphTree(this);
  private readonly _drawer: Drawer | null;
  private readonly _parts: readonly { refresh(reason: Reason): void }[];
  private readonly _inspector = new Inspector(this);
  private readonly _inside = new Inside(this, () => {
    this._showStage();
    this._topBar.refresh('view');
  });
  private _showsInspector = true;
  private readonly _folds = new Latest<IFolded>({
    take: folded => this._takeFolds(folded)
  });
  private readonly _reveal: IPanelOptions['reveal'] & (object | null);
  private readonly _loadPage: (() => Promise<string>) | null;
  private readonly _banner = new Banner(this);
  private readonly _empty = element('div', { class: 'workbench-Empty', text: EMPTY });
  private _rewrites: Rewrites | null = null;
  /** The box of the picture, and that around it. */
  private readonly _picture = new Box('workbench-Picture');
  private readonly _stage = new Box('workbench-Stage');
  private _savedProblem: string | null = null;
  /** What ended it, if it was live and is not any more. */
  private _ended: End | null = null;
  private readonly _sizes = new ResizeObserver(([entry]) => {
    this._fitWidth(entry.contentRect.width);
  });
  private _unwatch: () => void = () => undefined;
}

// Where the parts of a graph panel stand, and how wide and high they are.

/** Below this width the bar leaves out words where it has findings to tell of. */
const ROOMY = 1260;

/** Below this width the bar leaves out words. */
const MEDIUM = 1000;

/** Below this width the inspector stands under the graph, as on a page of 1000. */
const NARROW = 800;
const SLIM = 500;

/** Pixels: the least and the most that the splitters allow. */
const HEIGHT = { least: 240, most: 1600 } as const;
const INSPECTOR = { least: 220, spared: 240 } as const;

// How a graph panel begins, before anybody has touched it.

/** How a view begins; the settings of JupyterLab give it. */
export interface IPanelSettings {
  /** Pixels of the graph and inspector, without bar and drawer. */
  height: number;
  colouring: Colouring;
  animated: boolean;
  /** Changes a second that are drawn at most. */
  updateRate: number;
  /** From how many nodes on a graph opens with its scopes folded. */
  foldFrom: number;
  /** What the tiles of gradients say. */
  tileText: TileText;
  /** How many bars a histogram has at most. */
  bins: number;
}

export const STANDARD: IPanelSettings = {
  height: 560,
  colouring: 'gradient',
  animated: true,
  updateRate: 20,
  foldFrom: FOLD_FROM,
  tileText: 'norm',
  bins: BINS
};
