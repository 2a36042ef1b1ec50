/**
 * Clusters: what to fold where a long stretch of a program has neither scopes nor
 * loops. It is cut where few values are alive, into parts of which each reads only
 * parts before it; what is not connected within a part stands side by side. So a
 * folded picture flows down like the program that it is of.
 */

import { countUp } from './adjacency';

/** Steps of a program in their order, and what each of them reads. */
export interface ISequence {
  count: number;
  /** Call for each earlier step that a step reads; one may come twice. */
  eachInput(step: number, visit: (input: number) => void): void;
  /** Whether a line of the program begins at a step: a better place for a cut. */
  beginsLine(step: number): boolean;
}

/** Some steps, in their order, and the parts that they are divided into. */
export interface ICluster {
  steps: Int32Array;
  parts: ICluster[];
}

/** No more steps than this are read as they stand. */
export const LEGIBLE = 240;

/** Into so many parts at most, so that all of them are seen at once. */
const PARTS = 14;

/** About so many steps are in the smallest parts. */
const SMALL = 60;

/** A cut may lie so far from even parts, as a part of their length. */
const LEEWAY = 0.5;

/** What is not connected with the rest is a part from this share of the steps on. */
const SHARE = 1 / 6;

/** Divide a sequence, and its parts again, until all are small; [] if it is. */
export function findClusters(sequence: ISequence): ICluster[] {
  const divider = new Divider(sequence);
  const all = countUp(sequence.count);
  return sequence.count > LEGIBLE ? divider.divide(all) : [];
}

class Divider {
  constructor(private readonly _sequence: ISequence) {
    this._place = new Int32Array(_sequence.count);
    this._stamp = new Int32Array(_sequence.count);
    this._root = new Int32Array(_sequence.count);
    this._size = new Int32Array(_sequence.count);
  }

  divide(steps: Int32Array): ICluster[] {
    const count = Math.min(PARTS, Math.ceil(steps.length / SMALL));
    const cuts = this._findCuts(steps, count);
    const pieces = cuts
      .slice(1)
      .flatMap((end, i) => this._separate(steps.subarray(cuts[i], end)));
    return pieces.map(piece => ({
      steps: piece,
      parts: piece.length > LEGIBLE && pieces.length > 1 ? this.divide(piece) : []
    }));
  }

  /** Where each part begins, and the end: near even parts, where little is alive. */
  private _findCuts(steps: Int32Array, count: number): number[] {
    const alive = this._countAlive(steps);
    const even = steps.length / count;
    const cuts = [0];
    for (let cut = 1; cut < count; cut++) {
      const middle = Math.round(cut * even);
      const reach = Math.floor(even * LEEWAY);
      let best = middle;
      let least = Infinity;
      for (let at = Math.max(cuts[cut - 1] + 1, middle - reach); at <= middle + reach; at++) {
        const line = this._sequence.beginsLine(steps[at]) ? 0 : 0.5;
        const cost = alive[at] + line + Math.abs(at - middle) / (4 * even);
        if (cost < least) {
          best = at;
          least = cost;
        }
      }
      cuts.push(best);
    }
    return [...cuts, steps.length];
  }

  /** For each place how many values from before it are read at or after it. */
  private _countAlive(steps: Int32Array): Int32Array {
    const last = new Int32Array(steps.length);
    this._enter(steps);
    for (let at = 0; at < steps.length; at++) {
      this._eachInput(steps[at], input => {
        last[this._place[input]] = at;
      });
    }
    const alive = new Int32Array(steps.length + 1);
    for (let at = 0; at < steps.length; at++) {
      if (last[at] > at) {
        alive[at + 1]++;
        alive[last[at] + 1]--;
      }
    }
    for (let at = 1; at <= steps.length; at++) {
      alive[at] += alive[at - 1];
    }
    return alive;
  }

  /** The large pieces that are not connected, the largest with all that is small. */
  private _separate(steps: Int32Array): Int32Array[] {
    this._enter(steps);
    for (const step of steps) {
      this._root[step] = step;
    }
    for (const step of steps) {
      this._eachInput(step, input => {
        this._root[this._rootOf(input)] = this._rootOf(step);
      });
    }
    const size = this._size;
    for (const step of steps) {
      size[step] = 0;
    }
    for (const step of steps) {
      size[this._rootOf(step)]++;
    }
    const least = Math.max(2, steps.length * SHARE);
    const large = steps.filter(step => size[step] >= least);
    const apart = large.sort((a, b) => size[b] - size[a]).subarray(1);
    if (apart.length === 0) {
      return [steps];
    }
    const isApart = (step: number): boolean => apart.includes(this._rootOf(step));
    return [
      steps.filter(step => !isApart(step)),
      ...Array.from(apart, root => steps.filter(step => this._rootOf(step) === root))
    ];
  }

  /** Number some steps: only what they read of each other counts from now on. */
  private _enter(steps: Int32Array): void {
    this._round++;
    for (let at = 0; at < steps.length; at++) {
      this._place[steps[at]] = at;
      this._stamp[steps[at]] = this._round;
    }
  }

  private _eachInput(step: number, visit: (input: number) => void): void {
    this._sequence.eachInput(step, input => {
      if (this._stamp[input] === this._round && input !== step) {
        visit(input);
      }
    });
  }

  private _rootOf(step: number): number {
    const root = this._root;
    while (root[step] !== step) {
      root[step] = root[root[step]];
      step = root[step];
    }
    return step;
  }

  private readonly _place: Int32Array;
  private readonly _stamp: Int32Array;
  private readonly _root: Int32Array;
  private readonly _size: Int32Array;
  private _round = 0;
}

// Clusters as scopes: the paths under which nodes are folded.

/** The path under which each node is folded, as a place in a list of all paths. */
export interface IFolds {
  path: Int32Array;
  paths: string[];
}

/** What is asked of a program to cluster its nodes. */
export interface IClusterInput extends IFolds {
  /** From this place on, `paths` are those of loops: what is in them is no tangle. */
  firstLoop: number;
  /** The node that stays where it is. */
  output: number;
  /** 1 for an op, 0 for an input or constant. */
  ops: Uint8Array;
  /** 1 for what is differentiated by. */
  wrt: Uint8Array;
  /** The line of each node; negative for none. */
  line: Int32Array;
  /** Node i reads `inputs[inputStart[i]]` and so on, up to the start of the next. */
  inputStart: Int32Array;
  inputs: Int32Array;
}

/** So many inputs that are differentiated by stay in sight, beside the parts. */
const IN_SIGHT = 12;

/**
 * Put the nodes of long stretches into scopes of their own, "part 3 · lines 4–9", in
 * the paths under which nodes are folded. The output stays where it is.
 */
export function addClusters(input: IClusterInput): IFolds {
  const { ops, line } = input;
  const path = input.path.slice();
  const paths = [...input.paths];
  const clustered = new Uint8Array(ops.length);
  const numbers = new Map<number, number>();
  const place = new Int32Array(ops.length).fill(-1);
  for (const nodes of stretchesOf(input)) {
    const around = path[nodes[0]];
    nodes.forEach((node, step) => {
      place[node] = step;
    });
    const parts = findClusters(sequenceOf(input, nodes, place));
    for (const node of nodes) {
      place[node] = -1;
    }
    let number = numbers.get(around) ?? 0;
    const enter = (part: ICluster, outer: string, name: string): void => {
      const members = part.steps.map(step => nodes[step]);
      const own = [name, linesText(members, node => line[node])].filter(Boolean).join(' · ');
      const inside = outer === '' ? own : `${outer}/${own}`;
      if (part.parts.length === 0) {
        const at = paths.push(inside) - 1;
        for (const node of members) {
          path[node] = at;
          clustered[node] = 1;
        }
      }
      part.parts.forEach((inner, i) => enter(inner, inside, `${name}.${i + 1}`));
    };
    for (const part of parts) {
      enter(part, paths[around], `part ${++number}`);
    }
    numbers.set(around, number);
  }
  if (numbers.size > 0) {
    addInputs(input, { path, paths }, clustered);
  }
  return { path, paths };
}

/** Ops of one scope, outside loops, with none of another between them: long ones. */
function stretchesOf({ ops, path, firstLoop, output }: IClusterInput): Int32Array[] {
  const stretches: Int32Array[] = [];
  let nodes: number[] = [];
  const close = (): void => {
    if (nodes.length > LEGIBLE) {
      stretches.push(Int32Array.from(nodes));
    }
    nodes = [];
  };
  for (let node = 0; node < ops.length; node++) {
    if (ops[node] === 1 && node !== output) {
      if (nodes.length > 0 && path[node] !== path[nodes[0]]) {
        close();
      }
      if (path[node] < firstLoop) {
        nodes.push(node);
      }
    }
  }
  close();
  return stretches;
}

function sequenceOf(
  { inputStart, inputs, line }: IClusterInput,
  nodes: Int32Array,
  place: Int32Array
): ISequence {
  return {
    count: nodes.length,
    eachInput: (step, visit) => {
      const node = nodes[step];
      for (let edge = inputStart[node]; edge < inputStart[node + 1]; edge++) {
        const input = place[inputs[edge]];
        if (input >= 0) {
          visit(input);
        }
      }
    },
    beginsLine: step => step > 0 && line[nodes[step]] !== line[nodes[step - 1]]
  };
}

/** Inputs that nothing reads stand together, where there are many. */
const UNREAD = 'inputs that nothing reads';

/** Inputs and constants go with the first op that reads them, if that is in a part. */
function addInputs(
  { ops, wrt, inputStart, inputs }: IClusterInput,
  { path, paths }: IFolds,
  clustered: Uint8Array
): void {
  const reader = new Int32Array(ops.length).fill(-1);
  for (let node = ops.length - 1; node >= 0; node--) {
    for (let edge = inputStart[node]; edge < inputStart[node + 1]; edge++) {
      reader[inputs[edge]] = node;
    }
  }
  const leaves: number[] = [];
  let [asked, unread] = [0, 0];
  for (let node = 0; node < ops.length; node++) {
    if (ops[node] === 0) {
      leaves.push(node);
      asked += wrt[node];
      unread += reader[node] < 0 ? 1 : 0;
    }
  }
  const together = unread > IN_SIGHT ? paths.push(UNREAD) - 1 : -1;
  for (const node of leaves) {
    if (wrt[node] === 1 && asked <= IN_SIGHT) {
      continue;
    }
    if (reader[node] >= 0) {
      path[node] = clustered[reader[node]] === 1 ? path[reader[node]] : path[node];
    } else if (together >= 0) {
      path[node] = together;
    }
  }
}

/** "line 4", "lines 4–7"; "" where no line is known. */
export function linesText(
  nodes: ArrayLike<number>,
  lineOf: (node: number) => number
): string {
  let first = Infinity;
  let last = -Infinity;
  for (let i = 0; i < nodes.length; i++) {
    const line = lineOf(nodes[i]);
    if (line >= 0) {
      first = Math.min(first, line);
      last = Math.max(last, line);
    }
  }
  if (first > last) {
    return '';
  }
  return first === last ? `line ${first}` : `lines ${first}–${last}`;
}
