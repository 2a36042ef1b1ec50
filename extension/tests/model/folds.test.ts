import { describe, expect, test } from 'vitest';

import { itemsOf } from '../../src/layout/items';
import { findRepeats } from '../../src/model/folds';
import { Program, random } from '../helpers/programs';

describe('repeats in a sequence', () => {
  const sequence = (text: string): number[] => Array.from(text, c => c.charCodeAt(0));

  test('a loop between other things', () => {
    expect(findRepeats(sequence('xy' + 'abcde'.repeat(6) + 'abz'))).toEqual([
      { start: 2, end: 32, period: 5, times: 6 }
    ]);
  });

  test('a body in which an op comes twice', () => {
    expect(findRepeats(sequence('aabab'.repeat(5)))).toEqual([
      { start: 0, end: 25, period: 5, times: 5 }
    ]);
  });

  test('one op again and again', () => {
    const [found] = findRepeats(sequence('a'.repeat(1000)));
    expect(found).toEqual({ start: 0, end: 1000, period: 1, times: 1000 });
  });

  test('two loops after each other', () => {
    const found = findRepeats(sequence('ab'.repeat(12) + 'cde'.repeat(10)));
    expect(found.map(({ period, times }) => [period, times])).toEqual([
      [2, 12],
      [3, 10]
    ]);
  });

  test('too few, too short, or nothing at all', () => {
    expect(findRepeats(sequence('abcdefghij'.repeat(3)))).toEqual([]);
    expect(findRepeats(sequence('ab'.repeat(6)))).toEqual([]);
    expect(findRepeats([])).toEqual([]);
  });

  test('a sequence made to be slow is given up, not waited for', () => {
    const next = random(5);
    const nasty = Array.from({ length: 200_000 }, () => (next() < 0.999 ? 1 : 2));
    const begin = performance.now();
    findRepeats(nasty);
    expect(performance.now() - begin).toBeLessThan(2000);
  });
});

describe('loops of a program', () => {
  function loop(times: number, scope = ''): Program {
    const program = new Program();
    const w = program.input('W');
    program.wrt = [w];
    let h = program.input('h', { gradient: NaN });
    for (let i = 0; i < times; i++) {
      const at = { scope, source: 'h = np.tanh(W * h + 1)' };
      const product = program.op('multiply', [w, h], { ...at, line: 2 });
      const one = program.constant('1');
      const sum = program.op('add', [product, one], { ...at, line: 2 });
      h = program.op('tanh', [sum], { ...at, line: 3, name: `h${i}` });
    }
    program.op('mean', [h], { name: 'loss', line: 4 });
    return program;
  }

  test('a loop is a scope, named by how often and where', () => {
    const graph = loop(50).graph();
    const path = '×50 · lines 2–3';
    expect(graph.fold(2)).toBe(path);
    expect(graph.scope(2)).toBe('');
    expect(graph.scopes.get(path)).toMatchObject({ nodes: 150, depth: 0 });
    expect(graph.fold(graph.count - 1)).toBe('');
  });

  test('folded it is one card, its constants with it', () => {
    const graph = loop(50).graph();
    const items = itemsOf(graph, new Set(['×50 · lines 2–3']));
    // The parameter, the data, the loop and the loss.
    expect(items.count).toBe(4);
    expect(Math.max(...items.size)).toBe(150 + 50);
  });

  test('a loop in a scope stands in that scope', () => {
    const graph = loop(10, 'rnn').graph();
    const path = 'rnn/×10 · lines 2–3';
    expect(graph.fold(2)).toBe(path);
    expect(graph.scopes.get(path)).toMatchObject({ parent: 'rnn', depth: 1 });
  });

  test('a few steps are read as they stand', () => {
    expect(loop(3).graph().scopes.size).toBe(0);
  });
});
