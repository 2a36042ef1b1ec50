/**
 * Reading untrusted data one field at a time: each function returns the value in
 * its type, or throws a PictureError that says where it stood and what was wrong.
 */

/** A message or file that this page cannot draw, and why. */
export class PictureError extends Error {
  override name = 'PictureError';
}

/** What an error quotes: of anything, however long, deep or odd, a short text. */
export function quoted(value: unknown): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  }
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? 'a list' : 'an object';
  }
  return String(value);
}

/** The largest things that a page takes; beyond them a browser would stall. */
export const LIMITS = {
  nodes: 1_000_000,
  edges: 4_000_000,
  strings: 1_000_000,
  characters: 100_000,
  overrides: 10_000,
  found: 10_000,
  bins: 10_000
} as const;

export function record(value: unknown, where: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new PictureError(`${where} is not an object`);
  }
  return value as Record<string, unknown>;
}

export function list(value: unknown, where: string, most: number): unknown[] {
  if (!Array.isArray(value)) {
    throw new PictureError(`${where} is not a list`);
  }
  if (value.length > most) {
    throw new PictureError(
      `${where} has ${value.length} entries; this page takes at most ${most}`
    );
  }
  return value;
}

/** What shows nothing, or turns the text around it: all but tabs and new lines. */
const UNSEEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\p{Cs}/gu;

/** A text as it is read and copied: what would not be seen is written out. */
export function text(value: unknown, where: string): string {
  if (typeof value !== 'string') {
    throw new PictureError(`${where} is not text`);
  }
  if (value.length > LIMITS.characters) {
    throw new PictureError(
      `${where} has ${value.length} characters; this page takes at most ` +
        `${LIMITS.characters}`
    );
  }
  return value.replace(UNSEEN, written);
}

/** A character as Python and JavaScript write it in a string. */
function written(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

export function number(value: unknown, where: string): number {
  if (typeof value !== 'number') {
    throw new PictureError(`${where} is not a number`);
  }
  return value;
}

/** A number that is neither NaN nor infinite: JSON has no word for those. */
export function finite(value: unknown, where: string): number {
  const found = number(value, where);
  if (!Number.isFinite(found)) {
    throw new PictureError(`${where} is ${found}, not a finite number`);
  }
  return found;
}

export function integer(value: unknown, where: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) {
    throw new PictureError(`${where} is not a whole number`);
  }
  return value;
}

export function boolean(value: unknown, where: string): boolean {
  if (typeof value !== 'boolean') {
    throw new PictureError(`${where} is neither true nor false`);
  }
  return value;
}

export function count(value: unknown, where: string, most: number): number {
  const found = integer(value, where);
  if (found < 0 || found > most) {
    throw new PictureError(`${where} is ${found}; this page takes 0 to ${most}`);
  }
  return found;
}

export function within(value: number, low: number, end: number, where: string): void {
  if (value < low || value >= end) {
    throw new PictureError(
      `${where} is ${value}; it must be from ${low} to ${end - 1}`
    );
  }
}

export function nodeList(value: unknown, where: string, nodes: number): number[] {
  return list(value, where, LIMITS.nodes).map((item, i) => {
    const node = integer(item, `${where}[${i}]`);
    within(node, 0, nodes, `${where}[${i}]`);
    return node;
  });
}

export function oneOf<T extends string>(
  value: unknown,
  choices: readonly T[],
  where: string
): T {
  const found = choices.find(choice => choice === value);
  if (found === undefined) {
    throw new PictureError(
      `${where} is ${quoted(value)}, not one of ` +
        choices.map(choice => JSON.stringify(choice)).join(', ')
    );
  }
  return found;
}

export function optional<T>(
  value: unknown,
  read: (value: unknown, where: string) => T,
  where: string
): T | null {
  return value === null ? null : read(value, where);
}

/** The sequence number of a message that is not understood. */
export function sequenceOf(content: unknown): number | null {
  if (typeof content !== 'object' || content === null) {
    return null;
  }
  const { seq } = content as { seq?: unknown };
  return typeof seq === 'number' && Number.isInteger(seq) ? seq : null;
}
