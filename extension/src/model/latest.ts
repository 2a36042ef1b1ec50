/**
 * Questions of which only the latest counts, and answers that are kept to be shown again.
 * Nothing here knows what is asked, or of whom.
 */

/**
 * Puts a question: the answer is at hand, or comes. The signal says when it is not wanted
 * any more, so that who computes it can stop.
 */
export type Question<T> = (signal: AbortSignal) => T | Promise<T>;

export interface ILatestOptions<T> {
  take: (answer: T) => void;
  /** There will be no answer; without this the error is one of the program. */
  fail?: (error: unknown) => void;
  /** What was waited for is taken or has failed, and the next question is put. */
  settled?: () => void;
}

/**
 * One question at a time. The answer to one that was dropped, or that another took the
 * place of, is never taken.
 */
export class Latest<T> {
  constructor(private readonly _options: ILatestOptions<T>) {}

  /** Whether an answer is on its way. */
  get isWaiting(): boolean {
    return this._asked !== null;
  }

  /** Ask now; what was asked before is not wanted any more. */
  ask(question: Question<T>): void {
    this.drop();
    this._put(question);
  }

  /**
   * Ask when the answer that is on its way has come, and no sooner than a number of
   * milliseconds after the question before; of several such questions the last.
   */
  askNext(question: Question<T>, rhythm = 0): void {
    if (this._asked !== null) {
      this._next = () => this.askNext(question, rhythm);
      return;
    }
    const wait = this._since + rhythm - Date.now();
    if (wait > 0) {
      this.askLater(question, wait);
    } else {
      this.ask(question);
    }
  }

  /** Ask after so many milliseconds in which nothing else is asked. */
  askLater(question: Question<T>, wait: number): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this.ask(question);
    }, wait);
  }

  /** Want no answer any more, and ask for none. */
  drop(): void {
    const asked = this._asked;
    clearTimeout(this._timer);
    this._asked = null;
    this._next = null;
    this._since = -Infinity;
    asked?.abort();
  }

  private _put(question: Question<T>): void {
    const asked = new AbortController();
    this._asked = asked;
    this._since = Date.now();
    const { take } = this._options;
    let answer: T | Promise<T>;
    try {
      answer = question(asked.signal);
    } catch (error) {
      this._asked = null;
      this._fail(error);
      return;
    }
    if (!(answer instanceof Promise)) {
      this._asked = null;
      take(answer);
      return;
    }
    answer.then(
      taken =>
        this._settle(asked, () => {
          try {
            take(taken);
          } catch (error) {
            this._fail(error); // an answer that cannot be read
          }
        }),
      (error: unknown) => this._settle(asked, () => this._fail(error))
    );
  }

  private _fail(error: unknown): void {
    if (this._options.fail === undefined) {
      throw error;
    }
    this._options.fail(error);
  }

  private _settle(asked: AbortController, tell: () => void): void {
    if (this._asked !== asked) {
      return;
    }
    this._asked = null;
    try {
      tell();
    } finally {
      const next = this._next;
      this._next = null;
      next?.();
      this._options.settled?.();
    }
  }

  private _asked: AbortController | null = null;
  private _next: (() => void) | null = null;
  /** When the last question was put. */
  private _since = -Infinity;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** The answer to a request that can be stopped, which it is where it is not wanted. */
export function answerTo<T>(
  { answer, stop }: { answer: Promise<T>; stop: () => void },
  signal: AbortSignal
): Promise<T> {
  signal.addEventListener('abort', stop);
  return answer;
}

/**
 * A map that holds so many entries at most: where one more comes, that one goes which
 * was not looked at for the longest time. Entries stay in the order in which they came.
 */
export class Kept<K, V> {
  constructor(
    private readonly _most: number,
    private readonly _onGone: (value: V) => void = () => undefined
  ) {}

  get(key: K): V | undefined {
    const entry = this._entries.get(key);
    if (entry !== undefined) {
      entry.used = ++this._clock;
    }
    return entry?.value;
  }

  set(key: K, value: V): void {
    const before = this._entries.get(key);
    this._entries.set(key, { value, used: ++this._clock });
    if (before !== undefined && before.value !== value) {
      this._onGone(before.value);
    }
    if (this._entries.size > this._most) {
      const [[oldest, { value: gone }]] = [...this._entries].sort(
        ([, a], [, b]) => a.used - b.used
      );
      this._entries.delete(oldest);
      this._onGone(gone);
    }
  }

  get values(): readonly V[] {
    return [...this._entries.values()].map(({ value }) => value);
  }

  clear(): void {
    const gone = this.values;
    this._entries.clear();
    gone.forEach(this._onGone);
  }

  private readonly _entries = new Map<K, { value: V; used: number }>();
  private _clock = 0;
}
