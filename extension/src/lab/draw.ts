/** Milliseconds after which a page that draws nothing is taken to have drawn. */
const LONGEST = 250;

/**
 * Call back when the browser has drawn. A window that is not visible draws
 * nothing, and must not keep the kernel waiting.
 */
export function afterDraw(callback: () => void): void {
  let called = false;
  const once = (): void => {
    if (!called) {
      called = true;
      callback();
    }
  };
  requestAnimationFrame(() => {
    setTimeout(once);
  });
  setTimeout(once, LONGEST);
}
