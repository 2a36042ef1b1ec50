/** What stands below a picture in a file: what it is of, and what its colours mean. */

import type { ITheme } from './theme';

export interface ICaption {
  /** "model · loss = 0.5" */
  name: string;
  /** What the colours tell, with the ends of their scale; null without colours. */
  legend: { title: string; low: string; high: string; fill: readonly string[] } | null;
}

/** How high it is. */
export const CAPTION_HEIGHT = 28;

const MARGIN = 12;
const BAR = { width: 72, height: 8 };

/** Draw it below a picture of this size, with so many pixels to one of the page. */
export function drawCaption(
  context: CanvasRenderingContext2D,
  { width, height }: { width: number; height: number },
  ratio: number,
  theme: ITheme,
  { name, legend }: ICaption
): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.ground;
  context.fillRect(0, height, width, CAPTION_HEIGHT);
  const middle = height + CAPTION_HEIGHT / 2;
  const write = (text: string, x: number, align: CanvasTextAlign): number => {
    context.textAlign = align;
    context.fillText(text, x, middle + 4);
    return context.measureText(text).width;
  };
  context.font = `12px ${theme.font}`;
  context.fillStyle = theme.quiet;
  let right = width - MARGIN;
  if (legend !== null) {
    const { title, low, high, fill } = legend;
    right -= write(high, right, 'right') + 6 + BAR.width;
    const step = BAR.width / fill.length;
    for (const [i, colour] of fill.entries()) {
      context.fillStyle = colour;
      context.fillRect(right + i * step, middle - BAR.height / 2, step, BAR.height);
    }
    context.fillStyle = theme.quiet;
    right -= 6;
    right -= write(`${title}  ${low}`, right, 'right');
  }
  context.fillStyle = theme.text;
  context.save();
  context.beginPath();
  context.rect(0, height, Math.max(right - MARGIN, 0), CAPTION_HEIGHT);
  context.clip();
  write(name, MARGIN, 'left');
  context.restore();
}
