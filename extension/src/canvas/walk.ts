/** Walking from card to card with the arrow keys. */

import { Scene } from './scene';

export type Direction = 'up' | 'down' | 'left' | 'right';

/**
 * The item that an arrow leads to: up to an input, down to what reads it, sideways
 * to the next card of the row. Of several the one that was come from is taken,
 * else the nearest. Null where there is none.
 */
export function step(
  scene: Scene,
  item: number,
  direction: Direction,
  before: number | null
): number | null {
  if (direction === 'left' || direction === 'right') {
    return scene.beside(item, direction === 'left' ? -1 : 1);
  }
  const candidates = scene.neighbours(item, direction === 'up');
  if (candidates.length === 0) {
    return null;
  }
  if (before !== null && candidates.includes(before)) {
    return before;
  }
  const away = (other: number): number =>
    Math.abs(scene.x(other) - scene.x(item)) +
    Math.abs(scene.top(other) - scene.top(item));
  return candidates.reduce((best, other) => (away(other) < away(best) ? other : best));
}
