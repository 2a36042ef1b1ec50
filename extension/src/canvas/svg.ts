/**
 * A drawing context that writes SVG: what draws the picture on a canvas draws it here
 * with the same calls, so that the file looks like the page. It has what the picture
 * uses of a canvas, and nothing more.
 */

/** Outlines, as a context and as `Path2D` has them. */
export class SvgPath {
  /** The outline in the language of SVG. */
  d = '';

  moveTo(x: number, y: number): void {
    this._add('M', x, y);
  }

  lineTo(x: number, y: number): void {
    this._add('L', x, y);
  }

  bezierCurveTo(
    x1: number,
    y1: number,
    x2: number,
    y2: number,
    x: number,
    y: number
  ): void {
    this._add('C', x1, y1, x2, y2, x, y);
  }

  closePath(): void {
    this._add('Z');
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.moveTo(x, y);
    this._add('h', width);
    this._add('v', height);
    this._add('h', -width);
    this.closePath();
  }

  roundRect(x: number, y: number, width: number, height: number, radius: number): void {
    const r = Math.min(radius, width / 2, height / 2);
    this.moveTo(x + r, y);
    this._add('h', width - 2 * r);
    this._add('a', r, r, 0, 0, 1, r, r);
    this._add('v', height - 2 * r);
    this._add('a', r, r, 0, 0, 1, -r, r);
    this._add('h', 2 * r - width);
    this._add('a', r, r, 0, 0, 1, -r, -r);
    this._add('v', 2 * r - height);
    this._add('a', r, r, 0, 0, 1, r, -r);
    this.closePath();
  }

  /** A whole circle: the picture has no other arcs. */
  arc(x: number, y: number, radius: number): void {
    this.moveTo(x + radius, y);
    this._add('a', radius, radius, 0, 1, 1, -2 * radius, 0);
    this._add('a', radius, radius, 0, 1, 1, 2 * radius, 0);
  }

  /** To a corner and round it, in the direction of the next point. */
  arcTo(x1: number, y1: number, x2: number, y2: number, radius: number): void {
    const [fromX, fromY] = [this._x - x1, this._y - y1];
    const [toX, toY] = [x2 - x1, y2 - y1];
    const [before, after] = [Math.hypot(fromX, fromY), Math.hypot(toX, toY)];
    const turn = toX * fromY - toY * fromX;
    if (radius === 0 || Math.abs(turn) < 1e-9 * before * after) {
      this.lineTo(x1, y1);
      return;
    }
    const cosine = (fromX * toX + fromY * toY) / (before * after);
    // tan(angle / 2) of the corner
    const half = Math.sqrt((1 - cosine) / (1 + cosine));
    const cut = radius / half;
    this.lineTo(x1 + (fromX / before) * cut, y1 + (fromY / before) * cut);
    const [x, y] = [x1 + (toX / after) * cut, y1 + (toY / after) * cut];
    this._add('A', radius, radius, 0, 0, turn > 0 ? 1 : 0, x, y);
  }

  private _add(command: string, ...numbers: number[]): void {
    this.d += command + numbers.map(short).join(' ');
    if (numbers.length > 1 && command === command.toUpperCase()) {
      [this._x, this._y] = numbers.slice(-2);
    }
  }

  /** Where the last piece ended, of those that name their end. */
  private _x = 0;
  private _y = 0;
}

/** How what is drawn looks; `save` and `restore` keep it. */
interface ILook {
  globalAlpha: number;
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  lineCap: string;
  font: string;
  textAlign: string;
  dash: readonly number[];
  /** The number of the outline beyond which nothing is drawn; 0 for none. */
  clipping: number;
}

const FRESH: ILook = {
  globalAlpha: 1,
  fillStyle: '#000',
  strokeStyle: '#000',
  lineWidth: 1,
  lineCap: 'butt',
  font: '10px sans-serif',
  textAlign: 'left',
  dash: [],
  clipping: 0
};

const ANCHORS: Readonly<Partial<Record<string, string>>> = {
  center: 'middle',
  right: 'end',
  end: 'end'
};

export class SvgContext extends SvgPath implements ILook {
  declare globalAlpha: number;
  declare fillStyle: string;
  declare strokeStyle: string;
  declare lineWidth: number;
  declare lineCap: string;
  declare font: string;
  declare textAlign: string;
  declare dash: readonly number[];
  declare clipping: number;

  /** A picture of this size; `measure` knows how wide text is. */
  constructor(
    private readonly _width: number,
    private readonly _height: number,
    private readonly _measure: (text: string, font: string) => number
  ) {
    super();
    Object.assign(this, FRESH);
  }

  /** The file, with a title that a screen reader says. */
  finish(title = ''): string {
    const [width, height] = [this._width, this._height].map(short);
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"` +
      ` viewBox="0 0 ${width} ${height}">` +
      `${title && `<title>${escapeText(title)}</title>`}${this._parts.join('')}` +
      `${this._isOpen ? '</g>' : ''}</svg>\n`
    );
  }

  save(): void {
    const { globalAlpha, fillStyle, strokeStyle, lineWidth, lineCap } = this;
    const { font, textAlign, dash, clipping } = this;
    this._saved.push({
      ...{ globalAlpha, fillStyle, strokeStyle, lineWidth, lineCap },
      ...{ font, textAlign, dash, clipping }
    });
  }

  restore(): void {
    Object.assign(this, this._saved.pop());
  }

  setTransform(a: number, b: number, c: number, d: number, e: number, f: number): void {
    const matrix = [a, b, c, d, e, f].map(short).join(' ');
    this._parts.push(`${this._isOpen ? '</g>' : ''}<g transform="matrix(${matrix})">`);
    this._isOpen = true;
  }

  setLineDash(dash: readonly number[]): void {
    this.dash = dash;
  }

  beginPath(): void {
    this.d = '';
  }

  /** Draw within the outline alone until `restore`; outlines do not add up. */
  clip(): void {
    this.clipping = ++this._clips;
    const id = `workbench-clip-${this.clipping}`;
    this._parts.push(`<clipPath id="${id}"><path d="${this.d}"/></clipPath>`);
  }

  fill(): void {
    this._parts.push(`<path d="${this.d}"${this._fill()}/>`);
  }

  stroke(path: SvgPath = this): void {
    this._parts.push(`<path d="${path.d}" fill="none"${this._stroke()}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this._parts.push(`<rect${box(x, y, width, height)}${this._fill()}/>`);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this._parts.push(`<rect${box(x, y, width, height)} fill="none"${this._stroke()}/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = ANCHORS[this.textAlign];
    const align = anchor === undefined ? '' : ` text-anchor="${anchor}"`;
    const place = ` x="${short(x)}" y="${short(y)}"${align}`;
    const font = ` style="font:${escapeText(this.font)};white-space:pre"`;
    this._parts.push(`<text${place}${font}${this._fill()}>${escapeText(text)}</text>`);
  }

  measureText(text: string): { width: number } {
    return { width: this._measure(text, this.font) };
  }

  private _fill(): string {
    return ` fill="${escapeText(this.fillStyle)}"${this._shared()}`;
  }

  private _stroke(): string {
    const dash =
      this.dash.length === 0 ? '' : ` stroke-dasharray="${this.dash.join(' ')}"`;
    const cap = this.lineCap === 'butt' ? '' : ` stroke-linecap="${this.lineCap}"`;
    return (
      ` stroke="${escapeText(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}"` +
      dash +
      cap +
      this._shared()
    );
  }

  /** What holds for all that is drawn. */
  private _shared(): string {
    const { globalAlpha, clipping } = this;
    const clip = clipping === 0 ? '' : ` clip-path="url(#workbench-clip-${clipping})"`;
    return (globalAlpha === 1 ? '' : ` opacity="${short(globalAlpha)}"`) + clip;
  }

  private readonly _parts: string[] = [];
  private readonly _saved: ILook[] = [];
  private _isOpen = false;
  private _clips = 0;
}

/** A number with as many digits as can be seen. */
function short(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}

function box(x: number, y: number, width: number, height: number): string {
  const [left, top, wide, tall] = [x, y, width, height].map(short);
  return ` x="${left}" y="${top}" width="${wide}" height="${tall}"`;
}

/** Text for markup; what XML cannot hold is left out. */
function escapeText(text: string): string {
  return text
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
