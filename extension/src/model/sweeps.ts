/** The two sweeps through a graph, step by step: forward, then backward again. */

import type { Graph } from './graph';

/** One step of the two sweeps: the node that it computes, and in which sweep. */
export interface IStep {
  sweep: 'forward' | 'backward';
  node: number;
  /** The place in its own sweep, from 1. */
  position: number;
  /** How many steps that sweep has. */
  count: number;
}

/**
 * The order of the sweeps. Inputs and constants are there before the first step;
 * the backward sweep goes from the output to the inputs, through all nodes that a
 * gradient reaches.
 */
export class Sweeps {
  constructor(graph: Graph | null) {
    const count = graph?.count ?? 0;
    this._forwardRank = new Int32Array(count).fill(-1);
    this._backwardRank = new Int32Array(count).fill(-1);
    if (graph === null) {
      return;
    }
    for (let node = 0; node < count; node++) {
      if (graph.kind(node) === 'op') {
        this._forwardRank[node] = this._forward.push(node) - 1;
      }
    }
    for (let node = count - 1; node >= 0; node--) {
      if (graph.hasGradient(node)) {
        this._backwardRank[node] = this._backward.push(node) - 1;
      }
    }
  }

  /** The number of steps of both sweeps together. */
  get count(): number {
    return this._forward.length + this._backward.length;
  }

  /** The step that was done last, of so many; null if none is done. */
  last(step: number): IStep | null {
    if (step === 0) {
      return null;
    }
    const forward = this._forward.length;
    const backward = this._backward.length;
    return step <= forward
      ? {
          sweep: 'forward',
          node: this._forward[step - 1],
          position: step,
          count: forward
        }
      : {
          sweep: 'backward',
          node: this._backward[step - forward - 1],
          position: step - forward,
          count: backward
        };
  }

  /** Whether so many steps have computed the value of a node. */
  hasValue(step: number, node: number): boolean {
    return step > this._forwardRank[node];
  }

  /** Whether so many steps have computed the gradient of a node. */
  hasGradient(step: number, node: number): boolean {
    const rank = this._backwardRank[node];
    return rank >= 0 && step > this._forward.length + rank;
  }

  private readonly _forward: number[] = [];
  private readonly _backward: number[] = [];
  private readonly _forwardRank: Int32Array;
  private readonly _backwardRank: Int32Array;
}
