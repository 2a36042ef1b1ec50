/** The gradient check: each node's rule against differences, and the whole program. */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { Keyed, button, element, icon } from '../../ui/dom';
import { formatCount, formatNumber, formatPlural } from '../../ui/numbers';
import { checkSentences, ratioText } from '../../ui/words';
import type { ICheck, INodeCheck, Outcome, Status } from '../../wire/protocol';
import type { IHost, Reason } from '../host';
import { nodeLink } from '../places';
import { JobControl } from './progress';

const HINT =
  'Compares the rule of each node with differences at the values that it had, and ' +
  'each gradient of the whole program: so the wrong rule is found, not what it spoils.';

/** The statuses that have lines, in the order in which they are shown. */
const SHOWN: readonly { status: Status; one: string; many: string; open: boolean }[] = [
  { status: 'wrong', one: 'wrong rule', many: 'wrong rules', open: true },
  { status: 'unsure', one: 'unsure', many: 'unsure', open: false },
  { status: 'kink', one: 'kink', many: 'kinks', open: false },
  {
    status: 'overridden',
    one: 'rule changed on purpose',
    many: 'rules changed on purpose',
    open: false
  }
];

const MODES: Record<string, string> = { rev: 'reverse mode', fwd: 'forward mode' };

export class GradientCheck extends Widget {
  constructor(private readonly _host: IHost) {
    super({
      node: element('section', { attributes: { 'aria-label': 'Gradient check' } })
    });
    this.addClass('workbench-GradientCheck');
    this._job = new JobControl(_host, 'check', {
      start: 'Check gradients',
      again: 'Check again',
      running: 'Checking …',
      unit: 'nodes'
    });
    this.node.append(
      element('h4', { text: 'Gradient check' }),
      this._job.node,
      this._status,
      this._result.node
    );
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph, selected } = this._host.state;
    const check = graph?.header.check ?? null;
    this.refreshJob();
    const done = check !== null && check.ok && !check.stale && !check.stopped;
    const healthy = done && check.verdict === 'right';
    const changed = done && check.verdict === 'changed';
    const text = check === null ? HINT : sentence(check);
    if (this._status.textContent !== text) {
      this._status.replaceChildren(
        ...(healthy ? [icon('right')] : changed ? [icon('changed')] : []),
        element('span', { text })
      );
    }
    this._status.classList.toggle('workbench-mod-right', healthy);
    this._status.classList.toggle('workbench-mod-changed', changed);
    const live = this._host.connection !== null;
    const here = check?.nodes.some(({ node }) => node === selected) ? selected : null;
    this._result.fill([check, here, live], () =>
      graph === null || check === null ? [] : this._parts(graph, check, live)
    );
  }

  refreshJob(): void {
    const check = this._host.state.graph?.header.check ?? null;
    this._job.refresh(check !== null, check?.stale !== true && check?.stopped !== true);
  }

  private _parts(graph: Graph, check: ICheck, live: boolean): HTMLElement[] {
    return [
      counts(check),
      ...SHOWN.flatMap(({ status, one, many, open }) => {
        const rows = check.nodes.filter(node => node.status === status);
        const count = check.counts[status];
        if (rows.length === 0) {
          return [];
        }
        const title = `${formatCount(count)} ${count === 1 ? one : many}`;
        return [
          section(
            title,
            open || (this._opened.get(status) ?? false),
            opened => {
              this._opened.set(status, opened);
            },
            [
              ...rows.map(row => this._row(graph, row, live)),
              ...(count > rows.length
                ? [
                    element('li', {
                      class: 'workbench-Quiet',
                      text: `and ${formatCount(count - rows.length)} more`
                    })
                  ]
                : [])
            ]
          )
        ];
      }),
      ...this._gradients(check),
      ...this._words(check),
      ...(live
        ? [
            element('div', { class: 'workbench-Links' }, [
              button(
                'link',
                'Plot the errors',
                () => {
                  this._host.plot('check', null, []);
                },
                { title: 'The error of each entry of each gradient' }
              )
            ])
          ]
        : [])
    ];
  }

  private _row(graph: Graph, row: INodeCheck, live: boolean): HTMLElement {
    const { node, status, mode, place, expected, got, ratio } = row;
    const numbers =
      expected === null && got === null
        ? []
        : [
            element('dl', { class: 'workbench-Facts' }, [
              ...fact(
                'entry',
                [place, MODES[mode] ?? mode].filter(Boolean).join(' · ')
              ),
              ...fact('expected', number(expected)),
              ...fact('got', number(got)),
              ...(status === 'wrong' ? fact('error', ratioText(ratio)) : [])
            ])
          ];
    const here = this._host.state.selected === node;
    return element(
      'li',
      {
        class: `workbench-NodeCheck workbench-mod-${status} ${
          here ? 'workbench-mod-here' : ''
        }`.trim()
      },
      [
        element('div', { class: 'workbench-Row' }, [
          nodeLink(this._host, graph, node),
          element('span', { class: 'workbench-Quiet', text: graph.place(node) }),
          ...(live && graph.kind(node) === 'op'
            ? [
                button(
                  'link',
                  'V-curve',
                  () => {
                    this._host.plot('steps', node, []);
                  },
                  { title: 'The error of the differences against their step' }
                )
              ]
            : [])
        ]),
        ...numbers,
        ...(row.text === ''
          ? []
          : [element('p', { class: 'workbench-Quiet', text: row.text })])
      ]
    );
  }

  private _gradients(check: ICheck): HTMLElement[] {
    if (check.gradients.length === 0) {
      return [];
    }
    const count = (of: Outcome): number =>
      check.gradients.filter(({ verdict }) => verdict === of).length;
    const [bad, changed] = [count('wrong'), count('changed')];
    const all = check.gradients.length;
    const said = [
      ...(bad > 0 ? [`${bad} of ${all} off`] : []),
      ...(changed > 0 ? [`${changed} of ${all} changed on purpose`] : [])
    ];
    const title = `Whole program: ${said.join(', ') || 'all gradients right'}`;
    return [
      section(
        title,
        this._opened.get('whole') ?? false,
        opened => {
          this._opened.set('whole', opened);
        },
        check.gradients.map(({ verdict, text }) =>
          element('li', { class: `workbench-Gradient workbench-mod-${verdict}` }, [
            icon(verdict === 'wrong' ? 'error' : verdict),
            element('span', { text })
          ])
        )
      )
    ];
  }

  /** The report as Python prints it, but for what stands in the rows already. */
  private _words(check: ICheck): HTMLElement[] {
    const sentences = checkSentences(check);
    return sentences.length === 0
      ? []
      : [
          section(
            'In words',
            this._opened.get('words') ?? false,
            opened => {
              this._opened.set('words', opened);
            },
            sentences.map(text => element('li', { class: 'workbench-Quiet', text }))
          )
        ];
  }

  private readonly _job: JobControl;
  private readonly _status = element('p', { class: 'workbench-Hint', role: 'status' });
  private readonly _result = new Keyed(
    element('div', { class: 'workbench-CheckResult' })
  );
  /** Which sections the reader has opened or closed. */
  private readonly _opened = new Map<Status | 'whole' | 'words', boolean>();
}

/** What came of it, in short; the kernel's own words stand below. */
function sentence({
  ok,
  changes,
  counts: found,
  gradients,
  stopped,
  stale
}: ICheck): string {
  return [
    found.wrong > 0
      ? `${formatPlural(found.wrong, 'rule')} of a node ${
          found.wrong === 1 ? 'is' : 'are'
        } wrong.`
      : ok && stopped
        ? 'Nothing wrong as far as it went.'
        : ok && changes !== ''
          ? 'Nothing is wrong.'
          : ok
            ? 'All rules and gradients agree with differences.'
            : gradients.some(one => !one.ok)
              ? 'Each rule agrees with differences, but a gradient of the whole does not.'
              : 'Something is wrong; see the words of the kernel.',
    ...(changes === '' ? [] : [`${capital(changes)}.`]),
    ...(stopped ? ['Stopped before it was done.'] : []),
    ...(stale ? ['From before the last change: check again.'] : [])
  ].join(' ');
}

/** "12 right · 1 wrong · 2 kinks" */
function counts({ counts: found }: ICheck): HTMLElement {
  const parts: [Status, string][] = [
    ['right', 'right'],
    ['wrong', 'wrong'],
    ['unsure', 'unsure'],
    ['kink', found.kink === 1 ? 'kink' : 'kinks'],
    ['overridden', 'changed on purpose'],
    ['unchecked', 'unchecked']
  ];
  return element(
    'ul',
    { class: 'workbench-Counts', attributes: { 'aria-label': 'Rules of the nodes' } },
    parts
      .filter(([status]) => found[status] > 0 || status === 'right')
      .map(([status, word]) =>
        element('li', {
          class: `workbench-mod-${status}`,
          text: `${formatCount(found[status])} ${word}`
        })
      )
  );
}

function section(
  title: string,
  open: boolean,
  onToggle: (open: boolean) => void,
  rows: readonly HTMLElement[]
): HTMLElement {
  const details = element('details', {}, [
    element('summary', { text: title }),
    element('ul', { attributes: { role: 'list' } }, rows)
  ]);
  details.open = open;
  details.addEventListener('toggle', () => {
    onToggle(details.open);
  });
  return details;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function fact(name: string, value: string): HTMLElement[] {
  return value === ''
    ? []
    : [element('dt', { text: name }), element('dd', { text: value })];
}

function number(value: number | null): string {
  return value === null ? 'no finite number' : formatNumber(value, 8);
}
