/**
 * The picture as shapes: where each card, tile and edge lies, and what lies at a
 * point. A layout is sorted by rows and within rows, so it is its own index:
 * what is not seen is never looked at.
 */

import { IAdjacency, adjacency, firstWhere } from '../model/adjacency';
import { IItems, pillWidth } from '../layout/items';
import { ILayout, MEASURES } from '../layout/types';
import { Graph } from '../model/graph';
import { IOutline, outlinesOf } from './outline';
import { IBounds, IRect } from './viewport';

/** What lies at a point of the picture. */
export type Hit =
  { kind: 'item'; item: number } | { kind: 'group'; group: number } | null;

/** The height of a pill. */
const PILL = 21;

/** How far right of the forward edge the gradient runs in a trunk. */
const BESIDE = 9;

export class Scene {
  /** The rows of the pieces of edges that begin in each row: edges, then bends. */
  readonly edgesFrom: IAdjacency;
  readonly bendsFrom: IAdjacency;
  /** Edges that are drawn straight from box to box, past the rows. */
  readonly straight: Int32Array;
  readonly outlines: IOutline[];
  /** The rectangle around all of it. */
  readonly bounds: IBounds;

  /** The graph that the layout is of; its values may be replaced by others. */
  graph: Graph;

  constructor(
    graph: Graph,
    readonly items: IItems,
    readonly layout: ILayout
  ) {
    this.graph = graph;
    const { count, vertices, via, above, layer } = layout;
    const rows = layout.rowTop.length - 1;
    const edges: number[] = [];
    const edgeRows: number[] = [];
    const straight: number[] = [];
    for (let edge = 0; edge < via.length; edge++) {
      if (via[edge] < 0) {
        straight.push(edge);
      } else {
        edges.push(edge);
        edgeRows.push(layer[via[edge]]);
      }
    }
    const bends = Int32Array.from({ length: vertices - count }, (_, i) => count + i);
    this.straight = Int32Array.from(straight);
    this.edgesFrom = adjacency(rows, edgeRows, edges);
    this.bendsFrom = adjacency(
      rows,
      bends.map(bend => layer[above[bend]]),
      bends
    );
    this.outlines = outlinesOf(items, layout);
    this.bounds = { ...layout.bounds };
    for (const { pad, label, left, right } of this.outlines) {
      this.bounds.top = Math.min(this.bounds.top, label.y);
      this.bounds.left = Math.min(this.bounds.left, Math.min(...left) - pad);
      this.bounds.right = Math.max(this.bounds.right, Math.max(...right) + pad);
    }
  }

  get rows(): number {
    return this.layout.rowTop.length - 1;
  }

  /** The card of an item. */
  card(item: number): IRect {
    const half = this.items.input.left[item];
    return {
      x: this.x(item) - half,
      y: this.top(item),
      width: 2 * half,
      height: MEASURES.height
    };
  }

  /** The place of an item's gradient tile, whether there is a gradient or not. */
  tile(item: number): IRect {
    const { tile, tileGap, tileHeight, height } = MEASURES;
    return {
      x: this.x(item) + this.items.input.left[item] + tileGap,
      y: this.top(item) + (height - tileHeight) / 2,
      width: tile,
      height: tileHeight
    };
  }

  /** The place of an override's pill, beside the tile. */
  pill(item: number, label: string): IRect {
    const tile = this.tile(item);
    const gradient = this.graph.hasGradient(this.items.node[item]);
    return {
      x: gradient ? tile.x + tile.width + MEASURES.tileGap : tile.x,
      y: this.top(item) + (MEASURES.height - PILL) / 2,
      width: pillWidth(label),
      height: PILL
    };
  }

  /** The middle of a card, or where the trunk of a bend runs. */
  x(vertex: number): number {
    return this.layout.x[vertex] + this._shift(this._dx, vertex);
  }

  /** The upper edge of a vertex. */
  top(vertex: number): number {
    const resting = this.layout.rowTop[this.layout.layer[vertex]];
    return resting + this._shift(this._dy, vertex);
  }

  /**
   * Begin where another picture leaves off, whose nodes those of this one were: a card
   * at its old place, what comes out of a scope at the scope's, what is new at its own.
   */
  moveFrom(before: Scene, counterparts: Int32Array): void {
    const { count, node } = this.items;
    this._dx = new Float32Array(count);
    this._dy = new Float32Array(count);
    for (let item = 0; item < count; item++) {
      const was = counterparts[node[item]];
      if (was < 0) {
        continue;
      }
      const old = before.items.itemOf[was];
      this._dx[item] = before.x(old) - this.layout.x[item];
      this._dy[item] = before.top(old) - this.top(item);
    }
  }

  /** The page was moved by so much: let the old places be where they were on it. */
  shiftStart(dx: number, dy: number): void {
    this._dx = this._dx.map(way => way + dx);
    this._dy = this._dy.map(way => way + dy);
  }

  /** How far the way from the old places still is: 1 all of it, 0 nothing. */
  set moving(part: number) {
    this._moving = part;
  }

  /** The middle of an item's tile, or where the gradient runs in a trunk. */
  gradientX(vertex: number): number {
    const x = this.x(vertex);
    return vertex < this.layout.count
      ? x + this.items.input.left[vertex] + MEASURES.tileGap + MEASURES.tile / 2
      : x + BESIDE;
  }

  /** How much there is to draw in the rows of a stretch: boxes, bends and edges. */
  weightBetween(top: number, bottom: number): number {
    const [first, end] = this.rowsBetween(top, bottom);
    const from = Math.max(0, first - 1);
    const { rowStart } = this.layout;
    const edges = this.edgesFrom.start[end] - this.edgesFrom.start[from];
    return rowStart[end] - rowStart[first] + edges + this.straight.length;
  }

  /** The rows that reach into a stretch of the picture: first and one past last. */
  rowsBetween(top: number, bottom: number): [number, number] {
    const { rowTop } = this.layout;
    const first = firstWhere(0, this.rows, row => rowTop[row] >= top) - 1;
    return [Math.max(0, first), firstWhere(0, this.rows, row => rowTop[row] >= bottom)];
  }

  /**
   * Call for each item whose card or tile reaches into a rectangle; of many rows
   * that fall on one pixel only every `every`-th is gone through.
   */
  eachItem(seen: IBounds, visit: (item: number) => void, every = 1): void {
    const { rowStart, rowVertices, x, count } = this.layout;
    const { left, right } = this.items.input;
    const [first, last] = this.rowsBetween(seen.top, seen.bottom);
    for (let row = first - (first % every); row < last; row += every) {
      const end = rowStart[row + 1];
      // Places rise along a row.
      const isNear = (i: number): boolean => x[rowVertices[i]] >= seen.left - WIDEST;
      for (let i = firstWhere(rowStart[row], end, isNear); i < end; i++) {
        const vertex = rowVertices[i];
        if (x[vertex] - WIDEST > seen.right) {
          break;
        }
        if (
          vertex < count &&
          x[vertex] - left[vertex] <= seen.right &&
          x[vertex] + right[vertex] >= seen.left
        ) {
          visit(vertex);
        }
      }
    }
  }

  /** The items above (its inputs) or below one, in the order of the program. */
  neighbours(item: number, upward: boolean): number[] {
    const { sources, targets } = this.items.input;
    const { start, items } = upward
      ? (this._above ??= adjacency(this.items.count, targets, sources))
      : (this._below ??= adjacency(this.items.count, sources, targets));
    return Array.from(items.subarray(start[item], start[item + 1]));
  }

  /** The next item to the left or right in the row of one; null at the end. */
  nextInRow(item: number, step: -1 | 1): number | null {
    const { rowStart, rowVertices, layer, count } = this.layout;
    const row = layer[item];
    let i = rowVertices.indexOf(item, rowStart[row]) + step;
    while (i >= rowStart[row] && i < rowStart[row + 1]) {
      if (rowVertices[i] < count) {
        return rowVertices[i];
      }
      i += step;
    }
    return null;
  }

  /** What lies at a point: a card, its tile or pill, or the name of a scope. */
  hit(x: number, y: number, labels: boolean): Hit {
    let found = null as Hit;
    this.eachItem({ left: x, right: x, top: y, bottom: y }, item => {
      const top = this.top(item);
      if (y >= top && y <= top + MEASURES.height) {
        found = { kind: 'item', item };
      }
    });
    return found ?? (labels ? this._hitLabel(x, y) : null);
  }

  /** The item nearest to a point. */
  nearest(x: number, y: number): number | null {
    const [first] = this.rowsBetween(y, y);
    let found: number | null = null;
    let least = Infinity;
    for (const row of [first - 1, first, first + 1]) {
      if (row < 0 || row >= this.rows) {
        continue;
      }
      const { rowStart, rowVertices, count } = this.layout;
      for (let i = rowStart[row]; i < rowStart[row + 1]; i++) {
        const item = rowVertices[i];
        const away = Math.hypot(this.layout.x[item] - x, this.top(item) + 22 - y);
        if (item < count && away < least) {
          least = away;
          found = item;
        }
      }
    }
    return found;
  }

  private _hitLabel(x: number, y: number): Hit {
    for (const outline of this.outlines) {
      const { label } = outline;
      const inside =
        x >= label.x &&
        x <= label.x + label.width &&
        y >= label.y &&
        y <= label.y + label.height;
      if (inside) {
        return { kind: 'group', group: outline.group };
      }
    }
    return null;
  }

  private _shift(way: Float32Array, vertex: number): number {
    return this._moving === 0 ? 0 : this._moving * way[this.layout.owner[vertex]];
  }

  private _above: IAdjacency | undefined;
  private _below: IAdjacency | undefined;
  private _dx = new Float32Array(0);
  private _dy = new Float32Array(0);
  private _moving = 0;
}

/** No card with its tile and pill reaches further from its middle. */
const WIDEST = 340;
