/**
 * Draws what checks and the doctor say over the cards: a red ring around a wrong
 * rule, and marks on a card's upper edge. What is wrong is seen from any distance;
 * what is only good to know, where it can be read.
 */

import { type IVerdict, gravestFinding, isAlarming } from '../model/verdicts';
import { shortNumber } from '../ui/numbers';
import type { Detail, IFrame } from './frame';
import type { ITheme } from './theme';
import type { IRect } from './viewport';

/** The height of a mark, and how far it reaches above the card's edge. */
const HEIGHT = 16;
const ABOVE = 12;
const GAP = 4;

/** No mark is longer. */
const LONGEST = 118;

/** Pixels of the page: the radius of a mark from afar, and the width of a ring. */
const DISC = 6.5;
const RING = 2;

/** How strong the ring is of what was found before the last change. */
const STALE = 0.5;

type Look = 'wrong' | 'error' | 'warning' | 'note' | 'changed' | 'quiet';

interface IMark {
  look: Look;
  /** What stands for it from afar, and in front of its words. */
  sign: string;
  words: string;
  stale: boolean;
}

export function drawVerdicts(frame: IFrame): void {
  const { scene, looks, seen } = frame;
  if (looks.verdicts.size === 0) {
    return;
  }
  for (const [item, verdict] of looks.verdicts) {
    const card = scene.card(item);
    const inSight =
      card.x < seen.right &&
      card.x + card.width > seen.left &&
      card.y < seen.bottom &&
      card.y + card.height > seen.top;
    if (inSight && isShown(verdict, frame.detail)) {
      drawVerdict(frame, card, marksOn(verdict));
    }
  }
}

/** Whether the marks of a verdict are drawn at a zoom. */
export function isShown(verdict: IVerdict, { label, text }: Detail): boolean {
  return label || text || isAlarming(verdict);
}

/** The marks of a verdict, the gravest first. */
export function marksOn(verdict: IVerdict): IMark[] {
  const marks: IMark[] = [];
  const { counts, ratio, findings } = verdict;
  const stale = verdict.staleCheck;
  const { wrong = 0 } = counts;
  if (wrong > 0) {
    const words = wrong > 1 ? `${wrong} wrong` : `${shortNumber(ratio)}×`;
    marks.push({ look: 'wrong', sign: '✗', words, stale });
  }
  const first = gravestFinding(findings);
  // The doctor's word for it stands in its place.
  if (verdict.begins !== null && first?.severity !== 'error') {
    const { what, sweep } = verdict.begins;
    const words = sweep === 'forward' ? `${what} begins` : `${what} in its gradient`;
    marks.push({ look: 'error', sign: '!', words, stale: false });
  }
  if (first !== null) {
    const more = findings.length > 1 ? ` +${findings.length - 1}` : '';
    marks.push({
      look: first.severity,
      sign: first.severity === 'note' ? 'i' : '!',
      words: first.kind.replace(/-/g, ' ') + more,
      stale: verdict.staleFindings
    });
  }
  if (wrong === 0) {
    const quiet = [
      // What overrides changed before the last change tells nothing of those of now.
      [stale ? 0 : counts.overridden, 'changed', '≠', 'changed'],
      [counts.kink, 'quiet', '∧', 'kink'],
      [counts.unsure, 'quiet', '?', 'unsure']
    ] as const;
    for (const [count = 0, look, sign, word] of quiet) {
      if (count > 0) {
        marks.push({ look, sign, words: count > 1 ? `${count} ${word}` : word, stale });
      }
    }
  }
  if (verdict.stops.length > 0) {
    marks.push({ look: 'note', sign: '⚑', words: 'stop', stale: false });
  }
  return marks;
}

function drawVerdict(frame: IFrame, card: IRect, marks: readonly IMark[]): void {
  const { context, theme, view, detail } = frame;
  const wrong = marks.find(({ look }) => look === 'wrong');
  if (wrong !== undefined) {
    context.globalAlpha = wrong.stale ? STALE : 1;
    context.beginPath();
    const away = 4;
    context.roundRect(
      card.x - away,
      card.y - away,
      card.width + 2 * away,
      card.height + 2 * away,
      theme.radius + away
    );
    context.strokeStyle = theme.error;
    context.lineWidth = Math.max(2.5, RING / view.scale);
    context.stroke();
    context.globalAlpha = 1;
  }
  let x = card.x + 8;
  for (const mark of marks) {
    if (detail.text) {
      x += drawMark(frame, mark, x, card.y - ABOVE) + GAP;
    } else {
      const radius = Math.max(9, DISC / view.scale);
      drawDisc(frame, mark, card.x + radius * 0.7, card.y, radius);
      // From afar there is room for the gravest alone.
      break;
    }
  }
}

function drawMark(frame: IFrame, mark: IMark, x: number, y: number): number {
  const { context, theme, pen } = frame;
  const font = pen.ui(pen.legible(theme.size - 3), mark.look === 'quiet' ? 'normal' : 'bold');
  const text = `${mark.sign} ${mark.words}`;
  const width = Math.min(LONGEST, pen.width(text, font) + 12);
  const { fill, line, ink } = coloursOf(theme, mark);
  context.beginPath();
  context.roundRect(x, y, width, HEIGHT, HEIGHT / 2);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.stroke();
  pen.write(text, x + width / 2, y + HEIGHT / 2 + 3.6, {
    font,
    fill: ink,
    room: width - 8,
    align: 'center'
  });
  return width;
}

function drawDisc(
  frame: IFrame,
  mark: IMark,
  x: number,
  y: number,
  radius: number
): void {
  const { context, theme, pen, view } = frame;
  const { fill, line, ink } = coloursOf(theme, mark);
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = line;
  context.lineWidth = Math.max(1, 1 / view.scale);
  context.stroke();
  pen.write(mark.sign, x, y + radius * 0.5, {
    font: pen.ui(pen.legible(Math.round(radius * 1.4)), 'bold'),
    fill: ink,
    room: 2 * radius,
    align: 'center'
  });
}

/** The colours of ground, line and words, and of the line when it is stale. */
const COLOURS = {
  wrong: ['error', 'ground', 'errorText', 'error'],
  error: ['errorSoft', 'error', 'error', 'error'],
  warning: ['warnSoft', 'warn', 'text', 'warn'],
  // Amber: changed on purpose, and nothing wrong.
  changed: ['warnSoft', 'warn', 'text', 'border'],
  note: ['card', 'border', 'quiet', 'border'],
  quiet: ['card', 'border', 'quiet', 'border']
} as const;

/** What is of an earlier state is hollow: less loud, and still to be read. */
function coloursOf(
  theme: ITheme,
  { look, stale }: IMark
): { fill: string; line: string; ink: string } {
  const [fill, line, ink, staleLine] = COLOURS[look];
  return stale
    ? { fill: theme.card, line: theme[staleLine], ink: theme.quiet }
    : { fill: theme[fill], line: theme[line], ink: theme[ink] };
}
