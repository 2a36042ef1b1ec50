/** Whether the gradients are right: what the doctor finds, and the gradient check. */

import { Children, type JSX, type ReactNode, useLayoutEffect, useRef } from 'react';

import type { Graph } from '../../model/graph';
import { Button, Icon, classes } from '../../ui/controls';
import {
  formatCount,
  formatNumber,
  formatPlural,
  formatSeconds
} from '../../ui/numbers';
import { checkSentences, ratioText } from '../../ui/words';
import type {
  ICheck,
  IFindings,
  INodeCheck,
  Outcome,
  Status
} from '../../wire/protocol';
import type { JobKind } from '../../wire/requests';
import type { IHost } from '../host';
import { NodeLink } from '../links';
import { Part } from '../part';
import { LastEdit } from './edit';
import { FindingCard } from './findings';

export class Checks extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Checks');
  }

  protected render(): ReactNode {
    return (
      <>
        {drawDoctor(this.host)}
        {drawGradientCheck(this.host)}
      </>
    );
  }
}

/** What a part says of its result, with a sign where that is good or on purpose. */
function drawSentence(text: string, verdict: 'right' | 'changed' | null): JSX.Element {
  const look = verdict !== null && `workbench-mod-${verdict}`;
  return (
    <p className={classes('workbench-Hint', look)} role="status">
      {verdict !== null && <Icon name={verdict} />}
      <span>{text}</span>
    </p>
  );
}

// The doctor: what is wrong or may be, most important first, and what mends it.

const DOCTOR_HINT =
  'Runs both passes and names the node to blame: for a NaN or an infinity, for a ' +
  'gradient that vanishes, explodes or is lost, for units that are dead or saturated.';

function drawDoctor(host: IHost): JSX.Element {
  const { graph } = host.state;
  const findings = graph?.header.findings ?? null;
  const whole =
    findings !== null &&
    !findings.stale &&
    !findings.stopped &&
    findings.unchecked.length === 0;
  // The doctor believes no rule that the last check has found wrong.
  const wrong = graph?.header.check?.counts.wrong ?? 0;
  return (
    <section className="workbench-Doctor" aria-label="Doctor">
      <h4>Doctor</h4>
      <JobControl
        host={host}
        kind="diagnose"
        start={findings === null ? 'Diagnose' : 'Diagnose again'}
        running="Looking at both passes …"
        whole={whole}
      />
      {drawSentence(
        findings === null ? DOCTOR_HINT : foundText(findings, wrong),
        whole && findings.list.length === 0 && wrong === 0 ? 'right' : null
      )}
      {findings?.step !== undefined && drawExamined(host, findings.step)}
      <LastEdit host={host} />
      <ol className="workbench-Findings" role="list">
        {graph !== null &&
          findings?.list.map((finding, i) => (
            <li key={i}>
              <FindingCard host={host} graph={graph} finding={finding} />
            </li>
          ))}
      </ol>
    </section>
  );
}

/** The step that the doctor has looked at, where that is not the one shown. */
function drawExamined({ recording }: IHost, step: number): JSX.Element | false {
  const at = recording.shown ?? recording.count;
  return (
    at !== step && (
      <p className="workbench-Examined">
        {`Of step ${formatCount(step)}, where it began, with the overrides of now. `}
        <Button look="link" disabled={!recording.canGo} onClick={() => recording.goTo(step)}>
          Go there
        </Button>
      </p>
    )
  );
}

function foundText(
  { list, stale, stopped, unchecked }: IFindings,
  wrong: number
): string {
  return [
    list.length > 0
      ? `${formatPlural(list.length, 'finding')}, most important first.`
      : stopped
        ? 'Nothing found before it was stopped.'
        : unchecked.length > 0
          ? 'Nothing found so far.'
          : wrong > 0
            ? 'Both passes are finite and of a usual size.'
            : 'Nothing found: both passes are healthy.',
    ...(wrong > 0
      ? [`The gradient check below has found ${formatPlural(wrong, 'wrong rule')}.`]
      : []),
    ...(stopped && list.length > 0 ? ['Stopped before it was done.'] : []),
    ...unchecked.map(toSentence),
    ...(stale ? ['From before the last change: diagnose again.'] : [])
  ].join(' ');
}

/** What was not looked at, as the kernel says it, as a sentence. */
function toSentence(text: string): string {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

// The gradient check: each node's rule against differences, and the whole program.

const CHECK_HINT =
  'Compares the rule of each node with differences at the values that it had, and ' +
  'each gradient of the whole program: so the wrong rule is found, not what it spoils.';

/** The statuses that have lines, in the order in which they are shown. */
const SHOWN: readonly { status: Status; one: string; many: string }[] = [
  { status: 'wrong', one: 'wrong rule', many: 'wrong rules' },
  { status: 'unsure', one: 'unsure', many: 'unsure' },
  { status: 'kink', one: 'kink', many: 'kinks' },
  {
    status: 'overridden',
    one: 'rule changed on purpose',
    many: 'rules changed on purpose'
  }
];

const MODES = new Map([['rev', 'reverse mode'], ['fwd', 'forward mode']]);

function drawGradientCheck(host: IHost): JSX.Element {
  const { graph } = host.state;
  const check = graph?.header.check ?? null;
  const whole =
    check !== null && !check.stale && !check.stopped && check.unchecked.length === 0;
  const verdict = whole && check.ok && check.verdict !== 'wrong' ? check.verdict : null;
  return (
    <section className="workbench-GradientCheck" aria-label="Gradient check">
      <h4>Gradient check</h4>
      <JobControl
        host={host}
        kind="check"
        start={check === null ? 'Check gradients' : 'Check again'}
        running="Checking …"
        whole={whole}
      />
      {drawSentence(check === null ? CHECK_HINT : checkText(check), verdict)}
      <div className="workbench-CheckResult">
        {graph !== null && check !== null && drawResult(host, graph, check)}
      </div>
    </section>
  );
}

function drawResult(host: IHost, graph: Graph, check: ICheck): JSX.Element {
  return (
    <>
      {drawCounts(check)}
      {SHOWN.map(({ status, one, many }) => {
        const rows = check.nodes.filter(node => node.status === status);
        const count = check.counts[status];
        const title = `${formatCount(count)} ${count === 1 ? one : many}`;
        const more = `and ${formatCount(count - rows.length)} more`;
        return drawSection(status, title, [
          ...rows.map(row => drawRow(host, graph, row)),
          ...(rows.length > 0 && count > rows.length ? [drawLine(more)] : [])
        ]);
      })}
      {drawSection(
        'whole',
        `Whole program: ${gradientsText(check)}`,
        check.gradients.map(({ verdict, text }) => (
          <li className={`workbench-Gradient workbench-mod-${verdict}`}>
            <Icon name={verdict === 'wrong' ? 'error' : verdict} />
            <span>{text}</span>
          </li>
        ))
      )}
      {/* The report as Python prints it, but for what stands in the rows already. */}
      {drawSection('words', 'In words', checkSentences(check).map(drawLine))}
      {host.canPlot && host.connection !== null && (
        <div className="workbench-Links">
          <Button
            look="link"
            title="The error of each entry of each gradient"
            onClick={() => host.plot('check', null, [])}
          >
            Plot the errors
          </Button>
        </div>
      )}
    </>
  );
}

/** Lines under a title, if there are any; the reader opens and closes them. */
function drawSection(
  key: string,
  title: string,
  lines: readonly JSX.Element[]
): JSX.Element | false {
  return (
    lines.length > 0 && (
      <details key={key} open={key === 'wrong'}>
        <summary>{title}</summary>
        <ul role="list">{Children.toArray(lines)}</ul>
      </details>
    )
  );
}

function drawLine(text: string): JSX.Element {
  return <li className="workbench-Quiet">{text}</li>;
}

function drawRow(host: IHost, graph: Graph, row: INodeCheck): JSX.Element {
  const { node, status, mode, place, expected, got, ratio, text } = row;
  const entry = [place, MODES.get(mode) ?? mode].filter(Boolean).join(' · ');
  return (
    <li
      className={classes(
        'workbench-NodeCheck',
        `workbench-mod-${status}`,
        host.state.selected === node && 'workbench-mod-here'
      )}
    >
      <div className="workbench-Row">
        <NodeLink host={host} graph={graph} node={node} />
        <span className="workbench-Quiet">{graph.place(node)}</span>
        {host.canPlot && host.connection !== null && graph.kind(node) === 'op' && (
          <Button
            look="link"
            title="The error of the differences against their step"
            onClick={() => host.plot('steps', node, [])}
          >
            V-curve
          </Button>
        )}
      </div>
      {(expected !== null || got !== null) && (
        <dl className="workbench-Facts">
          {entry !== '' && drawFact('entry', entry)}
          {drawFact('expected', numberText(expected))}
          {drawFact('got', numberText(got))}
          {status === 'wrong' && drawFact('error', errorOf(expected, got, ratio))}
        </dl>
      )}
      {text !== '' && <p className="workbench-Quiet">{text}</p>}
    </li>
  );
}

function drawFact(name: string, value: string): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

function numberText(value: number | null): string {
  return value === null ? 'not finite' : formatNumber(value, 8);
}

function gradientsText({ gradients }: ICheck): string {
  const count = (of: Outcome): number =>
    gradients.filter(({ verdict }) => verdict === of).length;
  const [bad, changed] = [count('wrong'), count('changed')];
  const said = [
    ...(bad > 0 ? [`${bad} of ${gradients.length} wrong`] : []),
    ...(changed > 0 ? [`${changed} of ${gradients.length} changed on purpose`] : [])
  ];
  return said.join(', ') || 'all gradients right';
}

/** What came of a check, in short; the kernel's own words stand below. */
function checkText(check: ICheck): string {
  const { ok, changes, counts, gradients, stopped, stale, unchecked } = check;
  return [
    counts.wrong > 0
      ? `${formatPlural(counts.wrong, 'rule')} of a node ${
          counts.wrong === 1 ? 'is' : 'are'
        } wrong.`
      : ok && stopped
        ? 'Nothing is wrong so far.'
        : ok && changes !== ''
          ? 'Nothing is wrong.'
          : ok
            ? 'All rules and gradients agree with differences.'
            : gradients.some(one => !one.ok)
              ? 'Each rule agrees with differences, but a gradient of the whole does not.'
              : 'Something is wrong: see “In words” below.',
    ...(changes === '' ? [] : [toSentence(changes)]),
    ...(stopped ? ['Stopped before it was done.'] : []),
    ...unchecked.map(toSentence),
    ...(stale ? ['From before the last change: check again.'] : [])
  ].join(' ');
}

/** "12 right · 1 wrong · 2 kinks" */
function drawCounts({ counts }: ICheck): JSX.Element {
  const words: [Status, string][] = [
    ['right', 'right'],
    ['wrong', 'wrong'],
    ['unsure', 'unsure'],
    ['kink', counts.kink === 1 ? 'kink' : 'kinks'],
    ['overridden', 'changed on purpose'],
    ['unchecked', 'unchecked']
  ];
  return (
    <ul className="workbench-Counts" aria-label="Rules of the nodes">
      {words
        .filter(([status]) => counts[status] > 0 || status === 'right')
        .map(([status, word]) => (
          <li key={status} className={`workbench-mod-${status}`}>
            {`${formatCount(counts[status])} ${word}`}
          </li>
        ))}
    </ul>
  );
}

// A long request: its button, and while it runs how far it is, with a way to stop.

function JobControl({
  host: { alone, asking, connection, state },
  kind,
  start,
  running,
  whole
}: {
  host: IHost;
  kind: Exclude<JobKind, 'run-again'>;
  /** "Check gradients" */
  start: string;
  /** "Checking …" */
  running: string;
  /** Whether there is a result, and another run would find nothing else. */
  whole: boolean;
}): JSX.Element {
  const begin = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const job = connection?.job ?? null;
  const mine = job?.kind === kind ? job : null;
  const progress = mine?.progress && mine.progress.total > 0 ? mine.progress : null;
  useLayoutEffect(() => {
    // The button that has the keyboard goes, and the other comes in its place.
    const [gone, come] = mine === null ? [end, begin] : [begin, end];
    if (gone.current?.contains(document.activeElement)) {
      come.current?.querySelector('button')?.focus();
    }
  });
  return (
    <div className="workbench-Job">
      <div ref={begin} hidden={mine !== null}>
        <Button
          // What is done already does not ask to be done again.
          look={whole ? 'outlined' : 'primary'}
          disabled={connection === null || state.graph === null || job !== null}
          title={
            connection === null
              ? `A saved picture: ${alone ? 'nothing can be computed' : 'run the cell first'}`
              : job !== null && mine === null
                ? 'The kernel is at work on something else'
                : ''
          }
          onClick={() => asking.run(kind)}
        >
          {start}
        </Button>
      </div>
      <div ref={end} className="workbench-Progress" hidden={mine === null}>
        <progress aria-label="Progress" max={progress?.total} value={progress?.done} />
        <Button look="outlined" disabled={mine?.stopping} onClick={() => asking.stop()}>
          Stop
        </Button>
      </div>
      <div className="workbench-Quiet" hidden={mine === null}>
        {mine?.stopping ? 'Stopping …' : progress ? progressText(progress) : running}
      </div>
    </div>
  );
}

/** "30 of 120 nodes · about 4 s left" */
function progressText({
  done,
  total,
  left
}: {
  done: number;
  total: number;
  left: number | null;
}): string {
  const count = `${formatCount(done)} of ${formatCount(total)} nodes`;
  return left === null || left < 1
    ? count
    : `${count} · about ${formatSeconds(Math.round(left))} left`;
}

/** "0.25, allowed 2e-4": how far a rule is off, and how far it may be. */
function errorOf(
  expected: number | null,
  got: number | null,
  ratio: number | null
): string {
  const error = expected === null || got === null ? NaN : Math.abs(got - expected);
  return ratio === null || !(error > 0) || !Number.isFinite(ratio)
    ? ratioText(ratio)
    : `${formatNumber(error)}, allowed ${formatNumber(error / ratio, 2)}`;
}
