/** A long request: its button, and while it runs how far it is, with a way to stop. */

import { button, element } from '../../ui/dom';
import { formatCount, formatSeconds } from '../../ui/numbers';
import type { JobKind } from '../../wire/requests';
import type { IHost } from '../host';

export interface IJobWords {
  /** "Check gradients" */
  start: string;
  /** "Check again", once there is a result. */
  again: string;
  /** "Checking …" */
  running: string;
  /** What is counted: "nodes". */
  unit: string;
}

export class JobControl {
  readonly node = element('div', { class: 'workbench-Job' });

  constructor(
    private readonly _host: IHost,
    private readonly _kind: JobKind,
    private readonly _words: IJobWords
  ) {
    this._start = button('primary', _words.start, () => {
      _host.asking.run(_kind);
    });
    this._stop = button('plain', 'Stop', () => {
      _host.asking.stop();
    });
    this._stop.classList.add('workbench-mod-outlined');
    this.node.append(
      this._start,
      element('div', { class: 'workbench-Progress' }, [this._bar, this._stop]),
      this._text
    );
  }

  /** `known` if there is a result; `whole` if another run would find nothing else. */
  refresh(known: boolean, whole: boolean): void {
    const { connection, state } = this._host;
    const job = connection?.job ?? null;
    const mine = job?.kind === this._kind ? job : null;
    this._start.textContent = known ? this._words.again : this._words.start;
    // What is done already does not ask to be done again.
    this._start.classList.toggle('workbench-mod-primary', !(known && whole));
    this._start.classList.toggle('workbench-mod-outlined', known && whole);
    this._start.hidden = mine !== null;
    this._start.disabled = connection === null || state.graph === null || job !== null;
    this._start.title =
      connection === null
        ? 'A saved picture: run the cell first'
        : job !== null && mine === null
          ? 'The kernel is at the other one'
          : '';
    this._bar.parentElement!.hidden = mine === null;
    this._text.hidden = mine === null;
    if (mine !== null) {
      this._stop.disabled = mine.stopping;
      const { progress } = mine;
      if (progress === null || progress.total <= 0) {
        this._bar.removeAttribute('value');
      } else {
        this._bar.max = progress.total;
        this._bar.value = progress.done;
      }
      this._text.textContent = mine.stopping ? 'Stopping …' : this._line(progress);
    }
    // The button that has the keyboard goes, and the other comes in its place.
    const [gone, come] =
      mine === null ? [this._stop, this._start] : [this._start, this._stop];
    if (document.activeElement === gone) {
      come.focus();
    }
  }

  private _line(
    progress: { done: number; total: number; left: number | null } | null
  ): string {
    if (progress === null || progress.total <= 0) {
      return this._words.running;
    }
    const { done, total, left } = progress;
    const count = `${formatCount(done)} of ${formatCount(total)} ${this._words.unit}`;
    return left === null || left < 1
      ? count
      : `${count} · about ${formatSeconds(Math.round(left))} left`;
  }

  private readonly _start: HTMLButtonElement;
  private readonly _stop: HTMLButtonElement;
  private readonly _bar = element('progress', {
    attributes: { 'aria-label': 'Progress' }
  });
  private readonly _text = element('div', { class: 'workbench-Quiet' });
}
