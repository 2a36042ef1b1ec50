/**
 * What two chosen nodes have to do with each other: a strip over the graph, with
 * the derivative of the later one by the earlier one behind a button; and the menu of
 * such derivatives for one node.
 */

import type { JSX, ReactNode } from 'react';

import type { Graph } from '../../model/graph';
import { type IPair, nodesReachedFrom, nodesReadBy } from '../../model/paths';
import { Button, IconButton } from '../../ui/controls';
import {
  countEntries,
  derivativeText,
  forceText,
  overridesBetween,
  stepText
} from '../../ui/words';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** Ask for the derivative of a pair; say why where there is none. */
export function showDerivative(host: IHost): void {
  const { graph, pair } = host.state;
  if (graph === null || pair === null) {
    host.say('Mark a node with m, then select a second one.');
    return;
  }
  const refusal = host.connection === null ? offlineText(host) : refusalOf(graph, pair);
  if (refusal === null) {
    host.plot('jacobian', pair.of, [pair.wrt]);
  } else {
    host.say(refusal);
  }
}

/** Why there is no derivative between two nodes; null if there is one. */
function refusalOf(graph: Graph, { of, wrt, way }: IPair): string | null {
  if (way === null) {
    return (
      `Neither ${graph.label(of)} nor ${graph.label(wrt)} is computed from the ` +
      'other: there is no derivative between them.'
    );
  }
  for (const node of [of, wrt]) {
    if (!graph.isArray(node)) {
      return `${graph.label(node)} has several outputs: choose one of them.`;
    }
    if (!FLOATING.test(graph.dtype(node))) {
      return (
        `${graph.label(node)} is ${graph.dtype(node)}: only floating and complex ` +
        'numbers have derivatives.'
      );
    }
  }
  return null;
}

const offlineText = ({ alone }: IHost): string =>
  `A saved picture has no derivatives${alone ? '.' : ': run the cell again.'}`;

const FLOATING = /^(float|complex)/;

export class PairBar extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Pair');
  }

  protected render(): ReactNode {
    const { graph, marked, pair } = this.host.state;
    const refusal = graph !== null && pair !== null ? refusalOf(graph, pair) : null;
    const force =
      graph !== null && pair !== null ? forceText(overridesBetween(graph, pair)) : '';
    const { state } = this.host;
    return (
      <>
        <div
          className="workbench-PairStrip"
          role="group"
          aria-label="Two nodes"
          hidden={graph === null || marked === null}
        >
          {graph !== null &&
            marked !== null &&
            (pair === null ? (
              <>
                <span className="workbench-PairTitle">
                  {graph.label(marked)} is marked
                </span>
                <span className="workbench-Quiet">choose a second node</span>
              </>
            ) : refusal === null ? (
              drawOffer(this.host, graph, pair, force)
            ) : (
              <span className="workbench-PairRefusal">{refusal}</span>
            ))}
          <IconButton
            icon="close"
            label="Clear the pair"
            onClick={() => {
              state.selectAlone(state.selected);
              this.host.focusGraph();
            }}
          />
        </div>
        {/* Told to a screen reader, once for each choice. */}
        <div className="workbench-Offstage" role="status">
          {graph === null || marked === null
            ? ''
            : pair === null
              ? `${graph.label(marked)} is marked. Select a second node for the ` +
                'derivative between the two; Escape clears the mark.'
              : (refusal ??
                `${graph.label(pair.of)} is computed from ${graph.label(pair.wrt)}. ` +
                  (force === '' ? '' : `The derivative is ${force}. `) +
                  'Enter shows the derivative; Escape clears the pair.')}
        </div>
      </>
    );
  }
}

/** The derivative between two nodes, and what is second to it. */
function drawOffer(host: IHost, graph: Graph, pair: IPair, force: string): JSX.Element {
  const both = [pair.of, pair.wrt];
  const { output } = graph.header;
  const second = !both.includes(output) && both.every(node => graph.hasGradient(node));
  return (
    <>
      <span className="workbench-PairTitle">{derivativeText(graph, pair)}</span>
      <span className="workbench-Quiet">{sizeText(graph, pair)}</span>
      {force !== '' && (
        <span className="workbench-PairForce" title={force}>
          {force}
        </span>
      )}
      {host.canPlot && host.connection !== null && (
        <Button
          look="primary"
          title="A heat map of every entry by every entry (Enter)"
          onClick={() => showDerivative(host)}
        >
          Derivative
        </Button>
      )}
      {host.canPlot && host.connection !== null && second && (
        <Button
          look="link"
          title={`Second derivatives of ${graph.label(output)} by both nodes`}
          onClick={() => host.plot('hessian', null, [pair.wrt, pair.of])}
        >
          Hessian
        </Button>
      )}
    </>
  );
}

/** "8 × 6": how many entries the two have. */
function sizeText(graph: Graph, { of, wrt }: IPair): string {
  const [rows, columns] = [countEntries(graph.shape(of)), countEntries(graph.shape(wrt))];
  return rows === null || columns === null ? '' : `${rows} × ${columns}`;
}

// The derivatives between the selected node and others, by name.

/** So many names are offered each way: those nearest to the node. */
const OFFERED = 1000;

let menus = 0;

export class DerivativeMenu extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-DerivativeMenu');
    this.setHidden(true);
  }

  override refresh(reason: Reason): void {
    // Which nodes there are does not change with their numbers.
    if (reason !== 'values') {
      super.refresh(reason);
    }
  }

  protected render(): ReactNode {
    const { graph, selected: node } = this.host.state;
    const live = this.host.canPlot && this.host.connection !== null;
    const options = !live || graph === null || node === null ? [] : optionsOf(graph, node);
    this.setHidden(options.length === 0);
    return (
      <>
        <input
          className="workbench-Input"
          list={this._list}
          placeholder="Derivative with …"
          title="Or click a second node with shift, or mark this one with m"
          aria-label="Derivative between this node and another"
          autoComplete="off"
          spellCheck={false}
          data-lm-suppress-shortcuts="true"
          onInput={({ currentTarget: field }) => {
            const chosen = options.find(({ text }) => text === field.value);
            if (chosen !== undefined) {
              field.value = '';
              this.host.state.mark(chosen.other);
              showDerivative(this.host);
            }
          }}
        />
        <datalist id={this._list}>
          {options.map(({ other, text }) => (
            <option key={other} value={text} />
          ))}
        </datalist>
      </>
    );
  }

  private readonly _list = `workbench-derivatives-${menus++}`;
}

interface IOption {
  other: number;
  /** Which derivative, and where the other node stands: "∂ h / ∂ v, line 5, step 3 of 8". */
  text: string;
}

/** Of this node by those that it is computed from, then of those computed from it. */
function optionsOf(graph: Graph, node: number): IOption[] {
  const options = new Map<string, IOption>();
  const add = (way: Uint8Array, step: 1 | -1): void => {
    let count = 0;
    for (let at = node + step; at in way && count < OFFERED; at += step) {
      if (way[at] === 1 && isOffered(graph, node, at)) {
        const [wrt, of] = step < 0 ? [at, node] : [node, at];
        const line = graph.line(at);
        const where = [line === null ? '' : `line ${line}`, stepText(graph, at)];
        const name = derivativeText(graph, { of, wrt });
        const text = [name, ...where.filter(Boolean)].join(', ');
        // Two nodes of one name, line and step: the nearest.
        if (!options.has(text)) {
          options.set(text, { other: at, text });
          count++;
        }
      }
    }
  };
  add(nodesReadBy(graph, node), -1);
  add(nodesReachedFrom(graph, node), 1);
  return [...options.values()];
}

/** Whether a node has a name to be chosen by, and a derivative with another. */
function isOffered(graph: Graph, node: number, other: number): boolean {
  const named = graph.name(other) !== '' || other === graph.header.output;
  const constant = graph.kind(other) === 'constant';
  const one = { of: node, wrt: other, way: NO_WAY };
  return named && !constant && refusalOf(graph, one) === null;
}

/** It is known already that there is one: nothing looks at it. */
const NO_WAY = new Uint8Array(0);
