/**
 * The array of the selected node as a picture: an image, a line, its change since another
 * run, or its histograms over the runs; all of it, one sample, one neuron.
 */

import { type JSX, type ReactNode, useLayoutEffect, useRef, useState } from 'react';

import { Latest, answerTo } from '../../model/latest';
import { Button, Segments } from '../../ui/controls';
import { formatCount, formatNumber } from '../../ui/numbers';
import { errorText } from '../../ui/words';
import type {
  ArrayQuantity,
  ArrayTime,
  IArrayAnswer,
  IArrayHistoryAnswer
} from '../../wire/protocol';
import { HEIGHT, WIDTH, commonScale, drawOutline, histogramSentence } from '../histogram';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** While values stream, an array is asked for at most this often. */
const RHYTHM = 400;

const QUANTITIES = [
  { value: 'value', label: 'Value' },
  { value: 'gradient', label: 'Gradient' }
] as const;

/** What is drawn of it; which run a change is since, the caption tells. */
const VIEWS = {
  now: 'now',
  last: 'since last run',
  first: 'since run 1',
  runs: 'over the runs'
} as const;
type View = keyof typeof VIEWS;

type Answer = IArrayAnswer | IArrayHistoryAnswer;

export class ArrayPicture extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-ArrayPicture');
  }

  override refresh(reason: Reason): void {
    const { recording } = this.host;
    const node = this._offered();
    const at = recording.about.at ?? null;
    const isOther = node !== this._node || at !== this._at || reason === 'graph';
    if (node !== this._node) {
      this._index = [];
    }
    this._node = node;
    this._at = at;
    if (isOther || reason === 'connection') {
      this._forget();
    }
    // What was found of the past stays; a histogram over it is asked for once.
    const streams = reason === 'values' && this._view !== 'runs';
    if (isOther || reason === 'connection' || streams) {
      this._ask(isOther ? 0 : RHYTHM);
    }
    super.refresh(reason);
  }

  override dispose(): void {
    this._latest.drop();
    super.dispose();
  }

  protected render(): ReactNode {
    const node = this._node;
    this.setHidden(node === null);
    if (node === null) {
      return null;
    }
    if (!this._isOpen) {
      return (
        <Button
          look="link"
          title="An image, a line, or histograms over the runs"
          onClick={() => {
            this._isOpen = true;
            this._ask();
            this.draw();
          }}
        >
          Picture of the array …
        </Button>
      );
    }
    const { graph, selected } = this.host.state;
    const hasGradient = graph !== null && selected !== null && graph.hasGradient(selected);
    const views = (Object.keys(VIEWS) as View[]).filter(
      view => view === 'now' || this.host.recording.count > 1
    );
    return (
      <>
        <div className="workbench-ArrayHead">
          <Segments<ArrayQuantity>
            label="Array"
            look="segments"
            choices={hasGradient ? QUANTITIES : QUANTITIES.slice(0, 1)}
            chosen={this._shown}
            onChoose={quantity => this._choose(() => (this._quantity = quantity))}
          />
          <select
            className="workbench-Select"
            aria-label="What of the array"
            data-lm-suppress-shortcuts="true"
            value={this._view}
            onChange={event => {
              const view = event.currentTarget.value as View;
              this._choose(() => (this._view = view));
            }}
          >
            {views.map(view => (
              <option key={view} value={view}>
                {VIEWS[view]}
              </option>
            ))}
          </select>
          <Button
            look="link"
            onClick={() => {
              this._isOpen = false;
              this._forget();
              this.draw();
            }}
          >
            Close
          </Button>
        </div>
        {this._renderAxes()}
        {this._problem === '' ? (
          this._renderPicture()
        ) : (
          <p className="workbench-Hint">{this._problem}</p>
        )}
      </>
    );
  }

  /** A field for each axis: all of it, or one entry, which arrow keys walk along. */
  private _renderAxes(): JSX.Element | false {
    const shape = this._shape();
    return (
      shape.length > 1 && (
        <div className="workbench-ArrayAxes" data-lm-suppress-shortcuts="true">
          {shape.map((size, axis) => (
            <label key={axis}>
              {`axis ${axis} `}
              <input
                className="workbench-Input"
                type="number"
                title={`One of ${size}; empty for all`}
                placeholder="all"
                min={0}
                max={size - 1}
                value={this._index[axis] ?? ''}
                onChange={event => {
                  const at = event.currentTarget.valueAsNumber;
                  const index = shape.map((_, k) => this._index[k] ?? null);
                  index[axis] = at >= 0 && !(at >= size) ? Math.floor(at) : null;
                  this._choose(() => (this._index = index));
                }}
              />
            </label>
          ))}
        </div>
      )
    );
  }

  private _renderPicture(): ReactNode {
    const answer = this._answer;
    if (answer === null) {
      return <p className="workbench-Hint">…</p>;
    }
    if (answer.type === 'array-history') {
      return <Ridge answer={answer} />;
    }
    const isImage = answer.index.filter(at => at === null).length === 2;
    return isImage ? <Image answer={answer} /> : <Line answer={answer} />;
  }

  /** The lengths of the axes; NaN for one that the program does not tell. */
  private _shape(): number[] {
    const { graph } = this.host.state;
    const text = graph === null || this._node === null ? '' : graph.shape(this._node);
    return text.split('×').map(Number);
  }

  /** The quantity that is shown: of a node without a gradient its value. */
  private get _shown(): ArrayQuantity {
    const { graph } = this.host.state;
    const has = this._node !== null && graph?.hasGradient(this._node) === true;
    return has ? this._quantity : 'value';
  }

  /** The selected node, if the kernel can be asked about its array. */
  private _offered(): number | null {
    const { connection, recording, state } = this.host;
    const { graph, selected } = state;
    const isOffered =
      connection !== null &&
      recording.isWhole &&
      selected !== null &&
      graph?.isArray(selected) === true &&
      graph.hasValue(selected) &&
      graph.shape(selected) !== '()';
    return isOffered ? selected : null;
  }

  private _choose(change: () => void): void {
    change();
    this._problem = '';
    this._ask();
    this.draw();
  }

  private _forget(): void {
    this._latest.drop();
    this._answer = null;
    this._problem = '';
  }

  private _ask(rhythm = 0): void {
    const { connection, recording } = this.host;
    const node = this._node;
    if (connection === null || node === null || !this._isOpen) {
      return;
    }
    const view = this._view;
    const asked = { node, quantity: this._shown, index: [...this._index] };
    const { about } = recording;
    if (view === 'runs') {
      this._latest.ask(signal => answerTo(connection.ask('array-history', { ...asked, ...about }), signal));
    } else {
      const against: ArrayTime | null = view === 'now' ? null : view;
      this._latest.askNext(
        () => connection.ask('array', { ...asked, ...about, against }).answer,
        rhythm
      );
    }
  }

  private _take(answer: Answer): void {
    this._answer = answer;
    this._problem = '';
    this._index = answer.index;
    this.draw();
  }

  private _node: number | null = null;
  /** The past run that is shown. */
  private _at: number | null = null;
  private _isOpen = false;
  private _quantity: ArrayQuantity = 'value';
  private _view: View = 'now';
  private _index: readonly (number | null)[] = [];
  private _answer: Answer | null = null;
  private _problem = '';
  private readonly _latest = new Latest<Answer>({
    take: answer => this._take(answer),
    fail: error => {
      this._problem = errorText(error);
      this.draw();
    }
  });
}

// The pictures

/** Red, green and blue from half of the largest number on, as in the heat maps. */
const BELOW = [100, 164, 232, 21, 101, 192] as const;
const ABOVE = [255, 167, 80, 216, 72, 0] as const;
const NOT_FINITE = [211, 47, 47, 255] as const;

/** The pixels of cells: blue below zero, orange above, transparent at zero. */
export function paintCells(rows: IArrayAnswer['values']): number[] {
  const limit = rangeOf(rows).limit;
  return rows.flat().flatMap(number => {
    if (number === null) {
      return [...NOT_FINITE];
    }
    const part = limit > 0 ? Math.abs(number) / limit : 0;
    const ends = number < 0 ? BELOW : ABOVE;
    const deep = Math.max(2 * part - 1, 0);
    const colour = [0, 1, 2].map(k => ends[k] + deep * (ends[k + 3] - ends[k]));
    return [...colour, part === 0 ? 0 : 255 * Math.min(1, 0.06 + 1.88 * part)];
  });
}

/** The range of cells, and their largest magnitude. */
function rangeOf(rows: IArrayAnswer['values']): {
  low: number;
  high: number;
  limit: number;
  bad: number;
} {
  const all = rows.flat();
  const finite = all.filter(number => number !== null);
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity);
  const high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  const limit = finite.length > 0 ? Math.max(-low, high) : 0;
  return { low, high, limit, bad: all.length - finite.length };
}

/** "−0.2 … 0.4; 2 cells not finite; each cell the largest of 3 × 1" */
export function captionOf(answer: IArrayAnswer): string {
  const { against, block, index, is_complex, values } = answer;
  const { low, high, bad } = rangeOf(values);
  const [down, across] = block;
  const isImage = index.filter(at => at === null).length === 2;
  const largest = isImage
    ? `each cell the largest of ${down} × ${across}`
    : `lowest and highest of each ${across}`;
  return [
    against === null ? '' : `change since run ${against}`,
    low > high ? 'nothing finite' : `${formatNumber(low, 3)} … ${formatNumber(high, 3)}`,
    is_complex ? 'magnitudes' : '',
    bad > 0 ? `${formatCount(bad)} not finite` : '',
    down * across > 1 ? largest : ''
  ]
    .filter(Boolean)
    .join('; ');
}

/** "[3, 0 … 2] = 0.5": the entries that a cell stands for, and its number. */
export function cellText(answer: IArrayAnswer, row: number, column: number): string {
  const { block, index, shape, values } = answer;
  const cell = index.filter(at => at === null).length === 2 ? [row, column] : [column];
  const steps = cell.length === 2 ? block : block.slice(1);
  let left = 0;
  const places = index.map((at, axis) => {
    if (at !== null) {
      return String(at);
    }
    const from = cell[left] * steps[left];
    const to = Math.min(from + steps[left], shape[axis]) - 1;
    left += 1;
    return to > from ? `${from} … ${to}` : String(from);
  });
  const found = cell.length === 2 ? [values[row][column]] : values.map(one => one[column]);
  const numbers = found.map(one => (one === null ? 'not finite' : formatNumber(one, 6)));
  return `[${places.join(', ')}] = ${[...new Set(numbers)].join(' … ')}`;
}

/** A picture with a caption, which tells of the cell that the pointer is on. */
function Figure({
  answer,
  children
}: {
  answer: IArrayAnswer;
  children: ReactNode;
}): JSX.Element {
  const [text, setText] = useState('');
  const rows = answer.index.filter(at => at === null).length === 2 ? answer.values.length : 1;
  const columns = answer.values[0]?.length ?? 0;
  return (
    <figure>
      <div
        onPointerMove={event => {
          const box = event.currentTarget.getBoundingClientRect();
          const find = (at: number, size: number, count: number): number =>
            Math.min(Math.max(Math.floor((at / size) * count), 0), count - 1);
          const row = find(event.clientY - box.top, box.height, rows);
          const column = find(event.clientX - box.left, box.width, columns);
          setText(columns > 0 ? cellText(answer, row, column) : '');
        }}
        onPointerLeave={() => setText('')}
      >
        {children}
      </div>
      <figcaption>{text || captionOf(answer)}</figcaption>
    </figure>
  );
}

/** The least and the most that an image is wide, in parts of its height. */
const PROPORTIONS = { least: 1.4, most: 12 } as const;

function Image({ answer }: { answer: IArrayAnswer }): JSX.Element {
  const { values } = answer;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [rows, columns] = [values.length, values[0]?.length ?? 0];
  useLayoutEffect(() => {
    const context = rows * columns > 0 ? canvas.current?.getContext('2d') : null;
    if (context) {
      const pixels = context.createImageData(columns, rows);
      pixels.data.set(paintCells(values));
      context.putImageData(pixels, 0, 0);
    }
  });
  const { least, most } = PROPORTIONS;
  return (
    <Figure answer={answer}>
      <canvas
        ref={canvas}
        className="workbench-Cells"
        width={columns}
        height={rows}
        style={{ aspectRatio: Math.min(Math.max(columns / (rows || 1), least), most) }}
        role="img"
        aria-label={`Image of ${rows} × ${columns} cells: ${captionOf(answer)}`}
      />
    </Figure>
  );
}

function Line({ answer }: { answer: IArrayAnswer }): JSX.Element {
  const { values } = answer;
  const { low, high } = rangeOf(values);
  const count = values[0]?.length ?? 0;
  const [bottom, top] = [Math.min(low, 0), Math.max(high, 0)];
  const yOf = (number: number): string =>
    (top > bottom ? 2 + ((top - number) / (top - bottom)) * (HEIGHT - 4) : HEIGHT / 2)
      .toFixed(2);
  const xOf = (at: number): string => (((at + 0.5) / count) * WIDTH).toFixed(2);
  let [path, bad] = ['', ''];
  let open = false;
  for (let at = 0; at < count; at++) {
    for (const row of values) {
      const number = row[at];
      if (number === null) {
        bad += `M${xOf(at)} 0V${HEIGHT}`;
        open = false;
      } else {
        // A lone point is a line of no length, with round ends.
        path += `${open ? 'L' : 'M'}${xOf(at)} ${yOf(number)}${open ? '' : 'h.01'}`;
        open = true;
      }
    }
  }
  return (
    <Figure answer={answer}>
      <svg
        className="workbench-Lines workbench-mod-tall"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Line of ${count} points: ${captionOf(answer)}`}
      >
        <path className="workbench-mod-zero" d={`M0 ${yOf(0)}H${WIDTH}`} />
        <path className="workbench-mod-notFinite" d={bad} />
        <path className={`workbench-mod-${answer.quantity}`} d={path} />
      </svg>
    </Figure>
  );
}

/** From the baseline of one run to that of the next. */
const STRIDE = 9;

/** Histograms of one array at some runs, the last one in front. */
function Ridge({ answer }: { answer: IArrayHistoryAnswer }): JSX.Element {
  const { histograms, quantity, steps } = answer;
  const { low, high, tallest } = commonScale(histograms);
  const height = HEIGHT + STRIDE * (histograms.length - 1);
  const runs = `runs ${steps[0]} to ${steps.at(-1)}`;
  const bad = histograms.filter(({ nan, inf }) => nan + inf > 0).length;
  const odd = bad > 0 ? `; ${formatCount(bad)} with entries that are not finite` : '';
  return (
    <figure>
      <svg
        className="workbench-Lines workbench-Ridge"
        style={{ height: `${height}px` }}
        viewBox={`0 0 ${WIDTH} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${formatCount(steps.length)} histograms, ${runs}${odd}`}
      >
        {histograms.map((one, k) => (
          <g key={steps[k]} transform={`translate(0 ${k * STRIDE})`}>
            <title>{`run ${steps[k]}: ${histogramSentence(one)}`}</title>
            <path
              className={`workbench-mod-${quantity}`}
              d={drawOutline(one, low, high, tallest)}
            />
            {one.nan + one.inf > 0 && (
              <path className="workbench-mod-notFinite" d={`M0 ${HEIGHT}H${WIDTH}`} />
            )}
          </g>
        ))}
      </svg>
      <div className="workbench-Axis">
        <span>{formatNumber(low, 2)}</span>
        {low < high && <span>{formatNumber(high, 2)}</span>}
      </div>
      <figcaption>{`${runs}, the last in front${odd}`}</figcaption>
    </figure>
  );
}
