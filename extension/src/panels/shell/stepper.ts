/** The two sweeps, step by step: forward to the output, then backward again. */

import { Widget } from '@lumino/widgets';

import { button, element, icon } from '../../ui/dom';
import { stepLine } from '../../ui/words';
import type { IHost, Reason } from '../host';

/** Milliseconds between steps while it plays; long graphs take no longer than this. */
const BEAT = 700;
const LONGEST = 60_000;

export class Stepper extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('div', { role: 'group' }) });
    this.addClass('workbench-Stepper');
    this.node.setAttribute('aria-label', 'Step through both sweeps');
    this.hide();
    const add = (name: 'back' | 'forward', label: string, by: number): HTMLElement => {
      const node = button('icon', label, () => {
        this.pause();
        this.move(by);
      });
      node.append(icon(name));
      return node;
    };
    this._play = button('icon', 'Play', () => {
      this.toggle();
    });
    this._slider.addEventListener('input', () => {
      this.pause();
      this._host.state.setStep(Number(this._slider.value));
    });
    const close = button('icon', 'Show all', () => {
      this._host.state.setStep(null);
    });
    close.append(icon('close'));
    this.node.append(
      add('back', 'One step back', -1),
      this._play,
      add('forward', 'One step forward', 1),
      this._slider,
      this._text,
      this._line,
      close
    );
  }

  /** Go on by so many steps; begins at the beginning. */
  move(by: number): void {
    const { state } = this._host;
    state.setStep(Math.max(0, (state.step ?? 0) + by));
  }

  play(): void {
    const { state } = this._host;
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
    this._showPlay();
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
    this._showPlay();
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'selection') {
      return;
    }
    const { state } = this._host;
    const { graph, step, current } = state;
    if (graph === null || step === null) {
      this.pause();
      this.hide();
      return;
    }
    this.show();
    this._slider.max = String(state.stepCount);
    this._slider.value = String(step);
    this._text.textContent =
      current === null
        ? 'before the first step'
        : `${current.sweep} ${current.position}/${current.count}`;
    this._line.textContent = current === null ? '' : stepLine(graph, current);
    this._line.title = this._line.textContent;
    this._showPlay();
  }

  protected override onBeforeDetach(): void {
    this.pause();
  }

  private _showPlay(): void {
    const playing = this._timer !== undefined;
    const label = playing ? 'Pause' : 'Play';
    if (this._play.getAttribute('aria-label') !== label || !this._play.firstChild) {
      this._play.setAttribute('aria-label', label);
      this._play.title = label;
      this._play.replaceChildren(icon(playing ? 'pause' : 'play'));
    }
  }

  private readonly _play: HTMLButtonElement;
  private readonly _slider = element('input', {
    class: 'workbench-Slider',
    attributes: {
      type: 'range',
      min: '0',
      step: '1',
      'aria-label': 'Step',
      // Its arrows move it: a notebook would take them to walk its cells.
      'data-lm-suppress-shortcuts': 'true'
    }
  });
  private readonly _text = element('span', { class: 'workbench-StepText' });
  private readonly _line = element('code', {
    class: 'workbench-StepLine',
    attributes: { 'aria-live': 'polite' }
  });
  private _timer: ReturnType<typeof setInterval> | undefined;
}
