/**
 * The renderer without JupyterLab: the same panel in a page of its own. In the HTML
 * file of a session it starts by itself and draws what the file holds; nothing answers
 * it there, and it asks nobody. In a host of anywidget it is mounted, and live.
 */

/// <reference types="vite/client" />

import style from '../../style/index.css?inline';
import { Graph } from '../model/graph';
import { GraphPanel } from '../panels/shell/panel';
import { element } from '../ui/dom';
import { PictureError } from '../wire/schema';
import theme from './theme.css?inline';
import { type IModel, mount as mountWidget } from './widget';

/** The element of a file that holds its picture, where `session/html.py` writes it. */
const DATA = 'workbench-data';

const STYLE = theme + style;

/** Draw the picture that the file of this page holds, in the whole of the window. */
function showFile(data: HTMLElement): void {
  const { body } = document;
  document.head.append(element('style', { text: STYLE }));
  body.className = 'workbench-Standalone workbench-Page';
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const followTheme = (): void => {
    body.dataset['jpThemeLight'] = String(!dark.matches);
  };
  followTheme();
  dark.addEventListener('change', followTheme);
  try {
    const graph = Graph.fromSaved(JSON.parse(data.textContent));
    document.title = `${graph.header.session} · Workbench`;
    const panel = new GraphPanel({ alone: true });
    panel.setSaved(graph);
    body.append(panel.node);
    panel.attach();
  } catch (error) {
    if (!(error instanceof PictureError || error instanceof SyntaxError)) {
      throw error;
    }
    const text = `Workbench cannot draw this picture: ${error.message}`;
    body.append(element('p', { class: 'workbench-Note', role: 'status', text }));
  }
}

/** Draw the live graph of a widget; returns how to take it off the page. */
export function mount(view: { model: IModel; el: HTMLElement }): () => void {
  return mountWidget(view, STYLE);
}

const data = document.getElementById(DATA);
if (data !== null) {
  showFile(data);
}
