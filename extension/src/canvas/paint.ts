/** One drawing of the picture, back to front. */

import { MEASURES } from '../layout/types';
import { drawVerdicts } from './badges';
import { drawCards } from './cards';
import { drawEdges, drawSaved } from './edges';
import { IFrame } from './frame';
import { IOutline, lastPart } from './outline';

/** Draw what is seen; `ratio` is the number of device pixels in one of the page. */
export function paint(frame: IFrame, ratio: number): void {
  const { context, view, detail } = frame;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  // The origin lies on a device pixel, or every border would be blurred.
  context.setTransform(
    ratio * view.scale,
    0,
    0,
    ratio * view.scale,
    Math.round(ratio * view.x),
    Math.round(ratio * view.y)
  );
  drawOutlines(frame);
  drawEdges(frame);
  drawCards(frame);
  drawSaved(frame);
  drawVerdicts(frame);
  if (detail.numbers) {
    drawShapes(frame);
  }
}

/** The shape of what flows, beside each edge, where it leaves its card. */
function drawShapes(frame: IFrame): void {
  const { scene, pen, theme, seen } = frame;
  const { graph, items } = scene;
  scene.eachItem(seen, item => {
    const shape = graph.shape(items.node[item]);
    if (shape !== '' && graph.consumers(items.node[item]).length > 0) {
      pen.write(shape, scene.x(item) + 5, scene.top(item) + MEASURES.height + 9, {
        font: pen.mono(theme.size - 6),
        fill: theme.quiet,
        room: 60
      });
    }
  });
}

// Draws unfolded scopes: a faint ground behind their rows, with their name.

export function drawOutlines(frame: IFrame): void {
  const { context, scene, theme, view, seen, detail } = frame;
  const [first, end] = scene.rowsBetween(seen.top, seen.bottom);
  if (!detail.curves) {
    return;
  }
  for (const outline of scene.outlines) {
    if (outline.first > end || outline.first + outline.left.length < first) {
      continue;
    }
    trace(frame, outline, first - 2, end + 2);
    context.globalAlpha = 0.025;
    context.fillStyle = theme.text;
    context.fill();
    context.globalAlpha = 0.6;
    context.strokeStyle = theme.border;
    context.lineWidth = Math.max(0.8, 0.5 / view.scale);
    context.stroke();
    context.globalAlpha = 1;
    if (detail.text && outline.first >= first) {
      label(frame, outline);
    }
  }
}

function label(frame: IFrame, outline: IOutline): void {
  const { scene, pen, theme } = frame;
  const rect = outline.label;
  const name = lastPart(scene.items.groups[outline.group]);
  pen.write(`▾ ${name}`, rect.x + 2, rect.y + rect.height - 4, {
    font: pen.ui(theme.size - 2),
    fill: theme.quiet,
    room: rect.width
  });
}

/** Round the rows of a scope: down its right side, up its left. */
function trace(frame: IFrame, outline: IOutline, from: number, to: number): void {
  const { context, scene } = frame;
  const { left, right, first, pad } = outline;
  const { rowTop } = scene.layout;
  const low = Math.max(0, from - first);
  const high = Math.min(left.length - 1, to - first);
  const points: [number, number][] = [];
  for (let row = low; row <= high; row++) {
    const x = right[row] + pad;
    points.push([x, upper(row)], [x, lower(row)]);
  }
  for (let row = high; row >= low; row--) {
    const x = left[row] - pad;
    points.push([x, lower(row)], [x, upper(row)]);
  }
  context.beginPath();
  rounded(context, points);

  function upper(row: number): number {
    const top = rowTop[first + row];
    return row === 0 ? top - pad : between(row);
  }
  function lower(row: number): number {
    const bottom = rowTop[first + row] + MEASURES.height;
    return row === left.length - 1 ? bottom + pad : between(row + 1);
  }
  /** The middle of the gap above a row. */
  function between(row: number): number {
    return (rowTop[first + row - 1] + MEASURES.height + rowTop[first + row]) / 2;
  }
}

/** A closed path through points, with rounded corners. */
function rounded(context: CanvasRenderingContext2D, points: [number, number][]): void {
  const corners = points.filter(
    ([x, y], i) => x !== points.at(i - 1)?.[0] || y !== points.at(i - 1)?.[1]
  );
  const [startX, startY] = middle(corners[corners.length - 1], corners[0]);
  context.moveTo(startX, startY);
  corners.forEach((corner, i) => {
    const next = corners[(i + 1) % corners.length];
    const [x, y] = middle(corner, next);
    const before = corners[(i + corners.length - 1) % corners.length];
    const radius = Math.min(
      8,
      distance(before, corner) / 2,
      distance(corner, next) / 2
    );
    context.arcTo(corner[0], corner[1], x, y, radius);
  });
  context.closePath();
}

function middle(a: [number, number], b: [number, number]): [number, number] {
  return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
}

function distance(a: [number, number], b: [number, number]): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}
