/** Which part of the picture is seen: a zoom and a shift, and how they change. */

export interface IRect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface IView {
  /** Pixels on the page for one pixel of the picture. */
  scale: number;
  /** Where the picture's origin lies on the page. */
  x: number;
  y: number;
}

export interface ISize {
  width: number;
  height: number;
}

/** A rectangle by its sides. */
export interface IBounds {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const SMALLEST = 1e-4;
export const LARGEST = 4;

/** The air between the picture and the edge of the page when all is shown. */
const MARGIN = 20;

/** The height of the row for signposts, where not all of the picture is seen. */
export const FOOT = 26;

/**
 * From this zoom on each card has its name, op and shape, and each tile its number, in
 * letters that can be read. What opens is never smaller: of a larger graph the top.
 */
export const LEGIBLE = 0.62;

/** How much of the picture stays in sight however far it is moved. */
const KEPT = 60;

export function rectOnPage(view: IView, rect: IRect): IRect {
  return {
    x: rect.x * view.scale + view.x,
    y: rect.y * view.scale + view.y,
    width: rect.width * view.scale,
    height: rect.height * view.scale
  };
}

/** The part of the picture that is seen. */
export function visibleBounds(view: IView, size: ISize): IBounds {
  return {
    left: -view.x / view.scale,
    top: -view.y / view.scale,
    right: (size.width - view.x) / view.scale,
    bottom: (size.height - view.y) / view.scale
  };
}

/** Zoom so that what is under a point of the page stays there. */
export function zoomAt(view: IView, factor: number, x: number, y: number): IView {
  const scale = Math.min(LARGEST, Math.max(SMALLEST, view.scale * factor));
  const ratio = scale / view.scale;
  return { scale, x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio };
}

/** All of the picture, no larger than life, in the middle of the page. */
export function fitView(bounds: IBounds, size: ISize): IView {
  const width = Math.max(1, bounds.right - bounds.left);
  const height = Math.max(1, bounds.bottom - bounds.top);
  const scale = Math.max(
    SMALLEST,
    Math.min(1, (size.width - 2 * MARGIN) / width, (size.height - 2 * MARGIN) / height)
  );
  return {
    scale,
    x: size.width / 2 - ((bounds.left + bounds.right) / 2) * scale,
    y: size.height / 2 - ((bounds.top + bounds.bottom) / 2) * scale
  };
}

/**
 * What is shown first: all on the page if that can be read; else the top of the
 * picture, as much of it as can be read, in what a minimap leaves of the page.
 */
export function openingView(
  bounds: IBounds,
  page: ISize,
  size: ISize,
  centre: number
): IView {
  const all = fitView(bounds, page);
  if (all.scale >= LEGIBLE) {
    return all;
  }
  const fits = (bounds.right - bounds.left) * LEGIBLE <= size.width - 2 * MARGIN;
  const middle = fits ? (bounds.left + bounds.right) / 2 : centre;
  return {
    scale: LEGIBLE,
    x: size.width / 2 - middle * LEGIBLE,
    y: MARGIN - bounds.top * LEGIBLE
  };
}

/** Move a point of the picture to the middle of the page. */
export function centreView(view: IView, size: ISize, x: number, y: number): IView {
  return {
    scale: view.scale,
    x: size.width / 2 - x * view.scale,
    y: size.height / 2 - y * view.scale
  };
}

/** The same view, moved as far as it must be for some of the picture to be seen. */
export function keepInSight(view: IView, bounds: IBounds, size: ISize): IView {
  return {
    scale: view.scale,
    x: Math.min(
      size.width - KEPT - bounds.left * view.scale,
      Math.max(KEPT - bounds.right * view.scale, view.x)
    ),
    y: Math.min(
      size.height - KEPT - bounds.top * view.scale,
      Math.max(KEPT - bounds.bottom * view.scale, view.y)
    )
  };
}

/** Whether some of the picture lies outside the page. */
export function overflows(view: IView, bounds: IBounds, size: ISize): boolean {
  const seen = visibleBounds(view, size);
  return (
    bounds.left < seen.left ||
    bounds.top < seen.top ||
    bounds.right > seen.right ||
    bounds.bottom > seen.bottom
  );
}

/** Part of the way from one view to another; the zoom goes by equal ratios. */
export function blendViews(from: IView, to: IView, part: number): IView {
  const scale = from.scale * (to.scale / from.scale) ** part;
  // The point that stays in place under both views stays in place all the way.
  const moved =
    from.scale === to.scale ? part : (scale - from.scale) / (to.scale - from.scale);
  return {
    scale,
    x: from.x + (to.x - from.x) * moved,
    y: from.y + (to.y - from.y) * moved
  };
}
