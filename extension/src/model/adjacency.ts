/** Lists of neighbours in two flat arrays, and a search in what is in order. */

export interface IAdjacency {
  /** The neighbours of i are `items[start[i]] .. items[start[i + 1] - 1]`. */
  start: Int32Array;
  items: Int32Array;
}

/** For each key from 0 to count - 1, the values beside it, in their order. */
export function adjacency(
  count: number,
  keys: ArrayLike<number>,
  values: ArrayLike<number>
): IAdjacency {
  const start = new Int32Array(count + 1);
  for (let i = 0; i < keys.length; i++) {
    start[keys[i] + 1]++;
  }
  for (let i = 0; i < count; i++) {
    start[i + 1] += start[i];
  }
  const next = start.slice(0, count);
  const items = new Int32Array(keys.length);
  for (let i = 0; i < keys.length; i++) {
    items[next[keys[i]]++] = values[i];
  }
  return { start, items };
}

/** The first number for which something holds, as it does for all after it; else `end`. */
export function firstWhere(
  start: number,
  end: number,
  holds: (i: number) => boolean
): number {
  while (start < end) {
    const middle = (start + end) >> 1;
    if (holds(middle)) {
      end = middle;
    } else {
      start = middle + 1;
    }
  }
  return start;
}

/** The numbers below `count`, in order. */
export function countUp(count: number): Int32Array {
  const numbers = new Int32Array(count);
  // A loop, since `Int32Array.from` of a function is slow for large graphs.
  for (let i = 0; i < count; i++) {
    numbers[i] = i;
  }
  return numbers;
}
