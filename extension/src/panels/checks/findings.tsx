/** What the doctor found: each with what would mend it, and those of one node. */

import { type JSX, type ReactNode, useState } from 'react';

import type { Graph } from '../../model/graph';
import { Button, Icon, classes } from '../../ui/controls';
import { ratioText } from '../../ui/words';
import type { IFinding } from '../../wire/protocol';
import type { IHost } from '../host';
import { CopyLink, NodeLink, SourceLine } from '../links';
import { Part } from '../part';
import { EditOffer } from './edit';

const SEVERITIES = { error: 'Error', warning: 'Warning', note: 'Note' } as const;

interface IFindingProps {
  host: IHost;
  graph: Graph;
  finding: IFinding;
  /** Whether it stands beside its node, so that the node need not be named. */
  atNode?: boolean;
}

export function FindingCard(props: IFindingProps): JSX.Element {
  const { host, graph, finding, atNode = false } = props;
  const { node, path, severity, sweep, title, evidence, cause, fix } = finding;
  return (
    <section
      className={classes(
        'workbench-Finding',
        `workbench-mod-${severity}`,
        !atNode && host.state.selected === node && 'workbench-mod-here'
      )}
      aria-label={`${SEVERITIES[severity]}: ${title}`}
    >
      <div className="workbench-Row">
        {/* A sign with the word for it: the colour alone says nothing. */}
        <span className={`workbench-Severity workbench-mod-${severity}`}>
          <Icon name={severity} />
          {SEVERITIES[severity]}
        </span>
        {!atNode && <NodeLink host={host} graph={graph} node={node} path={path} />}
        <span className="workbench-Quiet">{sweep} pass</span>
      </div>
      <div className="workbench-FindingTitle">{title}</div>
      {evidence !== '' && <p className="workbench-Evidence">{evidence}</p>}
      {cause !== '' && <p className="workbench-Quiet">{cause}</p>}
      {!atNode && <SourceLine host={host} graph={graph} node={node} />}
      {fix !== null && <Fix {...props} />}
    </section>
  );
}

function Fix({ host, graph, finding }: IFindingProps): JSX.Element {
  const fix = finding.fix!;
  const { findings } = graph.header;
  // Once: when it is attached, the finding is of before that change.
  const [asked, setAsked] = useState<IFinding | null>(null);
  const stale = findings?.stale ?? true;
  return (
    <div className="workbench-Fix">
      <div>{fix.attachable ? `Fix: ${fix.text}` : `To do: ${fix.text}`}</div>
      {fix.code !== '' && <code>{fix.code}</code>}
      <div className="workbench-Row">
        {fix.attachable && host.connection !== null && (
          <Button
            look="primary"
            disabled={stale || asked === finding}
            title={
              stale
                ? 'Found before the last change of the session: diagnose again first'
                : fix.text
            }
            onClick={() => {
              setAsked(finding);
              const place = findings?.list.indexOf(finding) ?? -1;
              void host.asking.fix(place).then(() => setAsked(null));
            }}
          >
            Attach fix
          </Button>
        )}
        {fix.edit && <EditOffer host={host} edit={fix.edit} stale={stale} />}
        {fix.code !== '' && <CopyLink host={host} code={fix.code} label="Copy code" />}
      </div>
    </div>
  );
}

// What checks and the doctor say of the selected node.

const STATUS = {
  right: { icon: 'right', words: 'The rule agrees with differences' },
  wrong: { icon: 'error', words: 'The rule is wrong' },
  kink: { icon: 'note', words: 'At a kink: there is no derivative' },
  unsure: { icon: 'note', words: 'Differences cannot tell' },
  overridden: { icon: 'changed', words: 'The rule is changed on purpose' }
} as const;

export class NodeVerdict extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-NodeVerdict');
  }

  protected render(): ReactNode {
    const { graph, selected } = this.host.state;
    const status =
      graph === null || selected === null ? 'unchecked' : graph.check(selected);
    const findings =
      graph === null || selected === null ? [] : graph.findings(selected);
    this.setHidden(status === 'unchecked' && findings.length === 0);
    if (graph === null || selected === null) {
      return null;
    }
    const { check } = graph.header;
    const row = check?.nodes.find(({ node }) => node === selected);
    return (
      <>
        {status !== 'unchecked' && (
          <div className={`workbench-CheckLine workbench-mod-${status}`}>
            <Icon name={STATUS[status].icon} />
            <span>
              {STATUS[status].words}
              {status === 'wrong' && `, ${ratioText(graph.checkRatio(selected))}`}
              {check?.stale && ' (before the last change)'}
            </span>
          </div>
        )}
        {row && row.text !== '' && <p className="workbench-Quiet">{row.text}</p>}
        {findings.map((finding, i) => (
          <FindingCard
            key={i}
            host={this.host}
            graph={graph}
            finding={finding}
            atNode
          />
        ))}
      </>
    );
  }
}
