/** Where the parts of a panel stand, how wide and high they are, and what makes them draw. */

import { Box, element } from '../../ui/dom';
import { makeSplitter } from '../../ui/splitter';
import type { Reason } from '../host';

/** Below this width the bar leaves out words where it has findings to tell of. */
const ROOMY = 1260;

/** Below this width the bar leaves out words. */
const MEDIUM = 1000;

/** Below this width the inspector stands under the graph, as on a page of 1000. */
const NARROW = 800;
const SLIM = 500;

/** Pixels: what a panel has at first, and the least and the most for the splitters. */
const HEIGHT = { standard: 560, least: 240, most: 1600 } as const;
const INSPECTOR = { least: 220, spared: 240 } as const;

/** What is to draw itself anew when something happens. */
interface IPart {
  refresh(reason: Reason): void;
}

export abstract class Frame extends Box {
  constructor(label: string) {
    const attributes = { 'aria-label': label };
    super('workbench-Panel', element('div', { role: 'region', attributes }));
    this.setHeight(HEIGHT.standard);
  }

  /** Set the height of the picture with what stands beside it, in pixels. */
  setHeight(height: number): void {
    this.node.style.setProperty('--workbench-height', `${Math.round(height)}px`);
  }

  /** Put parts into a box, under those that it has; they hear what happens. */
  protected place(box: Box, ...parts: readonly (Box | HTMLElement)[]): void {
    box.append(...parts);
    this._parts.push(...parts.filter(isPart));
  }

  /** Let the parts draw themselves again. */
  protected refreshParts(reason: Reason): void {
    for (const part of this._parts) {
      part.refresh(reason);
    }
  }

  protected override onAttach(): void {
    this._sizes.observe(this.node);
  }

  protected override onDetach(): void {
    this._sizes.disconnect();
  }

  /** What stands beside the picture, if anything does. */
  protected abstract get side(): Box;

  /** The picture with what stands beside it, and the picture alone. */
  protected readonly main = new Box('workbench-Main');
  protected readonly stage = new Box('workbench-Stage');

  protected readonly widthSplitter = makeSplitter({
    label: 'Width of the inspector',
    along: 'x',
    sign: -1,
    size: () => this.side.node.offsetWidth,
    limits: () => ({
      least: INSPECTOR.least,
      most: Math.max(INSPECTOR.least, this.node.offsetWidth - INSPECTOR.spared)
    }),
    resize: width => {
      this.node.style.setProperty('--workbench-inspector', `${width}px`);
    }
  });

  protected readonly heightSplitter = makeSplitter({
    label: 'Height of the graph',
    along: 'y',
    sign: 1,
    size: () => this.main.node.offsetHeight,
    limits: () => HEIGHT,
    resize: size => this.setHeight(size)
  });

  /** Put parts away that a width has no room for. */
  private _fitWidth(width: number): void {
    if (width > 0) {
      const { classList } = this.node;
      classList.toggle('workbench-mod-roomy', width >= ROOMY);
      classList.toggle('workbench-mod-medium', width < MEDIUM);
      classList.toggle('workbench-mod-narrow', width < NARROW);
      classList.toggle('workbench-mod-slim', width < SLIM);
    }
  }

  private readonly _parts: IPart[] = [];
  private readonly _sizes = new ResizeObserver(([entry]) => {
    this._fitWidth(entry.contentRect.width);
  });
}

function isPart<T extends object>(part: T): part is T & IPart {
  return 'refresh' in part;
}
