/**
 * A session beside its notebook: a panel of its own at full height, which follows the
 * session from cell to cell and from one run of its cell to the next.
 */

import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { type ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { LabIcon } from '@jupyterlab/ui-components';
import { type ReadonlyPartialJSONObject, UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { SplitPanel, type Widget } from '@lumino/widgets';

import type { IAway } from '../panels/shell/away';
import type { GraphPanel } from '../panels/shell/panel';
import type { LiveGraphs } from './live';
import type { PanelWidget } from './panel';
import { type INotebookSession, NotebookSessions } from './sessions';

/** Which session of which notebook: what is restored when the page is loaded again. */
export interface IBeside {
  /** The notebook. */
  readonly path: string;
  /** The session. */
  readonly name: string;
}

export class BesideGraph extends MainAreaWidget<PanelWidget> {
  constructor(
    content: PanelWidget,
    private _shown: IBeside,
    icon: LabIcon
  ) {
    super({ content });
    this.toolbar.hide();
    this.addClass('workbench-Beside');
    this.id = `workbench-beside-${UUID.uuid4()}`;
    this.title.icon = icon;
    this.title.closable = true;
    this._describe();
  }

  get shown(): IBeside {
    return this._shown;
  }

  /** Its notebook has another path. */
  move(path: string): void {
    this._shown = { ...this._shown, path };
    this._describe();
  }

  /** What it follows. */
  get sessions(): NotebookSessions | null {
    return this._sessions;
  }

  /** Show the session of the name in a notebook, and each that takes its place. */
  follow(sessions: NotebookSessions | null): void {
    if (this._sessions !== sessions) {
      this._sessions?.changed.disconnect(this._update, this);
      this._sessions = sessions;
      sessions?.changed.connect(this._update, this);
      this._update();
    }
  }

  override dispose(): void {
    this._sessions?.changed.disconnect(this._update, this);
    super.dispose();
  }

  private _describe(): void {
    const { path, name } = this._shown;
    this.title.label = name;
    this.title.caption = `Session ${name} of ${path}`;
  }

  private _update(): void {
    const { panel } = this.content;
    const { connection } = panel;
    if (connection !== null) {
      // It stays with a session that lives in its notebook's kernel, until another of
      // its name does.
      const newest = this._sessions?.find(this.shown.name)?.connection ?? null;
      if (newest === null && this._sessions?.has(connection) !== true) {
        panel.disconnect();
      }
      if (newest === null || newest === connection) {
        return;
      }
    }
    this._show(this._sessions?.find(this.shown.name) ?? null);
  }

  private _show(session: INotebookSession | null): void {
    if (session === null) {
      return;
    }
    const { panel } = this.content;
    if (session.connection !== null) {
      panel.connectTo(session.connection);
    } else if (panel.state.graph === null) {
      panel.setSaved(session.graph);
    }
  }

  private _sessions: NotebookSessions | null = null;
}

interface IBesidesOptions {
  app: JupyterFrontEnd;
  notebooks: INotebookTracker;
  live: LiveGraphs;
  /** A panel at full height, with the notebook that its lines are in. */
  makePanel: (notebook: () => NotebookPanel | null) => PanelWidget;
  icon: LabIcon;
  /** Whether the middle of the page has room for several: not in Notebook 7. */
  hasDock: boolean;
}

/** All sessions that stand beside their notebooks. */
export class Besides {
  constructor(private readonly _options: IBesidesOptions) {
    const { notebooks } = _options;
    notebooks.widgetAdded.connect((_, notebook) => {
      // A page that was loaded again has its panels before its notebooks.
      void notebook.context.ready.then(() => {
        if (!notebook.isDisposed) {
          this._followAll(notebook);
          this._keepAll(notebook);
        }
      });
    });
  }

  /** One came, went, or has another notebook. */
  readonly changed = new Signal<this, void>(this);

  /** The ways to where the session of a panel stands beside; null if it does not. */
  findAway(panel: GraphPanel): IAway | null {
    const session = this._tracker.size > 0 ? this.shownBy(panel) : null;
    const found = session === null ? undefined : this._get(session);
    return found === undefined
      ? null
      : {
          goThere: () => this._options.app.shell.activateById(found.id),
          comeBack: () => found.close()
        };
  }

  /** Let the page have the same ones when it is loaded again. */
  restore(restorer: ILayoutRestorer | null, command: string): void {
    void restorer?.restore(this._tracker, {
      command,
      args: ({ shown: { path, name } }) => ({ path, name }),
      name: ({ shown: { path, name } }) => `${path}:${name}`
    });
  }

  /** The sessions of a notebook. */
  sessionsOf(notebook: NotebookPanel): NotebookSessions {
    let found = this._sessions.get(notebook);
    if (found === undefined) {
      found = new NotebookSessions(notebook, this._options.live);
      this._sessions.set(notebook, found);
    }
    return found;
  }

  /** Show a session beside its notebook. */
  open({ path, name }: IBeside): void {
    const { app, makePanel, icon, hasDock } = this._options;
    const known = this._get({ path, name });
    if (known !== undefined) {
      app.shell.activateById(known.id);
      return;
    }
    const notebook = (): NotebookPanel | null => this._find(made.shown.path);
    const made: BesideGraph = new BesideGraph(makePanel(notebook), { path, name }, icon);
    const at = notebook();
    // One beside another is a tab of it: the notebook keeps its width.
    const other = this._tracker.find(({ shown }) => shown.path === path);
    if (!hasDock) {
      app.shell.add(made, 'right');
    } else if (other !== undefined) {
      app.shell.add(made, 'main', { mode: 'tab-after', ref: other.id });
    } else {
      const ref = at !== null && { ref: at.id };
      app.shell.add(made, 'main', { mode: 'split-right', ...ref });
    }
    void this._tracker.add(made);
    made.disposed.connect(() => this.changed.emit());
    if (at !== null) {
      made.follow(this.sessionsOf(at));
    }
    app.shell.activateById(made.id);
    if (!hasDock) {
      widen(made);
    }
    this.changed.emit();
  }

  /** The session that a command means where no picture is in use: the newest one. */
  newest(): IBeside | null {
    const notebook = this._options.notebooks.currentWidget;
    const last =
      notebook === null
        ? undefined
        : this.sessionsOf(notebook)
            .list.filter(({ name }) => name !== '')
            .at(-1);
    return last === undefined || notebook === null
      ? null
      : { path: notebook.context.path, name: last.name };
  }

  /** The session that a panel shows; null if its notebook is not known. */
  shownBy(panel: GraphPanel): IBeside | null {
    const { notebooks } = this._options;
    const notebook =
      notebooks.find(({ node }) => node.contains(panel.node)) ??
      // A view of an output stands outside of its notebook.
      notebooks.find(
        one => panel.connection !== null && this.sessionsOf(one).has(panel.connection)
      ) ??
      null;
    const name = panel.state.graph?.header.session ?? '';
    return notebook === null || name === ''
      ? null
      : { path: notebook.context.path, name };
  }

  private _followAll(notebook: NotebookPanel): void {
    this._tracker.forEach(beside => {
      if (beside.shown.path === notebook.context.path) {
        beside.follow(this.sessionsOf(notebook));
      }
    });
  }

  /** Let its panels stay with a notebook that is renamed, or one of whose views closes. */
  private _keepAll(notebook: NotebookPanel): void {
    const { context } = notebook;
    const sessions = this.sessionsOf(notebook);
    let { path } = context;
    context.pathChanged.connect((_, now) => {
      this._tracker.forEach(beside => {
        if (beside.shown.path === path) {
          beside.move(now);
          void this._tracker.save(beside);
        }
      });
      path = now;
      this.changed.emit();
    }, notebook);
    notebook.disposed.connect(() => {
      const other = this._find(path);
      this._tracker.forEach(beside => {
        if (beside.sessions === sessions) {
          beside.follow(other && this.sessionsOf(other));
        }
      });
    });
  }

  /** The panel that shows a session. */
  private _get({ path, name }: IBeside): BesideGraph | undefined {
    return this._tracker.find(({ shown }) => shown.path === path && shown.name === name);
  }

  private _find(path: string): NotebookPanel | null {
    return (
      this._options.notebooks.find(
        one => !one.isDisposed && one.context.path === path
      ) ?? null
    );
  }

  private readonly _tracker = new WidgetTracker<BesideGraph>({
    namespace: 'workbench-beside'
  });
  private readonly _sessions = new WeakMap<NotebookPanel, NotebookSessions>();
}

/** Give a side panel as much room as what stands beside it has, if it has less. */
function widen(widget: Widget): void {
  let part = widget;
  while (part.parent !== null && !(part.parent instanceof SplitPanel)) {
    part = part.parent;
  }
  const split = part.parent;
  if (split instanceof SplitPanel) {
    const sizes = split.relativeSizes();
    const at = split.widgets.indexOf(part);
    const rest = sizes.reduce((sum, size, i) => (i === at ? sum : sum + size), 0);
    if (sizes[at] < rest) {
      sizes[at] = rest;
      split.setRelativeSizes(sizes);
    }
  }
}

/** The command that opens a session beside its notebook: a button, a key, a restart. */
export const OPEN_BESIDE = 'workbench:open-beside';

export function addBesideCommand(
  { commands }: JupyterFrontEnd,
  besides: Besides,
  current: () => GraphPanel | null,
  palette: ICommandPalette | null
): void {
  const find = (args: ReadonlyPartialJSONObject): IBeside | null => {
    const { path, name } = args;
    if (typeof path === 'string' && typeof name === 'string') {
      return { path, name };
    }
    const panel = current();
    return panel?.openBeside ? besides.shownBy(panel) : besides.newest();
  };
  commands.addCommand(OPEN_BESIDE, {
    label: 'Open Graph Beside the Notebook',
    caption: 'Show the session in a panel of its own, at full height',
    isEnabled: args => find(args) !== null,
    execute: args => {
      const session = find(args);
      if (session !== null) {
        besides.open(session);
      }
    }
  });
  palette?.addItem({ command: OPEN_BESIDE, category: 'Workbench' });
}
