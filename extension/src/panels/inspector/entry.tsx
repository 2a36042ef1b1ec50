/** One entry of the selected input on a slider: the loss and both sweeps follow it. */

import type { FormEvent, JSX, ReactNode } from 'react';

import { Latest } from '../../model/latest';
import { formatNumber, spellNumber } from '../../ui/numbers';
import { errorText } from '../../ui/words';
import type { IEntryAnswer } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** Positions of the slider to each side of the middle. */
const STEPS = 500;
/** The least width to each side, for entries of an array that are all small. */
const LEAST = 1e-3;
/** While values stream, the entry is asked for at most this often. */
const RHYTHM = 300;

export class EntrySlider extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-EntrySlider');
  }

  override refresh(reason: Reason): void {
    const node = this._offered();
    if (node !== this._node) {
      this._node = node;
      this._entry = null;
      this._sent.drop();
      this._known.drop();
      this._index = 0;
    }
    // While it is dragged the slider says what it is, and not the kernel.
    if (node !== null && reason !== 'hover' && reason !== 'view' && !this._isDragged) {
      this._ask(reason === 'values' ? RHYTHM : 0);
    }
    super.refresh(reason);
  }

  override dispose(): void {
    this._sent.drop();
    this._known.drop();
    super.dispose();
  }

  protected render(): ReactNode {
    const entry = this._entry;
    this.setHidden(this._node === null || entry === null);
    return entry !== null && this._renderEntry(entry);
  }

  private _renderEntry(entry: IEntryAnswer): JSX.Element {
    return (
      <>
        {entry.count > 1 && (
          <input
            className="workbench-Input"
            type="number"
            aria-label={`Which entry of ${entry.count}`}
            title="Which entry, counted along the flat array"
            min={0}
            max={entry.count - 1}
            value={this._index}
            onChange={event => {
              const index = event.currentTarget.valueAsNumber;
              if (index >= 0 && index < entry.count) {
                this._index = Math.floor(index);
                this.draw();
                this._ask();
              }
            }}
          />
        )}
        <code>{entry.place}</code>
        {entry.value === null ? (
          <output>not finite</output>
        ) : (
          this._renderSlider(entry, entry.value)
        )}
      </>
    );
  }

  private _renderSlider(entry: IEntryAnswer, value: number): JSX.Element {
    return (
      <>
        <input
          className="workbench-Slider"
          type="range"
          aria-label={`Value of ${entry.place}`}
          aria-valuetext={formatNumber(value, 4)}
          title="Drag it: the program runs with it; undo takes it back"
          min={-STEPS}
          max={STEPS}
          step={1}
          // Until the answer for another index is there, it is of the old place.
          disabled={entry.index !== this._index}
          value={Math.round(((value - this._middle) / this._reach) * STEPS)}
          onInput={event => this._onInput(event, entry)}
          onPointerUp={() => this._endDrag()}
          onPointerCancel={() => this._endDrag()}
          onKeyUp={() => this._endDrag()}
          onBlur={() => this._endDrag()}
          onChange={() => undefined}
        />
        <output title={spellNumber(value)}>{formatNumber(value, 4)}</output>
      </>
    );
  }

  private _onInput(event: FormEvent<HTMLInputElement>, entry: IEntryAnswer): void {
    const { connection } = this.host;
    if (connection === null || this._node === null) {
      return;
    }
    if (!this._isDragged) {
      this._isDragged = true;
      this._drag += 1;
    }
    const part = event.currentTarget.valueAsNumber / STEPS;
    const value = this._middle + part * this._reach;
    this._entry = { ...entry, value };
    this.draw();
    const changed = { node: this._node, index: entry.index, value, drag: this._drag };
    // Never two at once: a slow program runs with the newest value next.
    this._sent.askNext(() => connection.command({ event: 'change-entry', ...changed }));
  }

  private _endDrag(): void {
    if (this._isDragged) {
      this._isDragged = false;
      this._askAfterDrag();
    }
  }

  /** Show what the kernel has made of the changes, once it has answered them all. */
  private _askAfterDrag(): void {
    if (!this._isDragged && !this._sent.isWaiting) {
      this._ask();
    }
  }

  /** The selected node, if it is an input that can be changed now. */
  private _offered(): number | null {
    const { connection, recording, state } = this.host;
    const { graph, selected } = state;
    const isOffered =
      connection !== null &&
      recording.shown === null &&
      recording.against === null &&
      graph !== null &&
      selected !== null &&
      graph.kind(selected) === 'input' &&
      graph.dtype(selected).startsWith('float');
    return isOffered ? selected : null;
  }

  private _ask(rhythm = 0): void {
    const { connection } = this.host;
    const [node, index] = [this._node, this._index];
    if (connection !== null && node !== null) {
      const put = (): Promise<IEntryAnswer> =>
        connection.ask('entry', { node, index }).answer;
      this._known.askNext(put, rhythm);
    }
  }

  private _take(entry: IEntryAnswer): void {
    if (this._isDragged) {
      return;
    }
    const { value, largest } = entry;
    // It stays in the middle of what it can be dragged to, until it leaves that.
    const known = this._entry;
    const isOther = known?.place !== entry.place || known.value === null;
    if (isOther || Math.abs((value ?? 0) - this._middle) > this._reach) {
      this._middle = value ?? 0;
      this._reach = Math.max(2 * largest, LEAST);
    }
    this._entry = entry;
    this.draw();
  }

  private _node: number | null = null;
  private _index = 0;
  private _entry: IEntryAnswer | null = null;
  private _middle = 0;
  private _reach = 1;
  private _isDragged = false;
  /** By the clock, so that those of another page are others. */
  private _drag = Date.now();
  private readonly _known = new Latest<IEntryAnswer>({
    take: entry => this._take(entry),
    // What is no array of real numbers has no slider.
    fail: () => this.setHidden(true)
  });
  private readonly _sent = new Latest<void>({
    take: () => undefined,
    fail: error => {
      this._isDragged = false;
      this.host.say(errorText(error), 'error');
    },
    settled: () => this._askAfterDrag()
  });
}
