/**
 * What a session knows of the lines of a cell: which nodes each line made, and how
 * large the gradient of its result is. Pure: no editor, no DOM.
 */

import { levelOf, normScale } from '../canvas/scale';
import type { Graph, ITracedLine } from '../model/graph';

/** "[3]:1" is line 1 of the cell that ran third. */
const PLACE = /^\[(\d+)\]/;

/** What is told of a line of an editor. */
export interface ILine {
  nodes: Int32Array;
  /** The last node that it made and that a gradient reaches; null if there is none. */
  result: number | null;
  /** The norm of its gradient; NaN if there is none. */
  norm: number;
  /** Where that is on the scale of the graph, 0 to 1; NaN for no number or zero. */
  level: number;
}

/** The lines of a graph by the execution count of their cell. */
export class TracedLines {
  constructor(graph: Graph) {
    for (const traced of graph.groupByLine()) {
      const count = cellOf(traced.place);
      if (count !== null && traced.source.trim() !== '') {
        getOrMake(this._cells, count, (): ITracedLine[] => []).push(traced);
      }
    }
  }

  /** The execution counts of the cells that made its nodes. */
  get cells(): Iterable<number> {
    return this._cells.keys();
  }

  /**
   * The lines of a cell as they stand in its editor now, from 0. What is not there
   * any more is left out; what has moved is found by its text.
   */
  place(count: number, texts: readonly string[]): Map<number, Int32Array> {
    const placed = new Map<number, Int32Array>();
    for (const { line, source, nodes } of this._cells.get(count) ?? []) {
      const at = findLine(texts, source.trim(), line);
      if (at !== null) {
        const before = placed.get(at);
        placed.set(at, before === undefined ? nodes : join(before, nodes));
      }
    }
    return placed;
  }

  private readonly _cells = new Map<number, ITracedLine[]>();
}

/** What a graph tells of its lines, by where they stand. */
export function describeLines(
  graph: Graph,
  placed: ReadonlyMap<number, Int32Array>
): Map<number, ILine> {
  const scale = normScale(graph, 'gradient');
  const described = new Map<number, ILine>();
  for (const [line, nodes] of placed) {
    const result = lastReached(graph, nodes);
    const norm = result === null ? NaN : graph.gradNorm(result);
    described.set(line, { nodes, result, norm, level: levelOf(scale, norm) });
  }
  return described;
}

/** Of the nodes of a line the last one that a gradient reaches; null if there is none. */
export function lastReached(graph: Graph, nodes: Iterable<number>): number | null {
  let result: number | null = null;
  for (const node of nodes) {
    if (node > (result ?? -1) && graph.hasGradient(node)) {
      result = node;
    }
  }
  return result;
}

/**
 * The node that a name means in a line: the last one of that name that was made there
 * or above it, else the first; null if the cell has no such name. Inputs belong to
 * every cell.
 */
export function findName(
  graph: Graph,
  name: string,
  line: number,
  cell: number
): number | null {
  let found: number | null = null;
  for (const node of graph.find(['name'], text => text === name)) {
    const count = cellOf(graph.place(node));
    const isHere = count === null || count === cell;
    if (graph.name(node) === name && isHere) {
      const at = graph.line(node);
      if (found === null || at === null || at <= line) {
        found = node;
      }
    }
  }
  return found;
}

/** The line with that text, nearest to where it was; null if there is none. */
export function findLine(
  lines: readonly string[],
  source: string,
  line: number | null
): number | null {
  const hits = lines.flatMap((text, i) => (text.trim() === source ? [i] : []));
  if (source === '' || hits.length === 0) {
    return null;
  }
  const wanted = line === null ? 0 : line - 1 + countBlankLines(lines);
  return hits.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
}

/** How many blank lines a cell begins with: the kernel never sees them. */
export function countBlankLines(lines: readonly string[]): number {
  const first = lines.findIndex(text => text.trim() !== '');
  return Math.max(first, 0);
}

/**
 * Where a cell has these whole lines, the first as line n from 1 as the kernel counts;
 * null if it has not.
 */
export function findLines(
  text: string,
  line: number,
  texts: readonly string[]
): { start: number; end: number } | null {
  const rows = text.split('\n');
  const at = line - 1 + countBlankLines(rows);
  if (line < 1 || texts.length === 0 || texts.some((one, i) => rows[at + i] !== one)) {
    return null;
  }
  const start = rows.slice(0, at).reduce((sum, row) => sum + row.length + 1, 0);
  return { start, end: start + texts.join('\n').length };
}

/** The execution count of the cell that a place is in; null for a file. */
export function cellOf(place: string): number | null {
  const count = PLACE.exec(place)?.[1];
  return count === undefined ? null : Number(count);
}

function join(a: Int32Array, b: Int32Array): Int32Array {
  const joined = new Int32Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let found = map.get(key);
  if (found === undefined) {
    found = make();
    map.set(key, found);
  }
  return found;
}
