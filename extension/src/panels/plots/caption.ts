/** The line over a figure: its views, what it shows, and how far the kernel is. */

import { Widget } from '@lumino/widgets';

import { Segments, button, element } from '../../ui/dom';
import { formatCount } from '../../ui/numbers';
import type { IMatrix, PlotKind } from '../../wire/protocol';
import type { IProgress } from '../../wire/requests';
import { sameWindow } from './cells';
import { type Plot, isMap } from './plot';

/** What is asked of the drawer. */
export interface ICaptionOwner {
  /** Show another view of the same nodes. */
  view(kind: PlotKind): void;
  /** Show all of the matrix again. */
  whole(): void;
  /** Ask again: the graph changed. */
  again(): void;
  stop(): void;
  /** Show the way between the nodes in the graph. */
  showWay(matrix: IMatrix): void;
}

/** The names of views, as short as they can be beside each other. */
const VIEWS: Readonly<Record<PlotKind, string>> = {
  jacobian: 'Jacobian',
  hessian: 'Hessian',
  singular: 'singular values',
  spectrum: 'eigenvalues',
  sparsity: 'sparsity',
  check: 'errors',
  steps: 'step sizes'
};

export class Caption extends Widget {
  constructor(private readonly _owner: ICaptionOwner) {
    super();
    this.addClass('workbench-Caption');
    this._views = new Segments<PlotKind>('View', 'segments', kind => {
      this._owner.view(kind);
    });
    this.node.append(
      element('div', { class: 'workbench-CaptionLine' }, [
        this._views.node,
        this._words
      ]),
      this._foot
    );
  }

  /** Say a sentence, and nothing else. */
  say(text: string): void {
    this._showViews(null);
    this._words.replaceChildren(text);
    this._foot.hidden = true;
  }

  /**
   * Say what there is to say of a plot. `live`: it can be asked for again; `stale`:
   * it is older than the graph.
   */
  tell(plot: Plot, live: boolean, stale: boolean): void {
    this._showViews(plot, live);
    const parts: (HTMLElement | null)[] = [
      plot.failure === null
        ? null
        : element('span', { class: 'workbench-mod-bad', text: plot.failure })
    ];
    if (plot.answer !== null) {
      const { note, matrix } = plot.answer;
      parts.push(
        note === '' ? null : element('span', { text: note }),
        ...(matrix === null ? [] : this._matrix(plot, matrix, live))
      );
    }
    // Beside an answer, what is under way stands where it moves nothing.
    const first = plot.answer === null;
    const waiting = plot.waiting ? [this._waiting(plot)] : [];
    this._foot.hidden = first;
    this._working.replaceChildren(...(first ? [] : waiting));
    if (plot.waiting) {
      parts.push(...(first ? waiting : []));
    } else if (stale && live) {
      parts.push(
        button('link', 'Draw again', () => {
          this._owner.again();
        }),
        element('span', { class: 'workbench-Quiet', text: '(the graph changed)' })
      );
    }
    this._words.replaceChildren(...parts.filter(part => part !== null));
  }

  /** Say which entry was chosen; "": none is. */
  tellEntry(text: string, hint: string): void {
    const shown = text || hint;
    this._entry.classList.toggle('workbench-Quiet', text === '');
    if (this._entry.textContent !== shown) {
      this._entry.textContent = shown;
    }
  }

  private _showViews(plot: Plot | null, live = false): void {
    const views = plot !== null && plot.views.length > 1 && live ? plot.views : [];
    this._views.node.hidden = views.length === 0;
    this._views.setChoices(views.map(value => ({ value, label: VIEWS[value] })));
    this._views.choose(plot?.kind ?? null);
  }

  /** What can be done with a heat map, beside what its note says. */
  private _matrix(plot: Plot, matrix: IMatrix, live: boolean): (HTMLElement | null)[] {
    const map = isMap(plot.answered ?? plot.kind);
    const part = map && !sameWindow(matrix, matrix.window, null);
    return [
      part && live
        ? button('link', 'Show all', () => {
            this._owner.whole();
          })
        : null,
      matrix.path.length < 2
        ? null
        : button(
            'link',
            'Way in the graph',
            () => {
              this._owner.showWay(matrix);
            },
            { title: `${formatCount(matrix.path.length)} nodes lie on it` }
          )
    ];
  }

  private _waiting(plot: Plot): HTMLElement {
    const what = plot.answer === null ? 'The kernel is working on it' : 'working';
    return element('span', { class: 'workbench-Working', role: 'status' }, [
      `${what}${progressText(plot.progress)} … `,
      button('link', 'Stop', () => {
        this._owner.stop();
      })
    ]);
  }

  private readonly _views: Segments<PlotKind>;
  private readonly _words = element('span', { class: 'workbench-CaptionWords' });
  private readonly _entry = element('output', {
    class: 'workbench-Entry',
    attributes: { 'aria-live': 'polite' }
  });
  private readonly _working = element('span');
  private readonly _foot = element('div', { class: 'workbench-CaptionLine' }, [
    this._entry,
    this._working
  ]);
}

/** " (30 %, 12 s left)" */
function progressText(progress: IProgress | null): string {
  if (progress === null || !(progress.total > 0)) {
    return '';
  }
  const part = `${Math.floor((100 * progress.done) / progress.total)} %`;
  const left = progress.left === null ? '' : `, ${Math.ceil(progress.left)} s left`;
  return ` (${part}${left})`;
}
