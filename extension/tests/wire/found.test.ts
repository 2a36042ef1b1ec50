/** The second schema: what checks, the doctor and plots bring, and what is refused. */

import { describe, expect, test } from 'vitest';

import { checkHeader, checkMessage } from '../../src/wire/guards';
import { checkedNetwork, finding, nodeCheck } from '../helpers/checked';
import { H, LOSS, PRODUCT, W, clipOfH, network } from '../helpers/network';
import { readGraph } from '../helpers/programs';

type Data = Record<string, unknown>;

const whole = (): ReturnType<typeof checkedNetwork> =>
  checkedNetwork([nodeCheck(H, 'wrong'), nodeCheck(PRODUCT, 'kink')], {
    findings: [finding()],
    overrides: [clipOfH({ covered: [PRODUCT], note: 'two of them', stored: false })]
  });

/** A header with one thing changed in it, deep down. */
function changed(path: string, value: unknown): Data {
  const header = structuredClone(whole().header) as unknown as Data;
  const steps = path.split('.');
  const last = steps.pop()!;
  let at = header;
  for (const step of steps) {
    at = at[step] as Data;
  }
  at[last] = value;
  return header;
}

describe('checks and findings', () => {
  test('come through as they are', () => {
    const { header, buffers } = whole();
    const graph = readGraph(header, buffers);
    expect(graph.header.check).toEqual(header.check);
    expect(graph.header.findings).toEqual(header.findings);
    expect(graph.header.overrides).toEqual(header.overrides);
    expect(graph.check(H)).toBe('wrong');
    expect(graph.checkRatio(H)).toBe(1234);
    expect(graph.check(LOSS)).toBe('right');
    expect(graph.check(W)).toBe('unchecked');
    expect(graph.findings(H)).toEqual([finding()]);
    expect(graph.findings(W)).toEqual([]);
  });

  test('of the first schema there are none', () => {
    const { header, buffers } = network([clipOfH()]);
    const old = structuredClone(header) as unknown as Data;
    old['schema'] = 1;
    delete old['history'];
    delete old['check'];
    delete old['findings'];
    const [override] = old['overrides'] as Data[];
    delete override['stored'];
    delete override['covered'];
    delete override['steps'];
    delete override['note'];
    const graph = readGraph(old, buffers);
    expect(graph.header.check).toBeNull();
    expect(graph.header.findings).toBeNull();
    expect(graph.header.history).toEqual({ done: [], undone: [] });
    expect(graph.header.overrides[0]).toEqual(clipOfH());
    expect(graph.check(H)).toBe('unchecked');
    expect(graph.checkRatio(H)).toBeNaN();
  });

  test('what is changed on purpose comes through: by what, and by how much', () => {
    const { header, buffers } = checkedNetwork([nodeCheck(H, 'overridden')], {
      changed: { change: 1, by: ['stop'], words: 'overrides (stop) change W by 100 %' }
    });
    const { check } = readGraph(header, buffers).header;
    expect(check).toEqual(header.check);
    expect([check?.ok, check?.verdict]).toEqual([true, 'changed']);
    expect(check?.gradients[0]).toMatchObject({ change: 1, by: ['stop'] });
  });

  test.each([
    [true, 'right'],
    [false, 'wrong']
  ])('an older picture says only whether it is wrong: ok is %s', (ok, verdict) => {
    const { header, buffers } = whole();
    const old = structuredClone(header) as unknown as Record<string, Data>;
    const lines = old['check']['gradients'] as Data[];
    for (const at of [old['check'], ...lines]) {
      at['ok'] = ok;
      delete at['verdict'];
      delete at['changes'];
      delete at['change'];
      delete at['by'];
    }
    const { check } = readGraph(old, buffers).header;
    expect(check).toMatchObject({ ok, verdict, changes: '' });
    expect(check?.gradients).toMatchObject([{ ok, verdict, change: null, by: [] }]);
  });

  test('a patch that takes the check away takes its columns too', () => {
    const { header, buffers } = whole();
    const graph = readGraph(header, buffers).applyPatch({ check: null }, [], []);
    expect(graph.isChecked).toBe(false);
    expect(graph.check(H)).toBe('unchecked');
  });

  test.each([
    ['check.nodes.0.node', 7, 'check.nodes[0].node is 7; it must be from 0 to 6'],
    ['check.nodes.0.status', 'fine', 'check.nodes[0].status is "fine", not one of'],
    ['check.nodes.0.ratio', NaN, 'check.nodes[0].ratio is NaN, not a finite number'],
    ['check.nodes.0.got', '1', 'check.nodes[0].got is not a number'],
    ['check.counts.wrong', -1, 'check.counts.wrong is -1'],
    ['check.gradients', 3, 'check.gradients is not a list'],
    ['check.ok', 1, 'check.ok is neither true nor false'],
    ['check.verdict', 'maybe', 'check.verdict is "maybe", not one of "right"'],
    ['check.verdict', null, 'check.verdict is null, not one of'],
    ['check.changes', 3, 'check.changes is not text'],
    ['check.gradients.0.verdict', 1, 'check.gradients[0].verdict is 1, not one of'],
    ['check.gradients.0.change', NaN, 'check.gradients[0].change is NaN'],
    ['check.gradients.0.by', 'stop', 'check.gradients[0].by is not a list'],
    ['check.gradients.0.by', [1], 'check.gradients[0].by[0] is not text'],
    ['findings.list.0.node', -1, 'findings.list[0].node is -1'],
    ['findings.list.0.path', [0, 99], 'findings.list[0].path[1] is 99'],
    ['findings.list.0.severity', 'bad', 'findings.list[0].severity is "bad", not'],
    ['findings.list.0.sweep', '', 'findings.list[0].sweep is "", not one of'],
    ['findings.list.0.title', { html: 1 }, 'findings.list[0].title is not text'],
    ['findings.list.0.fix.attachable', 'yes', 'attachable is neither'],
    ['findings.list', new Array(10_001).fill(0), 'findings.list has 10001 entries'],
    ['overrides.0.covered', [7], 'overrides[0].covered[0] is 7'],
    ['overrides.0.steps', 3, 'overrides[0].steps is not text'],
    ['overrides.0.note', 3, 'overrides[0].note is not text'],
    ['history', { done: [1], undone: [] }, 'history.done[0] is not text']
  ])('%s', (path, value, message) => {
    expect(() => checkHeader(changed(path, value))).toThrow(message);
  });

  test('a status that is not there', () => {
    const { header, buffers } = whole();
    const at = header.columns.findIndex(({ name }) => name === 'check');
    buffers[at].setUint8(0, 6);
    expect(() => readGraph(header, buffers)).toThrow('check[0] is 6');
  });
});

describe('long requests and matrices', () => {
  const plot = (matrix: unknown): Data => ({
    type: 'plot',
    seq: 1,
    request: 1,
    title: 't',
    note: '',
    figure: { data: [], layout: {} },
    matrix,
    views: ['jacobian', 'singular'],
    overrides: ['stop at h'],
    is_true: false,
    verdict: 'changed',
    zero: 'stopped by stop at h'
  });
  const matrix = {
    kind: 'jacobian',
    of: 3,
    wrt: [1],
    path: [1, 2, 3],
    mode: 'reverse',
    rows: 100_000,
    columns: 6,
    window: { rows: [0, 100_000], columns: [0, 6] },
    block: [250, 1]
  };

  test('come through, and an older kernel sends no matrix', () => {
    expect(checkMessage(plot(matrix))).toEqual(plot(matrix));
    const { type, seq, request, title, note, figure } = plot(null);
    const old = { type, seq, request, title, note, figure };
    const bare = { overrides: [], is_true: false, verdict: null, zero: '' };
    expect(checkMessage(old)).toMatchObject({ matrix: null, views: [], ...bare });
    const progress = { type: 'progress', seq: 2, request: 4, done: 1, total: 9 };
    expect(checkMessage(progress)).toEqual({ ...progress, left: null });
    expect(checkMessage({ type: 'done', seq: 3, request: 4 })).toMatchObject({
      request: 4
    });
  });

  test.each([
    [{ ...matrix, window: { rows: [0, 100_001], columns: [0, 6] } }, 'window.rows[1]'],
    [{ ...matrix, window: { rows: [5, 2], columns: [0, 6] } }, 'window.rows[0] is 5'],
    [{ ...matrix, window: { rows: [5], columns: [0, 6] } }, 'rows has 1 entries; this page takes at least 2'],
    [{ ...matrix, kind: 'poem' }, 'matrix.kind is "poem", not one of'],
    [{ ...matrix, rows: 1.5 }, 'matrix.rows is not a whole number'],
    [{ ...matrix, block: [1, 2, 3] }, 'matrix.block has 3 entries']
  ])('a matrix that does not fit itself is refused: %#', (value, message) => {
    expect(() => checkMessage(plot(value))).toThrow(message);
  });

  test('progress that is no number is refused', () => {
    const message = { type: 'progress', seq: 1, request: 1, done: NaN, total: 3 };
    expect(() => checkMessage(message)).toThrow('done is NaN');
  });
});
