/** Numbers as people read them: few digits, a real minus sign, units. */

/** Three significant digits; scientific beyond four places either way. */
export function formatNumber(value: number, digits = 3): string {
  if (Number.isNaN(value)) {
    return 'NaN';
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? '∞' : '−∞';
  }
  if (value === 0) {
    return '0';
  }
  const size = Math.abs(value);
  const text =
    size >= 1e5 || size < 1e-3
      ? value
          .toExponential(digits - 1)
          .replace(/\.?0+e/, 'e')
          .replace('e+', 'e')
      : String(Number(value.toPrecision(digits)));
  return text.replace(/-/g, '−');
}

/** A number without loss, in its shorter spelling: 0.1, 1e-5. */
export function spellNumber(value: number): string {
  const [plain, exponential] = [
    String(value),
    value.toExponential().replace('e+', 'e')
  ];
  return exponential.length < plain.length ? exponential : plain;
}

/** A ratio as a percentage: 0.123 reads "12 %". */
export function formatPercent(ratio: number): string {
  if (!Number.isFinite(ratio)) {
    return formatNumber(ratio);
  }
  const percent = Math.abs(ratio) * 100;
  if (percent === 0) {
    return '0\u00a0%';
  }
  if (percent < 0.01) {
    return '<\u00a00.01\u00a0%';
  }
  return `${formatNumber(percent, 2)}\u00a0%`;
}

/** An angle in degrees; small angles keep a digit. */
export function formatAngle(degrees: number): string {
  return `${formatNumber(degrees, 2)}°`;
}

/** Seconds, in the unit that leaves a short number. */
export function formatSeconds(seconds: number): string {
  if (seconds >= 1) {
    return `${formatNumber(seconds, 2)} s`;
  }
  if (seconds >= 1e-4) {
    return `${formatNumber(seconds * 1e3, 2)} ms`;
  }
  return `${formatNumber(seconds * 1e6, 2)} µs`;
}

const BYTES = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Bytes, in the unit that leaves a short number; 1 kB is 1000 bytes. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.floor(Math.log10(bytes) / 3 + 1e-9);
  const unit = Math.min(power, BYTES.length - 1);
  return `${formatNumber(bytes / 1000 ** unit, 2)} ${BYTES[unit]}`;
}

/** A count with thin spaces between thousands: 10 000. */
export function formatCount(count: number): string {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** A count with its noun: "1 node", "14 nodes". */
export function formatPlural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** A number in at most five characters: "0.31", "4e-2", "1.0", "3e5". */
export function shortNumber(value: number): string {
  if (Number.isNaN(value)) {
    return 'NaN';
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? 'inf' : '−inf';
  }
  const size = Math.abs(value);
  if (size === 0) {
    return '0';
  }
  const sign = value < 0 ? '−' : '';
  if (size >= 9.95 && size < 999.5) {
    return sign + size.toFixed(0);
  }
  if (size >= 0.0995 && size < 9.95) {
    return sign + size.toFixed(size < 0.995 ? 2 : 1);
  }
  return sign + size.toExponential(0).replace('e+', 'e');
}

/** Two numbers with as many digits as it takes to see that they differ. */
export function shortPair(before: number, after: number): [string, string] {
  const short: [string, string] = [shortNumber(before), shortNumber(after)];
  for (let digits = 2; digits <= 4 && short[0] === short[1]; digits++) {
    const longer: [string, string] = [
      formatNumber(before, digits),
      formatNumber(after, digits)
    ];
    if (longer[0] !== longer[1]) {
      return longer;
    }
  }
  return short;
}

/** A number of a unit with the prefix that leaves it short: "670µ", "1.3k". */
export function shortScaled(value: number): string {
  if (!(value > 0) || !Number.isFinite(value)) {
    return shortNumber(value);
  }
  const power = Math.floor(Math.log10(value * 1.0005) / 3);
  const at = Math.min(Math.max(power, -3), 4);
  const size = value / 1000 ** at;
  return size.toFixed(size < 9.95 ? 1 : 0).replace('.0', '') + PREFIXES[at + 3];
}

const PREFIXES = ['n', 'µ', 'm', '', 'k', 'M', 'G', 'T'];

/** A ratio as a percentage in a few characters: "12%", "<1%". */
export function shortPercent(ratio: number): string {
  if (!Number.isFinite(ratio)) {
    return shortNumber(ratio);
  }
  const percent = ratio * 100;
  if (percent > 999) {
    return `${shortNumber(ratio)}×`;
  }
  return percent === 0 ? '0' : percent < 1 ? '<1%' : `${percent.toFixed(0)}%`;
}

/** Numerals of a formula with a point or an exponent; not the digits of a name. */
const NUMERAL = /(?<![\p{L}\p{N}_.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\p{L}\p{N}_])/gu;
/** Constants of a formula are told in so many digits, if that tells them apart. */
const FEW_DIGITS = 4;

/** A formula with its long constants in as many digits as tell them apart, from four on. */
export function shortenConstants(text: string): string {
  const numerals = [...new Set(text.match(NUMERAL) ?? [])];
  if (!numerals.some(isLong)) {
    return text;
  }
  for (let digits = FEW_DIGITS; digits < 17; digits++) {
    const short = numerals.map(one => (isLong(one) ? shortNumeral(one, digits) : one));
    if (new Set(short).size === numerals.length) {
      const shortOf = new Map(numerals.map((numeral, i) => [numeral, short[i]]));
      return text.replace(NUMERAL, numeral => shortOf.get(numeral) ?? numeral);
    }
  }
  return text;
}

function isLong(numeral: string): boolean {
  const digits = numeral.replace(/e.*/, '').replace('.', '').replace(/^0+/, '');
  return /[.e]/.test(numeral) && digits.length > FEW_DIGITS;
}

function shortNumeral(numeral: string, digits: number): string {
  const number = Number(numeral);
  const near = Number(number.toPrecision(digits));
  // What is no longer than that stays as it stands: 1.5e-7.
  return near === number ? numeral : String(near);
}
