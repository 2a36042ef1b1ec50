/**
 * The colours and fonts of the picture, read from JupyterLab's own CSS variables,
 * and read again when the theme changes.
 */

/** How many steps a scale has: edges of one step are drawn in one stroke. */
export const LEVELS = 9;

export interface IScale {
  /** The colours from small to large, and the colour of text on each. */
  fill: string[];
  text: string[];
}

export interface ITheme {
  dark: boolean;
  ground: string;
  card: string;
  border: string;
  /** The border of what is differentiated by. */
  wrt: string;
  shadow: string;
  text: string;
  quiet: string;
  faint: string;
  /** Selection and the path from it. */
  accent: string;
  accentSoft: string;
  /** Forward edges. */
  edge: string;
  error: string;
  errorSoft: string;
  /** The border of what only follows from an error. */
  errorLine: string;
  errorText: string;
  /** What may not be what was meant. */
  warn: string;
  warnSoft: string;
  /** Overrides and what they change. */
  override: string;
  overrideSoft: string;
  /** Search hits. */
  match: string;
  warm: IScale;
  purple: IScale;
  cool: IScale;
  neutral: IScale;
  /** From less over no change to more: of tiles, and softer of cards. */
  diverging: IScale;
  divergingSoft: IScale;
  font: string;
  mono: string;
  /** The size of a card's heading. */
  size: number;
  radius: number;
}

/** Read the theme that holds for an element. */
export function readTheme(element: Element): ITheme {
  const style = getComputedStyle(element);
  const colour = colourReader(style);
  const ground = colour('--jp-layout-color0', [255, 255, 255]);
  const dark = luminance(ground) < 0.4;
  const ink = colour('--jp-ui-font-color0', dark ? [255, 255, 255] : [0, 0, 0]);
  const accent = colour('--jp-brand-color1', [25, 118, 210]);
  const error = colour('--jp-error-color1', [211, 47, 47]);
  const warn = colour('--jp-warn-color1', [245, 124, 0]);
  const orange = {
    pale: colour('--md-orange-200', [255, 204, 128]),
    mid: colour('--md-orange-500', [255, 152, 0]),
    deep: colour('--md-orange-900', [230, 81, 0]),
    bright: colour('--md-orange-300', [255, 183, 77])
  };
  const purple = dark
    ? colour('--md-deep-purple-200', [179, 157, 219])
    : colour('--md-deep-purple-600', [94, 53, 177]);
  const over = (part: number): Colour => mixColours(ground, ink, part);
  const black: Colour = [20, 20, 20];
  const white: Colour = [255, 255, 255];
  const scale = (stops: readonly Colour[]): IScale => {
    const colours = Array.from({ length: LEVELS }, (_, i) =>
      colourAt(stops, i / (LEVELS - 1))
    );
    return {
      fill: colours.map(cssText),
      text: colours.map(item => cssText(pickReadable(item, black, white)))
    };
  };
  const font = style.getPropertyValue('--jp-ui-font-family').trim();
  const mono = style.getPropertyValue('--jp-code-font-family').trim();
  return {
    dark,
    ground: cssText(ground),
    card: cssText(dark ? colour('--jp-layout-color1', [33, 33, 33]) : ground),
    border: cssText(over(dark ? 0.26 : 0.22)),
    wrt: cssText(mixColours(over(0.24), accent, 0.55)),
    shadow: dark ? 'rgba(0, 0, 0, 0.35)' : 'rgba(0, 0, 0, 0.07)',
    text: cssText(over(dark ? 0.92 : 0.87)),
    quiet: cssText(over(0.58)),
    faint: cssText(over(0.4)),
    accent: cssText(accent),
    accentSoft: cssText(mixColours(ground, accent, 0.14)),
    edge: cssText(over(dark ? 0.36 : 0.34)),
    error: cssText(error),
    errorSoft: cssText(mixColours(ground, error, dark ? 0.22 : 0.1)),
    errorLine: cssText(mixColours(ground, error, 0.5)),
    errorText: cssText(pickReadable(error, black, white)),
    warn: cssText(warn),
    warnSoft: cssText(mixColours(ground, warn, dark ? 0.22 : 0.12)),
    override: cssText(purple),
    overrideSoft: cssText(mixColours(ground, purple, dark ? 0.24 : 0.12)),
    match: cssText(colour('--jp-success-color1', [56, 142, 60])),
    warm: scale(
      dark
        ? [...[0.38, 0.78].map(part => mixColours(ground, orange.mid, part)), orange.bright]
        : [orange.pale, orange.mid, orange.deep]
    ),
    purple: scale([mixColours(ground, purple, 0.16), purple]),
    cool: scale([mixColours(ground, accent, 0.04), mixColours(ground, accent, 0.42)]),
    neutral: scale([over(dark ? 0.2 : 0.14), over(dark ? 0.2 : 0.14)]),
    diverging: scale([
      ...[0.85, 0.45].map(part => mixColours(ground, accent, part)),
      over(dark ? 0.16 : 0.08),
      ...(dark
        ? [mixColours(ground, orange.mid, 0.55), orange.bright]
        : [orange.pale, orange.mid])
    ]),
    divergingSoft: scale([
      mixColours(ground, accent, 0.34),
      dark ? colour('--jp-layout-color1', [33, 33, 33]) : ground,
      mixColours(ground, orange.mid, 0.34)
    ]),
    font: font === '' ? 'sans-serif' : font,
    mono: mono === '' ? 'monospace' : mono,
    size: parsePixels(style.getPropertyValue('--jp-ui-font-size1'), 13),
    radius: 3 * parsePixels(style.getPropertyValue('--jp-border-radius'), 2)
  };
}

/**
 * Call back when the theme that holds for an element changes; returns how to stop.
 *
 * JupyterLab names its theme in attributes of the body once its style is there; other
 * hosts do on an element that is nearer, which may be within a shadow root.
 */
export function watchTheme(element: Element, changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  let node: Node | null = element;
  while (node !== null) {
    if (node instanceof Element) {
      observer.observe(node, {
        attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light']
      });
    }
    node = node instanceof ShadowRoot ? node.host : node.parentNode;
  }
  return () => observer.disconnect();
}

/** Reads colours in any CSS notation: a canvas knows how to write them plainly. */
function colourReader(
  style: CSSStyleDeclaration
): (name: string, fallback: Colour) => Colour {
  const context = document.createElement('canvas').getContext('2d');
  const ground = readColour(context, style.getPropertyValue('--jp-layout-color0'));
  return (name, fallback) => {
    const found = readColour(context, style.getPropertyValue(name));
    if (found === null) {
      return fallback;
    }
    // Text colours come half transparent: what is seen is their mixture.
    return found.alpha === 1
      ? found.colour
      : mixColours(ground?.colour ?? [255, 255, 255], found.colour, found.alpha);
  };
}

function readColour(
  context: CanvasRenderingContext2D | null,
  text: string
): ReturnType<typeof parseColour> {
  if (context === null || text.trim() === '') {
    return null;
  }
  const unset = '#010203';
  context.fillStyle = unset;
  context.fillStyle = text.trim();
  const found = context.fillStyle;
  return found === unset ? null : parseColour(found);
}

function parsePixels(text: string, fallback: number): number {
  const value = parseFloat(text);
  return Number.isFinite(value) && text.trim().endsWith('px') ? value : fallback;
}

// Colours as numbers: read from CSS, mixed, and put on a scale.

export type Colour = readonly [red: number, green: number, blue: number];

/** "#rrggbb" or "rgb(a)(…)", as a canvas gives them back; null for anything else. */
export function parseColour(text: string): { colour: Colour; alpha: number } | null {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(text);
  if (hex !== null) {
    const [red, green, blue] = hex.slice(1).map(part => parseInt(part, 16));
    return { colour: [red, green, blue], alpha: 1 };
  }
  const parts = /^rgba?\(([^)]*)\)$/.exec(text);
  if (parts === null) {
    return null;
  }
  const values = parts[1].split(/[\s,/]+/).map(Number);
  if (values.length < 3 || values.some(Number.isNaN)) {
    return null;
  }
  return { colour: [values[0], values[1], values[2]], alpha: values[3] ?? 1 };
}

/** The way from one colour to another. */
export function mixColours(from: Colour, to: Colour, part: number): Colour {
  const at = (i: 0 | 1 | 2): number => from[i] + (to[i] - from[i]) * part;
  return [at(0), at(1), at(2)];
}

function cssText(colour: Colour): string {
  return `rgb(${colour.map(Math.round).join(', ')})`;
}

/**
 * Relative luminance, 0 to 1 (WCAG 2.2, "relative luminance").
 * https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
 */
function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map(value => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The contrast of two colours, 1 to 21 (WCAG 2.2). */
export function contrast(a: Colour, b: Colour): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

/** Which of two colours reads better on a ground. */
function pickReadable(ground: Colour, a: Colour, b: Colour): Colour {
  return contrast(ground, a) >= contrast(ground, b) ? a : b;
}

/** The colour at `part` of the way along evenly spaced stops. */
export function colourAt(stops: readonly Colour[], part: number): Colour {
  const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return mixColours(stops[i], stops[i + 1], at - i);
}
