/** The doctor: what is wrong or may be, most important first, and what mends it. */

import { Widget } from '@lumino/widgets';

import { Keyed, element, icon } from '../../ui/dom';
import { formatPlural } from '../../ui/numbers';
import type { IFindings } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { findingCard } from './finding';
import { JobControl } from './progress';

const HINT =
  'Runs both passes and names the node to blame: for a NaN or an infinity, for a ' +
  'gradient that vanishes, explodes or is lost, for units that are dead or saturated.';

export class Doctor extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('section', { attributes: { 'aria-label': 'Doctor' } }) });
    this.addClass('workbench-Doctor');
    this._job = new JobControl(_host, 'diagnose', {
      start: 'Diagnose',
      again: 'Diagnose again',
      running: 'Looking at both passes …',
      unit: 'nodes'
    });
    this.node.append(
      element('h4', { text: 'Doctor' }),
      this._job.node,
      this._status,
      this._list.node
    );
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph, selected } = this._host.state;
    const findings = graph?.header.findings ?? null;
    this.refreshJob();
    const words = statusOf(findings);
    if (this._status.textContent !== words.text) {
      this._status.replaceChildren(
        ...(words.healthy ? [icon('right')] : []),
        element('span', { text: words.text })
      );
    }
    this._status.classList.toggle('workbench-mod-right', words.healthy);
    const live = this._host.connection !== null;
    // Which finding is of the selected node: the others need not be drawn again.
    const here = findings?.list.some(({ node }) => node === selected) ? selected : null;
    this._list.fill([findings, here, live, this._host.canReveal], () =>
      graph === null || findings === null
        ? []
        : findings.list.map((finding, position) =>
            element('li', {}, [
              findingCard(this._host, graph, finding, {
                position,
                live,
                stale: findings.stale
              })
            ])
          )
    );
  }

  refreshJob(): void {
    const found = this._host.state.graph?.header.findings ?? null;
    this._job.refresh(found !== null, found?.stale !== true && found?.stopped !== true);
  }

  private readonly _job: JobControl;
  private readonly _status = element('p', {
    class: 'workbench-Hint',
    role: 'status'
  });
  private readonly _list = new Keyed(
    element('ol', { class: 'workbench-Findings', attributes: { role: 'list' } })
  );
}

function statusOf(findings: IFindings | null): { text: string; healthy: boolean } {
  if (findings === null) {
    return { text: HINT, healthy: false };
  }
  const { list, stale, stopped } = findings;
  const what = [
    list.length > 0
      ? `${formatPlural(list.length, 'finding')}, most important first.`
      : stopped
        ? 'Nothing found as far as it went.'
        : 'Nothing found: both passes are healthy.'
  ];
  if (stopped && list.length > 0) {
    what.push('Stopped before it was done.');
  }
  if (stale) {
    what.push('From before the last change: diagnose again.');
  }
  return { text: what.join(' '), healthy: list.length === 0 && !stale && !stopped };
}
