/**
 * What is inside a node: one step of a loop, the branch taken, the graph of an op, drawn
 * by the same means as the graph of the cell, with the way there above it and the steps
 * of the loop below.
 */

import { type JSX, type ReactNode } from 'react';

import { GraphCanvas } from '../../canvas/canvas';
import { scaleOf } from '../../canvas/scale';
import type { GraphConnection, IInside } from '../../model/connection';
import { spreadNorms } from '../../model/folds';
import { Latest, answerTo } from '../../model/latest';
import { type Change, GraphState } from '../../model/state';
import { Button, IconButton } from '../../ui/controls';
import { Box, element } from '../../ui/dom';
import { errorText } from '../../ui/words';
import type { IPlace } from '../../wire/protocol';
import type { Asking, Format, IHost, IWithin, Reason } from '../host';
import { NodeDetail, NodeNumbers, NodeSummary } from '../inspector/node';
import { RuleForm } from '../overrides/rule';
import { Part } from '../part';
import { GraphTree } from '../tree';
import { Bars, IterationStrip } from './iterations';

/** One node on the way inside, with what it is called. */
interface ICrumb extends IPlace {
  label: string;
}

export class Inside extends Box {
  constructor(
    private readonly _outer: IHost,
    private readonly _onChange: () => void
  ) {
    super('workbench-Inside');
    const host = new InsideHost(_outer, this);
    this._crumbs = new Crumbs(host, this);
    this._steps = new Steps(host, this);
    this._tree = new GraphTree(host, 'What is inside, as a list');
    const picture = new Box('workbench-InsidePicture').append(this.canvas, this._tree);
    this.append(this._crumbs, picture, this._steps);
    this.pane = new Pane(host, this);
    this.state.changed.connect(this._onState, this);
    this.canvas.activated.connect((_, node) => {
      host.lookInside(node);
    });
    this.canvas.overrideRequested.connect((_, node) => {
      this.state.select(node);
      this.pane.startOverride();
    });
    this.setHidden(true);
    this.pane.setHidden(true);
  }

  readonly state = new GraphState();
  readonly canvas = new GraphCanvas({ state: this.state });
  /** What stands beside the picture: the selected node, and a rule for it. */
  readonly pane: Pane;

  /** The way to what is open; empty if nothing is. */
  get path(): readonly ICrumb[] {
    return this._path;
  }

  get isOpen(): boolean {
    return this._path.length > 0;
  }

  /** What is shown; null until the kernel has answered. */
  get shown(): IInside | null {
    return this._shown;
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
    this._go(this._path.slice(0, depth));
  }

  refresh(reason: Reason): void {
    if (!this.isOpen) {
      return;
    }
    const { graph, animated, colouring, stage, tileText, bins } = this._outer.state;
    this.state.setView('animated', animated);
    this.state.setView('tileText', tileText);
    this.state.setView('bins', bins);
    this.state.setView('colouring', colouring);
    this.state.setView('stage', stage === 'traced' ? 'traced' : 'derivative');
    const gone = graph?.isHolder(this._path[0].node) !== true;
    if (gone || this._outer.connection === null) {
      this.leave(0);
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
      this._latest.drop();
      this._shown = null;
      this.state.setGraph(null);
    }
    if (this.isOpen) {
      this._ask();
    }
    this._draw();
    this._onChange();
  }

  /** Ask the kernel; of what is asked while it answers only the last is asked for. */
  private _ask(): void {
    const connection: GraphConnection | null = this._outer.connection;
    const path = this._path.map(({ node, step }) => ({ node, step }));
    if (connection !== null) {
      this._latest.askNext(signal => answerTo(connection.draw('inside', { path }), signal));
    }
  }

  private _take(answer: IInside): void {
    this._shown = answer;
    const { graph } = answer;
    const same = this.state.graph?.sameStructure(graph) === true;
    this.state.setGraph(graph, same ? 'values' : 'graph');
    this._draw();
    this._onChange();
  }

  private _draw(): void {
    this._crumbs.refresh('graph');
    this._steps.refresh('graph');
  }

  private _onState(_: GraphState, change: Change): void {
    this._tree.refresh(change);
    this.pane.refresh(change);
    if (change === 'view') {
      this._steps.refresh('graph');
    }
  }

  private _path: readonly ICrumb[] = [];
  private _shown: IInside | null = null;
  private readonly _latest = new Latest<IInside>({
    take: answer => this._take(answer),
    fail: error => {
      this._outer.say(errorText(error), 'error');
      this.leave(this._path.length - 1);
    }
  });
  private readonly _crumbs: Crumbs;
  private readonly _steps: Steps;
  private readonly _tree: GraphTree;
}

/** The panel as the parts inside see it: with the program inside for its graph. */
class InsideHost implements IHost {
  constructor(
    private readonly _outer: IHost,
    private readonly _inside: Inside
  ) {}

  get state(): GraphState {
    return this._inside.state;
  }

  get shown(): GraphState {
    return this._inside.state;
  }

  get within(): IWithin {
    const { shown } = this._inside;
    return { step: shown?.step ?? null, steps: shown?.steps ?? null };
  }

  get connection(): GraphConnection | null {
    return this._outer.connection;
  }

  get alone(): boolean {
    return this._outer.alone;
  }

  get asking(): Asking {
    return this._outer.asking;
  }

  get recording(): IHost['recording'] {
    return this._outer.recording;
  }

  readonly openBeside = null;

  get canSavePage(): boolean {
    return this._outer.canSavePage;
  }

  save(format: Format): void {
    this._outer.save(format);
  }

  get drawerOpen(): boolean {
    return this._outer.drawerOpen;
  }

  get inspectorOpen(): boolean {
    return this._outer.inspectorOpen;
  }

  readonly unsimplified = null;

  readonly canPlot = false;

  /** Its lines are found by the graph of the cell alone. */
  readonly canReveal = false;
  readonly editing = null;

  lookInside(node: number): boolean {
    const { graph } = this.state;
    if (graph?.isHolder(node) !== true) {
      return false;
    }
    this._inside.enter(node, graph.label(node));
    return true;
  }

  fitGraph(): void {
    this._inside.canvas.showAll();
  }

  centre(node: number): void {
    this._inside.canvas.centre(node);
  }

  find(node: number): void {
    this._inside.canvas.find(node);
  }

  focusGraph(): void {
    this._inside.canvas.node.focus({ preventScroll: true });
  }

  reveal(): void {
    // There is no cell to go to, see `canReveal`.
  }

  copy(text: string): Promise<boolean> {
    return this._outer.copy(text);
  }

  plot(): void {
    this._outer.say('Derivatives are drawn of the nodes of the cell.');
  }

  toggleDrawer(): void {
    this._outer.toggleDrawer();
  }

  toggleInspector(): void {
    this._outer.toggleInspector();
  }

  showChecks(): void {
    this._outer.showChecks();
  }

  say(message: string, tone?: 'quiet' | 'error'): void {
    this._outer.say(message, tone);
  }
}

/** The way inside: the output, then each node that was looked into. */
class Crumbs extends Part {
  constructor(
    host: IHost,
    private readonly _inside: Inside
  ) {
    super(host, 'workbench-Crumbs', element('nav'));
    this.node.setAttribute('aria-label', 'Inside');
  }

  protected render(): ReactNode {
    const { path } = this._inside;
    const last = path.length - 1;
    return (
      <>
        <Button look="link" onClick={() => this._inside.leave(0)}>
          whole graph
        </Button>
        {path.map(({ label, step }, i) => (
          <span key={i} className="workbench-Crumb">
            <span aria-hidden="true"> ▸ </span>
            {i === last ? (
              <strong aria-current="location">{label}</strong>
            ) : (
              <Button look="link" onClick={() => this._inside.leave(i + 1)}>
                {`${label}, step ${step}`}
              </Button>
            )}
          </span>
        ))}
        <IconButton
          icon="close"
          label="Back to the graph around it"
          onClick={() => this._inside.leave(last)}
        />
      </>
    );
  }
}

/** The steps of the loop that is open. */
class Steps extends Part {
  constructor(
    host: IHost,
    private readonly _inside: Inside
  ) {
    super(host, 'workbench-Iterations');
  }

  protected render(): ReactNode {
    const { path, shown } = this._inside;
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
          onOpen={step => this._inside.goTo(step)}
          bars={this.host.state.stage === 'derivative' && drawNorms(shown, this._inside)}
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
  constructor(host: IHost, inside: Inside) {
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
          path: inside.path.map(({ node: at, step }) => ({ node: at, step }))
        }).answer
    );
    this._summary = new NodeSummary(host, this._detail);
    this._form = new RuleForm(host);
    this._numbers = new NodeNumbers(host, this._detail);
    const pane = new Box('workbench-Pane');
    this.append(pane.append(this._summary, this._form, this._numbers));
  }

  refresh(reason: Reason): void {
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
