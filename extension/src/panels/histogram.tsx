/** A small histogram, with a second one behind it on the same axes. */

import type { JSX } from 'react';

import { formatCount, formatNumber } from '../ui/numbers';
import type { IDistribution } from '../wire/protocol';

export interface IHistogramProps {
  shown: IDistribution;
  look: 'value' | 'gradient';
  /** Drawn first and paler: the true gradient behind the overridden one. */
  behind?: IDistribution | null;
  /** How many bars at most. */
  bins?: number;
}

export const WIDTH = 160;
export const HEIGHT = 40;

/** The distribution of an array. */
export function Histogram(props: IHistogramProps): JSX.Element {
  const { look, bins = Infinity } = props;
  const shown = joinBins(props.shown, bins);
  const all = props.behind ? [joinBins(props.behind, bins), shown] : [shown];
  const { low, high, tallest } = commonScale(all);
  return (
    <div className="workbench-Histogram" role="img" aria-label={histogramSentence(shown)}>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        className="workbench-Bars"
      >
        {all.map(one => (
          <path
            key={one === shown ? look : 'behind'}
            d={drawBars(one, low, high, tallest)}
            className={`workbench-mod-${one === shown ? look : 'behind'}`}
          />
        ))}
        {low < 0 && high > 0 && (
          <path
            d={`M${roundText((-low / (high - low)) * WIDTH)} 0V${HEIGHT}`}
            className="workbench-mod-zero"
          />
        )}
      </svg>
      <div className="workbench-Axis">
        <span>{formatNumber(low, 2)}</span>
        {low < high && <span>{formatNumber(high, 2)}</span>}
      </div>
    </div>
  );
}

/** The axis that several histograms have together, and the height of the highest bar. */
export function commonScale(all: readonly IDistribution[]): {
  low: number;
  high: number;
  tallest: number;
} {
  // An array without a finite entry has no place on the axis.
  const placed = all.filter(({ counts }) => counts.length > 0);
  return {
    low: Math.min(...(placed.length > 0 ? placed : all).map(one => one.low)),
    high: Math.max(...(placed.length > 0 ? placed : all).map(one => one.high)),
    tallest: Math.max(...all.flatMap(one => one.counts.map(density(one))), 1e-300)
  };
}

/** The same with neighbouring bins put together, until there are so few. */
export function joinBins(one: IDistribution, most: number): IDistribution {
  const { counts } = one;
  const each = Math.ceil(counts.length / most);
  // Bins are equally wide: only a divisor of their number leaves them so.
  if (each <= 1 || counts.length % each !== 0) {
    return one;
  }
  const joined = Array.from({ length: counts.length / each }, (_, i) =>
    counts.slice(i * each, (i + 1) * each).reduce((sum, count) => sum + count, 0)
  );
  return { ...one, counts: joined };
}

/** "zeros 12", "NaN 3": only what there is. */
export function Oddities({
  of: { zeros, nan, inf }
}: {
  of: IDistribution;
}): JSX.Element {
  const bad = 'workbench-mod-bad';
  return (
    <>
      {zeros > 0 && <span>zeros {formatCount(zeros)}</span>}
      {nan > 0 && <span className={bad}>NaN {formatCount(nan)}</span>}
      {inf > 0 && <span className={bad}>inf {formatCount(inf)}</span>}
    </>
  );
}

/** "−0.98 … 0.97" */
function rangeText(distribution: IDistribution): string {
  const { low, high, nan, inf, size } = distribution;
  if (size === 0) {
    return 'empty';
  }
  if (nan + inf >= size) {
    return 'nothing finite';
  }
  return low === high
    ? formatNumber(low)
    : `${formatNumber(low, 2)} … ${formatNumber(high, 2)}`;
}

/**
 * What a bin's height means: the square root of entries per width of the axis.
 * Per width, so that arrays with bins of different width compare; the root (a
 * rootogram: Tukey, Exploratory Data Analysis, 1977, ch. 17), so that tails stay
 * to be seen beside a spike at zero.
 */
function density(one: IDistribution): (count: number) => number {
  const width = (one.high - one.low) / Math.max(one.counts.length, 1);
  return count => Math.sqrt(width > 0 ? count / width : count);
}

/** The outline of a histogram in a box of `WIDTH` by `HEIGHT`, from low to high. */
export function drawOutline(
  one: IDistribution,
  low: number,
  high: number,
  tallest: number
): string {
  const { counts } = one;
  const xOf = (value: number): string =>
    roundText(high > low ? ((value - low) / (high - low)) * WIDTH : WIDTH / 2);
  const height = density(one);
  const tops = counts.map((count, bin) => {
    const middle = one.low + ((bin + 0.5) / counts.length) * (one.high - one.low);
    return `L${xOf(middle)} ${roundText(HEIGHT - (height(count) / tallest) * (HEIGHT - 1))}`;
  });
  const [left, right] = [xOf(one.low), xOf(one.high)];
  return tops.length === 0 ? '' : `M${left} ${HEIGHT}${tops.join('')}L${right} ${HEIGHT}`;
}

/** The path of the bars of a histogram. */
function drawBars(
  one: IDistribution,
  low: number,
  high: number,
  tallest: number
): string {
  const span = high - low;
  const scale = (value: number): number =>
    span > 0 ? ((value - low) / span) * WIDTH : WIDTH / 2;
  const height = density(one);
  if (!(one.high > one.low)) {
    const x = scale(one.low);
    const some = one.counts.some(count => count > 0);
    return some ? `M${roundText(x - 2)} ${HEIGHT}V0h4V${HEIGHT}z` : '';
  }
  const width = (one.high - one.low) / one.counts.length;
  return one.counts
    .map((count, bin) => {
      if (count === 0) {
        return '';
      }
      const left = scale(one.low + bin * width);
      const right = scale(one.low + (bin + 1) * width);
      const gap = right - left > 3 ? 0.8 : 0;
      // A bin that is not empty never vanishes.
      const top = HEIGHT - Math.max(1, (height(count) / tallest) * (HEIGHT - 1));
      const drawn = Math.max(right - left - gap, 0.8);
      return `M${roundText(left)} ${HEIGHT}V${roundText(top)}h${roundText(drawn)}V${HEIGHT}z`;
    })
    .join('');
}

function roundText(value: number): string {
  return value.toFixed(2);
}

export function histogramSentence(one: IDistribution): string {
  const bad = one.nan + one.inf;
  const more = bad > 0 ? `, ${formatCount(bad)} not finite` : '';
  return `${formatCount(one.size)} entries, ${rangeText(one)}${more}`;
}
