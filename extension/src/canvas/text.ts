/** Text on a canvas: fonts, and labels cut to the room they have. */

import { firstWhere } from '../model/adjacency';
import { ITheme } from './theme';

export type Weight = 'normal' | 'bold';

/** How many cut labels are remembered; then all are forgotten at once. */
const REMEMBERED = 20_000;

/** Text smaller than this, in pixels of the page, is not written. */
export const LEAST = 10;

/** How much smaller a text may be written so that it is not cut. */
const SMALLER = 0.78;

/** The size at which a text fits into its room, if that is not much smaller. */
export function fittingSize(room: number, size: number, width: number): number {
  if (width <= room) {
    return size;
  }
  return Math.floor(2 * size * Math.max(SMALLER, room / width)) / 2;
}

export class Pen {
  /** The size of the smallest text written, in pixels of the page. */
  least = Infinity;

  constructor(
    private readonly _context: CanvasRenderingContext2D,
    private readonly _theme: ITheme,
    private readonly _scale: number
  ) {}

  /** A size of text, or the next one that can be read at this zoom. */
  legible(size: number): number {
    return Math.max(size, Math.ceil((2 * LEAST) / this._scale) / 2);
  }

  ui(size: number, weight: Weight = 'normal'): string {
    return `${weight === 'bold' ? '600 ' : ''}${size}px ${this._theme.font}`;
  }

  mono(size: number): string {
    return `${size}px ${this._theme.mono}`;
  }

  /** Write on the base line `y`; returns how wide the text came out. */
  write(
    text: string,
    x: number,
    y: number,
    options: { font: string; fill: string; room: number; align?: CanvasTextAlign }
  ): number {
    const context = this._context;
    const size = parseFloat(options.font.replace('600 ', '')) * this._scale;
    if (size < LEAST) {
      return 0;
    }
    this.least = Math.min(this.least, size);
    const { shown, width } = this._cut(text, options.font, options.room);
    context.font = options.font;
    context.fillStyle = options.fill;
    context.textAlign = options.align ?? 'left';
    context.fillText(shown, x, y);
    return width;
  }

  width(text: string, font: string): number {
    return this._cut(text, font, Infinity).width;
  }

  /** The text if there is room for it, else its beginning and an ellipsis. */
  private _cut(text: string, font: string, room: number): ICut {
    const key = `${font}\n${Math.round(room)}\n${text}`;
    let cut = CUTS.get(key);
    if (cut === undefined) {
      cut = this._measure(text, font, room);
      if (CUTS.size > REMEMBERED) {
        CUTS.clear();
      }
      CUTS.set(key, cut);
    }
    return cut;
  }

  private _measure(text: string, font: string, room: number): ICut {
    const context = this._context;
    context.font = font;
    const whole = context.measureText(text).width;
    if (whole <= room) {
      return { shown: text, width: whole };
    }
    const letters = Array.from(text.slice(0, 400));
    const begin = (count: number): string => letters.slice(0, count).join('');
    const isLong = (count: number): boolean =>
      context.measureText(`${begin(count)}…`).width > room;
    const kept = firstWhere(1, letters.length + 1, isLong) - 1;
    const shown = kept === 0 ? '' : `${begin(kept).trimEnd()}…`;
    return { shown, width: context.measureText(shown).width };
  }
}

interface ICut {
  shown: string;
  width: number;
}

const CUTS = new Map<string, ICut>();
