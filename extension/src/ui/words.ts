/** What is said about nodes and overrides, as text. Pure. */

import { type IChange, QUANTITIES, changeOf } from '../model/comparison';
import type { ISteps } from '../model/folds';
import type { Graph, ICost, IStatistics } from '../model/graph';
import { type IOrigin, describeBad, nonFiniteOf, roleOf } from '../model/nonfinite';
import type { IStep } from '../model/state';
import { type IVerdict, gravestFinding, verdictOf } from '../model/verdicts';
import type {
  ICheck,
  IEffect,
  IFinding,
  IHeader,
  IOverride,
  Target
} from '../wire/protocol';
import {
  formatAngle,
  formatBytes,
  formatCount,
  formatNumber,
  formatPercent,
  formatPlural,
  formatSeconds
} from './numbers';

/** At most so many terms of a sum of the chain rule are written out. */
const TERMS = 3;

/** What an error says, of whatever was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** "569×30" as it is read: with spaces, a scalar by name. */
export function shapeText(shape: string): string {
  return shape === '()' ? 'scalar' : shape.replace(/×/g, ' × ');
}

/** How many entries an array of a shape has: of "569×30" 17070; null if unknown. */
export function countEntries(shape: string): number | null {
  if (shape === '()') {
    return 1;
  }
  const lengths = shape
    .split('×')
    .map(length => (/^\d+$/.test(length) ? +length : NaN));
  const count = lengths.reduce((a, b) => a * b, 1);
  return Number.isSafeInteger(count) ? count : null;
}

/** "∂ p / ∂ W1" */
export function derivativeText(
  graph: Graph,
  { of, wrt }: { of: number; wrt: number }
): string {
  return `∂ ${graph.label(of)} / ∂ ${graph.label(wrt)}`;
}

/** "∂loss/∂h" */
function derivativeName(graph: Graph, node: number): string {
  return `∂${graph.header.output_name}/∂${graph.label(node)}`;
}

/** The overrides whose rules run between two nodes, "stop at h", each once. */
export function overridesBetween(
  graph: Graph,
  { of, wrt, way }: { of: number; wrt: number; way: Uint8Array | null }
): string[] {
  const found = new Set<IOverride>();
  for (let node = wrt + 1; way !== null && node <= of; node++) {
    const override = way[node] === 1 ? graph.override(node) : null;
    if (override !== null && !graph.isCovered(node)) {
      found.add(override);
    }
  }
  return graph.header.overrides
    .filter(override => found.has(override))
    .map(override => {
      const at = override.target.kind === 'node' ? 'at' : 'on';
      return `${override.label} ${at} ${whereText(graph, override)}`;
    });
}

/** So many overrides are named. */
const NAMED = 6;

/** "with 2 overrides: stop at h, clip ±1 on every tanh", or what the true one leaves out. */
export function forceText(names: readonly string[], isTrue = false): string {
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : '';
  const word = isTrue ? 'the true one, without' : 'with';
  return names.length === 0
    ? ''
    : `${word} ${formatPlural(names.length, 'override')}: ` +
        names.slice(0, NAMED).join(', ') +
        more;
}

/** "passes on ‖·‖ 0.1, true 0.31": of a node that an override runs at; "" of others. */
export function passedText(graph: Graph, node: number): string {
  const norm = graph.passedNorm(node);
  const own = graph.override(node) !== null && !graph.isCovered(node);
  if (!own || Number.isNaN(norm)) {
    return '';
  }
  const before = graph.truePassedNorm(node);
  const true_ = Number.isNaN(before) ? '' : `, true ${formatNumber(before)}`;
  return `passes on ‖·‖ ${formatNumber(norm)}${true_}`;
}

// NaN and infinity: where they begin, in words.

/** "NaN starts at log, line 4: 3 of 100 entries"; "" where all is finite. */
export function nonFiniteLine(graph: Graph): string {
  const { origins } = nonFiniteOf(graph);
  if (origins.length === 0) {
    return '';
  }
  const others = origins.length - 1;
  const more =
    others === 0 ? '' : `, and at ${formatPlural(others, 'other place')}`;
  return originText(graph, origins[0]) + more;
}

/** What is said where of a past run only the norms are there. */
export const NORMS_ONLY =
  'Of this step only the norms are kept, its inputs had no room: go to a step that is ' +
  'kept whole.';

/** The step since which a training has NaN or infinity. */
export interface IBroken {
  step: number;
  /** The node whose value, or rule, made the first. */
  node: number | null;
  text: string;
}

/** "NaN since step 2 of 120: log, line 6"; null where that step is shown, or all is well. */
export function brokenSince(graph: Graph, shown: number | null): IBroken | null {
  const { timeline } = graph.header;
  const step = timeline?.first_bad ?? null;
  // Before that step nothing is wrong, and at it the picture itself says where.
  if (timeline === null || step === null || timeline.count < 2) {
    return null;
  }
  if ((shown ?? timeline.count) <= step) {
    return null;
  }
  const mark = timeline.marks.find(one => one.kind === 'nan' && one.step === step);
  const node = mark?.node ?? null;
  const what = mark?.text.startsWith('NaN') === true ? 'NaN' : 'Infinity';
  const since = `${what} since step ${formatCount(step)} of ${formatCount(timeline.count)}`;
  if (node === null) {
    return { step, node, text: since };
  }
  const line = graph.line(node);
  const place = line === null ? graph.place(node) : `line ${line}`;
  const name = graph.kind(node) === 'op' ? graph.maker(node) : graph.label(node);
  return { step, node, text: `${since}: ${[name, place].filter(Boolean).join(', ')}` };
}

function originText(graph: Graph, origin: IOrigin): string {
  const { node, sweep, shown, isNaN, count } = origin;
  const what = isNaN ? 'NaN' : 'Infinity';
  const size = countEntries(graph.shape(shown));
  const entries =
    size === 1 || count === null
      ? ''
      : `: ${formatCount(count)}${size === null ? '' : ` of ${formatCount(size)}`} entries`;
  const [label, maker] = [graph.label(node), graph.maker(node)];
  if (graph.kind(node) !== 'op') {
    return `${what} is in the ${maker} ${label === maker ? '' : label}`.trim() + entries;
  }
  const name = label === maker ? label : `${label} = ${maker}`;
  const line = graph.line(node);
  const place = line === null ? graph.place(node) : `line ${line}`;
  const where = sweep === 'forward' ? name : `the gradient of ${name}`;
  return `${what} starts at ${where}${place === '' ? '' : `, ${place}`}${entries}`;
}

/** What is to be said of the value of a node that is not finite; "" if it is. */
export function nonFiniteText(graph: Graph, node: number): string {
  const entries = badText(graph.valueStatistics(node));
  switch (roleOf(graph, node)) {
    case 'origin':
      return `value: ${entries}: it begins here`;
    case 'follower':
      return graph.kind(node) === 'op'
        ? `value: ${entries}, from what it reads`
        : `value: ${entries}, from a step before`;
    case 'harmless':
      return `value: ${entries}, harmless: what reads it is finite`;
    case 'none':
      return '';
  }
}

/** "3 entries NaN or infinite"; of a past run "NaN among its entries". */
export function badText(statistics: IStatistics | null): string {
  const { isNaN, count } = describeBad(statistics);
  return count === null
    ? `${isNaN ? 'NaN' : 'infinity'} among its entries`
    : `${formatCount(count)} ${count === 1 ? 'entry' : 'entries'} NaN or infinite`;
}

/** The value of an output that is one number and not finite: "NaN", "−∞"; "" else. */
export function badOutput(graph: Graph): string {
  const { output } = graph.header;
  const known = output >= 0 && graph.shape(output) === '()';
  const statistics = known ? graph.valueStatistics(output) : null;
  if (statistics === null || statistics.bad === 0) {
    return '';
  }
  const { isNaN, count } = describeBad(statistics);
  // Of a past run the sign is not known.
  return count === null ? (isNaN ? 'NaN' : '±∞') : formatNumber(statistics.min);
}

/** What a step of a sweep does, in one line. */
export function stepLine(graph: Graph, step: IStep): string {
  return step.sweep === 'forward'
    ? forwardLine(graph, step.node)
    : backwardLine(graph, step.node);
}

/** "h = tanh(add)" */
function forwardLine(graph: Graph, node: number): string {
  const inputs = [...graph.inputs(node)].map(input => graph.label(input));
  if (graph.maker(node) !== graph.op(node)) {
    return `${graph.label(node)} = an output of ${inputs.join()}`;
  }
  return `${graph.label(node)} = ${graph.op(node)}(${inputs.join(', ')})`;
}

/**
 * The chain rule at one node: a sum over the nodes that read it, of the
 * derivative that has arrived there times the node's own share.
 */
function backwardLine(graph: Graph, node: number): string {
  const left = derivativeName(graph, node);
  if (node === graph.header.output) {
    return `${left} = 1`;
  }
  const readers = [...new Set(graph.consumers(node))].filter(reader =>
    graph.hasGradient(reader)
  );
  const terms = readers.slice(0, TERMS).map(reader => {
    const share = `∂${graph.label(reader)}/∂${graph.label(node)}`;
    const product = `${derivativeName(graph, reader)} · ${share}`;
    const override = graph.override(reader);
    return override === null ? product : `⟨${override.label}⟩(${product})`;
  });
  const more = readers.length - terms.length;
  if (more > 0) {
    terms.push(`${more} more`);
  }
  return `${left} = ${terms.join(' + ') || '0'}`;
}

/** "Undo: remove clip ±1": what a button would take back; null: nothing. */
export function undoText(verb: 'Undo' | 'Redo', what: string | null): string {
  return what === null ? `Nothing to ${verb.toLowerCase()}` : `${verb}: ${what}`;
}

/** What an override applies to. */
export function targetText(graph: Graph, target: Target): string {
  switch (target.kind) {
    case 'node':
      return graph.label(target.node);
    case 'op':
      return `every ${target.op}`;
    case 'scope':
      return `scope ${target.scope}`;
    case 'other':
      return target.text;
  }
}

/**
 * The step of the loop that a node stands in: "step 17 of 500"; "step 3 of 8, in step 2
 * of 6" in a loop in a loop; "" outside of loops.
 */
export function stepText(graph: Graph, node: number): string {
  const steps: string[] = [];
  let loop = graph.loops.get(graph.loop(node));
  let at = graph.iteration(node);
  while (loop !== undefined) {
    steps.push(`step ${at} of ${loop.times}`);
    at = loop.around?.at ?? -1;
    loop = loop.around?.loop;
  }
  return steps.join(', in ');
}

/**
 * The steps of a loop that a subscript names, in words: " in step 17 of 500", " in steps
 * 10 to 19", " in all 500 steps"; "" for no subscript.
 */
export function stepsText(steps: string, times: number | null = null): string {
  if (steps === '') {
    return '';
  }
  const parts = steps.split(':').map(part => part.trim());
  const [first, end = '', stride = ''] = parts;
  const isCount = (text: string): boolean => /^\d+$/.test(text);
  if (parts.length === 1) {
    const of = times === null ? '' : ` of ${times}`;
    return first === '-1' ? ' in the last step' : ` in step ${first}${of}`;
  }
  if (stride !== '' && stride !== '1') {
    return ` in steps ${steps}`;
  }
  const from = first === '' ? '0' : first;
  if (from === '0' && end === '') {
    return times === null ? ' in all steps' : ` in all ${times} steps`;
  }
  if (isCount(from) && end === '') {
    return ` from step ${from} on`;
  }
  return isCount(from) && isCount(end) && Number(end) > Number(from)
    ? ` in steps ${from} to ${Number(end) - 1}`
    : ` in steps ${steps}`;
}

/** What an override is on: its target, and the steps of a loop if it names some. */
export function whereText(graph: Graph, { target, steps }: IOverride): string {
  const loop = target.kind === 'node' ? graph.loops.get(graph.loop(target.node)) : null;
  return targetText(graph, target) + stepsText(steps, loop?.times ?? null);
}

/** "12 %", with the angle if the direction changed: "12 %, 3.1°". */
export function effectText(effect: IEffect): string {
  if (effect.relative === null) {
    return 'not comparable: 0 or not finite';
  }
  const turned = effect.angle !== null && effect.angle >= 0.05;
  const angle = turned ? `, turned ${formatAngle(effect.angle ?? 0)}` : '';
  return `${formatPercent(effect.relative)}${angle}`;
}

/** "changes 2 of 4 requested gradients, ∂loss/∂W1 by 12 %" */
export function effectsLine(
  { output_name: output, wrt }: Pick<IHeader, 'output_name' | 'wrt'>,
  override: IOverride
): string {
  if (!override.enabled) {
    return 'off: the true rule runs';
  }
  const changed = override.effects.filter(({ relative }) => relative !== 0);
  if (changed.length === 0) {
    return override.effects.length === 0 ? '' : 'changes no gradient';
  }
  const most = changed.reduce((a, b) =>
    (b.relative ?? -1) > (a.relative ?? -1) ? b : a
  );
  const name = `∂${output}/∂${most.name}`;
  // Other gradients may change too: these are the ones that were requested.
  const count = changed.length;
  const changes =
    wrt.length < count
      ? `changes ${formatPlural(count, 'gradient')}`
      : `changes ${count} of ${formatPlural(wrt.length, 'requested gradient')}`;
  if (most.relative === null) {
    return `${changes}, ${name} beyond comparison`;
  }
  const by = `by ${formatPercent(most.relative)}`;
  return count === 1 ? `changes ${name} ${by}` : `${changes}, ${name} ${by}`;
}

/** "its error is 120 times what rounding explains" */
export function ratioText(ratio: number | null): string {
  return ratio === null || !Number.isFinite(ratio)
    ? 'not a finite number'
    : `${formatNumber(ratio, 2)} times the allowed error`;
}

export const BEFORE = ' (before the last change)';

/** What checks and the doctor say of a node or of a folded scope, line by line. */
export function verdictLines(verdict: IVerdict): string[] {
  const { counts, ratio, findings } = verdict;
  const lines: string[] = [];
  const when = verdict.staleCheck ? BEFORE : '';
  const several = (count: number, one: string): string =>
    count === 1 ? one : `${one} at ${formatPlural(count, 'node')}`;
  if (counts.wrong) {
    const words = `${several(counts.wrong, 'wrong gradient rule')}, ${ratioText(ratio)}`;
    lines.push(words + when);
  }
  for (const [count, words] of [
    [counts.kink, 'checked at a kink'],
    [counts.overridden, 'rule changed on purpose'],
    [counts.unsure, 'check unsure']
  ] as const) {
    if (count) {
      lines.push(several(count, words) + when);
    }
  }
  if (verdict.begins?.sweep === 'backward') {
    lines.push(`its gradient rule passes on the first ${verdict.begins.what}`);
  }
  for (const { severity, title } of findings.slice(0, TERMS)) {
    lines.push(`${severity}: ${title}${verdict.staleFindings ? BEFORE : ''}`);
  }
  for (const { text } of verdict.stops.slice(0, TERMS)) {
    lines.push(`a loop stops when ${text}`);
  }
  if (findings.length > TERMS) {
    lines.push(`and ${findings.length - TERMS} more findings`);
  }
  return lines;
}

/** What a node's value and its gradient rule cost, a line for each that was measured. */
export function costLines(graph: Graph, node: number): string[] {
  const stale = graph.header.profile?.stale === true ? BEFORE : '';
  const lines: string[] = [];
  for (const [what, cost] of [
    ['value', graph.valueCost(node)],
    ['rule', graph.ruleCost(node)]
  ] as const) {
    if (cost !== null) {
      lines.push(`${what}: ${costText(cost)}${stale}`);
    }
  }
  return lines;
}

/** "12 µs · 3 % · 64 kB · in kernel 2 with 5 other ops" */
function costText({ time, bytes, share, step }: ICost): string {
  const parts = [formatSeconds(time), formatPercent(share), formatBytes(bytes)];
  if (step !== null) {
    parts.push(`in ${step.name} with ${formatPlural(step.count - 1, 'other op')}`);
  }
  return parts.join(' · ');
}

/** One node as a screen reader says it. */
export function nodeSentence(graph: Graph, node: number): string {
  const parts = [graph.label(node)];
  const kind = graph.maker(node);
  if (kind !== graph.label(node)) {
    parts.push(kind);
  }
  parts.push(shapeText(graph.shape(node)));
  const inputs = [...graph.inputs(node)].map(input => graph.label(input));
  if (inputs.length > 0) {
    parts.push(`reads ${inputs.join(' and ')}`);
  }
  const change = changeText(graph, node);
  if (change !== '') {
    parts.push(change);
  }
  if (graph.compared !== null) {
    parts.push(...comparedLines(graph, node));
  } else if (graph.hasGradient(node)) {
    parts.push(`gradient norm ${formatNumber(graph.gradNorm(node))}`);
  }
  const steps = graph.compared === null ? graph.stepNorms(node) : null;
  if (steps !== null) {
    parts.push(alongLoopText(steps));
  }
  parts.push(...costLines(graph, node));
  const override = graph.override(node);
  if (override !== null) {
    const within = graph.isCovered(node) ? 'within the ' : '';
    parts.push(`${within}override ${override.label}`);
  }
  parts.push(...[passedText(graph, node), nonFiniteText(graph, node)].filter(Boolean));
  const verdict = verdictOf(graph, node);
  if (verdict !== null) {
    parts.push(...verdictLines(verdict));
  }
  return parts.join(', ');
}

/** "gradient along 500 steps: 1e−12 at step 0, 0.2 at step 499, largest 0.3 at step 7" */
export function alongLoopText({ steps, marks, norms }: ISteps): string {
  const order = Array.from(marks.keys()).sort((a, b) => marks[a] - marks[b]);
  const known = order.filter(i => !Number.isNaN(norms[i]));
  const size = (i: number): number => norms[i] ?? Infinity;
  const largest = known.reduce((a, b) => (size(b) > size(a) ? b : a), known[0]);
  const ends = [known[0], known[known.length - 1]];
  const at = (i: number): string => {
    const norm = norms[i];
    return `${norm === null ? 'not finite' : formatNumber(norm)} at step ${marks[i]}`;
  };
  const told = [...new Set(ends)].map(at);
  const more = ends.includes(largest) ? [] : [`largest ${at(largest)}`];
  const count = formatPlural(steps, 'step');
  return known.length === 0 ? '' : `gradient along ${count}: ${[...told, ...more].join(', ')}`;
}

/** "gradient norm 0.31 in run 1, 0.1 now: × 0.323", and the same of the value. */
export function comparedLines(graph: Graph, node: number): string[] {
  const other = graph.compared?.differing?.get(node);
  const differing = other === undefined ? [] : [`${other.other} in the other program`];
  const norms = QUANTITIES.flatMap(what => {
    const change = changeOf(graph, node, what);
    if (change === null || change.fate === 'none') {
      return [];
    }
    const { before, after } = sidesOf(graph);
    const { fate } = change;
    const [was, is] = [change.before, change.after].map(norm => formatNumber(norm));
    const text =
      fate === 'came'
        ? `${is} ${inSide(after)}, none ${inSide(before)}`
        : fate === 'went'
          ? `${was} ${inSide(before)}, none ${inSide(after)}`
          : fate === 'same'
            ? `${is} in both`
            : `${was} ${inSide(before)}, ${is} ${inSide(after)}`;
    const ratio = factorText(change);
    return [`${what} norm ${text}${ratio === '' ? '' : `: ${ratio}`}`];
  });
  return [...differing, ...norms];
}

/** The names of the two sides of a graph that is compared, in their order. */
export function sidesOf({ compared }: Graph): { before: string; after: string } {
  const { label = '', otherLabel = '', otherFirst = true } = compared ?? {};
  return otherFirst
    ? { before: otherLabel, after: label }
    : { before: label, after: otherLabel };
}

/** "in run 1", "now", "now, without overrides", "without overrides". */
function inSide(side: string): string {
  return side.startsWith('now') || side.startsWith('without ') ? side : `in ${side}`;
}

/** "× 0.323"; "" where there is no ratio to tell. */
export function factorText({ fate, before, after }: IChange): string {
  return fate === 'changed' && before > 0 ? `× ${formatNumber(after / before)}` : '';
}

/** What the step of a simplification did to a node; "" for nothing. */
export function changeText({ rewritten }: Graph, node: number): string {
  return rewritten?.came.has(node) === true
    ? 'new in this step'
    : rewritten?.went.has(node) === true
      ? 'gone with this step'
      : '';
}

/** The summary of a check by sentences, without what is said of its nodes one by one. */
export function checkSentences({
  summary,
  nodes
}: Pick<ICheck, 'summary' | 'nodes'>): string[] {
  let rest = summary;
  for (const { text } of nodes) {
    rest = text === '' ? rest : rest.replace(text, '');
  }
  return rest
    .split(/(?<=[.)])\s+(?=[\p{Lu}\d])/u)
    .map(sentence => sentence.trim())
    .filter(sentence => /\w/.test(sentence));
}

// What checks and the doctor found in all of a graph, in a few words.

export interface ISummary {
  text: string;
  /** How many in all, where there is no room for words. */
  count: string;
  severity: IFinding['severity'] | 'changed';
  /** Whether all of it is of before the last change. */
  stale: boolean;
}

/**
 * "1 wrong rule · 1 changed on purpose · 2 findings", of rules and of gradients; null if
 * there is nothing that asks for a look.
 */
export function summaryOf({ header }: Graph): ISummary | null {
  const { check, findings } = header;
  const wrong = check?.counts.wrong ?? 0;
  // What overrides changed before the last change tells nothing of those of now.
  const changed = check?.stale === true ? 0 : changedNames(check).length;
  const list = findings?.list ?? [];
  const first = gravestFinding(list);
  if (wrong === 0 && changed === 0 && first === null) {
    return null;
  }
  return {
    text: [
      ...(wrong > 0 ? [formatPlural(wrong, 'wrong rule')] : []),
      ...(changed > 0 ? [`${formatPlural(changed, 'gradient')} changed`] : []),
      ...(first === null ? [] : [formatPlural(list.length, 'finding')])
    ].join(' · '),
    count: formatCount(wrong + changed + list.length),
    severity: wrong > 0 ? 'error' : (first?.severity ?? 'changed'),
    stale:
      (wrong + changed === 0 || check?.stale === true) &&
      (first === null || findings?.stale === true)
  };
}

/** The inputs whose gradients are changed on purpose, each once. */
function changedNames(check: ICheck | null): string[] {
  const lines = check?.gradients.filter(one => one.verdict === 'changed') ?? [];
  const known = lines.filter(({ mode }) => mode !== '');
  return [...new Set(known.map(({ name }) => name))];
}
