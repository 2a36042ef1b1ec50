/** Where the parts of a graph panel stand, and how wide and high they are. */

import { PanelLayout, Widget } from '@lumino/widgets';

import { splitter } from '../../ui/splitter';

/** Below this width the bar leaves out words where it has findings to tell of. */
const ROOMY = 1260;

/** Below this width the bar leaves out words. */
const MEDIUM = 1000;

/** Below this width the inspector stands under the graph. */
const NARROW = 760;

/** Pixels: the least and the most that the splitters allow. */
const HEIGHT = { least: 240, most: 1600 } as const;
const INSPECTOR = { least: 220, spared: 240 } as const;

export interface IParts {
  topBar: Widget;
  banner: Widget;
  /** The picture, and what lies over it. */
  stage: readonly Widget[];
  /** What stands at its foot. */
  foot: Widget;
  inspector: Widget;
  stepper: Widget;
  drawer: Widget;
}

/** Lay the parts out in a panel; `resized` is called when the splitters move. */
export function layOut(panel: Widget, parts: IParts, resized: () => void): void {
  const { topBar, banner, inspector, stepper, drawer } = parts;
  const inspectorWidth = splitter({
    label: 'Width of the inspector',
    along: 'x',
    sign: -1,
    size: () => inspector.node.offsetWidth,
    resize: size => {
      const room = panel.node.offsetWidth - INSPECTOR.spared;
      const width = Math.max(INSPECTOR.least, Math.min(size, room));
      panel.node.style.setProperty('--workbench-inspector', `${width}px`);
      resized();
    }
  });
  const main = box('workbench-Main', [
    box('workbench-Stage', [box('workbench-Picture', parts.stage), parts.foot]),
    new Widget({ node: inspectorWidth }),
    inspector
  ]);
  const height = splitter({
    label: 'Height of the graph',
    along: 'y',
    sign: 1,
    size: () => main.node.offsetHeight,
    resize: size => {
      setHeight(panel, Math.min(Math.max(size, HEIGHT.least), HEIGHT.most));
      resized();
    }
  });
  const layout = new PanelLayout();
  panel.layout = layout;
  for (const part of [
    topBar,
    banner,
    main,
    stepper,
    new Widget({ node: height }),
    drawer
  ]) {
    layout.addWidget(part);
  }
}

/** The height of graph and inspector in pixels. */
export function setHeight(panel: Widget, height: number): void {
  panel.node.style.setProperty('--workbench-height', `${Math.round(height)}px`);
}

/** Put parts away that a width has no room for. */
export function setWidth(panel: Widget, width: number): void {
  if (width > 0) {
    panel.toggleClass('workbench-mod-roomy', width >= ROOMY);
    panel.toggleClass('workbench-mod-medium', width < MEDIUM);
    panel.toggleClass('workbench-mod-narrow', width < NARROW);
  }
}

function box(name: string, children: readonly Widget[]): Widget {
  const widget = new Widget();
  widget.addClass(name);
  const layout = new PanelLayout();
  widget.layout = layout;
  for (const child of children) {
    layout.addWidget(child);
  }
  return widget;
}
