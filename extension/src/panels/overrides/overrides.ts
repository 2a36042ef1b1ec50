/**
 * All overrides of the session in their order: what they are on and what they
 * change; switched, moved, edited, taken back, and written out as code.
 */

import { Widget } from '@lumino/widgets';

import { button, element } from '../../ui/dom';
import type { IHistory, IOverride } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { copyLink } from '../links';
import { HistoryList } from './history';
import { OverrideItem } from './override';

const EMPTY =
  'All gradients are the true ones. Select a node and attach another rule to see ' +
  'what it changes.';

const ORDER = 'Of two that fit a node alike, the lower one has the say.';

const NONE: IHistory = { done: [], undone: [] };

export class OverrideList extends Widget {
  constructor(private readonly _host: IHost) {
    super();
    this.addClass('workbench-OverrideList');
    this._history = new HistoryList(_host);
    this._undo = button('link', 'Undo', () => {
      _host.asking.undo();
    });
    this._redo = button('link', 'Redo', () => {
      _host.asking.redo();
    });
    this._copy = copyLink(
      _host,
      () => codeOf(_host.state.graph?.header.overrides ?? []),
      'Copy all as code'
    );
    this.node.append(
      element('div', { class: 'workbench-Links workbench-OverrideTools' }, [
        this._undo,
        this._redo,
        this._copy
      ]),
      this._hint,
      this._list,
      this._history.node
    );
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph } = this._host.state;
    const header = graph?.header;
    const overrides = header?.overrides ?? [];
    const live = this._host.connection !== null;
    this._hint.textContent =
      overrides.length === 0 ? EMPTY : overrides.length > 1 ? ORDER : '';
    this._hint.hidden = overrides.length === 1;
    this._showItems(overrides);
    this._history.refresh(header?.history ?? NONE, live);
    const can = (node: HTMLButtonElement, what: string | null, verb: string): void => {
      node.hidden = !live;
      node.disabled = what === null;
      node.title = what === null ? `Nothing to ${verb}` : `${verb}: ${what}`;
    };
    can(this._undo, header?.undo ?? null, 'undo');
    can(this._redo, header?.redo ?? null, 'redo');
    this._copy.hidden = overrides.length === 0;
  }

  override dispose(): void {
    for (const item of this._items.values()) {
      item.dispose();
    }
    super.dispose();
  }

  /** One row for each override, kept while it is there: what has the keyboard, too. */
  private _showItems(overrides: readonly IOverride[]): void {
    const { graph } = this._host.state;
    const active = document.activeElement;
    const held = active instanceof HTMLElement && this._list.contains(active);
    const at = [...this._items.keys()].findIndex(id =>
      this._items.get(id)!.node.contains(active)
    );
    for (const [id, item] of this._items) {
      if (!overrides.some(override => override.id === id)) {
        item.dispose();
        item.node.remove();
        this._items.delete(id);
      }
    }
    overrides.forEach((override, place) => {
      let item = this._items.get(override.id);
      if (item === undefined) {
        item = new OverrideItem(this._host, override, () => this._rows());
        this._items.set(override.id, item);
      }
      if (graph !== null) {
        item.update(graph, override, place, overrides.length);
      }
      if (this._list.children[place] !== item.node) {
        this._list.insertBefore(item.node, this._list.children[place] ?? null);
      }
    });
    if (held && document.activeElement !== active) {
      if (this._list.contains(active)) {
        // A row that moves loses the keyboard, and gets it back.
        active.focus();
      } else {
        this._focusRow(Math.max(0, at));
      }
    }
  }

  /** The row that had the keyboard is gone: the next one gets it. */
  private _focusRow(at: number): void {
    const rows = this._rows();
    const row = rows.at(Math.min(at, rows.length - 1));
    const next = row?.querySelector<HTMLElement>('input:not(:disabled)');
    if (next) {
      next.focus();
    } else {
      this._host.focusGraph();
    }
  }

  private _rows(): readonly HTMLElement[] {
    return [...this._list.children] as HTMLElement[];
  }

  private readonly _history: HistoryList;
  private readonly _undo: HTMLButtonElement;
  private readonly _redo: HTMLButtonElement;
  private readonly _copy: HTMLButtonElement;
  private readonly _hint = element('p', { class: 'workbench-Hint' });
  private readonly _list = element('ol', {
    class: 'workbench-Overrides',
    attributes: { 'aria-label': 'Overrides' }
  });
  private readonly _items = new Map<number, OverrideItem>();
}

/**
 * The lines that attach the overrides, in their order. A line that stands there
 * twice attaches once, and of two equal overrides the later one has the say.
 */
export function codeOf(overrides: readonly IOverride[]): string {
  const lines = new Set(overrides.map(({ code }) => code).reverse());
  return [...lines].reverse().join('\n');
}
