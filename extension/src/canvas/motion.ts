/** Soft movement: what changes goes from old to new in a fifth of a second. */

import { ILooks } from './looks';

/** Milliseconds. */
export const DURATION = 180;

/** Larger pictures jump: moving all of them would take more than a frame. */
export const MOVABLE = 4000;

/** One movement; `at` gives how far it has come, 0 to 1. */
export class Motion {
  /** Whether it is still under way at a time. */
  running(now: number): boolean {
    return this._start !== null && now - this._start < DURATION;
  }

  /** Whether it was begun and not stopped since. */
  get begun(): boolean {
    return this._start !== null;
  }

  begin(now: number): void {
    this._start = now;
  }

  stop(): void {
    this._start = null;
  }

  at(now: number): number {
    if (this._start === null) {
      return 1;
    }
    const part = Math.min(1, Math.max(0, (now - this._start) / DURATION));
    // Fast at first, then slower.
    return 1 - (1 - part) ** 3;
  }

  private _start: number | null = null;
}

/** Whether the user has asked for as little movement as possible. */
export function prefersCalm(): boolean {
  return window.matchMedia('(prefers-reduced-motion: reduce)').matches;
}

/** Looks on the way from one to another; words change at once. */
export function blendLooks(from: ILooks, to: ILooks, part: number): ILooks {
  if (part >= 1 || from.colouring !== to.colouring || from.diverging !== to.diverging) {
    return to;
  }
  return {
    ...to,
    tile: mixLevels(from.tile, to.tile, part),
    card: mixLevels(from.card, to.card, part),
    bend: mixLevels(from.bend, to.bend, part),
    edge: mixLevels(from.edge, to.edge, part)
  };
}

function mixLevels(from: Float32Array, to: Float32Array, part: number): Float32Array {
  if (from.length !== to.length) {
    return to;
  }
  return to.map((end, i) => {
    const begin = from[i];
    return Number.isNaN(begin) ? end : begin + (end - begin) * part;
  });
}
