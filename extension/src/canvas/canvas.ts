/**
 * The picture of a graph: draws what the state holds, and turns pointer and keys
 * into selection. It asks the kernel for nothing.
 */

import { Signal } from '@lumino/signaling';

import { type IItems, itemsOf, sameExtents } from '../layout/items';
import { IN_ONE_TASK, LayoutRunner } from '../layout/runner';
import type { ILayout } from '../layout/types';
import { Folding } from '../model/folds';
import { type Graph } from '../model/graph';
import { Latest } from '../model/latest';
import type { Change, GraphState } from '../model/state';
import { Box } from '../ui/dom';
import { CAPTION_HEIGHT, type ICaption } from './caption';
import { Gestures } from './gestures';
import { Keyboard } from './keyboard';
import { Scene } from './scene';
import { Picture } from './surface';
import { SvgContext, SvgPath } from './svg';
import { Tooltip } from './tooltip';
import { type IRect, type ISize, rectOnPage } from './viewport';

/** So many pixels of a PNG file are one of the page. */
const PNG_RATIO = 2;

export class GraphCanvas extends Box {
  constructor(options: { state: GraphState }) {
    super('workbench-Canvas');
    this._state = options.state;
    this._picture = new Picture(this.node, () => this._state);
    this._prepareNode();
    const { camera } = this._picture;
    this._gestures = new Gestures(this._picture.surface, {
      pan: (dx, dy) => camera.pan(dx, dy),
      scroll: (dx, dy) => camera.scroll(dx, dy),
      zoom: (factor, x, y) => camera.zoomAt(factor, x, y),
      point: (x, y) => this._point(x, y),
      leave: () => this._state.hover(null),
      click: (x, y, also) => this._click(x, y, also),
      open: (x, y) => this._open(x, y),
      menu: (x, y) => this._openMenu(x, y),
      focused: () => this.node.contains(document.activeElement)
    });
    this._keyboard = new Keyboard(this._state, this._picture, {
      activate: (item, x, y) => this._activate(item, x, y),
      override: node => this.overrideRequested.emit(node),
      derivative: () => this.derivativeRequested.emit()
    });
    this._state.changed.connect(this._onChange, this);
    this._update();
  }

  /** A node was opened, by double click or Enter. */
  readonly activated = new Signal<this, number>(this);

  /** The key for an override was pressed; the node it is for. */
  readonly overrideRequested = new Signal<this, number>(this);

  /** The key for the derivative between the two chosen nodes was pressed. */
  readonly derivativeRequested = new Signal<this, void>(this);

  /** The menu of the selected node is asked for, at a point of the window. */
  readonly menuRequested = new Signal<this, { x: number; y: number }>(this);

  /** Show all of the graph. */
  showAll(): void {
    this._picture.camera.fit();
  }

  /** Bring a node to the middle, legibly. */
  centre(node: number): void {
    this._state.reveal(node);
    this._bring(node, true);
  }

  /** Bring a node to the middle if it is not in sight. */
  find(node: number): void {
    this._state.reveal(node);
    this._bring(node, false);
  }

  /** Move and zoom together with another picture of the same layout; null: no more. */
  linkWith(other: GraphCanvas | null): void {
    this._picture.link(other?._picture ?? null);
  }

  zoomBy(factor: number): void {
    this._picture.camera.zoomBy(factor);
  }

  /** What is seen, as an SVG file, with a caption below it. */
  drawSvg(caption: ICaption | null = null): string {
    const { width, height } = this._sizeWith(caption);
    const ruler = document.createElement('canvas').getContext('2d');
    const svg = new SvgContext(width, height, (text, font) => {
      if (ruler === null) {
        return 0;
      }
      ruler.font = font;
      return ruler.measureText(text).width;
    });
    // They have all of a context and its paths that the picture calls.
    this._picture.drawOn(
      svg as unknown as CanvasRenderingContext2D,
      1,
      caption,
      () => new SvgPath() as unknown as Path2D
    );
    return svg.finish(caption?.name);
  }

  /** What is seen, as a PNG file; null where the browser cannot make one. */
  drawPng(caption: ICaption | null = null): Promise<Blob | null> {
    const { width, height } = this._sizeWith(caption);
    const surface = document.createElement('canvas');
    surface.width = PNG_RATIO * width;
    surface.height = PNG_RATIO * height;
    const context = surface.getContext('2d');
    if (context !== null) {
      this._picture.drawOn(context, PNG_RATIO, caption);
    }
    return new Promise(resolve => {
      surface.toBlob(resolve, 'image/png');
    });
  }

  private _sizeWith(caption: ICaption | null): { width: number; height: number } {
    const { width, height } = this._picture.size;
    return { width, height: height + (caption === null ? 0 : CAPTION_HEIGHT) };
  }

  /** The node at a point, in pixels from the upper left; of a fold its last node. */
  nodeAt(x: number, y: number): number | null {
    const hit = this._picture.hit(x, y);
    const items = this._picture.scene?.items;
    return hit?.kind === 'item' && items ? items.node[hit.item] : null;
  }

  /** The card of a node, or of the folded scope that it stands in. */
  boxOf(node: number): IRect | null {
    return this._rect(node, (scene, item) => scene.card(item));
  }

  /** The gradient tile of a node; null if there is none to be seen. */
  tileOf(node: number): IRect | null {
    return this._rect(node, (scene, item) =>
      this._state.stage === 'derivative' && scene.graph.hasGradient(node)
        ? scene.tile(item)
        : null
    );
  }

  override dispose(): void {
    this._layouts.drop();
    super.dispose();
    this._picture.dispose();
  }

  handleEvent(event: Event): void {
    switch (event.type) {
      case 'contextmenu': {
        // By its key: at the selected node. That of a pointer ends at the surface.
        const { selected } = this._state;
        const box = selected === null ? null : this.boxOf(selected);
        event.preventDefault();
        event.stopPropagation();
        this._askForMenu((box?.x ?? 0) + 8, (box?.y ?? 0) + (box?.height ?? 0));
        break;
      }
      case 'keydown':
        if (event.target === this.node) {
          this._keyboard.press(event as KeyboardEvent);
        }
        break;
      case 'focus':
        this._picture.focusRing(this.node.matches(':focus-visible'));
        break;
      case 'blur':
        this._picture.focusRing(false);
        break;
    }
  }

  protected override onAttach(): void {
    this._gestures.start();
    for (const type of EVENTS) {
      this.node.addEventListener(type, this);
    }
    this._picture.start();
  }

  protected override onDetach(): void {
    this._gestures.stop();
    for (const type of EVENTS) {
      this.node.removeEventListener(type, this);
    }
    this._tooltip.hide();
    this._picture.stop();
  }

  private _prepareNode(): void {
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'application');
    this.node.append(this._tooltip.node);
    const { _picture: picture } = this;
    const workbenchCanvas: ICanvasProbe = {
      boxOf: node => this.boxOf(node),
      tileOf: node => this.tileOf(node),
      nodeAt: (x, y) => this.nodeAt(x, y),
      get outlined() {
        return picture.outlined;
      },
      get frames() {
        return picture.frames;
      },
      get leastText() {
        return picture.leastText;
      },
      get size() {
        return picture.size;
      },
      svg: () => this.drawSvg(),
      get layoutRan() {
        return LayoutRunner.shared.where;
      }
    };
    Object.assign(this.node, { workbenchCanvas });
  }

  private _onChange(_: GraphState, change: Change): void {
    switch (change) {
      case 'graph':
      case 'values':
        this._update();
        break;
      case 'view':
        if (this._folds.equals(this._state.folding)) {
          this._picture.refresh('view');
        } else {
          this._update();
        }
        break;
      case 'selection':
        this._picture.refresh('selection');
        this._describe();
        break;
      case 'hover':
        this._picture.refresh('hover');
        this._showTooltip();
        break;
    }
  }

  /** Show the graph of the state, laid out anew only if it must be. */
  private _update(): void {
    const { graph, folding } = this._state;
    this._describe();
    if (graph === null) {
      this._layouts.drop();
      this._pending = null;
      this._picture.show(null, null);
      return;
    }
    // A layout on its way takes the newest values when it is there: were it begun
    // again with each patch of a training loop, it would never be.
    const sameFolds = this._folds.equals(folding);
    if (sameFolds && this._pending?.sameStructure(graph) === true) {
      return;
    }
    const { scene } = this._picture;
    const same = sameFolds && scene?.graph.sameStructure(graph) === true;
    this._folds = folding;
    if (same && sameExtents(graph, scene.items)) {
      this._layouts.drop();
      this._pending = null;
      scene.graph = graph;
      this._picture.refresh('values');
      this._attendToChange(scene);
    } else {
      this._layOut(graph);
    }
  }

  /** What a step of a simplification changed is to be seen. */
  private _attendToChange({ graph, items }: Scene): void {
    const { came = [], went = [] } = graph.rewritten ?? {};
    const node = [...came, ...went].at(0);
    if (node !== undefined) {
      this._picture.attend(items.itemOf[node]);
    }
  }

  private _layOut(graph: Graph): void {
    const folding = this._folds;
    this._pending = graph;
    this._picture.markPending();
    this._layouts.ask(signal => layOut(graph, folding, signal));
  }

  private _showLayout({ graph, items, layout }: ILaidOut): void {
    this._pending = null;
    const newest = this._state.graph ?? graph;
    const before = this._picture.scene;
    const scene = new Scene(newest, items, layout);
    const counterparts = before === null ? null : newest.counterparts(before.graph);
    if (before !== null && counterparts !== null) {
      scene.moveFrom(before, counterparts);
    }
    this._picture.show(scene, counterparts);
    this._attendToChange(scene);
    if (!sameExtents(newest, items)) {
      this._layOut(newest);
    } else if (this._wanted !== null) {
      this._bring(this._wanted.node, this._wanted.always);
    }
  }

  /** Bring a node to the middle, once it is laid out. */
  private _bring(node: number, always: boolean): void {
    const { scene, camera } = this._picture;
    if (this._pending !== null) {
      this._wanted = { node, always };
      return;
    }
    this._wanted = null;
    const item = scene?.items.itemOf[node];
    if (scene !== null && item !== undefined) {
      const card = scene.card(item);
      if (always || !camera.sees(card)) {
        camera.centre(card);
      }
    }
  }

  private _describe(): void {
    const { graph, selected, marked } = this._state;
    const what =
      graph === null
        ? 'No graph yet'
        : `Graph of ${graph.header.output_name || graph.header.session}, ` +
          `${graph.count} nodes`;
    const where =
      graph === null || selected === null ? '' : `, at ${graph.label(selected)}`;
    const aside =
      graph === null || marked === null ? '' : `, ${graph.label(marked)} marked`;
    this.node.setAttribute('aria-label', what + where + aside);
  }

  /** The card of a node with its tile and pill, on the page. */
  private _wholeOf(node: number): IRect | null {
    return this._rect(node, (scene, item) => {
      const { left, right } = scene.items.input;
      return { ...scene.card(item), width: left[item] + right[item] };
    });
  }

  private _rect(
    node: number,
    read: (scene: Scene, item: number) => IRect | null
  ): IRect | null {
    const { scene, view } = this._picture;
    const item = scene?.items.itemOf[node];
    const rect = scene === null || item === undefined ? null : read(scene, item);
    return rect === null ? null : rectOnPage(view, rect);
  }

  private _point(x: number, y: number): void {
    const hit = this._picture.hit(x, y);
    this._picture.surface.style.cursor = hit === null ? '' : 'pointer';
    this._pointed = this.nodeAt(x, y);
    this._state.hover(this._pointed);
  }

  private _click(x: number, y: number, also: boolean): void {
    this.node.focus({ preventScroll: true });
    this._tooltip.hide();
    const hit = this._picture.hit(x, y);
    const items = this._picture.scene?.items;
    if (hit?.kind === 'group' && items) {
      this._fold(items.groups[hit.group], x, y);
      return;
    }
    const node = this.nodeAt(x, y);
    if (!also) {
      this._state.selectAlone(node);
    } else if (node !== null) {
      this._state.selectAlso(node);
    }
  }

  private _open(x: number, y: number): void {
    const hit = this._picture.hit(x, y);
    if (hit === null) {
      this._picture.camera.fit();
    } else if (hit.kind === 'item') {
      this._activate(hit.item, x, y);
    }
  }

  /** Select what is there, and ask for its menu. */
  private _openMenu(x: number, y: number): void {
    const node = this.nodeAt(x, y);
    if (node !== null && node !== this._state.selected) {
      this._state.select(node);
    }
    this._askForMenu(x, y);
  }

  private _askForMenu(x: number, y: number): void {
    this._tooltip.hide();
    if (this._state.selected !== null) {
      const { left, top } = this.node.getBoundingClientRect();
      this.menuRequested.emit({ x: left + x, y: top + y });
    }
  }

  /** Open a node, or unfold a scope. */
  private _activate(item: number, x: number, y: number): void {
    const { scene } = this._picture;
    const scope = scene?.items.scope[item] ?? null;
    if (scope !== null) {
      this._fold(scope, x, y);
    } else if (scene !== null) {
      this.activated.emit(scene.items.node[item]);
    }
  }

  private _fold(scope: string, x: number, y: number): void {
    this._tooltip.hide(); // what it stands beside goes
    this._picture.hold(x, y);
    this._state.toggleFold(scope);
  }

  private _showTooltip(): void {
    const { scene, size } = this._picture;
    const { hovered } = this._state;
    // A node that is hovered elsewhere, in a list, is only marked.
    if (scene === null || hovered === null || hovered !== this._pointed) {
      this._tooltip.hide();
      return;
    }
    this._tooltip.show(scene, scene.items.itemOf[hovered], () => ({
      card: this._wholeOf(hovered) ?? { x: 0, y: 0, width: 0, height: 0 },
      cards: this._picture.cards(),
      page: size
    }));
  }

  private readonly _state: GraphState;
  private readonly _picture: Picture;
  private readonly _gestures: Gestures;
  private readonly _keyboard: Keyboard;
  private readonly _tooltip = new Tooltip();
  private readonly _layouts = new Latest<ILaidOut>({
    take: made => this._showLayout(made)
  });
  /** The graph that is being laid out. */
  private _pending: Graph | null = null;
  /** The folds of the picture that is shown or on its way. */
  private _folds = new Folding();
  private _pointed: number | null = null;
  /** The node to bring to the middle when the picture is laid out. */
  private _wanted: { node: number; always: boolean } | null = null;
}

/** A graph, as it is folded, and where its cards stand. */
interface ILaidOut {
  graph: Graph;
  items: IItems;
  layout: ILayout;
}

/** Lay a graph out: at once, or a large one in parts between which the page answers. */
function layOut(
  graph: Graph,
  { folded, open }: Folding,
  signal: AbortSignal
): ILaidOut | Promise<ILaidOut> {
  if (graph.count >= IN_ONE_TASK) {
    return layOutInParts(graph, { folded, open }, signal);
  }
  const items = itemsOf(graph, folded, open);
  const layout = LayoutRunner.shared.lay(items.input, signal);
  return layout instanceof Promise
    ? layout.then(made => ({ graph, items, layout: made }))
    : { graph, items, layout };
}

async function layOutInParts(
  graph: Graph,
  { folded, open }: Pick<Folding, 'folded' | 'open'>,
  signal: AbortSignal
): Promise<ILaidOut> {
  await nextTask(signal);
  const items = itemsOf(graph, folded, open);
  const layout = await LayoutRunner.shared.lay(items.input, signal);
  await nextTask(signal);
  return { graph, items, layout };
}

/** Wait until the page has done what waits; throws if it was called off meanwhile. */
async function nextTask(signal: AbortSignal): Promise<void> {
  await new Promise(resolve => {
    setTimeout(resolve);
  });
  signal.throwIfAborted();
}

/** What is heard of the picture as a whole. */
const EVENTS = ['keydown', 'focus', 'blur', 'contextmenu'] as const;

/** What a test in a browser may ask of the picture: a property of its node. */
export interface ICanvasProbe {
  /** The card of a node, and its gradient tile, in pixels from the upper left. */
  boxOf(node: number): IRect | null;
  tileOf(node: number): IRect | null;
  nodeAt(x: number, y: number): number | null;
  /** How many cards are outlined for the line of the cursor. */
  readonly outlined: number;
  /** How many times the picture was drawn. */
  readonly frames: number;
  /** The size of the smallest text that was drawn, in pixels; Infinity for none. */
  readonly leastText: number;
  /** The part of it, from the upper left, in which cards are seen. */
  readonly size: ISize;
  /** What is seen, with all its texts. */
  svg(): string;
  /** Where the last layout ran. */
  readonly layoutRan: 'worker' | 'page' | null;
}
