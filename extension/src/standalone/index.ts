/**
 * The renderer without JupyterLab: the same panel in a page of its own. In the HTML
 * file of a session it starts by itself and draws what the file holds; nothing answers
 * it there, and it asks nobody.
 */

/// <reference types="vite/client" />

import { Widget } from '@lumino/widgets';

import style from '../../style/index.css?inline';
import { Graph } from '../model/graph';
import { GraphPanel } from '../panels/shell/panel';
import { element } from '../ui/dom';
import { PictureError } from '../wire/schema';
import theme from './theme.css?inline';

/** The element of a file that holds its picture, where `session/html.py` writes it. */
const DATA = 'workbench-data';

/** Draw the picture that the file of this page holds, in the whole of the window. */
function showFile(data: HTMLElement): void {
  const { body } = document;
  addStyle(document.head);
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
    const panel = new GraphPanel();
    panel.setSaved(graph);
    Widget.attach(panel, body);
  } catch (error) {
    if (!(error instanceof PictureError || error instanceof SyntaxError)) {
      throw error;
    }
    const text = `Workbench cannot draw this picture: ${error.message}`;
    body.append(element('p', { class: 'workbench-Note', role: 'status', text }));
  }
}

function addStyle(parent: Node): void {
  parent.appendChild(element('style', { text: theme + style }));
}

const data = document.getElementById(DATA);
if (data !== null) {
  showFile(data);
}
