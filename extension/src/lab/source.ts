/**
 * The source and the picture are one, while a session is live: the gutter of its cell
 * shows the gradient of each line, the line of the cursor outlines its nodes, and a
 * name under the pointer tells its value and gradient. From what the page knows.
 */

import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Compartment, type Extension, StateEffect, StateField } from '@codemirror/state';
import {
  EditorView,
  GutterMarker,
  type Tooltip,
  gutter,
  hoverTooltip
} from '@codemirror/view';

import type { GraphConnection } from '../model/connection';
import type { Graph } from '../model/graph';
import type { GraphPanel } from '../panels/shell/panel';
import { element } from '../ui/dom';
import { formatNumber, shortNumber } from '../ui/numbers';
import { shapeText } from '../ui/words';
import {
  type ILine,
  TracedLines,
  countBlankLines,
  describeLines,
  findName
} from '../panels/lines';
import { hasRunAs } from './reveal';
import type { NotebookSessions } from './sessions';

/** Milliseconds from one drawing of the gutters to the next, while values stream. */
const RHYTHM = 250;

/** What the editor of a cell shows. */
interface ISource {
  graph: Graph;
  connection: GraphConnection;
  /** The execution count of the cell. */
  cell: number;
  /** By lines from 0. */
  lines: ReadonlyMap<number, ILine>;
}

interface ISourceOptions {
  notebooks: INotebookTracker;
  sessionsOf: (notebook: NotebookPanel) => NotebookSessions;
  panels: () => readonly GraphPanel[];
}

export class SourceMarks {
  constructor(private readonly _options: ISourceOptions) {
    const { notebooks } = _options;
    notebooks.forEach(notebook => this._watch(notebook));
    notebooks.widgetAdded.connect((_, notebook) => this._watch(notebook));
  }

  private _watch(notebook: NotebookPanel): void {
    const sessions = this._options.sessionsOf(notebook);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        if (!notebook.isDisposed) {
          this._update(notebook, sessions);
        }
      }, RHYTHM);
    };
    sessions.changed.connect(later);
    notebook.content.modelContentChanged.connect(later);
    // Editors are made when their cells are first seen.
    notebook.content.cellInViewportChanged.connect(later);
    notebook.disposed.connect(() => clearTimeout(timer));
    later();
  }

  private _update({ content }: NotebookPanel, sessions: NotebookSessions): void {
    const shown = new Set<Cell>();
    for (const { graph, connection } of [...sessions.list].reverse()) {
      if (graph === null || connection === null) {
        continue;
      }
      const traced = this._tracedLines(connection, graph);
      for (const count of traced.cells) {
        const cell = content.widgets.find(one => hasRunAs(one, count));
        const view = cell === undefined ? null : viewOf(cell);
        if (cell !== undefined && view !== null && !shown.has(cell)) {
          shown.add(cell);
          const texts = cell.model.sharedModel.getSource().split('\n');
          const lines = describeLines(graph, traced.place(count, texts));
          this._show(view, { graph, connection, cell: count, lines });
        }
      }
    }
    for (const cell of content.widgets) {
      const view = viewOf(cell);
      if (view !== null && !shown.has(cell)) {
        this._hide(view);
      }
    }
  }

  /** The lines of a graph; patches of its numbers leave them as they are. */
  private _tracedLines(connection: GraphConnection, graph: Graph): TracedLines {
    const known = this._traced.get(connection);
    if (known?.graph.sameStructure(graph)) {
      return known.lines;
    }
    const lines = new TracedLines(graph);
    this._traced.set(connection, { graph, lines });
    return lines;
  }

  private _show(view: EditorView, source: ISource): void {
    const part = this._parts.get(view);
    const effects: StateEffect<unknown>[] = [setSource.of(source)];
    if (part === undefined) {
      const made = new Compartment();
      this._parts.set(view, made);
      view.dispatch({
        effects: StateEffect.appendConfig.of(made.of(this._extension()))
      });
    } else if (view.state.field(sourceField, false) === undefined) {
      view.dispatch({ effects: part.reconfigure(this._extension()) });
    }
    view.dispatch({ effects });
  }

  /** Take everything out of an editor: its session does not live any more. */
  private _hide(view: EditorView): void {
    const part = this._parts.get(view);
    if (part !== undefined && view.state.field(sourceField, false) !== undefined) {
      view.dispatch({ effects: part.reconfigure([]) });
    }
  }

  private _extension(): Extension {
    return [
      sourceField,
      gradientGutter,
      nameTooltip,
      EditorView.updateListener.of(({ view, selectionSet, focusChanged }) => {
        if (selectionSet || focusChanged) {
          this._outline(view);
        }
      })
    ];
  }

  /** Outline what the line of the cursor made, in all pictures of its session. */
  private _outline(view: EditorView): void {
    const source = view.state.field(sourceField, false) ?? null;
    if (source === null) {
      return;
    }
    const { head } = view.state.selection.main;
    const line = source.lines.get(view.state.doc.lineAt(head).number - 1);
    for (const { connection, state } of this._options.panels()) {
      if (connection === source.connection) {
        state.outline(view.hasFocus && line !== undefined ? line.nodes : []);
      }
    }
  }

  private readonly _parts = new WeakMap<EditorView, Compartment>();
  private readonly _traced = new WeakMap<
    GraphConnection,
    { graph: Graph; lines: TracedLines }
  >();
}

/** The CodeMirror of a cell; null while it has no editor, or one of another kind. */
export function viewOf(cell: Cell): EditorView | null {
  const { editor = null } = (cell.editor ?? {}) as { editor?: unknown };
  return editor instanceof EditorView ? editor : null;
}

// What stands in the editor

const setSource = StateEffect.define<ISource>();

const sourceField = StateField.define<ISource | null>({
  create: () => null,
  update: (source, transaction) => {
    for (const effect of transaction.effects) {
      if (effect.is(setSource)) {
        return effect.value;
      }
    }
    return source;
  }
});

/** The gradient of a line: its norm and a bar, as warm as its tile in the picture. */
class GradientMarker extends GutterMarker {
  constructor(
    readonly text: string,
    readonly level: number,
    readonly title: string
  ) {
    super();
  }

  override eq(other: GradientMarker): boolean {
    return this.text === other.text && this.level === other.level;
  }

  override toDOM(): Node {
    const bar = element('span', { class: 'workbench-LineBar' });
    if (Number.isNaN(this.level)) {
      bar.hidden = true;
    } else {
      bar.style.setProperty('--workbench-level', this.level.toFixed(2));
    }
    const node = element('div', { class: 'workbench-LineGradient' });
    node.title = this.title;
    node.append(element('span', { text: this.text }), bar);
    return node;
  }
}

const gradientGutter = gutter({
  class: 'workbench-Gutter',
  lineMarker: (view, { from }) => {
    const source = view.state.field(sourceField, false) ?? null;
    const line = source?.lines.get(view.state.doc.lineAt(from).number - 1);
    if (!source || line === undefined || line.result === null) {
      return null;
    }
    const { graph } = source;
    const text = shortNumber(line.norm);
    const output = graph.header.output_name;
    const title = `‖∂${output}/∂${graph.label(line.result)}‖ = ${formatNumber(line.norm)}`;
    return new GradientMarker(text, Math.round(line.level * 20) / 20, title);
  },
  lineMarkerChange: ({ transactions }) =>
    transactions.some(({ effects }) => effects.some(one => one.is(setSource))),
  initialSpacer: () => new GradientMarker('0e-00', 1, '')
});

const nameTooltip = hoverTooltip((view, pos): Tooltip | null => {
  const source = view.state.field(sourceField, false) ?? null;
  const word = view.state.wordAt(pos);
  if (source === null || word === null) {
    return null;
  }
  const { graph } = source;
  const { doc } = view.state;
  const name = doc.sliceString(word.from, word.to);
  const line = doc.lineAt(pos).number - countBlankLines(doc.toJSON());
  const node = findName(graph, name, line, source.cell);
  return node === null
    ? null
    : {
        pos: word.from,
        end: word.to,
        above: true,
        create: () => ({ dom: describeName(graph, node) })
      };
});

/** What is told of a name: text only. */
function describeName(graph: Graph, node: number): HTMLElement {
  const type = [shapeText(graph.shape(node)), graph.dtype(node)].filter(Boolean);
  const lines = [[graph.label(node), ...type].join(' · ')];
  const value = graph.valueStatistics(node);
  if (value !== null) {
    lines.push(
      graph.shape(node) === '()'
        ? `value ${formatNumber(value.mean, 4)}`
        : `value ${formatNumber(value.min, 3)} … ${formatNumber(value.max, 3)}` +
            `, ‖·‖ ${formatNumber(value.norm, 3)}`
    );
  }
  lines.push(
    graph.hasGradient(node)
      ? `gradient ‖·‖ ${formatNumber(graph.gradNorm(node), 3)}`
      : 'no gradient'
  );
  const override = graph.override(node);
  if (override !== null) {
    lines.push(`override: ${override.label}`);
  }
  const dom = element('div', { class: 'workbench-NameTooltip' });
  dom.append(...lines.map(text => element('div', { text })));
  return dom;
}
