/**
 * Building the page from text: every label that comes from a program goes into
 * a text node. Nothing in Workbench sets innerHTML.
 */

/** What to write on a new element; `data` becomes data attributes. */
export interface IElementOptions {
  class?: string;
  text?: string;
  title?: string;
  role?: string;
  /** Other attributes, as they are written in markup. */
  attributes?: Readonly<Record<string, string>>;
  onClick?: (event: MouseEvent) => void;
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
  if (options.title !== undefined) {
    node.title = options.title;
  }
  if (options.role !== undefined) {
    node.setAttribute('role', options.role);
  }
  for (const [name, value] of Object.entries(options.attributes ?? {})) {
    node.setAttribute(name, value);
  }
  if (options.onClick !== undefined) {
    node.addEventListener('click', options.onClick as (event: Event) => void);
  }
  node.append(...children);
  return node;
}

/** A button that looks like one (`plain`), like a link, or like an icon. */
export function button(
  look: 'plain' | 'link' | 'icon' | 'primary',
  label: string,
  onClick: () => void,
  options: IElementOptions = {}
): HTMLButtonElement {
  const node = element('button', {
    ...options,
    class: `workbench-Button workbench-mod-${look} ${options.class ?? ''}`.trim(),
    text: look === 'icon' ? '' : label,
    attributes: { type: 'button', ...options.attributes },
    onClick
  });
  if (look === 'icon') {
    node.setAttribute('aria-label', label);
    node.title = options.title ?? label;
  }
  return node;
}

/** Outlines on a grid of 16 by 16, drawn with the colour of the text. */
const ICONS = {
  undo: 'M6 3 2.5 6.5 6 10M3 6.5h6.5a3.5 3.5 0 0 1 0 7H7',
  redo: 'M10 3l3.5 3.5L10 10M13 6.5H6.5a3.5 3.5 0 0 0 0 7H9',
  fit: 'M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
  play: 'M5 3v10l8-5z',
  pause: 'M5.5 3v10M10.5 3v10',
  back: 'M11 3 6 8l5 5M4.5 3v10',
  forward: 'M5 3l5 5-5 5M11.5 3v10',
  close: 'M4 4l8 8M12 4l-8 8',
  steps: 'M2 13h4V9h4V5h4',
  plot: 'M2.5 2.5v11h11M5 10.5l2.5-3 2 2 4-5',
  panel: 'M2.5 3h11v10h-11zM10 3v10',
  error: 'M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM8 4.7v4M8 11v.3',
  warning: 'M8 2.3 14.3 13H1.7zM8 6.3v3.2M8 11.2v.3',
  note: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 7.3v3.7M8 4.8v.3',
  right: 'M2.5 8.5 6.3 12 13.5 4.5',
  changed: 'M3 6h10M3 10h10M10.5 3l-5 10',
  move: 'M6 3.5v.1M10 3.5v.1M6 8v.1M10 8v.1M6 12.5v.1M10 12.5v.1'
} as const;

export type IconName = keyof typeof ICONS;

const SVG = 'http://www.w3.org/2000/svg';

/** An icon as an SVG element that screen readers skip. */
export function icon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', 'workbench-Icon');
  svg.setAttribute('aria-hidden', 'true');
  svg.append(path(ICONS[name]));
  return svg;
}

/** An SVG path with a class instead of colours, so that themes apply. */
export function path(line: string, className = ''): SVGPathElement {
  const node = document.createElementNS(SVG, 'path');
  node.setAttribute('d', line);
  if (className !== '') {
    node.setAttribute('class', className);
  }
  return node;
}

/** An SVG element of the given size with the given children. */
export function drawing(
  width: number,
  height: number,
  className: string,
  children: readonly Node[]
): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', className);
  svg.append(...children);
  return svg;
}

/** One choice of a segmented control. */
export interface IChoice<T extends string> {
  value: T;
  label: string;
  title?: string;
}

/**
 * A row of buttons of which one is pressed. Arrow keys move between them, as
 * in every radio group.
 */
export class Segments<T extends string> {
  readonly node: HTMLDivElement;

  constructor(
    label: string,
    look: 'segments' | 'chips' | 'tabs',
    private readonly _onChoose: (value: T) => void
  ) {
    this._tabs = look === 'tabs';
    this.node = element('div', {
      class: `workbench-Segments workbench-mod-${look}`,
      role: this._tabs ? 'tablist' : 'radiogroup',
      attributes: { 'aria-label': label }
    });
    this.node.addEventListener('keydown', event => {
      this._onKey(event);
    });
  }

  /** Replace the choices; keeps focus where it was if that choice remains. */
  setChoices(choices: readonly IChoice<T>[]): void {
    const same =
      choices.length === this._buttons.size &&
      choices.every(({ value }) => this._buttons.has(value));
    if (same) {
      for (const { value, label, title } of choices) {
        const node = this._buttons.get(value)!;
        node.textContent = label;
        node.title = title ?? '';
      }
      return;
    }
    this._buttons.clear();
    this.node.replaceChildren(
      ...choices.map(({ value, label, title }) => {
        const node = element('button', {
          class: 'workbench-Segment',
          text: label,
          title: title ?? '',
          role: this._tabs ? 'tab' : 'radio',
          attributes: { type: 'button', 'data-value': value },
          onClick: () => {
            this._onChoose(value);
          }
        });
        this._buttons.set(value, node);
        return node;
      })
    );
    this.choose(this._chosen);
  }

  /** Show which one is chosen; does not call back. */
  choose(value: T | null): void {
    this._chosen = value;
    const reachable = value !== null && this._buttons.has(value) ? value : null;
    let first = true;
    for (const [name, node] of this._buttons) {
      const chosen = name === value;
      node.classList.toggle('workbench-mod-chosen', chosen);
      node.setAttribute(this._tabs ? 'aria-selected' : 'aria-checked', String(chosen));
      node.tabIndex = chosen || (reachable === null && first) ? 0 : -1;
      first = false;
    }
  }

  /** Put the keyboard on the choice that is made. */
  focus(): void {
    (this._chosen === null ? null : this._buttons.get(this._chosen))?.focus();
  }

  setEnabled(enabled: boolean): void {
    for (const node of this._buttons.values()) {
      node.disabled = !enabled;
    }
  }

  private _onKey(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const names = [...this._buttons.keys()];
    const at = names.findIndex(name => this._buttons.get(name) === event.target);
    if (step === undefined || at < 0) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const next = names[(at + step + names.length) % names.length];
    this._buttons.get(next)!.focus();
    this._onChoose(next);
  }

  private readonly _tabs: boolean;
  private readonly _buttons = new Map<T, HTMLButtonElement>();
  private _chosen: T | null = null;
}

/**
 * An element that is filled again only when what it shows has changed: while
 * values stream, what is under the pointer stays where it is.
 */
export class Keyed<T extends HTMLElement = HTMLElement> {
  constructor(readonly node: T) {}

  /** True if it was filled anew. */
  fill(key: readonly unknown[], build: () => readonly Node[]): boolean {
    const text = JSON.stringify(key);
    const other = text !== this._key;
    if (other) {
      this._key = text;
      this.node.replaceChildren(...build());
    }
    return other;
  }

  /** What it shows is gone: fill it at the next chance. */
  reset(): void {
    this._key = null;
  }

  private _key: string | null = null;
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
