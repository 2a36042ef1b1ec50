// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { GraphConnection } from '../../../src/model/connection';
import { Checks } from '../../../src/panels/checks/checks';
import { NodeVerdict } from '../../../src/panels/checks/findings';
import { TestKernel } from '../../helpers/channel';
import { checkedNetwork, diagnosed, finding, nodeCheck } from '../../helpers/checked';
import { RecordingHost } from '../../helpers/host';
import {
  H,
  type INetwork,
  LOSS,
  PRODUCT,
  SCALED,
  clipOfH,
  network
} from '../../helpers/network';

describe('the panel of checks', () => {
  let kernel: TestKernel;
  let connection: GraphConnection;
  let host: RecordingHost;
  let checks: Checks;

  beforeEach(() => {
    kernel = new TestKernel();
    connection = kernel.connect();
    host = new RecordingHost(connection);
    checks = new Checks(host);
    document.body.append(checks.node);
    connection.changed.connect((_, change) => {
      if (change === 'job') {
        checks.refresh('connection');
      }
    });
    checks.refresh('graph');
  });

  afterEach(() => {
    connection.dispose();
    checks.dispose();
    document.body.replaceChildren();
  });

  const show = (shown: INetwork): void => {
    host.show(shown);
    checks.refresh('values');
  };
  const part = (name: string): HTMLElement =>
    checks.node.querySelector<HTMLElement>(`[aria-label="${name}"]`)!;
  const press = (label: string, where: ParentNode = checks.node): HTMLButtonElement => {
    const found = [...where.querySelectorAll('button')].find(
      node => !node.hidden && node.textContent === label
    );
    if (found === undefined) {
      throw new Error(`there is no button ${label}`);
    }
    found.click();
    return found;
  };
  const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

  it('says what each of its parts does before it was asked', () => {
    expect(part('Doctor').textContent).toContain('names the node to blame');
    expect(part('Gradient check').textContent).toContain('the rule of each node');
  });

  it('runs the doctor, tells how far it is, and can be stopped', async () => {
    press('Diagnose');
    const { request } = kernel.last('diagnose');
    const doctor = part('Doctor');
    expect(doctor.textContent).toContain('Looking at both passes');
    // One at a time: the other waits.
    expect(part('Gradient check').querySelector('button')!.disabled).toBe(true);
    kernel.tell({ type: 'progress', request, done: 30, total: 120, left: 4.2 });
    expect(doctor.textContent).toContain('30 of 120 nodes · about 4 s left');
    expect(doctor.querySelector('progress')!.value).toBe(30);
    press('Stop');
    expect(kernel.last('stop').of).toBe(request);
    expect(doctor.textContent).toContain('Stopping');
    kernel.tell({ type: 'done', request });
    await settled();
    expect(doctor.querySelector('progress')!.parentElement!.hidden).toBe(true);
    expect(connection.job).toBeNull();
  });

  it('a keyboard on the button finds Stop in its place, and back', async () => {
    const start = part('Doctor').querySelector('button')!;
    start.focus();
    press('Diagnose');
    expect(document.activeElement?.textContent).toBe('Stop');
    kernel.tell({ type: 'done', request: kernel.last('diagnose').request });
    await settled();
    expect(document.activeElement).toBe(start);
  });

  it('says why the kernel would not', async () => {
    press('Check gradients');
    const { request } = kernel.last('check');
    kernel.tell({ type: 'failure', request, message: 'the program has no output' });
    await settled();
    expect(host.said).toEqual(['the program has no output']);
    expect(connection.job).toBeNull();
  });

  it('lists findings: severity in words, where, why, and what mends them', () => {
    show(
      diagnosed([
        finding(),
        finding({ severity: 'warning', node: SCALED, title: 'dead', fix: null })
      ])
    );
    const doctor = part('Doctor');
    expect(doctor.textContent).toContain('2 findings, most important first.');
    const [first, second] = doctor.querySelectorAll('.workbench-Finding');
    for (const words of [
      'Error',
      'backward pass',
      'tanh has an infinite slope at 0',
      '3 of 10 entries are 0',
      'The derivative of the root',
      '[3]:1',
      'Fix: zero gradient where x is 0',
      'model.override("h", "safe_sqrt")'
    ]) {
      expect(first.textContent).toContain(words);
    }
    expect(second.textContent).toContain('Warning');
    expect(second.querySelector('.workbench-Fix')).toBeNull();
  });

  it('says what there was no time to look at', () => {
    const unchecked = ['not looked at, as the budget of 30 s is spent: matmul 3'];
    show(diagnosed([], { unchecked }));
    const doctor = part('Doctor');
    expect(doctor.textContent).toContain('Nothing found so far.');
    expect(doctor.textContent).toContain(`Not${unchecked[0].slice(3)}.`);
    expect(doctor.textContent).not.toContain('healthy');
    show(checkedNetwork([], { unchecked, stopped: true }));
    const gradients = part('Gradient check');
    expect(gradients.textContent).toContain('Nothing is wrong so far.');
    expect(gradients.textContent).toContain(`Not${unchecked[0].slice(3)}.`);
    expect(gradients.textContent).not.toContain('All rules and gradients agree');
  });

  it('shows a change of the cell, and makes it on a second click alone', async () => {
    const edit = { cell: 3, line: 2, before: ['  a = <b>'], after: ['  a = c', '  d'] };
    const fix = { text: 'a stable form', code: 'c', attachable: false, edit };
    const asked: unknown[] = [];
    let refusal = '';
    host.editing = {
      applied: null,
      explainRefusal: () => refusal,
      apply: one => {
        asked.push(one);
        return Promise.reject(new Error('it failed'));
      },
      undo: () => Promise.resolve()
    };
    show(diagnosed([finding({ fix })]));
    press('Apply to cell …');
    await settled();
    const offer = part('Change of the cell');
    const lines = [...offer.querySelectorAll('code')].map(one => one.textContent);
    expect(lines).toEqual(['a = <b>', 'a = c', 'd']);
    expect(offer.textContent).toContain('cell [3], line 2');
    expect(asked).toEqual([]);
    press('Apply and run');
    await settled();
    expect(asked).toEqual([edit]);
    expect(host.said).toEqual(['it failed']);
    // What is not to be changed is said in words, and nothing can be pressed.
    refusal = 'it is locked';
    checks.refresh('values');
    press('Apply to cell …');
    await settled();
    press('Apply to cell …');
    await settled();
    expect(part('Change of the cell').textContent).toContain('it is locked');
    press('Apply and run');
    expect(asked).toHaveLength(1);
  });

  it('takes a change back once, however often the button is pressed', async () => {
    let undone = 0;
    let finish = (): void => undefined;
    host.editing = {
      // A fresh one whenever it is read, as in the notebook.
      get applied() {
        return { cell: 3, line: 2, before: ['a'], after: ['b'] };
      },
      explainRefusal: () => '',
      apply: () => Promise.resolve(),
      undo: () => {
        undone += 1;
        return new Promise(resolve => {
          finish = resolve;
        });
      }
    };
    show(diagnosed([finding()]));
    const button = press('Undo in the cell');
    await settled();
    checks.refresh('values');
    await settled();
    button.click();
    expect([button.disabled, undone]).toEqual([true, 1]);
    finish();
    await settled();
    expect(button.disabled).toBe(false);
  });

  it('of a saved picture, or without a notebook, no cell is changed', () => {
    const edit = { cell: 3, line: 1, before: ['a'], after: ['b'] };
    const fix = { text: 'a stable form', code: 'c', attachable: false, edit };
    show(diagnosed([finding({ fix })]));
    expect(checks.node.textContent).not.toContain('Apply to cell');
  });

  it('goes to the node, and lights up the way to where it shows', () => {
    show(diagnosed([finding({ path: [H, SCALED, LOSS] })]));
    press('h');
    expect(host.state.selected).toBe(H);
    expect(host.centred).toEqual([H]);
    expect([...host.state.trail!]).toEqual([0, 0, 0, 1, 0, 1, 1]);
    checks.refresh('selection');
    expect(checks.node.querySelector('.workbench-Finding.workbench-mod-here')).not.toBe(
      null
    );
  });

  it('attaches a fix with one click, and then looks again by itself', async () => {
    show(diagnosed([finding({ severity: 'note', fix: null }), finding()]));
    press('Attach fix');
    expect(kernel.last('fix').finding).toBe(1);
    expect(kernel.events('diagnose')).toHaveLength(0);
    kernel.snapshot(network());
    kernel.patch(network([clipOfH()]), ['true_stats', 'override'], {
      overrides: [clipOfH()]
    });
    await settled();
    expect(kernel.events('diagnose')).toHaveLength(1);
  });

  it('attaches a fix once, and again where the kernel refuses it', async () => {
    show(diagnosed([finding()]));
    const attach = press('Attach fix');
    await settled();
    expect(attach.disabled).toBe(true);
    const { request } = kernel.last('fix');
    kernel.tell({ type: 'failure', request, message: 'h runs a rule already' });
    await settled();
    expect(host.said).toEqual(['h runs a rule already']);
    expect(attach.disabled).toBe(false);
    attach.click();
    expect(kernel.events('fix')).toHaveLength(2);
  });

  it('copies the code of a fix', () => {
    show(diagnosed([finding()]));
    press('Copy code');
    expect(host.copied).toEqual(['model.override("h", "safe_sqrt")']);
  });

  it('what the page cannot attach is left to the program', () => {
    const fix = { text: 'write np.log1p(x)', code: 'np.log1p(x)', attachable: false };
    show(diagnosed([finding({ fix })]));
    expect(part('Doctor').textContent).toContain('To do: write np.log1p(x)');
    expect(() => press('Attach fix')).toThrow('no button');
  });

  it('what is of before the last change says so, and is not attached', () => {
    show(diagnosed([finding()], { stale: true }));
    expect(part('Doctor').textContent).toContain('From before the last change');
    const attach = part('Doctor').querySelector<HTMLButtonElement>(
      '.workbench-Fix .workbench-mod-primary'
    )!;
    expect(attach.disabled).toBe(true);
  });

  it('a healthy program is said to be healthy', () => {
    show(diagnosed([]));
    expect(part('Doctor').textContent).toContain('Nothing found: both passes are');
  });

  it('the doctor calls nothing healthy that the last check has found wrong', () => {
    show(checkedNetwork([nodeCheck(H, 'wrong')], { findings: [] }));
    const doctor = part('Doctor');
    expect(doctor.textContent).not.toContain('healthy');
    expect(doctor.textContent).toContain('check below has found 1 wrong rule.');
  });

  it('counts the rules, and shows the wrong ones with their numbers', () => {
    show(
      checkedNetwork([
        nodeCheck(H, 'wrong', { expected: 0.25, got: 0.5 }),
        nodeCheck(PRODUCT, 'kink')
      ])
    );
    const gradients = part('Gradient check');
    expect(gradients.textContent).toContain('1 rule of a node is wrong.');
    const counts = [...gradients.querySelectorAll('.workbench-Counts li')];
    expect(counts.map(({ textContent }) => textContent)).toEqual([
      '2 right',
      '1 wrong',
      '1 kink'
    ]);
    const [wrong, kinks, whole] = gradients.querySelectorAll('details');
    expect([wrong.open, kinks.open, whole.open]).toEqual([true, false, false]);
    expect(wrong.textContent).toContain('x[3, 1] · reverse mode');
    expect(wrong.textContent).toMatch(/expected0.25got0.5error0.25, allowed 2e−4/);
    expect(whole.textContent).toContain('Whole program: 1 of 1 wrong');
    press('V-curve', wrong);
    press('Plot the errors');
    expect(host.plots).toEqual([
      ['steps', H, []],
      ['check', null, []]
    ]);
    press('h', wrong);
    expect(host.state.selected).toBe(H);
  });

  it('a gradient that is changed on purpose is neither right nor wrong', () => {
    const words = 'overrides (stop) change W by 100 % on purpose';
    const changed = { change: 1, by: ['stop'], words };
    show(checkedNetwork([nodeCheck(H, 'overridden')], { changed }));
    const gradients = part('Gradient check');
    const said = gradients.querySelector('.workbench-Hint')!;
    expect(said.textContent).toBe(
      'Nothing is wrong. Overrides (stop) change W by 100 % on purpose.'
    );
    expect(said.classList).toContain('workbench-mod-changed');
    expect(said.classList).not.toContain('workbench-mod-right');
    expect(gradients.textContent).not.toContain('all gradients right');
    expect(gradients.textContent).not.toContain('agree with differences');
    const counts = [...gradients.querySelectorAll('.workbench-Counts li')];
    expect(counts.map(({ textContent }) => textContent)).toEqual([
      '3 right',
      '1 changed on purpose'
    ]);
    const [rules, whole] = gradients.querySelectorAll('details');
    expect(rules.textContent).toContain('1 rule changed on purpose');
    expect(whole.textContent).toContain('Whole program: 1 of 1 changed on purpose');
    expect(whole.querySelector('.workbench-Gradient.workbench-mod-changed')).not.toBe(
      null
    );
    // Wrong comes first; what is changed is said beside it.
    show(checkedNetwork([nodeCheck(H, 'wrong')], { changed }));
    expect(said.textContent).toContain('1 rule of a node is wrong. Overrides (stop)');
    expect(said.classList).not.toContain('workbench-mod-changed');
    expect(gradients.textContent).toContain('1 of 1 wrong');
  });

  it('what is open stays open while values stream', () => {
    const shown = checkedNetwork([nodeCheck(PRODUCT, 'kink')]);
    show(shown);
    const kinks = part('Gradient check').querySelector('details')!;
    kinks.open = true;
    kinks.dispatchEvent(new Event('toggle'));
    show(checkedNetwork([nodeCheck(PRODUCT, 'kink')]));
    expect(part('Gradient check').querySelector('details')).toBe(kinks);
    show(checkedNetwork([nodeCheck(PRODUCT, 'kink')], { stale: true }));
    expect(part('Gradient check').querySelector('details')!.open).toBe(true);
    expect(part('Gradient check').textContent).toContain('check again');
  });

  it('shows a saved picture what was found, with nothing to run', () => {
    const saved = new RecordingHost(null);
    const panel = new Checks(saved);
    saved.show(checkedNetwork([nodeCheck(H, 'wrong')], { findings: [finding()] }));
    panel.refresh('graph');
    expect(panel.node.textContent).toContain('1 finding');
    expect(panel.node.textContent).toContain('1 wrong rule');
    expect(panel.node.textContent).not.toContain('V-curve');
    expect(panel.node.textContent).not.toContain('Attach fix');
    const [run] = panel.node.querySelectorAll('button');
    expect(run.disabled).toBe(true);
  });

  it('the node pane says it of its node', () => {
    const verdict = new NodeVerdict(host);
    host.show(checkedNetwork([nodeCheck(H, 'wrong')], { findings: [finding()] }));
    verdict.refresh('graph');
    expect(verdict.isHidden).toBe(true);
    host.state.select(H);
    verdict.refresh('selection');
    expect(verdict.isHidden).toBe(false);
    expect(verdict.node.textContent).toContain(
      'The rule is wrong, 1200 times the allowed error'
    );
    expect(verdict.node.textContent).toContain('tanh has an infinite slope at 0');
    press('Attach fix', verdict.node);
    expect(kernel.last('fix').finding).toBe(0);
    host.state.select(SCALED);
    verdict.refresh('selection');
    expect(verdict.node.textContent).toBe('The rule agrees with differences');
    host.show(checkedNetwork([nodeCheck(SCALED, 'overridden', { text: '' })]));
    verdict.refresh('values');
    expect(verdict.node.textContent).toBe('The rule is changed on purpose');
  });
});
