/**
 * What a worker does for a picture, by name: where boxes stand, and what a large
 * program without scopes is divided into. Flat arrays go in and come out.
 */

import { type IClusterInput, type IFolds, addClusters } from '../model/clusters';
import { layOut } from './layout';
import { type ILayout, type ILayoutInput, buffersOf } from './types';

/** What goes into each kind of work, and what comes out. */
export interface IWork {
  layout: { input: ILayoutInput; output: ILayout };
  clusters: { input: IClusterInput; output: IFolds };
}

/** One piece of it. */
export type Task = {
  [kind in keyof IWork]: { kind: kind; input: IWork[kind]['input'] };
}[keyof IWork];

/** Do a piece of work, and tell which buffers of the result can be handed over. */
export function perform(task: Task): {
  output: IWork[keyof IWork]['output'];
  buffers: ArrayBuffer[];
} {
  const output = task.kind === 'layout' ? layOut(task.input) : addClusters(task.input);
  return { output, buffers: buffersOf(output) };
}
