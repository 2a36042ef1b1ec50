/**
 * What comes from the kernel or out of a saved notebook is not trusted. It is checked
 * here by the schema that `extension/wire.py` writes, as in
 * `workbench/core/schema.py`; an error says where it is wrong, and how.
 */

import document from './schema.json';

/** A message or file that this page cannot draw, and why. */
export class PictureError extends Error {
  override name = 'PictureError';
}

/** JSON Schema, and keywords of ours, which `protocol/fields.py` explains at `Meta`. */
interface ISchema {
  $ref?: string;
  type?: string;
  enum?: string[];
  anyOf?: ISchema[];
  oneOf?: ISchema[];
  discriminator?: string;
  properties?: Record<string, ISchema>;
  required?: string[];
  items?: ISchema;
  minItems?: number;
  maxItems?: number;
  most?: string;
  maxLength?: number;
  encoded?: string;
  minimum?: number;
  maximum?: number;
  below?: string;
  sizes?: string;
  default?: unknown;
  choose?: [string, unknown, unknown];
}

/** How long a column must be, and what it may hold: a number, or what is counted. */
export interface IColumnRule {
  dtype: string;
  length: string | null;
  low: number | null;
  below: string | number | null;
  optional: boolean;
}

type Sizes = Readonly<Record<string, number>>;

const DEFINITIONS = document.$defs as unknown as Record<string, ISchema>;
for (const schema of Object.values(DEFINITIONS)) {
  linkReferences(schema);
}
export const COLUMN_RULES: Record<string, IColumnRule> = document.columns;

/** The most nodes of which a page takes indices where it does not know the graph. */
const MOST_NODES = DEFINITIONS['Header'].properties!['nodes'].maximum!;

/** Data that is not as declared; the place is added on the way out of it. */
class Mismatch extends Error {
  place = '';
}

/** Data of a type of `protocol.ts`, without what that type does not have. */
export function read(name: string, value: unknown, whole: string): unknown {
  try {
    return check(DEFINITIONS[name], value, { nodes: MOST_NODES });
  } catch (error) {
    if (error instanceof Mismatch) {
      throw new PictureError(`${error.place.slice(1) || whole} ${error.message}`);
    }
    throw error;
  }
}

/** The words by which the types of a union differ. */
export function tagsOf(name: string): readonly string[] {
  return taggedOptions(DEFINITIONS[name]).flatMap(([words]) => words);
}

function taggedOptions({ oneOf, discriminator }: ISchema): [string[], ISchema][] {
  return oneOf!.map(one => [one.properties![discriminator!].enum!, one]);
}

/** Put the definitions, which stand before, in place of the references to them. */
function linkReferences(schema: ISchema): ISchema {
  const { $ref, ...own } = schema;
  if ($ref !== undefined) {
    return { ...DEFINITIONS[$ref.slice('#/$defs/'.length)], ...own };
  }
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    schema.properties![name] = linkReferences(field);
  }
  schema.items &&= linkReferences(schema.items);
  schema.anyOf &&= schema.anyOf.map(linkReferences);
  schema.oneOf &&= schema.oneOf.map(linkReferences);
  return schema;
}

function check(schema: ISchema, value: unknown, sizes: Sizes): unknown {
  const { type, enum: words, anyOf, oneOf } = schema;
  if (anyOf !== undefined) {
    return value === null || value === undefined ? null : check(anyOf[0], value, sizes);
  }
  if (oneOf !== undefined) {
    return checkUnion(schema, value, sizes);
  }
  if (words !== undefined) {
    return checkWord(words, value);
  }
  switch (type) {
    case 'object':
      return checkObject(schema, value, sizes);
    case 'array':
      return checkList(schema, value, sizes);
    case 'string':
      return checkText(schema, value);
    case 'integer':
      return checkInteger(schema, value, sizes);
    case 'number':
      return checkNumber(value);
    case 'boolean':
      if (typeof value !== 'boolean') {
        throw new Mismatch('is neither true nor false');
      }
      return value;
    default:
      return value;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The fields of an object; of anything else, none. */
export function fieldsOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}

function checkIsObject(value: unknown): Record<string, unknown> {
  if (!isObject(value)) {
    throw new Mismatch('is not an object');
  }
  return value;
}

function checkObject(schema: ISchema, value: unknown, sizes: Sizes): unknown {
  const data = checkIsObject(value);
  if (schema.properties === undefined) {
    return data;
  }
  const found: Record<string, unknown> = {};
  let name = '';
  try {
    for (name in schema.properties) {
      const field = schema.properties[name];
      const item = Object.hasOwn(data, name) ? data[name] : field.default;
      if (item !== undefined) {
        found[name] = check(field, item, sizes);
      } else if (field.choose !== undefined) {
        const [by, yes, no] = field.choose;
        found[name] = found[by] === true ? yes : no;
      } else if (schema.required!.includes(name)) {
        // A notebook that a browser's Python wrote lacks what is null.
        if (field.anyOf === undefined) {
          throw new Mismatch('is missing');
        }
        found[name] = null;
      }
      if (field.sizes !== undefined) {
        sizes = { ...sizes, [field.sizes]: found[name] as number };
      }
    }
  } catch (error) {
    throw addPlace(error, `.${name}`);
  }
  return found;
}

function checkUnion(schema: ISchema, value: unknown, sizes: Sizes): unknown {
  const tag = schema.discriminator!;
  const kind = checkIsObject(value)[tag];
  const options = taggedOptions(schema);
  const option = options.find(([words]) => words.some(word => word === kind));
  if (option === undefined) {
    const words = options.flatMap(([some]) => some);
    throw addPlace(new Mismatch(`is ${quote(kind)}, not one of ${listWords(words)}`), `.${tag}`);
  }
  return check(option[1], value, sizes);
}

function checkList(schema: ISchema, value: unknown, sizes: Sizes): unknown[] {
  if (!Array.isArray(value)) {
    throw new Mismatch('is not a list');
  }
  const { minItems = 0, most } = schema;
  const maxItems = most === undefined ? schema.maxItems! : sizes[most];
  if (value.length < minItems || value.length > maxItems) {
    const bound = value.length < minItems ? `at least ${minItems}` : `at most ${maxItems}`;
    throw new Mismatch(`has ${value.length} entries; this page takes ${bound}`);
  }
  const found: unknown[] = [];
  try {
    for (const item of value as unknown[]) {
      found.push(check(schema.items!, item, sizes));
    }
  } catch (error) {
    throw addPlace(error, `[${found.length}]`);
  }
  return found;
}

function addPlace(error: unknown, key: string): unknown {
  if (error instanceof Mismatch) {
    error.place = key + error.place;
  }
  return error;
}

/** What shows nothing, or turns the text around it: all but tabs and new lines. */
const UNSEEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\p{Cs}/gu;

/** A text as it is read and copied: what would not be seen is written out. */
function checkText({ maxLength, encoded }: ISchema, value: unknown): string {
  if (typeof value !== 'string') {
    throw new Mismatch('is not text');
  }
  if (value.length > maxLength!) {
    const count = countCharacters(value);
    if (count > maxLength!) {
      throw new Mismatch(`has ${count} characters; this page takes at most ${maxLength!}`);
    }
  }
  return encoded === undefined ? escapeUnseen(value) : value;
}

/** The length of a text in characters of Unicode, as JSON Schema and Python count it. */
function countCharacters(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    count -= text.codePointAt(i)! > 0xffff ? 1 : 0;
  }
  return count;
}

/** A text in which what would not be seen is written out. */
export function escapeUnseen(text: string): string {
  return text.replace(UNSEEN, escapeCharacter);
}

/** A character as Python and JavaScript write it in a string. */
function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function checkWord(words: readonly string[], value: unknown): string {
  if (typeof value !== 'string' || !words.includes(value)) {
    throw new Mismatch(`is ${quote(value)}, not one of ${listWords(words)}`);
  }
  return value;
}

function checkInteger(schema: ISchema, value: unknown, sizes: Sizes): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) {
    throw new Mismatch('is not a whole number');
  }
  const { minimum = -Infinity, maximum = Infinity, below } = schema;
  const high = below === undefined ? maximum : sizes[below] - 1;
  if (value < minimum || value > high) {
    const end = high < Infinity ? ` to ${high}` : '';
    throw new Mismatch(`is ${value}; it must be from ${minimum}${end}`);
  }
  return value;
}

/** A number that is neither NaN nor infinite: JSON has no word for those. */
function checkNumber(value: unknown): number {
  if (typeof value !== 'number') {
    throw new Mismatch('is not a number');
  }
  if (!Number.isFinite(value)) {
    throw new Mismatch(`is ${value}, not a finite number`);
  }
  return value;
}

function listWords(words: readonly string[]): string {
  const more = words.length - NAMED;
  const named = words.slice(0, NAMED).map(word => JSON.stringify(word));
  return named.join(', ') + (more > 0 ? ` or ${more} more` : '');
}

/** So many words are named of those that may stand at a place. */
const NAMED = 12;

/** What an error quotes: of anything, however long, deep or odd, a short text. */
export function quote(value: unknown): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  }
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? 'a list' : 'an object';
  }
  return String(value);
}
