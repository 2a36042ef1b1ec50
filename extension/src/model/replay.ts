/**
 * How the derivative is simplified, as one view of it is looked at: the steps, those
 * of the rules that are switched off left out, and the program at one of them. The
 * kernel does both; of what is asked while it answers only the last is asked for.
 */

import { Signal } from '@lumino/signaling';

import type { IAbout, IRewrite, ISimplifyAnswer } from '../wire/protocol';
import type { GraphConnection, IProgram } from './connection';
import type { Graph } from './graph';
import { Kept, Latest, answerTo } from './latest';

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
    return this._listing.isWaiting || this._drawing.isWaiting;
  }

  /** Show the derivative of a graph that a kernel holds: its last form at first. */
  show(connection: GraphConnection | null, graph: Graph | null, about: IAbout = {}): void {
    if (connection === null || graph === null) {
      return;
    }
    const rules = rulesOf(graph);
    const same =
      connection === this._connection && rules === this._rules && about.at === this._about.at;
    const known = same && this._graph?.sameStructure(graph) === true;
    if (connection !== this._connection) {
      this._without = [];
    }
    if (about.at !== this._about.at) {
      // What is shown is of another run.
      this._steps = null;
      this._program = null;
    }
    this._connection = connection;
    this._rules = rules;
    this._about = about;
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
      this._wanted = at;
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
    this._listing.drop();
    this._drawing.drop();
  }

  /** Have the steps told, and look at one of them. */
  private _begin(at: number): void {
    this.stop();
    this._problem = null;
    this._programs = new Kept(KEPT);
    const { _about: about, _connection: connection, _without: without } = this;
    if (connection !== null) {
      this._wanted = at;
      const fields = { without, ...about };
      this._listing.ask(signal => answerTo(connection.ask('simplify', fields), signal));
      this.changed.emit();
    }
  }

  /** Show the program of the step, or that of another until it has come. */
  private _askProgram(): void {
    const { _connection: connection, _without: without, _at: at } = this;
    const { _about: about, _programs: programs } = this;
    const known = programs.get(at);
    this._program = known ?? this._program;
    if (connection === null || this._listing.isWaiting) {
      return; // other steps are on their way
    }
    const fields = { without, step: at, ...about };
    this._drawing.askNext(
      signal =>
        known ??
        answerTo(connection.draw('program', fields), signal).then(program => {
          programs.set(at, program);
          return program;
        })
    );
  }

  private _fail(error: unknown): void {
    this.stop();
    this._problem = error instanceof Error ? error.message : String(error);
    this._steps = null;
    this._program = null;
  }

  private _connection: GraphConnection | null = null;
  private _graph: Graph | null = null;
  /** The past run that is asked about. */
  private _about: IAbout = {};
  /** The rules of the overrides, which make another derivative. */
  private _rules: string | null = null;
  private _steps: readonly IRewrite[] | null = null;
  private _total = 0;
  private _at = 0;
  private _program: IProgram | null = null;
  private _without: string[] = [];
  private _problem: string | null = null;
  /** The step to look at once the steps are told. */
  private _wanted = 0;
  private _programs = new Kept<number, IProgram>(KEPT);
  private readonly _listing = new Latest<ISimplifyAnswer>({
    take: ({ steps, total }) => {
      this._steps = steps;
      this._total = total;
      this._at = Math.min(this._wanted, steps.length);
      this._askProgram();
    },
    fail: error => this._fail(error),
    settled: () => this.changed.emit()
  });
  private readonly _drawing = new Latest<IProgram>({
    take: program => (this._program = program),
    fail: error => this._fail(error),
    settled: () => this.changed.emit()
  });
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
