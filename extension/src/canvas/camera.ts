/** Where the reader looks: the view of the picture, and how it moves. No DOM. */

import { Motion } from './motion';
import {
  FOOT,
  type IBounds,
  type IRect,
  type ISize,
  type IView,
  LEGIBLE,
  blendViews,
  centreView,
  fitView,
  keepInSight,
  overflows,
  openingView,
  rectOnPage,
  visibleBounds,
  zoomAt
} from './viewport';

/** A node that is brought to the middle is drawn at least so large. */
const CLEAR = 0.8;

/** The air around what is brought into sight, and what needs not be brought. */
const MARGIN = 40;
const EDGE = 8;

/** What is no further from the middle than this part of the page is near it. */
const NEAR = 0.3;

/** Milliseconds without a movement, after which the view is still. */
const STILL = 120;

const NOTHING: IBounds = { left: 0, top: 0, right: 0, bottom: 0 };

export class Camera {
  /** `soft` tells whether views may glide; `changed` that there is another one. */
  constructor(
    private readonly _soft: () => boolean,
    private readonly _changed: () => void
  ) {}

  view: IView = { scale: 1, x: 0, y: 0 };
  /** The size of the page, and of the part of it that the picture is seen in. */
  page: ISize = { width: 0, height: 0 };
  size: ISize = { width: 0, height: 0 };
  /** How wide the column is that a minimap takes where not all is seen. */
  column = 0;

  /**
   * True for a page that is not the size of before. A view that nobody has moved is
   * fitted again, but for the one who has chosen a card in it: for him it stays as it
   * is, and moves no further than it takes to see that card.
   */
  resize(page: ISize, chosen: IRect | null = null): boolean {
    if (page.width === this.page.width && page.height === this.page.height) {
      return false;
    }
    this.page = page;
    this.size = this.overflows ? this._inner : page;
    if (chosen !== null && this._placed) {
      this.reveal(chosen);
    } else if (this._untouched) {
      this._placed = false;
    }
    return true;
  }

  /** Whether some of the picture lies outside the page. */
  get overflows(): boolean {
    return overflows(this.view, this._bounds, this.page);
  }

  /** Whether nothing has moved for a moment. */
  isStill(now: number): boolean {
    return now - this._moved > STILL && !this._motion.running(now);
  }

  /** Another picture, to be looked at from the beginning. */
  open(): void {
    this._untouched = true;
    this._all = false;
    this._placed = false;
  }

  /** The same picture, laid out anew: what moves the view is called off. */
  halt(): void {
    this._motion.stop();
  }

  /** Before a drawing: the first view, or how far a movement has come. */
  advance(now: number, bounds: IBounds, middle: number): void {
    this._bounds = bounds;
    if (!this._placed) {
      this._placed = true;
      this._motion.stop();
      this.view = this._all
        ? fitView(bounds, this.page)
        : openingView(bounds, this.page, this._inner, middle);
    }
    if (this._motion.running(now)) {
      this.view = blendViews(this._from, this._to, this._motion.at(now));
      this._moved = now;
    } else if (this._motion.begun) {
      this.view = this._to;
      this._motion.stop();
    }
    this.size = this.overflows ? this._inner : this.page;
  }

  moving(now: number): boolean {
    return this._motion.running(now);
  }

  pan(dx: number, dy: number): void {
    const { scale, x, y } = this.view;
    this.go({ scale, x: x + dx, y: y + dy }, false);
  }

  /** Move by a wheel, as far as there is picture; false if there is none. */
  scroll(dx: number, dy: number): boolean {
    const seen = visibleBounds(this.view, this.size);
    const { scale } = this.view;
    const margin = MARGIN / 2;
    const limit = (way: number, before: number, after: number): number =>
      way > 0
        ? Math.min(way, Math.max(0, before * scale + margin))
        : Math.max(way, Math.min(0, -after * scale - margin));
    const { left, top, right, bottom } = this._bounds;
    const x = limit(dx, seen.left - left, right - seen.right);
    const y = limit(dy, seen.top - top, bottom - seen.bottom);
    if (Math.abs(x) < 1 && Math.abs(y) < 1) {
      return false;
    }
    this.pan(x, y);
    return true;
  }

  zoomAt(factor: number, x: number, y: number): void {
    this.go(zoomAt(this.view, factor, x, y), false);
  }

  zoomBy(factor: number): void {
    const { width, height } = this.size;
    this.go(zoomAt(this._target(), factor, width / 2, height / 2), true);
  }

  /** Show all of it. */
  fit(): void {
    if (this._placed) {
      this.go(fitView(this._bounds, this.page), true);
      this._untouched = true;
    }
    this._all = true;
  }

  /** Show all of another layout, if nobody has moved the view and it can be read. */
  refit(): boolean {
    const all = fitView(this._bounds, this.page);
    const fits = this._untouched && (this._all || all.scale >= LEGIBLE);
    if (fits) {
      this.go(all, true);
      this._untouched = true;
    }
    return fits;
  }

  /** Bring a card to the middle, large enough to be read. */
  centre(card: IRect): void {
    const scale = Math.max(this.view.scale, CLEAR);
    const x = card.x + card.width / 2;
    const y = card.y + card.height / 2;
    this.go(centreView({ ...this.view, scale }, this.size, x, y), true);
  }

  /** Whether all of a card is in sight, where the view is or is going. */
  sees(card: IRect): boolean {
    const { left, top, right, bottom } = visibleBounds(this._target(), this.size);
    return (
      card.x >= left &&
      card.y >= top &&
      card.x + card.width <= right &&
      card.y + card.height <= bottom
    );
  }

  /**
   * Bring a card to the middle at the same zoom, unless it is near it, or all of the
   * picture is in sight.
   */
  attend(card: IRect): void {
    const view = this._target();
    const { x, y, width, height } = rectOnPage(view, card);
    const away = (middle: number, room: number): boolean =>
      Math.abs(middle - room / 2) > room * NEAR;
    const far = away(x + width / 2, this.size.width);
    if (
      overflows(view, this._bounds, this.page) &&
      (far || away(y + height / 2, this.size.height))
    ) {
      const middle = [card.x + card.width / 2, card.y + card.height / 2] as const;
      this.go(centreView(view, this.size, ...middle), true);
    }
  }

  /** Let a stretch of the picture be in sight; false if that could not be read. */
  gather(stretch: IBounds): boolean {
    const { left, top, right, bottom } = stretch;
    const scale = Math.min(this.view.scale, fitView(stretch, this._inner).scale);
    if (scale < LEGIBLE) {
      return false;
    }
    const middle = [(left + right) / 2, (top + bottom) / 2] as const;
    this.go(centreView({ ...this.view, scale }, this._inner, ...middle), true);
    return true;
  }

  /** Bring a point to the middle at once. */
  jump(x: number, y: number): void {
    this.go(centreView(this.view, this.size, x, y), false);
  }

  /** Move no further than it takes to see a card. */
  reveal(card: IRect): void {
    const view = this._target();
    const rect = rectOnPage(view, card);
    const into = (start: number, length: number, room: number): number =>
      start >= EDGE && start + length <= room - EDGE
        ? 0
        : start < MARGIN
          ? MARGIN - start
          : Math.min(0, Math.max(room - MARGIN - start - length, MARGIN - start));
    const dx = into(rect.x, rect.width, this.size.width);
    const dy = into(rect.y, rect.height, this.size.height);
    if (dx !== 0 || dy !== 0) {
      this.go({ scale: view.scale, x: view.x + dx, y: view.y + dy }, true);
    }
  }

  /**
   * The picture has grown and shifted: follow it by so much of its own pixels.
   * Returns how far the view went, in the same.
   */
  follow(dx: number, dy: number, bounds: IBounds): { dx: number; dy: number } {
    const { scale, x, y } = this.view;
    this._bounds = bounds;
    this.view = keepInSight(
      { scale, x: x + dx * scale, y: y + dy * scale },
      bounds,
      this.size
    );
    return { dx: (this.view.x - x) / scale, dy: (this.view.y - y) / scale };
  }

  go(view: IView, softly: boolean): void {
    this._untouched = false;
    this._placed = true;
    this._moved = performance.now();
    const to = keepInSight(view, this._bounds, this.size);
    this._motion.stop();
    if (softly && this._soft()) {
      this._from = this.view;
      this._to = to;
      this._motion.begin(performance.now());
    } else {
      this.view = to;
    }
    this._changed();
  }

  /** Look where another camera looks, on a page of the same size. */
  adopt(view: IView): void {
    this._motion.stop();
    this._untouched = false;
    this._placed = true;
    this._moved = performance.now();
    this.view = view;
    this._changed();
  }

  /** What is left of the page beside a minimap and over the signposts. */
  private get _inner(): ISize {
    const { width, height } = this.page;
    return {
      width: Math.max(0, width - this.column),
      height: Math.max(0, height - FOOT)
    };
  }

  /** The view that a movement leads to. */
  private _target(): IView {
    return this._motion.begun ? this._to : this.view;
  }

  private readonly _motion = new Motion();
  private _bounds: IBounds = NOTHING;
  private _from: IView = this.view;
  private _to: IView = this.view;
  /** Whether nobody has moved the view since it was opened, or all was shown. */
  private _untouched = true;
  /** Whether it is to open with all in sight, however small. */
  private _all = false;
  private _placed = false;
  /** When it moved last. */
  private _moved = -Infinity;
}
