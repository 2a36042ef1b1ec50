import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Kept, Latest, type Question, answerTo } from '../../src/model/latest';

describe('Latest', () => {
  let heard: string[];
  let asked: { name: string; signal: AbortSignal; at: number }[];
  let answers: Map<string, (answer: string | Error) => void>;
  let latest: Latest<string>;

  /** A question that is answered when `tell` says so. */
  const question =
    (name: string): Question<string> =>
    signal =>
      new Promise((resolve, reject) => {
        asked.push({ name, signal, at: Date.now() });
        answers.set(name, answer => {
          if (answer instanceof Error) {
            reject(answer);
          } else {
            resolve(answer);
          }
        });
      });
  const tell = async (name: string, answer: string | Error = name): Promise<void> => {
    answers.get(name)?.(answer);
    await vi.advanceTimersByTimeAsync(0);
  };
  const names = (): string[] => asked.map(({ name }) => name);

  beforeEach(() => {
    vi.useFakeTimers();
    heard = [];
    asked = [];
    answers = new Map();
    latest = new Latest<string>({
      take: answer => heard.push(answer),
      fail: error => heard.push(String(error)),
      settled: () => heard.push(latest.isWaiting ? 'waits' : 'rests')
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('fails with a question that throws, and with an answer that cannot be taken', async () => {
    latest.ask(() => {
      throw new Error('no kernel');
    });
    expect([heard, latest.isWaiting]).toEqual([['Error: no kernel'], false]);
    const reader = new Latest<string>({
      take: answer => {
        throw new Error(`unreadable ${answer}`);
      },
      fail: error => heard.push(String(error)),
      settled: () => heard.push('settled')
    });
    reader.askNext(question('a'));
    reader.askNext(question('b'));
    await tell('a');
    expect(names(), 'the next is asked').toEqual(['a', 'b']);
    await tell('b');
    expect(heard.slice(1)).toEqual([
      'Error: unreadable a',
      'settled',
      'Error: unreadable b',
      'settled'
    ]);
  });

  it('takes what is at hand at once, and waits for what is not', async () => {
    latest.ask(() => 'here');
    expect([heard, latest.isWaiting]).toEqual([['here'], false]);
    latest.ask(question('a'));
    expect(latest.isWaiting).toBe(true);
    await tell('a');
    expect([heard, latest.isWaiting]).toEqual([['here', 'a', 'rests'], false]);
    expect(asked[0].signal.aborted, 'it was done').toBe(false);
  });

  it('calls off what another question takes the place of', async () => {
    latest.ask(question('a'));
    latest.ask(question('b'));
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    await tell('a');
    expect(heard).toEqual([]);
    await tell('b');
    expect(heard).toEqual(['b', 'rests']);
  });

  it('asks next the last question that came meanwhile', async () => {
    for (const name of ['a', 'b', 'c']) {
      latest.askNext(question(name));
    }
    expect(names()).toEqual(['a']);
    await tell('a');
    expect(names()).toEqual(['a', 'c']);
    expect(heard).toEqual(['a', 'waits']);
    await tell('c');
    expect(heard).toEqual(['a', 'waits', 'c', 'rests']);
  });

  it('keeps a rhythm, and asks for the newest when it is time', async () => {
    latest.askNext(question('a'), 100);
    await tell('a');
    latest.askNext(question('b'), 100);
    await vi.advanceTimersByTimeAsync(60);
    latest.askNext(question('c'), 100);
    expect(names()).toEqual(['a']);
    await vi.advanceTimersByTimeAsync(40);
    expect(names()).toEqual(['a', 'c']);
    expect(asked[1].at - asked[0].at).toBe(100);
    latest.askNext(question('d'), 100);
    await tell('c');
    expect(names(), 'not at once after the answer').toEqual(['a', 'c']);
    await vi.advanceTimersByTimeAsync(100);
    expect(names()).toEqual(['a', 'c', 'd']);
  });

  it('asks after a time of quiet', async () => {
    latest.askLater(question('a'), 100);
    await vi.advanceTimersByTimeAsync(99);
    latest.askLater(question('b'), 100);
    await vi.advanceTimersByTimeAsync(99);
    expect(names()).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(names()).toEqual(['b']);
  });

  it('dropped, it asks and takes nothing, and knows no rhythm', async () => {
    latest.askNext(question('a'), 100);
    latest.askNext(question('b'), 100);
    latest.askLater(question('c'), 10);
    latest.drop();
    await tell('a');
    await vi.advanceTimersByTimeAsync(1000);
    expect([names(), heard, latest.isWaiting]).toEqual([['a'], [], false]);
    latest.ask(question('d'));
    await tell('d');
    latest.drop();
    latest.askNext(question('e'), 100);
    expect(names()).toEqual(['a', 'd', 'e']);
  });

  it('tells why there is no answer, and asks the next question all the same', async () => {
    latest.askNext(question('a'));
    latest.askNext(question('b'));
    await tell('a', new Error('no'));
    expect([heard, names()]).toEqual([['Error: no', 'waits'], ['a', 'b']]);
  });

  it('what takes an answer may ask, or drop what waits', async () => {
    const chain = new Latest<string>({
      take: answer => {
        heard.push(answer);
        if (answer === 'a') {
          chain.ask(question('b'));
        } else {
          chain.drop();
        }
      }
    });
    chain.ask(question('a'));
    await tell('a');
    chain.askNext(question('c'));
    await tell('b');
    expect([heard, names()]).toEqual([['a', 'b'], ['a', 'b']]);
  });

  it('stops a request whose answer is not wanted, and no other', async () => {
    const stop = vi.fn();
    latest.ask(signal => answerTo({ answer: Promise.resolve('a'), stop }, signal));
    await vi.advanceTimersByTimeAsync(0);
    latest.drop();
    expect([heard, stop.mock.calls.length]).toEqual([['a', 'rests'], 0]);
    latest.ask(signal => answerTo({ answer: new Promise(() => undefined), stop }, signal));
    latest.drop();
    expect(stop).toHaveBeenCalledTimes(1);
  });
});

describe('Kept', () => {
  it('lets go of what was not looked at for the longest time', () => {
    const gone: string[] = [];
    const kept = new Kept<number, string>(2, value => gone.push(value));
    kept.set(1, 'a');
    kept.set(2, 'b');
    expect(kept.get(1)).toBe('a');
    kept.set(3, 'c');
    expect([gone, kept.values]).toEqual([['b'], ['a', 'c']]);
    expect([kept.get(2), kept.get(3)]).toEqual([undefined, 'c']);
    kept.clear();
    expect([gone, kept.values]).toEqual([['b', 'a', 'c'], []]);
  });

  it('an entry that is set again stays in its place', () => {
    const gone: number[] = [];
    const kept = new Kept<string, number>(3, value => gone.push(value));
    kept.set('x', 1);
    kept.set('y', 2);
    kept.set('x', 3);
    kept.set('x', 3);
    expect(gone, 'the value before is let go of').toEqual([1]);
    expect(kept.values).toEqual([3, 2]);
  });
});
