/** Under the picture: the loss of all runs, and a way back to each of them. */

import type { JSX, PointerEvent, ReactNode } from 'react';

import type { Recording } from '../../model/recording';
import { Button } from '../../ui/controls';
import { formatBytes, formatCount, formatNumber, formatPlural } from '../../ui/numbers';
import { NORMS_ONLY } from '../../ui/words';
import type { IBranch, IMark, ITimeline } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { Part } from '../part';
import { Player } from '../player';
import { Lines, placeOf } from './line';

/** Milliseconds between two runs while it plays, and how many it goes through. */
const BEAT = 120;
const STOPS = 100;

export class RunStrip extends Player {
  constructor(host: IHost) {
    super(host, 'workbench-Runs');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Runs of the session');
    this.setHidden(true);
  }

  override refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'selection') {
      return;
    }
    const { recording, state } = this.host;
    this.setHidden(recording.count < 2 || state.stage === 'simplified');
    if (this.isHidden) {
      this.pause();
    } else {
      this.draw();
    }
  }

  protected readonly words = { slider: 'Run', play: 'Play the runs' };

  /** The last run on the axis: branches and what is compared may be longer. */
  private get _end(): number {
    const { count, live, otherLine } = this.host.recording;
    const branches = live?.header.branches ?? [];
    return Math.max(count, otherLine?.count ?? 0, ...branches.map(branch => branch.count));
  }

  /** Runs are counted from 1, the places of the slider from 0. */
  protected get at(): number {
    const { at, count } = this.host.recording;
    return (at ?? count) - 1;
  }

  protected get last(): number {
    return this.host.recording.count - 1;
  }

  protected override get stride(): number {
    return Math.max(1, Math.round(this.last / STOPS));
  }

  protected override get isWaiting(): boolean {
    return this.host.recording.isWaiting;
  }

  protected goTo(place: number): void {
    this.host.recording.goTo(place + 1);
  }

  protected beat(): number {
    return BEAT;
  }

  protected render(): ReactNode {
    const { recording } = this.host;
    const { line, shown, canGo } = recording;
    if (line === null) {
      return null;
    }
    const text = runText(recording);
    const branches = recording.live?.header.branches ?? [];
    const newest = branches.at(-1);
    const { otherLine: other } = recording;
    const end = this._end;
    // All losses stand on one scale.
    const losses = [
      ...line.losses,
      ...branches.flatMap(branch => branch.losses),
      ...(other?.losses ?? [])
    ];
    return (
      <>
        {this.renderControls(!canGo, text)}
        <div
          className="workbench-RunsChart"
          title={
            !canGo
              ? 'Run the cell to go back to a run'
              : recording.against === null
                ? undefined
                : 'Shift and a click choose the run that is compared with'
          }
          onPointerDown={event => this._point(event, true)}
          onPointerMove={event => this._point(event, event.buttons === 1)}
        >
          <Lines
            lines={[
              { look: 'gradient', steps: line.steps, numbers: line.gradients },
              {
                look: 'loss',
                steps: line.steps,
                numbers: line.losses,
                beside: losses
              },
              ...branches.map((branch, k) => ({
                look: k === branches.length - 1 ? 'branch' : 'branch-old',
                steps: branch.steps,
                numbers: branch.losses,
                beside: losses,
                title: branchText(branch)
              })),
              ...(other === null
                ? []
                : [
                    {
                      look: 'other',
                      steps: other.steps,
                      numbers: other.losses,
                      beside: losses,
                      title: recording.sides.before
                    }
                  ])
            ]}
            last={end}
            at={shown}
            label={sentenceOf(line)}
          />
          {recording.against !== null && <Letters recording={recording} last={end} />}
          {line.marks.map(mark => (
            <MarkButton
              key={`${mark.step} ${mark.kind}`}
              mark={mark}
              last={end}
              onClick={() => {
                this.pause();
                recording.goTo(mark.step);
                if (mark.node !== null) {
                  this.host.state.selectAlone(mark.node);
                  this.host.find(mark.node);
                }
              }}
            />
          ))}
        </div>
        <span className="workbench-StepText" role="status">
          {recording.problem ?? text}
          {shown !== null && !recording.isWhole && (
            <span className="workbench-RunNote" title={NORMS_ONLY}>
              {' · norms only'}
            </span>
          )}
          {shown === null && newest === undefined && line.kept > 1 && (
            <span
              className="workbench-Quiet"
              title="Steps that can be shown whole again, and the memory of their inputs"
            >
              {` · ${formatCount(line.kept)} kept, ${formatBytes(line.kept_bytes)}`}
            </span>
          )}
          {shown === null && newest !== undefined && (
            <span className="workbench-RunNote" title={branches.map(branchText).join('\n')}>
              {` · ${newest.name}: ${outcomeText(newest)}`}
            </span>
          )}
          {recording.note !== null && (
            <span
              className="workbench-RunNote"
              title={`This run had: ${recording.note}`}
            >
              {` · with ${recording.note}`}
            </span>
          )}
        </span>
        <Button
          look="outlined"
          className="workbench-CompareStart"
          aria-pressed={recording.against !== null}
          disabled={recording.proposed === null}
          title="Compare two runs, with and without overrides, or two sessions"
          onClick={() => {
            this.pause();
            if (recording.against === null) {
              recording.startComparison();
            } else {
              recording.compareWith(null);
            }
          }}
        >
          Compare
        </Button>
        <RunAgain host={this.host} />
        <Button
          look="outlined"
          className="workbench-Live"
          disabled={recording.at === null}
          title="Show the present again"
          onClick={() => {
            this.pause();
            recording.goTo(null);
          }}
        >
          Live
        </Button>
      </>
    );
  }

  /** Go to the run at the pointer. */
  private _point(event: PointerEvent<HTMLElement>, pressed: boolean): void {
    if (!pressed || !this.host.recording.canGo) {
      return;
    }
    const chart = event.currentTarget;
    const { left, width } = chart.getBoundingClientRect();
    if (event.target instanceof Element && event.target.closest('button') !== null) {
      return; // a mark goes to its own run
    }
    chart.setPointerCapture(event.pointerId);
    this.pause();
    const place = Math.round(((event.clientX - left) / width) * (this._end - 1));
    const { recording } = this.host;
    if (event.shiftKey && recording.against !== null) {
      const step = Math.min(Math.max(place, 0), this.last) + 1;
      recording.compareWith({ kind: 'run', step });
    } else {
      this.goTo(Math.min(place, this.last));
    }
  }
}

/** Run the program again from the step that is shown; while it runs, how far it is. */
function RunAgain({ host }: { host: IHost }): JSX.Element {
  const { asking, connection, recording } = host;
  const job = connection?.job ?? null;
  if (job?.kind === 'run-again') {
    const { progress, stopping } = job;
    const far = progress === null ? '' : ` ${progress.done} of ${progress.total}`;
    return (
      <Button
        look="outlined"
        className="workbench-RunAgain"
        disabled={stopping}
        title="Stop the branch; what has been run stays"
        onClick={() => asking.stop()}
      >
        {`Stop${far}`}
      </Button>
    );
  }
  const { shown } = recording;
  return (
    <Button
      look="outlined"
      className="workbench-RunAgain"
      disabled={connection === null || job !== null || shown === null}
      title="Run again from the step that is shown, with the overrides of now: a second curve"
      onClick={() => {
        if (shown !== null) {
          recording.goTo(null);
          asking.runAgain(shown);
        }
      }}
    >
      Run again
    </Button>
  );
}

/** "branch from run 2 to 120, with clip ±0.1 on every tanh: loss 0.12". */
function branchText(branch: IBranch): string {
  const { name, count, text } = branch;
  const rules = text === '' ? '' : `, with ${text}`;
  const end = branch.losses.length === 0 ? '' : ` to ${formatCount(count)}`;
  return `${name}${end}${rules}: ${outcomeText(branch)}`;
}

/** The last loss of a branch; one that was stopped at once has none. */
function outcomeText({ losses }: IBranch): string {
  const loss = losses.at(-1);
  return loss === undefined
    ? 'no run yet'
    : `loss ${loss === null ? 'not finite' : formatNumber(loss)}`;
}

/** Where the two sides of a comparison stand among the runs. */
function Letters({
  recording,
  last
}: {
  recording: Recording;
  last: number;
}): JSX.Element {
  const { against, base, shown, count } = recording;
  const places: [string, number | null][] = [
    ['A', against?.kind === 'now' ? count : base],
    ['B', shown ?? count]
  ];
  return (
    <>
      {places.map(
        ([letter, step]) =>
          step !== null && (
            <span
              key={letter}
              className="workbench-RunLetter"
              aria-hidden="true"
              style={{ left: `${(100 * placeOf(step, last)).toFixed(2)}%` }}
            >
              {letter}
            </span>
          )
      )}
    </>
  );
}

/** In a corner of the picture, so that nothing moves: which past run it is of. */
export class PastRun extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-PastRun');
  }

  override refresh(reason: Reason): void {
    if (reason !== 'hover' && reason !== 'selection') {
      this.draw();
    }
  }

  protected render(): ReactNode {
    const { recording } = this.host;
    this.setHidden(recording.shown === null);
    return (
      recording.shown !== null && (
        <button
          type="button"
          title="A past run is shown: click to show the present again"
          onClick={() => recording.goTo(null)}
        >
          {runText(recording)}; live: {formatCount(recording.count)}
        </button>
      )
    );
  }
}

/** "step 120 of 500", "500 steps". */
export function runText({
  count,
  shown
}: {
  count: number;
  shown: number | null;
}): string {
  return shown === null
    ? formatPlural(count, 'step')
    : `step ${formatCount(shown)} of ${formatCount(count)}`;
}

/** The runs in words, for who does not see the line. */
function sentenceOf({ count, losses, marks }: ITimeline): string {
  const known = losses.filter(loss => loss !== null);
  const loss =
    known.length === 0
      ? ''
      : `, loss from ${formatNumber(known[0])} to ${formatNumber(known[known.length - 1])}`;
  const marked = marks.length > 0 ? `, ${formatPlural(marks.length, 'mark')}` : '';
  return `${formatPlural(count, 'step')}${loss}${marked}`;
}

/** A run at which something happened: a small flag, which goes there. */
function MarkButton({
  mark: { step, kind, text },
  last,
  onClick
}: {
  mark: IMark;
  last: number;
  onClick: () => void;
}): JSX.Element {
  const label = `Step ${formatCount(step)}: ${text}`;
  return (
    <button
      type="button"
      className={`workbench-RunMark workbench-mod-${kind}`}
      style={{ left: `${(100 * placeOf(step, last)).toFixed(2)}%` }}
      title={label}
      aria-label={label}
      onClick={onClick}
    />
  );
}
