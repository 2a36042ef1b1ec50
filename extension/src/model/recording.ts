/**
 * The past runs of a session, as the page looks at them: one of them is shown, or
 * the present. The kernel is asked for one run at a time; of what is asked while it
 * answers only the last is asked for. Nothing here knows the DOM.
 */

import { Signal } from '@lumino/signaling';

import type { ITimeline } from '../wire/protocol';
import type { IMomentReceived } from '../wire/requests';
import type { GraphConnection } from './connection';
import type { Graph } from './graph';

/** So many runs are kept, to go to and fro between. */
const KEPT = 64;

export class Recording {
  /** Another run is shown or asked for, or there are more. */
  readonly changed = new Signal<this, void>(this);

  /** All runs in few points; null before the first. */
  get line(): ITimeline | null {
    return this._live?.header.timeline ?? null;
  }

  /** How many runs there were. */
  get count(): number {
    return this.line?.count ?? 0;
  }

  /** The run that is to be looked at; null for the present. */
  get at(): number | null {
    return this._at;
  }

  /** The run that is looked at, which is near that one; null for the present. */
  get shown(): number | null {
    return this._past?.step ?? null;
  }

  /** The graph as it is, or was at the run that is looked at. */
  get graph(): Graph | null {
    return this._past?.graph ?? this._live;
  }

  /** Whether a kernel can be asked for past runs. */
  get canGo(): boolean {
    return this._connection !== null && this.count > 1;
  }

  /** Whether the kernel has been asked for what is not there yet. */
  get isWaiting(): boolean {
    return this._asked !== null;
  }

  /** Why the run could not be shown. */
  problem: string | null = null;

  /** There is a newer graph, of this kernel or of a saved picture. */
  follow(connection: GraphConnection | null, live: Graph | null): void {
    const before = this._live;
    const known =
      connection === this._connection &&
      before !== null &&
      live?.sameStructure(before) === true &&
      (live.header.timeline?.count ?? 0) >= (before.header.timeline?.count ?? 0);
    this._connection = connection;
    this._live = live;
    // What an edit does is to be seen.
    if (!known || rulesOf(live) !== rulesOf(before)) {
      this._leave();
      this._moments.clear();
    }
    this.changed.emit();
  }

  /** Look at a run; null, and the last one, is the present. */
  goTo(step: number | null): void {
    if (step === null || step >= this.count || !this.canGo) {
      if (this._at !== null) {
        this._leave();
        this.changed.emit();
      }
      return;
    }
    const at = Math.max(1, Math.round(step));
    if (at !== this._at) {
      this._at = at;
      this.problem = null;
      this._ask();
      this.changed.emit();
    }
  }

  private _leave(): void {
    this._at = null;
    this._past = null;
    this._asked = null;
    this.problem = null;
  }

  private _ask(): void {
    const { _at: at, _connection: connection } = this;
    if (at === null || connection === null) {
      return;
    }
    const known = this._moments.get(at);
    if (known !== undefined) {
      this._take(known);
      return;
    }
    if (this._asked !== null) {
      return; // what comes first asks for the rest
    }
    const asked = connection.moment(at);
    this._asked = asked;
    asked.then(
      moment => {
        if (this._asked === asked) {
          this._asked = null;
          this._moments.set(at, moment);
          const [oldest] = this._moments.keys();
          if (this._moments.size > KEPT) {
            this._moments.delete(oldest);
          }
          this._take(moment);
          if (this._at !== at) {
            this._ask();
          }
          this.changed.emit();
        }
      },
      (error: unknown) => {
        if (this._asked === asked) {
          this._leave();
          this.problem = error instanceof Error ? error.message : String(error);
          this.changed.emit();
        }
      }
    );
  }

  private _take({ step, header, columns, buffers }: IMomentReceived): void {
    if (this._live !== null) {
      const graph = this._live.applyPatch(header, columns, buffers);
      this._past = { step, graph };
    }
  }

  private _connection: GraphConnection | null = null;
  private _live: Graph | null = null;
  private _at: number | null = null;
  private _past: { step: number; graph: Graph } | null = null;
  private _asked: Promise<IMomentReceived> | null = null;
  private readonly _moments = new Map<number, IMomentReceived>();
}

/** What the overrides of a graph do, as text. */
function rulesOf(graph: Graph | null): string {
  const overrides = graph?.header.overrides ?? [];
  return JSON.stringify(
    overrides.map(({ id, rule, steps, enabled }) => [id, rule, steps, enabled])
  );
}
