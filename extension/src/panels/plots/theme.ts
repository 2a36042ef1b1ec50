/** A figure of the kernel in the colours of the page's theme. */

import type { JSONObject } from '@lumino/coreutils';

import type { PlotAnswer } from '../../wire/requests';

/** The MIME type of Plotly figures; JupyterLab draws it, Workbench does not. */
export const PLOTLY = 'application/vnd.plotly.v1+json';

/** The layout's axes have names like xaxis, yaxis2. */
const AXIS = /^[xy]axis\d*$/;

/**
 * The figure with the theme's font and lines, on the page's own background;
 * `dragmode`: what a drag does in it, if the reader chose that.
 */
export function themedFigure(
  figure: PlotAnswer['figure'],
  node: HTMLElement,
  dragmode: string | null = null
): JSONObject {
  const style = getComputedStyle(node);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const text = colour('--jp-ui-font-color1');
  const line = colour('--jp-border-color2');
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line };
  const layout: Record<string, unknown> = {
    ...figure.layout,
    autosize: true,
    paper_bgcolor: 'rgba(0, 0, 0, 0)',
    plot_bgcolor: 'rgba(0, 0, 0, 0)',
    font: {
      ...asRecord(figure.layout['font']),
      color: text,
      family: colour('--jp-ui-font-family')
    },
    // Its buttons appear over the figure; Plotly's own guess is a dark bar on white.
    modebar: {
      bgcolor: 'rgba(0, 0, 0, 0)',
      color: colour('--jp-ui-font-color2'),
      activecolor: colour('--jp-brand-color1')
    },
    xaxis: asRecord(figure.layout['xaxis']),
    yaxis: asRecord(figure.layout['yaxis'])
  };
  layout['margin'] ??= { l: 60, r: 20, t: 'title' in figure.layout ? 48 : 16, b: 44 };
  if (dragmode !== null) {
    layout['dragmode'] = dragmode;
  }
  // The drawer decides the size.
  delete layout['width'];
  delete layout['height'];
  for (const [name, value] of Object.entries(layout)) {
    if (AXIS.test(name)) {
      layout[name] = { ...axis, ...asRecord(value) };
    }
  }
  // Its tips would cover the page; what it does is said in the drawer.
  const config = { displaylogo: false, showSendToCloud: false, showTips: false };
  // What came over the wire as JSON is JSON.
  return { data: figure.data, layout, config } as JSONObject;
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
