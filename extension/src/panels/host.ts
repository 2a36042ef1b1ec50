/** What the parts of a panel may know of, and ask of, the whole and the kernel. */

import type { GraphConnection } from '../model/connection';
import type { Recording } from '../model/recording';
import type { Change, GraphState } from '../model/state';
import type { Typeset } from '../ui/formula';
import { errorText } from '../ui/words';
import type { IEdit, IOverride, IStop, PlotKind } from '../wire/protocol';
import type { Asked, JobKind } from '../wire/requests';
import { labelOf } from './presets';

/** What made a part draw itself again: the state, or the line to the kernel. */
export type Reason = Change | 'connection';

/** What is open is inside a node: one step of a loop, or no loop. */
export interface IWithin {
  step: number | null;
  steps: number | null;
}

/** What a picture can be saved as. */
export const FORMATS = ['svg', 'png', 'html'] as const;
export type Format = (typeof FORMATS)[number];

/** Changes the cells of a notebook as a fix says, and back. */
export interface ICellEditing {
  /** The last change that its cell still has, under the number it has now. */
  readonly applied: IEdit | null;
  /** Why a change cannot be made, and what to do; "" if it can. */
  explainRefusal(edit: IEdit): string;
  /** Make a change, run the cell again, and diagnose; rejects with the reason. */
  apply(edit: IEdit): Promise<void>;
  /** Take the last change back, and run the cell again. */
  undo(): Promise<void>;
}

/** What the parts that speak of one node may know and ask: of the cell, or inside a node. */
export interface INodeHost {
  readonly state: GraphState;
  /** The past runs of the session, and which of them is shown. */
  readonly recording: Recording;
  /** Null while the picture is a saved one. */
  readonly connection: GraphConnection | null;
  /** What is asked of the kernel. */
  readonly asking: Asking;
  /** The step of the loop that is looked into; null for the graph of the cell. */
  readonly within: IWithin | null;
  /** Look into a node that holds a program; false if it holds none. */
  lookInside(node: number): boolean;
  /** Bring a node into view. */
  centre(node: number): void;
  /** Put the keyboard back into the graph. */
  focusGraph(): void;
  /** Go to the line of the cell that made the node. */
  reveal(node: number): void;
  /** Whether there is a cell to go to. */
  readonly canReveal: boolean;
  /** Whether it is a page of its own, with no cell to run. */
  readonly alone: boolean;
  /** Ask for a plot and show it in the drawer. */
  plot(kind: PlotKind, of: number | null, wrt: number[]): void;
  /** Put text on the clipboard; true if that worked. */
  copy(text: string): Promise<boolean>;
  /** A line that fades by itself; errors stay until the next one. */
  say(message: string, tone?: 'quiet' | 'error'): void;
}

/** What the parts of a panel may know and ask of the whole. */
export interface IHost extends INodeHost {
  /** The state of what is drawn now: of the graph, or of the simplified derivative. */
  readonly shown: GraphState;
  /** Why there is no simplified derivative to show; null if there is one. */
  readonly unsimplified: string | null;
  fitGraph(): void;
  /** Bring a node to the middle if it is not in sight. */
  find(node: number): void;
  /** Changes of cells; null where there is no notebook. */
  readonly editing: ICellEditing | null;
  /** Have the browser save what is drawn. */
  save(format: Format): void;
  /** Whether it can be saved as a page of its own. */
  readonly canSavePage: boolean;
  /** Typesets formulas; null where the page cannot. */
  readonly typeset: Typeset | null;
  /** Whether figures can be drawn; without them nothing offers any. */
  readonly canPlot: boolean;
  toggleDrawer(): void;
  readonly drawerOpen: boolean;
  toggleInspector(): void;
  /** Show the session in a panel of its own; null where that cannot be, or is so. */
  readonly openBeside: (() => void) | null;
  /** Open the inspector at what checks and the doctor found. */
  showChecks(): void;
  readonly inspectorOpen: boolean;
}

// What the parts of a panel ask of the kernel; a refusal is said in the banner.

export class Asking {
  constructor(
    private readonly _host: Pick<IHost, 'connection' | 'recording' | 'say' | 'state'>,
    /** A new command: what was said of the one before is over. */
    private readonly _clear: () => void
  ) {}

  get canUndo(): boolean {
    const { connection, state } = this._host;
    return connection !== null && Boolean(state.graph?.header.undo);
  }

  get canRedo(): boolean {
    const { connection, state } = this._host;
    return connection !== null && Boolean(state.graph?.header.redo);
  }

  undo(steps = 1): void {
    void this._command(kernel => kernel.command({ event: 'undo', steps }));
  }

  redo(steps = 1): void {
    void this._command(kernel => kernel.command({ event: 'redo', steps }));
  }

  enable({ id }: IOverride, enabled: boolean): void {
    void this._command(kernel => kernel.command({ event: 'switch', id, enabled }));
  }

  remove({ id }: IOverride): void {
    void this._command(kernel => kernel.command({ event: 'remove', id }));
  }

  /** Put an override at another place in the order. */
  move({ id }: IOverride, to: number): void {
    void this._command(kernel => kernel.command({ event: 'move', id, to }));
  }

  /** Give an override another rule and steps; rejects with the reason where it is refused. */
  async edit(override: IOverride, rule: string, steps: string): Promise<void> {
    const kernel = this._host.connection;
    if (kernel !== null) {
      this._clear();
      // A label that somebody wrote stays; one that tells of the rule is told anew.
      const told = override.label === labelOf(override.rule);
      const named = / name=/.test(override.code);
      const label = named && !told ? override.label : '';
      await kernel.command({ event: 'edit', id: override.id, rule, label, steps });
    }
  }

  /** Stop loops when the gradient of a node meets a condition; rejects with why not. */
  async stopWhen(condition: Asked<'stop-when'>): Promise<void> {
    this._clear();
    await this._host.connection?.command({ event: 'stop-when', ...condition });
  }

  removeStop({ id }: IStop): void {
    void this._command(kernel => kernel.command({ event: 'stop-no-more', id }));
  }

  /** Check all gradients, or ask the doctor, of what is shown. */
  run(kind: Exclude<JobKind, 'run-again'>): void {
    const { recording } = this._host;
    void this._command(async kernel => {
      await kernel.run(kind, recording.about);
      recording.renew();
    });
  }

  /** Run the program again from a step on, with the overrides of now. */
  runAgain(step: number): void {
    void this._command(kernel => kernel.run('run-again', { step }));
  }

  /** Stop that; what was found until then is kept. */
  stop(): void {
    this._host.connection?.stop();
  }

  /** Attach the fix of a finding, and look again; resolves when that is over. */
  async fix(finding: number): Promise<void> {
    await this._command(async kernel => {
      await kernel.command({ event: 'fix', finding, ...this._host.recording.about });
      await kernel.run('diagnose', {});
    });
  }

  /** Ask the kernel; what it refuses is said in the banner. */
  private async _command(
    ask: (kernel: GraphConnection) => Promise<void>
  ): Promise<void> {
    const { connection } = this._host;
    if (connection !== null) {
      this._clear();
      await ask(connection).catch((error: unknown) => {
        this._host.say(errorText(error), 'error');
      });
    }
  }
}
