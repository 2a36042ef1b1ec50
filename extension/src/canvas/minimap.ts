/** The whole picture in a corner, with a frame around what is seen of it. */

import { MEASURES } from '../layout/types';
import { type IVerdict, isAlarming } from '../model/verdicts';
import { Scene } from './scene';
import { ITheme } from './theme';
import { ISize, IView, visibleBounds } from './viewport';

const LARGEST: ISize = { width: 100, height: 150 };

/** It takes no more of a page than this part of its width and of its height. */
const SHARE: ISize = { width: 1 / 8, height: 1 / 3 };

/** The air on both sides of it. */
const BESIDE = 10;
const LEAST = 44;
const MARGIN = 6;

/** So many alarms are drawn at most, and so large. */
const ALARMS = 2000;
const ALARM = 4;

/** A page less wide than this, or smaller, has none: the picture needs all of it. */
const LEAST_PAGE = 400;
const LEAST_AREA = 600 * 400;

export class Minimap {
  readonly node: HTMLCanvasElement;

  /** `moveTo` is called with the point of the picture that should be in the middle. */
  constructor(private readonly _moveTo: (x: number, y: number) => void) {
    this.node = document.createElement('canvas');
    this.node.className = 'workbench-Canvas-minimap';
    this.node.setAttribute('aria-hidden', 'true');
    this.hide();
    this.node.addEventListener('pointerdown', event => {
      event.preventDefault();
      this.node.setPointerCapture(event.pointerId);
      this._point(event);
    });
    this.node.addEventListener('pointermove', event => {
      if (event.buttons === 1) {
        this._point(event);
      }
    });
  }

  hide(): void {
    this.node.hidden = true;
  }

  /**
   * Find its size in a page, and how wide the column is that it takes beside the
   * picture; 0 in a small page.
   */
  measure(scene: Scene, page: ISize): number {
    this._fitting = sizeOf(scene, page);
    const isSmall = page.width < LEAST_PAGE || page.width * page.height < LEAST_AREA;
    return isSmall ? 0 : this._fitting.width + 2 * BESIDE;
  }

  /** Draw it; the shapes are kept until scene, theme or its size are others. */
  draw(
    scene: Scene,
    theme: ITheme,
    view: IView,
    page: ISize,
    ratio: number,
    verdicts: ReadonlyMap<number, IVerdict>
  ): void {
    const { width, height } = this._fitting;
    const isOther = width !== this._size.width || height !== this._size.height;
    if (
      isOther ||
      scene !== this._scene ||
      theme !== this._theme ||
      ratio !== this._ratio
    ) {
      this._size = this._fitting;
      this._scene = scene;
      this._theme = theme;
      this._ratio = ratio;
      this._shapes = this._drawShapes(scene, theme, ratio);
    }
    const context = this.node.getContext('2d');
    if (context === null || this._shapes === null) {
      return;
    }
    if (this.node.width !== width * ratio || this.node.height !== height * ratio) {
      this.node.width = width * ratio;
      this.node.height = height * ratio;
      this.node.style.width = `${width}px`;
      this.node.style.height = `${height}px`;
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.node.width, this.node.height);
    context.drawImage(this._shapes, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this._drawAlarms(context, scene, theme, verdicts);
    const seen = visibleBounds(view, page);
    const left = Math.max(1, this._x(seen.left));
    const top = Math.max(1, this._y(seen.top));
    const right = Math.min(width - 1, this._x(seen.right));
    const bottom = Math.min(height - 1, this._y(seen.bottom));
    context.lineWidth = 1;
    context.strokeStyle = theme.accent;
    context.fillStyle = theme.accent;
    const frame = [
      left,
      top,
      Math.max(2, right - left),
      Math.max(2, bottom - top)
    ] as const;
    context.globalAlpha = 0.08;
    context.fillRect(...frame);
    context.globalAlpha = 1;
    context.strokeRect(...frame);
    this.node.hidden = false;
  }

  /** What is wrong, as dots that no distance hides. */
  private _drawAlarms(
    context: CanvasRenderingContext2D,
    scene: Scene,
    theme: ITheme,
    verdicts: ReadonlyMap<number, IVerdict>
  ): void {
    const { x, layer, rowTop } = scene.layout;
    let left = ALARMS;
    context.fillStyle = theme.error;
    for (const [item, verdict] of verdicts) {
      if (left > 0 && isAlarming(verdict)) {
        left--;
        context.fillRect(
          this._x(x[item]) - ALARM / 2,
          this._y(rowTop[layer[item]] + MEASURES.height / 2) - ALARM / 2,
          ALARM,
          ALARM
        );
      }
    }
  }

  private _drawShapes(scene: Scene, theme: ITheme, ratio: number): HTMLCanvasElement {
    const { bounds } = scene;
    const wide = Math.max(1, bounds.right - bounds.left);
    const tall = Math.max(1, bounds.bottom - bounds.top);
    this._scaleX = (this._size.width - 2 * MARGIN) / wide;
    this._scaleY = (this._size.height - 2 * MARGIN) / tall;
    const shapes = document.createElement('canvas');
    shapes.width = this._size.width * ratio;
    shapes.height = this._size.height * ratio;
    const context = shapes.getContext('2d');
    if (context === null) {
      return shapes;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = theme.faint;
    const { left } = scene.items.input;
    const { x, layer, rowTop } = scene.layout;
    for (let item = 0; item < scene.items.count; item++) {
      // Where cards come to rest: this is drawn while they may still move.
      context.fillRect(
        this._x(x[item] - left[item]),
        this._y(rowTop[layer[item]]),
        Math.max(1, 2 * left[item] * this._scaleX),
        Math.max(1, MEASURES.height * this._scaleY)
      );
    }
    return shapes;
  }

  private _point(event: PointerEvent): void {
    const scene = this._scene;
    if (scene !== null) {
      this._moveTo(
        (event.offsetX - MARGIN) / this._scaleX + scene.bounds.left,
        (event.offsetY - MARGIN) / this._scaleY + scene.bounds.top
      );
    }
  }

  private _x(x: number): number {
    return MARGIN + (x - (this._scene?.bounds.left ?? 0)) * this._scaleX;
  }

  private _y(y: number): number {
    return MARGIN + (y - (this._scene?.bounds.top ?? 0)) * this._scaleY;
  }

  private _scene: Scene | null = null;
  private _theme: ITheme | null = null;
  private _ratio = 0;
  private _shapes: HTMLCanvasElement | null = null;
  /** Its size as it is drawn, and as it fits into the page. */
  private _size: ISize = LARGEST;
  private _fitting: ISize = LARGEST;
  private _scaleX = 1;
  private _scaleY = 1;
}

function sizeOf({ bounds }: Scene, page: ISize): ISize {
  const wide = Math.max(1, bounds.right - bounds.left);
  const tall = Math.max(1, bounds.bottom - bounds.top);
  const width = Math.max(LEAST, Math.min(LARGEST.width, page.width * SHARE.width));
  const height = Math.max(LEAST, Math.min(LARGEST.height, page.height * SHARE.height));
  const scale = Math.min((width - 2 * MARGIN) / wide, (height - 2 * MARGIN) / tall);
  // A long thin picture is widened: its rows must still be seen.
  return {
    width: Math.round(Math.max(LEAST, wide * scale + 2 * MARGIN)),
    height: Math.round(Math.max(LEAST, tall * scale + 2 * MARGIN))
  };
}
