/** Draws cards with their labels, tiles with their numbers, and pills. */

import { foldLabel } from '../layout/items';
import { MEASURES } from '../layout/types';
import { loopHeading } from '../model/folds';
import type { Graph } from '../model/graph';
import { formatNumber, formatPlural, shortenConstants } from '../ui/numbers';
import { IFrame, LABELLED, STRUCK, fadedOn, recededOn } from './frame';
import { type Mood, isCost } from './looks';
import { drawSparkline } from './sparkline';
import { fittingSize } from './text';
import { LEVELS } from './theme';
import { IRect } from './viewport';

export function drawCards(frame: IFrame): void {
  const drawer = new CardDrawer(frame);
  const { scene, seen, view } = frame;
  const row = (MEASURES.height + MEASURES.row) * view.scale;
  // Of many rows on one pixel some are left out.
  const every = Math.max(1, Math.floor(0.5 / row));
  scene.eachItem(seen, item => drawer.item(item), every);
}

/** Rings around what is pointed at, chosen and stepped to. */
export function drawRings(frame: IFrame): void {
  const drawer = new CardDrawer(frame);
  const { selected, marked, hovered, outlined, current } = frame.marks;
  const items = new Set([
    ...outlined,
    selected,
    marked,
    hovered,
    current?.item ?? null
  ]);
  for (const item of items) {
    if (item !== null) {
      drawer.chosen(item);
    }
  }
}

/** How wide the gradients of a loop are drawn on its card, at least and at most. */
const SPARKLINE = [24, 80] as const;

class CardDrawer {
  constructor(private readonly _frame: IFrame) {
    // Text shrinks less than what it stands on, as far as there is room for it.
    const { theme, view } = _frame;
    const grown = Math.min(1.2, Math.max(1, 0.92 / view.scale));
    this._size = Math.round(2 * theme.size * grown) / 2;
  }

  item(item: number): void {
    const { context, marks, scene, stage, looks, detail, theme } = this._frame;
    const faded = fadedOn(theme);
    const value = marks.valueDone === null || marks.valueDone[item] === 1;
    const gradient = marks.gradientDone === null || marks.gradientDone[item] === 1;
    const found = marks.matches === null || marks.matches[item] === 1;
    const card = scene.card(item);
    const near = marks.trail === null || marks.trail[item] === 1 ? 1 : recededOn(theme);
    const went = marks.went !== null && marks.went[item] === 1;
    context.globalAlpha = went ? STRUCK : value && found ? near : faded;
    this._card(item, card);
    if (detail.text) {
      this._labels(item, card);
    } else if (detail.name) {
      this._largeLabel(item, card);
    }
    if (went) {
      this._strike(card);
    }
    this._difference(item, card);
    context.globalAlpha = found ? near : faded;
    if (stage === 'derivative' && looks.mood[item] !== 'none' && gradient) {
      this._tile(item, scene.tile(item));
    }
    this._pill(item);
    context.globalAlpha = 1;
    this._rings(item, card);
  }

  /** The rings over the ground, around a card's own border. */
  chosen(item: number): void {
    const { theme, marks, scene } = this._frame;
    const card = scene.card(item);
    if (marks.current?.item === item) {
      if (marks.current.sweep === 'forward') {
        this._ring(item, card, theme.accent, 3, 2.5);
      } else {
        this._glow(scene.tile(item), theme.warm.fill[LEVELS - 1]);
      }
    }
    if (marks.selected === item || marks.marked === item) {
      this._ring(item, card, theme.accent, 2.5, 0.5);
    } else if (marks.hovered === item || marks.outlined.has(item)) {
      this._ring(item, card, theme.accent, 1.2, 0);
    }
  }

  private _card(item: number, card: IRect): void {
    const { context, theme, scene, looks, detail, view, marks } = this._frame;
    const { graph, items } = scene;
    const node = items.node[item];
    const folded = items.scope[item] !== null;
    const level = looks.card[item];
    const failed = marks.failed === item;
    const fill = failed
      ? theme.errorSoft
      : Number.isNaN(level)
        ? theme.card
        : (looks.diverging ? theme.divergingSoft : theme.cool).fill[
            Math.round(level * (LEVELS - 1))
          ];
    if (!detail.curves) {
      context.fillStyle = failed ? theme.error : theme.edge;
      context.fillRect(card.x, card.y, card.width, card.height);
      return;
    }
    const round = folded || graph.kind(node) === 'op' ? theme.radius : card.height / 2;
    context.lineWidth = Math.max(1, 0.7 / view.scale);
    context.strokeStyle = theme.border;
    if (folded) {
      // A stack: two more cards look out below.
      for (const step of [2, 1]) {
        const inset = 5 * step;
        this._shape(
          {
            ...card,
            x: card.x + inset,
            width: card.width - 2 * inset,
            y: card.y + 3.5 * step
          },
          round
        );
        context.fillStyle = theme.card;
        context.fill();
        context.stroke();
      }
    }
    if (detail.text) {
      this._shape({ ...card, y: card.y + 1.5 }, round);
      context.fillStyle = theme.shadow;
      context.fill();
    }
    this._shape(card, round);
    context.fillStyle = fill;
    context.fill();
    const role = looks.roles[item];
    if (failed || role === 'origin') {
      context.strokeStyle = theme.error;
      context.lineWidth = Math.max(2.4, 1.4 / view.scale);
    } else if (role === 'follower') {
      context.strokeStyle = theme.errorLine;
      context.lineWidth = Math.max(1.2, 1 / view.scale);
    } else if (role === 'harmless') {
      // An infinity that comes to nothing: broken, and in no colour of alarm.
      context.strokeStyle = theme.quiet;
      context.setLineDash([5, 3]);
    } else if (graph.isWrt(node) && !folded) {
      context.strokeStyle = theme.wrt;
    }
    context.stroke();
    context.setLineDash([]);
  }

  private _labels(item: number, card: IRect): void {
    const { pen, theme, scene, detail, looks, stage } = this._frame;
    const { graph, items } = scene;
    const node = items.node[item];
    const scope = items.scope[item];
    const size = this._size;
    const left = card.x + 12;
    const room = card.width - 24;
    if (scope === null && graph.kind(node) === 'constant') {
      pen.write(headingOf(graph, node), card.x + card.width / 2, card.y + 26, {
        font: pen.mono(pen.legible(size - 1)),
        fill: theme.quiet,
        room: card.width - 16,
        align: 'center'
      });
      return;
    }
    const label = this._heading(item);
    const aside = this._aside(node, scope, label);
    const asideFont = pen.ui(pen.legible(size - 2));
    const font = pen.ui(size, 'bold');
    // What a short name leaves free is the op's.
    const free = Math.max(room * 0.55, room - pen.width(label, font) - 8);
    const used = aside === '' ? 0 : Math.min(pen.width(aside, asideFont), free) + 8;
    // A long name is written somewhat smaller before it is cut.
    const fitting = fittingSize(room - used, size, pen.width(label, font));
    const shrunk = pen.legible(fitting);
    // Larger letters stand further apart.
    const grown = size - theme.size;
    pen.write(label, left, card.y + 18 - grown / 4, {
      font: pen.ui(shrunk, 'bold'),
      fill: theme.text,
      room: room - used
    });
    if (aside !== '') {
      const given = scope === null && graph.isWrt(node);
      pen.write(aside, left + room, card.y + 17, {
        font: asideFont,
        fill: given ? theme.accent : theme.quiet,
        room: free,
        align: 'right'
      });
    }
    const sparkline = stage === 'derivative' ? looks.sparklines.get(item) : undefined;
    const secondFont = pen.mono(pen.legible(detail.numbers ? size - 4 : size - 2));
    const numbers = this._printed(item);
    const second =
      numbers !== '' && pen.width(numbers, secondFont) <= room
        ? numbers
        : this._secondLine(item, sparkline !== undefined);
    const [least, most] = SPARKLINE;
    const rest = room - pen.width(second, secondFont) - 8;
    const width = sparkline === undefined ? 0 : Math.min(most, Math.max(least, rest));
    pen.write(second, left, card.y + (detail.numbers ? 30 : 35 + grown / 2), {
      font: secondFont,
      fill: theme.quiet,
      room: sparkline === undefined ? room : room - width - 6
    });
    if (sparkline !== undefined) {
      const bars = { x: left + room - width, y: card.y + 23, width, height: 15 };
      drawSparkline(this._frame.context, theme, sparkline, bars);
    }
    if (detail.numbers) {
      const statistics = graph.valueStatistics(node);
      const text =
        // Of a past run only the norm is known.
        statistics === null || Number.isNaN(statistics.std)
          ? ''
          : `${formatNumber(statistics.min)} … ${formatNumber(statistics.max)}` +
            `  µ ${formatNumber(statistics.mean)}  σ ${formatNumber(statistics.std)}`;
      pen.write(text, left, card.y + 39.5, {
        font: pen.mono(pen.legible(size - 6)),
        fill: theme.quiet,
        room
      });
    }
  }

  private _heading(item: number): string {
    const { graph, items } = this._frame.scene;
    const node = items.node[item];
    // In a lesson a node is called as its formulas call it.
    const made = this._frame.marks.lesson?.nodes[node].made ?? '';
    return items.scope[item] === null
      ? made === ''
        ? headingOf(graph, node)
        : made.split(' = ')[0]
      : loopHeading(foldLabel(graph, items, item));
  }

  /** In a lesson the numbers of a small array: "[1 2; 3 4]"; empty until it is computed. */
  private _printed(item: number): string {
    const { marks, scene } = this._frame;
    const value = marks.lesson?.nodes[scene.items.node[item]].value ?? '';
    const isShown = scene.items.scope[item] === null && marks.valueDone?.[item] === 1;
    return value === '' || !isShown ? '' : `[${value.replaceAll('\n', '; ')}]`;
  }

  /** What stands below a card's heading: its shape, of a loop how many steps it has. */
  private _secondLine(item: number, beside: boolean): string {
    const { graph, items } = this._frame.scene;
    const [node, scope, span] = [items.node[item], items.scope[item], items.span[item]];
    if (scope === null) {
      const steps = beside ? (graph.stepNorms(node)?.steps ?? null) : null;
      return steps === null ? graph.shape(node) : `${steps} steps`;
    }
    if (span !== null) {
      return formatPlural(span.last - span.first + 1, 'step');
    }
    const count = formatPlural(items.size[item], 'node');
    return beside ? count : `${count} · ${graph.shape(node)}`;
  }

  /** A line through a card: a rewrite took it away. */
  private _strike(card: IRect): void {
    const { context, theme, view } = this._frame;
    const middle = card.y + card.height / 2;
    context.beginPath();
    context.moveTo(card.x + 6, middle);
    context.lineTo(card.x + card.width - 6, middle);
    context.strokeStyle = theme.text;
    context.lineWidth = Math.max(1.4, 1 / view.scale);
    context.stroke();
  }

  /** What stands at the right of a card's heading. */
  private _aside(node: number, scope: string | null, label: string): string {
    const { graph } = this._frame.scene;
    if (scope !== null) {
      return '▸';
    }
    if (graph.isWrt(node)) {
      return '∂';
    }
    // A heading "t3 = t1 * t2" says what makes it.
    const told = graph.op(node) === '' || (graph.rewritten !== null && label.includes(' = '));
    const maker = told ? '' : graph.maker(node);
    const other = graph.compared?.differing?.get(node);
    if (other !== undefined) {
      return `${maker} ↔ ${other.op || 'none'}`;
    }
    const aside = maker === label ? '' : maker;
    return graph.isHolder(node) ? `${aside} ▸`.trim() : aside;
  }

  private _largeLabel(item: number, card: IRect): void {
    const { pen, theme, view } = this._frame;
    const label = this._heading(item);
    // As large as the card allows, so that it is read from further away.
    const most = Math.ceil(Math.min(36, 10 / view.scale));
    const room = card.width - (view.scale < LABELLED ? 4 : 12);
    const size = pen.legible(fittingSize(room, most, pen.width(label, pen.ui(most, 'bold'))));
    const font = pen.ui(size, 'bold');
    // Of "part 3 · lines 4–9" the name alone, where there is no room for both.
    const shown = pen.width(label, font) > room ? label.split(' · ')[0] : label;
    pen.write(shown, card.x + card.width / 2, card.y + card.height / 2 + size * 0.35, {
      font,
      fill: theme.text,
      room,
      align: 'center'
    });
  }

  private _tile(item: number, tile: IRect): void {
    const { context, theme, looks, detail, view } = this._frame;
    const mood = looks.mood[item];
    const passed = looks.passed.get(item);
    const level = looks.tile[item];
    if (!detail.curves) {
      const { fill } = this._tileColours(mood, level);
      context.fillStyle = mood === 'zero' ? theme.edge : fill;
      context.fillRect(tile.x, tile.y, tile.width, tile.height);
      return;
    }
    const half = { ...tile, height: tile.height / 2 };
    const below = { ...half, y: tile.y + half.height };
    const parts =
      passed === undefined
        ? item < looks.above.length
          ? // Of two states the one before stands above.
            [
              { rect: half, mood, level, text: looks.above[item] },
              { rect: below, mood, level, text: looks.text[item] }
            ]
          : [{ rect: tile, mood, level, text: looks.text[item] }]
        : // Gradients flow up: below what arrives, above what is passed on.
          [
            { rect: half, ...passed },
            { rect: below, mood, level, text: looks.text[item] }
          ];
    context.save();
    this._shape(tile, Math.max(2, theme.radius - 1));
    context.clip();
    for (const { rect, ...part } of parts) {
      context.fillStyle = this._tileColours(part.mood, part.level).fill;
      context.fillRect(rect.x, rect.y, rect.width, rect.height);
    }
    context.restore();
    const lone = mood === 'came' || mood === 'went';
    if (lone || parts.some(part => part.mood === 'zero')) {
      this._shape(tile, Math.max(2, theme.radius - 1));
      context.strokeStyle = lone ? theme.text : theme.border;
      context.lineWidth = Math.max(1, 0.8 / view.scale);
      // On one side alone: broken, like what is not there.
      context.setLineDash(lone ? [3, 2] : []);
      context.stroke();
      context.setLineDash([]);
    }
    if (passed !== undefined) {
      context.fillStyle = theme.ground;
      context.fillRect(tile.x, below.y - 0.75, tile.width, 1.5);
    }
    if (detail.text || detail.label) {
      for (const part of parts) {
        this._tileText(part.rect, part.text, part.mood, part.level, parts.length > 1);
      }
    }
    if (looks.changed[item] === 1 && !looks.diverging) {
      this._dot(tile);
    }
  }

  private _tileColours(mood: Mood, level: number): { fill: string; ink: string } {
    const { theme, looks } = this._frame;
    const scale = looks.diverging
      ? theme.diverging
      : looks.colouring === 'gradient'
        ? theme.warm
        : looks.colouring === 'change'
          ? theme.purple
          : isCost(looks.colouring)
            ? theme.cool
            : theme.neutral;
    const step = Math.round((level || 0) * (LEVELS - 1));
    return mood === 'bad'
      ? { fill: theme.error, ink: theme.errorText }
      : mood === 'zero' || mood === 'came' || mood === 'went'
        ? { fill: theme.card, ink: theme.quiet }
        : { fill: scale.fill[step], ink: scale.text[step] };
  }

  private _tileText(
    rect: IRect,
    text: string,
    mood: Mood,
    level: number,
    small: boolean
  ): void {
    const { detail, pen, theme } = this._frame;
    // Seen from further away a number takes all the room that its tile has.
    const large = detail.text ? this._size - 2 : theme.size + 2;
    const size = pen.legible(small ? Math.min(large, theme.size - 1) : large);
    const font = pen.mono(size);
    // Half a number would be another number.
    if (pen.width(text, font) <= rect.width - 2 && size <= rect.height) {
      pen.write(text, rect.x + rect.width / 2, rect.y + rect.height / 2 + size * 0.36, {
        font,
        fill: this._tileColours(mood, level).ink,
        room: rect.width,
        align: 'center'
      });
    }
  }

  /** The sign that overrides changed this gradient. */
  private _dot(tile: IRect): void {
    const { context, theme } = this._frame;
    context.beginPath();
    context.arc(tile.x + tile.width - 1, tile.y + 1, 4.5, 0, 2 * Math.PI);
    context.fillStyle = theme.override;
    context.fill();
    context.strokeStyle = theme.ground;
    context.lineWidth = 1.5;
    context.stroke();
  }

  private _pill(item: number): void {
    const { context, theme, scene, looks, detail, pen } = this._frame;
    const pill = looks.pill[item];
    if (pill === null) {
      return;
    }
    const rect = scene.pill(item, pill.label);
    context.beginPath();
    context.roundRect(rect.x, rect.y, rect.width, rect.height, rect.height / 2);
    if (pill.on) {
      context.fillStyle = theme.overrideSoft;
      context.fill();
    } else {
      context.save();
      context.strokeStyle = theme.override;
      context.lineWidth = 1;
      context.setLineDash([3, 3]);
      context.stroke();
      context.restore();
    }
    if (detail.text || detail.label) {
      const size = pen.legible(detail.text ? this._size - 2 : theme.size + 1);
      pen.write(pill.label, rect.x + rect.width / 2, rect.y + 10 + size * 0.38, {
        font: pen.ui(size),
        fill: pill.on ? theme.override : theme.quiet,
        room: rect.width - 6,
        align: 'center'
      });
    }
    const passed = looks.passed.get(item);
    const small = theme.size - 3;
    if (passed !== undefined && detail.text && pen.legible(small) === small) {
      pen.write(passed.change, rect.x + 4, rect.y + rect.height + 10, {
        font: pen.mono(small),
        fill: theme.quiet,
        room: Math.max(rect.width, 72)
      });
    }
  }

  /** Rings of search and rewriting, over the card's own border. */
  private _rings(item: number, card: IRect): void {
    const { theme, marks } = this._frame;
    if (marks.came !== null && marks.came[item] === 1) {
      this._ring(item, card, theme.accent, 2, 4);
    }
    if (marks.matches !== null && marks.matches[item] === 1) {
      this._ring(item, card, theme.match, 2, 3);
    }
  }

  /** Outline a node that has another op in the program that is compared. */
  private _difference(item: number, card: IRect): void {
    const { context, scene, theme } = this._frame;
    const { graph, items } = scene;
    const differing = graph.compared?.differing;
    if (items.scope[item] === null && differing?.has(items.node[item]) === true) {
      context.setLineDash([5, 3]);
      this._ring(item, card, theme.text, 1.5, 3);
      context.setLineDash([]);
    }
  }

  private _ring(
    item: number,
    card: IRect,
    colour: string,
    width: number,
    away: number
  ): void {
    const { context, theme, scene, view } = this._frame;
    const { graph, items } = scene;
    const op = items.scope[item] !== null || graph.kind(items.node[item]) === 'op';
    const rect = growRect(card, away);
    this._shape(rect, (op ? theme.radius : card.height / 2) + away);
    context.strokeStyle = colour;
    context.lineWidth = Math.max(width, 1.5 / view.scale);
    context.stroke();
  }

  private _glow(tile: IRect, colour: string): void {
    const { context, theme, view } = this._frame;
    this._shape(growRect(tile, 3), theme.radius + 2);
    context.strokeStyle = colour;
    context.lineWidth = Math.max(2.5, 2 / view.scale);
    context.stroke();
  }

  private _shape(rect: IRect, radius: number): void {
    const { context } = this._frame;
    context.beginPath();
    context.roundRect(rect.x, rect.y, rect.width, rect.height, radius);
  }

  /** The size of a card's heading. */
  private readonly _size: number;
}

function growRect(rect: IRect, by: number): IRect {
  return {
    x: rect.x - by,
    y: rect.y - by,
    width: rect.width + 2 * by,
    height: rect.height + 2 * by
  };
}

/** The label of a node; in a rewritten program, where that is code, in few digits. */
function headingOf(graph: Graph, node: number): string {
  const label = graph.label(node);
  return graph.rewritten === null ? label : shortenConstants(label);
}
