/**
 * The surface that a scene is drawn on: its size, its view, its movements, and
 * when it is drawn. At most once in an animation frame, and never without need.
 */

import type { GraphState } from '../model/state';
import { Camera } from './camera';
import { type IFrame, detailAt } from './frame';
import { type ILooks, looksOf } from './looks';
import { type IMarks, marksOf, savedOf } from './marks';
import { Minimap } from './minimap';
import { MOVABLE, Motion, blend, calm } from './motion';
import { paint } from './paint';
import type { Hit, Scene } from './scene';
import { Pen } from './text';
import { type ITheme, readTheme, watchTheme } from './theme';
import { type ISize, type IView, overflows, toPage, visible } from './viewport';

/** Names of scopes can be clicked from this zoom on, where they can be read. */
const LABELS = 0.62;

export class Picture {
  /** What takes the pointer. */
  readonly surface: HTMLCanvasElement;
  readonly camera: Camera;

  constructor(
    private readonly _node: HTMLElement,
    private readonly _state: () => GraphState
  ) {
    this.surface = document.createElement('canvas');
    this.surface.setAttribute('aria-hidden', 'true');
    Object.assign(this.surface.style, {
      position: 'absolute',
      left: '0',
      top: '0',
      width: '100%',
      height: '100%',
      display: 'block'
    });
    this._ring = document.createElement('div');
    Object.assign(this._ring.style, {
      position: 'absolute',
      inset: '1px',
      display: 'none',
      pointerEvents: 'none',
      border: '2px solid var(--jp-brand-color1)',
      borderRadius: 'var(--jp-border-radius)'
    });
    Object.assign(_node.style, {
      position: 'relative',
      overflow: 'hidden',
      outline: 'none',
      userSelect: 'none',
      fontSize: 'var(--jp-ui-font-size1)',
      background: 'var(--jp-layout-color0)'
    });
    this.camera = new Camera(
      () => this._moves(),
      () => {
        this._schedule();
      }
    );
    this._minimap = new Minimap((x, y) => {
      this.camera.jump(x, y);
    });
    _node.append(this.surface, this._minimap.node, this._ring);
    this._observer = new ResizeObserver(() => {
      this._resize();
    });
  }

  get scene(): Scene | null {
    return this._scene;
  }

  get view(): IView {
    return this.camera.view;
  }

  get size(): ISize {
    return this.camera.size;
  }

  /** How many times the picture was drawn. */
  get frames(): number {
    return this._frames;
  }

  start(): void {
    this._observer.observe(this._node);
    this._unwatch = watchTheme(() => {
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
    this._scene = null;
  }

  focusRing(shown: boolean): void {
    this._ring.style.display = shown ? 'block' : 'none';
  }

  /** Another layout is on its way: not ready until it is drawn and at rest. */
  pending(): void {
    delete this._node.dataset['ready'];
  }

  /** Show a scene; `related` to the one before, which it then moves on from. */
  show(scene: Scene | null, related: boolean): void {
    const before = this._scene;
    this._scene = scene;
    this._shownLooks = null;
    this._looksFrom = null;
    this._moving.stop();
    if (scene === null) {
      this.pending();
      this._minimap.hide();
      this._schedule();
      return;
    }
    if (related && before !== null) {
      this._keepInPlace(before, scene);
      if (this._moves() && scene.items.count <= MOVABLE) {
        this._moving.begin(performance.now());
      }
    } else {
      this.camera.open();
    }
    this.refresh('all');
  }

  /** Draw again after a change of the state. */
  refresh(what: 'all' | 'values' | 'view' | 'selection' | 'hover'): void {
    const scene = this._scene;
    if (scene === null) {
      return;
    }
    const state = this._state();
    if (what === 'hover' && this._marks !== null) {
      this._marks = {
        ...this._marks,
        hovered: state.hovered === null ? null : scene.items.itemOf[state.hovered],
        saved: savedOf(state, scene)
      };
    } else {
      this._marks = null;
    }
    const recoloured = what === 'view' && this._looks?.colouring !== state.colouring;
    if (what === 'all' || what === 'values' || recoloured) {
      this._newLooks(scene, what === 'values');
    }
    this._schedule();
  }

  hit(x: number, y: number): Hit {
    const { view } = this;
    const inX = (x - view.x) / view.scale;
    const inY = (y - view.y) / view.scale;
    return this._scene?.hit(inX, inY, view.scale >= LABELS) ?? null;
  }

  /** Where the middle of an item's card is on the page. */
  middle(item: number): [number, number] {
    if (this._scene === null) {
      return [0, 0];
    }
    const card = toPage(this.view, this._scene.card(item));
    return [card.x + card.width / 2, card.y + card.height / 2];
  }

  /** What is at this point now stays there when the next scene is shown. */
  hold(x: number, y: number): void {
    this._held = { x, y };
  }

  private _moves(): boolean {
    return this._state().animated && !calm() && this._frames > 0;
  }

  /** Keep in place what was held, or what was nearest to the middle. */
  private _keepInPlace(before: Scene, after: Scene): void {
    const { view, size } = this;
    const at = this._held ?? { x: size.width / 2, y: size.height / 2 };
    this._held = null;
    if (this.camera.reopen()) {
      return;
    }
    const item = before.nearest(
      (at.x - view.x) / view.scale,
      (at.y - view.y) / view.scale
    );
    if (item === null) {
      return;
    }
    const now = after.items.itemOf[before.items.node[item]];
    // Not after.x(): that is still where the movement begins.
    const { dx, dy } = this.camera.follow(
      before.x(item) - after.layout.x[now],
      before.top(item) - after.layout.rowTop[after.layout.layer[now]],
      after.bounds
    );
    after.shiftStart(-dx, -dy);
  }

  private _newLooks(scene: Scene, softly: boolean): void {
    const looks = looksOf(
      scene.graph,
      scene.items,
      scene.layout,
      this._state().colouring
    );
    this._looksFrom = null;
    if (softly && this._moves() && scene.items.count <= MOVABLE) {
      this._looksFrom = this._shownLooks;
      this._looksMotion.begin(performance.now());
    }
    this._looks = looks;
  }

  private _resize(): void {
    const { clientWidth: width, clientHeight: height } = this._node;
    if (this.camera.resize({ width, height })) {
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
    const wide = Math.round(width * ratio);
    const tall = Math.round(height * ratio);
    if (this.surface.width !== wide || this.surface.height !== tall) {
      this.surface.width = wide;
      this.surface.height = tall;
    }
    const scene = this._scene;
    if (scene === null || this._looks === null) {
      context.clearRect(0, 0, wide, tall);
      return;
    }
    const { output } = scene.graph.header;
    const middle = output < 0 ? 0 : scene.layout.x[scene.items.itemOf[output]];
    this.camera.advance(now, scene.bounds, middle);
    scene.moving = 1 - this._moving.at(now);
    const frame = this._frameOf(context, scene, this._looks, now);
    paint(frame, ratio);
    if (overflows(this.view, scene.bounds, this.size)) {
      const { theme, looks } = frame;
      this._minimap.draw(scene, theme, this.view, this.size, ratio, looks.verdicts);
    } else {
      this._minimap.hide();
    }
    this._frames++;
    const gliding = this.camera.moving(now) || this._moving.running(now);
    if (!gliding) {
      this._node.dataset['ready'] = 'true';
    }
    if (gliding || (this._looksFrom !== null && this._looksMotion.running(now))) {
      this._schedule();
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
        : blend(this._looksFrom, looks, this._looksMotion.at(now));
    return {
      context,
      scene,
      looks: this._shownLooks,
      marks: (this._marks ??= marksOf(state, scene)),
      theme,
      pen: new Pen(context, theme),
      view: this.view,
      seen: visible(this.view, this.size),
      stage: state.stage,
      detail: detailAt(this.view.scale)
    };
  }

  private readonly _minimap: Minimap;
  private readonly _ring: HTMLElement;
  private readonly _observer: ResizeObserver;
  private _unwatch: () => void = () => undefined;
  private _scene: Scene | null = null;
  private _looks: ILooks | null = null;
  private _looksFrom: ILooks | null = null;
  private _shownLooks: ILooks | null = null;
  private _marks: IMarks | null = null;
  private _theme: ITheme | null = null;
  private readonly _moving = new Motion();
  private readonly _looksMotion = new Motion();
  private _held: { x: number; y: number } | null = null;
  private _request = 0;
  private _frames = 0;
}
