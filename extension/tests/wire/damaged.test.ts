/** Saved pictures with damage: drawn, or refused in our own words, as the kernel does. */

import { expect, test } from 'vitest';

import damaged from '../../../tests/session/wire/golden/damaged.json';
import golden from '../../../tests/session/wire/golden/snapshot.json';
import { Graph } from '../../src/model/graph';
import { PictureError } from '../../src/wire/schema';
import { random } from '../helpers/programs';
import { savedWithRuns } from '../helpers/runs';

const DEEP = '['.repeat(3000) + ']'.repeat(3000);
/** As a file may hold it. */
const JUNK = [
  ...['null', 'true', 'false', '-1', '0', '1', '2', '7', '-0.5', '1e308', '1e999'],
  ...['2147483648', '-2147483648', '9007199254740992', '""', '"x"', '"\\ud800"'],
  ...['"\\u0000"', '"<b>x</b>"', '"AAAA"', '"===="', '"é"', '[]', '[[]]', '[null]'],
  ...['{}', '{"a": 1}', '{"node": 0}', '{"kind": "node", "node": -1}', '{"length": 3}'],
  ...['{"toString": 1, "valueOf": 2}', '{"__proto__": {"nodes": 1}}', '[0, 0, 0, 0]'],
  ...[DEEP, `"${'x'.repeat(150_000)}"`]
];

type Place = [Record<string | number, unknown>, string | number];

/** Every place of a tree of JSON, with what holds it. */
function places(data: object): Place[] {
  const found: Place[] = [];
  const open: object[] = [data];
  while (open.length > 0) {
    const holder = open.pop() as Record<string, unknown>;
    for (const key of Object.keys(holder)) {
      found.push([holder, key]);
      const child = holder[key];
      if (typeof child === 'object' && child !== null) {
        open.push(child);
      }
    }
  }
  return found;
}

test('20,000 damaged pictures raise no error but ours', () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const next = random(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(next() * from.length)];
  const whole = [golden, savedWithRuns()].map(picture => JSON.stringify(picture));
  let refused = 0;
  for (let k = 0; k < 20_000; k++) {
    const data = JSON.parse(pick(whole)) as object;
    for (let damage = 0; damage < 1 + 2 * next(); damage++) {
      const [holder, key] = pick(places(data));
      const old = holder[key];
      const how = next();
      if (how < 0.6) {
        holder[key] = JSON.parse(pick(JUNK));
      } else if (Array.isArray(holder) && how < 0.75) {
        holder.splice(Number(key), 1);
      } else if (how < 0.75) {
        Reflect.deleteProperty(holder, key);
      } else if (typeof old === 'number') {
        holder[key] = old + pick([-1, 1, 0.5, 2 ** 32]);
      } else if (typeof old === 'string') {
        const at = Math.floor(next() * old.length);
        holder[key] = old.slice(0, at) + pick(['', 'A', '=', '\n']) + old.slice(at + 1);
      } else if (Array.isArray(old)) {
        old.push(old[0]);
      }
    }
    try {
      Graph.fromSaved(data);
    } catch (error) {
      if (!(error instanceof PictureError) || error.message.length > 400) {
        throw new Error(`picture ${k} of seed ${seed}`, { cause: error });
      }
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(8000);
  expect(refused).toBeLessThan(20_000);
}, 120_000);

/** As in `golden/write.py`: the last two on either side of what most texts may have. */
const LONGEST = [
  'x'.repeat(100_001),
  new Array(10_001).fill(0),
  '😀'.repeat(20_000),
  '😀'.repeat(20_001)
];

test.each(Object.entries(damaged.verdicts))(
  'the kernel and the page refuse the same at %s',
  (path, marks) => {
    const steps = path.split('.');
    const last = steps.pop()!;
    const judge = (change: (holder: Record<string, unknown>) => void): string => {
      const picture = structuredClone(golden) as unknown as Record<string, unknown>;
      const holder = steps.reduce((at, step) => at[step] as typeof at, picture);
      change(holder);
      try {
        Graph.fromSaved(picture);
        return '.';
      } catch (error) {
        return error instanceof PictureError ? 'x' : String(error);
      }
    };
    const found = [
      judge(holder => {
        if (Array.isArray(holder)) {
          holder.splice(Number(last), 1);
        } else {
          Reflect.deleteProperty(holder, last);
        }
      }),
      ...[...(damaged.junk as unknown[]), ...LONGEST].map(junk =>
        judge(holder => {
          holder[last] = junk;
        })
      )
    ];
    expect(found.join('')).toBe(marks);
  }
);
