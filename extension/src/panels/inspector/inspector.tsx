/** The panel beside the graph, in tabs: the node, the overrides, the checks. */

import type { ReactNode } from 'react';

import { Segments } from '../../ui/controls';
import { Box, element } from '../../ui/dom';
import { Checks } from '../checks/checks';
import { NodeVerdict } from '../checks/findings';
import type { IHost, Reason } from '../host';
import { OverrideList } from '../overrides/overrides';
import { RuleForm } from '../overrides/rule';
import { Part } from '../part';
import { NormsOverRuns } from '../runs/norms';
import { ArrayPicture } from './array';
import { EntrySlider } from './entry';
import { SourceLines } from './lines';
import { NodeDetail, NodeNumbers, NodeSummary } from './node';
import { DerivativeMenu } from './pair';
import { StopConditions } from './stops';

export type Tab = 'node' | 'overrides' | 'checks';

export class Inspector extends Box {
  constructor(host: IHost) {
    const attributes = { 'aria-label': 'Inspector' };
    super('workbench-Inspector', element('aside', { attributes }));
    this._tabs = new Tabs(host, tab => this.showTab(tab));
    this._detail = new NodeDetail(host, () => {
      this._summary.refresh('values');
      this._numbers.refresh('values');
    });
    this._summary = new NodeSummary(host, this._detail);
    this._form = new RuleForm(host);
    this._numbers = new NodeNumbers(host, this._detail);
    const parts = [
      this._summary,
      new EntrySlider(host),
      new ArrayPicture(host),
      new NormsOverRuns(host),
      new NodeVerdict(host),
      this._form,
      new StopConditions(host),
      new DerivativeMenu(host),
      this._numbers,
      new SourceLines(host)
    ];
    this._node = parts;
    this._lists = { overrides: new OverrideList(host), checks: new Checks(host) };
    this._panes = {
      node: makePane('Node', parts),
      overrides: makePane('Overrides', [this._lists.overrides]),
      checks: makePane('Checks', [this._lists.checks])
    };
    this.append(this._tabs, ...Object.values(this._panes));
    this.showTab('node');
  }

  get tab(): Tab {
    return this._tabs.tab;
  }

  /** Show a tab. */
  showTab(tab: Tab): void {
    this._tabs.choose(tab);
    this._list?.refresh('graph');
    for (const [name, one] of Object.entries(this._panes)) {
      one.setHidden(name !== tab);
    }
  }

  /** Begin to override the selected node. */
  startOverride(): void {
    this.showTab('node');
    this._form.focusField();
  }

  /** Put the keyboard on the tab that is shown. */
  focusTab(): void {
    this._tabs.focus();
  }

  /** A check or the doctor began, is further, or is done. */
  refreshJob(): void {
    this._list?.refresh('connection');
  }

  refresh(reason: Reason): void {
    this._detail.refresh(reason);
    for (const part of this._node) {
      part.refresh(reason);
    }
    this._list?.refresh(reason);
    this._tabs.refresh(reason);
  }

  override dispose(): void {
    this._detail.dispose();
    super.dispose();
  }

  /** The list that is shown: one that is not is drawn when it is. */
  private get _list(): Part | null {
    return this.tab === 'node' ? null : this._lists[this.tab];
  }

  private readonly _tabs: Tabs;
  private readonly _detail: NodeDetail;
  private readonly _summary: NodeSummary;
  private readonly _form: RuleForm;
  private readonly _numbers: NodeNumbers;
  private readonly _node: readonly { refresh(reason: Reason): void }[];
  private readonly _lists: Record<Exclude<Tab, 'node'>, Part>;
  private readonly _panes: Record<Tab, Box>;
}

/** The tabs, with how many there are of what they show. */
class Tabs extends Part {
  constructor(
    host: IHost,
    private readonly _onChoose: (tab: Tab) => void
  ) {
    super(host, 'workbench-Tabs');
  }

  tab: Tab = 'node';

  choose(tab: Tab): void {
    this.tab = tab;
    this.draw();
  }

  /** Put the keyboard on the tab that is shown. */
  focus(): void {
    this.node.querySelector<HTMLElement>('[aria-selected=true]')?.focus();
  }

  protected render(): ReactNode {
    const { overrides = [], check, findings } = this.host.state.graph?.header ?? {};
    const found = (check?.counts.wrong ?? 0) + (findings?.list.length ?? 0);
    const counted = (label: string, count: number): string =>
      count > 0 ? `${label} ${count}` : label;
    return (
      <Segments<Tab>
        label="Inspector"
        look="tabs"
        choices={[
          { value: 'node', label: 'Node' },
          { value: 'overrides', label: counted('Overrides', overrides.length) },
          { value: 'checks', label: counted('Checks', found) }
        ]}
        chosen={this.tab}
        onChoose={this._onChoose}
      />
    );
  }
}

function makePane(label: string, parts: readonly Box[]): Box {
  const attributes = { 'aria-label': label };
  const node = element('div', { role: 'tabpanel', attributes });
  return new Box('workbench-Pane', node).append(...parts);
}
