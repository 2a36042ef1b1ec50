/**
 * Building the page from text: every label that comes from a program goes into
 * a text node. Nothing in Workbench sets innerHTML.
 */

import { Signal } from '@lumino/signaling';

/** What to write on a new element. */
export interface IElementOptions {
  class?: string;
  text?: string;
  role?: string;
  /** Other attributes, as they are written in markup. */
  attributes?: Readonly<Record<string, string>>;
}

/** Make an element with its text and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  options: IElementOptions = {},
  children: readonly (Node | string)[] = []
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (options.class !== undefined) {
    node.className = options.class;
  }
  if (options.text !== undefined) {
    node.textContent = options.text;
  }
  if (options.role !== undefined) {
    node.setAttribute('role', options.role);
  }
  for (const [name, value] of Object.entries(options.attributes ?? {})) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// What stands on the page.

/**
 * An element of the page with the boxes in it, which hear with it when it comes onto the
 * page, and before it leaves it: a notebook takes cells off the page that are not seen.
 */
export class Box {
  constructor(className: string, readonly node: HTMLElement = element('div')) {
    node.classList.add('workbench-Box', className);
  }

  /** Whether it is on the page. */
  get isAttached(): boolean {
    return this._isAttached;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get isHidden(): boolean {
    return this.node.hidden;
  }

  setHidden(hidden: boolean): void {
    this.node.hidden = hidden;
  }

  /** Put more into it, under what is there; returns itself. */
  append(...children: readonly (Box | HTMLElement)[]): this {
    for (const child of children) {
      if (child instanceof Box) {
        child._around?._boxes.delete(child);
        this.node.append(child.node);
        this._boxes.add(child);
        child._around = this;
        if (this._isAttached) {
          child.attach();
        }
      } else {
        this.node.append(child);
      }
    }
    return this;
  }

  /** Its element has come onto the page. */
  attach(): void {
    if (!this._isAttached) {
      this._isAttached = true;
      this._boxes.forEach(box => box.attach());
      this.onAttach();
    }
  }

  /** Its element is about to leave the page. */
  detach(): void {
    if (this._isAttached) {
      this._boxes.forEach(box => box.detach());
      this.onDetach();
      this._isAttached = false;
    }
  }

  /** Take it off the page for good, with all that stands in it. */
  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.detach();
    this.node.remove();
    this._around?._boxes.delete(this);
    [...this._boxes].forEach(box => box.dispose());
    Signal.disconnectReceiver(this);
  }

  /** For others to override: it is on the page, and so is all in it. */
  protected onAttach(): void {
    return undefined;
  }

  /** For others to override: it is still on the page. */
  protected onDetach(): void {
    return undefined;
  }

  private readonly _boxes = new Set<Box>();
  private _around: Box | null = null;
  private _isAttached = false;
  private _isDisposed = false;
}

// Text to the clipboard.

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

// When the browser has drawn.

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
  requestAnimationFrame(() => setTimeout(once));
  setTimeout(once, LONGEST);
}
