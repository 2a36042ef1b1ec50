/**
 * What a worker does for a picture, by name: where boxes stand, and how a large
 * program is folded. Flat arrays go in and come out.
 */

import { type IFoldInput, type IFolded, findFolds } from '../model/folds';
import { layOut } from './layout';
import { type ILayout, type ILayoutInput, buffersOf } from './types';

/** What goes into each kind of work, and what comes out. */
export interface IWork {
  layout: { input: ILayoutInput; output: ILayout };
  folds: { input: IFoldInput; output: IFolded };
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
  if (task.kind === 'layout') {
    const output = layOut(task.input);
    return { output, buffers: buffersOf(output) };
  }
  const output = findFolds(task.input);
  const lists = [...output.loops.values()].flatMap(loop => buffersOf(loop));
  return { output, buffers: [...buffersOf(output.folds), ...lists] };
}
