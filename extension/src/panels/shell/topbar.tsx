/**
 * The bar above the graph: what it is, what is drawn, and what can be done with
 * the whole of it.
 */

import type { CSSProperties, JSX, KeyboardEvent, ReactNode } from 'react';

import { isCost } from '../../canvas/looks';
import type { Graph } from '../../model/graph';
import { COLOURINGS, type Colouring, type Stage } from '../../model/state';
import { Icon, IconButton, Segments, classes } from '../../ui/controls';
import { formatNumber, formatPlural, formatSeconds } from '../../ui/numbers';
import { badOutput, stepText, summaryOf, undoText } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { Part } from '../part';
import { SaveMenu } from './save';

const STAGES = [
  { value: 'traced', label: 'Traced', title: 'The forward graph as the cell ran' },
  { value: 'derivative', label: 'Derivative', title: 'With the gradient of each node' },
  {
    value: 'simplified',
    label: 'Simplified',
    title: 'The derivative as a program, simplified step by step'
  }
] as const;

export class TopBar extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-TopBar');
    this.node.setAttribute('role', 'toolbar');
    this.node.setAttribute('aria-label', 'Graph');
  }

  /** Put the keyboard into the search field. */
  focusSearch(): void {
    this._search?.focus();
    this._search?.select();
  }

  override refresh(reason: Reason): void {
    if (reason === 'hover') {
      return;
    }
    const active = document.activeElement;
    this.draw();
    const dead = active instanceof HTMLButtonElement && active.disabled;
    if (dead && this.node.contains(active)) {
      // A disabled button would drop the keyboard out of the graph.
      this.host.focusGraph();
    }
    const search = this._search;
    if (this.host.shown.query === '' && search !== null && search !== active) {
      search.value = '';
    }
  }

  protected render(): ReactNode {
    const { asking, connection, shown, state, unsimplified } = this.host;
    const { header = null } = state.graph ?? {};
    const live = connection !== null;
    const { undo = null, redo = null } = live ? (header ?? {}) : {};
    const bad = state.graph === null ? '' : badOutput(state.graph);
    const number =
      header === null || header.output_value === null
        ? bad
        : formatNumber(header.output_value, 4);
    const name = header?.output_name;
    const told = number === '' ? '' : ` = ${number}`;
    const hits = this._hits();
    return (
      <>
        <div className="workbench-Group workbench-Title">
          <span className="workbench-Name" title={header?.session}>
            {header?.session}
          </span>
          <span
            className={classes(
              'workbench-Value',
              bad === '' ? 'workbench-Quiet' : 'workbench-mod-bad'
            )}
            title={`${name ?? ''}${told}`}
          >
            <span className="workbench-ValueName">{name}</span>
            <span className="workbench-ValueNumber">{told}</span>
          </span>
        </div>
        <Segments<Stage>
          label="Stage"
          look="segments"
          choices={STAGES.map(stage => ({
            ...stage,
            unavailable: stage.value === 'simplified' ? unsimplified : null
          }))}
          chosen={state.stage}
          onChoose={stage => {
            if (stage === 'simplified' && unsimplified !== null) {
              this.host.say(unsimplified);
            } else {
              state.settings.set({ stage });
            }
          }}
        />
        <div
          className="workbench-SearchField"
          style={{ '--workbench-hits': `${hits.length}ch` } as CSSProperties}
        >
          <input
            ref={search => (this._search = search)}
            className="workbench-Input workbench-Search"
            title="Search nodes ( / )"
            type="search"
            placeholder="Search"
            aria-label="Search nodes by name, op, shape, scope or line"
            spellCheck={false}
            autoComplete="off"
            onInput={event => shown.search(event.currentTarget.value)}
            onKeyDown={event => this._onSearchKey(event)}
          />
          <span className="workbench-Hits" aria-live="polite">
            {hits}
            <span className="workbench-Offstage">{this._stepOfHit()}</span>
          </span>
        </div>
        <label className="workbench-Group workbench-Quiet" hidden={shown !== state}>
          <span className="workbench-WideOnly">Colour:</span>
          <select
            className="workbench-Select workbench-mod-quiet workbench-Colour"
            aria-label="Colour"
            data-lm-suppress-shortcuts="true"
            value={state.colouring}
            onChange={event => {
              const colouring = event.currentTarget.value as Colouring;
              state.settings.set({ colouring });
              const known = state.graph?.header.profile?.stale === false;
              if (isCost(colouring) && live && !known && connection.job === null) {
                asking.run('profile');
              }
            }}
          >
            {COLOURINGS.map(colouring => (
              <option key={colouring}>{colouring}</option>
            ))}
          </select>
        </label>
        {state.graph !== null && <Found host={this.host} graph={state.graph} />}
        <div className="workbench-Space" />
        <div className="workbench-Group workbench-Buttons">
          <IconButton
            icon="undo"
            label={undoText('Undo', undo)}
            disabled={undo === null}
            onClick={() => asking.undo()}
          />
          <IconButton
            icon="redo"
            label={undoText('Redo', redo)}
            disabled={redo === null}
            onClick={() => asking.redo()}
          />
          <IconButton
            icon="fit"
            label="Fit the graph into view"
            onClick={() => this.host.fitGraph()}
          />
          <IconButton
            icon="steps"
            label="Step through both sweeps"
            aria-pressed={state.step !== null}
            disabled={(state.graph?.count ?? 0) === 0 || shown !== state}
            onClick={() => state.setStep(state.step === null ? 0 : null)}
          />
          {this.host.canPlot && (
            <IconButton
              icon="plot"
              label="Jacobian, Hessian, gradient check"
              aria-pressed={this.host.drawerOpen}
              onClick={() => this.host.toggleDrawer()}
            />
          )}
          {state.graph !== null && <SaveMenu host={this.host} />}
          {this.host.openBeside !== null && (
            <IconButton
              icon="beside"
              label="Open beside the notebook"
              disabled={state.graph === null}
              onClick={() => this.host.openBeside?.()}
            />
          )}
          <IconButton
            icon="panel"
            label="Inspector"
            aria-pressed={this.host.inspectorOpen}
            onClick={() => this.host.toggleInspector()}
          />
        </div>
        <div className="workbench-Group workbench-Quiet">
          <span
            className="workbench-Spinner"
            title="The kernel is busy; it answers when it is done"
            role="status"
            aria-label="The kernel is busy"
            hidden={connection?.busy !== true}
          />
          <span className="workbench-WideOnly">
            {header && formatPlural(header.nodes, 'node')}
          </span>
          <span
            className="workbench-WideOnly"
            title="Forward and backward run together"
          >
            {header && `· ${formatSeconds(header.seconds)}`}
          </span>
          <span
            className={classes('workbench-Backend', live && 'workbench-mod-live')}
            title={
              live
                ? backendTitle(header?.backend ?? '', header?.device)
                : `A saved picture${this.host.alone ? '' : ': run the cell to make it live'}`
            }
          >
            {!live
              ? 'saved'
              : header?.device === undefined
                ? header?.backend
                : `${header.backend} · ${header.device}`}
          </span>
        </div>
      </>
    );
  }

  /** How many nodes were found, and at which one the selection is. */
  private _hits(): string {
    const { query, matches, selected } = this.host.shown;
    const hits = [...matches];
    const at = selected === null ? -1 : hits.indexOf(selected);
    return query === ''
      ? ''
      : hits.length === 0
        ? 'no hits'
        : at < 0
          ? formatPlural(hits.length, 'hit')
          : `${at + 1}/${hits.length}`;
  }

  /** The step of the loop in which a hit stands. */
  private _stepOfHit(): string {
    const { graph, matches, selected } = this.host.shown;
    const isHit = graph !== null && selected !== null && matches.has(selected);
    const text = isHit ? stepText(graph, selected) : '';
    return text === '' ? '' : ` · ${text}`;
  }

  private _onSearchKey(event: KeyboardEvent<HTMLInputElement>): void {
    const { shown } = this.host;
    if (event.key === 'Enter') {
      event.preventDefault();
      event.stopPropagation();
      const node = shown.nextMatch(event.shiftKey);
      if (node !== null) {
        this.host.find(node);
        this.draw();
      }
    } else if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      event.currentTarget.value = '';
      shown.search('');
      this.host.focusGraph();
    }
  }

  private _search: HTMLInputElement | null = null;
}

/** Longer words give way to their number where the bar has no room for all of it. */
const LONG = 14;

/** What checks and the doctor found, in a few words; nothing if it is nothing. */
function Found({ host, graph }: { host: IHost; graph: Graph }): JSX.Element | null {
  const found = summaryOf(graph);
  if (found === null) {
    return null;
  }
  const { text, count, severity, stale } = found;
  const label = `${text}: show checks${stale ? ' (before the last change)' : ''}`;
  return (
    <button
      type="button"
      className={classes(
        `workbench-Button workbench-Found workbench-mod-${severity}`,
        stale && 'workbench-mod-stale',
        text.length > LONG && 'workbench-mod-long'
      )}
      title={label}
      aria-label={label}
      onClick={() => host.showChecks()}
    >
      <Icon name={severity} />
      <span className="workbench-FoundText">{text}</span>
      <span className="workbench-FoundCount">{count}</span>
    </button>
  );
}

/** What computes the runs of a session, in words. */
function backendTitle(backend: string, device?: string): string {
  return device === undefined
    ? `Runs are computed by the backend “${backend}”`
    : `Runs are computed on ${device}, by ${backend}`;
}
