/** A panel that goes through steps: buttons, a slider, and a play button. */

import type { JSX, KeyboardEvent } from 'react';

import { IconButton } from '../ui/controls';
import { Part } from './part';

/** What a player says of itself where it differs from the next one. */
interface IPlayerWords {
  /** The name of the slider. */
  readonly slider: string;
  /** The name of the button that plays. */
  readonly play: string;
}

export abstract class Player extends Part {
  /** Go on by so many steps. */
  move(by: number): void {
    this.pause();
    this.goTo(Math.min(this.last, Math.max(0, this.at + by)));
  }

  play(): void {
    if (this.at >= this.last) {
      this.goTo(0);
    }
    this._timer = setInterval(() => {
      if (this.isWaiting) {
        return; // a step is not left before it was seen
      }
      this.goTo(Math.min(this.last, this.at + this.stride));
      if (this.at >= this.last) {
        this.pause();
      }
    }, this.beat());
    this.draw();
  }

  pause(): void {
    clearInterval(this._timer);
    this._timer = undefined;
    this.draw();
  }

  get isPlaying(): boolean {
    return this._timer !== undefined;
  }

  toggle(): void {
    if (this._timer === undefined) {
      this.play();
    } else {
      this.pause();
    }
  }

  /** The step that is shown, from 0. */
  protected abstract readonly at: number;
  /** The number of the last step. */
  protected abstract readonly last: number;
  protected abstract readonly words: IPlayerWords;

  protected abstract goTo(step: number): void;

  /** Milliseconds of a step while it plays. */
  protected abstract beat(): number;

  /** So many steps lie between two that are shown. */
  protected get stride(): number {
    return 1;
  }

  /** True while the step that is shown has not arrived yet. */
  protected get isWaiting(): boolean {
    return false;
  }

  /** Draw the buttons and the slider; `valueText` is what a screen reader says. */
  protected renderControls(isIdle = false, valueText?: string): JSX.Element {
    const { at, last, words } = this;
    const playing = this._timer !== undefined;
    return (
      <>
        <IconButton
          icon="back"
          label="One step back"
          disabled={isIdle || at === 0}
          onClick={() => this.move(-1)}
        />
        <IconButton
          icon={playing ? 'pause' : 'play'}
          label={playing ? 'Pause' : words.play}
          disabled={isIdle}
          onClick={() => this.toggle()}
        />
        <IconButton
          icon="forward"
          label="One step forward"
          disabled={isIdle || at === last}
          onClick={() => this.move(1)}
        />
        <input
          className="workbench-Slider"
          type="range"
          min="0"
          step="1"
          aria-label={words.slider}
          aria-valuetext={valueText}
          // Its arrows move it: a notebook would take them to walk its cells.
          data-lm-suppress-shortcuts="true"
          disabled={isIdle}
          max={last}
          value={at}
          onInput={event => {
            // Read first: to pause draws the slider where it was.
            const to = event.currentTarget.valueAsNumber;
            this.pause();
            this.goTo(to);
          }}
          onKeyDown={event => this._onKey(event)}
        />
      </>
    );
  }

  protected override onDetach(): void {
    this.pause();
  }

  private _onKey(event: KeyboardEvent<HTMLInputElement>): void {
    if (event.key === ' ') {
      event.preventDefault();
      event.stopPropagation();
      this.toggle();
    }
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
}
