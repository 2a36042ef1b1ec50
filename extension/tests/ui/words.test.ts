import { describe, expect, it } from 'vitest';

import type { Graph } from '../../src/model/graph';
import {
  checkSentences,
  effectText,
  effectsLine,
  nodeSentence,
  stepLine,
  targetText
} from '../../src/ui/words';
import type { IOverride } from '../../src/wire/protocol';
import { H, LOSS, PRODUCT, SCALED, W, clipOfH, network } from '../helpers/network';
import { readGraph } from '../helpers/programs';

function graphOf(overrides: IOverride[] = []): Graph {
  const { header, buffers } = network(overrides);
  return readGraph(header, buffers);
}

describe('what is said about steps', () => {
  const line = (sweep: 'forward' | 'backward', node: number, graph = graphOf()) =>
    stepLine(graph, { sweep, node, position: 1, count: 1 });

  it('forward: the op and what it reads', () => {
    expect(line('forward', PRODUCT)).toBe('matmul = matmul(X, W)');
    expect(line('forward', LOSS)).toBe('loss = mean(multiply)');
  });

  it('backward: the chain rule', () => {
    expect(line('backward', LOSS)).toBe('∂loss/∂loss = 1');
    expect(line('backward', H)).toBe('∂loss/∂h = ∂loss/∂multiply · ∂multiply/∂h');
  });

  it('backward through an override: its rule around the product', () => {
    const graph = graphOf([clipOfH()]);
    expect(line('backward', PRODUCT, graph)).toBe(
      '∂loss/∂matmul = ⟨clip ±0.1⟩(∂loss/∂h · ∂h/∂matmul)'
    );
  });
});

describe('what is said about overrides', () => {
  const effect = (
    name: string,
    relative: number | null,
    angle: number | null = null
  ) => ({
    node: W,
    name,
    relative,
    angle
  });

  it('names the gradient that changes most', () => {
    const effects = [effect('b', 0.02), effect('W', 0.123), effect('c', 0)];
    const header = { output_name: 'loss', wrt: [1, 2, 3, 4] };
    expect(effectsLine(header, clipOfH({ effects }))).toBe(
      'changes 2 of 4 requested gradients, ∂loss/∂W by 12\u00a0%'
    );
    expect(effectsLine({ ...header, wrt: [] }, clipOfH({ effects }))).toBe(
      'changes 2 gradients, ∂loss/∂W by 12\u00a0%'
    );
    expect(effectsLine(header, clipOfH({ effects: [effect('W', 0)] }))).toBe(
      'changes no gradient'
    );
    expect(effectsLine(header, clipOfH({ enabled: false }))).toContain('off');
    expect(effectsLine(header, clipOfH({ effects: [effect('W', null)] }))).toContain(
      'beyond comparison'
    );
  });

  it('gives the angle where the direction changed', () => {
    expect(effectText(effect('W', 0.5, 3.14159))).toBe('50\u00a0%, turned 3.1°');
    expect(effectText(effect('W', 0.5, 0.001))).toBe('50\u00a0%');
    expect(effectText(effect('W', null))).toBe('not comparable: 0 or not finite');
  });

  it('a summary is read by sentences, and says nothing twice', () => {
    const text = 'The rule of cube (at [2]:3: c = cube(a)) is wrong. It gives 0.5.';
    const summary =
      'the gradient of y is wrong: expected 2.5, got 1.5. 1 entry is off (all 5' +
      ` entries checked, seed 7). ${text}`;
    const node = { node: H, status: 'wrong', mode: 'rev', place: '', text } as const;
    const nodes = [{ ...node, expected: null, got: null, ratio: null }];
    expect(checkSentences({ summary, nodes })).toEqual([
      'the gradient of y is wrong: expected 2.5, got 1.5.',
      '1 entry is off (all 5 entries checked, seed 7).'
    ]);
    expect(checkSentences({ summary: text, nodes })).toEqual([]);
  });

  it('says what it is on', () => {
    const graph = graphOf();
    expect(targetText(graph, { kind: 'node', node: H })).toBe('h');
    expect(targetText(graph, { kind: 'op', op: 'tanh' })).toBe('every tanh');
    expect(targetText(graph, { kind: 'other', text: 'pattern W @ x' })).toBe(
      'pattern W @ x'
    );
  });
});

describe('a node in a sentence', () => {
  it('has name, op, shape, inputs, gradient and override', () => {
    expect(nodeSentence(graphOf([clipOfH()]), H)).toBe(
      'h, tanh, 5 × 2, reads matmul, gradient norm 0.75, override clip ±0.1, ' +
        'passes on ‖·‖ 0.5'
    );
    expect(nodeSentence(graphOf(), W)).toBe('W, input, 3 × 2, gradient norm 0.25');
    expect(nodeSentence(graphOf(), SCALED)).toContain('multiply, 5 × 2, reads h and t');
  });
});
