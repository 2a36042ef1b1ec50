/** The panel beside the graph, in tabs: the node, the overrides, the checks. */

import { PanelLayout, Widget } from '@lumino/widgets';

import { Segments, element } from '../../ui/dom';
import { Checks } from '../checks/checks';
import { NodeVerdict } from '../checks/findings';
import type { IHost, Reason } from '../host';
import { OverrideList } from '../overrides/overrides';
import { RuleForm } from '../overrides/rule';
import { NodeDetail, NodeNumbers, NodeSummary } from './node';
import { DerivativeMenu } from './pair';

export type Tab = 'node' | 'overrides' | 'checks';

export class Inspector extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('aside', { attributes: { 'aria-label': 'Inspector' } }) });
    this.addClass('workbench-Inspector');
    const layout = new PanelLayout();
    this.layout = layout;
    this._tabs = new Segments<Tab>('Inspector', 'tabs', tab => {
      this.showTab(tab);
    });
    this._detail = new NodeDetail(_host, () => {
      this._summary.refresh();
      this._numbers.refresh();
    });
    this._summary = new NodeSummary(_host, this._detail);
    this._verdict = new NodeVerdict(_host);
    this._form = new RuleForm(_host);
    this._numbers = new NodeNumbers(_host, this._detail);
    this._overrides = new OverrideList(_host);
    this._checks = new Checks(_host);
    this._derivatives = new DerivativeMenu(_host);
    const nodePane = pane('Node', [
      this._summary,
      this._verdict,
      this._form,
      this._derivatives,
      this._numbers
    ]);
    this._panes = {
      node: nodePane,
      overrides: pane('Overrides', [this._overrides]),
      checks: pane('Checks', [this._checks])
    };
    layout.addWidget(new Widget({ node: this._tabs.node }));
    for (const one of Object.values(this._panes)) {
      layout.addWidget(one);
    }
    this.showTab('node');
  }

  get tab(): Tab {
    return this._tab;
  }

  /** Show a tab. */
  showTab(tab: Tab): void {
    this._tab = tab;
    this._showTabs();
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
    this._checks.refreshJob();
  }

  refresh(reason: Reason): void {
    this._detail.refresh(reason);
    if (reason !== 'hover' && reason !== 'view') {
      this._summary.refresh();
      this._numbers.refresh();
    }
    this._verdict.refresh(reason);
    this._form.refresh(reason);
    this._derivatives.refresh(reason);
    this._overrides.refresh(reason);
    this._checks.refresh(reason);
    this._showTabs();
  }

  override dispose(): void {
    this._detail.dispose();
    super.dispose();
  }

  private _showTabs(): void {
    const count = this._host.state.graph?.header.overrides.length ?? 0;
    const found = this._found();
    this._tabs.setChoices([
      { value: 'node', label: 'Node' },
      { value: 'overrides', label: count > 0 ? `Overrides ${count}` : 'Overrides' },
      { value: 'checks', label: found > 0 ? `Checks ${found}` : 'Checks' }
    ]);
    this._tabs.choose(this._tab);
  }

  /** How many rules are wrong and how many findings there are. */
  private _found(): number {
    const header = this._host.state.graph?.header;
    return (header?.check?.counts.wrong ?? 0) + (header?.findings?.list.length ?? 0);
  }

  private _tab: Tab = 'node';
  private readonly _tabs: Segments<Tab>;
  private readonly _detail: NodeDetail;
  private readonly _summary: NodeSummary;
  private readonly _verdict: NodeVerdict;
  private readonly _form: RuleForm;
  private readonly _derivatives: DerivativeMenu;
  private readonly _numbers: NodeNumbers;
  private readonly _overrides: OverrideList;
  private readonly _checks: Checks;

  private readonly _panes: Record<Tab, Widget>;
}

function pane(label: string, widgets: readonly Widget[]): Widget {
  const one = new Widget({
    node: element('div', { role: 'tabpanel', attributes: { 'aria-label': label } })
  });
  one.addClass('workbench-Pane');
  const layout = new PanelLayout();
  one.layout = layout;
  for (const widget of widgets) {
    layout.addWidget(widget);
  }
  return one;
}
