/** Formulas: as text, or typeset where the page has what typesets TeX. */

import { type JSX, useLayoutEffect, useRef } from 'react';

import { element } from './dom';
import { shortenConstants } from './numbers';

/** Typesets the TeX in an element, between dollars. */
export type Typeset = (node: HTMLElement) => void;

export interface IFormulaProps {
  /** A formula in each line, in code or as rules are written: "∂loss/∂h = g · x₁ᵀ". */
  text: string;
  className: string;
  typeset: Typeset | null;
  /** Whether long constants are told in few digits, and in full where one points. */
  isShort?: boolean;
}

export function Formula(props: IFormulaProps): JSX.Element {
  const { text: whole, className, typeset, isShort = false } = props;
  const text = isShort ? shortenConstants(whole) : whole;
  const host = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const node = host.current;
    if (typeset === null || node === null) {
      return;
    }
    // Not React's: what typesets puts other elements there.
    node.replaceChildren();
    for (const line of text.split('\n').filter(one => one !== '')) {
      const tex = writeTex(line);
      const row = element('div', { text: tex === null ? line : `$${tex}$` });
      node.append(row);
      if (tex !== null) {
        typeset(row); // alone: dollars in the text of another line are no formula
      }
    }
  }, [text, typeset]);
  return typeset === null ? (
    <code className={className} aria-live="polite" title={whole}>
      {text}
    </code>
  ) : (
    <div
      ref={host}
      className={`${className} workbench-mod-typeset`}
      aria-live="polite"
      title={whole}
    />
  );
}

/** Longer lines are not typeset; the kernel writes none. */
const LONGEST = 2000;

/** Digits, signs and letters above the line and below it. */
const ABOVE = '⁰¹²³⁴-⁹⁺⁻⁼⁽⁾ⁱⁿᴬ-ᵡ';
const BELOW = '₀-₉₊₋₌₍₎ₐ-ₜᵢ-ᵥⱼ';
const LETTER = `(?![${ABOVE}${BELOW}])`;
const NAME = `${LETTER}[\\p{L}_](?:${LETTER}[\\w\\p{L}])*[${BELOW}]*['′″]*`;
const TOKEN = new RegExp(
  [
    String.raw`∂(?<of>[^∂=]*?)\/∂(?<by>${NAME})`,
    String.raw`(?<call>${NAME})(?=\()`,
    `(?<name>${NAME})`,
    String.raw`(?<number>\d[\d.]*(?:e[-+]?\d+)?)`,
    `(?<below>[${BELOW}]+)`,
    `(?<above>[${ABOVE}]+)`,
    String.raw`(?<power>\s*(?:\*\*|\^)\s*)`,
    String.raw`(?<space>\s+)`,
    String.raw`(?<quoted>'[\w\s.,:;<>=+*\/()|!?[\]-]*')`,
    '(?<sign>.)'
  ].join('|'),
  'gu'
);

/** What stands for a character in TeX. */
const SIGNS: Readonly<Record<string, string>> = {
  '*': '\\cdot ',
  '·': '\\cdot ',
  '@': '\\,',
  '−': '-',
  '±': '\\pm ',
  '×': '\\times ',
  '∘': '\\circ ',
  '½': '\\tfrac{1}{2}',
  '√': '\\surd ',
  '∂': '\\partial ',
  Σ: '\\textstyle\\sum ',
  '≠': '\\neq ',
  '≤': '\\leq ',
  '≥': '\\geq ',
  '≈': '\\approx ',
  '∈': '\\in ',
  '∞': '\\infty ',
  '∫': '\\int ',
  '→': '\\to ',
  '…': '\\ldots ',
  '‖': '\\Vert ',
  '⌊': '\\lfloor ',
  '⌋': '\\rfloor ',
  '⌈': '\\lceil ',
  '⌉': '\\rceil ',
  '~': '{\\sim}',
  '\\': '\\backslash ',
  '′': "{}'",
  '″': "{}''",
  "'": "\\text{'}",
  '"': '\\text{"}'
};
const PLAIN = /[-+=()[\],.:;/<>|!?]/;
const ESCAPED = /[{}%#&$]/;

/**
 * A formula as TeX; null where a sign in it has none, which is shown as text then. Names
 * are letters with subscripts, or upright words; of whatever else there is nothing becomes
 * a command of TeX but what is written here: labels are text.
 */
export function writeTex(text: string): string | null {
  const tokens = text.length > LONGEST ? null : splitFormula(text);
  return tokens === null ? null : new Writer(tokens).writeUntil(null);
}

type Kind = 'of' | 'call' | 'name' | 'number' | 'below' | 'above' | 'power' | 'other';

interface IToken {
  kind: Kind;
  text: string;
  tex: string;
}

/** The pieces of a formula; null where one of them cannot be written. */
function splitFormula(text: string): IToken[] | null {
  const tokens: IToken[] = [];
  for (const { 0: all, groups = {} } of text.matchAll(TOKEN)) {
    const parts: Readonly<Record<string, string | undefined>> = groups;
    const kind = KINDS.find(one => parts[one] !== undefined) ?? 'other';
    const tex = writeToken(kind, all, parts);
    if (tex === null) {
      return null;
    }
    tokens.push({ kind, text: all, tex });
  }
  return tokens;
}

const KINDS = ['of', 'call', 'name', 'number', 'below', 'above', 'power'] as const;

function writeToken(
  kind: Kind,
  all: string,
  { of = '', by = '', space, quoted }: Readonly<Record<string, string | undefined>>
): string | null {
  switch (kind) {
    case 'of': {
      const above = writeTex(of);
      return above === null
        ? null
        : `\\frac{\\partial ${above}}{\\partial ${writeName(by)}}`;
    }
    case 'call':
      return writeName(all, 'operatorname');
    case 'name':
      return writeName(all);
    case 'number':
      return all;
    case 'below':
      return `_{${lineOf(all)}}`;
    case 'above':
      return `^{${lineOf(all)}}`;
    case 'power':
      return '';
    case 'other':
      return space !== undefined
        ? '\\;'
        : quoted !== undefined
          ? `\\texttt{${escapeLetters(quoted)}}`
          : (SIGNS[all] ?? (PLAIN.test(all) ? all : ESCAPED.test(all) ? `\\${all}` : null));
  }
}

/** What stands above or below the line, as it is written on the line. */
function lineOf(scripts: string): string {
  const plain = scripts.replaceAll('ᵀ', '⊤').normalize('NFKC').replaceAll('−', '-');
  return plain.replaceAll('⊤', '\\top ').trim();
}

const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']' };

/** Writes pieces one after another, and of a power all that belongs to its exponent. */
class Writer {
  constructor(private readonly _tokens: readonly IToken[]) {}

  /** Write up to a bracket that closes, which stays; null: up to the end. */
  writeUntil(closing: string | null): string {
    let made = '';
    let before: Kind | null = null;
    for (let next = this._next; next && next.text !== closing; next = this._next) {
      made += separate(before, next.kind) + this._write();
      before = next.kind;
    }
    return made;
  }

  private get _next(): IToken | undefined {
    return this._tokens[this._at];
  }

  /** Write the next piece, brackets with what is in them. */
  private _write(): string {
    const { kind, text, tex } = this._tokens[this._at++];
    if (kind === 'power') {
      return `^{${this._writeExponent()}}`;
    }
    const closing = CLOSING[text] as string | undefined;
    return closing === undefined ? tex : tex + this.writeUntil(closing) + this._close(closing);
  }

  private _close(closing: string): string {
    const isThere = this._next?.text === closing;
    this._at += isThere ? 1 : 0;
    return isThere ? closing : '';
  }

  /** Write signs, a value with its call or its index, and further powers. */
  private _writeExponent(): string {
    let signs = '';
    while (this._next && '+-−~√'.includes(this._next.text)) {
      signs += this._write();
    }
    const first = this._next;
    if (first === undefined || first.text === ')' || first.text === ']') {
      return signs;
    }
    if (first.text === '(') {
      this._at++;
      const inner = this.writeUntil(')');
      const end = this._close(')');
      const rest = this._writeRest(first);
      // Alone they need no brackets: that it stands above the line shows what they hold.
      return signs === '' && rest === '' ? inner : `${signs}(${inner}${end}${rest}`;
    }
    return signs + this._write() + this._writeRest(first);
  }

  /** Write what belongs to a value: a call, an index, an attribute, a power. */
  private _writeRest(first: IToken): string {
    let made = '';
    let { kind: before } = first;
    for (let next = this._next; next && this._belongs(next, first); next = this._next) {
      made += separate(before, next.kind) + this._write();
      made += next.text === '.' ? this._write() : '';
      before = next.kind;
    }
    return made;
  }

  private _belongs({ kind, text }: IToken, { kind: first }: IToken): boolean {
    const { kind: after = null } = this._tokens.at(this._at + 1) ?? {};
    return (
      kind === 'power' ||
      kind === 'above' ||
      kind === 'below' ||
      (text === '(' && first === 'call') ||
      (text === '[' && first !== 'number') ||
      (text === '.' && (after === 'name' || after === 'call'))
    );
  }

  private _at = 0;
}

/** What keeps two scripts apart that stand one after another. */
function separate(before: Kind | null, next: Kind): string {
  const isAbove = (one: Kind | null): boolean => one === 'above' || one === 'power';
  return isAbove(before) && (isAbove(next) || next === 'below') ? '{}' : '';
}

/** "W2" as W with a subscript, "loss" upright. */
function writeName(name: string, command: 'mathrm' | 'operatorname' = 'mathrm'): string {
  const parts = new RegExp(`^(.*?)(\\d*)([${BELOW}]*)(['′″]*)$`, 'u').exec(name);
  const [, stem, digits, below, primes] = parts ?? ['', name, '', '', ''];
  const isLetter = /^\p{L}$/u.test(stem);
  const under = [isLetter ? digits : '', lineOf(below)].filter(one => one !== '').join(',');
  return (
    (isLetter ? stem : `\\${command}{${escapeLetters(stem + digits)}}`) +
    (under === '' ? '' : `_{${under}}`) +
    "'".repeat(primes.replaceAll('″', "''").length)
  );
}

function escapeLetters(name: string): string {
  return name.replaceAll('_', '\\_');
}
