/**
 * The moments of a session, as the page looks at them: the present or a past run is
 * shown, alone or compared with another side: another run, the same without overrides,
 * another session. The kernel is asked for one moment at a time, or a saved picture for
 * those that it holds; of what is asked while an answer is on its way only the last is
 * asked for. Nothing here knows the DOM.
 */

import { Signal } from '@lumino/signaling';

import type { IAbout, IDifference, IMoments, IPeer, ITimeline } from '../wire/protocol';
import type { GraphConnection } from './connection';
import { type ComparedView, Graph, type Measure } from './graph';
import { Kept, Latest } from './latest';
import { type IMoment, SavedMoments } from './moments';

/** So many runs are kept, to go to and fro between. */
const KEPT = 64;

/** Milliseconds of quiet after which the kernel tells some runs, in case that it goes. */
const QUIET = 2000;

/** Milliseconds after which another session that is compared is asked for again. */
const RHYTHM = 1000;

/** What the moment that is shown is compared with. */
export type Side =
  | { kind: 'run'; step: number }
  | { kind: 'now' }
  | { kind: 'true' }
  | { kind: 'session'; name: string };

/** A moment that has arrived: a run, or 0 for another session. */
interface IShown {
  step: number;
  whole: boolean;
  graph: Graph;
  /** What is in another program in the place of nodes that differ. */
  differing: ReadonlyMap<number, IDifference>;
}

export class Recording {
  constructor() {
    const options = {
      fail: (error: unknown): void => {
        this._leave();
        this._against = null;
        this._base.drop();
        this._tell(error);
      },
      settled: (): void => this._update()
    };
    this._shown = new Latest<IMoment>({
      ...options,
      take: moment => (this._past = this._apply(moment))
    });
    this._base = new Latest<IMoment>({
      ...options,
      take: moment => (this._before = this._apply(moment))
    });
    this._sampling = new Latest<IMoments | null>({
      take: moments => (this._sample = moments),
      fail: () => undefined // the kernel has gone before it told any
    });
  }

  /** Another run is shown or asked for, or there are more. */
  readonly changed = new Signal<this, void>(this);

  /** All runs in few points; null before the first. */
  get line(): ITimeline | null {
    return this._live?.header.timeline ?? null;
  }

  /** The runs of another session that is compared, which is no branch; null for none. */
  get otherLine(): ITimeline | null {
    const { _against: side, _before: before } = this;
    return side?.kind === 'session' && !this._isBranch(side.name)
      ? (before?.graph.header.timeline ?? null)
      : null;
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

  /**
   * Whether all of it is there, and the kernel can be asked about it as about the
   * present. Of some past runs only the norms are kept.
   */
  get isWhole(): boolean {
    return this._past?.whole ?? true;
  }

  /** What a question says of the run that is looked at; nothing of the present. */
  get about(): IAbout {
    return this._past === null ? {} : { at: this._past.step };
  }

  /** The graph as it is, or was at the run that is looked at, beside what it is with. */
  get graph(): Graph | null {
    return this._drawn;
  }

  /** The side that it is compared with, to be drawn beside it; null for none. */
  get beside(): Graph | null {
    const { compared = null } = this._drawn ?? {};
    return compared?.view === 'beside' ? compared.other : null;
  }

  /** The graph as it is now. */
  get live(): Graph | null {
    return this._live;
  }

  /** Whether there are past runs to go to. */
  get canGo(): boolean {
    return this.count > 1 && (this._connection !== null || this._kept.length > 0);
  }

  /** Whether the kernel has been asked for what is not there yet. */
  get isWaiting(): boolean {
    return this._shown.isWaiting;
  }

  /** Why the run could not be shown. */
  problem: string | null = null;

  /** What a past run of a saved picture had for overrides; null for those of now. */
  get note(): string | null {
    return this.shown === null ? null : (this._saved?.noteOf(this.shown) ?? null);
  }

  // Comparing

  /** What is compared with; null for nothing. */
  get against(): Side | null {
    return this._against;
  }

  /** The run that is compared with, the kept one near that which was asked for. */
  get base(): number | null {
    const { _against: side } = this;
    return side?.kind === 'run' ? (this._before?.step ?? side.step) : null;
  }

  /** The names of both sides: what is compared with, and what is shown. */
  get sides(): { before: string; after: string } {
    const { _against: against } = this;
    const before = against === null ? '' : this._name(against);
    return { before, after: this.shown === null ? 'now' : `run ${this.shown}` };
  }

  get view(): ComparedView {
    return this._view;
  }

  get measure(): Measure {
    return this._measure;
  }

  /** The other sessions of the notebook, as far as the kernel has told them. */
  get peers(): readonly IPeer[] {
    return this._peers;
  }

  /** Whether overrides are in force now. */
  get hasOverrides(): boolean {
    const { overrides = [] } = this._live?.header ?? {};
    return overrides.some(({ enabled }) => enabled);
  }

  /**
   * What the first comparison is with, and what is shown then: since a past run, with the
   * last branch, without overrides, or since the first run; null where there is nothing.
   */
  get proposed(): Side | null {
    const branch = this._live?.header.branches.at(-1);
    return this.shown !== null
      ? { kind: 'run', step: this.shown }
      : branch !== undefined && this._connection !== null
        ? { kind: 'session', name: branch.name }
      : this.hasOverrides
        ? { kind: 'true' }
        : this.canGo
          ? { kind: 'run', step: 1 }
          : this._connection !== null
            ? { kind: 'now' }
            : null;
  }

  /** Compare what is proposed, and learn which sessions there are. */
  startComparison(): void {
    const { proposed } = this;
    if (proposed !== null) {
      this._leave();
      this.compareWith(proposed);
      this._askForPeers();
    }
  }

  /** Compare what is shown with something; null for nothing any more. */
  compareWith(side: Side | null): void {
    this._against = side;
    this._before = null;
    this.problem = null;
    this._base.drop();
    this._askBase();
    this._update();
  }

  setView(view: ComparedView): void {
    this._view = view;
    this._update();
  }

  setMeasure(measure: Measure): void {
    this._measure = measure;
    this._update();
  }

  /** There is a newer graph, of this kernel or of a saved picture. */
  follow(connection: GraphConnection | null, live: Graph | null): void {
    const before = this._live;
    // What is known of its past stays when the kernel goes.
    const known =
      (connection === this._connection || connection === null) &&
      before !== null &&
      live?.sameStructure(before) === true &&
      (live.header.timeline?.count ?? 0) >= (before.header.timeline?.count ?? 0);
    const ruled = rulesOf(live) !== rulesOf(before);
    const ended = connection === null && this._connection !== null;
    this._connection = connection;
    this._live = live;
    if (!known || ended) {
      this._against = null;
      this._base.drop();
    }
    // What an edit does is to be seen; runs tell their overrides where they are others.
    if (!known || ruled) {
      this._leave();
      this._moments = new Kept(KEPT);
    }
    if (!known) {
      this._sample = null;
    }
    if (connection !== null && this.count > 1) {
      this._sampling.askLater(
        () => connection.ask('runs', {}).answer.then(({ moments }) => moments),
        QUIET
      );
    } else {
      this._sampling.drop();
    }
    const { _against: against } = this;
    // The other session may not send again: what it has after a while is asked for.
    if (against?.kind === 'session' || (against?.kind === 'run' && ruled)) {
      this._askBase();
    }
    this._update();
  }

  dispose(): void {
    this._shown.drop();
    this._base.drop();
    this._sampling.drop();
  }

  /** Look at a run; null, and the last one, is the present. */
  goTo(step: number | null): void {
    if (step === null || step >= this.count || !this.canGo) {
      if (this._at !== null) {
        this._leave();
        this._update();
      }
      return;
    }
    const at = Math.max(1, Math.round(step));
    if (at !== this._at) {
      this._at = at;
      this.problem = null;
      this._shown.askNext(() => this._find(at));
      this._update();
    }
  }

  /** Look at the same run once more: something was found of it. */
  renew(): void {
    const { _at: at } = this;
    if (at !== null) {
      this._moments = new Kept(KEPT);
      this._shown.askNext(() => this._find(at));
    }
  }

  private _leave(): void {
    this._at = null;
    this._past = null;
    this._shown.drop();
    this.problem = null;
  }

  private _tell(error: unknown): void {
    this.problem = error instanceof Error ? error.message : String(error);
  }

  /** What another session is called: a branch of this one has a name that says so. */
  nameSession(name: string): string {
    return this._isBranch(name) ? name : `session ${name}`;
  }

  private _name(side: Side): string {
    switch (side.kind) {
      case 'run':
        return `run ${this.base ?? side.step}`;
      case 'now':
        return 'now';
      case 'true':
        return this.shown === null ? 'without overrides' : 'now, without overrides';
      case 'session':
        return this.nameSession(side.name);
    }
  }

  private _isBranch(name: string): boolean {
    return this._live?.header.branches.some(one => one.name === name) === true;
  }

  /** Ask for the side that is compared with, where it is not at hand. */
  private _askBase(): void {
    const { _against: side, _connection: connection } = this;
    if (side?.kind === 'run') {
      this._base.askNext(() => this._find(side.step));
    } else if (side?.kind === 'session' && connection !== null) {
      this._base.askNext(() => connection.ask('peer', { name: side.name }).answer, RHYTHM);
    }
  }

  private _askForPeers(): void {
    this._connection?.ask('peers', {}).answer.then(
      ({ peers }) => {
        this._peers = peers;
        this.changed.emit();
      },
      (error: unknown) => {
        this._tell(error);
        this.changed.emit();
      }
    );
  }

  /** The graph that is compared with; null until it is there. */
  private _baseGraph(): Graph | null {
    switch (this._against?.kind) {
      case 'now':
        return this._live;
      case 'true':
        return this._live?.withoutOverrides() ?? null;
      default:
        return this._before?.graph ?? null;
    }
  }

  /** Draw what is shown, with what it is compared with. */
  private _update(): void {
    const after = this._past?.graph ?? this._live;
    const before = this._against === null ? null : this._baseGraph();
    if (before === null || after?.sameStructure(before) !== true) {
      this._drawn = after;
    } else {
      const { before: otherLabel, after: label } = this.sides;
      const how = {
        view: this._view,
        measure: this._measure,
        differing: this._before?.differing
      };
      const compared = { ...how, label: otherLabel, otherLabel: label };
      const other = before.compareWith({ ...compared, other: after, otherFirst: false });
      this._drawn = after.compareWith({
        ...how,
        label,
        otherLabel,
        other,
        otherFirst: true
      });
    }
    this.changed.emit();
  }

  /** A run, from what is at hand or from the kernel. */
  private _find(at: number): IMoment | Promise<IMoment> {
    const moments = this._moments;
    const known = moments.get(at);
    if (known !== undefined) {
      return known;
    }
    if (this._connection === null) {
      return findNearest(this._kept, at);
    }
    return this._connection.ask('moment', { step: at }).answer.then(moment => {
      moments.set(at, moment);
      return moment;
    });
  }

  private _apply(moment: IMoment): IShown | null {
    const live = this._live;
    const { step, whole } = moment;
    if (live === null) {
      return null;
    }
    const graph = Graph.read(moment, live);
    graph.step = step === 0 ? null : step;
    const differing = new Map(
      (moment.differing ?? []).map(one => [one.node, one])
    );
    return { step, whole, graph, differing };
  }

  /** The runs that a saved picture holds, or that a kernel told before it went. */
  private get _saved(): SavedMoments | null {
    const { _live: live, _sample: sample } = this;
    if (this._connection !== null || live === null) {
      return null;
    }
    if (this._told?.data !== sample) {
      this._told = sample && new SavedMoments(sample, live.header);
    }
    return live.moments ?? this._told;
  }

  /** The runs that can be shown without a kernel; those that were seen are whole. */
  private get _kept(): ((at: number) => IMoment)[] {
    const seen = this._moments.values.map(moment => () => moment);
    const { _saved: saved } = this;
    return saved === null ? seen : [...seen, at => saved.find(at)];
  }

  private _connection: GraphConnection | null = null;
  private _live: Graph | null = null;
  private _drawn: Graph | null = null;
  private _at: number | null = null;
  private _past: IShown | null = null;
  private _against: Side | null = null;
  private _before: IShown | null = null;
  private _view: ComparedView = 'colours';
  private _measure: Measure = 'ratio';
  private _peers: readonly IPeer[] = [];
  private readonly _shown: Latest<IMoment>;
  private readonly _base: Latest<IMoment>;
  private readonly _sampling: Latest<IMoments | null>;
  /** Some runs, for when the kernel is gone, and how they are read. */
  private _sample: IMoments | null = null;
  private _told: SavedMoments | null = null;
  /** Runs that the kernel has told, for as long as the overrides stay. */
  private _moments = new Kept<number, IMoment>(KEPT);
}

/** The run that is nearest to one, of those that are at hand. */
function findNearest(kept: readonly ((at: number) => IMoment)[], at: number): IMoment {
  return kept
    .map(find => find(at))
    .reduce((best, one) => (Math.abs(one.step - at) < Math.abs(best.step - at) ? one : best));
}

/** What the overrides of a graph do, as text. */
function rulesOf(graph: Graph | null): string {
  const overrides = graph?.header.overrides ?? [];
  return JSON.stringify(
    overrides.map(({ id, rule, steps, enabled }) => [id, rule, steps, enabled])
  );
}
