/** The line that stands in a cell while its picture is shown beside the notebook. */

import { Box, element } from '../../ui/dom';

/** The ways to the picture that is shown elsewhere, and back. */
export interface IAway {
  /** Bring the other panel to the front. */
  goThere(): void;
  /** Close the other panel, and show the picture here. */
  comeBack(): void;
}

export class AwayLine extends Box {
  constructor() {
    super('workbench-Away', element('div', { role: 'status' }));
    this.setHidden(true);
    this.append(
      element('p', {}, [this._name, ' is shown beside the notebook.']),
      this._makeLink('Go there', ways => ways.goThere()),
      this._makeLink('Show it here', ways => ways.comeBack())
    );
  }

  /** Show it for a session, or, without ways, not at all. */
  show(session: string, ways: IAway | null): void {
    this._ways = ways;
    this._name.textContent = session;
    this.setHidden(ways === null);
  }

  private _makeLink(text: string, follow: (ways: IAway) => void): HTMLElement {
    const button = element('button', {
      class: 'workbench-Button workbench-mod-link',
      text,
      attributes: { type: 'button' }
    });
    button.addEventListener('click', () => {
      if (this._ways !== null) {
        follow(this._ways);
      }
    });
    return button;
  }

  private readonly _name = element('b');
  private _ways: IAway | null = null;
}
