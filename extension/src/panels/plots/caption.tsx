/** The line over a figure: its views, what it shows, and how far the kernel is. */

import type { JSX, ReactNode } from 'react';

import { Button, Icon, Segments, classes } from '../../ui/controls';
import { formatCount } from '../../ui/numbers';
import { forceText } from '../../ui/words';
import { type IMatrix, type IPlotAnswer, PLOTS, type PlotKind } from '../../wire/protocol';
import type { IProgress } from '../../wire/requests';
import type { IHost } from '../host';
import { Part } from '../part';
import { sameWindow } from './cells';
import { type Plot, isMap, needs } from './plot';

/** What is asked of the drawer. */
export interface ICaptionOwner {
  /** Show another view of the same nodes. */
  view(kind: PlotKind): void;
  /** Show all of the matrix again. */
  whole(): void;
  /** Show the true derivative, or that with the overrides in force. */
  setOverrides(overrides: boolean): void;
  /** Ask again: the graph changed. */
  again(): void;
  stop(): void;
  /** Show the way between the nodes in the graph. */
  showWay(matrix: IMatrix): void;
}

export class Caption extends Part {
  constructor(
    host: IHost,
    private readonly _owner: ICaptionOwner
  ) {
    super(host, 'workbench-Caption');
  }

  /** Say a sentence, and nothing else. */
  say(text: string): void {
    this._shown = text;
    this.draw();
  }

  /** Say what there is to say of a plot. `stale`: it is older than the graph. */
  tell(plot: Plot, stale: boolean): void {
    this._shown = { plot, stale };
    this.draw();
  }

  /** Say which entry was chosen; "": none is. */
  tellEntry(text: string, hint: string): void {
    this._entry = { text, hint };
    this.draw();
  }

  protected render(): ReactNode {
    if (typeof this._shown === 'string') {
      return (
        <div className="workbench-CaptionLine">
          <span className="workbench-CaptionWords">{this._shown}</span>
        </div>
      );
    }
    const { plot, stale } = this._shown;
    const { answer, failure, waiting } = plot;
    const live = this.host.connection !== null;
    const { text, hint } = this._entry;
    return (
      <>
        <div className="workbench-CaptionLine">
          {plot.views.length > 1 && live && (
            <Segments<PlotKind>
              label="View"
              look="segments"
              choices={plot.views.map(value => ({ value, label: PLOTS[value].view }))}
              chosen={plot.kind}
              onChoose={kind => this._owner.view(kind)}
            />
          )}
          <span className="workbench-CaptionWords">
            {failure !== null && <span className="workbench-mod-bad">{failure}</span>}
            {answer !== null && answer.note !== '' && <span>{answer.note}</span>}
            {answer?.matrix && this._matrixLinks(plot, answer.matrix, live)}
            {waiting &&
              answer === null &&
              this._waiting(plot, 'The kernel is working on it')}
            {!waiting && stale && live && (
              <>
                <Button look="link" onClick={() => this._owner.again()}>
                  Draw again
                </Button>
                <span className="workbench-Quiet">(the graph changed)</span>
              </>
            )}
          </span>
        </div>
        {answer !== null && this._force(answer, live)}
        {/* Beside an answer, what is under way stands where it moves nothing. */}
        <div className="workbench-CaptionLine" hidden={answer === null}>
          <output
            className={classes('workbench-Entry', text === '' && 'workbench-Quiet')}
            aria-live="polite"
          >
            {text || hint}
          </output>
          {waiting && answer !== null && this._waiting(plot, 'working')}
        </div>
      </>
    );
  }

  /** The overrides that make it another derivative, and the way to the true one. */
  private _force(answer: IPlotAnswer, live: boolean): JSX.Element | null {
    const { overrides, is_true: isTrue, matrix, zero } = answer;
    // A gradient check compares the true one, and says so itself.
    const named = answer.verdict === 'changed' || isTrue ? overrides : [];
    const toggles = live && named.length > 0 && this._canToggle;
    return named.length === 0 && zero === '' ? null : (
      <div className="workbench-CaptionLine workbench-mod-force">
        {named.length > 0 && (
          <span className={classes('workbench-Force', isTrue && 'workbench-mod-true')}>
            <Icon name={isTrue ? 'right' : 'changed'} />
            <span>{forceText(named, isTrue)}</span>
          </span>
        )}
        {toggles && (
          <Button
            look="link"
            title={
              isTrue
                ? 'The derivative with the overrides in force'
                : 'The derivative without overrides; they stay attached'
            }
            onClick={() => this._owner.setOverrides(isTrue)}
          >
            {isTrue ? 'Show with overrides' : 'Show true'}
          </Button>
        )}
        {zero !== '' && (
          <span className="workbench-Zero" title={zero}>
            {matrix === null ? zero : `All zero: ${zero}`}
          </span>
        )}
      </div>
    );
  }

  /** Whether what is shown can be asked for with overrides and without. */
  private get _canToggle(): boolean {
    return typeof this._shown !== 'string' && needs(this._shown.plot.kind, 'overrides');
  }

  /** What can be done with a heat map, beside what its note says. */
  private _matrixLinks(plot: Plot, matrix: IMatrix, live: boolean): JSX.Element {
    const map = isMap(plot.answered ?? plot.kind);
    return (
      <>
        {map && live && !sameWindow(matrix, matrix.window, null) && (
          <Button look="link" onClick={() => this._owner.whole()}>
            Show all
          </Button>
        )}
        {matrix.path.length > 1 && (
          <Button
            look="link"
            title={`${formatCount(matrix.path.length)} nodes lie on it`}
            onClick={() => this._owner.showWay(matrix)}
          >
            Path in the graph
          </Button>
        )}
      </>
    );
  }

  private _waiting({ progress }: Plot, what: string): JSX.Element {
    return (
      <span className="workbench-Working" role="status">
        {`${what}${progressText(progress)} … `}
        <Button look="link" onClick={() => this._owner.stop()}>
          Stop
        </Button>
      </span>
    );
  }

  private _shown: string | { plot: Plot; stale: boolean } = '';
  private _entry = { text: '', hint: '' };
}

/** " (30 %, 12 s left)" */
function progressText(progress: IProgress | null): string {
  if (progress === null || !(progress.total > 0)) {
    return '';
  }
  const part = `${Math.floor((100 * progress.done) / progress.total)} %`;
  const left = progress.left === null ? '' : `, ${Math.ceil(progress.left)} s left`;
  return ` (${part}${left})`;
}
