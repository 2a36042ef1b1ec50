/** What Lumino and the panels expect of a browser, and jsdom has not. */

/** Nothing in a test has a size that could change. */
class ResizeObserver {
  readonly observe = (): undefined => undefined;
  readonly unobserve = this.observe;
  readonly disconnect = this.observe;
}

class DragEvent extends MouseEvent {
  readonly dataTransfer = null;
}

const matchMedia = (media: string): MediaQueryList =>
  Object.assign(new EventTarget(), {
    media,
    matches: false,
    onchange: null,
    addListener: () => undefined,
    removeListener: () => undefined
  });

export {};

Object.assign(globalThis, { DragEvent, ResizeObserver, matchMedia });

/** Nothing in a test has a place that could be scrolled to. */
Element.prototype.scrollIntoView = () => undefined;
