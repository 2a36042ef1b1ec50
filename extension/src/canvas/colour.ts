/** Colours as numbers: read from CSS, mixed, and put on a scale. */

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
export function mix(from: Colour, to: Colour, part: number): Colour {
  const at = (i: 0 | 1 | 2): number => from[i] + (to[i] - from[i]) * part;
  return [at(0), at(1), at(2)];
}

export function css(colour: Colour, alpha = 1): string {
  const [red, green, blue] = colour.map(Math.round);
  return alpha === 1
    ? `rgb(${red}, ${green}, ${blue})`
    : `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

/**
 * Relative luminance, 0 to 1 (WCAG 2.2, "relative luminance").
 * https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
 */
export function luminance(colour: Colour): number {
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
export function readable(ground: Colour, a: Colour, b: Colour): Colour {
  return contrast(ground, a) >= contrast(ground, b) ? a : b;
}

/** The colour at `part` of the way along evenly spaced stops. */
export function along(stops: readonly Colour[], part: number): Colour {
  const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return mix(stops[i], stops[i + 1], at - i);
}
