/** The two sweeps, step by step: forward to the output, then backward again. */

import type { ReactNode } from 'react';

import { IconButton } from '../../ui/controls';
import { stepLine } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { Player } from '../player';

/** Milliseconds between steps while it plays; long graphs take no longer than this. */
const BEAT = 700;
const LONGEST = 60_000;

export class Stepper extends Player {
  constructor(host: IHost) {
    super(host, 'workbench-Stepper');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Step through both sweeps');
    this.setHidden(true);
  }

  override refresh(reason: Reason): void {
    if (reason !== 'hover' && reason !== 'selection') {
      const { graph, stage, step } = this.host.state;
      this.setHidden(graph === null || step === null || stage === 'simplified');
      if (this.isHidden) {
        this.pause();
      } else {
        this.draw();
      }
    }
  }

  protected readonly words = { slider: 'Step', play: 'Play' };

  protected get at(): number {
    return this.host.state.step ?? 0;
  }

  protected get last(): number {
    return this.host.state.stepCount;
  }

  protected goTo(step: number): void {
    this.host.state.setStep(step);
  }

  protected beat(): number {
    return Math.min(BEAT, LONGEST / Math.max(this.last, 1));
  }

  protected render(): ReactNode {
    const { state } = this.host;
    const { graph, current } = state;
    const line = graph === null || current === null ? '' : stepLine(graph, current);
    return (
      <>
        {this.renderControls()}
        <span className="workbench-StepText">
          {current === null
            ? 'before the first step'
            : `${current.sweep} ${current.position}/${current.count}`}
        </span>
        <code className="workbench-StepLine" aria-live="polite" title={line}>
          {line}
        </code>
        <IconButton icon="close" label="Show all" onClick={() => state.setStep(null)} />
      </>
    );
  }
}
