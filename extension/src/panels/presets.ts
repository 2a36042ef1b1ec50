/**
 * The gradient rules that have a name, as the expressions that they stand for.
 * An expression is read by the kernel; here it is only written and recognised.
 */

import { spellNumber } from './numbers';

export type PresetName =
  'true' | 'clip' | 'scale' | 'stop' | 'reverse' | 'straight-through' | 'expression';

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
    name: 'scale',
    title: 'Multiply by a number',
    numbers: [{ label: 'by', standard: () => 0.5 }],
    write: ([factor]) => `${spellNumber(factor)} * d`,
    pattern: new RegExp(`^${NUMBER}\\*d$`),
    label: ([factor]) => `scale ×${spellNumber(factor)}`
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
  for (const { name, pattern } of PRESETS) {
    const match = pattern?.exec(text);
    if (match) {
      return { preset: name, numbers: match.slice(1).map(Number) };
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
