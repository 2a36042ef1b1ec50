/** What the colours of the picture mean: a scale in a corner of it. */

import { Widget } from '@lumino/widgets';

import { scaleOf, shortNumber } from '../../canvas/looks';
import { type IScale, type ITheme, readTheme } from '../../canvas/theme';
import type { Graph } from '../../model/graph';
import type { Colouring } from '../../model/state';
import { Keyed, element } from '../../ui/dom';
import type { IHost, Reason } from '../host';

/** A scale with the words at its ends. */
interface ILegend {
  title: string;
  low: string;
  high: string;
  scale: (theme: ITheme) => IScale;
}

export class Legend extends Widget {
  constructor(private readonly _host: IHost) {
    super();
    this.addClass('workbench-Legend');
    this._scale.append(this._title, this._low, this._bar, this._high);
    this.node.append(this._scale, this._marks.node);
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'selection') {
      return;
    }
    const { graph, colouring, stage } = this._host.state;
    const legend =
      graph === null ? null : legendOf(graph, colouring, stage === 'traced');
    const marks = graph === null ? [] : marksOf(graph);
    this.setHidden(legend === null && marks.length === 0);
    this._scale.hidden = legend === null;
    this._marks.fill(marks, () =>
      marks.map(({ look, words }) =>
        element('span', { class: `workbench-LegendMark workbench-mod-${look}` }, [
          words
        ])
      )
    );
    if (legend !== null) {
      this._title.textContent = legend.title;
      this._low.textContent = legend.low;
      this._high.textContent = legend.high;
      if (this.isAttached) {
        const { fill } = legend.scale(readTheme(this.node));
        this._bar.style.background = `linear-gradient(to right, ${fill.join(', ')})`;
      }
    }
  }

  private readonly _scale = element('span', { class: 'workbench-LegendScale' });
  private readonly _marks = new Keyed(
    element('span', { class: 'workbench-LegendScale' })
  );
  private readonly _title = element('span');
  private readonly _low = element('span');
  private readonly _bar = element('span', { class: 'workbench-LegendBar' });
  private readonly _high = element('span');
}

/** The marks of checks and the doctor that are to be seen in the picture. */
function marksOf({ header }: Graph): { look: string; words: string }[] {
  const { check, findings } = header;
  const list = findings?.list ?? [];
  return [
    ...((check?.counts.wrong ?? 0) > 0 ? [{ look: 'wrong', words: 'wrong rule' }] : []),
    ...((check?.counts.overridden ?? 0) > 0
      ? [{ look: 'changed', words: 'changed on purpose' }]
      : []),
    ...list
      .map(({ severity }) => severity)
      .filter((severity, i, all) => all.indexOf(severity) === i)
      .map(severity => ({ look: severity, words: severity }))
  ];
}

function legendOf(graph: Graph, colouring: Colouring, traced: boolean): ILegend | null {
  switch (colouring) {
    case 'none':
      return null;
    case 'value':
      return {
        title: 'value ‖·‖',
        ...ends(graph, node => graph.valueNorm(node)),
        scale: theme => theme.cool
      };
    case 'gradient':
      return traced
        ? null
        : {
            title: 'gradient ‖·‖',
            ...ends(graph, node => graph.gradNorm(node)),
            scale: theme => theme.warm
          };
    case 'change':
      return traced
        ? null
        : {
            title: 'change by overrides',
            low: '0 %',
            high: '100 %',
            scale: theme => theme.purple
          };
  }
}

/** The numbers at the ends of the scale that the picture uses. */
function ends(
  graph: Graph,
  norm: (node: number) => number
): { low: string; high: string } {
  const { low, high } = scaleOf(graph.count, norm);
  return { low: shortNumber(10 ** low), high: shortNumber(10 ** high) };
}
