/** All that one drawing of the picture needs to know. */

import { equal } from '../model/graph';
import type { Stage } from '../model/state';
import { ILooks } from './looks';
import { IMarks } from './marks';
import { Scene } from './scene';
import { Pen } from './text';
import { ITheme } from './theme';
import { IBounds, IView, LEGIBLE } from './viewport';

export interface IFrame {
  context: CanvasRenderingContext2D;
  scene: Scene;
  looks: ILooks;
  marks: IMarks;
  theme: ITheme;
  pen: Pen;
  /** Begins an outline that the context can draw. */
  makePath: () => Path2D;
  view: IView;
  /** The part of the picture that is seen. */
  seen: IBounds;
  stage: Stage;
  detail: Detail;
  /** Of the edges one in so many is drawn. */
  every: number;
}

/**
 * Whether the ground of two frames is the same: all that is drawn but for what the
 * reader points at and has chosen, which is drawn over it.
 */
export function sameGround(a: IGround, b: IGround): boolean {
  return (
    a.scene === b.scene &&
    a.looks === b.looks &&
    a.theme === b.theme &&
    a.stage === b.stage &&
    a.marks.failed === b.marks.failed &&
    a.marks.lesson === b.marks.lesson &&
    FLAGS.every(name => sameFlags(a.marks[name], b.marks[name]))
  );
}

/** What the ground of a frame depends on, beside the part that is seen. */
export type IGround = Pick<IFrame, 'scene' | 'looks' | 'theme' | 'stage' | 'marks'>;

const FLAGS = [
  'trail',
  'matches',
  'came',
  'went',
  'valueDone',
  'gradientDone'
] as const;

function sameFlags(a: Uint8Array | null, b: Uint8Array | null): boolean {
  return a === b || (a !== null && b !== null && equal(a, b));
}

/** How much is drawn at a zoom. */
export interface Detail {
  /** Curved edges and round corners. */
  curves: boolean;
  /** One large name on each card. */
  name: boolean;
  /** Numbers on tiles beside it. */
  label: boolean;
  /** Name, op and shape on each card, numbers on tiles. */
  text: boolean;
  /** Statistics on cards, shapes on edges. */
  numbers: boolean;
}

/** From this zoom on a name as high as its card can be read. */
export const NAMED = 0.25;

/** From this zoom on a label on a card can be read, and a number on a tile. */
export const LABELLED = 0.375;

/** How many pieces of edges are drawn from far away. */
const CROWD = 10_000;

/** Of how many edges one is drawn: from far away some of them look like all. */
export function thinningAt(scene: Scene, view: IView, height: number): number {
  const { rowTop, via, vertices, count } = scene.layout;
  if (detailAt(view.scale).curves) {
    return 1;
  }
  const seen = height / view.scale / Math.max(1, rowTop[rowTop.length - 1]);
  const pieces = (via.length + vertices - count) * Math.min(1, seen);
  return Math.max(1, Math.floor(pieces / CROWD));
}

export function detailAt(scale: number): Detail {
  return {
    curves: scale >= 0.18,
    name: scale >= NAMED && scale < LEGIBLE,
    label: scale >= LABELLED && scale < LEGIBLE,
    text: scale >= LEGIBLE,
    numbers: scale >= 1.5
  };
}

/** What is not done yet, or not found, is drawn so faintly: on dark ground less. */
export function fadedOn({ dark }: Pick<ITheme, 'dark'>): number {
  return dark ? 0.45 : 0.28;
}

/** What a rewrite took away is drawn so faintly. */
export const STRUCK = 0.45;

/** What is beside the way that is shown recedes so far: on dark ground less. */
export function recededOn({ dark }: Pick<ITheme, 'dark'>): number {
  return dark ? 0.68 : 0.42;
}
