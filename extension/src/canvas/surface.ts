/**
 * The surface that a scene is drawn on: its size, its view, its movements, and
 * when it is drawn. At most once in an animation frame, and never without need.
 */

import { MEASURES } from '../layout/types';
import type { GraphState } from '../model/state';
import { drawVerdicts } from './badges';
import { Camera } from './camera';
import { type ICaption, drawCaption } from './caption';
import { drawCards, drawRings } from './cards';
import { drawEdges, drawPath, drawSaved } from './edges';
import { type IFrame, type IGround, detailAt, sameGround, thinningAt } from './frame';
import { type ILooks, looksOf } from './looks';
import { type IMarks, marksOf, outlinedOf, savedOf } from './marks';
import { Minimap } from './minimap';
import { MOVABLE, Motion, blendLooks, prefersCalm } from './motion';
import { IOutline, lastPart } from './outline';
import type { Hit, Scene } from './scene';
import { Signposts, signsOf } from './signposts';
import { Pen } from './text';
import { type ITheme, readTheme, watchTheme } from './theme';
import { type ITileMaker, SIDE, TileCache } from './tiles';
import {
  type IBounds,
  type IRect,
  type ISize,
  type IView,
  LEGIBLE,
  rectOnPage,
  visibleBounds
} from './viewport';

/** A view with so many boxes and edges or more is drawn in tiles. */
const HEAVY = 1500;

/** Milliseconds for which tiles are painted in a drawing, while the view moves. */
const BUDGET = 7;

/** So many inputs stay in sight, beside the output, when something opens. */
const ENDS = 4;

/** What reaches out of a card, so far that it may lie in another tile. */
const OVERHANG = 48;

export class Picture {
  /** What takes the pointer. */
  readonly surface: HTMLCanvasElement;
  readonly camera: Camera;
  scene: Scene | null = null;
  /** How many times the picture was drawn. */
  frames = 0;

  constructor(
    private readonly _node: HTMLElement,
    private readonly _state: () => GraphState
  ) {
    this.surface = document.createElement('canvas');
    this.surface.className = 'workbench-Canvas-surface';
    this.surface.setAttribute('aria-hidden', 'true');
    this._ring = document.createElement('div');
    this._ring.className = 'workbench-Canvas-focus';
    this._ring.hidden = true;
    this.camera = new Camera(
      () => this._canMove(),
      () => this._schedule()
    );
    this._minimap = new Minimap((x, y) => this.camera.jump(x, y));
    this._signposts = new Signposts(item => this._goTo(item));
    const { node: signposts } = this._signposts;
    _node.append(this.surface, signposts, this._minimap.node, this._ring);
    this._observer = new ResizeObserver(() => this._resize());
  }

  get view(): IView {
    return this.camera.view;
  }

  /** The size of the smallest text that was drawn, in pixels; Infinity for none. */
  get leastText(): number {
    return this._leastText;
  }

  get size(): ISize {
    return this.camera.size;
  }

  /** How many items are outlined in the last drawing. */
  get outlined(): number {
    return this._marks?.outlined.size ?? 0;
  }

  /** Let another picture of the same layout be looked at as this one is. */
  link(other: Picture | null): void {
    this._linked = other;
    this._shared = null;
    this._schedule();
  }

  start(): void {
    this._observer.observe(this._node);
    this._unwatch = watchTheme(this._node, () => {
      this._theme = null;
      this._schedule();
    });
    this._resize();
  }

  stop(): void {
    this._observer.disconnect();
    this._unwatch();
    this._unwatch = () => undefined;
    cancelAnimationFrame(this._request);
    this._request = 0;
  }

  dispose(): void {
    this.stop();
    this.scene = null;
    this._tiles.clear();
  }

  focusRing(shown: boolean): void {
    this._ring.hidden = !shown;
  }

  /** Another layout is on its way: not ready until it is drawn and at rest. */
  markPending(): void {
    delete this._node.dataset['ready'];
  }

  /** Show a scene; with what its nodes were in the one before it moves on from that. */
  show(scene: Scene | null, counterparts: Int32Array | null): void {
    const before = this.scene;
    this.scene = scene;
    this._tiles.clear();
    this._shownLooks = null;
    this._looksFrom = null;
    this._moving.stop();
    if (scene === null) {
      this.markPending();
      this._minimap.hide();
      this._signposts.hide();
      this._schedule();
      return;
    }
    if (counterparts !== null && before !== null) {
      this._keepInPlace(before, scene, counterparts);
      if (this._canMove() && scene.items.count <= MOVABLE) {
        this._moving.begin(performance.now());
      }
    } else if (this._linked?.scene?.graph.sameStructure(scene.graph) === true) {
      // It comes late beside another picture: what that one shows is to stay.
      this._shared = this._linked.view;
      this.camera.adopt(this._linked.view);
    } else {
      this.camera.open();
    }
    this.refresh('all');
  }

  /** Let an item be near the middle from the next drawing on. */
  attend(item: number): void {
    this._attended = item;
    this._schedule();
  }

  /** Draw again after a change of the state. */
  refresh(what: 'all' | 'values' | 'view' | 'selection' | 'hover'): void {
    const scene = this.scene;
    if (scene === null) {
      return;
    }
    const state = this._state();
    if (what === 'hover' && this._marks !== null) {
      this._marks = {
        ...this._marks,
        hovered: state.hovered === null ? null : scene.items.itemOf[state.hovered],
        outlined: outlinedOf(state, scene),
        saved: savedOf(state, scene)
      };
    } else {
      this._marks = null;
    }
    const looks = this._looks;
    const recoloured =
      what === 'view' &&
      (looks?.colouring !== state.colouring || looks.tileText !== state.tileText);
    if (what === 'all' || what === 'values' || recoloured) {
      this._newLooks(scene, what === 'values');
    }
    this._schedule();
  }

  hit(x: number, y: number): Hit {
    const { view } = this;
    const inX = (x - view.x) / view.scale;
    const inY = (y - view.y) / view.scale;
    return this.scene?.hit(inX, inY, view.scale >= LEGIBLE) ?? null;
  }

  /** The cards in sight with their tiles, on the page. */
  cards(): IRect[] {
    const { scene, view } = this;
    const found: IRect[] = [];
    scene?.eachItem(visibleBounds(view, this.size), item => {
      const card = scene.card(item);
      const width = scene.items.input.left[item] + scene.items.input.right[item];
      found.push(rectOnPage(view, { ...card, width }));
    });
    return found;
  }

  /** Where the middle of an item's card is on the page. */
  middle(item: number): [number, number] {
    if (this.scene === null) {
      return [0, 0];
    }
    const card = rectOnPage(this.view, this.scene.card(item));
    return [card.x + card.width / 2, card.y + card.height / 2];
  }

  /** What is at this point now stays there when the next scene is shown. */
  hold(x: number, y: number): void {
    this._held = { x, y };
  }

  /** Draw what is seen elsewhere, with so many pixels to one of the page. */
  drawOn(
    context: CanvasRenderingContext2D,
    ratio: number,
    caption: ICaption | null = null,
    makePath = (): Path2D => new Path2D()
  ): void {
    const { scene } = this;
    const { width, height } = this.size;
    const theme = (this._theme ??= readTheme(this._node));
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, ratio * width, ratio * height);
    if (scene !== null && this._looks !== null) {
      const frame = this._frameOf(context, scene, this._looks, performance.now());
      placePicture(frame, ratio);
      paintGround({ ...frame, makePath });
      paintChosen({ ...frame, makePath });
    }
    if (caption !== null) {
      drawCaption(context, this.size, ratio, theme, caption);
    }
  }

  private _canMove(): boolean {
    return this._state().animated && !prefersCalm() && this.frames > 0;
  }

  /** Keep in place what was held, or what was nearest to the middle. */
  private _keepInPlace(before: Scene, after: Scene, counterparts: Int32Array): void {
    const { view, size } = this;
    const held = this._held;
    const at = held ?? { x: size.width / 2, y: size.height / 2 };
    this._held = null;
    this.camera.halt();
    const item = before.nearest(
      (at.x - view.x) / view.scale,
      (at.y - view.y) / view.scale
    );
    if (item === null) {
      return;
    }
    const node = counterparts.indexOf(before.items.node[item]);
    if (node < 0) {
      return;
    }
    const now = after.items.itemOf[node];
    const { output, wrt } = before.graph.header;
    const ends = [output, ...wrt.slice(0, ENDS)]
      .filter(end => end >= 0)
      .filter(end => this.camera.sees(before.card(before.items.itemOf[end])))
      .map(end => counterparts.indexOf(end))
      .filter(end => end >= 0);
    // Not after.x(): that is still where the movement begins.
    const { dx, dy } = this.camera.follow(
      before.x(item) - after.layout.x[now],
      before.top(item) - after.layout.rowTop[after.layout.layer[now]],
      after.bounds
    );
    after.shiftStart(-dx, -dy);
    if (held === null && this.camera.refit()) {
      return;
    }
    // What opens may be as long as it likes: it does not push the output out of sight,
    // nor what is differentiated by, as long as all of it can be read.
    const places = [now, ...ends.map(end => after.items.itemOf[end])].map(one =>
      placeOf(after, one)
    );
    // What was opened by hand is what the reader wants to see, with its ends or alone.
    const opened = held === null ? [] : openedBy(before, item, after, counterparts);
    if (opened.length > 1) {
      const whole = boundsAround(opened);
      if (
        opened.every(place => this.camera.sees(place)) ||
        this.camera.gather(boundsAround([...opened, ...places])) ||
        this.camera.gather(whole)
      ) {
        return;
      }
    }
    if (
      ends.length > 0 &&
      places.some(place => !this.camera.sees(place)) &&
      !this.camera.gather(boundsAround(places)) &&
      !this.camera.gather(boundsAround(places.slice(0, 2)))
    ) {
      this.camera.reveal(places[1]);
    }
  }

  private _newLooks(scene: Scene, softly: boolean): void {
    const looks = looksOf(
      scene.graph,
      scene.items,
      scene.layout,
      this._state().colouring,
      this._state().tileText
    );
    this._looksFrom = null;
    if (softly && this._canMove() && scene.items.count <= MOVABLE) {
      this._looksFrom = this._shownLooks;
      this._looksMotion.begin(performance.now());
    }
    this._looks = looks;
  }

  private _resize(): void {
    const { clientWidth: width, clientHeight: height } = this._node;
    const { selected } = this._state();
    const chosen =
      this.scene === null || selected === null
        ? null
        : placeOf(this.scene, this.scene.items.itemOf[selected]);
    if (this.camera.resize({ width, height }, chosen)) {
      this._schedule();
    }
  }

  private _schedule(): void {
    if (this._request === 0 && this._node.isConnected) {
      this._request = requestAnimationFrame(now => {
        this._request = 0;
        this._draw(now);
      });
    }
  }

  private _draw(now: number): void {
    const { width, height } = this.size;
    const context = this.surface.getContext('2d');
    if (context === null || width === 0 || height === 0) {
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    const { width: fullWidth, height: fullHeight } = this.camera.page;
    const wide = Math.round(fullWidth * ratio);
    const tall = Math.round(fullHeight * ratio);
    if (this.surface.width !== wide || this.surface.height !== tall) {
      this.surface.width = wide;
      this.surface.height = tall;
    }
    const scene = this.scene;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide, tall);
    if (scene === null || this._looks === null) {
      return;
    }
    const { output } = scene.graph.header;
    const middle = output < 0 ? 0 : scene.layout.x[scene.items.itemOf[output]];
    this.camera.column = this._minimap.measure(scene, this.camera.page);
    this.camera.advance(now, scene.bounds, middle);
    if (this._attended !== null && this._attended < scene.items.count) {
      scene.moving = 0; // where it will be, not where it comes from
      this.camera.attend(scene.card(this._attended));
    }
    this._attended = null;
    scene.moving = 1 - this._moving.at(now);
    this._shareView();
    const frame = this._frameOf(context, scene, this._looks, now);
    const blending = this._looksFrom !== null && this._looksMotion.running(now);
    const gliding = this.camera.moving(now) || this._moving.running(now);
    const done = this._paint(frame, ratio, blending || this._moving.running(now), now);
    this._drawAround(frame, ratio);
    this.frames++;
    if (!gliding && done) {
      this._node.dataset['ready'] = 'true';
    }
    if (gliding || blending || !done) {
      this._schedule();
    }
  }

  /** Tell a linked picture of another view than the one that both have. */
  private _shareView(): void {
    const { scale, x, y } = this.view;
    const before = this._shared;
    if (this._linked === null || this._linked.scene === null) {
      return;
    }
    if (before?.scale !== scale || before.x !== x || before.y !== y) {
      this._shared = this._linked._shared = this.view;
      this._linked.camera.adopt(this.view);
    }
  }

  /** Draw what is seen; false if there is more to do when the view is still. */
  private _paint(frame: IFrame, ratio: number, changing: boolean, now: number): boolean {
    const { scene, seen, context, view } = frame;
    const { width, height } = this.size;
    context.save();
    context.beginPath();
    context.rect(0, 0, Math.round(width * ratio), Math.round(height * ratio));
    context.clip();
    let done = true;
    if (changing || scene.weightBetween(seen.top, seen.bottom) < HEAVY) {
      placePicture(frame, ratio);
      paintGround(frame);
      this._leastText = frame.pen.least;
    } else {
      done = this._paintTiles(frame, ratio, now);
      placePicture(frame, ratio);
    }
    paintChosen(frame);
    context.restore();
    return done && view.scale > 0;
  }

  private _paintTiles(frame: IFrame, ratio: number, now: number): boolean {
    const { context } = frame;
    if (this._ground !== null && !sameGround(this._ground, frame)) {
      this._tiles.outdate();
    }
    this._ground = frame;
    const maker: ITileMaker<HTMLCanvasElement> = {
      make: () => {
        const image = document.createElement('canvas');
        image.width = SIDE;
        image.height = SIDE;
        return image;
      },
      paint: (image, { left, top, right, bottom }, scale) => {
        const inside = image.getContext('2d');
        if (inside === null) {
          return;
        }
        inside.setTransform(1, 0, 0, 1, 0, 0);
        inside.clearRect(0, 0, SIDE, SIDE);
        const view = { scale: scale / ratio, x: (-left * scale) / ratio, y: 0 };
        view.y = (-top * scale) / ratio;
        const part: IFrame = {
          ...frame,
          context: inside,
          pen: new Pen(inside, frame.theme, view.scale),
          view,
          seen: {
            left: left - OVERHANG,
            top: top - OVERHANG,
            right: right + OVERHANG,
            bottom: bottom + OVERHANG
          },
          detail: detailAt(view.scale),
          every: thinningAt(frame.scene, view, this.size.height)
        };
        placePicture(part, ratio);
        paintGround(part);
        this._leastText = Math.min(this._leastText, part.pen.least);
      },
      put: (image, x, y, side) => context.drawImage(image, x, y, side, side)
    };
    const { scale, x, y } = this.view;
    const still = this.camera.isStill(now);
    if (still) {
      this._leastText = Infinity;
    }
    return this._tiles.draw(
      { scale: scale * ratio, x: Math.round(x * ratio), y: Math.round(y * ratio) },
      { width: this.size.width * ratio, height: this.size.height * ratio },
      still ? Infinity : BUDGET,
      maker
    );
  }

  /** What stands beside the picture when not all of it is seen. */
  private _drawAround({ scene, theme, looks }: IFrame, ratio: number): void {
    const { overflows, column } = this.camera;
    if (overflows && column > 0) {
      this._minimap.draw(scene, theme, this.view, this.size, ratio, looks.verdicts);
    } else {
      this._minimap.hide();
    }
    if (overflows) {
      this._signposts.show(signsOf(scene, this.view, this.size));
    } else {
      this._signposts.hide();
    }
  }

  private _goTo(item: number): void {
    if (this.scene !== null && item < this.scene.items.count) {
      this.camera.centre(this.scene.card(item));
    }
  }

  private _frameOf(
    context: CanvasRenderingContext2D,
    scene: Scene,
    looks: ILooks,
    now: number
  ): IFrame {
    const theme = (this._theme ??= readTheme(this._node));
    const state = this._state();
    this._shownLooks =
      this._looksFrom === null
        ? looks
        : blendLooks(this._looksFrom, looks, this._looksMotion.at(now));
    return {
      context,
      scene,
      looks: this._shownLooks,
      marks: (this._marks ??= marksOf(state, scene)),
      theme,
      pen: new Pen(context, theme, this.view.scale),
      makePath: () => new Path2D(),
      view: this.view,
      seen: visibleBounds(this.view, this.size),
      stage: state.stage,
      detail: detailAt(this.view.scale),
      every: thinningAt(scene, this.view, this.size.height)
    };
  }

  private readonly _minimap: Minimap;
  private readonly _signposts: Signposts;
  private readonly _tiles = new TileCache<HTMLCanvasElement>(() => performance.now());
  /** What the tiles show. */
  private _ground: IGround | null = null;
  private _leastText = Infinity;
  private readonly _ring: HTMLElement;
  private readonly _observer: ResizeObserver;
  private _unwatch: () => void = () => undefined;
  private _linked: Picture | null = null;
  /** The view that was last told to a linked picture, or by it. */
  private _shared: IView | null = null;
  private _looks: ILooks | null = null;
  private _looksFrom: ILooks | null = null;
  private _shownLooks: ILooks | null = null;
  private _marks: IMarks | null = null;
  private _theme: ITheme | null = null;
  private readonly _moving = new Motion();
  private readonly _looksMotion = new Motion();
  private _attended: number | null = null;
  private _held: { x: number; y: number } | null = null;
  private _request = 0;
}

/** Where a card with its tile will be when nothing moves any more. */
function placeOf({ items, layout }: Scene, item: number): IRect {
  const { left, right } = items.input;
  return {
    x: layout.x[item] - left[item],
    y: layout.rowTop[layout.layer[item]],
    width: left[item] + right[item],
    height: MEASURES.height
  };
}

/** The places of what stood in one card before. */
function openedBy(
  before: Scene,
  card: number,
  after: Scene,
  counterparts: Int32Array
): IRect[] {
  const { node, scope } = after.items;
  const path = before.items.scope[card];
  return Array.from(node.keys())
    .filter(item => scope[item] === null || scope[item] !== path)
    .filter(item => counterparts[node[item]] >= 0)
    .filter(item => before.items.itemOf[counterparts[node[item]]] === card)
    .map(item => placeOf(after, item));
}

function boundsAround(rects: readonly IRect[]): IBounds {
  return {
    left: Math.min(...rects.map(({ x }) => x)),
    top: Math.min(...rects.map(({ y }) => y)),
    right: Math.max(...rects.map(({ x, width }) => x + width)),
    bottom: Math.max(...rects.map(({ y, height }) => y + height))
  };
}

// One drawing of the picture, back to front.

/** Let one pixel of the picture be as many of the device as the view tells. */
function placePicture({ context, view }: IFrame, ratio: number): void {
  // The origin lies on a device pixel, or every border would be blurred.
  context.setTransform(
    ratio * view.scale,
    0,
    0,
    ratio * view.scale,
    Math.round(ratio * view.x),
    Math.round(ratio * view.y)
  );
}

/** All that does not depend on what the reader points at and has chosen. */
function paintGround(frame: IFrame): void {
  drawOutlines(frame);
  drawEdges(frame);
  drawCards(frame);
  drawVerdicts(frame);
  if (frame.detail.numbers) {
    drawShapes(frame);
  }
}

/** What the reader points at and has chosen, over that. */
function paintChosen(frame: IFrame): void {
  drawPath(frame);
  drawRings(frame);
  drawSaved(frame);
}

/** The shape of what flows, beside each edge, where it leaves its card. */
function drawShapes(frame: IFrame): void {
  const { scene, pen, theme, seen } = frame;
  const { graph, items } = scene;
  scene.eachItem(seen, item => {
    const shape = graph.shape(items.node[item]);
    if (shape !== '' && graph.consumers(items.node[item]).length > 0) {
      pen.write(shape, scene.x(item) + 5, scene.top(item) + MEASURES.height + 9, {
        font: pen.mono(pen.legible(theme.size - 6)),
        fill: theme.quiet,
        room: 60
      });
    }
  });
}

// Draws unfolded scopes: a faint ground behind their rows, with their name.

function drawOutlines(frame: IFrame): void {
  const { context, scene, theme, view, seen, detail } = frame;
  const [first, end] = scene.rowsBetween(seen.top, seen.bottom);
  if (!detail.curves) {
    return;
  }
  for (const outline of scene.outlines) {
    if (outline.first > end || outline.first + outline.left.length < first) {
      continue;
    }
    traceOutline(frame, outline, first - 2, end + 2);
    context.globalAlpha = 0.025;
    context.fillStyle = theme.text;
    context.fill();
    context.globalAlpha = 0.6;
    context.strokeStyle = theme.border;
    context.lineWidth = Math.max(0.8, 0.5 / view.scale);
    context.stroke();
    context.globalAlpha = 1;
    if (detail.text && outline.first >= first) {
      drawLabel(frame, outline);
    }
  }
}

function drawLabel(frame: IFrame, outline: IOutline): void {
  const { scene, pen, theme } = frame;
  const rect = outline.label;
  const name = lastPart(scene.items.groups[outline.group]);
  pen.write(`▾ ${name}`, rect.x + 2, rect.y + rect.height - 4, {
    font: pen.ui(pen.legible(theme.size - 2)),
    fill: theme.quiet,
    room: rect.width
  });
}

/** Round the rows of a scope: down its right side, up its left. */
function traceOutline(frame: IFrame, outline: IOutline, from: number, to: number): void {
  const { context, scene } = frame;
  const { left, right, first, pad } = outline;
  const { rowTop } = scene.layout;
  const low = Math.max(0, from - first);
  const high = Math.min(left.length - 1, to - first);
  const points: [number, number][] = [];
  for (let row = low; row <= high; row++) {
    const x = right[row] + pad;
    points.push([x, upperEdge(row)], [x, lowerEdge(row)]);
  }
  for (let row = high; row >= low; row--) {
    const x = left[row] - pad;
    points.push([x, lowerEdge(row)], [x, upperEdge(row)]);
  }
  context.beginPath();
  traceRounded(context, points);

  function upperEdge(row: number): number {
    const top = rowTop[first + row];
    return row === 0 ? top - pad : middleOfGap(row);
  }
  function lowerEdge(row: number): number {
    const bottom = rowTop[first + row] + MEASURES.height;
    return row === left.length - 1 ? bottom + pad : middleOfGap(row + 1);
  }
  /** The middle of the gap above a row. */
  function middleOfGap(row: number): number {
    return (rowTop[first + row - 1] + MEASURES.height + rowTop[first + row]) / 2;
  }
}

/** A closed path through points, with rounded corners. */
function traceRounded(context: CanvasRenderingContext2D, points: [number, number][]): void {
  const corners = points.filter(
    ([x, y], i) => x !== points.at(i - 1)?.[0] || y !== points.at(i - 1)?.[1]
  );
  const [startX, startY] = middle(corners[corners.length - 1], corners[0]);
  context.moveTo(startX, startY);
  corners.forEach((corner, i) => {
    const next = corners[(i + 1) % corners.length];
    const [x, y] = middle(corner, next);
    const before = corners[(i + corners.length - 1) % corners.length];
    const radius = Math.min(
      8,
      distance(before, corner) / 2,
      distance(corner, next) / 2
    );
    context.arcTo(corner[0], corner[1], x, y, radius);
  });
  context.closePath();
}

function middle(a: [number, number], b: [number, number]): [number, number] {
  return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
}

function distance(a: [number, number], b: [number, number]): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}
