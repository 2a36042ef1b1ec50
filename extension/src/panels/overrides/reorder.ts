/**
 * Putting the rows of a list into another order: by dragging a handle, or with the
 * arrow keys while it has the keyboard.
 */

/** Pixels until a press is a drag. */
const SLACK = 4;

export interface IReorderOptions {
  /** The row that the handle moves, and all rows in their order. */
  row: HTMLElement;
  rows: () => readonly HTMLElement[];
  /** The row is to stand at this place, counted without it. */
  move: (to: number) => void;
}

export function reorderBy(handle: HTMLElement, options: IReorderOptions): void {
  const { row, rows, move } = options;
  let from: number | null = null;
  let dragging = false;
  const place = (): number => rows().indexOf(row);
  const clear = (): void => {
    from = null;
    dragging = false;
    row.classList.remove('workbench-mod-dragged');
    for (const one of rows()) {
      one.classList.remove('workbench-mod-above', 'workbench-mod-below');
    }
  };
  handle.addEventListener('pointerdown', event => {
    if (event.button === 0) {
      from = event.clientY;
      handle.setPointerCapture(event.pointerId);
    }
  });
  handle.addEventListener('pointermove', event => {
    if (from === null || (!dragging && Math.abs(event.clientY - from) < SLACK)) {
      return;
    }
    dragging = true;
    row.classList.add('workbench-mod-dragged');
    const to = placeAt(rows(), row, event.clientY);
    const at = place();
    rows().forEach((one, i) => {
      one.classList.toggle('workbench-mod-above', i === to && to < at);
      one.classList.toggle('workbench-mod-below', i === to && to > at);
    });
  });
  handle.addEventListener('pointerup', event => {
    const to = dragging ? placeAt(rows(), row, event.clientY) : place();
    const at = place();
    clear();
    if (to !== at) {
      move(to);
    }
  });
  handle.addEventListener('pointercancel', clear);
  handle.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey) {
      return;
    }
    if (event.key === 'Escape' && dragging) {
      clear();
      return;
    }
    const last = rows().length - 1;
    const at = place();
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last }[event.key];
    if (to === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (to !== at && to >= 0 && to <= last) {
      move(to);
    }
  });
}

/** Where a row would stand if it were let go at this height. */
export function placeAt(
  rows: readonly HTMLElement[],
  row: HTMLElement,
  y: number
): number {
  let place = 0;
  for (const one of rows) {
    if (one !== row) {
      const { top, height } = one.getBoundingClientRect();
      place += y > top + height / 2 ? 1 : 0;
    }
  }
  return place;
}
