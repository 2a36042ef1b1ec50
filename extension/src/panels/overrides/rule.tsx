/**
 * The gradient rule of the selected node: attach one, edit it, switch it off.
 * The kernel reads the expression; the form only writes it.
 */

import { type JSX, type ReactNode, useLayoutEffect, useRef } from 'react';

import type { Graph } from '../../model/graph';
import { Latest } from '../../model/latest';
import { Button, Segments, classes } from '../../ui/controls';
import { spellNumber } from '../../ui/numbers';
import {
  effectsLine,
  errorText,
  stepText,
  stepsText,
  whereText
} from '../../ui/words';
import type { IOverride, Target } from '../../wire/protocol';
import type { INodeHost, IWithin, Reason } from '../host';
import { CopyLink, Pill } from '../links';
import { Part } from '../part';
import { Preview } from './preview';
import {
  type PresetName,
  labelOf,
  numbersOf,
  presetsFor,
  recognise,
  standardExpression,
  writePreset
} from '../presets';

/** Milliseconds without a key before the kernel is asked about an expression. */
const PAUSE = 150;

/** A rule that is being written; the kernel is asked about it, and has the last word. */
export class Draft {
  constructor(
    private readonly _host: INodeHost,
    private readonly _options: {
      /** What it would apply to; null while that is nothing. */
      target: () => Target | null;
      /** The override that it is to be the rule of, if there is one. */
      id?: number;
      /** It, or what the kernel says of it, is to be drawn again. */
      changed: () => void;
      /** The kernel has looked at it; null: it refused it. */
      checked?: (rule: string | null) => void;
    }
  ) {}

  rule = '';
  steps = '';
  /** Whether it is another one than it began with. */
  written = false;
  message = '';
  refused = false;
  /** Whether the kernel has it, and has not answered yet. */
  sent = false;

  /** Begin with another rule, and forget what the kernel said. */
  load(rule: string, steps: string): void {
    this.close();
    Object.assign(this, { rule, steps, written: false, message: '', refused: false });
  }

  /** Write the rule; what was refused was another text. */
  write(rule: string): void {
    Object.assign(this, { rule, written: true, refused: false });
    this._latest.askLater(() => this._ask(), PAUSE);
    this._options.changed();
  }

  writeSteps(steps: string): void {
    Object.assign(this, { steps, written: true });
    this._options.changed();
  }

  /** Ask the kernel about it; only the last question counts. */
  check(): void {
    this._latest.ask(() => this._ask());
  }

  /** Wait until the kernel has taken it. */
  send(taken: Promise<unknown>, onTaken: () => void): void {
    this.sent = true;
    this._latest.ask(() => taken.then(() => onTaken));
    this._options.changed();
  }

  /** Ask no more, and take no answer to what was asked. */
  close(): void {
    this._latest.drop();
    this.sent = false;
  }

  private _ask(): (() => void) | Promise<() => void> {
    this.sent = false;
    const { connection } = this._host;
    const target = this._options.target();
    const rule = this.rule.trim();
    if (rule === '') {
      return () => this._tell('', true);
    }
    if (connection === null || target === null) {
      return () => undefined;
    }
    const { id } = this._options;
    const asked = connection.ask('check-expression', {
      target,
      rule,
      id,
      ...this._host.recording.about
    });
    return asked.answer.then(({ ok, message }) => () => {
      this._tell(message || (ok ? 'ok' : 'not a rule'), ok);
      this._options.checked?.(ok ? rule : null);
    });
  }

  private _tell(message: string, ok: boolean): void {
    this.message = message;
    this.refused = !ok;
    this._options.changed();
  }

  /** What to do with what the kernel answers. */
  private readonly _latest = new Latest<() => void>({
    take: heed => {
      this.sent = false;
      heed();
    },
    fail: error => {
      this.sent = false;
      this._tell(errorText(error), false);
    }
  });
}

/** A form that a rule is written in: Enter applies it, Escape gives it up. */
export function DraftForm({
  onSubmit,
  onCancel,
  children,
  ...rest
}: {
  className: string;
  'aria-label'?: string;
  onSubmit: () => void;
  onCancel: () => void;
  children: ReactNode;
}): JSX.Element {
  return (
    <form
      {...rest}
      onSubmit={event => {
        event.preventDefault();
        onSubmit();
      }}
      onKeyDown={event => {
        const { key, target } = event;
        // Notebooks do not let a form submit itself by Enter.
        const enter = key === 'Enter' && target instanceof HTMLInputElement;
        if (enter || key === 'Escape') {
          event.preventDefault();
          event.stopPropagation();
          (enter ? onSubmit : onCancel)();
        }
      }}
    >
      {children}
    </form>
  );
}

interface IDraftProps {
  draft: Draft;
}

/** Put the keyboard into the field of a draft, with its text selected. */
export function focusField(form: ParentNode): void {
  const field = form.querySelector<HTMLInputElement>('.workbench-Field > input');
  field?.focus();
  field?.select();
}

/** The field of a draft, with the button that applies it. */
export function RuleField({
  draft,
  label,
  verb = 'Apply',
  disabled,
  className = ''
}: IDraftProps & {
  label: string;
  verb?: string;
  disabled: boolean;
  className?: string;
}): JSX.Element {
  return (
    <div className="workbench-Field">
      <input
        className={classes('workbench-Input', className)}
        type="text"
        aria-label={label}
        aria-invalid={draft.refused}
        spellCheck={false}
        autoComplete="off"
        maxLength={1000}
        value={draft.rule}
        onInput={event => draft.write(event.currentTarget.value)}
      />
      <Button look="primary" type="submit" disabled={disabled}>
        {verb}
      </Button>
    </div>
  );
}

/** What the kernel says of a draft. */
export function drawMessage({ message, refused }: Draft): JSX.Element {
  return (
    <span
      className={classes('workbench-Message', refused && 'workbench-mod-bad')}
      role="status"
      aria-live="polite"
    >
      {message}
    </span>
  );
}

/** In which steps of a loop a rule holds: a field that the kernel reads. */
export function drawSteps(draft: Draft, hidden: boolean): JSX.Element {
  return (
    <label
      title="Of a loop: one step, 3, or -1 for the last; several, 10:20"
      hidden={hidden}
    >
      {'in steps '}
      <input
        className="workbench-Input workbench-Number"
        type="text"
        placeholder="all"
        autoComplete="off"
        value={draft.steps}
        onInput={event => draft.writeSteps(event.currentTarget.value)}
      />
    </label>
  );
}

/** The numbers of clip and scale beside the expression that holds them. */
function Numbers({ draft }: IDraftProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const { preset: name, numbers } = recognise(draft.rule);
  const inputs = (): HTMLInputElement[] => [...box.current!.querySelectorAll('input')];
  useLayoutEffect(() => {
    // Where one writes a number, it stays as it is written.
    inputs().forEach((input, i) => {
      if (input !== document.activeElement) {
        input.value = spellNumber(numbers[i]);
      }
    });
  });
  return (
    <div ref={box} className="workbench-Numbers" hidden={numbers.length === 0}>
      {numbersOf(name).map(({ label }) => (
        <label key={`${name} ${label}`}>
          {`${label} `}
          <input
            className="workbench-Input workbench-Number"
            type="number"
            step="any"
            onInput={() => {
              const written = inputs().map(input => input.valueAsNumber);
              if (written.every(Number.isFinite)) {
                draft.write(writePreset(name, written));
              }
            }}
          />
        </label>
      ))}
    </div>
  );
}

export class RuleForm extends Part<INodeHost> {
  constructor(host: INodeHost) {
    super(host, 'workbench-NodeRule');
  }

  /** Put the keyboard into the expression. */
  focusField(): void {
    focusField(this.node);
  }

  override refresh(reason: Reason): void {
    // A form that is being filled in is not filled in by what the kernel sends.
    const kept = reason === 'values' && this._draft.written;
    if (reason !== 'hover' && reason !== 'view' && !kept) {
      this._load();
      this._lookAtCurrent(reason === 'values');
    } else if (reason === 'values') {
      this._preview.renew();
    }
    super.refresh(reason);
  }

  override dispose(): void {
    this._draft.close();
    this._preview.close();
    super.dispose();
  }

  protected render(): ReactNode {
    const { graph, selected } = this.host.state;
    this.setHidden(graph === null || selected === null);
    if (graph === null || selected === null) {
      return null;
    }
    const live = this.host.connection !== null;
    const note = noteOf(graph, selected, this.host);
    const override = overrideOf(graph, selected);
    const { preset: chosen } = recognise(this._draft.rule);
    const removes = this._isRemoval(override);
    return (
      <DraftForm
        className="workbench-RuleForm"
        aria-label="Gradient rule"
        onSubmit={() => this._apply(graph, selected)}
        onCancel={() => {
          this._load();
          this._lookAtCurrent(false);
          this.draw();
          this.host.focusGraph();
        }}
      >
        <h4>Gradient rule</h4>
        <p className="workbench-Hint" hidden={note === ''}>
          {note}
        </p>
        <div
          className="workbench-FormBody"
          hidden={!live || graph.kind(selected) !== 'op'}
        >
          <Segments<PresetName>
            label="Gradient rule"
            look="chips"
            choices={presetsFor(graph.op(selected)).map(({ name, title }) => ({
              value: name,
              label: name,
              title
            }))}
            chosen={this._formula === this._draft.rule ? 'expression' : chosen}
            onChoose={name => this._choosePreset(graph, selected, name)}
          />
          <RuleField
            draft={this._draft}
            label="Gradient rule as an expression of g, d, x and y"
            className="workbench-Expression"
            verb={removes ? 'Remove' : 'Apply'}
            disabled={!this._canApply(override)}
          />
          <Numbers draft={this._draft} />
          <div className="workbench-Under">
            {drawMessage(this._draft)}
            <span className="workbench-Hint">
              g arriving · d true rule · x input · y output
            </span>
          </div>
          <div className="workbench-Row">
            <span>Apply to</span>
            <Segments<Reach>
              label="Apply to"
              look="segments"
              choices={reachesOf(graph, selected, this.host.within)}
              chosen={this._reach}
              onChoose={reach => {
                this._reach = reach;
                this._draft.written = true;
                this._draft.check();
                this.draw();
              }}
            />
            {drawSteps(this._draft, !this._hasSteps(graph))}
            <span className="workbench-Hint">
              {this._hasSteps(graph) && this._spellSteps(graph, selected)}
            </span>
          </div>
          {this._preview.draw()}
        </div>
        <div className="workbench-Current">
          {override !== null && drawCurrent(this.host, graph, override)}
        </div>
      </DraftForm>
    );
  }

  /** Fill the form in from the override that the node has. */
  private _load(): void {
    const { graph, selected } = this.host.state;
    const override =
      graph === null || selected === null ? null : overrideOf(graph, selected);
    this._draft.load(
      override?.data === true ? override.rule : 'd',
      override === null || override.steps === ALL_STEPS ? '' : override.steps
    );
    const { within } = this.host;
    this._reach = within === null ? ((override && reachOf(override)) ?? 'node') : 'op';
    if (override === null && within !== null && within.step !== null) {
      this._draft.steps = String(within.step);
    }
    this._formula = null;
  }

  /** Look at what a rule would pass on, once the kernel would take it. */
  private _lookAt(rule: string | null): void {
    const { graph, selected } = this.host.state;
    if (graph === null || selected === null) {
      return;
    }
    const override = overrideOf(graph, selected);
    // The kernel looks at nodes of the cell alone.
    const idle =
      rule === null || this.host.within !== null || recognise(rule).preset === 'true';
    if (idle || !graph.hasGradient(selected)) {
      this._preview.look(null);
      return;
    }
    const known = override !== null && isReplacing(override, this._reach);
    this._preview.look({
      node: selected,
      target: targetOf(graph, selected, this._reach),
      rule,
      steps: this._readSteps(),
      ...(known ? { id: override.id } : {}),
      attached: known && override.enabled && override.rule === rule
    });
  }

  /** Look at what the override that is there passes on, if the form has its rule. */
  private _lookAtCurrent(again: boolean): void {
    const { graph, selected } = this.host.state;
    const override =
      graph === null || selected === null ? null : overrideOf(graph, selected);
    const mine = override !== null && override.data && reachOf(override) !== null;
    const key = mine ? `${selected} ${override.id} ${override.code}` : '';
    if (again && key !== '' && key === this._current) {
      this._preview.renew();
    } else {
      this._lookAt(mine && override.enabled ? override.rule : null);
    }
    this._current = key;
  }

  /** Whether the rule is the true one, and takes the override of the node away. */
  private _isRemoval(override: IOverride | null): boolean {
    const { preset: name } = recognise(this._draft.rule);
    return name === 'true' && isReplacing(override, this._reach);
  }

  private _canApply(override: IOverride | null): boolean {
    const { refused, sent } = this._draft;
    const rule = this._draft.rule.trim();
    const same =
      override?.enabled === true &&
      override.rule === rule &&
      reachOf(override) === this._reach &&
      override.steps === this._readSteps();
    const idle = recognise(rule).preset === 'true' && !this._isRemoval(override);
    return rule !== '' && !refused && !sent && !same && !idle;
  }

  private _choosePreset(graph: Graph, node: number, name: PresetName): void {
    if (name !== 'expression' && name !== recognise(this._draft.rule).preset) {
      this._draft.rule = standardExpression(name, largestPassedOn(graph, node));
    }
    this._formula = name === 'expression' ? this._draft.rule : null;
    this._draft.written = true;
    this._draft.check();
    this.draw();
    if (name === 'expression') {
      this.focusField();
    }
  }

  /** The steps of a loop as they are written; what is drawn itself is in none. */
  private _readSteps(): string {
    const steps = this._draft.steps.trim();
    return this._reach === 'node' ? '' : this._reach === 'loop' ? steps || ALL_STEPS : steps;
  }

  /** Whether steps of a loop can be written beside where the rule applies. */
  private _hasSteps(graph: Graph): boolean {
    const { within } = this.host;
    return within === null ? hasSteps(graph, this._reach) : within.steps !== null;
  }

  /** The steps that are written, in words. */
  private _spellSteps(graph: Graph, node: number): string {
    const loop = this._reach === 'loop' ? graph.loops.get(graph.loop(node)) : undefined;
    const times = loop?.times ?? this.host.within?.steps ?? null;
    return stepsText(this._readSteps(), times).replace(/^ (in )?/, '');
  }

  private _apply(graph: Graph, node: number): void {
    const { connection } = this.host;
    const override = overrideOf(graph, node);
    if (connection === null || !this._canApply(override)) {
      return;
    }
    if (override !== null && this._isRemoval(override)) {
      this._draft.close();
      this._draft.written = false;
      this.host.asking.remove(override);
      return;
    }
    // The kernel has better to do now than to say what the rule would do.
    this._preview.close();
    const rule = this._draft.rule.trim();
    const steps = this._readSteps();
    const target = targetOf(graph, node, this._reach);
    const known = override !== null && isReplacing(override, this._reach);
    const event = {
      event: 'override',
      target,
      rule,
      label: labelOf(rule),
      steps
    } as const;
    this._draft.send(
      connection.command(known ? { ...event, id: override.id } : event),
      () => {
        this._load();
        this._lookAtCurrent(false);
        this.draw();
        const current = this.node.querySelector('.workbench-Current');
        current?.scrollIntoView({ block: 'nearest' });
      }
    );
  }

  private readonly _draft = new Draft(this.host, {
    target: () => {
      const { graph, selected } = this.host.state;
      return graph === null || selected === null
        ? null
        : targetOf(graph, selected, this._reach);
    },
    changed: () => this.draw(),
    checked: rule => {
      this._lookAt(rule);
      this.draw();
    }
  });
  private readonly _preview = new Preview(this.host, () => this.draw());
  /** The override whose rule in force is looked at; "" for none. */
  private _current = '';
  private _reach: Reach = 'node';
  /** The text for which a formula was chosen, whatever it spells. */
  private _formula: string | null = null;
}

/** The override that is there: what it does, and what can be done with it. */
function drawCurrent(host: INodeHost, graph: Graph, override: IOverride): JSX.Element {
  const { label, enabled, code, target } = override;
  return (
    <>
      <div className="workbench-Effect">
        <Pill
          override={override}
          text={
            target.kind === 'node' && override.steps === ''
              ? label
              : `${label} on ${whereText(graph, override)}`
          }
        />
        <span>{effectsLine(graph.header, override)}</span>
      </div>
      <div className="workbench-Links">
        <CopyLink host={host} code={code} label="Copy as code" />
        {host.connection !== null && (
          <>
            <Button look="link" onClick={() => host.asking.enable(override, !enabled)}>
              {enabled ? 'Switch off' : 'Switch on'}
            </Button>
            <Button look="link" onClick={() => host.asking.remove(override)}>
              Remove
            </Button>
          </>
        )}
      </div>
    </>
  );
}

/**
 * The largest entry of the gradients that the true rule of a node passes on to
 * its inputs; NaN where there is none.
 */
function largestPassedOn(graph: Graph, node: number): number {
  // Where an override runs already, what it lets through says nothing.
  const overridden = graph.override(node) !== null;
  let largest = NaN;
  for (const input of graph.inputs(node)) {
    const statistics =
      (overridden ? graph.trueStatistics(input) : null) ??
      graph.gradientStatistics(input);
    if (statistics !== null) {
      const size = Math.max(Math.abs(statistics.min), Math.abs(statistics.max));
      largest = largest >= size || Number.isNaN(size) ? largest : size;
    }
  }
  return largest;
}

// What the form of a node edits, and what its rule would apply to.

/** Where a rule applies, as the form offers it. */
type Reach = 'node' | 'loop' | 'op' | 'scope';

/** The steps of an override of a node that means its place in all steps of its loop. */
const ALL_STEPS = ':';

/** Whether steps of a loop can be written beside a reach. */
function hasSteps(graph: Graph, reach: Reach): boolean {
  return reach === 'loop' || (reach !== 'node' && (graph.hasLoops || graph.loops.size > 0));
}

/** The reaches that a node has, with the words for them. */
function reachesOf(
  graph: Graph,
  node: number,
  within: IWithin | null
): { value: Reach; label: string; title: string }[] {
  const op = graph.op(node);
  if (within !== null) {
    // A rule reaches the nodes in there by their op.
    return [{ value: 'op', label: `every ${op}`, title: `Every node of the op ${op}` }];
  }
  const loop = graph.loops.get(graph.loop(node));
  const choices: { value: Reach; label: string; title: string }[] = [
    {
      value: 'node',
      label: loop === undefined ? 'this node' : 'this step',
      title: [graph.label(node), stepText(graph, node)].filter(Boolean).join(', ')
    }
  ];
  if (loop !== undefined) {
    choices.push({
      value: 'loop',
      label: 'its loop',
      title: `${graph.label(node)} and the nodes at its place in the other steps`
    });
  }
  // Outputs of one op have little in common with those of another.
  if (op !== '' && op === graph.maker(node)) {
    choices.push({
      value: 'op',
      label: `every ${op}`,
      title: `Every node of the op ${op}`
    });
  }
  const scope = graph.scope(node);
  if (scope !== '') {
    choices.push({ value: 'scope', label: 'scope', title: `Every node in ${scope}` });
  }
  return choices;
}

function targetOf(graph: Graph, node: number, reach: Reach): Target {
  switch (reach) {
    case 'node':
    case 'loop':
      return { kind: 'node', node };
    case 'op':
      return { kind: 'op', op: graph.op(node) };
    case 'scope':
      return { kind: 'scope', scope: graph.scope(node) };
  }
}

/**
 * The override that the form of a node shows: the one whose rule it runs, else
 * one that is off and would be its own.
 */
function overrideOf(graph: Graph, node: number): IOverride | null {
  const running = graph.override(node);
  if (running !== null) {
    return isInside(graph, node, running) ? null : running;
  }
  const off = graph.header.overrides.filter(
    override =>
      !override.enabled &&
      override.matched.includes(node) &&
      !isInside(graph, node, override)
  );
  const own = off.find(({ target }) => target.kind === 'node');
  // One in other steps of its loop, which this form can be used to change.
  const elsewhere = graph.header.overrides.findLast(
    ({ target, steps }) =>
      target.kind === 'node' && steps !== '' && graph.isSamePlace(target.node, node)
  );
  return own ?? off.at(-1) ?? elsewhere ?? null;
}

/** Whether it means an op within the node: in the step of a loop, in a branch. */
function isInside(graph: Graph, node: number, { target }: IOverride): boolean {
  return target.kind === 'op' && target.op !== graph.op(node);
}

/** The reach of an override, if it is one that the form can write. */
function reachOf({ target, steps }: IOverride): Reach | null {
  if (target.kind === 'other') {
    return null;
  }
  return target.kind === 'node' && steps !== '' ? 'loop' : target.kind;
}

/**
 * Whether applying replaces an override or adds one. An override of one node may
 * be widened; one that other nodes share is not taken from them by a rule for
 * this node alone.
 */
export function isReplacing(override: IOverride | null, reach: Reach): boolean {
  if (override?.data !== true) {
    return false;
  }
  const before = reachOf(override);
  return before === reach || before === 'node';
}

/** Why the form cannot be used on a node, or what to know before using it. */
function noteOf(graph: Graph, node: number, { alone, connection }: INodeHost): string {
  const kind = graph.kind(node);
  if (kind !== 'op') {
    const article = kind === 'input' ? 'an' : 'a';
    return (
      `${graph.label(node)} is ${article} ${kind}, not an op: it has no rule. ` +
      'Override a node that reads it.'
    );
  }
  if (connection === null) {
    return alone
      ? 'This is a picture without a kernel: its rules are as they were saved.'
      : 'This is a saved picture. Run the cell to attach a rule.';
  }
  const running = graph.override(node);
  if (running?.target.kind === 'op' && isInside(graph, node, running)) {
    return `Within it, every ${running.target.op} has the rule “${running.label}”.`;
  }
  if (graph.isCovered(node)) {
    return (
      `It lies within a match of “${running?.label ?? ''}”, so its own rule does not ` +
      'run; a rule attached here comes first.'
    );
  }
  const override = overrideOf(graph, node);
  if (override !== null && !override.data) {
    const { rule } = override;
    const what = rule.includes('\n') ? 'a list of ops' : `the Python function ${rule}`;
    return `The rule is ${what}; a rule attached here comes first.`;
  }
  return graph.hasGradient(node)
    ? ''
    : 'No gradient reaches this node: a rule here changes nothing.';
}
