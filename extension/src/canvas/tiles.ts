/**
 * The ground of a large picture in tiles: bitmaps that move with the view and are
 * painted again only where they must be. A tile is good for one zoom; under another
 * one it is stretched until the view is still. What is outdated is shown until there
 * is time to paint it.
 */

import type { IBounds, ISize, IView } from './viewport';

/** The side of a tile, in pixels of the device. */
export const SIDE = 512;

/** So many tiles are kept, a megabyte each. */
const MOST = 64;

/** From this ratio on a tile is too coarse or too fine to be stretched. */
const STRETCH = 2;

export interface ITile<Image> {
  /** Pixels of the device for one of the picture. */
  scale: number;
  column: number;
  row: number;
  image: Image;
  /** Whether it shows what is, and not what was. */
  fresh: boolean;
  /** The number of the drawing that it was last seen in. */
  used: number;
}

/** What tiles are made of and drawn with: canvases, or in a test something else. */
export interface ITileMaker<Image> {
  make(): Image;
  /** Paint a part of the picture, at a scale, over all of an image. */
  paint(image: Image, bounds: IBounds, scale: number): void;
  /** Put an image on the page, in pixels of the device. */
  put(image: Image, x: number, y: number, side: number): void;
}

export class TileCache<Image> {
  constructor(private readonly _now: () => number) {}

  /** How many tiles are kept. */
  get size(): number {
    return this._tiles.length;
  }

  /** Other numbers or colours: what is there is shown until it is painted again. */
  outdate(): void {
    for (const tile of this._tiles) {
      tile.fresh = false;
    }
  }

  /** Another picture: nothing that is there may be shown. */
  clear(): void {
    this._tiles = [];
    this._level = null;
  }

  /**
   * Draw what is seen, in pixels of the device. While the view moves, tiles are painted
   * for `milliseconds` at most, at least one; false if some are still to be painted.
   */
  draw(
    view: IView,
    size: ISize,
    milliseconds: number,
    maker: ITileMaker<Image>
  ): boolean {
    this._drawing++;
    const still = milliseconds === Infinity;
    const level = (this._level = this._levelFor(view.scale, still));
    const wanted = this._wantedAt(level, view, size);
    const begin = this._now();
    let whole = true;
    for (const place of wanted) {
      const tile = this._tileAt(level, place.column, place.row);
      if (tile?.fresh === true) {
        tile.used = this._drawing;
      } else if (whole) {
        this._paint(tile ?? this._add(level, place, maker), maker);
        whole = still || this._now() - begin < milliseconds;
      } else if (tile !== null) {
        tile.used = this._drawing;
      }
    }
    const complete = wanted.every(
      ({ column, row }) => this._tileAt(level, column, row)?.fresh === true
    );
    if (complete && level === view.scale) {
      this._tiles = this._tiles.filter(tile => tile.scale === level);
    }
    this._put(view, size, level, maker);
    return complete && level === view.scale;
  }

  /** The zoom that is painted at: the one before, as long as it can be stretched. */
  private _levelFor(scale: number, still: boolean): number {
    const level = this._level;
    if (still || level === null) {
      return scale;
    }
    const ratio = scale / level;
    return ratio > STRETCH || ratio < 1 / STRETCH ? scale : level;
  }

  private _wantedAt(level: number, view: IView, size: ISize): IPlace[] {
    const side = (SIDE * view.scale) / level;
    const places: IPlace[] = [];
    for (let row = Math.floor(-view.y / side); row * side + view.y < size.height; row++) {
      for (
        let column = Math.floor(-view.x / side);
        column * side + view.x < size.width;
        column++
      ) {
        places.push({ column, row });
      }
    }
    return places;
  }

  private _paint(tile: ITile<Image>, maker: ITileMaker<Image>): void {
    const side = SIDE / tile.scale;
    const left = tile.column * side;
    const top = tile.row * side;
    const bounds = { left, top, right: left + side, bottom: top + side };
    maker.paint(tile.image, bounds, tile.scale);
    tile.fresh = true;
    tile.used = this._drawing;
  }

  /** Those of other zooms first, so that what is sharp lies over them. */
  private _put(
    view: IView,
    size: ISize,
    level: number,
    maker: ITileMaker<Image>
  ): void {
    const others = this._tiles.filter(tile => tile.scale !== level);
    for (const tile of [...others, ...this._tiles.filter(one => one.scale === level)]) {
      const side = (SIDE * view.scale) / tile.scale;
      const x = view.x + tile.column * side;
      const y = view.y + tile.row * side;
      if (x < size.width && y < size.height && x + side > 0 && y + side > 0) {
        maker.put(tile.image, x, y, side);
      }
    }
  }

  private _tileAt(level: number, column: number, row: number): ITile<Image> | null {
    return (
      this._tiles.find(
        tile => tile.scale === level && tile.column === column && tile.row === row
      ) ?? null
    );
  }

  /** A tile of which the image is new, or that of the tile that was not seen longest. */
  private _add(
    scale: number,
    { column, row }: IPlace,
    maker: ITileMaker<Image>
  ): ITile<Image> {
    let image: Image | null = null;
    if (this._tiles.length >= MOST) {
      const oldest = this._tiles.reduce((a, b) => (b.used < a.used ? b : a));
      if (oldest.used < this._drawing) {
        image = oldest.image;
        this._tiles.splice(this._tiles.indexOf(oldest), 1);
      }
    }
    image ??= maker.make();
    const tile = { scale, column, row, image, fresh: false, used: this._drawing };
    this._tiles.push(tile);
    return tile;
  }

  private _tiles: ITile<Image>[] = [];
  private _level: number | null = null;
  private _drawing = 0;
}

interface IPlace {
  column: number;
  row: number;
}
