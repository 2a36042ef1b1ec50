/**
 * What a fix changes in a cell: its lines, through the model that all views of the
 * notebook share, in one step of its undo; then the cell runs again. Only on a click,
 * and only where the lines are still those that the kernel has seen.
 */

import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import {
  type INotebookModel,
  NotebookActions,
  type NotebookPanel
} from '@jupyterlab/notebook';

import type { GraphConnection } from '../model/connection';
import type { ICellEditing } from '../panels/host';
import type { GraphPanel } from '../panels/shell/panel';
import type { IEdit } from '../wire/protocol';
import { cellOf, findLines } from '../panels/lines';
import type { PanelTracker } from './panel';
import { hasRunAs } from './reveal';

/** A change that was made: in which cell, whose number is another one by now. */
interface IApplied {
  readonly cell: string;
  readonly edit: IEdit;
}

type FindNotebook = (panel: GraphPanel) => NotebookPanel | null;

export class CellEdits {
  constructor(private readonly _tracker: PanelTracker) {}

  /** The changes that a panel can make, in the notebook that it belongs to. */
  makeEditing(panel: GraphPanel, find: FindNotebook): ICellEditing {
    // eslint-disable-next-line @typescript-eslint/no-this-alias
    const edits = this;
    return {
      get applied(): IEdit | null {
        const found = edits._findApplied(find(panel));
        return found && { ...found.edit, cell: countOf(found.cell) ?? 0 };
      },
      explainRefusal: edit => explain(find(panel), edit),
      apply: async edit => {
        const notebook = find(panel);
        const refusal = explain(notebook, edit);
        const cell = notebook && findCell(notebook, edit.cell);
        if (refusal !== '' || !notebook || !cell) {
          throw new Error(refusal);
        }
        await this._change(notebook, panel, cell, edit);
      },
      undo: async () => {
        const notebook = find(panel);
        const found = this._findApplied(notebook);
        if (notebook === null || found === null) {
          throw new Error('The cell was edited since: undo it there with Ctrl+Z.');
        }
        const { before: after, after: before, ...rest } = found.edit;
        await this._change(notebook, panel, found.cell, { ...rest, before, after });
      }
    };
  }

  /** The last change of a notebook that its cell still has. */
  private _findApplied(
    notebook: NotebookPanel | null
  ): { cell: Cell; edit: IEdit } | null {
    const model = notebook?.content.model ?? null;
    const applied = model && this._applied.get(model);
    const cell = notebook?.content.widgets.find(one => one.model.id === applied?.cell);
    return applied && cell && rangeOf(cell, applied.edit.line, applied.edit.after)
      ? { cell, edit: applied.edit }
      : null;
  }

  private async _change(
    notebook: NotebookPanel,
    panel: GraphPanel,
    cell: Cell,
    edit: IEdit
  ): Promise<void> {
    const { model } = notebook.content;
    const own = ownCell(notebook, panel);
    const old = panel.connection;
    const hadFocus = panel.node.contains(document.activeElement);
    const range = rangeOf(cell, edit.line, edit.before);
    if (range === null || model === null) {
      throw new Error(editedText(edit));
    }
    const shared = cell.model.sharedModel as typeof cell.model.sharedModel & IUndoable;
    // What was typed just before is a step of its own, and so is what comes.
    shared.undoManager?.stopCapturing();
    shared.updateSource(range.start, range.end, edit.after.join('\n'));
    shared.undoManager?.stopCapturing();
    const known = this._applied.get(model);
    if (known?.cell === cell.model.id && isInverse(known.edit, edit)) {
      this._applied.delete(model);
    } else {
      this._applied.set(model, { cell: cell.model.id, edit });
    }
    for (const one of new Set([cell, own ?? cell])) {
      const good = await NotebookActions.runCells(
        notebook.content,
        [one],
        notebook.sessionContext
      );
      if (!good) {
        throw new Error('The cell failed after the change: see what it says.');
      }
    }
    const fresh = own && (await this._waitForPanel(panel, own, old));
    if (fresh === null) {
      throw new Error('Run the cell that makes the session again.');
    }
    fresh.showChecks();
    if (hadFocus) {
      // Running a cell takes the keyboard there; the reader was at a fix.
      fresh.focusInspector();
    }
    fresh.asking.run('diagnose');
  }

  /**
   * The panel that shows what a cell made, not the session of before: a new one, or one
   * beside the notebook.
   */
  private async _waitForPanel(
    panel: GraphPanel,
    cell: Cell,
    old: GraphConnection | null
  ): Promise<GraphPanel | null> {
    const find = (): GraphPanel | null =>
      this._tracker.panels.find(
        one =>
          one.connection !== old &&
          (one.connection?.graph ?? null) !== null &&
          (one === panel ? !one.isDisposed : cell.node.contains(one.node))
      ) ?? null;
    const { changed } = this._tracker;
    return new Promise(resolve => {
      let timer: ReturnType<typeof setTimeout> | undefined = undefined;
      const look = (): void => {
        const found = find();
        if (found !== null) {
          finish(found);
        }
      };
      const finish = (found: GraphPanel | null): void => {
        clearTimeout(timer);
        changed.disconnect(look);
        resolve(found);
      };
      changed.connect(look);
      timer = setTimeout(() => {
        finish(find());
      }, PATIENCE);
      look();
    });
  }

  private readonly _applied = new WeakMap<INotebookModel, IApplied>();
}

/** Milliseconds for which a picture of the new run is waited for. */
const PATIENCE = 10_000;

/** What the shared model of a cell has beside its interface. */
interface IUndoable {
  readonly undoManager?: { stopCapturing(): void } | null;
}

/** Why a change cannot be made, and what to do; "" if it can. */
function explain(notebook: NotebookPanel | null, edit: IEdit): string {
  const cell = notebook && findCell(notebook, edit.cell);
  if (!notebook || !cell) {
    return (
      `No cell of this notebook ran as [${edit.cell}] any more. ` +
      'Run the cell again, then diagnose again.'
    );
  }
  const { model } = cell;
  if (notebook.context.contentsModel?.writable === false) {
    return 'This notebook is read-only: copy the code instead.';
  }
  if (model.getMetadata('editable') === false) {
    return 'This cell is locked against editing: copy the code instead.';
  }
  if (!(model as ICodeCellModel).trusted) {
    return (
      'This notebook is not trusted, so nothing changes it from here. Trust it first ' +
      '(“Trust Notebook” in the command palette).'
    );
  }
  return rangeOf(cell, edit.line, edit.before) === null ? editedText(edit) : '';
}

function editedText({ cell, line, before }: IEdit): string {
  return (
    `Cell [${cell}] was edited since it ran: its line ${line} is not ` +
    `“${before[0].trim()}” any more. Run it, then diagnose again.`
  );
}

function findCell({ content }: NotebookPanel, count: number): Cell | null {
  return content.widgets.find(cell => hasRunAs(cell, count)) ?? null;
}

/** The cell whose picture a panel shows. */
function ownCell({ content }: NotebookPanel, panel: GraphPanel): Cell | null {
  const around = content.widgets.find(cell => cell.node.contains(panel.node));
  const { graph } = panel.state;
  const counts = new Set<number | null>();
  for (let node = 0; node < (graph?.count ?? 0); node++) {
    counts.add(graph === null ? null : cellOf(graph.place(node)));
  }
  const ran = content.widgets.filter(cell => counts.has(countOf(cell)));
  return (
    around ?? ran.sort((a, b) => (countOf(a) ?? 0) - (countOf(b) ?? 0)).at(-1) ?? null
  );
}

function countOf({ model }: Cell): number | null {
  const shared = model.sharedModel as { execution_count?: number | null };
  return model.type === 'code' ? (shared.execution_count ?? null) : null;
}

function rangeOf(
  { model }: Cell,
  line: number,
  texts: readonly string[]
): { start: number; end: number } | null {
  return findLines(model.sharedModel.getSource(), line, texts);
}

function isInverse(a: IEdit, b: IEdit): boolean {
  return (
    a.line === b.line &&
    a.before.join('\n') === b.after.join('\n') &&
    a.after.join('\n') === b.before.join('\n')
  );
}
