/**
 * The two sweeps, step by step: forward to the output, then backward again. Of a small
 * program it is a lesson: with the chain rule in symbols, and the numbers.
 */

import type { JSX, ReactNode } from 'react';

import { prefersCalm } from '../../canvas/motion';
import type { Graph } from '../../model/graph';
import { Latest } from '../../model/latest';
import type { IStep } from '../../model/state';
import { IconButton } from '../../ui/controls';
import { Formula } from '../../ui/formula';
import { stepLine } from '../../ui/words';
import type { ILesson, ILessonNode } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { Player } from '../player';

/** Milliseconds between steps while it plays; long graphs take no longer than this. */
const BEAT = 700;
const LONGEST = 60_000;
/** What is read takes longer, and longer still for who has asked for calm. */
const READING = 2500;
const CALM_BEAT = 5000;
/** How many times as fast it plays. */
const SPEEDS = [0.5, 1, 2, 4] as const;
/** Larger programs are no lesson: the kernel says the same. */
const LARGEST = 100;
/** Milliseconds between two questions while values stream. */
const RHYTHM = 400;

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
        this._askNothing();
      } else {
        this._askLesson();
        this.draw();
      }
    }
  }

  override dispose(): void {
    this._latest.drop();
    super.dispose();
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
    const reads = this.host.state.lesson !== null;
    const beat = !reads ? BEAT : prefersCalm() ? CALM_BEAT : READING;
    return Math.min(beat, LONGEST / Math.max(this.last, 1)) / this._speed;
  }

  protected render(): ReactNode {
    const { state } = this.host;
    const { graph, current, lesson } = state;
    const told = current === null ? undefined : lesson?.nodes[current.node];
    const line = graph === null || current === null ? '' : formulaOf(graph, current, told);
    return (
      <>
        <div className="workbench-StepRow">
          {this.renderControls(false, line)}
          {this._renderSpeed()}
          <span className="workbench-StepText">
            {current === null
              ? 'before the first step'
              : `${current.sweep} ${current.position}/${current.count}`}
          </span>
          <Formula className="workbench-StepLine" text={line} typeset={this.host.typeset} />
          <IconButton
            icon="close"
            label="Show all"
            onClick={() => state.setStep(null)}
          />
        </div>
        {graph !== null && lesson !== null && (
          <div className="workbench-StepNumbers"
            role="group"
            tabIndex={0}
            aria-label="Numbers of this step"
          >
            {current === null ? (
              <span className="workbench-Quiet">
                The values of the inputs are given. Each step computes one value more, then,
                from the output back, one gradient more.
              </span>
            ) : (
              numbersOf(graph, current, lesson)
            )}
          </div>
        )}
      </>
    );
  }

  private _renderSpeed(): JSX.Element {
    return (
      <select
        className="workbench-Speed"
        title="Speed"
        aria-label="Speed"
        data-lm-suppress-shortcuts="true"
        value={this._speed}
        onChange={event => {
          this._speed = Number(event.currentTarget.value);
          if (this.isPlaying) {
            this.pause();
            this.play();
          } else {
            this.draw();
          }
        }}
      >
        {SPEEDS.map(speed => (
          <option key={speed} value={speed}>
            {speed}×
          </option>
        ))}
      </select>
    );
  }

  /** Have the kernel tell numbers and formulas of what is shown now. */
  private _askLesson(): void {
    const { connection, recording, state } = this.host;
    const { graph } = state;
    const asks = connection !== null && recording.isWhole && graph?.compared === null;
    if (!asks || graph.count > LARGEST) {
      this._askNothing();
      if (graph !== null && !state.hasLesson) {
        state.setLesson(null, graph); // nobody tells of what is shown now
      }
      return;
    }
    if (state.hasLesson || graph === this._asked) {
      return;
    }
    this._asked = graph;
    const { about } = recording;
    this._latest.askNext(
      () => connection.ask('lesson', about).answer.then(({ lesson }) => ({ graph, lesson })),
      RHYTHM
    );
  }

  private _askNothing(): void {
    this._latest.drop();
    this._asked = null;
  }

  private _speed = 1;
  /** The graph that was asked about last. */
  private _asked: Graph | null = null;
  private readonly _latest = new Latest<{ graph: Graph; lesson: ILesson | null }>({
    take: ({ graph, lesson }) => {
      this.host.state.setLesson(lesson, graph);
    },
    fail: () => undefined // the steps are shown without numbers
  });
}

function formulaOf(graph: Graph, step: IStep, told: ILessonNode | undefined): string {
  const text = step.sweep === 'forward' ? told?.made : told?.rule;
  return text === undefined || text === '' ? stepLine(graph, step) : text;
}

/** What a step reads, and what it gives: small arrays under their names. */
function numbersOf(graph: Graph, { sweep, node }: IStep, { nodes }: ILesson): JSX.Element {
  const isForward = sweep === 'forward';
  const nameOf = (one: number): string => nodes[one].made.split(' = ')[0] || graph.label(one);
  const drawValue = (one: number): JSX.Element => (
    <Numbers key={`value ${one}`} name={nameOf(one)} shape={graph.shape(one)}>
      {nodes[one].value}
    </Numbers>
  );
  const drawGradient = (one: number): JSX.Element => (
    <Numbers key={one} name={nodes[one].rule.split(' = ')[0]} shape={graph.shape(one)}>
      {nodes[one].gradient}
    </Numbers>
  );
  if (isForward) {
    const inputs = [...new Set(graph.inputs(node))];
    return (
      <>
        {inputs.map(drawValue)}
        <span aria-hidden="true">=</span>
        {drawValue(node)}
      </>
    );
  }
  const readers = [...new Set(graph.consumers(node))].filter(reader =>
    graph.hasGradient(reader)
  );
  // Of the values that their rules read, those that the formula of this node names.
  const words = nodes[node].rule.split(/[^\p{L}\p{Nd}_/∂]+/u);
  const read = [...new Set(readers.flatMap(reader => [...graph.saved(reader)]))].filter(one =>
    words.some(word => word.replace(/ᵀ$/u, '') === nameOf(one))
  );
  return (
    <>
      {readers.map(drawGradient)}
      {read.map(drawValue)}
      {readers.length > 0 && <span aria-hidden="true">→</span>}
      {drawGradient(node)}
    </>
  );
}

interface INumbersProps {
  name: string;
  /** Said of an array that is too large to print. */
  shape: string;
  children: string;
}

function Numbers({ name, shape, children: numbers }: INumbersProps): JSX.Element {
  return (
    <figure>
      <figcaption>{name}</figcaption>
      <pre>{numbers === '' ? shape : alignRows(numbers)}</pre>
    </figure>
  );
}

/** Rows of numbers, one below the other. */
function alignRows(text: string): string {
  const rows = text.split('\n').map(row => row.split(' '));
  const width = Math.max(...rows.flat().map(({ length }) => length));
  return rows.map(row => row.map(one => one.padStart(width)).join('  ')).join('\n');
}
