/** What a view is shown in: how wide it is, and in which theme. */

export interface ISurroundingsOptions {
  resized: (width: number) => void;
  themed: () => void;
}

export class Surroundings {
  constructor(
    private readonly _node: HTMLElement,
    private readonly _options: ISurroundingsOptions
  ) {}

  /** Tell of what changes, while the view is on the page. */
  watch(): void {
    this._sizes ??= new ResizeObserver(([entry]) => {
      this._options.resized(entry.contentRect.width);
    });
    this._sizes.observe(this._node);
    this._themes ??= new MutationObserver(() => {
      this._options.themed();
    });
    this._themes.observe(document.body, {
      attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light']
    });
  }

  /** Tell no more, until it is on the page again. */
  leave(): void {
    this._sizes?.disconnect();
    this._themes?.disconnect();
  }

  private _sizes: ResizeObserver | null = null;
  private _themes: MutationObserver | null = null;
}
