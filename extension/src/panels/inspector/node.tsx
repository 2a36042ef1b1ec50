/** The selected node: what it is, where it comes from, and its numbers. */

import { Fragment, type JSX, type ReactNode } from 'react';

import type { GraphConnection } from '../../model/connection';
import { QUANTITIES, changeOf } from '../../model/comparison';
import type { Graph, IStatistics } from '../../model/graph';
import { Button, classes } from '../../ui/controls';
import { formatCount, formatNumber } from '../../ui/numbers';
import {
  costLines,
  factorText,
  passedText,
  shapeText,
  sidesOf,
  stepText,
  whereText
} from '../../ui/words';
import { type IDetail, type IOverride, STATISTICS } from '../../wire/protocol';
import { Histogram, type IHistogramProps, Oddities } from '../histogram';
import type { INodeHost } from '../host';
import { SourceLine } from '../links';
import { Part } from '../part';
import { NodeQuestion } from '../question';

/** While values stream, a node is asked about at most this often. */
const RHYTHM = 400;

/** What the kernel says about the selected node, or said when the file was made. */
export class NodeDetail extends NodeQuestion<IDetail> {
  constructor(
    host: INodeHost,
    onChange: () => void,
    /** How the kernel is asked about a node. */
    inspect = (connection: GraphConnection, node: number): Promise<IDetail> =>
      connection.ask('inspect', { node, ...host.recording.about }).answer
  ) {
    super(host, onChange, inspect, RHYTHM);
  }

  get detail(): IDetail | null {
    const { graph, selected } = this.host.state;
    return this.answer ?? graph?.details?.[selected ?? -1] ?? null;
  }
}

/** Name, line, shape, rule, and how values and gradients are distributed. */
export class NodeSummary extends Part<INodeHost> {
  constructor(
    host: INodeHost,
    private readonly _detail: NodeDetail
  ) {
    super(host, 'workbench-NodeSummary');
  }

  protected render(): ReactNode {
    const { graph, selected: node } = this.host.state;
    if (graph === null || node === null) {
      return (
        graph !== null && (
          <p className="workbench-Hint">
            Click a node to see its values and gradients
            {this.host.connection === null ? '.' : ', and to override its rule.'}
          </p>
        )
      );
    }
    // Of some past runs the kernel has norms, and no arrays.
    const past = !this.host.recording.isWhole;
    const detail = past ? null : this._detail.detail;
    const kind = graph.maker(node);
    const titles = ['value', 'gradient'].map(what => titleOf(what, graph, node));
    const live = this.host.connection !== null && !past && graph.hasValue(node);
    const changed = graph.trueStatistics(node) !== null && graph.change(node) > 0;
    return (
      <>
        <h3 className="workbench-NodeName">
          <span>{graph.label(node)}</span>
          {kind !== graph.label(node) && <small>{kind}</small>}
        </h3>
        <SourceLine host={this.host} graph={graph} node={node} />
        {this.host.connection !== null && graph.isHolder(node) && (
          <div className="workbench-Links">
            <Button
              look="link"
              title="The program inside, with its values and gradients"
              onClick={() => this.host.lookInside(node)}
            >
              Look inside
            </Button>
          </div>
        )}
        {drawFacts(graph, node, detail)}
        <div
          className={classes('workbench-Distributions', live && 'workbench-mod-live')}
        >
          {detail?.value && (
            <Distribution
              title={titles[0]}
              shown={detail.value}
              look="value"
              bins={this.host.state.bins}
            />
          )}
          {detail?.gradient && (
            <Distribution
              title={titles[1]}
              shown={detail.gradient}
              look="gradient"
              behind={changed ? detail.true_gradient : null}
              bins={this.host.state.bins}
            />
          )}
        </div>
      </>
    );
  }
}

/** What numbers are of: complex entries count by their magnitudes. */
function titleOf(what: string, graph: Graph, node: number): string {
  return graph.isComplex(node) ? `|${what}|` : what;
}

/** Statistics as a table, small arrays in full, and what to plot. */
export class NodeNumbers extends Part<INodeHost> {
  constructor(
    host: INodeHost,
    private readonly _detail: NodeDetail
  ) {
    super(host, 'workbench-NodeNumbers');
  }

  protected render(): ReactNode {
    const { graph, selected: node } = this.host.state;
    this.setHidden(graph === null || node === null);
    if (graph === null || node === null) {
      return null;
    }
    const past = !this.host.recording.isWhole;
    const detail = past ? null : this._detail.detail;
    return (
      <>
        <div className="workbench-Code">{drawText('inside', detail?.code)}</div>
        {(detail?.kernels ?? []).map(kernel => (
          <div className="workbench-Code" key={kernel.title}>
            {drawText(`CUDA, ${kernel.title}`, kernel.source)}
          </div>
        ))}
        {this.host.connection !== null &&
          this.host.within === null &&
          !past &&
          graph.hasGradient(node) &&
          graph.isArray(node) &&
          drawPlots(this.host, graph, node)}
        {graph.compared === null
          ? drawStatistics(graph, node, past)
          : drawComparison(graph, node)}
        {drawText('value', detail?.array)}
        {drawText('gradient', detail?.gradient_array)}
        {detail?.jacobians?.map(([title, text]) => (
          <Fragment key={title}>{drawText(title, text)}</Fragment>
        ))}
      </>
    );
  }
}

function drawPlots(host: INodeHost, graph: Graph, node: number): JSX.Element {
  const label = graph.label(node);
  return (
    <div className="workbench-Links">
      {graph.kind(node) === 'op' && (
        <Button
          look="link"
          title="How each entry depends on the inputs of the derivative"
          onClick={() => host.plot('jacobian', node, [])}
        >
          Jacobian of {label}
        </Button>
      )}
      {node !== graph.header.output && (
        <Button
          look="link"
          title="How the gradient of this node changes with it"
          onClick={() => host.plot('hessian', null, [node])}
        >
          Hessian by {label}
        </Button>
      )}
    </div>
  );
}

function drawFacts(graph: Graph, node: number, detail: IDetail | null): JSX.Element {
  const outputs = [...graph.outputs(node)];
  const inputs =
    detail?.inputs ?? [...graph.inputs(node)].map(input => graph.label(input));
  const scope = graph.scope(node);
  const rows: [string, string[]][] = [
    outputs.length === 0
      ? ['shape', [shapeAndDtype(graph, node)]]
      : [
          'outputs',
          outputs.map(one => `${graph.label(one)}: ${shapeAndDtype(graph, one)}`)
        ]
  ];
  if (inputs.length > 0) {
    rows.push([inputs.length === 1 ? 'input' : 'inputs', [inputs.join(', ')]]);
  }
  for (const [name, value] of detail?.params ?? []) {
    rows.push([name, [value]]);
  }
  if (scope !== '') {
    rows.push(['scope', [scope]]);
  }
  const step = stepText(graph, node);
  if (step !== '') {
    rows.push(['loop', [step]]);
  }
  const override = graph.override(node);
  const rules = detail?.rule ? detail.rule.split(BETWEEN_RULES) : [];
  if (override !== null && graph.kind(node) === 'op') {
    rows.push(['rule in force', [ruleInForce(graph, node, override)]]);
    rows.push(['true rule', rules]);
  } else {
    rows.push(['rule', rules]);
  }
  const passed = passedText(graph, node);
  if (passed !== '') {
    rows.push(['passes on', [passed.replace('passes on ', '')]]);
  }
  if (detail?.runs_on !== undefined) {
    rows.push(['runs on', [detail.runs_on]]);
  }
  const costs = costLines(graph, node);
  if (costs.length > 0) {
    rows.push(['cost', costs]);
  }
  return (
    <dl className="workbench-Facts">
      {rows.filter(([, lines]) => lines.length > 0).map(([name, lines], i) => (
        <Fragment key={i}>
          <dt>{name}</dt>
          <dd
            title={lines.join('\n')}
            className={name === 'rule in force' ? 'workbench-mod-changed' : ''}
          >
            {lines.map((text, line) => (
              <div key={line}>{text}</div>
            ))}
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}

/** The rule that runs in the place of the op's own, and whose it is. */
function ruleInForce(graph: Graph, node: number, override: IOverride): string {
  const { label, rule, target } = override;
  const text = rule.includes('\n') ? 'a list of ops' : rule;
  if (graph.isCovered(node)) {
    return `within ${label} on ${whereText(graph, override)}`;
  }
  if (target.kind === 'op' && target.op !== graph.op(node)) {
    return `${text}, within it on every ${target.op}`;
  }
  return target.kind === 'node' ? text : `${text}, on ${whereText(graph, override)}`;
}

/** Between the rules of an op by its inputs, as the kernel writes them. */
const BETWEEN_RULES = '   ';

/** "6 × 4 · float64"; of an op with several outputs how many. */
function shapeAndDtype(graph: Graph, node: number): string {
  return [shapeText(graph.shape(node)), graph.dtype(node)].filter(Boolean).join(' · ');
}

const NAMES: Record<(typeof STATISTICS)[number], string> = {
  min: 'min',
  max: 'max',
  mean: 'mean',
  std: 'std',
  norm: '‖·‖',
  bad: 'NaN, inf'
};

function drawStatistics(
  graph: Graph,
  node: number,
  past: boolean
): JSX.Element | null {
  const changed = graph.change(node) > 0;
  const columns: [string, IStatistics | null][] = [
    [titleOf('value', graph, node), graph.valueStatistics(node)],
    [titleOf('gradient', graph, node), graph.gradientStatistics(node)],
    [titleOf('true gradient', graph, node), changed ? graph.trueStatistics(node) : null]
  ];
  const present = columns.filter(
    (column): column is [string, IStatistics] => column[1] !== null
  );
  const rows = STATISTICS.filter(name =>
    past ? name === 'norm' : name !== 'bad' || present.some(([, { bad }]) => bad > 0)
  );
  return present.length === 0 ? null : (
    <table className="workbench-Table">
      <thead>
        <tr>
          <td />
          {present.map(([title]) => (
            <th key={title}>{title}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(name => (
          <tr key={name}>
            <th>{NAMES[name]}</th>
            {present.map(([title, { [name]: number }]) =>
              name === 'bad' ? (
                <td key={title} className={number > 0 ? 'workbench-mod-bad' : ''}>
                  {formatCount(number)}
                </td>
              ) : (
                <td key={title}>{formatNumber(number, 4)}</td>
              )
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const QUALITIES = { bad: 'NaN, inf', came: 'new', went: 'gone', same: 'same' } as const;

/** The norms of both sides, and their ratio. */
function drawComparison(graph: Graph, node: number): JSX.Element {
  const { before, after } = sidesOf(graph);
  return (
    <table className="workbench-Table">
      <thead>
        <tr>
          <td />
          <th>{before}</th>
          <th>{after}</th>
          <td />
        </tr>
      </thead>
      <tbody>
        {QUANTITIES.map(what => {
          const change = changeOf(graph, node, what);
          if (change === null || change.fate === 'none') {
            return null;
          }
          const { fate } = change;
          const number = (norm: number, there: boolean): string =>
            there ? formatNumber(norm, 4) : '–';
          return (
            <tr key={what}>
              <th>‖{what}‖</th>
              <td>{number(change.before, fate !== 'came')}</td>
              <td>{number(change.after, fate !== 'went')}</td>
              <td className={fate === 'bad' ? 'workbench-mod-bad' : ''}>
                {fate === 'changed' ? factorText(change) : QUALITIES[fate]}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** Text as it stands, under a title: an array, code; nothing where there is none. */
function drawText(title: string, text?: string | null): JSX.Element | null {
  return typeof text !== 'string' ? null : (
    <div className="workbench-Array">
      <div className="workbench-Quiet">{title}</div>
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}

/** A histogram under its title, with what is odd in the array. */
function Distribution({
  title,
  ...shown
}: IHistogramProps & { title: string }): JSX.Element {
  const odd = <Oddities of={shown.shown} />;
  return (
    <figure>
      <figcaption>
        <span>{title}</span>
        {shown.behind ? <span className="workbench-mod-behind">true gradient behind</span> : odd}
      </figcaption>
      <Histogram {...shown} />
      {shown.behind && <div className="workbench-Axis">{odd}</div>}
    </figure>
  );
}
