/** From a node to its line: finds the cell and puts the cursor there. */

import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { Graph } from '../model/graph';
import { cellOf, findLine } from '../panels/lines';

/** Go to the line of a node; false if no cell has that line any more. */
export function revealLine(
  notebook: NotebookPanel | null,
  picture: HTMLElement,
  graph: Graph,
  node: number
): boolean {
  const source = graph.source(node).trim();
  const line = graph.line(node);
  if (notebook === null || (source === '' && line === null)) {
    return false;
  }
  const { content } = notebook;
  const cells = content.widgets;
  // The cell that ran under that number, the one that the picture is of, the rest.
  const own = cells.filter(cell => cell.node.contains(picture));
  const ran = cells.filter(cell => hasRunAs(cell, cellOf(graph.place(node))));
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

/** Whether a cell ran last under that number. */
export function hasRunAs({ model }: Cell, count: number | null): boolean {
  return (
    model.type === 'code' &&
    count !== null &&
    (model.sharedModel as { execution_count?: number | null }).execution_count === count
  );
}
