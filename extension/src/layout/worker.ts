/**
 * The web worker that lays graphs out and divides them. It imports nothing but our own
 * pure files: what comes from a package's share scope does not exist in a worker.
 */

import { type Task, perform } from './work';

/** What the page sends; what comes back has the same `id`. */
export interface IJob {
  id: number;
  task: Task;
}

interface IWorkerScope {
  onmessage: ((event: MessageEvent<IJob>) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}

const scope = self as unknown as IWorkerScope;

scope.onmessage = event => {
  const { id, task } = event.data;
  const { output, buffers } = perform(task);
  scope.postMessage({ id, output }, buffers);
};
