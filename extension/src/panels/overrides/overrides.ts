/**
 * All overrides of the session in their order: what they are on and what they
 * change; switched, moved, edited, taken back, and written out as code.
 */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { Keyed, button, element, icon } from '../../ui/dom';
import { formatPlural } from '../../ui/numbers';
import { effectText, effectsLine, whereText } from '../../ui/words';
import type { IHistory, IOverride } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { copyLink, goTo, pill } from '../links';
import { StepsField } from './rule';

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

// One override in the list: what it is on, what it changes, and what can be done.

class OverrideItem {
  readonly node = element('li', { class: 'workbench-Override' });

  constructor(
    private readonly _host: IHost,
    private _override: IOverride,
    rows: () => readonly HTMLElement[]
  ) {
    this._switch.addEventListener('change', () => {
      this._host.asking.enable(this._override, this._switch.checked);
    });
    this._handle.append(icon('move'));
    reorderBy(this._handle, {
      row: this.node,
      rows,
      move: to => {
        _host.asking.move(this._override, to);
      }
    });
    this.node.append(
      element('div', { class: 'workbench-Row workbench-OverrideHead' }, [
        this._handle,
        this._switch,
        this._target,
        this._pill.node
      ]),
      this._rule.node,
      this._nodes.node,
      this._effects.node,
      element('div', { class: 'workbench-Links' }, [
        this._editLink,
        copyLink(_host, () => this._override.code, 'Copy as code'),
        this._removeLink
      ])
    );
  }

  /** Show what the kernel says of it now; what has the keyboard stays. */
  update(graph: Graph, override: IOverride, place: number, count: number): void {
    this._override = override;
    const { label, rule, enabled, data, stored, note, matched, covered } = override;
    const live = this._host.connection !== null;
    const { selected } = this._host.state;
    const here =
      selected !== null && (matched.includes(selected) || covered.includes(selected));
    this.node.classList.toggle('workbench-mod-here', here);
    this.node.classList.toggle('workbench-mod-off', !enabled);
    this._switch.checked = enabled;
    this._switch.disabled = !live;
    this._switch.title = enabled ? 'Switch off' : 'Switch on';
    this._switch.setAttribute('aria-label', label);
    this._handle.hidden = !live || count < 2;
    const words = `Move ${label}, ${place + 1} of ${count}: drag, or arrow keys`;
    this._handle.title = words;
    this._handle.setAttribute('aria-label', words);
    this._target.textContent = whereText(graph, override);
    this._target.title =
      matched.length > 1 ? 'Select the next node' : 'Select the node';
    this._pill.fill([label, enabled, rule], () => [pill(override)]);
    this._edit?.update(override);
    this._showRule();
    this._nodes.fill([matched, covered, note, stored, here ? selected : null], () =>
      this._about(override, selected)
    );
    this._effects.fill([override.effects, enabled, graph.header.wrt], () => [
      // Where there is a table of the effects, it says more.
      ...line(changes(override) ? '' : effectsLine(graph.header, override)),
      ...effects(graph, override)
    ]);
    this._editLink.hidden = !live || !data || this._edit !== null;
    this._removeLink.hidden = !live;
  }

  /** Begin to write another rule. */
  startEdit(): void {
    if (this._edit === null) {
      this._edit = new RuleEdit(this._host, this._override, () => {
        this._edit = null;
        this._rule.reset();
        this._showRule();
        this._editLink.hidden = false;
        this._editLink.focus();
      });
      this._rule.node.replaceChildren(this._edit.node);
      this._editLink.hidden = true;
    }
    this._edit.focus();
  }

  dispose(): void {
    this._edit?.dispose();
  }

  /** The rule, where the label is another text, and is not being written. */
  private _showRule(): void {
    const { label, rule } = this._override;
    if (this._edit === null) {
      this._rule.fill([label, rule], () =>
        label === rule ? [] : [element('code', { class: 'workbench-Rule', text: rule })]
      );
    }
  }

  /** How many nodes it is on, with a way through them, and who else has the say. */
  private _about(
    { matched, covered, note, stored }: IOverride,
    selected: number | null
  ): HTMLElement[] {
    const at = selected === null ? -1 : matched.indexOf(selected);
    const count =
      matched.length === 0
        ? 'matches no node'
        : at >= 0 && matched.length > 1
          ? `node ${at + 1} of ${matched.length}`
          : formatPlural(matched.length, 'node');
    const within = covered.length > 0 ? `, ${covered.length} more within` : '';
    return [
      element('div', { class: 'workbench-Quiet workbench-Walk' }, [
        count + within,
        ...(matched.length > 1
          ? [
              this._step('back', 'Previous node', -1),
              this._step('forward', 'Next node', 1)
            ]
          : [])
      ]),
      ...line(note),
      ...line(
        stored ? '' : 'Not kept when the session is saved: its rule or target is code.'
      )
    ];
  }

  private _step(name: 'back' | 'forward', label: string, by: number): HTMLElement {
    const node = button('icon', label, () => {
      this._walk(by);
    });
    node.append(icon(name));
    return node;
  }

  /** Select the next node that it matches, round the end. */
  private _walk(by: number): void {
    const { matched } = this._override;
    if (matched.length === 0) {
      return;
    }
    const { selected } = this._host.state;
    const at = selected === null ? -1 : matched.indexOf(selected);
    const next = at < 0 ? (by > 0 ? 0 : -1) : at + by;
    goTo(this._host, matched[(next + matched.length) % matched.length]);
  }

  private readonly _handle = button('icon', 'Move', () => undefined, {
    class: 'workbench-Handle',
    // Its arrows are its own, not the notebook's.
    attributes: { 'data-lm-suppress-shortcuts': '' }
  });
  private readonly _switch = element('input', {
    attributes: { type: 'checkbox', role: 'switch' }
  });
  private readonly _target = element('button', {
    class: 'workbench-Target',
    attributes: { type: 'button' },
    onClick: () => {
      this._walk(1);
    }
  });
  private readonly _pill = new Keyed(element('span'));
  private readonly _rule = new Keyed(element('div'));
  private readonly _nodes = new Keyed(element('div'));
  private readonly _effects = new Keyed(element('div'));
  private readonly _editLink = button('link', 'Edit', () => {
    this.startEdit();
  });
  private readonly _removeLink = button('link', 'Remove', () => {
    this._host.asking.remove(this._override);
  });
  private _edit: RuleEdit | null = null;
}

function changes({ enabled, effects: found }: IOverride): boolean {
  return enabled && found.some(({ relative }) => relative !== 0);
}

function line(text: string): HTMLElement[] {
  return text === '' ? [] : [element('div', { class: 'workbench-Quiet', text })];
}

function effects(graph: Graph, override: IOverride): HTMLElement[] {
  if (!changes(override)) {
    return [];
  }
  return [
    element(
      'dl',
      { class: 'workbench-Facts workbench-mod-effects' },
      override.effects.flatMap(effect => [
        element('dt', { text: `∂${graph.header.output_name}/∂${effect.name}` }),
        element('dd', {
          text: effectText(effect),
          class: effect.relative === 0 ? 'workbench-mod-none' : ''
        })
      ])
    )
  ];
}

// Another rule for an override, written where it stands in the list.

/** Milliseconds without a key before the kernel is asked about a rule. */
const PAUSE = 150;

class RuleEdit {
  readonly node = element('form', { class: 'workbench-RuleEdit' });

  constructor(
    private readonly _host: IHost,
    private _override: IOverride,
    /** It is applied, or given up. */
    private readonly _onDone: () => void
  ) {
    this._field = element('input', {
      class: 'workbench-Input',
      attributes: {
        type: 'text',
        'aria-label': `Rule of ${_override.label}`,
        spellcheck: 'false',
        autocomplete: 'off',
        maxlength: '1000'
      }
    });
    this._field.value = _override.rule;
    this._steps = new StepsField(_override.steps);
    const { target } = _override;
    this._steps.node.hidden = target.kind === 'node' || !_host.state.graph?.hasLoops;
    this._steps.node.addEventListener('input', () => {
      this._show('', null);
    });
    this._field.addEventListener('input', () => {
      this._refused = false;
      this._show('', null);
      clearTimeout(this._timer);
      this._timer = setTimeout(() => {
        this._check();
      }, PAUSE);
    });
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        this._close();
      } else if (event.key === 'Enter' && event.target instanceof HTMLInputElement) {
        // Notebooks do not let a form submit itself by Enter.
        event.preventDefault();
        event.stopPropagation();
        this._submit();
      }
    });
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      this._submit();
    });
    this.node.append(
      element('div', { class: 'workbench-Field' }, [this._field, this._apply]),
      this._steps.node,
      element('div', { class: 'workbench-Under' }, [
        this._message,
        button('link', 'Cancel', () => {
          this._close();
        })
      ])
    );
    this._show('', null);
  }

  focus(): void {
    this._field.focus();
    this._field.select();
  }

  /** What the kernel says of the override now; what was written stays. */
  update(override: IOverride): void {
    this._override = override;
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._question += 1;
  }

  private _close(): void {
    this.dispose();
    this._onDone();
  }

  private _check(): void {
    const question = ++this._question;
    const { connection } = this._host;
    const rule = this._field.value.trim();
    if (connection === null || rule === '') {
      return;
    }
    const { target, id } = this._override;
    connection.checkExpression(target, rule, id).then(
      ({ ok, message }) => {
        if (question === this._question) {
          this._show(message || (ok ? 'ok' : 'not a rule'), ok);
        }
      },
      (error: unknown) => {
        if (question === this._question) {
          this._show(wordsOf(error), false);
        }
      }
    );
  }

  private _submit(): void {
    if (this._apply.disabled) {
      return;
    }
    clearTimeout(this._timer);
    const question = ++this._question;
    this._apply.disabled = true;
    const rule = this._field.value.trim();
    this._host.asking.edit(this._override, rule, this._steps.text).then(
      () => {
        this._close();
      },
      (error: unknown) => {
        if (question === this._question) {
          this._show(wordsOf(error), false);
        }
      }
    );
  }

  private _show(message: string, ok: boolean | null): void {
    const rule = this._field.value.trim();
    this._refused = ok === false;
    this._message.textContent = message;
    this._message.classList.toggle('workbench-mod-bad', this._refused);
    this._field.setAttribute('aria-invalid', String(this._refused));
    const { rule: before, steps } = this._override;
    const same = rule === before && this._steps.text === steps;
    this._apply.disabled = rule === '' || this._refused || same;
  }

  private readonly _field: HTMLInputElement;
  private readonly _steps: StepsField;
  private readonly _apply = button('primary', 'Apply', () => undefined, {
    attributes: { type: 'submit' }
  });
  private readonly _message = element('span', {
    class: 'workbench-Message',
    role: 'status',
    attributes: { 'aria-live': 'polite' }
  });
  private _refused = false;
  private _question = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// Putting the rows of a list into another order: by dragging a handle, or with the
// arrow keys while it has the keyboard.

/** Pixels until a press is a drag. */
const SLACK = 4;

export interface IReorderOptions {
  /** The row that the handle moves, and all rows in their order. */
  row: HTMLElement;
  rows: () => readonly HTMLElement[];
  /** The row is to stand at this place, counted without it. */
  move: (to: number) => void;
}

function reorderBy(handle: HTMLElement, options: IReorderOptions): void {
  const { row, rows, move } = options;
  let from: number | null = null;
  let dragging = false;
  const place = (): number => rows().indexOf(row);
  const clear = (): void => {
    from = null;
    dragging = false;
    row.classList.remove('workbench-mod-dragged');
    for (const one of rows()) {
      one.classList.remove('workbench-mod-above', 'workbench-mod-below');
    }
  };
  handle.addEventListener('pointerdown', event => {
    if (event.button === 0) {
      from = event.clientY;
      handle.setPointerCapture(event.pointerId);
    }
  });
  handle.addEventListener('pointermove', event => {
    if (from === null || (!dragging && Math.abs(event.clientY - from) < SLACK)) {
      return;
    }
    dragging = true;
    row.classList.add('workbench-mod-dragged');
    const to = placeAt(rows(), row, event.clientY);
    const at = place();
    rows().forEach((one, i) => {
      one.classList.toggle('workbench-mod-above', i === to && to < at);
      one.classList.toggle('workbench-mod-below', i === to && to > at);
    });
  });
  handle.addEventListener('pointerup', event => {
    const to = dragging ? placeAt(rows(), row, event.clientY) : place();
    const at = place();
    clear();
    if (to !== at) {
      move(to);
    }
  });
  handle.addEventListener('pointercancel', clear);
  handle.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey) {
      return;
    }
    if (event.key === 'Escape' && dragging) {
      clear();
      return;
    }
    const last = rows().length - 1;
    const at = place();
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last }[event.key];
    if (to === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (to !== at && to >= 0 && to <= last) {
      move(to);
    }
  });
}

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

class HistoryList {
  readonly node = element('details', { class: 'workbench-History' });

  constructor(private readonly _host: IHost) {
    this.node.append(this._summary, this._steps.node);
  }

  refresh(history: IHistory, live: boolean): void {
    const { done, undone } = history;
    const count = done.length + undone.length;
    this.node.hidden = count === 0;
    this._summary.textContent = `History: ${formatPlural(count, 'change')}`;
    const inside = this._steps.node.contains(document.activeElement);
    const built = this._steps.fill([done, undone, live], () =>
      this._rows(history, live)
    );
    if (built && inside) {
      this._steps.node.querySelector<HTMLElement>('[aria-current]')?.focus();
    }
  }

  private _rows({ done, undone }: IHistory, live: boolean): HTMLElement[] {
    const now = done.length;
    const texts = ['All gradients true', ...done, ...undone];
    const first = Math.max(0, now - SHOWN);
    const last = Math.min(texts.length, now + 1 + SHOWN);
    return texts.slice(first, last).map((text, i) => {
      const at = first + i;
      const current = at === now;
      const step = element('button', {
        class: `workbench-Step ${at > now ? 'workbench-mod-undone' : ''}`.trim(),
        text,
        title: current
          ? 'As it is now'
          : at < now
            ? 'Go back to here'
            : 'Redo up to here',
        attributes: {
          type: 'button',
          ...(current ? { 'aria-current': 'step' } : {})
        },
        onClick: () => {
          if (at < now) {
            this._host.asking.undo(now - at);
          } else if (at > now) {
            this._host.asking.redo(at - now);
          }
        }
      });
      step.disabled = !live;
      return element('li', {}, [step]);
    });
  }

  private readonly _summary = element('summary');
  private readonly _steps = new Keyed(element('ol'));
}
