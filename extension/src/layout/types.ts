/**
 * What goes into a layout and what comes out: flat arrays only, so that both
 * cross to a worker and back without being copied.
 */

/** The measures of the picture, in pixels at zoom 1. */
export const MEASURES = {
  /** A card, and the height of a row of cards. */
  width: 152,
  height: 44,
  /** The card of a constant, and of a folded scope or loop. */
  constant: 88,
  folded: 216,
  /** A gradient's tile and the air between it and its card. */
  tile: 52,
  tileHeight: 34,
  tileGap: 6,
  /** The air between two things in one row, and between two rows. */
  column: 28,
  row: 30,
  /** How wide an edge that passes through a row is taken to be. */
  passing: 16
} as const;

/**
 * The boxes to place, 0 to count - 1, and the edges between them, each from a
 * box above to a box below. Boxes come in an order close to that of the program.
 */
export interface ILayoutInput {
  count: number;
  /** Edge e goes from `sources[e]` to `targets[e]`; no edge comes twice. */
  sources: Int32Array;
  targets: Int32Array;
  /** 1 for an input or constant, which stands just above what reads it. */
  leaf: Uint8Array;
  /** How far a box reaches to both sides of the middle of its card. */
  left: Float32Array;
  right: Float32Array;
  /** The innermost unfolded scope of a box, -1 for none, and the tree of them. */
  group: Int32Array;
  groupParent: Int32Array;
}

/**
 * Vertices 0 to count - 1 are the boxes, those after them the bends of long
 * edges: the edges of one source share one trunk of bends, one in each row.
 */
export interface ILayout {
  count: number;
  vertices: number;
  /** The middle of a card, or where a trunk passes through the row. */
  x: Float64Array;
  /** The row of a vertex. */
  layer: Int32Array;
  /** The upper edge of each row; one more entry for the end of the last. */
  rowTop: Float64Array;
  /** The vertices of row r, from left to right: those from `rowStart[r]` on. */
  rowStart: Int32Array;
  rowVertices: Int32Array;
  /** The box whose trunk a bend is in (a box: itself). */
  owner: Int32Array;
  /** The vertex above a bend in its trunk; -1 for boxes. */
  above: Int32Array;
  /**
   * Where edge e leaves its trunk: its source or the last bend before its
   * target; -1 for an edge that is drawn straight from box to box.
   */
  via: Int32Array;
  /** The rectangle around all of it. */
  bounds: { left: number; top: number; right: number; bottom: number };
}

/** How many scopes are around one. */
export function depthOf(parents: Int32Array, group: number): number {
  let depth = 0;
  for (let g = parents[group]; g >= 0; g = parents[g]) {
    depth++;
  }
  return depth;
}

/** The arrays of a result, to hand them over instead of copying them. */
export function buffersOf(data: object): ArrayBuffer[] {
  return Object.values(data)
    .filter(value => ArrayBuffer.isView(value))
    .map(value => value.buffer as ArrayBuffer);
}
