/**
 * Clusters: what to fold where a long stretch of a program has neither scopes nor
 * loops. It is cut where few values are alive, into parts of which each reads only
 * parts before it; what is not connected within a part stands side by side. So a
 * folded picture flows down like the program that it is of.
 */

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
  const all = Int32Array.from({ length: sequence.count }, (_, step) => step);
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

/** What is asked of a graph to cluster its nodes. */
export interface IClusterable {
  count: number;
  kind(node: number): string;
  scope(node: number): string;
  inputs(node: number): Int32Array;
  line(node: number): number | null;
  isWrt(node: number): boolean;
}

/** So many inputs that are differentiated by stay in sight, beside the parts. */
const IN_SIGHT = 12;

/**
 * Put the nodes of long stretches into scopes of their own, "part 3 · lines 4–9", in
 * the paths under which nodes are folded. The output stays where it is.
 */
export function addClusters(
  graph: IClusterable,
  paths: string[],
  output: number
): string[] {
  const clustered = new Uint8Array(graph.count);
  const numbers = new Map<string, number>();
  const place = new Int32Array(graph.count).fill(-1);
  for (const { path, nodes } of stretchesOf(graph, paths, output)) {
    nodes.forEach((node, step) => {
      place[node] = step;
    });
    const parts = findClusters(sequenceOf(graph, nodes, place));
    for (const node of nodes) {
      place[node] = -1;
    }
    let number = numbers.get(path) ?? 0;
    const enter = (part: ICluster, around: string, name: string): void => {
      const members = part.steps.map(step => nodes[step]);
      const own = `${name}${linesText(graph, members)}`;
      const inside = around === '' ? own : `${around}/${own}`;
      if (part.parts.length === 0) {
        for (const node of members) {
          paths[node] = inside;
          clustered[node] = 1;
        }
      }
      part.parts.forEach((inner, i) => enter(inner, inside, `${name}.${i + 1}`));
    };
    for (const part of parts) {
      enter(part, path, `part ${++number}`);
    }
    numbers.set(path, number);
  }
  if (numbers.size > 0) {
    addInputs(graph, paths, clustered);
  }
  return paths;
}

/** Ops of one scope, outside loops, with none of another between them: long ones. */
function stretchesOf(
  graph: IClusterable,
  paths: readonly string[],
  output: number
): { path: string; nodes: Int32Array }[] {
  const stretches: { path: string; nodes: Int32Array }[] = [];
  let nodes: number[] = [];
  const close = (): void => {
    if (nodes.length > LEGIBLE) {
      stretches.push({ path: paths[nodes[0]], nodes: Int32Array.from(nodes) });
    }
    nodes = [];
  };
  for (let node = 0; node < graph.count; node++) {
    if (graph.kind(node) === 'op' && node !== output) {
      if (nodes.length > 0 && paths[node] !== paths[nodes[0]]) {
        close();
      }
      if (paths[node] === graph.scope(node)) {
        nodes.push(node);
      }
    }
  }
  close();
  return stretches;
}

function sequenceOf(
  graph: IClusterable,
  nodes: Int32Array,
  place: Int32Array
): ISequence {
  return {
    count: nodes.length,
    eachInput: (step, visit) => {
      for (const input of graph.inputs(nodes[step])) {
        if (place[input] >= 0) {
          visit(place[input]);
        }
      }
    },
    beginsLine: step =>
      step > 0 && graph.line(nodes[step]) !== graph.line(nodes[step - 1])
  };
}

/** Inputs that nothing reads stand together, where there are many. */
const UNREAD = 'inputs that nothing reads';

/** Inputs and constants go with the first op that reads them, if that is in a part. */
function addInputs(graph: IClusterable, paths: string[], clustered: Uint8Array): void {
  const reader = new Int32Array(graph.count).fill(-1);
  for (let node = graph.count - 1; node >= 0; node--) {
    for (const input of graph.inputs(node)) {
      reader[input] = node;
    }
  }
  const inputs = Array.from(reader.keys()).filter(node => graph.kind(node) !== 'op');
  const wrt = inputs.filter(node => graph.isWrt(node)).length;
  const unread = inputs.filter(node => reader[node] < 0).length;
  for (const node of inputs) {
    if (graph.isWrt(node) && wrt <= IN_SIGHT) {
      continue;
    }
    if (reader[node] < 0 ? unread > IN_SIGHT : clustered[reader[node]] === 1) {
      paths[node] = paths[reader[node]] ?? UNREAD;
    }
  }
}

/** " · line 4", " · lines 4–7". */
export function linesText(
  graph: Pick<IClusterable, 'line'>,
  nodes: ArrayLike<number>
): string {
  let first = Infinity;
  let last = -Infinity;
  for (let i = 0; i < nodes.length; i++) {
    const line = graph.line(nodes[i]);
    if (line !== null) {
      first = Math.min(first, line);
      last = Math.max(last, line);
    }
  }
  if (first > last) {
    return '';
  }
  return first === last ? ` · line ${first}` : ` · lines ${first}–${last}`;
}
