/** One override in the list: what it is on, what it changes, and what can be done. */

import type { Graph } from '../../model/graph';
import { Keyed, button, element, icon } from '../../ui/dom';
import { formatPlural } from '../../ui/numbers';
import { effectText, effectsLine, targetText } from '../../ui/words';
import type { IOverride } from '../../wire/protocol';
import type { IHost } from '../host';
import { copyLink, pill } from '../links';
import { goTo } from '../places';
import { RuleEdit } from './edit';
import { reorderBy } from './reorder';

export class OverrideItem {
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
    this._target.textContent = targetText(graph, override.target);
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
