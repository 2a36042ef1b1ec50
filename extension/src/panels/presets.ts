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
  standard: number;
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
      { label: 'from', standard: -0.1 },
      { label: 'to', standard: 0.1 }
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
    numbers: [{ label: 'by', standard: 0.5 }],
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

/** The expression of a preset with its standard numbers. */
export function standardExpression(name: PresetName): string {
  const { numbers, write } = preset(name);
  return write(numbers.map(({ standard }) => standard));
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
