/** What checks and the doctor say of the selected node. */

import { Widget } from '@lumino/widgets';

import { verdictOf } from '../../model/verdicts';
import { Keyed, element, icon } from '../../ui/dom';
import { ratioText } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { findingCard } from './finding';

const STATUS = {
  right: 'The rule agrees with differences',
  wrong: 'The rule is wrong',
  kink: 'At a kink: there is no derivative',
  unsure: 'Differences cannot tell',
  overridden: 'The rule is changed on purpose'
} as const;

export class NodeVerdict extends Widget {
  constructor(private readonly _host: IHost) {
    super();
    this.addClass('workbench-NodeVerdict');
    this.node.append(this._body.node);
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph, selected } = this._host.state;
    const status =
      graph === null || selected === null ? 'unchecked' : graph.check(selected);
    const findings =
      graph === null || selected === null ? [] : graph.findings(selected);
    const live = this._host.connection !== null;
    const verdict =
      graph === null || selected === null ? null : verdictOf(graph, selected);
    this.setHidden(status === 'unchecked' && findings.length === 0);
    if (graph === null || selected === null) {
      return;
    }
    const stale = graph.header.check?.stale ?? false;
    const ratio = graph.checkRatio(selected);
    this._body.fill([selected, status, ratio, stale, verdict, live], () => {
      const list = graph.header.findings?.list ?? [];
      const row = graph.header.check?.nodes.find(({ node }) => node === selected);
      return [
        ...(status === 'unchecked'
          ? []
          : [
              element('div', { class: `workbench-CheckLine workbench-mod-${status}` }, [
                icon(ICONS[status]),
                element('span', {
                  text:
                    STATUS[status] +
                    (status === 'wrong' ? `, ${ratioText(ratio)}` : '') +
                    (stale ? ' (before the last change)' : '')
                })
              ])
            ]),
        ...(row === undefined || row.text === ''
          ? []
          : [element('p', { class: 'workbench-Quiet', text: row.text })]),
        ...findings.map(finding =>
          findingCard(this._host, graph, finding, {
            position: list.indexOf(finding),
            live,
            stale: graph.header.findings?.stale ?? false,
            atNode: true
          })
        )
      ];
    });
  }

  private readonly _body = new Keyed(element('div'));
}

const ICONS = {
  right: 'right',
  wrong: 'error',
  kink: 'note',
  unsure: 'note',
  overridden: 'changed'
} as const;
