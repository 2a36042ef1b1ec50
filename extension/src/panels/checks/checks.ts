/** Whether the gradients are right: what the doctor finds, and the gradient check. */

import { PanelLayout, Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import { Keyed, button, element, icon } from '../../ui/dom';
import {
  formatCount,
  formatNumber,
  formatPlural,
  formatSeconds
} from '../../ui/numbers';
import { checkSentences, ratioText } from '../../ui/words';
import type {
  ICheck,
  IFindings,
  INodeCheck,
  Outcome,
  Status
} from '../../wire/protocol';
import type { JobKind } from '../../wire/requests';
import type { IHost, Reason } from '../host';
import { nodeLink } from '../links';
import { findingCard } from './findings';

export class Checks extends Widget {
  constructor(host: IHost) {
    super();
    this.addClass('workbench-Checks');
    const layout = new PanelLayout();
    this.layout = layout;
    this._doctor = new Doctor(host);
    this._gradients = new GradientCheck(host);
    layout.addWidget(this._doctor);
    layout.addWidget(this._gradients);
  }

  refresh(reason: Reason): void {
    this._doctor.refresh(reason);
    this._gradients.refresh(reason);
  }

  /** What runs in the kernel is further, or done. */
  refreshJob(): void {
    this._doctor.refreshJob();
    this._gradients.refreshJob();
  }

  private readonly _doctor: Doctor;
  private readonly _gradients: GradientCheck;
}

// The doctor: what is wrong or may be, most important first, and what mends it.

const DOCTOR_HINT =
  'Runs both passes and names the node to blame: for a NaN or an infinity, for a ' +
  'gradient that vanishes, explodes or is lost, for units that are dead or saturated.';

export class Doctor extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('section', { attributes: { 'aria-label': 'Doctor' } }) });
    this.addClass('workbench-Doctor');
    this._job = new JobControl(_host, 'diagnose', {
      start: 'Diagnose',
      again: 'Diagnose again',
      running: 'Looking at both passes …',
      unit: 'nodes'
    });
    this.node.append(
      element('h4', { text: 'Doctor' }),
      this._job.node,
      this._status,
      this._list.node
    );
  }

  refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'view') {
      return;
    }
    const { graph, selected } = this._host.state;
    const findings = graph?.header.findings ?? null;
    this.refreshJob();
    const words = statusOf(findings);
    if (this._status.textContent !== words.text) {
      this._status.replaceChildren(
        ...(words.healthy ? [icon('right')] : []),
        element('span', { text: words.text })
      );
    }
    this._status.classList.toggle('workbench-mod-right', words.healthy);
    const live = this._host.connection !== null;
    // Which finding is of the selected node: the others need not be drawn again.
    const here = findings?.list.some(({ node }) => node === selected) ? selected : null;
    this._list.fill([findings, here, live, this._host.canReveal], () =>
      graph === null || findings === null
        ? []
        : findings.list.map((finding, position) =>
            element('li', {}, [
              findingCard(this._host, graph, finding, {
                position,
                live,
                stale: findings.stale
              })
            ])
          )
    );
  }

  refreshJob(): void {
    const found = this._host.state.graph?.header.findings ?? null;
    this._job.refresh(found !== null, found?.stale !== true && found?.stopped !== true);
  }

  private readonly _job: JobControl;
  private readonly _status = element('p', {
    class: 'workbench-Hint',
    role: 'status'
  });
  private readonly _list = new Keyed(
    element('ol', { class: 'workbench-Findings', attributes: { role: 'list' } })
  );
}

function statusOf(findings: IFindings | null): { text: string; healthy: boolean } {
  if (findings === null) {
    return { text: DOCTOR_HINT, healthy: false };
  }
  const { list, stale, stopped } = findings;
  const what = [
    list.length > 0
      ? `${formatPlural(list.length, 'finding')}, most important first.`
      : stopped
        ? 'Nothing found as far as it went.'
        : 'Nothing found: both passes are healthy.'
  ];
  if (stopped && list.length > 0) {
    what.push('Stopped before it was done.');
  }
  if (stale) {
    what.push('From before the last change: diagnose again.');
  }
  return { text: what.join(' '), healthy: list.length === 0 && !stale && !stopped };
}

// The gradient check: each node's rule against differences, and the whole program.

const CHECK_HINT =
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

class GradientCheck extends Widget {
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
    const text = check === null ? CHECK_HINT : sentence(check);
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

// A long request: its button, and while it runs how far it is, with a way to stop.

export interface IJobWords {
  /** "Check gradients" */
  start: string;
  /** "Check again", once there is a result. */
  again: string;
  /** "Checking …" */
  running: string;
  /** What is counted: "nodes". */
  unit: string;
}

class JobControl {
  readonly node = element('div', { class: 'workbench-Job' });

  constructor(
    private readonly _host: IHost,
    private readonly _kind: JobKind,
    private readonly _words: IJobWords
  ) {
    this._start = button('primary', _words.start, () => {
      _host.asking.run(_kind);
    });
    this._stop = button('plain', 'Stop', () => {
      _host.asking.stop();
    });
    this._stop.classList.add('workbench-mod-outlined');
    this.node.append(
      this._start,
      element('div', { class: 'workbench-Progress' }, [this._bar, this._stop]),
      this._text
    );
  }

  /** `known` if there is a result; `whole` if another run would find nothing else. */
  refresh(known: boolean, whole: boolean): void {
    const { connection, state } = this._host;
    const job = connection?.job ?? null;
    const mine = job?.kind === this._kind ? job : null;
    this._start.textContent = known ? this._words.again : this._words.start;
    // What is done already does not ask to be done again.
    this._start.classList.toggle('workbench-mod-primary', !(known && whole));
    this._start.classList.toggle('workbench-mod-outlined', known && whole);
    this._start.hidden = mine !== null;
    this._start.disabled = connection === null || state.graph === null || job !== null;
    this._start.title =
      connection === null
        ? 'A saved picture: run the cell first'
        : job !== null && mine === null
          ? 'The kernel is at the other one'
          : '';
    this._bar.parentElement!.hidden = mine === null;
    this._text.hidden = mine === null;
    if (mine !== null) {
      this._stop.disabled = mine.stopping;
      const { progress } = mine;
      if (progress === null || progress.total <= 0) {
        this._bar.removeAttribute('value');
      } else {
        this._bar.max = progress.total;
        this._bar.value = progress.done;
      }
      this._text.textContent = mine.stopping ? 'Stopping …' : this._line(progress);
    }
    // The button that has the keyboard goes, and the other comes in its place.
    const [gone, come] =
      mine === null ? [this._stop, this._start] : [this._start, this._stop];
    if (document.activeElement === gone) {
      come.focus();
    }
  }

  private _line(
    progress: { done: number; total: number; left: number | null } | null
  ): string {
    if (progress === null || progress.total <= 0) {
      return this._words.running;
    }
    const { done, total, left } = progress;
    const count = `${formatCount(done)} of ${formatCount(total)} ${this._words.unit}`;
    return left === null || left < 1
      ? count
      : `${count} · about ${formatSeconds(Math.round(left))} left`;
  }

  private readonly _start: HTMLButtonElement;
  private readonly _stop: HTMLButtonElement;
  private readonly _bar = element('progress', {
    attributes: { 'aria-label': 'Progress' }
  });
  private readonly _text = element('div', { class: 'workbench-Quiet' });
}
