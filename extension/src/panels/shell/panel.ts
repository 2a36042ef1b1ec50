/**
 * A graph with its bar, inspector and drawer. It shows a saved picture until it is
 * connected to a kernel, and its last live one when that is gone.
 */

import { readTheme, watchTheme } from '../../canvas/theme';
import type { GraphConnection } from '../../model/connection';
import type { Graph, ISavedParts } from '../../model/graph';
import { Origin, type OriginChange } from '../../model/origin';
import { Recording } from '../../model/recording';
import {
  type Change,
  type GraphState,
  type SettingsChange,
  ViewSettings
} from '../../model/state';
import { Box, copyText, element } from '../../ui/dom';
import type { Typeset } from '../../ui/formula';
import { NORMS_ONLY, errorText } from '../../ui/words';
import type { PlotKind } from '../../wire/protocol';
import type { JobKind } from '../../wire/requests';
import { CompareBar } from '../compare/bar';
import { OtherSide } from '../compare/beside';
import { Asking, type Format, type ICellEditing, type IHost, type Reason } from '../host';
import { Inspector } from '../inspector/inspector';
import { PairBar, showDerivative } from '../inspector/pair';
import type { Player } from '../player';
import type { Drawer } from '../plots/drawer';
import { Rewrites } from '../rewrites/rewrites';
import { PastRun, RunStrip } from '../runs/strip';
import { View } from '../view';
import { AwayLine, type IAway } from './away';
import { Banner, SAVED, SAVED_PAGE, bannerOf } from './banner';
import { Frame } from './frame';
import { Inside } from './inside';
import { Iterations } from './iterations';
import { Legend, captionOf } from './legend';
import { saveFile } from './save';
import { Stepper } from './stepper';
import { TopBar } from './topbar';

export interface IPanelOptions {
  /** How its pictures are drawn at first; the rest is as `ViewSettings` has it. */
  view?: SettingsChange;
  /** Pixels of the graph and inspector, without bar and drawer. */
  height?: number;
  /** Makes the drawer of plots; without it there are none. */
  makeDrawer?: ((host: IHost) => Drawer) | null;
  /** Gets the empty page in which a picture is saved; without it there is none. */
  loadPage?: (() => Promise<string>) | null;
  /** Typesets formulas, in TeX between dollars. */
  typeset?: Typeset | null;
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

export class GraphPanel extends Frame implements IHost {
  constructor(options: IPanelOptions = {}) {
    super('Graph of the cell');
    const { openBeside = null, tall = false, alone = false } = options;
    this.typeset = options.typeset ?? null;
    this._reveal = options.reveal ?? null;
    this._loadPage = options.loadPage ?? null;
    this.editing = options.editing?.(this) ?? null;
    this.alone = alone;
    this.openBeside = openBeside && (() => openBeside(this));
    this.node.classList.toggle('workbench-mod-tall', tall);
    this.state.settings.set(options.view ?? {});
    if (options.height !== undefined) {
      this.setHeight(options.height);
    }
    this._drawer = options.makeDrawer?.(this) ?? null;
    this._standTogether(this._drawer);

    this.state.changed.connect(this._onState, this);
    this.recording.changed.connect(this._showRun, this);
    this._origin.changed.connect(this._onOrigin, this);
    this._origin.noticed.connect((_, message) => this.say(message, 'error'));
    this._origin.plotted.connect((_, answer) => {
      this._openDrawer(true);
      this._drawer?.receive(answer);
    });
    this._compare.hearEscape(this.node, [this.canvas, this._otherSide, this._runs]);
    this.canvas.activated.connect((_, node) => {
      this.state.select(node);
      if (!this.lookInside(node)) {
        this._showNode();
      }
    });
    this.canvas.overrideRequested.connect((_, node) => this.startOverride(node));
    this._inside.state.changed.connect(this._onOtherState, this);
    this.canvas.derivativeRequested.connect(() => this.showDerivative());
    this._putAway = tall; // it is narrow: the picture first
    this._refresh('graph');
  }

  readonly openBeside: (() => void) | null;
  readonly alone: boolean;
  readonly typeset: Typeset | null;
  readonly editing: ICellEditing | null;
  /** The graph of the cell, which the other views are opened from. */
  readonly cell = new View(new ViewSettings(), {
    className: 'workbench-Cell',
    list: 'Graph as a list; m marks a node for a derivative'
  });
  readonly state = this.cell.state;
  readonly canvas = this.cell.canvas;
  readonly recording = new Recording();
  private readonly _origin = new Origin(this.recording);
  readonly asking = new Asking(this, () => this._banner.clear());

  get connection(): GraphConnection | null {
    return this._origin.connection;
  }

  readonly within = null;

  /** What is shown: of the views that are open the one on top. */
  get view(): View {
    return this._views.findLast(({ isOpen }) => isOpen) ?? this.cell;
  }

  get shown(): GraphState {
    return this.view.state;
  }

  get unsimplified(): string | null {
    const { graph } = this.state;
    if (this.connection === null) {
      return this._savedText('The simplified derivative is not available in a saved picture');
    }
    if (!this.recording.isWhole) {
      return NORMS_ONLY;
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

  /** The picture to show while there is no live one; null with a reason why not. */
  setSaved(saved: Graph | null, problem: string | null = null): void {
    this._origin.setSaved(saved, problem);
    if (saved?.lesson?.open === true && this.state.step === null) {
      this.state.setStep(0);
    }
  }

  /** Show what a connection shows, and let its kernel be asked. */
  connectTo(connection: GraphConnection): void {
    this._origin.connectTo(connection);
  }

  /** Ask the kernel no more: it is not the one of the notebook any longer. */
  disconnect(): void {
    this._origin.disconnect();
  }

  fitGraph(): void {
    this.view.fitGraph();
  }

  centre(node: number): void {
    this.cell.centre(node);
  }

  find(node: number): void {
    this.view.find(node);
  }

  focusSearch(): void {
    this._topBar.focusSearch();
  }

  focusGraph(): void {
    this.view.focusGraph();
  }

  /** Step what is shown; the palette and the keyboard come here. */
  step(by: number): void {
    this._player.move(by);
  }

  togglePlay(): void {
    this._player.toggle();
  }

  lookInside(node: number): boolean {
    const { graph } = this.state;
    if (this.connection === null || graph?.isHolder(node) !== true) {
      return false;
    }
    this._inside.leave(0);
    this._inside.enter(node, graph.label(node));
    this._inside.focusGraph();
    return true;
  }

  startOverride(node: number | null = this.state.selected): void {
    if (node === null) {
      this.say('Select a node first.');
      return;
    }
    this._inside.leave(0);
    this.state.select(node);
    this._openInspector(true);
    this._inspector.startOverride();
  }

  /** Put the selected node aside for a derivative, or take it back. */
  markNode(): void {
    if (!this.state.markSelected()) {
      this.say('Select a node first.');
    }
  }

  /** Compare what is shown with another moment, or leave the comparison. */
  toggleComparison(): void {
    const { recording } = this;
    this._inside.leave(0);
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
  run(kind: Exclude<JobKind, 'run-again'>): void {
    if (this.connection === null) {
      this.say(this.alone ? SAVED_PAGE : SAVED);
      return;
    }
    this.showChecks();
    this.asking.run(kind);
  }

  showChecks(): void {
    this._inside.leave(0);
    this._openInspector(true);
    this._inspector.showTab('checks');
  }

  /** Put the keyboard on the tab of the inspector that is open. */
  focusInspector(): void {
    this._inspector.focusTab();
  }

  /** All overrides, with the keyboard in their list. */
  showOverrides(): void {
    this._inside.leave(0);
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
    saveFile(format, graph, this.view.canvas, {
      caption: captionOf(this.shown, readTheme(this.node)),
      loadPage: this._loadPage,
      loadParts: () => this._loadParts()
    }).catch((error: unknown) => {
      this.say(`It was not saved: ${errorText(error)}`, 'error');
    });
  }

  /** What a file holds beside the picture; it begins with a lesson that is stepped through. */
  private async _loadParts(): Promise<Partial<ISavedParts>> {
    const { connection, recording } = this;
    const { graph, hasLesson, step } = this.state;
    // A live picture has them in the kernel; a failed cell has none.
    const kernel = graph?.header.error === null ? connection : null;
    const { about } = recording;
    const isNow = about.at === undefined;
    const [runs, sweeps, told] = await Promise.all([
      kernel?.ask('runs', {}).answer,
      hasLesson ? this.state : isNow && kernel?.ask('lesson', {}).answer,
      recording.isWhole ? kernel?.ask('details', about).answer : undefined
    ]);
    const lesson = sweeps && sweeps.lesson;
    // The program may have become another one since it was asked.
    const fits = told?.details?.length === graph?.count;
    return {
      moments: runs?.moments,
      lesson: lesson ? { ...lesson, open: step !== null } : null,
      details: told && (fits ? told.details : null)
    };
  }

  copy(text: string): Promise<boolean> {
    return copyText(text, this.node);
  }

  plot(kind: PlotKind, of: number | null, wrt: number[]): void {
    if (this.connection === null || !this.canPlot) {
      return;
    }
    if (!this.recording.isWhole) {
      this.say(NORMS_ONLY);
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
    this._putAway = this.inspectorOpen;
    this._openInspector(!this.inspectorOpen);
  }

  /**
   * Leave a line in its place while its session is shown in a panel of its own, with
   * the ways there and back; null shows the picture again.
   */
  setAway(ways: IAway | null): void {
    this._away.show(this.state.graph?.header.session ?? '', ways);
    this.node.classList.toggle('workbench-mod-away', ways !== null);
  }

  say(message: string, tone: 'quiet' | 'error' = 'quiet'): void {
    this._banner.say(message, tone);
  }

  override dispose(): void {
    this._origin.dispose();
    super.dispose();
  }

  protected override onAttach(): void {
    super.onAttach();
    this._unwatch = watchTheme(this.node, () => {
      // Figures carry colours in their data; the rest follows the theme by itself.
      this._drawer?.redraw();
      this._legend.refresh('view');
    });
    this._legend.refresh('view');
  }

  protected override onDetach(): void {
    super.onDetach();
    this._unwatch();
  }

  private _onState(_: GraphState, change: Change): void {
    if (change !== 'hover' && change !== 'selection') {
      this._showView();
    }
    this._refresh(change);
    if (change === 'selection' && this.state.selected !== null) {
      if (!this.inspectorOpen && !this._putAway) {
        this._openInspector(true);
      }
      // What is selected in the picture is to be seen; a list keeps its place.
      if (this.view.hasFocus) {
        this._inspector.showTab('node');
      }
    }
  }

  private _onOrigin(_: Origin, change: OriginChange): void {
    switch (change) {
      case 'connection':
        this._refresh('connection');
        break;
      case 'job':
        this._inspector.refreshJob();
        this._runs.refresh('connection');
        this._legend.refresh('connection');
        break;
      default:
        this._topBar.refresh('connection');
        this._showBanner();
    }
  }

  /** What is not to be had, and how to get it where that can be. */
  private _savedText(what: string): string {
    return this.alone ? `${what}.` : `${what}: run the cell.`;
  }

  /** Show the present or a past run, or say that there are more of them. */
  private _showRun(): void {
    const before = this.state.graph;
    this.cell.show(this.recording.graph);
    if (this.state.graph === before) {
      for (const part of [this._runs, this._past, this._compare, this._topBar]) {
        part.refresh('values');
      }
    }
    this._otherSide.follow();
  }

  private get _player(): Player {
    return this.view.player ?? this._stepper;
  }

  protected get side(): Box {
    return this.view.pane ?? this._inspector;
  }

  private _showNode(): void {
    this._openInspector(true);
    this._inspector.showTab('node');
  }

  /** Show the view on top. */
  private _showView(): void {
    const { settings, stage } = this.state;
    if (stage === 'simplified' && this.unsimplified !== null) {
      settings.set({ stage: 'derivative' });
      return;
    }
    if (stage === 'simplified' && !this._views.some(view => view instanceof Rewrites)) {
      this._views.push(this._makeRewrites());
    }
    const { view } = this;
    this._views.forEach(one => one.setHidden(one !== view));
    this._openInspector(this._showsInspector);
    this._otherSide.follow();
  }

  /** Made when it is first asked for: many a graph is never looked at so. */
  private _makeRewrites(): Rewrites {
    const made = new Rewrites(this);
    this.place(this.stage, made);
    made.state.changed.connect(this._onOtherState, this);
    made.canvas.activated.connect(() => this._showNode());
    made.canvas.overrideRequested.connect((_, node) => {
      this.startOverride(made.forwardOf(node));
    });
    return made;
  }

  /** The bar tells what is found in the view that is shown. */
  private _onOtherState(_: GraphState, change: Change): void {
    if (change !== 'hover') {
      this._topBar.refresh('view');
    }
  }

  private _refresh(reason: Reason): void {
    this.refreshParts(reason);
    if (reason === 'connection' || reason === 'graph') {
      this._showView();
    }
    if (reason === 'graph' || reason === 'values' || reason === 'connection') {
      this._showBanner();
    }
  }

  private _showBanner(): void {
    const { problem, ended } = this._origin;
    const { graph } = this.state;
    const { shown } = this.recording;
    const told = bannerOf(graph, this.connection, problem, ended, this.alone, shown);
    this._banner.inform(told);
    this._empty.hidden = !told.empty;
  }

  private _openDrawer(open: boolean): void {
    this._drawer?.setHidden(!open);
    this._topBar.refresh('connection');
  }

  private _openInspector(open: boolean): void {
    this._showsInspector = open;
    for (const one of [this._inspector, this._inside.pane]) {
      one.setHidden(!open || one !== this.side);
    }
    this.node.classList.toggle('workbench-mod-wide', !open);
    this._topBar.refresh('connection');
  }

  /**
   * The parts, each in its box, in the order in which they stand there. One more is one
   * more word here: it is drawn and hears what happens.
   */
  private _standTogether(drawer: Drawer | null): void {
    this.append(this._away);
    this.place(this, this._topBar, this._banner, this.main, this._compare, this._runs);
    this.place(this, this._stepper, this.heightSplitter, ...(drawer ? [drawer] : []));
    this.place(this.main, this.stage, this.widthSplitter);
    this.place(this.main, this._inspector, this._inside.pane);
    this.place(this.stage, this.cell, this._inside);
    this.place(this.cell, new Iterations(this), new PairBar(this));
    this.place(this.cell.picture, this._otherSide, this._empty, this._legend);
    this.place(this.cell.picture, this._past);
  }

  private readonly _empty = element('div', { class: 'workbench-Empty', text: EMPTY });
  private readonly _away = new AwayLine();
  private readonly _topBar = new TopBar(this);
  private readonly _banner = new Banner(this);
  private readonly _legend = new Legend(this);
  private readonly _stepper = new Stepper(this);
  private readonly _runs = new RunStrip(this);
  private readonly _past = new PastRun(this);
  private readonly _compare = new CompareBar(this);
  private readonly _inspector = new Inspector(this);
  private readonly _drawer: Drawer | null;
  private readonly _otherSide = new OtherSide(this, this.canvas);
  private readonly _inside = new Inside(this, () => {
    this._showView();
    this._topBar.refresh('view');
  });
  /** From the bottom to the top; those that are not open are not there to be seen. */
  private readonly _views: View[] = [this.cell, this._inside];
  /** Closed until something is chosen: the picture first. */
  private _showsInspector = false;
  /** Whether the reader has closed it: then a choice leaves it so. */
  private _putAway = false;
  private readonly _reveal: IPanelOptions['reveal'] & (object | null);
  private readonly _loadPage: (() => Promise<string>) | null;
  private _unwatch: () => void = () => undefined;
}
