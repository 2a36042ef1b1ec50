/** What the form of a node edits, and what its rule would apply to. Pure. */

import type { Graph } from '../../model/graph';
import type { IOverride, Target } from '../../wire/protocol';

/** Where a rule applies, as the form offers it. */
export type Reach = 'node' | 'op' | 'scope';

/** The reaches that a node has, with the words for them. */
export function reachesOf(
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

export function targetOf(graph: Graph, node: number, reach: Reach): Target {
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
export function overrideOf(graph: Graph, node: number): IOverride | null {
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
export function reachOf(override: IOverride): Reach | null {
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
export function noteOf(
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
