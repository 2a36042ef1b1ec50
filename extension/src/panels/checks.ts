/** Whether the gradients are right: checked against differences, on request. */

import { Widget } from '@lumino/widgets';

import type { PlotAnswer } from '../connection';
import { button, element } from './dom';
import type { IHost, Reason } from './host';

export class Checks extends Widget {
  constructor(
    private readonly _host: IHost,
    private readonly _results: () => readonly PlotAnswer[],
    private readonly _showResult: () => void
  ) {
    super();
    this.addClass('workbench-Checks');
    this._run = button('primary', 'Check gradients', () => {
      _host.plot('check', null, []);
    });
    this.node.append(
      element('p', {
        class: 'workbench-Hint',
        text:
          'Compares each gradient with differences of the value, entry by entry. ' +
          'An override makes them differ on purpose.'
      }),
      this._run,
      this._list
    );
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view' || reason === 'selection') {
      return;
    }
    this._run.disabled =
      this._host.connection === null || this._host.state.graph === null;
    this._run.title =
      this._host.connection === null ? 'A saved picture: run the cell first' : '';
    this._list.replaceChildren(
      ...this._results().map(({ title, note }) =>
        element('section', { class: 'workbench-Override' }, [
          element('div', { text: title }),
          element('div', { class: 'workbench-Quiet', text: note }),
          element('div', { class: 'workbench-Links' }, [
            button('link', 'Show in drawer', () => {
              this._showResult();
            })
          ])
        ])
      )
    );
  }

  private readonly _run: HTMLButtonElement;
  private readonly _list = element('div');
}
