/** Starts the worker of the layouts; the standalone renderer brings its own. */

export function startWorker(): Worker | null {
  try {
    return new Worker(new URL('./worker.js', import.meta.url));
  } catch {
    return null;
  }
}
