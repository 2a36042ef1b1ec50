/** A thin line between two parts that can be dragged, by pointer or by keys. */

import { element } from './dom';

/** Pixels that an arrow key moves. */
const STEP = 24;

export interface ISplitterOptions {
  label: string;
  /** The direction in which it moves. */
  along: 'x' | 'y';
  /** The size now, in pixels, of the part that it sizes. */
  size: () => number;
  /** Sets that size; grows with the pointer if `sign` is 1. */
  resize: (size: number) => void;
  sign: 1 | -1;
  /** The sizes that are allowed. */
  limits: () => { least: number; most: number };
}

export function makeSplitter(options: ISplitterOptions): HTMLElement {
  const { along, sign } = options;
  const node = element('div', {
    class: `workbench-Splitter workbench-mod-${along}`,
    role: 'separator',
    attributes: {
      tabindex: '0',
      'aria-label': options.label,
      'aria-orientation': along === 'x' ? 'vertical' : 'horizontal',
      'data-lm-suppress-shortcuts': 'true',
      'aria-valuenow': '0'
    }
  });
  /** Tell a screen reader how large the part is, of what it may be. */
  const tell = (): void => {
    const { least, most } = options.limits();
    const values = { valuenow: options.size(), valuemin: least, valuemax: most };
    for (const [name, value] of Object.entries(values)) {
      node.setAttribute(`aria-${name}`, String(Math.round(value)));
    }
  };
  const resize = (size: number): void => {
    const { least, most } = options.limits();
    options.resize(Math.max(least, Math.min(size, most)));
    tell();
  };
  node.addEventListener('focus', tell);
  node.addEventListener('pointerdown', start => {
    if (start.button !== 0) {
      return;
    }
    start.preventDefault();
    node.setPointerCapture(start.pointerId);
    const size = options.size();
    const at = (event: PointerEvent): number =>
      along === 'x' ? event.clientX : event.clientY;
    const move = (event: PointerEvent): void => {
      resize(size + sign * (at(event) - at(start)));
    };
    const end = (): void => {
      node.removeEventListener('pointermove', move);
      node.removeEventListener('pointerup', end);
      node.removeEventListener('pointercancel', end);
    };
    node.addEventListener('pointermove', move);
    node.addEventListener('pointerup', end);
    node.addEventListener('pointercancel', end);
  });
  node.addEventListener('keydown', event => {
    const keys = along === 'x' ? ['ArrowLeft', 'ArrowRight'] : ['ArrowUp', 'ArrowDown'];
    const direction = keys.indexOf(event.key);
    if (direction >= 0) {
      event.preventDefault();
      event.stopPropagation();
      resize(options.size() + sign * (direction * 2 - 1) * STEP);
    }
  });
  return node;
}
