/** Text to the clipboard. */

import { element } from './dom';

/** Copy a text; `near` is where a field may stand for a moment. */
export async function copyText(text: string, near: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not allowed, or not a secure page: the old way still works there.
    return copyBySelection(text, near);
  }
}

/** Copy through a selected field: the way that needs no permission. */
function copyBySelection(text: string, near: HTMLElement): boolean {
  const field = element('textarea', {
    class: 'workbench-Offstage',
    attributes: { 'aria-hidden': 'true', tabindex: '-1' }
  });
  field.value = text;
  const focused = document.activeElement;
  near.append(field);
  field.select();
  // Deprecated, and the only way on a page without a secure context.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  const copied = document.execCommand('copy');
  field.remove();
  if (focused instanceof HTMLElement) {
    focused.focus({ preventScroll: true });
  }
  return copied;
}
