/** What a test in a browser may ask of the picture. */

import { LayoutRunner } from '../layout/runner';
import type { IRect } from './viewport';

export interface ICanvasProbe {
  /** The card of a node, and its gradient tile, in pixels from the upper left. */
  boxOf(node: number): IRect | null;
  tileOf(node: number): IRect | null;
  nodeAt(x: number, y: number): number | null;
  /** How many times the picture was drawn. */
  readonly frames: number;
  /** Where the last layout ran. */
  readonly layoutRan: 'worker' | 'page' | null;
}

/** Hang the answers on a DOM node, as its property `workbenchCanvas`. */
export function attachProbe(
  node: HTMLElement,
  answers: Omit<ICanvasProbe, 'frames' | 'layoutRan'>,
  frames: () => number
): void {
  const probe: ICanvasProbe = {
    boxOf: of => answers.boxOf(of),
    tileOf: of => answers.tileOf(of),
    nodeAt: (x, y) => answers.nodeAt(x, y),
    get frames() {
      return frames();
    },
    get layoutRan() {
      return LayoutRunner.shared.where;
    }
  };
  Object.assign(node, { workbenchCanvas: probe });
}
