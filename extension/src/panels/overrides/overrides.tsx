/**
 * All overrides of the session in their order: what they are on and what they
 * change; switched, moved, edited, taken back, and written out as code.
 */

import { Fragment, type JSX, type ReactNode, useRef } from 'react';

import type { Graph } from '../../model/graph';
import { Button, IconButton, classes } from '../../ui/controls';
import { formatPlural } from '../../ui/numbers';
import { effectText, effectsLine, undoText, whereText } from '../../ui/words';
import type { IHistory, IOverride } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { CopyLink, Pill, goTo } from '../links';
import { Part } from '../part';
import {
  Draft,
  DraftForm,
  drawMessage,
  RuleField,
  drawSteps,
  focusField
} from './rule';

const EMPTY =
  'All gradients are the true ones. Select a node and attach another rule to see ' +
  'what it changes.';

const ORDER = 'Where two match a node equally well, the lower one applies.';

export class OverrideList extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-OverrideList');
  }

  override refresh(reason: Reason): void {
    const rows = this._rows();
    const at = rows.findIndex(row => row.contains(document.activeElement));
    const overrides = this.host.state.graph?.header.overrides ?? [];
    for (const [id, draft] of this._drafts) {
      if (!overrides.some(override => override.id === id)) {
        draft.close();
        this._drafts.delete(id);
      }
    }
    super.refresh(reason);
    const left = this._rows();
    if (at >= 0 && !left.includes(rows[at])) {
      // The row that had the keyboard is gone: the next one gets it.
      const next = left.at(Math.min(at, left.length - 1));
      const control = next?.querySelector<HTMLElement>('input:not(:disabled)');
      if (control) {
        control.focus();
      } else {
        this.host.focusGraph();
      }
    }
  }

  override dispose(): void {
    this._drafts.forEach(draft => draft.close());
    super.dispose();
  }

  protected render(): ReactNode {
    const { graph } = this.host.state;
    const { overrides = [], history, undo = null, redo = null } = graph?.header ?? {};
    const live = isLive(this.host);
    const { asking } = this.host;
    return (
      <>
        <div className="workbench-Links workbench-OverrideTools">
          {live && (
            <>
              {drawUndo('Undo', undo, () => asking.undo())}
              {drawUndo('Redo', redo, () => asking.redo())}
            </>
          )}
          {overrides.length > 0 && (
            <CopyLink
              host={this.host}
              code={codeOf(overrides)}
              label="Copy all as code"
            />
          )}
        </div>
        <p className="workbench-Hint" hidden={overrides.length === 1}>
          {overrides.length === 0 ? EMPTY : ORDER}
        </p>
        <ol className="workbench-Overrides" aria-label="Overrides">
          {graph !== null &&
            overrides.map((override, place) => this._drawItem(graph, override, place))}
        </ol>
        {drawHistory(this.host, history ?? { done: [], undone: [] })}
      </>
    );
  }

  private _drawItem(graph: Graph, override: IOverride, place: number): JSX.Element {
    const { id, label, rule, enabled, data, note, matched, covered, stored } = override;
    const live = isLive(this.host);
    const { selected } = this.host.state;
    const draft = this._drafts.get(id);
    const here =
      selected !== null && (matched.includes(selected) || covered.includes(selected));
    return (
      <li
        key={id}
        data-id={id}
        className={classes(
          'workbench-Override',
          here && 'workbench-mod-here',
          !enabled && 'workbench-mod-off'
        )}
      >
        <div className="workbench-Row workbench-OverrideHead">
          <Handle
            label={`Move ${label}, ${place + 1} of ${graph.header.overrides.length}`}
            hidden={!live || graph.header.overrides.length < 2}
            onMove={to => this.host.asking.move(override, to)}
          />
          <input
            type="checkbox"
            role="switch"
            aria-label={label}
            title={enabled ? 'Switch off' : 'Switch on'}
            checked={enabled}
            disabled={!live}
            onChange={() => this.host.asking.enable(override, !enabled)}
          />
          <button
            type="button"
            className="workbench-Target"
            title={matched.length > 1 ? 'Select the next node' : 'Select the node'}
            onClick={() => selectMatch(this.host, override, 1)}
          >
            {whereText(graph, override)}
          </button>
          <Pill override={override} />
        </div>
        {draft !== undefined
          ? drawEdit(this.host, override, draft, () => this._close(override))
          : // Where the label is another text.
            label !== rule && <code className="workbench-Rule">{rule}</code>}
        {drawMatches(this.host, override)}
        {drawQuiet(note)}
        {drawQuiet(stored ? '' : UNSAVED)}
        {drawEffects(graph, override)}
        <div className="workbench-Links">
          {live && data && draft === undefined && (
            <Button
              look="link"
              className="workbench-Edit"
              onClick={() => this._edit(override)}
            >
              Edit
            </Button>
          )}
          <CopyLink host={this.host} code={override.code} label="Copy as code" />
          {live && (
            <Button look="link" onClick={() => this.host.asking.remove(override)}>
              Remove
            </Button>
          )}
        </div>
      </li>
    );
  }

  /** Begin to write another rule. */
  private _edit({ id, target, rule, steps }: IOverride): void {
    const changed = (): void => this.draw();
    const draft = new Draft(this.host, { target: () => target, id, changed });
    draft.load(rule, steps);
    this._drafts.set(id, draft);
    this.draw();
    focusField(this._row(id)!);
  }

  /** The rule is applied, or given up. */
  private _close({ id }: IOverride): void {
    this._drafts.get(id)?.close();
    this._drafts.delete(id);
    this.draw();
    this._row(id)?.querySelector<HTMLElement>('.workbench-Edit')?.focus();
  }

  private _rows(): HTMLElement[] {
    return [...this.node.querySelectorAll<HTMLElement>('.workbench-Override')];
  }

  private _row(id: number): HTMLElement | undefined {
    return this._rows().find(({ dataset }) => dataset['id'] === String(id));
  }

  /** The rules that are being written, by the overrides that they are for. */
  private readonly _drafts = new Map<number, Draft>();
}

/** Undo or redo, with what that would take back or bring again. */
function drawUndo(verb: 'Undo' | 'Redo', what: string | null, onClick: () => void): JSX.Element {
  const title = undoText(verb, what);
  return (
    <Button look="link" disabled={what === null} title={title} onClick={onClick}>
      {verb}
    </Button>
  );
}

/**
 * The lines that attach the overrides, in their order. A line that stands there
 * twice attaches once, and of two equal overrides the later one has the say.
 */
export function codeOf(overrides: readonly IOverride[]): string {
  const lines = new Set(overrides.map(({ code }) => code).reverse());
  return [...lines].reverse().join('\n');
}

// One override in the list: what it is on, what it changes, and what can be done.

const UNSAVED = 'Not kept when the session is saved: its rule or target is code.';

function drawQuiet(text: string): JSX.Element | null {
  return text === '' ? null : <div className="workbench-Quiet">{text}</div>;
}

/** How many nodes an override is on, with a way through them. */
function drawMatches(host: IHost, override: IOverride): JSX.Element {
  const { matched, covered } = override;
  const { selected } = host.state;
  const at = selected === null ? -1 : matched.indexOf(selected);
  const count =
    matched.length === 0
      ? 'matches no node'
      : at >= 0 && matched.length > 1
        ? `node ${at + 1} of ${matched.length}`
        : formatPlural(matched.length, 'node');
  return (
    <div className="workbench-Quiet workbench-Walk">
      {covered.length > 0 ? `${count}, ${covered.length} more inside` : count}
      {matched.length > 1 && (
        <>
          <IconButton
            icon="back"
            label="Previous node"
            onClick={() => selectMatch(host, override, -1)}
          />
          <IconButton
            icon="forward"
            label="Next node"
            onClick={() => selectMatch(host, override, 1)}
          />
        </>
      )}
    </div>
  );
}

/** Select the next node that an override matches, round the end. */
function selectMatch(host: IHost, { matched }: IOverride, by: number): void {
  const { selected } = host.state;
  const at = selected === null ? -1 : matched.indexOf(selected);
  const next = at < 0 ? (by > 0 ? 0 : -1) : at + by;
  if (matched.length > 0) {
    goTo(host, matched[(next + matched.length) % matched.length]);
  }
}

/** What an override changes: as a table where there is something, else in a line. */
function drawEffects(graph: Graph, override: IOverride): JSX.Element | null {
  const { enabled, effects } = override;
  if (!enabled || effects.every(({ relative }) => relative === 0)) {
    return drawQuiet(effectsLine(graph.header, override));
  }
  return (
    <dl className="workbench-Facts workbench-mod-effects">
      {effects.map((effect, i) => (
        <Fragment key={i}>
          <dt>{`∂${graph.header.output_name}/∂${effect.name}`}</dt>
          <dd className={effect.relative === 0 ? 'workbench-mod-none' : ''}>
            {effectText(effect)}
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}

/** Another rule for an override, written where it stands in the list. */
function drawEdit(
  host: IHost,
  override: IOverride,
  draft: Draft,
  onDone: () => void
): JSX.Element {
  const { label, target } = override;
  const [rule, steps] = [draft.rule.trim(), draft.steps.trim()];
  const same = rule === override.rule && steps === override.steps;
  const idle = rule === '' || draft.refused || draft.sent || same;
  return (
    <DraftForm
      className="workbench-RuleEdit"
      onSubmit={() => {
        if (!idle) {
          draft.send(host.asking.edit(override, rule, steps), onDone);
        }
      }}
      onCancel={onDone}
    >
      <RuleField draft={draft} label={`Rule of ${label}`} disabled={idle} />
      {drawSteps(draft, target.kind === 'node' || !host.state.graph?.hasLoops)}
      <div className="workbench-Under">
        {drawMessage(draft)}
        <Button look="link" onClick={onDone}>
          Cancel
        </Button>
      </div>
    </DraftForm>
  );
}

// Putting the rows of a list into another order: by dragging a handle, or with the
// arrow keys while it has the keyboard.

/** Pixels until a press is a drag. */
const SLACK = 4;

/** A handle in a row; the row is to stand at a place, counted without it. */
function Handle({
  label,
  hidden,
  onMove
}: {
  label: string;
  hidden: boolean;
  onMove: (to: number) => void;
}): JSX.Element {
  const drag = useRef<{ from: number; dragging: boolean } | null>(null);
  const words = `${label}: drag, or arrow keys`;
  /** The row, all rows in their order, and its place among them. */
  const find = (handle: HTMLElement): [HTMLElement, HTMLElement[], number] => {
    const row = handle.closest('li')!;
    const rows = [...row.parentElement!.children] as HTMLElement[];
    return [row, rows, rows.indexOf(row)];
  };
  const clear = (handle: HTMLElement): void => {
    drag.current = null;
    for (const { classList } of find(handle)[1]) {
      classList.remove('workbench-mod-dragged', ABOVE, BELOW);
    }
  };
  return (
    <IconButton
      icon="move"
      label={words}
      className="workbench-Handle"
      // Its arrows are its own, not the notebook's.
      data-lm-suppress-shortcuts=""
      hidden={hidden}
      onPointerDown={({ button, clientY, pointerId, currentTarget }) => {
        if (button === 0) {
          drag.current = { from: clientY, dragging: false };
          currentTarget.setPointerCapture(pointerId);
        }
      }}
      onPointerMove={({ clientY, currentTarget }) => {
        const now = drag.current;
        if (now !== null && (now.dragging || Math.abs(clientY - now.from) >= SLACK)) {
          now.dragging = true;
          const [row, rows, at] = find(currentTarget);
          row.classList.add('workbench-mod-dragged');
          const to = placeAt(rows, row, clientY);
          rows.forEach(({ classList }, i) => {
            classList.toggle(ABOVE, i === to && to < at);
            classList.toggle(BELOW, i === to && to > at);
          });
        }
      }}
      onPointerUp={({ clientY, currentTarget }) => {
        const [row, rows, at] = find(currentTarget);
        const to = drag.current?.dragging ? placeAt(rows, row, clientY) : at;
        clear(currentTarget);
        if (to !== at) {
          onMove(to);
        }
      }}
      onPointerCancel={({ currentTarget }) => clear(currentTarget)}
      onKeyDown={event => {
        const [, rows, at] = find(event.currentTarget);
        const last = rows.length - 1;
        const places = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last };
        const to = (places as Partial<Record<string, number>>)[event.key];
        if (event.key === 'Escape' && drag.current?.dragging) {
          clear(event.currentTarget);
        } else if (to !== undefined && !event.ctrlKey && !event.metaKey) {
          event.preventDefault();
          event.stopPropagation();
          if (to !== at && to >= 0 && to <= last) {
            onMove(to);
          }
        }
      }}
    />
  );
}

const ABOVE = 'workbench-mod-above';
const BELOW = 'workbench-mod-below';

/** Where a row would stand if it were let go at this height. */
export function placeAt(
  rows: readonly HTMLElement[],
  row: HTMLElement,
  y: number
): number {
  let place = 0;
  for (const one of rows) {
    if (one !== row) {
      const { top, height } = one.getBoundingClientRect();
      place += y > top + height / 2 ? 1 : 0;
    }
  }
  return place;
}

// What was changed, step by step: a click on a step goes to the state after it.

/** So many steps are shown on each side; beyond them undo goes on. */
const SHOWN = 100;

function drawHistory(host: IHost, { done, undone }: IHistory): JSX.Element {
  const now = done.length;
  const texts = ['All gradients true', ...done, ...undone];
  const first = Math.max(0, now - SHOWN);
  return (
    <details className="workbench-History" hidden={texts.length === 1}>
      <summary>History: {formatPlural(texts.length - 1, 'change')}</summary>
      <ol>
        {texts.slice(first, now + 1 + SHOWN).map((text, i) => {
          const by = first + i - now;
          const title = by < 0 ? 'Go back to here' : 'Redo up to here';
          return (
            <li key={first + i}>
              <button
                type="button"
                className={classes('workbench-Step', by > 0 && 'workbench-mod-undone')}
                title={by === 0 ? 'As it is now' : title}
                aria-current={by === 0 ? 'step' : undefined}
                disabled={host.connection === null}
                onClick={() => {
                  if (by < 0) {
                    host.asking.undo(-by);
                  } else if (by > 0) {
                    host.asking.redo(by);
                  }
                }}
              >
                {text}
              </button>
            </li>
          );
        })}
      </ol>
    </details>
  );
}

/** Whether overrides can be changed: those of a past run are only shown. */
function isLive({ connection, recording }: IHost): boolean {
  return connection !== null && recording.shown === null;
}
