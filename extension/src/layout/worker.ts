/**
 * The web worker that lays graphs out. It imports nothing but our own pure
 * files: what comes from a package's share scope does not exist in a worker.
 */

import { layOut } from './layout';
import { ILayoutInput, buffersOf } from './types';

/** What the page sends and what comes back, told apart by `id`. */
export interface IJob {
  id: number;
  input: ILayoutInput;
}

interface IWorkerScope {
  onmessage: ((event: MessageEvent<IJob>) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}

const scope = self as unknown as IWorkerScope;

scope.onmessage = event => {
  const { id, input } = event.data;
  const layout = layOut(input);
  scope.postMessage({ id, layout }, buffersOf(layout));
};
