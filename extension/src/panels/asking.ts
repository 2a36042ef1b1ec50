/** What the parts of a panel ask of the kernel; a refusal is said in the banner. */

import type { GraphConnection } from '../model/connection';
import type { IOverride } from '../wire/protocol';
import type { JobKind } from '../wire/requests';
import { labelOf } from './presets';

export interface IAskingOptions {
  /** Null while the picture is a saved one. */
  connection: () => GraphConnection | null;
  say: (message: string, tone: 'quiet' | 'error') => void;
  /** A new command: what was said of the one before is over. */
  clear: () => void;
}

export class Asking {
  constructor(private readonly _options: IAskingOptions) {}

  undo(steps = 1): void {
    this._command(kernel => kernel.undo(steps));
  }

  redo(steps = 1): void {
    this._command(kernel => kernel.redo(steps));
  }

  enable(override: IOverride, enabled: boolean): void {
    this._command(kernel => kernel.switchOverride(override.id, enabled));
  }

  remove(override: IOverride): void {
    this._command(kernel => kernel.removeOverride(override.id));
  }

  /** Put an override at another place in the order. */
  move(override: IOverride, to: number): void {
    this._command(kernel => kernel.moveOverride(override.id, to));
  }

  /** Give an override another rule; rejects with the reason where it is refused. */
  async edit(override: IOverride, rule: string): Promise<void> {
    const kernel = this._options.connection();
    if (kernel !== null) {
      this._options.clear();
      // A label that somebody wrote stays; one that tells of the rule is told anew.
      const told = override.label === labelOf(override.rule);
      const named = / name=/.test(override.code);
      await kernel.editOverride(
        override.id,
        rule,
        named && !told ? override.label : ''
      );
    }
  }

  /** Check all gradients, or ask the doctor. */
  run(kind: JobKind): void {
    this._command(kernel => kernel.run(kind));
  }

  /** Stop that; what was found until then is kept. */
  stop(): void {
    this._options.connection()?.stop();
  }

  /** Attach the fix of a finding, and look again at what is left to find. */
  fix(finding: number): void {
    this._command(async kernel => {
      await kernel.fix(finding);
      await kernel.run('diagnose');
    });
  }

  private _command(ask: (kernel: GraphConnection) => Promise<void>): void {
    const { connection, say, clear } = this._options;
    const kernel = connection();
    if (kernel === null) {
      return;
    }
    clear();
    ask(kernel).catch((error: unknown) => {
      say(error instanceof Error ? error.message : String(error), 'error');
    });
  }
}
