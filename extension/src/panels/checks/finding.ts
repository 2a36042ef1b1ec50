/** One thing that the doctor found, with what would mend it. */

import type { Graph } from '../../model/graph';
import { button, element, icon } from '../../ui/dom';
import type { IFinding } from '../../wire/protocol';
import type { IHost } from '../host';
import { copyLink } from '../links';
import { nodeLink, sourceLine } from '../places';

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
