/** From a node to its line: finds the cell and puts the cursor there. */

import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { Graph } from '../model/graph';

/** "[3]:1" is line 1 of the cell that ran third. */
const PLACE = /^\[(\d+)\]/;

/** Go to the line of a node; false if no cell has that line any more. */
export function revealLine(
  tracker: INotebookTracker,
  picture: HTMLElement,
  graph: Graph,
  node: number
): boolean {
  const source = graph.source(node).trim();
  const line = graph.line(node);
  const notebook = notebookOf(tracker, picture);
  if (notebook === null || (source === '' && line === null)) {
    return false;
  }
  const { content } = notebook;
  const cells = content.widgets;
  // The cell that ran under that number, the one that the picture is of, the rest.
  const own = cells.filter(cell => cell.node.contains(picture));
  const ran = cells.filter(cell => hasRunAs(cell, PLACE.exec(graph.place(node))?.[1]));
  for (const cell of [...ran, ...own, ...cells]) {
    const at = findLine(cell.model.sharedModel.getSource().split('\n'), source, line);
    if (at !== null) {
      content.activeCellIndex = cells.indexOf(cell);
      content.mode = 'edit';
      void content.scrollToCell(cell).then(() => {
        cell.editor?.setCursorPosition({ line: at, column: 0 });
        cell.editor?.focus();
      });
      return true;
    }
  }
  return false;
}

function notebookOf(
  tracker: INotebookTracker,
  picture: HTMLElement
): NotebookPanel | null {
  return tracker.find(panel => panel.node.contains(picture)) ?? tracker.currentWidget;
}

function hasRunAs(cell: Cell, count: string | undefined): boolean {
  const { model } = cell;
  return (
    model.type === 'code' &&
    count !== undefined &&
    (model.sharedModel as { execution_count?: number | null }).execution_count ===
      Number(count)
  );
}

/** The line with that text, nearest to where it was; null if there is none. */
function findLine(lines: string[], source: string, line: number | null): number | null {
  const hits = lines.flatMap((text, i) => (text.trim() === source ? [i] : []));
  if (source === '' || hits.length === 0) {
    return null;
  }
  const wanted = line === null ? 0 : line - 1;
  return hits.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
}
