/**
 * How the derivative is simplified, as one view of it is looked at: the steps, those
 * of the rules that are switched off left out, and the program at one of them. The
 * kernel does both; of what is asked while it answers only the last is asked for.
 */

import { Signal } from '@lumino/signaling';

import type { IRewrite } from '../wire/protocol';
import type { ILongRequest } from '../wire/requests';
import type { GraphConnection, IProgram } from './connection';
import type { Graph } from './graph';

/** So many programs are kept, to go to and fro between. */
const KEPT = 64;

export class Replay {
  /** Something to show is another: the steps, the program, or what is wrong. */
  readonly changed = new Signal<this, void>(this);

  /** The steps; null until the kernel has told them. */
  get steps(): readonly IRewrite[] | null {
    return this._steps;
  }

  /** How many steps there are in all: of very many only the first are listed. */
  get total(): number {
    return this._total;
  }

  /** The last step that can be looked at. */
  get last(): number {
    return this._steps?.length ?? 0;
  }

  /** The step that is to be looked at; 0 is before the first. */
  get at(): number {
    return this._at;
  }

  /** The program that is shown, of that step or, until it has come, of another. */
  get program(): IProgram | null {
    return this._program;
  }

  /** The names of the rules that are switched off. */
  get without(): readonly string[] {
    return this._without;
  }

  /** Why there is nothing to show. */
  get problem(): string | null {
    return this._problem;
  }

  /** Whether the kernel has been asked for what is not there yet. */
  get isWaiting(): boolean {
    return this._asked !== null;
  }

  /** Show the derivative of a graph that a kernel holds: its last form at first. */
  show(connection: GraphConnection | null, graph: Graph | null): void {
    if (connection === null || graph === null) {
      return;
    }
    const rules = rulesOf(graph);
    const same = connection === this._connection && rules === this._rules;
    const known = same && this._graph?.sameStructure(graph) === true;
    if (connection !== this._connection) {
      this._without = [];
    }
    this._connection = connection;
    this._rules = rules;
    this._graph = graph;
    if (!known) {
      this._begin(Infinity);
    }
  }

  /** Look at a step; beyond the ends is at the ends. */
  goTo(step: number): void {
    const at = Math.min(Math.max(Math.round(step), 0), this.last);
    if (this._steps !== null && at !== this._at) {
      this._at = at;
      this._askProgram();
      this.changed.emit();
    }
  }

  /** Leave a rule out, and have the rest done again. */
  switchOff(rule: string): void {
    if (!this._without.includes(rule)) {
      this._without = [...this._without, rule];
      this._begin(this._at);
    }
  }

  /** Use a rule again, or all of them. */
  switchOn(rule: string | null = null): void {
    const rest = this._without.filter(name => rule !== null && name !== rule);
    if (rest.length < this._without.length) {
      this._without = rest;
      this._begin(this._at);
    }
  }

  /** Ask for nothing any more. */
  stop(): void {
    this._asked?.stop();
    this._asked = null;
  }

  /** Have the steps told, and look at one of them. */
  private _begin(at: number): void {
    this.stop();
    this._problem = null;
    this._programs.clear();
    if (this._connection === null) {
      return;
    }
    this._ask(this._connection.ask('simplify', { without: this._without }), ({ steps, total }) => {
      this._steps = steps;
      this._total = total;
      this._at = Math.min(at, steps.length);
      this._askProgram();
    });
    this.changed.emit();
  }

  private _askProgram(): void {
    const known = this._programs.get(this._at);
    if (known !== undefined) {
      this._program = known;
      return;
    }
    if (this._asked !== null || this._connection === null) {
      return; // what comes first asks for the rest
    }
    const at = this._at;
    this._ask(this._connection.draw('program', { without: this._without, step: at }), program => {
      this._programs.set(at, program);
      const [oldest] = this._programs.keys();
      if (this._programs.size > KEPT) {
        this._programs.delete(oldest);
      }
      this._program = program;
      if (at !== this._at) {
        this._askProgram();
      }
    });
  }

  /** Ask the kernel; an answer that is not waited for any more is left alone. */
  private _ask<T>(request: ILongRequest<T>, take: (answer: T) => void): void {
    this._asked = request;
    request.answer.then(
      answer => {
        if (this._asked === request) {
          this._asked = null;
          this._problem = null;
          take(answer);
          this.changed.emit();
        }
      },
      (error: unknown) => {
        if (this._asked === request) {
          this._asked = null;
          this._problem = error instanceof Error ? error.message : String(error);
          this._steps = null;
          this._program = null;
          this.changed.emit();
        }
      }
    );
  }

  private _connection: GraphConnection | null = null;
  private _graph: Graph | null = null;
  /** The rules of the overrides, which make another derivative. */
  private _rules: string | null = null;
  private _steps: readonly IRewrite[] | null = null;
  private _total = 0;
  private _at = 0;
  private _program: IProgram | null = null;
  private _without: string[] = [];
  private _problem: string | null = null;
  private _asked: ILongRequest<unknown> | null = null;
  private readonly _programs = new Map<number, IProgram>();
}

/** What the overrides of a graph do to its derivative, as text. */
function rulesOf({ header }: Graph): string {
  return JSON.stringify(
    header.overrides.map(({ id, rule, steps, enabled, matched }) => [
      id,
      rule,
      steps,
      enabled,
      matched
    ])
  );
}
