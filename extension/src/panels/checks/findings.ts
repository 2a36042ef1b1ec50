/** What the doctor found: each with what would mend it, and those of one node. */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { verdictOf } from '../../model/verdicts';
import { Keyed, button, element, icon } from '../../ui/dom';
import { ratioText } from '../../ui/words';
import type { IFinding } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { copyLink, nodeLink, sourceLine } from '../links';

const SEVERITIES = { error: 'Error', warning: 'Warning', note: 'Note' } as const;

/** A sign with the word for it: the colour alone says nothing. */
export function severity(finding: IFinding): HTMLElement {
  return element(
    'span',
    { class: `workbench-Severity workbench-mod-${finding.severity}` },
    [icon(finding.severity), SEVERITIES[finding.severity]]
  );
}

export interface IFindingOptions {
  /** Its position in the list, by which its fix is attached. */
  position: number;
  /** Whether a fix can be attached now. */
  live: boolean;
  stale: boolean;
  /** Whether it stands beside its node, so that the node need not be named. */
  atNode?: boolean;
}

export function findingCard(
  host: IHost,
  graph: Graph,
  finding: IFinding,
  options: IFindingOptions
): HTMLElement {
  const { node, path, sweep, title, evidence, cause, fix } = finding;
  const here = !options.atNode && host.state.selected === node;
  const line = options.atNode ? null : sourceLine(host, graph, node);
  return element(
    'section',
    {
      class: `workbench-Finding workbench-mod-${finding.severity} ${
        here ? 'workbench-mod-here' : ''
      }`.trim(),
      attributes: { 'aria-label': `${SEVERITIES[finding.severity]}: ${title}` }
    },
    [
      element('div', { class: 'workbench-Row' }, [
        severity(finding),
        ...(options.atNode ? [] : [nodeLink(host, graph, node, path)]),
        element('span', { class: 'workbench-Quiet', text: `${sweep} pass` })
      ]),
      element('div', { class: 'workbench-FindingTitle', text: title }),
      ...paragraph(evidence, 'workbench-Evidence'),
      ...paragraph(cause, 'workbench-Quiet'),
      ...(line === null ? [] : [line]),
      ...(fix === null ? [] : [fixOf(host, fix, options)])
    ]
  );
}

function fixOf(
  host: IHost,
  fix: NonNullable<IFinding['fix']>,
  { position, live, stale }: IFindingOptions
): HTMLElement {
  const attach = button('primary', 'Attach fix', () => {
    attach.disabled = true;
    host.asking.fix(position);
  });
  attach.disabled = stale || !live;
  attach.title = stale
    ? 'Of the session before its last change: diagnose again first'
    : fix.text;
  return element('div', { class: 'workbench-Fix' }, [
    element('div', {
      text: fix.attachable ? `Fix: ${fix.text}` : `To do: ${fix.text}`
    }),
    ...(fix.code === '' ? [] : [element('code', { text: fix.code })]),
    element('div', { class: 'workbench-Row' }, [
      ...(fix.attachable && live ? [attach] : []),
      ...(fix.code === '' ? [] : [copyLink(host, fix.code, 'Copy code')])
    ])
  ]);
}

function paragraph(text: string, look: string): HTMLElement[] {
  return text === '' ? [] : [element('p', { class: look, text })];
}

// What checks and the doctor say of the selected node.

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
