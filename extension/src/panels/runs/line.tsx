/** A small line through numbers, where none is missing: losses, norms over time. */

import type { JSX } from 'react';

export interface ILine {
  /** Where each point stands, in rising order. */
  steps: readonly number[];
  /** Null for a number that is not finite, or not known. */
  numbers: readonly (number | null)[];
  /** Other numbers that are drawn on the same scale. */
  beside?: readonly (number | null)[];
  /** What it is, in words. */
  title?: string;
}

/** The size of the drawing; it is stretched to the room there is. */
export const WIDTH = 1000;
export const HEIGHT = 40;
/** What stays free above and below. */
const MARGIN = 3;
/** From this ratio on decades are drawn instead of numbers. */
const WIDE = 30;

/** Where a step stands, from 0 to 1. */
export function placeOf(step: number, last: number): number {
  return last > 1 ? Math.min(Math.max((step - 1) / (last - 1), 0), 1) : 1;
}

/** The range of numbers, and whether they are drawn by their decades. */
export function rangeOf(numbers: readonly (number | null)[]): {
  low: number;
  high: number;
  decades: boolean;
} | null {
  let [low, high] = [Infinity, -Infinity];
  for (const number of numbers) {
    if (number !== null) {
      low = Math.min(low, number);
      high = Math.max(high, number);
    }
  }
  return low > high ? null : { low, high, decades: low > 0 && high / low > WIDE };
}

/** The path of a line, broken where a number is missing; "" for none. */
export function pathOf({ steps, numbers, beside = [] }: ILine, last: number): string {
  const range = rangeOf([...numbers, ...beside]);
  if (range === null) {
    return '';
  }
  const scale = range.decades ? Math.log : (x: number) => x;
  const [low, high] = [scale(range.low), scale(range.high)];
  let open = false;
  let path = '';
  numbers.forEach((number, i) => {
    if (number === null) {
      open = false;
      return;
    }
    const x = placeOf(steps[i], last) * WIDTH;
    const share = high > low ? (scale(number) - low) / (high - low) : 0.5;
    const y = HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN);
    // A lone point is drawn as a dot: a line of no length with round ends.
    path += `${open ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    const alone = !open && (numbers[i + 1] ?? null) === null;
    path += alone ? 'h0.1' : '';
    open = true;
  });
  return path;
}

/** Lines on one axis of steps, each on its own scale, and the step that is shown. */
export function Lines({
  lines,
  last,
  at,
  label
}: {
  lines: readonly (ILine & { look: string })[];
  last: number;
  at: number | null;
  label: string;
}): JSX.Element {
  const x = at === null ? null : (placeOf(at, last) * WIDTH).toFixed(1);
  return (
    <svg
      className="workbench-Lines"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {lines.map((line, k) => (
        <path key={k} className={`workbench-mod-${line.look}`} d={pathOf(line, last)}>
          {line.title !== undefined && <title>{line.title}</title>}
        </path>
      ))}
      {x !== null && <path className="workbench-mod-at" d={`M${x} 0V${HEIGHT}`} />}
    </svg>
  );
}
