/** The steps of a simplification: where one is, what it does, and by which rule. */

import type { JSX, ReactNode } from 'react';

import { prefersCalm } from '../../canvas/motion';
import type { Replay } from '../../model/replay';
import { Button } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { formatPlural, shortenConstants } from '../../ui/numbers';
import type { IRewrite } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { Player } from '../player';

/** Milliseconds of a step while it plays; calmer for who has asked for calm. */
const BEAT = 1100;
const CALM_BEAT = 2500;

export class Timeline extends Player {
  constructor(
    host: IHost,
    private readonly _replay: Replay
  ) {
    super(host, 'workbench-Timeline');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Steps of the simplification');
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

  protected readonly words = {
    slider: 'Step of the simplification',
    play: 'Play the steps'
  };

  protected get at(): number {
    return this._replay.at;
  }

  protected get last(): number {
    return this._replay.last;
  }

  protected override get isWaiting(): boolean {
    return this._replay.isWaiting;
  }

  protected goTo(step: number): void {
    this._replay.goTo(step);
  }

  protected beat(): number {
    return prefersCalm() ? CALM_BEAT : BEAT;
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
        <Formula className="workbench-WholeProgram" text={whole} isShort typeset={this.host.typeset} />
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
    const more = total > last ? ` (of ${total})` : '';
    return (
      <>
        {this.renderControls(steps === null || last === 0, this._valueText())}
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
        <del title={before}>{shortenConstants(before)}</del>
        <span aria-hidden="true"> → </span>
        <span className="workbench-Offstage"> becomes </span>
        <ins title={after}>{shortenConstants(after)}</ins>
      </code>
      <div className="workbench-Quiet workbench-RuleNote" title={note}>
        {note}
      </div>
    </>
  );
}
