/** All that one drawing of the picture needs to know. */

import type { Stage } from '../model/state';
import { ILooks } from './looks';
import { IMarks } from './marks';
import { Scene } from './scene';
import { Pen } from './text';
import { ITheme } from './theme';
import { IBounds, IView } from './viewport';

export interface IFrame {
  context: CanvasRenderingContext2D;
  scene: Scene;
  looks: ILooks;
  marks: IMarks;
  theme: ITheme;
  pen: Pen;
  view: IView;
  /** The part of the picture that is seen. */
  seen: IBounds;
  stage: Stage;
  detail: Detail;
}

/** How much is drawn at a zoom. */
export interface Detail {
  /** Curved edges and round corners. */
  curves: boolean;
  /** One large label on each card. */
  label: boolean;
  /** Name, op and shape on each card, numbers on tiles. */
  text: boolean;
  /** Statistics on cards, shapes on edges. */
  numbers: boolean;
}

export function detailAt(scale: number): Detail {
  return {
    curves: scale >= 0.18,
    label: scale >= 0.3 && scale < 0.62,
    text: scale >= 0.62,
    numbers: scale >= 1.5
  };
}

/** What is not done yet, or not found, is drawn so faintly. */
export const FADED = 0.28;

/** What a rewrite took away is drawn so faintly. */
export const STRUCK = 0.45;

/** What is beside the way that is shown recedes so far. */
export const RECEDED = 0.42;
