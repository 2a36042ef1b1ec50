/** The derivative of x * x + x - 2 as the kernel tells its steps and programs. */

import type { IRewrite } from '../../src/wire/protocol';
import { type TestKernel, whole } from './channel';
import { Program, clip } from './programs';

const rewrite = (
  rule: string,
  before: string,
  after: string,
  note = ''
): IRewrite => ({
  rule,
  group: 'simplify',
  note,
  before,
  after,
  site: 'exact_rules.py:31'
});

export const STEPS: readonly IRewrite[] = [
  rewrite('x plus x', 'x + x', '2 * x'),
  rewrite('x minus zero', '2 * x - 0', '2 * x', 'The sign of a zero may change.')
];

/** The cards at each step, the last ones gone with it: name, key, and what it reads. */
const CARDS: readonly { cards: [string, string, number[]][]; went: number }[] = [
  { cards: [['x', '0.0', []], ['x + x', '0.1', [0]], ['… - 0', '0.2', [1]]], went: 0 },
  {
    cards: [
      ['x', '0.0', []],
      ['2 * x', '1.0', [0]],
      ['… - 0', '0.2', [1]],
      ['x + x', '0.1', [0]]
    ],
    went: 1
  },
  { cards: [['x', '0.0', []], ['2 * x', '1.0', [0]], ['… - 0', '0.2', [1]]], went: 1 }
];

const NEW: readonly number[][] = [[], [1], []];

/** Answer the last request for the steps. */
export function tellSteps(kernel: TestKernel, steps = STEPS): void {
  const { request } = kernel.last('simplify');
  kernel.tell({ type: 'simplify', request, steps, total: steps.length });
}

/** Answer the last request for a program; `changes` damages the answer. */
export function tellProgram(
  kernel: TestKernel,
  changes: Record<string, unknown> = {}
): void {
  const { request, step } = kernel.last('program');
  const { cards, went } = CARDS[step];
  const program = new Program();
  for (const [name, , inputs] of cards) {
    if (inputs.length === 0) {
      program.input(name, { gradient: NaN });
    } else {
      program.op('multiply', inputs, { name, gradient: NaN });
    }
  }
  program.overrides = [clip(1)];
  program.overridden.set(1, 0);
  const { header, buffers } = program.encode();
  const count = cards.length;
  kernel.tell(
    {
      type: 'program',
      request,
      step,
      ...whole(header),
      nodes: count,
      keys: cards.map(([, key]) => key),
      forward: cards.map((_, i) => i - 1),
      came: NEW[step],
      went: Array.from({ length: went }, (_, i) => count - went + i),
      text: step === 2 ? '∂y/∂x = 2 * x' : '',
      ...changes
    },
    buffers
  );
}
