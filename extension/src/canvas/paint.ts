/** One drawing of the picture, back to front. */

import { MEASURES } from '../layout/types';
import { drawVerdicts } from './badges';
import { drawCards } from './cards';
import { drawEdges, drawSaved } from './edges';
import { IFrame } from './frame';
import { drawOutlines } from './outlines';

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
