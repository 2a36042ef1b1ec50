/** The one line under the bar: an error of the cell or of the wire, or a note. */

import type { JSX, ReactNode } from 'react';

import type { End, GraphConnection } from '../../model/connection';
import type { Graph } from '../../model/graph';
import { Button, Icon, IconButton } from '../../ui/controls';
import { type IBroken, brokenSince, nonFiniteLine } from '../../ui/words';
import type { IHost } from '../host';
import { Part } from '../part';

/** What is said of a picture that no kernel answers. */
export const SAVED = 'saved picture · run the cell to make it live';

/** The same on a page of its own, where there is no cell. */
export const SAVED_PAGE =
  'saved picture · its values and gradients as they were when it was saved';

/** What is said of the last state of a session whose kernel died. */
const KERNEL_ENDED =
  'No kernel answers any more: this is the last state that it sent · run the cell to ' +
  'make it live';

/** The same where its line was closed: a kernel that is shut down closes it as well. */
function sessionEnded({ header: { session } }: Graph): string {
  const name = session === '' ? 'its name' : `the name “${session}”`;
  return (
    `A later cell took ${name}, or the kernel was shut down: this is the last state · ` +
    'run this cell to make it live'
  );
}

/** What is said where a kernel has no subshells, and a cell runs. */
const DEAF =
  'A cell is running, and this kernel hears the page only between cells: the picture ' +
  'moves, and changes hold, when the cell is done.';

/** Milliseconds until a note that is no error goes by itself. */
const FADE = 6000;

export class Banner extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Banner');
    this.draw();
  }

  /** What is to be read as long as it is so; a problem before the others. */
  inform({ problem, note, nonFinite, broken }: ITold): void {
    this._problem = problem;
    this._note = note;
    this._nonFinite = nonFinite;
    this._broken = broken;
    this.draw();
  }

  /** What just happened: a note goes by itself, an error when it is dismissed. */
  say(message: string, tone: 'quiet' | 'error'): void {
    this.clear();
    this._said = { message, bad: tone === 'error' };
    if (tone === 'quiet') {
      this._timer = setTimeout(() => {
        this.clear();
      }, FADE);
    }
    this.draw();
  }

  /** Forget what was said. */
  clear(): void {
    clearTimeout(this._timer);
    this._said = null;
    this.draw();
  }

  override dispose(): void {
    clearTimeout(this._timer);
    super.dispose();
  }

  protected render(): ReactNode {
    const told = this._said?.message ?? this._problem;
    const nonFinite =
      told === null && (this._nonFinite !== '' || this._broken !== null);
    const text = told ?? this._note;
    const bad = this._said?.bad ?? this._problem !== null;
    this.setHidden(text === '' && !nonFinite);
    this.node.classList.toggle('workbench-mod-bad', bad);
    this.node.classList.toggle('workbench-mod-nonfinite', nonFinite);
    this.node.setAttribute('role', bad ? 'alert' : 'status');
    return (
      <>
        {nonFinite && this._drawNonFinite()}
        {text !== '' && <span className="workbench-BannerText">{text}</span>}
        {this._said && (
          <IconButton icon="close" label="Dismiss" onClick={() => this.clear()} />
        )}
      </>
    );
  }

  /** Where NaN or infinity begins, and the way to the doctor who says why. */
  private _drawNonFinite(): JSX.Element {
    const { asking, connection, state } = this.host;
    const findings = state.graph?.header.findings ?? null;
    const found = findings !== null && !findings.stale && findings.list.length > 0;
    return (
      <span className="workbench-NonFinite">
        <Icon name="error" />
        {this._broken === null ? (
          <span>{this._nonFinite}</span>
        ) : (
          this._drawBroken(this._broken)
        )}
        {(found || connection !== null) && (
          <Button
            look="link"
            title={
              found
                ? 'What the doctor found'
                : 'Let the doctor run both passes: where it begins, why, and what helps'
            }
            onClick={() => {
              this.host.showChecks();
              if (!found) {
                asking.run('diagnose');
              }
            }}
          >
            {found ? 'Show findings' : 'Diagnose'}
          </Button>
        )}
      </span>
    );
  }

  /** The step since which it is so: that is where to look. */
  private _drawBroken({ step, node, text }: IBroken): JSX.Element {
    const { recording, state } = this.host;
    return (
      <>
        <span>{text}</span>
        <Button
          look="link"
          disabled={!recording.canGo}
          title={
            recording.canGo
              ? `Show all of step ${step}: values, gradients and what the doctor says`
              : 'Run the cell to go back to a step'
          }
          onClick={() => {
            recording.goTo(step);
            if (node !== null) {
              state.selectAlone(node);
              this.host.find(node);
            }
          }}
        >
          Go there
        </Button>
      </>
    );
  }

  private _problem: string | null = null;
  private _broken: IBroken | null = null;
  private _nonFinite = '';
  private _note = '';
  private _said: { message: string; bad: boolean } | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** What is to be told of a picture as it is. */
export interface ITold {
  problem: string | null;
  note: string;
  /** Where NaN or infinity begins; "" where all is finite. */
  nonFinite: string;
  /** The step since which a training has them; null if that is the one shown. */
  broken: IBroken | null;
}

/**
 * What is to be told of a picture, live or saved; `empty`: there is none, `ended`: what
 * ended it, if it was live. `alone`: there is no cell to run. `shown`: the past run that
 * it is of.
 */
export function bannerOf(
  graph: Graph | null,
  live: GraphConnection | null,
  saved: string | null,
  ended: End | null = null,
  alone = false,
  shown: number | null = null
): ITold & { empty: boolean } {
  // What is wrong with the saved picture does not matter where another is shown.
  const savedProblem = graph === null ? saved : null;
  const problem = live === null ? savedProblem : live.problem;
  const coming = live !== null && graph === null;
  return {
    problem: problem ?? graph?.header.error?.message ?? null,
    note:
      live === null
        ? graph === null
          ? ''
          : endText(graph, ended, alone)
        : live.isDeaf
          ? DEAF
          : '',
    nonFinite: graph === null ? '' : nonFiniteLine(graph),
    broken: graph === null ? null : brokenSince(graph, shown),
    empty: !coming && problem === null && (graph === null || graph.count === 0)
  };
}

function endText(graph: Graph, ended: End | null, alone: boolean): string {
  return ended === 'kernel'
    ? KERNEL_ENDED
    : ended === 'session'
      ? sessionEnded(graph)
      : alone
        ? SAVED_PAGE
        : SAVED;
}
