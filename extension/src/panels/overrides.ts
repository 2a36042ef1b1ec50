/** All overrides of the session: what they are on, what they change. */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../graph';
import type { IOverride } from '../protocol';
import { Keyed, element } from './dom';
import type { IHost, Reason } from './host';
import { formatPlural } from './numbers';
import { overrideLinks, pill } from './links';
import { effectText, effectsLine, targetText } from './words';

export class OverrideList extends Widget {
  constructor(private readonly _host: IHost) {
    super();
    this.addClass('workbench-OverrideList');
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph, selected } = this._host.state;
    const overrides = graph?.header.overrides ?? [];
    const live = this._host.connection !== null;
    this._list.fill([overrides, selected, live], () =>
      graph === null || overrides.length === 0
        ? [
            element('p', {
              class: 'workbench-Hint',
              text:
                'All gradients are the true ones. Select a node and attach another ' +
                'rule to see what it changes.'
            })
          ]
        : overrides.map(override => this._item(graph, override, selected))
    );
  }

  private _item(
    graph: Graph,
    override: IOverride,
    selected: number | null
  ): HTMLElement {
    const live = this._host.connection !== null;
    const here = selected !== null && override.matched.includes(selected);
    const box = element('input', {
      title: override.enabled ? 'Switch off' : 'Switch on',
      attributes: { type: 'checkbox', role: 'switch', 'aria-label': override.label }
    });
    box.checked = override.enabled;
    box.disabled = !live;
    box.addEventListener('change', () => {
      this._host.asking.enable(override, box.checked);
    });
    return element(
      'section',
      { class: `workbench-Override ${here ? 'workbench-mod-here' : ''}` },
      [
        element('div', { class: 'workbench-Row' }, [
          box,
          element('button', {
            class: 'workbench-Target',
            text: targetText(graph, override.target),
            title: 'Select the node',
            attributes: { type: 'button' },
            onClick: () => {
              this._select(override);
            }
          }),
          pill(override)
        ]),
        ...(override.label === override.rule
          ? []
          : [element('code', { class: 'workbench-Rule', text: override.rule })]),
        element('div', {
          class: 'workbench-Quiet',
          text:
            override.matched.length === 0
              ? 'matches no node'
              : `${formatPlural(override.matched.length, 'node')} · ` +
                (effectsLine(graph.header, override) || 'no effect known')
        }),
        ...effects(graph, override),
        overrideLinks(this._host, override, live)
      ]
    );
  }

  /** The next node that the override matches, round the end. */
  private _select(override: IOverride): void {
    const { state } = this._host;
    const { matched } = override;
    if (matched.length === 0) {
      return;
    }
    const at = state.selected === null ? -1 : matched.indexOf(state.selected);
    const node = matched[(at + 1) % matched.length];
    state.select(node);
    this._host.centre(node);
  }

  private readonly _list = new Keyed(this.node);
}

function effects(graph: Graph, override: IOverride): HTMLElement[] {
  if (!override.enabled || override.effects.length === 0) {
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
