/** Formulas: as text, or typeset where the page has what typesets TeX. */

import { type JSX, useLayoutEffect, useRef } from 'react';

import { element } from './dom';

/** Typesets the TeX in an element, between dollars. */
export type Typeset = (node: HTMLElement) => void;

export interface IFormulaProps {
  /** A formula in each line, in code or as rules are written: "∂loss/∂h = g · x₁ᵀ". */
  text: string;
  className: string;
  typeset: Typeset | null;
}

export function Formula({ text, className, typeset }: IFormulaProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const node = host.current;
    if (typeset === null || node === null) {
      return;
    }
    // Not React's: what typesets puts other elements there.
    const lines = text.split('\n').filter(line => line !== '');
    node.replaceChildren(...lines.map(line => element('div', { text: `$${writeTex(line)}$` })));
    typeset(node);
  }, [text, typeset]);
  return typeset === null ? (
    <code className={className} aria-live="polite" title={text}>
      {text}
    </code>
  ) : (
    <div
      ref={host}
      className={`${className} workbench-mod-typeset`}
      aria-live="polite"
      title={text}
    />
  );
}

const NAME = String.raw`[\p{L}_]['′\w\p{L}]*`;
const TOKEN = new RegExp(
  String.raw`∂(${NAME})\/∂(${NAME})|(${NAME})(?=\()|(${NAME})|(\d[\d.]*(?:e-?\d+)?)` +
    String.raw`|([₀-₉]+)|([⁰¹²³⁴-⁹]+)|(\^)|(\s+)|(.)`,
  'gu'
);

/** What stands for a character in TeX. */
const SIGNS: Readonly<Record<string, string>> = {
  '*': '\\cdot ',
  '·': '\\cdot ',
  '@': '\\,',
  '−': '-',
  Σ: '\\textstyle\\sum ',
  '√': '\\surd ',
  '→': '\\to '
};
const PLAIN = /[-+=()[\],.:;/<>|!?']/;
const ESCAPED = /[{}%#&$]/;

/**
 * A formula as TeX. Names are letters with subscripts, or upright words; of whatever else
 * there is nothing becomes a command of TeX but what is written here: labels are text.
 */
export function writeTex(text: string): string {
  const made: string[] = [];
  let depth = 0;
  // Where a power in brackets ends, by their depth.
  const powers: number[] = [];
  let isPower = false;
  for (const token of splitFormula(text)) {
    const isOpen = token.text === '(';
    depth += isOpen ? 1 : 0;
    if (isPower && isOpen) {
      powers.push(depth);
      made.push('{');
    } else if (token.text === ')' && powers.at(-1) === depth) {
      powers.pop();
      made.push('}');
    } else if (token.isPower) {
      made.push('^');
    } else {
      made.push(isPower ? `{${token.tex}}` : token.tex);
    }
    depth -= token.text === ')' ? 1 : 0;
    isPower = token.isPower;
  }
  return made.join('') + '}'.repeat(powers.length) + (isPower ? '{}' : '');
}

interface IToken {
  text: string;
  tex: string;
  isPower: boolean;
}

function splitFormula(text: string): IToken[] {
  // Of a name that was a transpose the mark is a power: "W2ᵀ".
  const plain = text.replaceAll('ᵀ', '⊤').replaceAll(/\s*\*\*\s*/g, '^');
  return [...plain.matchAll(TOKEN)].map(found => {
    const parts: (string | undefined)[] = found;
    const [all = '', of, by = '', call, name, number, below, above, power, space, sign = ''] =
      parts;
    const tex =
      of !== undefined
        ? `\\frac{\\partial ${writeName(of)}}{\\partial ${writeName(by)}}`
        : call !== undefined
          ? `\\operatorname{${escapeLetters(call)}}`
          : name !== undefined
            ? writeName(name)
            : number !== undefined
              ? number
              : below !== undefined
                ? `_{${all.normalize('NFKC')}}`
                : above !== undefined
                  ? `^{${all.normalize('NFKC')}}`
                  : space !== undefined
                    ? '\\;'
                    : sign === '⊤'
                      ? '^{\\top}'
                      : (SIGNS[sign] ??
                        (PLAIN.test(sign) ? sign : ESCAPED.test(sign) ? `\\${sign}` : ''));
    return { text: all, tex, isPower: power !== undefined };
  });
}

/** "W2" as W with a subscript, "loss" upright. */
function writeName(name: string): string {
  const found = /^(\p{L})(\d*)([′']*)$/u.exec(name);
  if (found === null) {
    return `\\mathrm{${escapeLetters(name)}}`;
  }
  const [, letter, digits, primes] = found;
  return `${letter}${digits === '' ? '' : `_{${digits}}`}${"'".repeat(primes.length)}`;
}

function escapeLetters(name: string): string {
  return name.replaceAll('_', '\\_').replaceAll(/['′]/g, '');
}
