/** The note beside the card under the pointer. Text only, never markup. */

import { foldLabel } from '../layout/items';
import { verdictsOf } from '../model/verdicts';
import { element } from '../ui/dom';
import { formatNumber, formatPercent } from '../ui/numbers';
import {
  changeText,
  costLines,
  nonFiniteText,
  passedText,
  verdictLines
} from '../ui/words';
import { CHANGED } from './looks';
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
  show(scene: Scene, item: number, place: () => { card: IRect; page: ISize }): void {
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

  private _put({ card, page }: { card: IRect; page: ISize }): void {
    this.node.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const below = card.y + card.height + 8;
    const x = Math.max(4, Math.min(card.x, page.width - width - 4));
    const y = below + height < page.height ? below : card.y - height - 8;
    this.node.style.transform = `translate(${Math.round(x)}px, ${Math.round(Math.max(4, y))}px)`;
  }

  private _timer = 0;
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
  if (graph.hasGradient(node)) {
    const bad = graph.badGradients(node);
    lines.push(
      bad > 0
        ? `gradient: ${bad} entries NaN or infinite`
        : `gradient ‖·‖ ${formatNumber(graph.gradNorm(node))}`
    );
  } else if (graph.rewritten === null) {
    lines.push('no gradient');
  }
  const change = changeText(graph, node);
  if (change !== '') {
    lines.push(change);
  }
  if (graph.change(node) > CHANGED) {
    lines.push(`changed by ${formatPercent(graph.change(node))}`);
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
