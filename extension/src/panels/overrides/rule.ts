/**
 * The gradient rule of the selected node: attach one, edit it, switch it off.
 * The kernel reads the expression; the form only writes it.
 */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { Keyed, Segments, button, element } from '../../ui/dom';
import { spellNumber } from '../../ui/numbers';
import { effectsLine, whereText } from '../../ui/words';
import type { IOverride, Target } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { overrideLinks, pill } from '../links';
import {
  type PresetName,
  labelOf,
  preset,
  presetsFor,
  recognise,
  standardExpression
} from '../presets';

/** Milliseconds without a key before the kernel is asked about an expression. */
const PAUSE = 150;

export class RuleForm extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('form', { attributes: { 'aria-label': 'Gradient rule' } }) });
    this.addClass('workbench-RuleForm');
    this._chips = new Segments<PresetName>('Gradient rule', 'chips', name => {
      this._choosePreset(name);
    });
    this._reaches = new Segments<Reach>('Apply to', 'segments', reach => {
      this._reach = reach;
      this._dirty = true;
      this._reaches.choose(reach);
      this._check();
      this._show();
    });
    this._field.addEventListener('input', () => {
      this._dirty = true;
      // What was refused was another text; the kernel has the last word.
      this._refused = false;
      this._show();
      this._checkSoon();
    });
    this._steps.node.addEventListener('input', () => {
      this._dirty = true;
      this._show();
    });
    this.node.addEventListener('keydown', event => {
      this._onKey(event);
    });
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      this._apply();
    });
    this.node.append(
      element('h4', { text: 'Gradient rule' }),
      this._note,
      this._body,
      this._current.node
    );
    this._body.append(
      this._chips.node,
      element('div', { class: 'workbench-Field' }, [this._field, this._applyButton]),
      this._numbers,
      element('div', { class: 'workbench-Under' }, [
        this._message,
        element('span', {
          class: 'workbench-Hint',
          text: 'g arriving · d true rule · x input · y output'
        })
      ]),
      element('div', { class: 'workbench-Row' }, [
        element('span', { text: 'Apply to' }),
        this._reaches.node,
        this._steps.node
      ])
    );
  }

  /** Put the keyboard into the expression. */
  focusField(): void {
    this._field.focus();
    this._field.select();
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    // A form that is being filled in is not filled in by what the kernel sends.
    if (reason === 'values' && this._dirty) {
      this._show();
    } else {
      this._load();
    }
  }

  protected override onBeforeDetach(): void {
    clearTimeout(this._timer);
  }

  /** Fill the form in from the override that the node has. */
  private _load(): void {
    const { graph, selected } = this._host.state;
    this._dirty = false;
    this._question += 1;
    clearTimeout(this._timer);
    this._tell('', null);
    if (graph !== null && selected !== null) {
      const override = overrideOf(graph, selected);
      this._field.value = override?.data === true ? override.rule : 'd';
      this._steps.text = override?.steps ?? '';
      this._reaches.setChoices(reachesOf(graph, selected));
      const fitting = presetsFor(graph.op(selected));
      this._chips.setChoices(
        fitting.map(({ name, title }) => ({ value: name, label: name, title }))
      );
      this._reach = (override && reachOf(override)) ?? 'node';
      this._reaches.choose(this._reach);
    }
    this._writeNumbers(true);
    this._show();
  }

  private _show(): void {
    const { graph, selected } = this._host.state;
    this.node.hidden = graph === null || selected === null;
    if (graph === null || selected === null) {
      return;
    }
    const live = this._host.connection !== null;
    const note = noteOf(graph, selected, live);
    const override = overrideOf(graph, selected);
    this._note.textContent = note.text;
    this._note.hidden = note.text === '';
    this._body.hidden = !note.editable;
    const { preset: name } = recognise(this._field.value);
    this._chips.choose(name);
    this._writeNumbers(false);
    this._steps.node.hidden = this._reach === 'node' || !graph.hasLoops;
    this._showApply(override);
    this._showCurrent(graph, override, live);
  }

  private _showApply(override: IOverride | null): void {
    const isTrue = recognise(this._field.value).preset === 'true';
    const empty = this._field.value.trim() === '';
    const same =
      override !== null &&
      override.enabled &&
      override.rule === this._field.value.trim() &&
      reachOf(override) === this._reach &&
      override.steps === this._readSteps();
    const removes =
      isTrue && override?.data === true && replaces(override, this._reach);
    this._applyButton.textContent = removes ? 'Remove' : 'Apply';
    this._applyButton.disabled = empty || this._refused || same || (isTrue && !removes);
  }

  /** The override that is there: what it does, and what can be done with it. */
  private _showCurrent(graph: Graph, override: IOverride | null, live: boolean): void {
    this._current.fill([override, live], () =>
      override === null ? [] : this._currentParts(graph, override, live)
    );
  }

  private _currentParts(
    graph: Graph,
    override: IOverride,
    live: boolean
  ): HTMLElement[] {
    const what =
      override.target.kind === 'node'
        ? override.label
        : `${override.label} on ${whereText(graph, override)}`;
    return [
      element('div', { class: 'workbench-Effect' }, [
        pill(override, what),
        element('span', { text: effectsLine(graph.header, override) })
      ]),
      overrideLinks(this._host, override, live)
    ];
  }

  private _onKey(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      event.stopPropagation();
      this._load();
      this._host.focusGraph();
    } else if (event.key === 'Enter' && event.target instanceof HTMLInputElement) {
      // Notebooks do not let a form submit itself by Enter.
      event.preventDefault();
      event.stopPropagation();
      this._apply();
    }
  }

  private _choosePreset(name: PresetName): void {
    const { preset: before } = recognise(this._field.value);
    if (name !== 'expression' && name !== before) {
      const { graph, selected } = this._host.state;
      this._field.value = standardExpression(
        name,
        graph === null || selected === null ? NaN : largestPassedOn(graph, selected)
      );
    }
    this._dirty = true;
    this._writeNumbers(true);
    this._show();
    this._chips.choose(name);
    this._check();
    if (name === 'expression') {
      this.focusField();
    }
  }

  /** The numbers of clip and scale beside the expression that holds them. */
  private _writeNumbers(force: boolean): void {
    const { preset: name, numbers } = recognise(this._field.value);
    const fields = preset(name).numbers;
    if (force || this._numbered !== name) {
      this._numbered = name;
      this._inputs = fields.map(() =>
        element('input', {
          class: 'workbench-Input workbench-Number',
          attributes: { type: 'number', step: 'any' }
        })
      );
      this._numbers.replaceChildren(
        ...fields.map(({ label }, i) =>
          element('label', {}, [`${label} `, this._inputs[i]])
        )
      );
      for (const input of this._inputs) {
        input.addEventListener('input', () => {
          this._readNumbers(name);
        });
      }
    }
    this._numbers.hidden = fields.length === 0;
    this._inputs.forEach((input, i) => {
      if (input !== document.activeElement) {
        input.value = spellNumber(numbers[i]);
      }
    });
  }

  private _readNumbers(name: PresetName): void {
    const numbers = this._inputs.map(input => input.valueAsNumber);
    if (numbers.every(Number.isFinite)) {
      this._field.value = preset(name).write(numbers);
      this._dirty = true;
      this._show();
      this._checkSoon();
    }
  }

  /** The steps of a loop as they are written; what is drawn itself is in none. */
  private _readSteps(): string {
    return this._reach === 'node' ? '' : this._steps.text;
  }

  private _checkSoon(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this._check();
    }, PAUSE);
  }

  /** Ask the kernel about the expression; only the last question counts. */
  private _check(): void {
    clearTimeout(this._timer);
    const question = ++this._question;
    const { state, connection } = this._host;
    const rule = this._field.value.trim();
    if (state.graph === null || state.selected === null || connection === null) {
      return;
    }
    if (rule === '') {
      this._tell('', null);
      return;
    }
    const target = targetOf(state.graph, state.selected, this._reach);
    connection.checkExpression(target, rule).then(
      ({ ok, message }) => {
        if (question === this._question) {
          this._tell(message || (ok ? 'ok' : 'not a rule'), ok);
        }
      },
      (error: unknown) => {
        if (question === this._question) {
          this._tell(error instanceof Error ? error.message : String(error), false);
        }
      }
    );
  }

  private _tell(message: string, ok: boolean | null): void {
    this._message.textContent = message;
    this._message.classList.toggle('workbench-mod-bad', ok === false);
    this._field.setAttribute('aria-invalid', String(ok === false));
    this._refused = ok === false;
    const { graph, selected } = this._host.state;
    if (graph !== null && selected !== null) {
      this._showApply(overrideOf(graph, selected));
    }
  }

  private _apply(): void {
    const { state, connection } = this._host;
    const { graph, selected } = state;
    if (graph === null || selected === null || connection === null) {
      return;
    }
    if (this._applyButton.disabled) {
      return;
    }
    const rule = this._field.value.trim();
    const override = overrideOf(graph, selected);
    const replaced = override !== null && replaces(override, this._reach);
    clearTimeout(this._timer);
    this._question += 1;
    if (recognise(rule).preset === 'true' && override !== null && replaced) {
      this._host.asking.remove(override);
      this._dirty = false;
      return;
    }
    const target = targetOf(graph, selected, this._reach);
    this._applyButton.disabled = true;
    connection
      .override(
        target,
        rule,
        labelOf(rule),
        replaced ? override.id : undefined,
        this._readSteps()
      )
      .then(
        () => {
          this._dirty = false;
          this._tell('', null);
          this.refresh('values');
          this._current.node.scrollIntoView({ block: 'nearest' });
        },
        (error: unknown) => {
          this._tell(error instanceof Error ? error.message : String(error), false);
        }
      );
  }

  private readonly _chips: Segments<PresetName>;
  private readonly _reaches: Segments<Reach>;
  private readonly _field = element('input', {
    class: 'workbench-Input workbench-Expression',
    attributes: {
      type: 'text',
      'aria-label': 'Gradient rule as an expression of g, d, x and y',
      spellcheck: 'false',
      autocomplete: 'off',
      maxlength: '1000'
    }
  });
  private readonly _steps = new StepsField();
  private readonly _applyButton = button('primary', 'Apply', () => undefined, {
    attributes: { type: 'submit' }
  });
  private readonly _note = element('p', { class: 'workbench-Hint' });
  private readonly _body = element('div', { class: 'workbench-FormBody' });
  private readonly _numbers = element('div', { class: 'workbench-Numbers' });
  private readonly _message = element('span', {
    class: 'workbench-Message',
    role: 'status',
    attributes: { 'aria-live': 'polite' }
  });
  private readonly _current = new Keyed(element('div', { class: 'workbench-Current' }));
  private _inputs: HTMLInputElement[] = [];
  private _numbered: PresetName | null = null;
  private _reach: Reach = 'node';
  private _dirty = false;
  private _refused = false;
  private _question = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
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

/** In which steps of a loop a rule holds: a field that the kernel reads. */
export class StepsField {
  readonly node: HTMLElement;

  constructor(text = '') {
    this.node = element(
      'label',
      { title: 'Of a loop: one step, 3, or -1 for the last; several, 10:20' },
      ['in steps ', this._field]
    );
    this.text = text;
  }

  /** What is written in it; "" for all steps. */
  get text(): string {
    return this._field.value.trim();
  }

  set text(text: string) {
    this._field.value = text;
  }

  private readonly _field = element('input', {
    class: 'workbench-Input workbench-Number',
    attributes: { type: 'text', placeholder: 'all', autocomplete: 'off' }
  });
}

// What the form of a node edits, and what its rule would apply to.

/** Where a rule applies, as the form offers it. */
type Reach = 'node' | 'op' | 'scope';

/** The reaches that a node has, with the words for them. */
function reachesOf(
  graph: Graph,
  node: number
): { value: Reach; label: string; title: string }[] {
  const choices: { value: Reach; label: string; title: string }[] = [
    { value: 'node', label: 'this node', title: graph.label(node) }
  ];
  const op = graph.op(node);
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
  return own ?? off.at(-1) ?? null;
}

/** Whether it means an op within the node: in the step of a loop, in a branch. */
function isInside(graph: Graph, node: number, { target }: IOverride): boolean {
  return target.kind === 'op' && target.op !== graph.op(node);
}

/** The reach of an override, if it is one that the form can write. */
function reachOf(override: IOverride): Reach | null {
  return override.target.kind === 'other' ? null : override.target.kind;
}

/**
 * Whether applying replaces an override or adds one. An override of one node may
 * be widened; one that other nodes share is not taken from them by a rule for
 * this node alone.
 */
export function replaces(override: IOverride | null, reach: Reach): boolean {
  if (override?.data !== true) {
    return false;
  }
  const before = reachOf(override);
  return before === reach || before === 'node';
}

/** Why the form cannot be used on a node, or what to know before using it. */
function noteOf(
  graph: Graph,
  node: number,
  live: boolean
): { text: string; editable: boolean } {
  if (graph.kind(node) !== 'op') {
    return {
      text:
        `${graph.label(node)} is ${graph.kind(node) === 'input' ? 'an' : 'a'} ` +
        `${graph.kind(node)}: no op, so no rule. Override a node that reads it.`,
      editable: false
    };
  }
  if (!live) {
    return {
      text: 'This is a saved picture. Run the cell to attach a rule.',
      editable: false
    };
  }
  const running = graph.override(node);
  if (running?.target.kind === 'op' && isInside(graph, node, running)) {
    return {
      text: `Within it, every ${running.target.op} has the rule “${running.label}”.`,
      editable: true
    };
  }
  if (graph.isCovered(node)) {
    return {
      text:
        `It lies within a match of “${running?.label ?? ''}”, so its own rule does ` +
        'not run; a rule attached here goes before that.',
      editable: true
    };
  }
  const override = overrideOf(graph, node);
  if (override !== null && !override.data) {
    const what = override.rule.includes('\n')
      ? 'a list of ops'
      : `the Python function ${override.rule}`;
    return {
      text: `The rule is ${what}; a rule attached here goes before it.`,
      editable: true
    };
  }
  if (!graph.hasGradient(node)) {
    return {
      text: 'No gradient reaches this node: a rule here changes nothing.',
      editable: true
    };
  }
  return { text: '', editable: true };
}
