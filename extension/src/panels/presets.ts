/**
 * The gradient rules that have a name here, as the texts that they stand for: those
 * of `workbench.rules`. A text is read by the kernel; here it is only written and
 * recognised.
 */

import { spellNumber } from '../ui/numbers';

/** A number of a preset that can be edited beside the expression. */
export interface IPresetNumber {
  label: string;
  /** What it begins with; it may depend on the largest entry of the gradient. */
  standard: number | ((largest: number) => number);
}

interface IPreset {
  name: string;
  /** What it does, in a few words. */
  title: string;
  /** The expression, with `{0}` and `{1}` for its numbers; absent: any. */
  rule?: string;
  /** The expression where its number is the standard one. */
  short?: string;
  numbers?: readonly IPresetNumber[];
  /** What the pill beside the node reads, if it is not the name. */
  label?: string;
  /** The ops that it is for; absent where it is for all. */
  ops?: readonly string[];
}

/** The bound of a clip where there is no gradient to measure. */
const BOUND = 0.1;

/** Half of the largest entry, to one digit: it cuts something, but not all. */
function clipBound(largest: number): number {
  const bound = Number((largest / 2).toPrecision(1));
  return bound > 0 && Number.isFinite(bound) ? bound : BOUND;
}

/** A named rule that is finite at the singular point of an op, and its one setting. */
function safeRule<Name extends string>(
  name: Name,
  title: string,
  ops: readonly string[],
  standard = 1e-12,
  setting = 'eps'
) {
  const short = name.replace(' ', '_');
  const rule = `${short}(${setting}={0})`;
  return { name, title, rule, short, ops, numbers: [{ label: setting, standard }] };
}

/** In the order in which the form shows them. */
const TABLE = [
  { name: 'true', title: 'The true gradient', rule: 'd' },
  {
    name: 'clip',
    title: 'Keep each entry between two bounds',
    rule: 'clip(d, {0}, {1})',
    numbers: [
      { label: 'from', standard: (largest: number) => -clipBound(largest) },
      { label: 'to', standard: clipBound }
    ],
    label: 'clip {0} … {1}'
  },
  {
    name: 'clip norm',
    title: 'Shorten the gradient where its norm is larger',
    rule: 'd * ({0} / maximum({0}, norm(d)))',
    numbers: [{ label: 'at most', standard: 1 }],
    label: 'norm ≤ {0}'
  },
  {
    name: 'scale',
    title: 'Multiply by a number',
    rule: '{0} * d',
    numbers: [{ label: 'by', standard: 0.5 }],
    label: 'scale ×{0}'
  },
  {
    name: 'normalise',
    title: 'Give the gradient the norm 1; a zero stays zero',
    rule: 'd / where(norm(d) == 0, 1, norm(d))'
  },
  { name: 'stop', title: 'Let nothing through', rule: 'zeros_like(d)' },
  { name: 'reverse', title: 'Turn the gradient round', rule: '-d' },
  {
    name: 'straight-through',
    title: 'Pass on what arrives, as if the op were not there',
    rule: 'g'
  },
  {
    name: 'sanitise',
    title: 'Zero in place of NaN and infinity',
    rule: 'where(isfinite(d), d, 0)'
  },
  {
    name: 'noise',
    title: 'Add Gaussian noise, the same at each run',
    rule: 'noise(scale={0})',
    numbers: [{ label: 'deviation', standard: BOUND }],
    label: 'noise {0}'
  },
  safeRule('safe sqrt', 'Finite where the root is 0', ['sqrt'], 1e-6),
  safeRule('safe log', 'Finite where the argument is 0', [
    'log',
    'log2',
    'log10',
    'log1p'
  ]),
  safeRule('safe divide', 'Finite where the divisor is 0', ['divide', 'reciprocal']),
  safeRule('safe power', 'Finite where the base is 0', ['power', 'float_power']),
  safeRule('safe norm', 'Zero where the norm is 0', ['norm', 'hypot'], 1e-6),
  {
    ...safeRule(
      'safe exp',
      'A slope of bounded size',
      ['exp', 'exp2', 'expm1'],
      1e6,
      'limit'
    ),
    label: 'exp slope ≤ {0}'
  },
  safeRule('safe atan2', 'Zero at the origin', ['arctan2']),
  safeRule('safe arcsin', 'Finite at −1 and 1', ['arcsin']),
  safeRule('safe arccos', 'Finite at −1 and 1', ['arccos']),
  { name: 'expression', title: 'A formula of your own' }
] as const satisfies readonly IPreset[];

export type PresetName = (typeof TABLE)[number]['name'];

export const PRESETS: readonly (IPreset & { name: PresetName })[] = TABLE;

const NUMBER = String.raw`([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)`;

/** Recognises the expressions of a preset; the groups are the numbers. */
function patternOf({ rule, short }: IPreset): RegExp {
  const text = (rule ?? '').replace(/\s/g, '').replace(/[-()*/+.]/g, String.raw`\$&`);
  // A number that stands twice is the same one.
  const numbered = text
    .replace('{0}', NUMBER)
    .replace('{1}', NUMBER)
    .replaceAll('{0}', String.raw`\1`);
  return new RegExp(`^(?:${[...(short ? [short] : []), numbered].join('|')})$`);
}

const PATTERNS = PRESETS.filter(({ rule }) => rule !== undefined).map(
  entry => [entry, patternOf(entry)] as const
);

/** Put numbers into a text. */
function fillIn(text: string, numbers: readonly number[]): string {
  return text.replace(/\{(\d)\}/g, (_, i: string) => spellNumber(numbers[Number(i)]));
}

/** What an expression is: a preset with its numbers, or a formula. */
export interface IRecognised {
  preset: PresetName;
  numbers: number[];
}

/** Those that fit an op, in the order in which the form shows them. */
export function presetsFor(op: string): typeof PRESETS {
  return PRESETS.filter(({ ops }) => ops === undefined || ops.includes(op));
}

function findPreset(name: PresetName): IPreset {
  return PRESETS.find(entry => entry.name === name)!;
}

/** The numbers of a preset that can be edited. */
export function numbersOf(name: PresetName): readonly IPresetNumber[] {
  return findPreset(name).numbers ?? [];
}

/** The numbers that suit a gradient whose largest entry is so large. */
function standardNumbers({ numbers = [] }: IPreset, largest = NaN): number[] {
  return numbers.map(({ standard }) =>
    typeof standard === 'number' ? standard : standard(largest)
  );
}

/** The expression of a preset with these numbers. */
export function writePreset(name: PresetName, numbers: readonly number[]): string {
  const { rule = '', short, ...rest } = findPreset(name);
  const usual = standardNumbers(rest).every((number, i) => number === numbers[i]);
  return short !== undefined && usual ? short : fillIn(rule, numbers);
}

/** The expression of a preset with the numbers that suit a gradient's largest entry. */
export function standardExpression(name: PresetName, largest = NaN): string {
  return writePreset(name, standardNumbers(findPreset(name), largest));
}

/** Which preset an expression spells, spaces aside. */
export function recognise(expression: string): IRecognised {
  const text = expression.replace(/\s+/g, '');
  for (const [entry, pattern] of PATTERNS) {
    const match = pattern.exec(text);
    if (match) {
      // A setting that is not written has its standard value.
      const numbers = standardNumbers(entry).map((standard, i) =>
        match[i + 1] ? Number(match[i + 1]) : standard
      );
      return { preset: entry.name, numbers };
    }
  }
  return { preset: 'expression', numbers: [] };
}

/** A short label for an override that runs this expression. */
export function labelOf(expression: string): string {
  const { preset: name, numbers } = recognise(expression);
  if (name === 'expression') {
    const text = expression.trim().replace(/\s+/g, ' ');
    return text.length <= 28 ? text : `${text.slice(0, 27)}…`;
  }
  const [low, high] = numbers;
  const text =
    name === 'clip' && low === -high
      ? fillIn('clip ±{0}', [Math.abs(high)])
      : fillIn(findPreset(name).label ?? name, numbers);
  return text.replace(/-(?=[\d.])/g, '−');
}
