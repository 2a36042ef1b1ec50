/** The selected node: what it is, where it comes from, and its numbers. */

import { Widget } from '@lumino/widgets';

import type { Graph, IStatistics } from '../../model/graph';
import { Keyed, button, drawing, element, path } from '../../ui/dom';
import { formatCount, formatNumber } from '../../ui/numbers';
import { shapeText } from '../../ui/words';
import { type IDetail, type IDistribution, STATISTICS } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { sourceLine } from '../links';

/** While values stream, a node is asked about at most this often. */
const RHYTHM = 400;

/**
 * What the kernel says about the selected node. While values stream it is asked
 * again and again, but never twice at once: a busy kernel finds one question.
 */
export class NodeDetail {
  constructor(
    private readonly _host: IHost,
    private readonly _onChange: () => void
  ) {}

  /** The kernel's answer about the selected node; null until it comes. */
  get detail(): IDetail | null {
    return this._detail;
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { selected } = this._host.state;
    if (selected !== this._node || reason !== 'values') {
      this._node = selected;
      this._detail = null;
      this._asking = null;
      this._ask();
    } else if (this._asking !== null) {
      this._again = true;
    } else {
      this._askLater();
    }
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._asking = null;
    this._node = null;
  }

  private _askLater(): void {
    clearTimeout(this._timer);
    const wait = Math.max(0, this._asked + RHYTHM - Date.now());
    this._timer = setTimeout(() => {
      this._ask();
    }, wait);
  }

  private _ask(): void {
    clearTimeout(this._timer);
    const { connection } = this._host;
    if (this._node === null || connection === null) {
      return;
    }
    this._asked = Date.now();
    this._again = false;
    const asking = connection.inspect(this._node);
    this._asking = asking;
    asking.then(
      detail => {
        if (asking === this._asking) {
          this._detail = detail;
          this._onChange();
          this._settle();
        }
      },
      (error: unknown) => {
        if (asking === this._asking && this._host.connection !== null) {
          this._host.say(
            error instanceof Error ? error.message : String(error),
            'error'
          );
          this._settle();
        }
      }
    );
  }

  private _settle(): void {
    this._asking = null;
    if (this._again) {
      this._askLater();
    }
  }

  private _detail: IDetail | null = null;
  private _node: number | null = null;
  private _asking: Promise<IDetail> | null = null;
  private _again = false;
  private _asked = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** Name, line, shape, rule, and how values and gradients are distributed. */
export class NodeSummary extends Widget {
  constructor(
    private readonly _host: IHost,
    private readonly _detail: NodeDetail
  ) {
    super();
    this.addClass('workbench-NodeSummary');
    this.node.append(this._head.node, this._rest);
  }

  refresh(): void {
    const { graph, selected } = this._host.state;
    if (graph === null || selected === null) {
      this._head.fill([graph === null], () => (graph === null ? [] : [hint()]));
      this._rest.replaceChildren();
      return;
    }
    const name = graph.label(selected);
    const kind = graph.maker(selected);
    const place = [graph.place(selected), graph.source(selected)];
    this._head.fill([selected, name, kind, ...place, this._host.canReveal], () => {
      const source = sourceLine(this._host, graph, selected);
      return [
        element('h3', { class: 'workbench-NodeName' }, [
          element('span', { text: name }),
          ...(kind === name ? [] : [element('small', { text: kind })])
        ]),
        ...(source === null ? [] : [source])
      ];
    });
    this._rest.replaceChildren(
      facts(graph, selected, this._detail.detail),
      this._distributions(graph, selected)
    );
  }

  private _distributions(graph: Graph, node: number): HTMLElement {
    const detail = this._detail.detail;
    const override = graph.trueStatistics(node) !== null && graph.change(node) > 0;
    const parts: HTMLElement[] = [];
    const add = (title: string, look: 'value' | 'gradient'): void => {
      const shown = look === 'value' ? detail?.value : detail?.gradient;
      const behind =
        look === 'gradient' && override ? (detail?.true_gradient ?? null) : null;
      if (shown) {
        parts.push(
          element('figure', {}, [
            element('figcaption', {}, [
              element('span', { text: title }),
              ...(behind === null ? oddities(shown) : [legend()])
            ]),
            histogram(shown, look, behind),
            ...(behind === null
              ? []
              : [element('div', { class: 'workbench-Axis' }, oddities(shown))])
          ])
        );
      }
    };
    add(titleOf('value', graph, node), 'value');
    add(titleOf('gradient', graph, node), 'gradient');
    const live = this._host.connection !== null && graph.hasValue(node);
    return element(
      'div',
      { class: `workbench-Distributions ${live ? 'workbench-mod-live' : ''}` },
      parts
    );
  }

  private readonly _head = new Keyed(element('div'));
  private readonly _rest = element('div');
}

/** What numbers are of: complex entries count by their magnitudes. */
function titleOf(what: string, graph: Graph, node: number): string {
  return graph.isComplex(node) ? `|${what}|` : what;
}

function hint(): HTMLElement {
  return element('p', {
    class: 'workbench-Hint',
    text: 'Click a node to see its values and gradients, and to override its rule.'
  });
}

/** Statistics as a table, small arrays in full, and what to plot. */
export class NodeNumbers extends Widget {
  constructor(
    private readonly _host: IHost,
    private readonly _detail: NodeDetail
  ) {
    super();
    this.addClass('workbench-NodeNumbers');
    this.node.append(this._code.node, this._links.node, this._rest);
  }

  refresh(): void {
    const { graph, selected } = this._host.state;
    this.setHidden(graph === null || selected === null);
    if (graph === null || selected === null) {
      return;
    }
    const live = this._host.connection !== null;
    this._links.fill([graph.label(selected), selected, live], () =>
      this._plots(graph, selected)
    );
    const code = this._detail.detail?.code ?? null;
    // Kept while values stream: one may have scrolled in it.
    this._code.fill([code], () => (code === null ? [] : [text('inside', code)]));
    this._rest.replaceChildren(
      ...table(graph, selected),
      ...arrays(this._detail.detail)
    );
  }

  private _plots(graph: Graph, node: number): HTMLElement[] {
    if (
      this._host.connection === null ||
      !graph.hasGradient(node) ||
      !graph.isArray(node)
    ) {
      return [];
    }
    const { output } = graph.header;
    const links: HTMLElement[] = [];
    if (node !== output) {
      links.push(
        button(
          'link',
          `Hessian by ${graph.label(node)}`,
          () => {
            this._host.plot('hessian', null, [node]);
          },
          { title: 'How the gradient of this node changes with it' }
        )
      );
    }
    if (graph.kind(node) === 'op') {
      links.unshift(
        button(
          'link',
          `Jacobian of ${graph.label(node)}`,
          () => {
            this._host.plot('jacobian', node, []);
          },
          { title: 'How each entry depends on what is differentiated by' }
        )
      );
    }
    return links;
  }

  private readonly _code = new Keyed(element('div', { class: 'workbench-Code' }));
  private readonly _links = new Keyed(element('div', { class: 'workbench-Links' }));
  private readonly _rest = element('div');
}

function facts(graph: Graph, node: number, detail: IDetail | null): HTMLElement {
  const outputs = graph.outputs(node);
  const rows: [string, ...string[]][] = [
    outputs.length === 0
      ? ['shape', shapeAndDtype(graph, node)]
      : [
          'outputs',
          ...outputs.map(one => `${graph.label(one)}: ${shapeAndDtype(graph, one)}`)
        ]
  ];
  const inputs =
    detail?.inputs ?? [...graph.inputs(node)].map(input => graph.label(input));
  if (inputs.length > 0) {
    rows.push([inputs.length === 1 ? 'input' : 'inputs', inputs.join(', ')]);
  }
  for (const [name, value] of detail?.params ?? []) {
    rows.push([name, value]);
  }
  if (graph.scope(node) !== '') {
    rows.push(['scope', graph.scope(node)]);
  }
  if (detail?.rule) {
    rows.push(['rule', ...detail.rule.split(BETWEEN_RULES)]);
  }
  return element(
    'dl',
    { class: 'workbench-Facts' },
    rows.flatMap(([name, ...lines]) => [
      element('dt', { text: name }),
      element(
        'dd',
        { title: lines.join('\n') },
        lines.map(text => element('div', { text }))
      )
    ])
  );
}

/** Between the rules of an op by its inputs, as the kernel writes them. */
const BETWEEN_RULES = '   ';

/** "6 × 4 · float64"; of an op with several outputs how many. */
function shapeAndDtype(graph: Graph, node: number): string {
  return [shapeText(graph.shape(node)), graph.dtype(node)].filter(Boolean).join(' · ');
}

function legend(): HTMLElement {
  return element('span', { class: 'workbench-mod-behind', text: 'true behind' });
}

const NAMES: Record<(typeof STATISTICS)[number], string> = {
  min: 'min',
  max: 'max',
  mean: 'mean',
  std: 'std',
  norm: '‖·‖',
  bad: 'NaN, inf'
};

function table(graph: Graph, node: number): HTMLElement[] {
  const changed = graph.change(node) > 0;
  const columns: [string, IStatistics | null][] = [
    [titleOf('value', graph, node), graph.valueStatistics(node)],
    [titleOf('gradient', graph, node), graph.gradientStatistics(node)],
    [titleOf('true gradient', graph, node), changed ? graph.trueStatistics(node) : null]
  ];
  const present = columns.filter(
    (column): column is [string, IStatistics] => column[1] !== null
  );
  if (present.length === 0) {
    return [];
  }
  const rows = STATISTICS.filter(
    name => name !== 'bad' || present.some(([, statistics]) => statistics.bad > 0)
  );
  return [
    element('table', { class: 'workbench-Table' }, [
      element('thead', {}, [
        element('tr', {}, [
          element('td'),
          ...present.map(([title]) => element('th', { text: title }))
        ])
      ]),
      element(
        'tbody',
        {},
        rows.map(name =>
          element('tr', {}, [
            element('th', { text: NAMES[name] }),
            ...present.map(([, statistics]) =>
              element('td', {
                text:
                  name === 'bad'
                    ? formatCount(statistics.bad)
                    : formatNumber(statistics[name], 4),
                class: name === 'bad' && statistics.bad > 0 ? 'workbench-mod-bad' : ''
              })
            )
          ])
        )
      )
    ])
  ];
}

function arrays(detail: IDetail | null): HTMLElement[] {
  const shown: [string, string | null][] = [
    ['value', detail?.array ?? null],
    ['gradient', detail?.gradient_array ?? null]
  ];
  return shown
    .filter((entry): entry is [string, string] => entry[1] !== null)
    .map(([title, shown]) => text(title, shown));
}

/** Text as it stands, under a title: an array, code. */
function text(title: string, shown: string): HTMLElement {
  return element('div', { class: 'workbench-Array' }, [
    element('div', { class: 'workbench-Quiet', text: title }),
    element('pre', { text: shown, attributes: { tabindex: '0' } })
  ]);
}

// A small histogram, with a second one behind it on the same axes.

const WIDTH = 160;
const HEIGHT = 40;

/**
 * Draw the distribution of an array. `behind` is drawn first and paler: the true
 * gradient behind the overridden one.
 */
export function histogram(
  shown: IDistribution,
  look: 'value' | 'gradient',
  behind: IDistribution | null = null
): HTMLElement {
  const all = behind === null ? [shown] : [behind, shown];
  const low = Math.min(...all.map(one => one.low));
  const high = Math.max(...all.map(one => one.high));
  const tallest = Math.max(...all.flatMap(one => one.counts.map(density(one))), 1e-300);
  const paths = all.map(one =>
    path(
      bars(one, low, high, tallest),
      one === shown ? `workbench-mod-${look}` : 'workbench-mod-behind'
    )
  );
  const zero =
    low < 0 && high > 0 ? [path(zeroLine(low, high), 'workbench-mod-zero')] : [];
  return element(
    'div',
    {
      class: 'workbench-Histogram',
      role: 'img',
      attributes: { 'aria-label': sentence(shown) }
    },
    [
      drawing(WIDTH, HEIGHT, 'workbench-Bars', [...paths, ...zero]),
      element('div', { class: 'workbench-Axis' }, [
        element('span', { text: formatNumber(low, 2) }),
        ...(low < high ? [element('span', { text: formatNumber(high, 2) })] : [])
      ])
    ]
  );
}

/** "zeros 12", "NaN 3": only what there is. */
export function oddities(distribution: IDistribution): HTMLElement[] {
  const { zeros, nan, inf } = distribution;
  const counts: [string, number][] = [
    ['zeros', zeros],
    ['NaN', nan],
    ['inf', inf]
  ];
  return counts
    .filter(([, count]) => count > 0)
    .map(([name, count]) =>
      element('span', {
        text: `${name} ${formatCount(count)}`,
        class: name === 'zeros' ? '' : 'workbench-mod-bad'
      })
    );
}

/** "−0.98 … 0.97" */
function rangeText(distribution: IDistribution): string {
  const { low, high, nan, inf, size } = distribution;
  if (size === 0) {
    return 'empty';
  }
  if (nan + inf >= size) {
    return 'nothing finite';
  }
  return low === high
    ? formatNumber(low)
    : `${formatNumber(low, 2)} … ${formatNumber(high, 2)}`;
}

/**
 * What a bin's height means: the square root of entries per width of the axis.
 * Per width, so that arrays with bins of different width compare; the root (a
 * rootogram: Tukey, Exploratory Data Analysis, 1977, ch. 17), so that tails stay
 * to be seen beside a spike at zero.
 */
function density(one: IDistribution): (count: number) => number {
  const width = (one.high - one.low) / Math.max(one.counts.length, 1);
  return count => Math.sqrt(width > 0 ? count / width : count);
}

function bars(one: IDistribution, low: number, high: number, tallest: number): string {
  const span = high - low;
  const scale = (value: number): number =>
    span > 0 ? ((value - low) / span) * WIDTH : WIDTH / 2;
  const height = density(one);
  if (!(one.high > one.low)) {
    const x = scale(one.low);
    const some = one.counts.some(count => count > 0);
    return some ? `M${round(x - 2)} ${HEIGHT}V0h4V${HEIGHT}z` : '';
  }
  const width = (one.high - one.low) / one.counts.length;
  return one.counts
    .map((count, bin) => {
      if (count === 0) {
        return '';
      }
      const left = scale(one.low + bin * width);
      const right = scale(one.low + (bin + 1) * width);
      const gap = right - left > 3 ? 0.8 : 0;
      // A bin that is not empty never vanishes.
      const top = HEIGHT - Math.max(1, (height(count) / tallest) * (HEIGHT - 1));
      const drawn = Math.max(right - left - gap, 0.8);
      return `M${round(left)} ${HEIGHT}V${round(top)}h${round(drawn)}V${HEIGHT}z`;
    })
    .join('');
}

function zeroLine(low: number, high: number): string {
  return `M${round((-low / (high - low)) * WIDTH)} 0V${HEIGHT}`;
}

function round(value: number): string {
  return value.toFixed(2);
}

function sentence(one: IDistribution): string {
  const bad = one.nan + one.inf;
  const more = bad > 0 ? `, ${formatCount(bad)} not finite` : '';
  return `${formatCount(one.size)} entries, ${rangeText(one)}${more}`;
}
