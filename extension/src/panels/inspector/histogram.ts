/** A small histogram, with a second one behind it on the same axes. */

import { drawing, element, path } from '../../ui/dom';
import { formatCount, formatNumber } from '../../ui/numbers';
import type { IDistribution } from '../../wire/protocol';

const WIDTH = 160;
const HEIGHT = 40;

/**
 * Draw the distribution of an array. `behind` is drawn first and paler: the true
 * gradient behind the overridden one.
 */
export function histogram(
  shown: IDistribution,
  look: 'value' | 'gradient',
  behind: IDistribution | null = null
): HTMLElement {
  const all = behind === null ? [shown] : [behind, shown];
  const low = Math.min(...all.map(one => one.low));
  const high = Math.max(...all.map(one => one.high));
  const tallest = Math.max(...all.flatMap(one => one.counts.map(density(one))), 1e-300);
  const paths = all.map(one =>
    path(
      bars(one, low, high, tallest),
      one === shown ? `workbench-mod-${look}` : 'workbench-mod-behind'
    )
  );
  const zero =
    low < 0 && high > 0 ? [path(zeroLine(low, high), 'workbench-mod-zero')] : [];
  return element(
    'div',
    {
      class: 'workbench-Histogram',
      role: 'img',
      attributes: { 'aria-label': sentence(shown) }
    },
    [
      drawing(WIDTH, HEIGHT, 'workbench-Bars', [...paths, ...zero]),
      element('div', { class: 'workbench-Axis' }, [
        element('span', { text: formatNumber(low, 2) }),
        ...(low < high ? [element('span', { text: formatNumber(high, 2) })] : [])
      ])
    ]
  );
}

/** "zeros 12", "NaN 3": only what there is. */
export function oddities(distribution: IDistribution): HTMLElement[] {
  const { zeros, nan, inf } = distribution;
  const counts: [string, number][] = [
    ['zeros', zeros],
    ['NaN', nan],
    ['inf', inf]
  ];
  return counts
    .filter(([, count]) => count > 0)
    .map(([name, count]) =>
      element('span', {
        text: `${name} ${formatCount(count)}`,
        class: name === 'zeros' ? '' : 'workbench-mod-bad'
      })
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

function bars(one: IDistribution, low: number, high: number, tallest: number): string {
  const span = high - low;
  const scale = (value: number): number =>
    span > 0 ? ((value - low) / span) * WIDTH : WIDTH / 2;
  const height = density(one);
  if (!(one.high > one.low)) {
    const x = scale(one.low);
    const some = one.counts.some(count => count > 0);
    return some ? `M${round(x - 2)} ${HEIGHT}V0h4V${HEIGHT}z` : '';
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
      return `M${round(left)} ${HEIGHT}V${round(top)}h${round(drawn)}V${HEIGHT}z`;
    })
    .join('');
}

function zeroLine(low: number, high: number): string {
  return `M${round((-low / (high - low)) * WIDTH)} 0V${HEIGHT}`;
}

function round(value: number): string {
  return value.toFixed(2);
}

function sentence(one: IDistribution): string {
  const bad = one.nan + one.inf;
  const more = bad > 0 ? `, ${formatCount(bad)} not finite` : '';
  return `${formatCount(one.size)} entries, ${rangeText(one)}${more}`;
}
