/**
 * What a node would pass on with the rule that is being written, beside what it passes
 * on without it. The kernel computes it on request, by two backward sweeps.
 */

import type { JSX } from 'react';

import { Latest, answerTo } from '../../model/latest';
import { Button } from '../../ui/controls';
import { formatNumber, formatPercent } from '../../ui/numbers';
import { errorText } from '../../ui/words';
import type { IPassed, IPreviewAnswer, Target } from '../../wire/protocol';
import { Histogram, Oddities } from '../histogram';
import type { INodeHost } from '../host';

/** Seconds of both sweeps up to which it is asked for without a click. */
const QUICK = 0.3;

/** Milliseconds of quiet after new values before it is asked for again. */
const QUIET = 500;

/** So many inputs are shown. */
const SHOWN = 3;

/** The rule to look at, as it would be attached. */
export interface IPreviewed {
  node: number;
  target: Target;
  rule: string;
  steps: string;
  /** The override that it would replace, or is. */
  id?: number;
  /** Whether that runs already as it stands here. */
  attached: boolean;
}

export class Preview {
  constructor(
    private readonly _host: INodeHost,
    private readonly _changed: () => void
  ) {}

  /** Look at a rule; null: at none. Long programs wait for a click. */
  look(shown: IPreviewed | null): void {
    this.close();
    this._shown = shown;
    this._answer = null;
    this._failure = '';
    const seconds = this._host.state.graph?.header.seconds ?? Infinity;
    if (shown !== null && seconds <= QUICK) {
      this._ask();
    }
  }

  /** Look again: the values are others. */
  renew(): void {
    if (this._answer !== null) {
      this._ask(QUIET);
    }
  }

  /** Take no answer any more, and let the kernel stop. */
  close(): void {
    this._latest.drop();
  }

  draw(): JSX.Element | null {
    const shown = this._shown;
    const { connection } = this._host;
    if (shown === null || connection === null) {
      return null;
    }
    return (
      <div className="workbench-Preview" aria-label="What the rule passes on">
        {this._failure !== '' && (
          <span className="workbench-Message workbench-mod-bad">{this._failure}</span>
        )}
        {this._answer?.passed
          .slice(0, SHOWN)
          .map(passed => drawPassed(passed, shown.attached))}
        {this._answer === null && !this._latest.isWaiting && this._failure === '' && (
          <Button
            look="link"
            title="Two backward sweeps: without the rule, and with it"
            onClick={() => this._ask()}
          >
            Preview what it passes on
          </Button>
        )}
      </div>
    );
  }

  /** Ask the kernel, after so many milliseconds of quiet. */
  private _ask(quiet = 0): void {
    const { connection } = this._host;
    if (this._shown === null || connection === null) {
      return;
    }
    const { node, target, rule, steps, id } = this._shown;
    const fields = { node, target, rule, steps, id, ...this._host.recording.about };
    const put = (signal: AbortSignal): Promise<IPreviewAnswer> =>
      answerTo(connection.ask('preview', fields), signal);
    if (quiet === 0) {
      this._latest.ask(put);
    } else {
      this._latest.askLater(put, quiet);
    }
  }

  private _settle(answer: IPreviewAnswer | null, failure: string): void {
    this._answer = answer;
    this._failure = failure;
    this._changed();
  }

  private _shown: IPreviewed | null = null;
  private _answer: IPreviewAnswer | null = null;
  private _failure = '';
  private readonly _latest = new Latest<IPreviewAnswer>({
    take: answer => this._settle(answer, ''),
    fail: error => this._settle(null, errorText(error))
  });
}

/** What flows to one input: with the rule, and paler behind it without. */
function drawPassed(passed: IPassed, attached: boolean): JSX.Element {
  const { node, name, before, after } = passed;
  return (
    <figure key={node} className="workbench-Passed">
      <figcaption>
        <span>{`${attached ? 'passes' : 'would pass'} on to ${name}`}</span>
        <span>{changeText(passed)}</span>
      </figcaption>
      {after !== null ? (
        <Histogram shown={after} look="gradient" behind={before} />
      ) : (
        before !== null && <Histogram shown={before} look="value" />
      )}
      <div className="workbench-Axis">{after && <Oddities of={after} />}</div>
    </figure>
  );
}

/** "‖·‖ 0.31 → 0.1 (68 %)"; what is not finite by its word. */
export function changeText(passed: IPassed): string {
  const { before, after, before_norm: old, after_norm: now, change } = passed;
  const norm = (value: number | null, there: boolean): string =>
    value !== null ? formatNumber(value) : there ? 'not finite' : 'nothing';
  const by = change === null || change === 0 ? '' : ` (${formatPercent(change)})`;
  return change === 0
    ? `‖·‖ ${norm(now, after !== null)}, unchanged`
    : `‖·‖ ${norm(old, before !== null)} → ${norm(now, after !== null)}${by}`;
}
