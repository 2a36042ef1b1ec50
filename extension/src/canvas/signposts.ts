/**
 * The way to what must not be lost: the output and what it is differentiated by, as
 * links at the foot of the picture while they are out of sight.
 */

import { element } from '../ui/dom';
import type { Scene } from './scene';
import { type ISize, type IView, rectOnPage } from './viewport';

/** So many are shown; how many more there are is told. */
const MOST = 4;

/** A card that is out of sight, and where it is. */
export interface ISign {
  item: number;
  label: string;
  arrow: '↑' | '↓' | '←' | '→';
}

export class Signposts {
  readonly node = element('div', {
    class: 'workbench-Canvas-signposts',
    attributes: { hidden: '' }
  });

  /** `goTo` is called with the item that should be brought into sight. */
  constructor(private readonly _goTo: (item: number) => void) {}

  hide(): void {
    this.node.hidden = true;
  }

  show(signs: readonly ISign[]): void {
    this.node.hidden = signs.length === 0;
    const shown = JSON.stringify(signs);
    if (shown === this._shown) {
      return;
    }
    this._shown = shown;
    const links = signs.slice(0, MOST).map(({ item, label, arrow }) => {
      const link = element('button', {
        text: `${arrow} ${label}`,
        attributes: { type: 'button', title: `Go to ${label}` }
      });
      link.addEventListener('click', () => {
        this._goTo(item);
      });
      return link;
    });
    const more = signs.length - links.length;
    const rest = more > 0 ? [element('span', { text: `+${more}` })] : [];
    this.node.replaceChildren(...links, ...rest);
  }

  private _shown = '';
}

/** The output, and the inputs that are differentiated by, as far as out of sight. */
export function signsOf(scene: Scene, view: IView, page: ISize): ISign[] {
  const { graph, items } = scene;
  const { output, wrt } = graph.header;
  const signs: ISign[] = [];
  const seen = new Set<number>();
  for (const node of [...(output < 0 ? [] : [output]), ...wrt]) {
    const item = items.itemOf[node];
    const card = rectOnPage(view, scene.card(item));
    const arrow = wayTo(card.x + card.width / 2, card.y + card.height / 2, page);
    if (arrow !== null && !seen.has(item)) {
      signs.push({ item, label: graph.label(node), arrow });
    }
    seen.add(item);
  }
  return signs;
}

function wayTo(x: number, y: number, { width, height }: ISize): ISign['arrow'] | null {
  if (y < 0 || y > height) {
    return y < 0 ? '↑' : '↓';
  }
  return x < 0 ? '←' : x > width ? '→' : null;
}
