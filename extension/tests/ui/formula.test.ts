// @vitest-environment jsdom
import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { expect, test, vi } from 'vitest';

import { Formula, writeTex } from '../../src/ui/formula';

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
  ['tanh(a_1)', '\\operatorname{tanh}(\\mathrm{a\\_1})'],
  ['½ · g / y', '\\tfrac{1}{2}\\;\\cdot \\;g\\;/\\;y'],
  ['−g · x⁻ᵀ', '-g\\;\\cdot \\;x^{-\\top}'],
  ['Φ⁻¹(x₀)', 'Φ^{-1}(x_{0})'],
  ["yⁿ⁻ᵏ / p'(y)", "y^{n-k}\\;/\\;p'(y)"],
  ['ψ⁽ⁿ⁺¹⁾(x)', 'ψ^{(n+1)}(x)'],
  ['Ai′ f″', "\\mathrm{Ai}'\\;f''"],
  ['J₀(x)', 'J_{0}(x)'],
  ['[2 ≠ 0]', '[2\\;\\neq \\;0]'],
  ['~b', '{\\sim}b'],
  ['c["k"]', 'c[\\text{"}k\\text{"}]'],
  ["einsum('ij_,jk->ik', a)", "\\operatorname{einsum}(\\texttt{'ij\\_,jk->ik'},\\;a)"],
  ['2 ** sin(x) * y', '2^{\\operatorname{sin}(x)}\\;\\cdot \\;y'],
  ['x ** W[0]', 'x^{W[0]}'],
  ['x ** -2 + 1', 'x^{-2}\\;+\\;1'],
  ['x ** y ** z', 'x^{y^{z}}'],
  ['x ** (y + 1) ** 2', 'x^{(y\\;+\\;1)^{2}}'],
  ['x ** -(a)', 'x^{-(a)}'],
  ['x ** a.T', 'x^{a.T}'],
  ['x²ᵀ', 'x^{2\\top}'],
  ['W2ᵀᵀ', 'W_{2}^{\\top \\top}'],
  ['f(x)² ** 2', 'f(x)^{2}{}^{2}'],
  ['(x^2)', '(x^{2})'],
  ['x^', 'x^{}'],
  ['∂sum 2/∂x', '\\frac{\\partial \\mathrm{sum}\\;2}{\\partial x}'],
  ['∂sum/∂t1₀', '\\frac{\\partial \\mathrm{sum}}{\\partial t_{1,0}}']
])('%s', (text, tex) => {
  expect(writeTex(text)).toBe(tex);
});

test('a label is no command of TeX', () => {
  expect(writeTex('\\href{a}$b$')).toBe('\\backslash \\mathrm{href}\\{a\\}\\$b\\$');
});

test('brackets of a power that never close are closed', () => {
  const text = writeTex('x^(a') ?? '';
  expect(text.split('{').length).toBe(text.split('}').length);
});

/** The signs that the rules of the ops are written with. */
const SIGNS = "'()+,-/:=[]^|±²·¹½ȳΣΦζλπσψᴴᵀᵏ′″⁺⁻⁽⁾ⁿ₀₁₂₃∂−∘√∫≠⌊⌋";

test('no sign of a rule is lost', () => {
  const without = writeTex('a  b');
  const lost = Array.from(SIGNS).filter(sign =>
    [null, without].includes(writeTex(`a ${sign} b`)?.replace(' }', '}') ?? null)
  );
  expect(lost).toEqual([]);
});

test('a formula with a sign that has no TeX is shown as text, and nothing in it', () => {
  expect(writeTex('a ☃ b')).toBeNull();
  const host = document.createElement('div');
  const typeset = vi.fn((node: HTMLElement) => node.classList.add('typeset'));
  const root = createRoot(host);
  flushSync(() =>
    root.render(
      createElement(Formula, { className: 'f', text: 'a ☃ $b$\nc', typeset })
    )
  );
  expect([...host.querySelectorAll('.f > div')].map(row => row.outerHTML)).toEqual([
    '<div>a ☃ $b$</div>',
    '<div class="typeset">$c$</div>'
  ]);
  root.unmount();
});
