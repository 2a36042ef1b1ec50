/** The one line under the bar: an error of the cell or of the wire, or a note. */

import { Widget } from '@lumino/widgets';

import type { GraphConnection } from '../../model/connection';
import type { Graph } from '../../model/graph';
import { button, element, icon } from '../../ui/dom';

/** What is said of a picture that no kernel answers. */
export const SAVED = 'saved picture · run the cell to make it live';

/** Milliseconds until a note that is no error goes by itself. */
const FADE = 6000;

export class Banner extends Widget {
  constructor() {
    super();
    this.addClass('workbench-Banner');
    const close = button('icon', 'Dismiss', () => {
      this.clear();
    });
    close.append(icon('close'));
    this._close = close;
    this.node.append(this._text, this._close);
    this._write();
  }

  /** What is to be read as long as it is so; a problem before a note. */
  inform(problem: string | null, note: string): void {
    this._problem = problem;
    this._note = note;
    this._write();
  }

  /** What just happened: a note goes by itself, an error when it is dismissed. */
  say(message: string, tone: 'quiet' | 'error'): void {
    clearTimeout(this._timer);
    this._said = { message, tone };
    if (tone === 'quiet') {
      this._timer = setTimeout(() => {
        this.clear();
      }, FADE);
    }
    this._write();
  }

  /** Forget what was said. */
  clear(): void {
    clearTimeout(this._timer);
    this._said = null;
    this._write();
  }

  override dispose(): void {
    clearTimeout(this._timer);
    super.dispose();
  }

  private _write(): void {
    const text = this._said?.message ?? this._problem ?? this._note;
    const bad = this._said ? this._said.tone === 'error' : this._problem !== null;
    this._text.textContent = text;
    this._close.hidden = this._said === null;
    this.setHidden(text === '');
    this.toggleClass('workbench-mod-bad', bad);
    this.node.setAttribute('role', bad ? 'alert' : 'status');
  }

  private readonly _text = element('span');
  private readonly _close: HTMLButtonElement;
  private _problem: string | null = null;
  private _note = '';
  private _said: { message: string; tone: 'quiet' | 'error' } | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** What is to be told of a picture as it is, live or saved; `empty`: there is none. */
export function toldOf(
  graph: Graph | null,
  live: GraphConnection | null,
  saved: string | null
): { problem: string | null; note: string; empty: boolean } {
  // What is wrong with the saved picture does not matter where another is shown.
  const savedProblem = graph === null ? saved : null;
  const problem = live === null ? savedProblem : live.problem;
  const coming = live !== null && graph === null;
  return {
    problem: problem ?? graph?.header.error?.message ?? null,
    note: live === null && graph !== null ? SAVED : '',
    empty: !coming && problem === null && (graph === null || graph.count === 0)
  };
}
