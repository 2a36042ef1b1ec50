/** All sessions of the notebook in use: what each has come to, and whether it is live. */

import { ReactWidget } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { JSX } from 'react';

import { Icon, classes } from '../ui/controls';
import { formatNumber, formatPlural } from '../ui/numbers';
import { BEFORE, summaryOf } from '../ui/words';
import type { IBeside } from './beside';
import type { INotebookSession, NotebookSessions } from './sessions';

/** Milliseconds from one drawing to the next, while values stream. */
const RHYTHM = 250;

interface ISidebarOptions {
  sessionsOf: (notebook: NotebookPanel) => NotebookSessions;
  open: (session: IBeside) => void;
}

export class SessionsSidebar extends ReactWidget {
  constructor(private readonly _options: ISidebarOptions) {
    super();
    this.id = 'workbench-sessions';
    this.addClass('workbench-Sessions');
    this.title.caption = 'Workbench: sessions of the notebook';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Sessions of the notebook');
  }

  /** Show the sessions of a notebook; null: there is none. */
  setNotebook(notebook: NotebookPanel | null): void {
    this._sessions?.changed.disconnect(this._onChange, this);
    this._notebook = notebook;
    this._sessions = notebook === null ? null : this._options.sessionsOf(notebook);
    this._sessions?.changed.connect(this._onChange, this);
    this.update();
  }

  override dispose(): void {
    clearTimeout(this._timer);
    this._sessions?.changed.disconnect(this._onChange, this);
    super.dispose();
  }

  protected override onAfterShow(): void {
    this.update();
  }

  protected override render(): JSX.Element {
    const path = this._notebook?.context.path ?? '';
    const list = this._sessions?.list.filter(({ name }) => name !== '') ?? [];
    return (
      <>
        <header className="workbench-SessionsHead">
          <h2>Sessions</h2>
          <span className="workbench-Quiet" title={path}>
            {path.split('/').at(-1)}
          </span>
        </header>
        {list.length === 0 ? (
          <p className="workbench-Hint">
            {path === '' ? 'No notebook is open.' : NONE}
          </p>
        ) : (
          <ul aria-label="Sessions">
            {list.map(session => (
              <li key={session.key}>
                <Row
                  session={session}
                  onOpen={() => this._options.open({ path, name: session.name })}
                />
              </li>
            ))}
          </ul>
        )}
      </>
    );
  }

  private _onChange(): void {
    if (this.isVisible) {
      this._timer ??= setTimeout(() => {
        this._timer = undefined;
        this.update();
      }, RHYTHM);
    }
  }

  private _notebook: NotebookPanel | null = null;
  private _sessions: NotebookSessions | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

const NONE = 'No session yet: run a cell that begins with %%autodiff loss';

function Row({
  session: { name, graph, connection },
  onOpen
}: {
  session: INotebookSession;
  onOpen: () => void;
}): JSX.Element {
  const { header } = graph ?? {};
  const live = connection !== null;
  const found = graph === null ? null : summaryOf(graph);
  const count = header?.overrides.filter(({ enabled }) => enabled).length ?? 0;
  const value = header?.output_value ?? null;
  return (
    <button
      type="button"
      className="workbench-SessionRow"
      title={`Open ${name} beside the notebook`}
      onClick={onOpen}
    >
      <span className="workbench-Row">
        <span className="workbench-Name">{name}</span>
        <span className="workbench-Space" />
        <span className={classes('workbench-Backend', live && 'workbench-mod-live')}>
          {live ? 'live' : 'saved'}
        </span>
      </span>
      <span className="workbench-Row workbench-Quiet">
        {header !== undefined && (
          <span>
            {header.output_name}
            {value !== null && ` = ${formatNumber(value, 4)}`}
          </span>
        )}
        {count > 0 && (
          <span className="workbench-Pill">{formatPlural(count, 'override')}</span>
        )}
        {found !== null && (
          <span
            className={classes(
              `workbench-Severity workbench-mod-${found.severity}`,
              found.stale && 'workbench-mod-stale'
            )}
          >
            <Icon name={found.severity} />
            {found.text}
            {found.stale && BEFORE}
          </span>
        )}
      </span>
    </button>
  );
}
