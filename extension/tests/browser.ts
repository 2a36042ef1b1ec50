/** What Lumino expects of a browser when it is loaded, and jsdom has not. */

globalThis.DragEvent ??= class extends MouseEvent {
  readonly dataTransfer = null;
};

globalThis.ResizeObserver ??= class {
  observe(): void {
    // Nothing in a test has a size.
  }

  unobserve(): void {
    // As above.
  }

  disconnect(): void {
    // As above.
  }
};
