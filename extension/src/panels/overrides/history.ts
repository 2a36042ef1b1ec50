/** What was changed, step by step: a click on a step goes to the state after it. */

import { Keyed, element } from '../../ui/dom';
import { formatPlural } from '../../ui/numbers';
import type { IHistory } from '../../wire/protocol';
import type { IHost } from '../host';

/** So many steps are shown on each side; beyond them undo goes on. */
const SHOWN = 100;

export class HistoryList {
  readonly node = element('details', { class: 'workbench-History' });

  constructor(private readonly _host: IHost) {
    this.node.append(this._summary, this._steps.node);
  }

  refresh(history: IHistory, live: boolean): void {
    const { done, undone } = history;
    const count = done.length + undone.length;
    this.node.hidden = count === 0;
    this._summary.textContent = `History: ${formatPlural(count, 'change')}`;
    const inside = this._steps.node.contains(document.activeElement);
    const built = this._steps.fill([done, undone, live], () =>
      this._rows(history, live)
    );
    if (built && inside) {
      this._steps.node.querySelector<HTMLElement>('[aria-current]')?.focus();
    }
  }

  private _rows({ done, undone }: IHistory, live: boolean): HTMLElement[] {
    const now = done.length;
    const texts = ['All gradients true', ...done, ...undone];
    const first = Math.max(0, now - SHOWN);
    const last = Math.min(texts.length, now + 1 + SHOWN);
    return texts.slice(first, last).map((text, i) => {
      const at = first + i;
      const current = at === now;
      const step = element('button', {
        class: `workbench-Step ${at > now ? 'workbench-mod-undone' : ''}`.trim(),
        text,
        title: current
          ? 'As it is now'
          : at < now
            ? 'Go back to here'
            : 'Redo up to here',
        attributes: {
          type: 'button',
          ...(current ? { 'aria-current': 'step' } : {})
        },
        onClick: () => {
          if (at < now) {
            this._host.asking.undo(now - at);
          } else if (at > now) {
            this._host.asking.redo(at - now);
          }
        }
      });
      step.disabled = !live;
      return element('li', {}, [step]);
    });
  }

  private readonly _summary = element('summary');
  private readonly _steps = new Keyed(element('ol'));
}
