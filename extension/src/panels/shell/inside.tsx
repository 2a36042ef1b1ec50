/**
 * What is inside a node: one step of a loop, the branch taken, the graph of an op, drawn
 * by the same means as the graph of the cell, with the way there above it and the steps
 * of the loop below.
 */

import type { JSX, ReactNode } from 'react';

import { scaleOf } from '../../canvas/scale';
import type { GraphConnection, IInside } from '../../model/connection';
import { spreadNorms } from '../../model/folds';
import { Latest, answerTo } from '../../model/latest';
import { Button, IconButton } from '../../ui/controls';
import { Box, element } from '../../ui/dom';
import { NORMS_ONLY, errorText } from '../../ui/words';
import type { IPlace } from '../../wire/protocol';
import type { Asking, IHost, INodeHost, IWithin, Reason } from '../host';
import { NodeDetail, NodeNumbers, NodeSummary } from '../inspector/node';
import { RuleForm } from '../overrides/rule';
import { Part } from '../part';
import { View } from '../view';
import { Bars, IterationStrip } from './iterations';

/** One node on the way inside, with what it is called. */
interface ICrumb extends IPlace {
  label: string;
}

/** It is the host of the parts in it and beside it, which ask the panel through it. */
export class Inside extends View implements INodeHost {
  constructor(
    private readonly _panel: IHost,
    private readonly _onChange: () => void
  ) {
    super(_panel.state.settings, {
      className: 'workbench-Inside',
      list: 'What is inside, as a list'
    });
    this._crumbs = new Crumbs(this);
    this._steps = new Steps(this);
    this.append(this._crumbs, this.picture, this._steps);
    this._pane = new Pane(this);
    this.state.changed.connect((_, change) => {
      this._pane.draw(change);
      if (change === 'view') {
        this._steps.refresh('graph');
      }
    });
    this.canvas.activated.connect((_, node) => this.lookInside(node));
    this.canvas.overrideRequested.connect((_, node) => {
      this.state.select(node);
      this._pane.startOverride();
    });
    this.setHidden(true);
    this._pane.setHidden(true);
  }

  /** The way to what is open; empty if nothing is. */
  get path(): readonly ICrumb[] {
    return this._path;
  }

  override get isOpen(): boolean {
    return this._path.length > 0;
  }

  /** What is shown; null until the kernel has answered. */
  get shown(): IInside | null {
    return this._shown;
  }

  /** The selected node, and a rule for it. */
  override get pane(): Box {
    return this._pane;
  }

  override get within(): IWithin {
    return { step: this._shown?.step ?? null, steps: this._shown?.steps ?? null };
  }

  get connection(): GraphConnection | null {
    return this._panel.connection;
  }

  get asking(): Asking {
    return this._panel.asking;
  }

  get alone(): boolean {
    return this._panel.alone;
  }

  get recording(): IHost['recording'] {
    return this._panel.recording;
  }

  /** Its lines are found by the graph of the cell alone. */
  readonly canReveal = false;

  reveal(): void {
    // There is no cell to go to, see `canReveal`.
  }

  lookInside(node: number): boolean {
    const { graph } = this.state;
    if (graph?.isHolder(node) !== true) {
      return false;
    }
    this.enter(node, graph.label(node));
    return true;
  }

  plot(): void {
    this.say('Derivatives are drawn of the nodes of the cell.');
  }

  copy(text: string): Promise<boolean> {
    return this._panel.copy(text);
  }

  say(message: string, tone?: 'quiet' | 'error'): void {
    this._panel.say(message, tone);
  }

  /** Look into a node of what is shown, or of the graph of the cell. */
  enter(node: number, label: string): void {
    this._go([...this._path, { node, step: 0, label }]);
  }

  /** Show another step of the loop. */
  goTo(step: number): void {
    const last = this._path.at(-1);
    const steps = this._shown?.steps ?? 0;
    if (last !== undefined && steps > 0 && Number.isFinite(step)) {
      const at = Math.min(Math.max(Math.round(step), 0), steps - 1);
      this._go([...this._path.slice(0, -1), { ...last, step: at }]);
    }
  }

  /** Go back to so many nodes on the way; 0 is the graph of the cell. */
  leave(depth: number): void {
    if (depth < this._path.length) {
      this._go(this._path.slice(0, depth));
    }
  }

  override refresh(reason: Reason): void {
    if (!this.isOpen) {
      return;
    }
    const gone = this._panel.state.graph?.isHolder(this._path[0].node) !== true;
    if (gone || this.connection === null) {
      this.leave(0);
    } else if (!this.recording.isWhole) {
      this.leave(0);
      this.say(NORMS_ONLY);
    } else if (reason === 'values' || reason === 'graph') {
      this._ask();
    }
  }

  override dispose(): void {
    this._latest.drop();
    super.dispose();
  }

  private _go(path: readonly ICrumb[]): void {
    const deeper = path.length !== this._path.length;
    this._path = path;
    if (deeper) {
      this._selected = null;
      this._latest.drop();
      this._shown = null;
      this.show(null);
    }
    if (this.isOpen) {
      this._ask();
    }
    this._draw();
    this._onChange();
  }

  /** Ask the kernel; of what is asked while it answers only the last is asked for. */
  private _ask(): void {
    const { connection } = this;
    const path = this._path.map(({ node, step }) => ({ node, step }));
    const { about } = this.recording;
    if (about.at !== this._at) {
      // What was shown is of another run.
      this._at = about.at;
      this._shown = null;
      this._selected = this.state.selected ?? this._selected;
      this.show(null);
    }
    if (connection !== null) {
      const fields = { path, ...about };
      this._latest.askNext(signal => answerTo(connection.draw('inside', fields), signal));
    }
  }

  private _take(answer: IInside): void {
    this._shown = answer;
    this.show(answer.graph);
    if (this._selected !== null && this._selected < answer.graph.count) {
      this.state.select(this._selected);
    }
    this._selected = null;
    this._draw();
    this._onChange();
  }

  private _draw(): void {
    this._crumbs.refresh('graph');
    this._steps.refresh('graph');
  }

  private _path: readonly ICrumb[] = [];
  private _shown: IInside | null = null;
  /** The past run that was asked about. */
  private _at: number | undefined;
  /** The node to select again when another run of the same program is there. */
  private _selected: number | null = null;
  private readonly _latest = new Latest<IInside>({
    take: answer => this._take(answer),
    fail: error => {
      this.say(errorText(error), 'error');
      this.leave(this._path.length - 1);
    }
  });
  private readonly _crumbs: Crumbs;
  private readonly _steps: Steps;
  private readonly _pane: Pane;
}

/** The way inside: the output, then each node that was looked into. */
class Crumbs extends Part<Inside> {
  constructor(host: Inside) {
    super(host, 'workbench-Crumbs', element('nav'));
    this.node.setAttribute('aria-label', 'Inside');
  }

  protected render(): ReactNode {
    const { path } = this.host;
    const last = path.length - 1;
    return (
      <>
        <Button look="link" onClick={() => this.host.leave(0)}>
          whole graph
        </Button>
        {path.map(({ label, step }, i) => (
          <span key={i} className="workbench-Crumb">
            <span aria-hidden="true"> ▸ </span>
            {i === last ? (
              <strong aria-current="location">{label}</strong>
            ) : (
              <Button look="link" onClick={() => this.host.leave(i + 1)}>
                {`${label}, step ${step}`}
              </Button>
            )}
          </span>
        ))}
        <IconButton
          icon="close"
          label="Back to the graph around it"
          onClick={() => this.host.leave(last)}
        />
      </>
    );
  }
}

/** The steps of the loop that is open. */
class Steps extends Part<Inside> {
  constructor(host: Inside) {
    super(host, 'workbench-Iterations');
  }

  protected render(): ReactNode {
    const { path, shown } = this.host;
    const place = path.at(-1);
    const steps = shown?.steps ?? null;
    this.setHidden(steps === null || steps === 0);
    return (
      place !== undefined &&
      shown !== null &&
      steps !== null && (
        <IterationStrip
          name={place.label}
          at={place.step}
          times={steps}
          onOpen={step => this.host.goTo(step)}
          bars={this.host.state.stage === 'derivative' && drawNorms(shown, this.host)}
        />
      )
    );
  }
}

/** The gradients that arrive along the loop, from mark to mark. */
function drawNorms(shown: IInside, inside: Inside): JSX.Element | false {
  const { steps, marks, norms: found } = shown;
  const norms = spreadNorms({ steps: steps ?? 0, marks, norms: found });
  const scale = scaleOf(norms.length, step => norms[step]);
  return (
    norms.length > 0 && (
      <Bars
        norms={norms}
        scale={scale}
        at={shown.step ?? 0}
        onOpen={step => inside.goTo(step)}
      />
    )
  );
}

/** The selected node inside, and a rule for its op. */
class Pane extends Box {
  constructor(host: Inside) {
    const attributes = { 'aria-label': 'Node inside' };
    super('workbench-Inspector', element('aside', { attributes }));
    this._detail = new NodeDetail(
      host,
      () => {
        this._summary.refresh('values');
        this._numbers.refresh('values');
      },
      (connection, node) =>
        connection.ask('inspect-inside', {
          node,
          path: host.path.map(({ node: at, step }) => ({ node: at, step })),
          ...host.recording.about
        }).answer
    );
    this._summary = new NodeSummary(host, this._detail);
    this._form = new RuleForm(host);
    this._numbers = new NodeNumbers(host, this._detail);
    const pane = new Box('workbench-Pane');
    this.append(pane.append(this._summary, this._form, this._numbers));
  }

  draw(reason: Reason): void {
    this._detail.refresh(reason);
    for (const part of [this._summary, this._form, this._numbers]) {
      part.refresh(reason);
    }
  }

  startOverride(): void {
    this._form.focusField();
  }

  override dispose(): void {
    this._detail.dispose();
    super.dispose();
  }

  private readonly _detail: NodeDetail;
  private readonly _summary: NodeSummary;
  private readonly _form: RuleForm;
  private readonly _numbers: NodeNumbers;
}
