/** Starts the worker of the layouts out of the bundle itself: no file stands beside it. */

/// <reference types="vite/client" />

import LayoutWorker from '../layout/worker?worker&inline';

export function startWorker(): Worker | null {
  try {
    return new LayoutWorker();
  } catch {
    return null;
  }
}
