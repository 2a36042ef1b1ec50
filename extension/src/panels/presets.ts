/**
 * The gradient rules that have a name here, as the texts that they stand for: those
 * of `workbench.rules`. A text is read by the kernel; here it is only written and
 * recognised.
 */

import { spellNumber } from '../ui/numbers';

export type PresetName =
  | 'true'
  | 'clip'
  | 'clip norm'
  | 'scale'
  | 'normalise'
  | 'stop'
  | 'reverse'
  | 'straight-through'
  | 'sanitise'
  | 'noise'
  | SafeName
  | 'expression';

type SafeName =
  | 'safe sqrt'
  | 'safe log'
  | 'safe divide'
  | 'safe power'
  | 'safe norm'
  | 'safe exp'
  | 'safe atan2'
  | 'safe arcsin'
  | 'safe arccos';

/** A number of a preset that can be edited beside the expression. */
export interface IPresetNumber {
  label: string;
  /** What it begins with, where the largest entry of the gradient is so large. */
  standard: (largest: number) => number;
}

interface IPreset {
  name: PresetName;
  /** What it does, in a few words. */
  title: string;
  /** The ops that it is for; absent where it is for all. */
  ops?: readonly string[];
  numbers: readonly IPresetNumber[];
  write: (numbers: readonly number[]) => string;
  /** Recognises the expression; its groups are the numbers. */
  pattern: RegExp | null;
  /** What the pill beside the node reads. */
  label: (numbers: readonly number[]) => string;
}

const NUMBER = String.raw`([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)`;

/** The bound of a clip where there is no gradient to measure. */
const BOUND = 0.1;

/** A named rule that is finite at the singular point of an op, and its one setting. */
function safe(
  name: SafeName,
  title: string,
  ops: readonly string[],
  setting = { name: 'eps', standard: 1e-12 }
): IPreset {
  const rule = name.replace(' ', '_');
  return {
    name,
    title,
    ops,
    numbers: [{ label: setting.name, standard: () => setting.standard }],
    write: ([number]) =>
      number === setting.standard
        ? rule
        : `${rule}(${setting.name}=${spellNumber(number)})`,
    pattern: new RegExp(`^${rule}(?:\\(${setting.name}=${NUMBER}\\))?$`),
    label: ([number]) =>
      setting.name === 'eps' ? name : `exp slope ≤ ${spellNumber(number)}`
  };
}

/** In the order in which the form shows them. */
export const PRESETS: readonly IPreset[] = [
  {
    name: 'true',
    title: 'The true gradient',
    numbers: [],
    write: () => 'd',
    pattern: /^d$/,
    label: () => 'true'
  },
  {
    name: 'clip',
    title: 'Keep each entry between two bounds',
    numbers: [
      { label: 'from', standard: largest => -clipBound(largest) },
      { label: 'to', standard: clipBound }
    ],
    write: ([low, high]) => `clip(d, ${spellNumber(low)}, ${spellNumber(high)})`,
    pattern: new RegExp(`^clip\\(d,${NUMBER},${NUMBER}\\)$`),
    label: ([low, high]) =>
      low === -high
        ? `clip ±${spellNumber(Math.abs(high))}`
        : `clip ${spellNumber(low)} … ${spellNumber(high)}`
  },
  {
    name: 'clip norm',
    title: 'Shorten the gradient where its norm is larger',
    numbers: [{ label: 'at most', standard: () => 1 }],
    write: ([most]) =>
      `d * (${spellNumber(most)} / maximum(${spellNumber(most)}, norm(d)))`,
    pattern: new RegExp(`^d\\*\\(${NUMBER}/maximum\\(\\1,norm\\(d\\)\\)\\)$`),
    label: ([most]) => `norm ≤ ${spellNumber(most)}`
  },
  {
    name: 'scale',
    title: 'Multiply by a number',
    numbers: [{ label: 'by', standard: () => 0.5 }],
    write: ([factor]) => `${spellNumber(factor)} * d`,
    pattern: new RegExp(`^${NUMBER}\\*d$`),
    label: ([factor]) => `scale ×${spellNumber(factor)}`
  },
  {
    name: 'normalise',
    title: 'Give the gradient the norm 1; a zero stays zero',
    numbers: [],
    write: () => 'd / where(norm(d) == 0, 1, norm(d))',
    pattern: /^d\/where\(norm\(d\)==0,1,norm\(d\)\)$/,
    label: () => 'normalise'
  },
  {
    name: 'stop',
    title: 'Let nothing through',
    numbers: [],
    write: () => 'zeros_like(d)',
    pattern: /^zeros_like\(d\)$/,
    label: () => 'stop'
  },
  {
    name: 'reverse',
    title: 'Turn the gradient round',
    numbers: [],
    write: () => '-d',
    pattern: /^-d$/,
    label: () => 'reverse'
  },
  {
    name: 'straight-through',
    title: 'Pass on what arrives, as if the op were not there',
    numbers: [],
    write: () => 'g',
    pattern: /^g$/,
    label: () => 'straight-through'
  },
  {
    name: 'sanitise',
    title: 'Zero in place of NaN and infinity',
    numbers: [],
    write: () => 'where(isfinite(d), d, 0)',
    pattern: /^where\(isfinite\(d\),d,0\)$/,
    label: () => 'sanitise'
  },
  {
    name: 'noise',
    title: 'Add Gaussian noise, the same at each run',
    numbers: [{ label: 'deviation', standard: () => BOUND }],
    write: ([scale]) => `noise(scale=${spellNumber(scale)})`,
    pattern: new RegExp(`^noise\\(scale=${NUMBER}\\)$`),
    label: ([scale]) => `noise ${spellNumber(scale)}`
  },
  safe('safe sqrt', 'Finite where the root is 0', ['sqrt'], {
    name: 'eps',
    standard: 1e-6
  }),
  safe('safe log', 'Finite where the argument is 0', ['log', 'log2', 'log10', 'log1p']),
  safe('safe divide', 'Finite where the divisor is 0', ['divide', 'reciprocal']),
  safe('safe power', 'Finite where the base is 0', ['power', 'float_power']),
  safe('safe norm', 'Zero where the norm is 0', ['norm', 'hypot'], {
    name: 'eps',
    standard: 1e-6
  }),
  safe('safe exp', 'A slope of bounded size', ['exp', 'exp2', 'expm1'], {
    name: 'limit',
    standard: 1e6
  }),
  safe('safe atan2', 'Zero at the origin', ['arctan2']),
  safe('safe arcsin', 'Finite at −1 and 1', ['arcsin']),
  safe('safe arccos', 'Finite at −1 and 1', ['arccos']),
  {
    name: 'expression',
    title: 'A formula of your own',
    numbers: [],
    write: () => '',
    pattern: null,
    label: () => 'expression'
  }
];

/** What an expression is: a preset with its numbers, or a formula. */
export interface IRecognised {
  preset: PresetName;
  numbers: number[];
}

/** Those that fit an op, in the order in which the form shows them. */
export function presetsFor(op: string): readonly IPreset[] {
  return PRESETS.filter(({ ops }) => ops === undefined || ops.includes(op));
}

export function preset(name: PresetName): IPreset {
  return PRESETS.find(entry => entry.name === name)!;
}

/** The expression of a preset with the numbers that suit a gradient's largest entry. */
export function standardExpression(name: PresetName, largest = NaN): string {
  const { numbers, write } = preset(name);
  return write(numbers.map(({ standard }) => standard(largest)));
}

/** Half of the largest entry, to one digit: it cuts something, but not all. */
function clipBound(largest: number): number {
  const bound = Number((largest / 2).toPrecision(1));
  return bound > 0 && Number.isFinite(bound) ? bound : BOUND;
}

/** Which preset an expression spells, spaces aside. */
export function recognise(expression: string): IRecognised {
  const text = expression.replace(/\s+/g, '');
  for (const { name, pattern, numbers } of PRESETS) {
    const match = pattern?.exec(text);
    if (match) {
      // A setting that is not written has its standard value.
      return {
        preset: name,
        numbers: numbers.map(({ standard }, i) =>
          match[i + 1] ? Number(match[i + 1]) : standard(NaN)
        )
      };
    }
  }
  return { preset: 'expression', numbers: [] };
}

/** A short label for an override that runs this expression. */
export function labelOf(expression: string): string {
  const { preset: name, numbers } = recognise(expression);
  if (name !== 'expression') {
    return preset(name)
      .label(numbers)
      .replace(/-(?=[\d.])/g, '−');
  }
  const text = expression.trim().replace(/\s+/g, ' ');
  return text.length <= 28 ? text : `${text.slice(0, 27)}…`;
}
