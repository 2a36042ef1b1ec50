/** How the norms of the selected node went on from run to run. */

import type { ReactNode } from 'react';

import { formatCount, formatNumber } from '../../ui/numbers';
import type { INormsAnswer } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { NodeQuestion } from '../question';
import { Part } from '../part';
import { Lines, rangeOf } from './line';

/** While runs come in, a node is asked about at most this often. */
const RHYTHM = 1000;

const ROWS = [
  { look: 'value', title: '‖value‖', numbers: 'values' },
  { look: 'gradient', title: '‖gradient‖', numbers: 'gradients' }
] as const;

export class NormsOverRuns extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Norms');
    this._question = new NodeQuestion<INormsAnswer>(
      host,
      () => this.draw(),
      (connection, node) => connection.ask('norms', { node }).answer,
      RHYTHM
    );
    host.recording.changed.connect(() => {
      this.draw();
    });
  }

  override refresh(reason: Reason): void {
    if (this.host.recording.count > 1) {
      this._question.refresh(reason);
    }
    super.refresh(reason);
  }

  override dispose(): void {
    this._question.dispose();
    super.dispose();
  }

  protected render(): ReactNode {
    const { recording, state } = this.host;
    const { answer } = this._question;
    const shows = answer !== null && answer.node === state.selected;
    this.setHidden(!shows || answer.steps.length < 2);
    if (answer === null || this.isHidden) {
      return null;
    }
    const rows = ROWS.filter(row => rangeOf(answer[row.numbers]) !== null);
    return rows.map(({ look, title, numbers }) => {
      const range = rangeOf(answer[numbers]);
      const text = range === null ? '' : rangeText(range);
      return (
        <figure key={look}>
          <figcaption>
            <span>
              {title} over {formatCount(recording.count)} steps
            </span>
            <span>{text}</span>
          </figcaption>
          <Lines
            lines={[{ look, steps: answer.steps, numbers: answer[numbers] }]}
            last={recording.count}
            at={recording.shown}
            label={`${title} over the steps: ${text}`}
          />
        </figure>
      );
    });
  }

  private readonly _question: NodeQuestion<INormsAnswer>;
}

/** "0.31 … 4.2"; drawn by decades, it says so. */
function rangeText({
  low,
  high,
  decades
}: {
  low: number;
  high: number;
  decades: boolean;
}): string {
  const ends = `${formatNumber(low, 2)} … ${formatNumber(high, 2)}`;
  return decades ? `${ends}, log` : ends;
}
