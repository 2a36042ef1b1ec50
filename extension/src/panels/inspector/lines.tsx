/** In a file, where there is no editor: the lines of the program with their gradients. */

import type { CSSProperties, JSX, ReactNode } from 'react';

import { type INormScale, levelOf, normScale } from '../../canvas/scale';
import type { Graph, ITracedLine } from '../../model/graph';
import { formatNumber, shortNumber } from '../../ui/numbers';
import type { IHost } from '../host';
import { lastReached } from '../lines';
import { goTo } from '../links';
import { Part } from '../part';

/** So many lines are listed: a file is no editor. */
const MOST_LINES = 500;

export class SourceLines extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-SourceLines');
  }

  protected render(): ReactNode {
    const { graph } = this.host.state;
    const lines = this.host.alone && graph !== null ? this._linesOf(graph) : [];
    this.setHidden(lines.length === 0);
    if (graph === null || lines.length === 0) {
      return null;
    }
    const scale = normScale(graph, 'gradient');
    return (
      <>
        <div className="workbench-Quiet">
          Lines, with the gradient of what each gives
          {lines.length > MOST_LINES && `; the first ${MOST_LINES} of ${lines.length}`}
        </div>
        {lines.slice(0, MOST_LINES).map(one => this._renderLine(graph, one, scale))}
      </>
    );
  }

  private _renderLine(graph: Graph, line: ITracedLine, scale: INormScale): JSX.Element {
    const { state } = this.host;
    const { place, source, nodes } = line;
    const result = lastReached(graph, nodes);
    const norm = result === null ? NaN : graph.gradNorm(result);
    const level = levelOf(scale, norm);
    const text = result === null ? 'no gradient' : `gradient ‖·‖ ${formatNumber(norm)}`;
    const style = { '--workbench-level': level.toFixed(2) } as CSSProperties;
    const outline = (): void => state.outline(nodes);
    const rest = (): void => state.outline([]);
    return (
      <button
        key={nodes[0]}
        type="button"
        className="workbench-Source"
        title={`${source.trim()}\n${text}`}
        aria-pressed={nodes.includes(state.selected ?? -1)}
        onClick={() => goTo(this.host, result ?? nodes[nodes.length - 1])}
        onPointerEnter={outline}
        onFocus={outline}
        onPointerLeave={rest}
        onBlur={rest}
      >
        <span className="workbench-Place">{place}</span>
        <code>{source.trim()}</code>
        {result !== null && (
          <span className="workbench-LineGradient">
            <span>{shortNumber(norm)}</span>
            <span style={style} hidden={Number.isNaN(level)} />
          </span>
        )}
      </button>
    );
  }

  /** The lines of a graph; they stay where only its numbers change. */
  private _linesOf(graph: Graph): readonly ITracedLine[] {
    if (this._graph?.sameStructure(graph) !== true) {
      this._lines = graph.groupByLine().filter(({ source }) => source.trim() !== '');
    }
    this._graph = graph;
    return this._lines;
  }

  private _graph: Graph | null = null;
  private _lines: readonly ITracedLine[] = [];
}
