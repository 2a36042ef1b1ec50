/**
 * The standalone renderer has no worker: it is one file, and would hold the layout
 * twice. A saved picture is laid out once, on the page.
 */

export function startWorker(): Worker | null {
  return null;
}
