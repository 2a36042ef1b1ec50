/** What the colours of the picture mean: a scale in a corner of it. */

import type { ReactNode } from 'react';

import type { ICaption } from '../../canvas/caption';
import {
  type CostColouring,
  costScale,
  formatCost,
  isCost
} from '../../canvas/looks';
import { normScale } from '../../canvas/scale';
import { type IScale, type ITheme, readTheme } from '../../canvas/theme';
import { type Quantity, limitOf } from '../../model/comparison';
import type { Graph, Measure } from '../../model/graph';
import type { Colouring, GraphState } from '../../model/state';
import { Button } from '../../ui/controls';
import { formatNumber, shortNumber } from '../../ui/numbers';
import { BEFORE, sidesOf } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** A scale with the words at its ends. */
interface ILegend {
  title: string;
  low: string;
  high: string;
  scale: (theme: ITheme) => IScale;
}

export class Legend extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Legend');
  }

  override refresh(reason: Reason): void {
    if (reason !== 'hover' && reason !== 'selection') {
      this.draw();
    }
  }

  protected render(): ReactNode {
    const { graph, colouring, stage } = this.host.state;
    const legend = graph && legendOf(graph, colouring, stage === 'traced');
    const marks = graph === null ? [] : marksOf(graph);
    this.setHidden(legend === null && marks.length === 0 && !isCost(colouring));
    const fill = this.isAttached ? legend?.scale(readTheme(this.node)).fill : undefined;
    const background = fill && `linear-gradient(to right, ${fill.join(', ')})`;
    return (
      <>
        {legend !== null && (
          <span className="workbench-LegendScale">
            <span>{legend.title}</span>
            <span>{legend.low}</span>
            <span className="workbench-LegendBar" style={{ background }} />
            <span>{legend.high}</span>
          </span>
        )}
        {graph !== null && isCost(colouring) && this._measuring(graph, colouring)}
        <span className="workbench-LegendScale">
          {marks.map(({ look, words }) => (
            <span key={look} className={`workbench-LegendMark workbench-mod-${look}`}>
              {words}
            </span>
          ))}
        </span>
      </>
    );
  }

  /** What a run costs in all, and the button to measure one again. */
  private _measuring({ header: { profile } }: Graph, what: CostColouring): ReactNode {
    const { connection, asking } = this.host;
    const running = connection?.job?.kind === 'profile';
    const words = running
      ? 'measuring a run …'
      : profile === null
        ? 'no run was measured'
        : `· ${formatCost(what, profile[what])} in all` +
          (profile.stale ? ', before the last change' : '');
    return (
      <span className="workbench-LegendScale">
        <span>{words}</span>
        {connection !== null && !running && (
          <Button
            look="link"
            title="Measure a run again"
            onClick={() => asking.run('profile')}
          >
            Measure
          </Button>
        )}
      </span>
    );
  }
}

/** What an image of a graph says below it. */
export function captionOf(
  { graph, colouring, stage }: GraphState,
  theme: ITheme
): ICaption | null {
  if (graph === null) {
    return null;
  }
  const { session, output_name, output_value } = graph.header;
  const output = output_value === null ? '' : ` · ${output_name} = ${formatNumber(output_value)}`;
  const legend = legendOf(graph, colouring, stage === 'traced');
  return {
    name: session + output,
    legend: legend && { ...legend, fill: legend.scale(theme).fill }
  };
}

/** The marks of checks and the doctor that are to be seen in the picture. */
function marksOf({ header }: Graph): { look: string; words: string }[] {
  const { check, findings } = header;
  const list = findings?.list ?? [];
  const old = check?.stale === true;
  return [
    ...((check?.counts.wrong ?? 0) > 0
      ? [{ look: 'wrong', words: `wrong rule${old ? BEFORE : ''}` }]
      : []),
    // What overrides changed before the last change tells nothing of those of now.
    ...((check?.counts.overridden ?? 0) > 0 && !old
      ? [{ look: 'changed', words: 'changed on purpose' }]
      : []),
    ...list
      .map(({ severity }) => severity)
      .filter((severity, i, all) => all.indexOf(severity) === i)
      .map(severity => ({ look: severity, words: severity + (findings?.stale ? BEFORE : '') }))
  ];
}

function legendOf(graph: Graph, colouring: Colouring, traced: boolean): ILegend | null {
  if (graph.compared?.view === 'colours' && !isCost(colouring)) {
    return comparedLegend(graph, graph.compared.measure, traced ? 'value' : 'gradient');
  }
  if (isCost(colouring)) {
    return graph.header.profile === null ? null : costLegend(graph, colouring);
  }
  if (colouring === 'none' || (traced && colouring !== 'value')) {
    return null;
  }
  if (colouring === 'change') {
    const ends = { low: '0 %', high: '100 %' };
    return { title: 'change by overrides', ...ends, scale: theme => theme.purple };
  }
  return colouring === 'value'
    ? {
        title: 'value ‖·‖',
        ...endsOf(graph, 'value'),
        scale: theme => theme.cool
      }
    : {
        title: 'gradient ‖·‖',
        ...endsOf(graph, 'gradient'),
        scale: theme => theme.warm
      };
}

/** "gradient: run 1 above, now below", from less over the same to more. */
function comparedLegend(graph: Graph, measure: Measure, what: Quantity): ILegend {
  const { before, after } = sidesOf(graph);
  const limit = limitOf(graph, what);
  const most = shortNumber(measure === 'ratio' ? 2 ** limit : limit);
  return {
    title:
      what === 'value'
        ? `‖value‖: from ${before} to ${after}`
        : `tiles ‖gradient‖, cards ‖value‖: ${before} above, ${after} below`,
    low: measure === 'ratio' ? `÷ ${most}` : `− ${most}`,
    high: measure === 'ratio' ? `× ${most}` : `+ ${most}`,
    scale: theme => (what === 'gradient' ? theme.diverging : theme.divergingSoft)
  };
}

/** "time, compiled", with the ends in units. */
function costLegend(graph: Graph, what: CostColouring): ILegend {
  const { low, high } = costScale(graph, what);
  const words = what === 'time' ? 'time' : 'bytes read and written';
  return {
    title: `${words}, ${graph.header.profile?.backend ?? ''}`,
    low: formatCost(what, 10 ** low),
    high: formatCost(what, 10 ** high),
    scale: theme => theme.cool
  };
}

/** The numbers at the ends of the scale that the picture uses. */
function endsOf(graph: Graph, what: Quantity): { low: string; high: string } {
  const { low, high } = normScale(graph, what);
  return { low: shortNumber(10 ** low), high: shortNumber(10 ** high) };
}
