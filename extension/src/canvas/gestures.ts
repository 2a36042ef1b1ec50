/**
 * Pointer and wheel over the picture, as intentions. A drag moves, ctrl (or
 * command) and wheel zoom, as does a pinch; the wheel alone belongs to the page
 * until the picture has the focus.
 */

export interface IGestures {
  pan(dx: number, dy: number): void;
  /** Move by the wheel; false if there is nothing to move to that way. */
  scroll(dx: number, dy: number): boolean;
  zoom(factor: number, x: number, y: number): void;
  point(x: number, y: number): void;
  leave(): void;
  /** `also`: with shift, ctrl or command, so in addition to what is chosen. */
  click(x: number, y: number, also: boolean): void;
  open(x: number, y: number): void;
  /** The menu of what is there is asked for. */
  menu(x: number, y: number): void;
  /** Whether the picture has the focus. */
  focused(): boolean;
}

/** A pointer that moves less than this between down and up has clicked. */
const STILL = 4;

/** How much a notch of the wheel zooms. */
const NOTCH = 0.0022;

/** A line of a wheel that counts in lines. */
const LINE = 16;

export class Gestures {
  constructor(
    private readonly _node: HTMLElement,
    private readonly _to: IGestures
  ) {}

  start(): void {
    for (const type of TYPES) {
      this._node.addEventListener(type, this, { passive: false });
    }
  }

  stop(): void {
    for (const type of TYPES) {
      this._node.removeEventListener(type, this);
    }
    this._pointers.clear();
  }

  handleEvent(event: Event): void {
    if (event instanceof WheelEvent) {
      this._wheel(event);
    } else if (event instanceof PointerEvent) {
      this._pointer(event);
    } else if (
      event instanceof MouseEvent &&
      event.type === 'dblclick' &&
      !addsToChoice(event)
    ) {
      const { x, y } = this._where(event);
      this._to.open(x, y);
    } else if (event instanceof MouseEvent && event.type === 'contextmenu') {
      const { x, y } = this._where(event);
      event.preventDefault();
      event.stopPropagation(); // not that of the cell around it
      this._to.menu(x, y);
    }
  }

  private _wheel(event: WheelEvent): void {
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
    const dx = event.deltaX * unit;
    const dy = event.deltaY * unit;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const { x, y } = this._where(event);
      // A pinch comes as small steps with ctrl, a wheel as large ones.
      const rate = Math.abs(dy) < 40 ? 5 * NOTCH : NOTCH;
      this._to.zoom(Math.exp(-dy * rate), x, y);
    } else if (this._to.focused() && this._to.scroll(-dx, -dy)) {
      event.preventDefault();
    }
  }

  private _pointer(event: PointerEvent): void {
    const at = this._where(event);
    switch (event.type) {
      case 'pointerdown':
        if (event.button === 0 || event.button === 1) {
          this._down(event, at);
        }
        break;
      case 'pointermove':
        if (this._pointers.has(event.pointerId)) {
          this._drag(event.pointerId, at);
        } else if (event.pointerType === 'mouse') {
          this._to.point(at.x, at.y);
        }
        break;
      case 'pointerup':
        if (this._pointers.delete(event.pointerId) && !this._moved) {
          this._to.click(at.x, at.y, addsToChoice(event));
        }
        this._node.style.cursor = '';
        break;
      case 'pointercancel':
        this._pointers.delete(event.pointerId);
        break;
      case 'pointerleave':
        this._to.leave();
        break;
    }
  }

  private _down(event: PointerEvent, at: IPoint): void {
    this._node.setPointerCapture(event.pointerId);
    if (this._pointers.size === 0) {
      this._begin = at;
      this._moved = false;
    } else {
      this._moved = true;
    }
    this._pointers.set(event.pointerId, at);
  }

  private _drag(id: number, at: IPoint): void {
    const before = this._pointers.get(id)!;
    if (!this._moved) {
      const { x, y } = this._begin;
      if (Math.hypot(at.x - x, at.y - y) < STILL) {
        return;
      }
      this._moved = true;
      this._to.leave();
      this._node.style.cursor = 'grabbing';
    }
    this._pointers.set(id, at);
    if (this._pointers.size === 1) {
      this._to.pan(at.x - before.x, at.y - before.y);
      return;
    }
    const other = [...this._pointers].find(([key]) => key !== id)![1];
    const was = Math.hypot(before.x - other.x, before.y - other.y);
    const is = Math.hypot(at.x - other.x, at.y - other.y);
    this._to.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
    if (was > 0 && is > 0) {
      this._to.zoom(is / was, (at.x + other.x) / 2, (at.y + other.y) / 2);
    }
  }

  private _where(event: MouseEvent): IPoint {
    const box = this._node.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private readonly _pointers = new Map<number, IPoint>();
  private _begin: IPoint = { x: 0, y: 0 };
  private _moved = false;
}

/** Whether a key is held that adds to a choice, on this system or another. */
function addsToChoice(event: MouseEvent): boolean {
  return event.shiftKey || event.ctrlKey || event.metaKey;
}

interface IPoint {
  x: number;
  y: number;
}

const TYPES = [
  'wheel',
  'pointerdown',
  'pointermove',
  'pointerup',
  'pointercancel',
  'pointerleave',
  'dblclick',
  'contextmenu'
] as const;
