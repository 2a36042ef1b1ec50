/**
 * Draws edges: forward ones down from card to card, gradients up from tile to
 * tile; and over all else the path from the selected node and the values that a
 * gradient rule reads. Edges of one look are one stroke.
 */

import { MEASURES } from '../layout/types';
import { IFrame, fadedOn, recededOn } from './frame';
import { LEVELS } from './theme';

/** The widths of gradient edges, from the smallest norm to the largest. */
const THIN = 1.2;
const THICK = 4;

/** No line gets thinner than this on the page. */
const HAIR = 0.6;

export function drawEdges(frame: IFrame): void {
  const { context, theme, stage, view, marks } = frame;
  const strokes = new Strokes(frame, false);
  strokes.collect();
  const line = (width: number): number => Math.max(width, HAIR / view.scale);
  context.lineCap = 'round';
  context.strokeStyle = theme.edge;
  context.lineWidth = line(1.2);
  strokePath(context, strokes.paths.plain, marks.trail === null ? 1 : recededOn(theme));
  strokePath(context, strokes.paths.faded, fadedOn(theme));
  if (stage === 'derivative') {
    strokeGradients(frame, strokes, marks.trail === null ? 1 : recededOn(theme));
  }
}

/** The edges of what is pointed at, and the path from what is selected. */
export function drawPath(frame: IFrame): void {
  const { context, theme, stage, view, marks } = frame;
  if (marks.pathEdges === null && marks.hovered === null && marks.selected === null) {
    return;
  }
  const strokes = new Strokes(frame, true);
  strokes.collect();
  context.lineCap = 'round';
  if (stage === 'derivative') {
    strokeGradients(frame, strokes, 1);
  }
  context.strokeStyle = theme.quiet;
  context.lineWidth = Math.max(1.8, HAIR / view.scale);
  strokePath(context, strokes.paths.hovered, 1);
  context.strokeStyle = theme.accent;
  strokePath(context, strokes.paths.path, 1);
}

function strokeGradients(frame: IFrame, strokes: Strokes, alpha: number): void {
  const { context, theme, looks, view } = frame;
  const warm = looks.colouring === 'gradient' && !looks.diverging;
  const { fill } = warm ? theme.warm : theme.neutral;
  strokes.gradient.forEach((path, level) => {
    const width = THIN + ((THICK - THIN) * level) / (LEVELS - 1);
    context.strokeStyle = fill[level];
    context.lineWidth = Math.max(width, HAIR / view.scale);
    strokePath(context, path, alpha);
  });
}

/** The values that the rule of the node pointed at reads, over everything else. */
export function drawSaved(frame: IFrame): void {
  const { context, scene, marks, theme, view } = frame;
  if (marks.saved.length === 0) {
    return;
  }
  context.save();
  context.strokeStyle = theme.quiet;
  context.lineWidth = Math.max(1, HAIR / view.scale);
  context.setLineDash([3, 3]);
  context.beginPath();
  for (const { from, to } of marks.saved) {
    const card = scene.card(from);
    const tile = scene.tile(to);
    const startX = card.x + card.width - 10;
    const endX = tile.x + tile.width / 2;
    if (from === to) {
      // From its own value, over the gap between card and tile.
      context.moveTo(startX, card.y);
      context.bezierCurveTo(startX, card.y - 14, endX, card.y - 14, endX, tile.y);
      continue;
    }
    const below = card.y < tile.y;
    const startY = below ? card.y + card.height : card.y;
    const endY = below ? tile.y : tile.y + tile.height;
    const middle = (startY + endY) / 2;
    context.moveTo(startX, startY);
    context.bezierCurveTo(startX, middle, endX, middle, endX, endY);
  }
  context.stroke();
  context.restore();
}

function strokePath(
  context: CanvasRenderingContext2D,
  path: Path2D | null | undefined,
  alpha: number
): void {
  if (path) {
    context.globalAlpha = alpha;
    context.stroke(path);
    context.globalAlpha = 1;
  }
}

/** Gathers the edges that are seen into one path for each look. */
class Strokes {
  readonly paths: Partial<Record<Look, Path2D>> = {};
  readonly gradient: (Path2D | null)[] = Array.from({ length: LEVELS }, () => null);

  /** `over`: the edges over the ground, and only those. */
  constructor(
    private readonly _frame: IFrame,
    private readonly _over: boolean
  ) {}

  collect(): void {
    const { scene, seen } = this._frame;
    const { layout } = scene;
    const [first, end] = scene.rowsBetween(seen.top, seen.bottom);
    const { edgesFrom, bendsFrom } = scene;
    const { targets } = scene.items.input;
    const from = Math.max(0, first - 1);
    // A piece hangs between its row and the next: the row above may be unseen.
    for (let row = from; row < end; row++) {
      for (let k = bendsFrom.start[row]; k < bendsFrom.start[row + 1]; k++) {
        this._bend(bendsFrom.items[k]);
      }
      for (let k = edgesFrom.start[row]; k < edgesFrom.start[row + 1]; k++) {
        const edge = edgesFrom.items[k];
        this._edge(edge, layout.via[edge], targets[edge]);
      }
    }
    for (const edge of scene.straight) {
      this._straight(edge, scene.items.input.sources[edge], targets[edge]);
    }
  }

  /** An edge past the rows: faint, or it would cover what it crosses. */
  private _straight(edge: number, upper: number, lower: number): void {
    const { marks, scene, looks } = this._frame;
    if (!this._over) {
      if (!this._isHidden(upper, lower)) {
        this._down(upper, lower, 'faded');
      }
      return;
    }
    this._edge(edge, upper, lower);
    const pointed = [marks.hovered, marks.selected];
    if (pointed.includes(upper) || pointed.includes(lower)) {
      this._flow(scene.layout.owner[upper], upper, lower, looks.edge[edge]);
    }
  }

  private _edge(edge: number, upper: number, lower: number): void {
    const { scene, looks, marks } = this._frame;
    const onPath = marks.pathEdges !== null && marks.pathEdges[edge] === 1;
    if (this._isHidden(upper, lower) || this._isSkipped(edge, onPath)) {
      return;
    }
    const source = scene.layout.owner[upper];
    if (this._over) {
      const hovered = marks.hovered === source || marks.hovered === lower;
      this._pointed(upper, lower, onPath, hovered);
      return;
    }
    const done = isDone(marks.valueDone, source) && isDone(marks.valueDone, lower);
    const went = marks.went !== null && marks.went[lower] === 1;
    const clear = done && !went && areFound(marks.matches, source, lower);
    this._down(upper, lower, clear ? 'plain' : 'faded');
    this._flow(source, upper, lower, looks.edge[edge]);
  }

  private _pointed(
    upper: number,
    lower: number,
    onPath: boolean,
    hovered: boolean
  ): void {
    if (onPath || hovered) {
      this._down(upper, lower, onPath ? 'path' : 'hovered');
    }
  }

  /** The gradient in an edge, as far as the sweep has come. */
  private _flow(source: number, upper: number, lower: number, level: number): void {
    const { marks } = this._frame;
    const flows =
      isDone(marks.gradientDone, lower) && isDone(marks.gradientDone, source);
    if (!Number.isNaN(level) && flows) {
      this._up(upper, lower, level);
    }
  }

  private _bend(bend: number): void {
    const { scene, looks, marks } = this._frame;
    const upper = scene.layout.above[bend];
    const at = bend - scene.layout.count;
    const onPath = marks.pathBends !== null && marks.pathBends[at] === 1;
    const source = scene.layout.owner[bend];
    if (this._isHidden(upper, bend) || this._isSkipped(source, onPath)) {
      return;
    }
    if (this._over) {
      this._pointed(upper, bend, onPath, marks.hovered === source);
      return;
    }
    const done = isDone(marks.valueDone, source);
    const clear = done && areFound(marks.matches, source, source);
    this._down(upper, bend, clear ? 'plain' : 'faded');
    if (!Number.isNaN(looks.bend[at]) && isDone(marks.gradientDone, source)) {
      this._up(upper, bend, looks.bend[at]);
    }
  }

  private _isSkipped(number: number, onPath: boolean): boolean {
    return number % this._frame.every !== 0 && !onPath;
  }

  private _isHidden(upper: number, lower: number): boolean {
    const { scene, seen } = this._frame;
    const a = scene.x(upper);
    const b = scene.x(lower);
    // The gradient runs beside its edge, by half a card and a tile at most.
    const reach = MEASURES.width;
    return Math.max(a, b) + reach < seen.left || Math.min(a, b) > seen.right;
  }

  private _down(upper: number, lower: number, look: Look): void {
    const { scene } = this._frame;
    const path = (this.paths[look] ??= this._frame.makePath());
    this._piece(path, scene.x(upper), scene.x(lower), upper, lower, 0);
  }

  private _up(upper: number, lower: number, part: number): void {
    const { scene } = this._frame;
    const level = Math.round(part * (LEVELS - 1));
    const path = (this.gradient[level] ??= this._frame.makePath());
    const inset = (MEASURES.height - MEASURES.tileHeight) / 2;
    this._piece(
      path,
      scene.gradientX(upper),
      scene.gradientX(lower),
      upper,
      lower,
      inset
    );
  }

  private _piece(
    path: Path2D,
    x1: number,
    x2: number,
    upper: number,
    lower: number,
    inset: number
  ): void {
    const { scene, detail } = this._frame;
    const { count } = scene.layout;
    const y1 = scene.top(upper) + MEASURES.height - (upper < count ? inset : 0);
    const top = scene.top(lower);
    const y2 = top + (lower < count ? inset : 0);
    path.moveTo(x1, y1);
    if (!detail.curves || x1 === x2) {
      path.lineTo(x2, y2);
    } else {
      const middle = (y1 + y2) / 2;
      path.bezierCurveTo(x1, middle, x2, middle, x2, y2);
    }
    if (lower >= count) {
      path.lineTo(x2, top + MEASURES.height);
    }
  }
}

/** `hovered`: an edge of the node under the pointer. */
type Look = 'path' | 'hovered' | 'plain' | 'faded';

function isDone(done: Uint8Array | null, item: number): boolean {
  return done === null || done[item] === 1;
}

function areFound(matches: Uint8Array | null, a: number, b: number): boolean {
  return matches === null || (matches[a] === 1 && matches[b] === 1);
}
