/** The two sweeps, step by step: forward to the output, then backward again. */

import type { ReactNode } from 'react';

import { IconButton } from '../../ui/controls';
import { stepLine } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** Milliseconds between steps while it plays; long graphs take no longer than this. */
const BEAT = 700;
const LONGEST = 60_000;

export class Stepper extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Stepper');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Step through both sweeps');
    this.hide();
  }

  /** Go on by so many steps; begins at the beginning. */
  move(by: number): void {
    const { state } = this.host;
    state.setStep(Math.max(0, (state.step ?? 0) + by));
  }

  play(): void {
    const { state } = this.host;
    if (state.step === null || state.step >= state.stepCount) {
      state.setStep(0);
    }
    const beat = Math.min(BEAT, LONGEST / Math.max(state.stepCount, 1));
    this._timer = setInterval(() => {
      this.move(1);
      if (state.step === null || state.step >= state.stepCount) {
        this.pause();
      }
    }, beat);
    this.draw();
  }

  toggle(): void {
    if (this._timer === undefined) {
      this.play();
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
    if (reason !== 'hover' && reason !== 'selection') {
      const { graph, stage, step } = this.host.state;
      this.setHidden(graph === null || step === null || stage === 'simplified');
      if (this.isHidden) {
        this.pause();
      } else {
        this.draw();
      }
    }
  }

  protected override onBeforeDetach(): void {
    this.pause();
  }

  protected render(): ReactNode {
    const { state } = this.host;
    const { graph, current } = state;
    const line = graph === null || current === null ? '' : stepLine(graph, current);
    const playing = this._timer !== undefined;
    const moveBy = (by: number): void => {
      this.pause();
      this.move(by);
    };
    return (
      <>
        <IconButton icon="back" label="One step back" onClick={() => moveBy(-1)} />
        <IconButton
          icon={playing ? 'pause' : 'play'}
          label={playing ? 'Pause' : 'Play'}
          onClick={() => this.toggle()}
        />
        <IconButton icon="forward" label="One step forward" onClick={() => moveBy(1)} />
        <input
          className="workbench-Slider"
          type="range"
          min="0"
          step="1"
          aria-label="Step"
          // Its arrows move it: a notebook would take them to walk its cells.
          data-lm-suppress-shortcuts="true"
          max={state.stepCount}
          value={state.step ?? 0}
          onInput={event => {
            // Read first: to pause draws the slider where it was.
            const to = event.currentTarget.valueAsNumber;
            this.pause();
            state.setStep(to);
          }}
        />
        <span className="workbench-StepText">
          {current === null
            ? 'before the first step'
            : `${current.sweep} ${current.position}/${current.count}`}
        </span>
        <code className="workbench-StepLine" aria-live="polite" title={line}>
          {line}
        </code>
        <IconButton icon="close" label="Show all" onClick={() => state.setStep(null)} />
      </>
    );
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
}
