/**
 * Looking closer at a heat map: by dragging, by clicking a cell, by keys. A part that
 * is zoomed to is asked for again, as finely as it allows.
 */

import type { IWindow, PlotKind } from '../../wire/protocol';
import type { Caption } from './caption';
import { type IRange, partOf, sameWindow } from './cells';
import type { FigurePicture } from './figure';
import type { HeatMap, IEntry } from './heatmap';
import { type Plot, isMap } from './plot';

/** Milliseconds of quiet after which a part that was zoomed to is asked for. */
const QUIET = 250;

/** How much a key zooms. */
const ZOOM = 4;

const HINT = 'Click a cell to read its entry; drag to zoom in.';

const WALK: Readonly<Partial<Record<string, readonly [number, number]>>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1]
};

export class Explorer {
  constructor(
    private readonly _picture: FigurePicture,
    private readonly _caption: Caption,
    private readonly _ask: (plot: Plot, kind: PlotKind, part: IWindow | null) => void
  ) {}

  /** What is shown now; null where it is no heat map. */
  show(plot: Plot | null, map: HeatMap | null): void {
    this._plot = plot;
    this._map = map;
    const title = plot?.answer?.title ?? '';
    this._picture.walkable = map?.walkable
      ? `${title}: arrows walk its cells, + and − zoom, 0 shows all`
      : null;
    this._showEntry();
  }

  /** Ask for nothing that was zoomed to before. */
  rest(): void {
    clearTimeout(this._timer);
  }

  /** The axes were moved: the part that is seen is asked for when they rest. */
  zoomTo(range: IRange): void {
    if (this._map !== null) {
      const all = range.x === null && range.y === null;
      this._look(all ? null : this._map.cells.windowOf(range), QUIET);
    }
  }

  /** Show all of the matrix again. */
  showAll(): void {
    this._look(null, 0);
  }

  chooseCell(row: number, column: number): void {
    this._choose(this._map?.entryOf(row, column) ?? null);
  }

  /** Do what a key asks for in the figure; false if there was nothing to do. */
  pressKey(key: string): boolean {
    const map = this._map;
    const plot = this._plot;
    if (map === null || plot === null || !map.walkable) {
      return false;
    }
    const chosen = plot.entry !== null && map.shows(plot.entry) ? plot.entry : null;
    const { row, column } = map.cellOf(chosen ?? map.entryOf(0, 0));
    const step = WALK[key];
    if (step !== undefined) {
      const [down, right] = chosen === null ? [0, 0] : step;
      this._choose(map.entryOf(row + down, column + right));
      return true;
    }
    switch (key) {
      case '+':
      case '=':
        this._look(map.cells.zoomAround(row, column, 1 / ZOOM), 0);
        return true;
      case '-':
        this._look(map.cells.zoomAround(row, column, ZOOM), 0);
        return true;
      case '0':
        this.showAll();
        return true;
      default:
        return false;
    }
  }

  private _look(window: IWindow | null, after: number): void {
    this.rest();
    const plot = this._plot;
    const matrix = plot?.answer?.matrix ?? null;
    if (plot === null || matrix === null || !isMap(plot.kind)) {
      return;
    }
    const part = window === null ? null : partOf(matrix, window);
    this._timer = setTimeout(() => {
      if (plot.waiting || !sameWindow(matrix, part, matrix.window)) {
        this._ask(plot, plot.kind, part);
      }
    }, after);
  }

  private _choose(entry: IEntry | null): void {
    if (this._plot !== null) {
      this._plot.entry = entry;
      this._showEntry();
    }
  }

  /** The ring and the words of the entry that was chosen. */
  private _showEntry(): void {
    const entry = this._plot?.entry ?? null;
    if (entry === null || this._map?.shows(entry) !== true) {
      this._picture.ring(null);
      this._caption.tellEntry('', this._map?.walkable ? HINT : '');
    } else {
      this._picture.ring(this._map.cellOf(entry));
      this._caption.tellEntry(this._map.textOf(entry), '');
    }
  }

  private _plot: Plot | null = null;
  private _map: HeatMap | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
