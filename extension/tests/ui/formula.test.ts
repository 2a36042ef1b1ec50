import { expect, test } from 'vitest';

import { writeTex } from '../../src/ui/formula';

test.each([
  [
    '∂loss/∂h = ∂loss/∂p W2ᵀ',
    '\\frac{\\partial \\mathrm{loss}}{\\partial h}\\;=\\;' +
      '\\frac{\\partial \\mathrm{loss}}{\\partial p}\\;W_{2}^{\\top}'
  ],
  ['g · (1 − h²)', 'g\\;\\cdot \\;(1\\;-\\;h^{2})'],
  ['t3 ** 2', 't_{3}^{2}'],
  ['x^(n − 1) + 1', 'x^{n\\;-\\;1}\\;+\\;1'],
  ['x^((a) b)', 'x^{(a)\\;b}'],
  ['tanh(a_1)', '\\operatorname{tanh}(\\mathrm{a\\_1})']
])('%s', (text, tex) => {
  expect(writeTex(text)).toBe(tex);
});

test('a label is no command of TeX', () => {
  expect(writeTex('\\href{a}$b$ ~')).toBe('\\mathrm{href}\\{a\\}\\$b\\$\\;');
});

test('brackets of a power that never close are closed', () => {
  const text = writeTex('x^(a');
  expect(text.split('{').length).toBe(text.split('}').length);
});
