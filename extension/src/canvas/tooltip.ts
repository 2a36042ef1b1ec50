/** The note beside the card under the pointer. Text only, never markup. */

import { foldLabel } from '../layout/items';
import { verdictsOf } from '../model/verdicts';
import { element } from '../ui/dom';
import { formatNumber, formatPercent } from '../ui/numbers';
import {
  badText,
  changeText,
  comparedLines,
  costLines,
  nonFiniteText,
  passedText,
  verdictLines
} from '../ui/words';
import { CHANGED, largestChanges } from './looks';
import { Scene } from './scene';
import { IRect, ISize } from './viewport';

/** Milliseconds that the pointer rests before the note appears. */
const REST = 350;

export class Tooltip {
  readonly node = element('div', {
    class: 'workbench-Canvas-tooltip',
    role: 'tooltip',
    attributes: { hidden: '' }
  });

  /** Say what an item is, once the pointer has rested on it. */
  show(scene: Scene, item: number, place: () => IPlace): void {
    this.hide();
    this._timer = window.setTimeout(() => {
      const lines = describeItem(scene, item);
      this.node.replaceChildren(...lines.map(text => element('div', { text })));
      this._put(place());
    }, REST);
  }

  hide(): void {
    window.clearTimeout(this._timer);
    this.node.hidden = true;
  }

  private _put({ card, cards, page }: IPlace): void {
    this.node.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const { x, y } = placeNote(card, cards, { width, height }, page);
    this.node.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  }

  private _timer = 0;
}

/** The card that a note is about, all that are in sight, and the page. */
interface IPlace {
  card: IRect;
  cards: readonly IRect[];
  page: ISize;
}

/** The air between a note and its card, and between it and the edge of the page. */
const GAP = 8;
const EDGE = 4;

/**
 * Where a note beside its card covers no other, or the least of them: below the card,
 * above, to its right or left; the first of the best.
 */
export function placeNote(
  card: IRect,
  cards: readonly IRect[],
  note: ISize,
  page: ISize
): { x: number; y: number } {
  const below = card.y + card.height + GAP;
  const above = card.y - note.height - GAP;
  const right = card.x + card.width + GAP;
  const left = card.x - note.width - GAP;
  const [endX, endY] = [page.width - note.width - EDGE, page.height - note.height - EDGE];
  const places = [
    [card.x, below],
    [card.x, above],
    [right, card.y],
    [left, card.y]
  ].map(([x, y]) => ({
    x: Math.max(EDGE, Math.min(x, endX)),
    y: Math.max(EDGE, Math.min(y, endY))
  }));
  const covered = places.map(place =>
    cards.reduce((sum, other) => sum + overlap({ ...place, ...note }, other), 0)
  );
  return places[covered.indexOf(Math.min(...covered))];
}

function overlap(a: IRect, b: IRect): number {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  return Math.max(0, width) * Math.max(0, height);
}

/** The lines of the note about an item, the first one its heading. */
export function describeItem(scene: Scene, item: number): string[] {
  const { graph, items } = scene;
  const node = items.node[item];
  const scope = items.scope[item];
  const lines: string[] = [];
  if (scope !== null) {
    const label = foldLabel(graph, items, item);
    lines.push(scope.endsWith(label) ? scope : `${scope}, ${label}`);
    lines.push(`${items.size[item]} nodes, folded`);
  } else {
    const maker = graph.op(node) === '' ? '' : graph.maker(node);
    const label = graph.label(node);
    lines.push(maker === '' || maker === label ? label : `${label} · ${maker}`);
    if (graph.isWrt(node)) {
      lines.push('differentiated with respect to it');
    }
  }
  const type = [graph.shape(node), graph.dtype(node)].filter(part => part !== '');
  if (type.length > 0) {
    lines.push(type.join(' · '));
  }
  if (graph.place(node) !== '' && scope === null) {
    lines.push(`${graph.place(node)}  ${graph.source(node).trim()}`);
  }
  if (graph.compared !== null) {
    lines.push(...comparedLines(graph, node));
  } else if (graph.hasGradient(node)) {
    lines.push(
      graph.badGradients(node) > 0
        ? `gradient: ${badText(graph.gradientStatistics(node))}`
        : `gradient ‖·‖ ${formatNumber(graph.gradNorm(node))}`
    );
  } else if (graph.rewritten === null) {
    lines.push('no gradient');
  }
  const change = changeText(graph, node);
  if (change !== '') {
    lines.push(change);
  }
  const changed = scope === null ? graph.change(node) : largestChanges(graph, items)[item];
  if (changed > CHANGED) {
    const by = scope === null ? 'changed by' : 'a gradient in it changed by';
    lines.push(`${by} ${formatPercent(changed)}`);
  }
  if (scope === null) {
    lines.push(...costLines(graph, node));
  }
  const override = graph.override(node);
  if (override !== null) {
    const within = graph.isCovered(node) && scope === null;
    lines.push(`${within ? 'within the override' : 'override'}: ${override.label}`);
  }
  const nonFinite = nonFiniteText(graph, node);
  if (nonFinite !== '') {
    lines.push(nonFinite);
  }
  const passed = passedText(graph, node);
  if (passed !== '') {
    lines.push(passed);
  }
  const verdict = verdictsOf(graph, items.itemOf).get(item);
  if (verdict !== undefined) {
    lines.push(...verdictLines(verdict));
  }
  const { error } = graph.header;
  if (error !== null && error.node !== null && items.itemOf[error.node] === item) {
    lines.push(error.message);
  }
  return lines;
}
