/** The steps of a simplification: where one is, what it does, and by which rule. */

import type { JSX, KeyboardEvent, ReactNode } from 'react';

import { prefersCalm } from '../../canvas/motion';
import type { Replay } from '../../model/replay';
import { Button, IconButton } from '../../ui/controls';
import { formatPlural } from '../../ui/numbers';
import type { IRewrite } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** Milliseconds of a step while it plays; calmer for who has asked for calm. */
const BEAT = 1100;
const CALM_BEAT = 2500;

export class Timeline extends Part {
  constructor(
    host: IHost,
    private readonly _replay: Replay
  ) {
    super(host, 'workbench-Timeline');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Steps of the simplification');
  }

  /** Go on by so many steps. */
  move(by: number): void {
    this.pause();
    this._replay.goTo(this._replay.at + by);
  }

  toggle(): void {
    if (this._timer === undefined) {
      this._play();
    } else {
      this.pause();
    }
  }

  pause(): void {
    clearInterval(this._timer);
    this._timer = undefined;
    this.draw();
  }

  override refresh(reason: Reason): void {
    if (reason === 'graph' || reason === 'values' || reason === 'connection') {
      this.draw();
    }
  }

  /** Draw what the replay shows now. */
  drawSteps(): void {
    this.draw();
  }

  protected override onBeforeDetach(): void {
    this.pause();
  }

  protected render(): ReactNode {
    const { steps, at, problem, without } = this._replay;
    const step = at === 0 ? null : (steps?.[at - 1] ?? null);
    const whole = this._wholeText();
    return (
      <>
        <div className="workbench-TimelineRow">
          {this._renderControls()}
        </div>
        <code className="workbench-WholeProgram" title={whole}>
          {whole.replaceAll('\n', ';  ')}
        </code>
        <div className="workbench-TimelineStep">
          <div aria-live="polite">
            {step !== null && problem === null ? (
              <Rewrite step={step} />
            ) : (
              <span className={problem === null ? 'workbench-Quiet' : ''}>
                {problem ?? stateOf(steps)}
              </span>
            )}
          </div>
          {step !== null && (
            <Button
              look="link"
              className="workbench-TimelineOff"
              title={`Do not use “${step.rule}”, and do the other steps again`}
              onClick={() => this._replay.switchOff(step.rule)}
            >
              Switch this rule off
            </Button>
          )}
        </div>
        {(without.length > 0 || this._force().length > 0) && (
          <div className="workbench-TimelineRow">{this._renderRules()}</div>
        )}
      </>
    );
  }

  private _renderControls(): JSX.Element {
    const { steps, total, at, last } = this._replay;
    const playing = this._timer !== undefined;
    const idle = steps === null || last === 0;
    const more = total > last ? ` (of ${total})` : '';
    return (
      <>
        <IconButton
          icon="back"
          label="One step back"
          disabled={idle || at === 0}
          onClick={() => this.move(-1)}
        />
        <IconButton
          icon={playing ? 'pause' : 'play'}
          label={playing ? 'Pause' : 'Play the steps'}
          disabled={idle}
          onClick={() => this.toggle()}
        />
        <IconButton
          icon="forward"
          label="One step forward"
          disabled={idle || at === last}
          onClick={() => this.move(1)}
        />
        <input
          className="workbench-Slider"
          type="range"
          min="0"
          step="1"
          aria-label="Step of the simplification"
          aria-valuetext={this._valueText()}
          // Its arrows move it: a notebook would take them to walk its cells.
          data-lm-suppress-shortcuts="true"
          disabled={idle}
          max={last}
          value={at}
          onInput={event => {
            // Read first: to pause draws the slider where it was.
            const to = event.currentTarget.valueAsNumber;
            this.pause();
            this._replay.goTo(to);
          }}
          onKeyDown={event => this._onKey(event)}
        />
        <span className="workbench-StepText">
          {steps === null ? '' : `step ${at} of ${last}${more}`}
        </span>
      </>
    );
  }

  /** The whole program as code; of a long one how large it is. */
  private _wholeText(): string {
    const { at, program } = this._replay;
    if (program === null || program.step !== at) {
      return '';
    }
    const { graph, text } = program;
    const there = graph.count - (graph.rewritten?.went.size ?? 0);
    return text === '' ? `${formatPlural(there, 'node')} at this step` : text;
  }

  /** The rules that are off, each with a way back, and the overrides that hold. */
  private _renderRules(): JSX.Element {
    const { without } = this._replay;
    const force = this._force();
    return (
      <>
        {without.length > 0 && (
          <>
            <span className="workbench-Quiet">Switched off:</span>
            {without.map(rule => (
              <button
                key={rule}
                type="button"
                className="workbench-RuleOff"
                title={`Use “${rule}” again`}
                aria-label={`Use the rule “${rule}” again`}
                onClick={() => this._replay.switchOn(rule)}
              >
                {rule} <span aria-hidden="true">×</span>
              </button>
            ))}
            {without.length > 1 && (
              <Button look="link" onClick={() => this._replay.switchOn()}>
                Use all again
              </Button>
            )}
          </>
        )}
        {force.length > 0 && (
          <>
            <span className="workbench-Quiet">Set by overrides, and kept:</span>
            {force.map(label => (
              <span key={label} className="workbench-Pill">
                {label}
              </span>
            ))}
          </>
        )}
      </>
    );
  }

  /** The overrides that are on, each label once. */
  private _force(): string[] {
    const overrides = this.host.state.graph?.header.overrides ?? [];
    const on = overrides.filter(({ enabled }) => enabled);
    return [...new Set(on.map(({ label }) => label))];
  }

  /** What the slider says: where it is, and what happened there. */
  private _valueText(): string {
    const { steps, at } = this._replay;
    const step = at === 0 ? undefined : steps?.[at - 1];
    return step === undefined
      ? 'before the first step'
      : `step ${at}, ${step.rule}: ${step.before} becomes ${step.after}`;
  }

  private _onKey(event: KeyboardEvent<HTMLInputElement>): void {
    if (event.key === ' ') {
      event.preventDefault();
      event.stopPropagation();
      this.toggle();
    }
  }

  private _play(): void {
    const replay = this._replay;
    if (replay.at >= replay.last) {
      replay.goTo(0);
    }
    this._timer = setInterval(
      () => {
        if (replay.isWaiting) {
          return; // a step is not left before it was seen
        }
        replay.goTo(replay.at + 1);
        if (replay.at >= replay.last) {
          this.pause();
        }
      },
      prefersCalm() ? CALM_BEAT : BEAT
    );
    this.draw();
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
}

/** What is to be said while no step is shown. */
function stateOf(steps: readonly IRewrite[] | null): string {
  return steps === null
    ? 'Simplifying the derivative …'
    : steps.length === 0
      ? 'The derivative as the chain rule gives it: no rule makes it simpler.'
      : 'The derivative as the chain rule gives it, before the first step.';
}

/** One step: the rule, both sides, where the rule stands, and how it may differ. */
function Rewrite({ step }: { step: IRewrite }): JSX.Element {
  const { rule, group, note, before, after, site } = step;
  const from = [group, site].filter(text => text !== '').join(' · ');
  return (
    <>
      <div className="workbench-RuleHead">
        <strong className="workbench-RuleName">{rule}</strong>
        <span className="workbench-Quiet">{from}</span>
      </div>
      <code className="workbench-RuleSides">
        <del>{before}</del>
        <span aria-hidden="true"> → </span>
        <span className="workbench-Offstage"> becomes </span>
        <ins>{after}</ins>
      </code>
      <div className="workbench-Quiet workbench-RuleNote" title={note}>
        {note}
      </div>
    </>
  );
}
