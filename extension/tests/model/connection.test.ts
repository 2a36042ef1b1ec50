import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ConnectionChange, GraphConnection } from '../../src/model/connection';
import { Graph } from '../../src/model/graph';
import { RequestError } from '../../src/wire/requests';
import { TestKernel } from '../helpers/channel';
import { H, LOSS, W, clipOfH, network } from '../helpers/network';

const detail = (request: number, node: number): Record<string, unknown> => ({
  type: 'inspect',
  request,
  node,
  rule: 'g · (1 − y²)',
  inputs: ['matmul'],
  params: [],
  code: null,
  value: null,
  gradient: null,
  true_gradient: null,
  array: null,
  gradient_array: null
});

describe('GraphConnection', () => {
  let kernel: TestKernel;
  let connection: GraphConnection;
  let changes: ConnectionChange[];

  beforeEach(() => {
    vi.useFakeTimers();
    kernel = new TestKernel();
    connection = kernel.connect();
    changes = [];
    connection.changed.connect((_, change) => changes.push(change));
  });

  afterEach(() => {
    connection.dispose();
    vi.useRealTimers();
  });

  it('says hello, draws the snapshot and acknowledges it', () => {
    expect(kernel.sent).toEqual([
      { type: 'event', seq: 1, event: 'hello', schema: 1 }
    ]);
    const seq = kernel.snapshot(network());
    expect(connection.graph?.label(H)).toBe('h');
    expect(changes).toEqual(['graph']);
    expect(kernel.last('ack').of).toBe(seq);
  });

  it('asks again for a state that does not come, less and less often', () => {
    vi.advanceTimersByTime(5000 + 10_000 + 20_000);
    expect(kernel.events('hello')).toHaveLength(4);
    vi.advanceTimersByTime(10 * 60_000);
    expect(kernel.events('hello').length).toBeLessThan(16);
    const asked = kernel.events('hello').length;
    kernel.snapshot(network());
    vi.advanceTimersByTime(10 * 60_000);
    expect(kernel.events('hello')).toHaveLength(asked);
  });

  it('does not ask a kernel again that hears nothing until its cell is done', () => {
    connection.setDeaf(true);
    expect(changes).toEqual(['busy']);
    vi.advanceTimersByTime(10 * 60_000);
    expect(kernel.events('hello')).toHaveLength(1);
    connection.setDeaf(false);
    expect(changes).toEqual(['busy', 'busy']);
    vi.advanceTimersByTime(60_000);
    expect(kernel.events('hello')).toHaveLength(2);
  });

  it('acknowledges only after the page has drawn', () => {
    const drawn: (() => void)[] = [];
    const slow = new TestKernel();
    const other = new (connection.constructor as typeof GraphConnection)({
      channel: slow,
      afterDraw: callback => drawn.push(callback)
    });
    const seq = slow.snapshot(network());
    expect(slow.events('ack')).toEqual([]);
    drawn.forEach(callback => {
      callback();
    });
    expect(slow.last('ack').of).toBe(seq);
    other.dispose();
  });

  it('numbers what it sends without gaps', () => {
    kernel.snapshot(network());
    connection.ask('inspect', { node: H }).answer.catch(() => undefined);
    connection.command({ event: 'undo', steps: 1 }).catch(() => undefined);
    expect(kernel.sent.map(event => event.seq)).toEqual([1, 2, 3, 4]);
  });

  it('takes a patch of values as values, and ignores an older one', () => {
    kernel.snapshot(network());
    const before = connection.graph;
    kernel.patch(network(), ['grad_stats'], { output_value: 0.05 });
    expect(connection.graph?.header.output_value).toBe(0.05);
    expect(connection.graph).not.toBe(before);
    kernel.tell({ type: 'patch', seq: 1, header: { output_value: 9 }, columns: [] });
    expect(connection.graph?.header.output_value).toBe(0.05);
    expect(changes).toEqual(['graph', 'values']);
    // The stale one is acknowledged too, or the kernel would wait for ever.
    expect(kernel.last('ack').of).toBe(1);
  });

  it('asks again, once, for a patch that has no snapshot or does not fit', () => {
    kernel.patch(network(), ['grad_stats']);
    kernel.patch(network(), ['grad_stats']);
    expect(kernel.events('hello')).toHaveLength(2);
    kernel.snapshot(network());
    expect(connection.problem).toBeNull();
    const short = new DataView(new ArrayBuffer(8));
    kernel.tell(
      {
        type: 'patch',
        header: {},
        columns: [{ name: 'grad_stats', dtype: 'float64', length: 1 }]
      },
      [short]
    );
    expect(kernel.events('hello')).toHaveLength(3);
    expect(connection.graph?.count).toBe(network().header.nodes);
  });

  it('asks again for a patch of a state that it has not drawn', () => {
    const seq = kernel.snapshot(network());
    const next = kernel.patch(network(), [], { output_value: 0.5 }, { of: seq });
    expect(connection.graph?.header.output_value).toBe(0.5);
    // The patch of this one was lost.
    kernel.patch(network(), [], { output_value: 0.25 }, { of: next + 1 });
    kernel.patch(network(), [], { output_value: 0.125 }, { of: next + 2 });
    expect(connection.graph?.header.output_value).toBe(0.5);
    expect(kernel.events('hello')).toHaveLength(2);
    const last = kernel.snapshot(network());
    kernel.patch(network(), [], { output_value: 0.75 }, { of: last });
    expect(connection.graph?.header.output_value).toBe(0.75);
    expect(kernel.events('hello')).toHaveLength(2);
  });

  it('lays no patch until the snapshot comes that it asked for', () => {
    kernel.snapshot(network());
    const { output_value: value } = network().header;
    connection.hello();
    const seq = kernel.patch(network(), [], { output_value: 0.5 });
    expect(connection.graph?.header.output_value).toBe(value);
    expect(kernel.last('ack').of).toBe(seq);
    expect(kernel.events('hello')).toHaveLength(2);
    kernel.snapshot(network());
    kernel.patch(network(), [], { output_value: 0.75 });
    expect(connection.graph?.header.output_value).toBe(0.75);
  });

  it('puts a large state together, and acknowledges each piece at once', () => {
    const { header, buffers } = network();
    const whole = Graph.fromHeader(header, buffers).toSaved().buffers;
    const pieces = kernel.pieces(buffers, 500);
    const told = kernel.events('ack').length;
    expect(told).toBeGreaterThan(1);
    expect(connection.graph).toBeNull();
    const seq = kernel.tell({ type: 'snapshot', header, ...pieces });
    expect(kernel.last('ack').of).toBe(seq);
    const { graph } = connection;
    expect(graph?.label(H)).toBe('h');
    expect(graph?.toSaved().buffers).toEqual(whole);
    const at = header.columns.findIndex(({ name }) => name === 'grad_stats');
    const norms = new Float64Array(header.nodes * 6).fill(3);
    const more = kernel.pieces([new DataView(norms.buffer)], 100);
    const columns = [header.columns[at]];
    kernel.tell({ type: 'patch', header: {}, columns, of: seq, ...more });
    expect(connection.graph?.gradNorm(H)).toBe(3);
    expect(kernel.events('hello')).toHaveLength(1);
  });

  it('asks again for a state whose pieces have not all come, once', () => {
    const { header, buffers } = network();
    // Whoever has just said hello is answered without a further word.
    kernel.tell({ type: 'snapshot', header, ...kernel.pieces(buffers, 500, 1) });
    expect(connection.graph).toBeNull();
    expect(kernel.events('hello')).toHaveLength(1);
    kernel.snapshot(network());
    for (const lost of [0, 1]) {
      kernel.tell({ type: 'snapshot', header, ...kernel.pieces(buffers, 500, lost) });
      expect(kernel.events('hello')).toHaveLength(2);
    }
    kernel.tell({ type: 'snapshot', header, ...kernel.pieces(buffers, 500) });
    expect(connection.graph?.label(H)).toBe('h');
    vi.advanceTimersByTime(10 * 60_000);
    expect(kernel.events('hello')).toHaveLength(2);
  });

  it('asks again if the pieces cease, not while they come', () => {
    kernel.snapshot(network());
    const place = { type: 'piece', first: 2, sizes: [100] };
    for (let start = 0; start < 50; start++) {
      kernel.tell({ ...place, start }, [new DataView(new ArrayBuffer(1))]);
      vi.advanceTimersByTime(4000);
    }
    expect(kernel.events('hello')).toHaveLength(1);
    vi.advanceTimersByTime(4000);
    expect(kernel.last('hello').again).toBe(true);
  });

  it('refuses pieces that hold more than they may, and acknowledges them', () => {
    const view = new DataView(new ArrayBuffer(8));
    const seq = kernel.tell({ type: 'piece', first: 1, start: 0, sizes: [4] }, [view]);
    expect(connection.problem).toContain('more than its 4 bytes');
    expect(kernel.last('ack').of).toBe(seq);
    kernel.tell({ type: 'piece', first: 2, start: 0, sizes: [1e12] }, [view]);
    expect(connection.problem).toContain('sizes[0]');
    kernel.snapshot(network());
    expect(connection.problem).toBeNull();
  });

  it('says what is wrong with a newer snapshot, acknowledges it, and recovers', () => {
    const seq = kernel.snapshot(network([], { schema: 99 }));
    expect(connection.graph).toBeNull();
    expect(connection.problem).toContain('schema 99');
    expect(kernel.last('ack').of).toBe(seq);
    kernel.snapshot(network());
    expect(connection.problem).toBeNull();
    expect(changes).toEqual(['problem', 'problem', 'graph']);
  });

  it('survives messages that are no messages', () => {
    kernel.tell({ type: 'wink' });
    expect(connection.problem).toContain('"wink"');
    kernel.received.emit({ content: null, buffers: [] });
    kernel.received.emit({ content: 'text', buffers: [] });
    expect(kernel.events('ack')).toHaveLength(1);
  });

  it('gives answers to the questions that they belong to, in any order', async () => {
    const first = connection.ask('inspect', { node: H }).answer;
    const second = connection.ask('inspect', { node: W }).answer;
    const [one, two] = kernel.events('inspect').map(event => event.request);
    kernel.tell(detail(two, W));
    kernel.tell(detail(one, H));
    expect((await first).node).toBe(H);
    expect((await second).node).toBe(W);
  });

  it('rejects a question with the message of the failure', async () => {
    const { answer } = connection.ask('plot', { plot: 'jacobian', of: LOSS, wrt: [W] });
    const { request, of, wrt } = kernel.last('plot');
    expect([of, wrt]).toEqual([LOSS, [W]]);
    kernel.tell({ type: 'failure', request, message: 'too large: 10^9 entries' });
    await expect(answer).rejects.toThrow('too large');
    await expect(answer).rejects.toBeInstanceOf(RequestError);
  });

  it('rejects an answer of another kind', async () => {
    const answer = connection.ask('inspect', { node: H }).answer;
    const { request } = kernel.last('inspect');
    kernel.tell({ type: 'check-expression', request, ok: true, message: '' });
    await expect(answer).rejects.toThrow('a different request');
  });

  it('takes a command as done when its patch comes', async () => {
    kernel.snapshot(network());
    const done = connection.command({
      event: 'override',
      target: { kind: 'node', node: H },
      rule: '0.5 * d',
      label: 'scale ×0.5'
    });
    const event = kernel.last('override');
    expect(event).toMatchObject({ rule: '0.5 * d', label: 'scale ×0.5' });
    expect('id' in event).toBe(false);
    const fields = { overrides: [clipOfH()], undo: 'override h' };
    const { request } = event;
    const names = ['true_stats', 'override'];
    kernel.patch(network([clipOfH()]), names, fields, { answers: request });
    await expect(done).resolves.toBeUndefined();
    expect(connection.graph?.override(H)?.label).toBe('clip ±0.1');
  });

  it('takes a command as done with the state that includes it, and no earlier', async () => {
    kernel.snapshot(network());
    const done = vi.fn();
    void connection
      .command({
        event: 'override',
        target: { kind: 'op', op: 'tanh' },
        rule: 'd',
        label: 'true',
        id: 7
      })
      .then(done);
    const { id, request } = kernel.last('override');
    expect(id).toBe(7);
    // Neither what is asked later nor an earlier command tells of it.
    void connection.ask('inspect', { node: H }).answer;
    kernel.tell(detail(kernel.last('inspect').request, H));
    const patch = { type: 'patch', header: { undo: null, redo: null }, columns: [] };
    kernel.tell({ ...patch, answers: request - 1 });
    // Nor one of another page: its numbers begin elsewhere.
    kernel.tell({ ...patch, answers: request + 2 ** 20 });
    kernel.tell({ ...patch, answers: 10 });
    await vi.advanceTimersByTimeAsync(10);
    expect(done).not.toHaveBeenCalled();
    kernel.tell({ ...patch, answers: request });
    await vi.advanceTimersByTimeAsync(10);
    expect(done).toHaveBeenCalled();
  });

  it('takes all commands as done with a state that answers several pages', async () => {
    kernel.snapshot(network());
    const removed = connection.command({ event: 'remove', id: 1 });
    const undone = connection.command({ event: 'undo', steps: 1 });
    const header = { undo: null, redo: null };
    kernel.tell({ type: 'patch', answers: null, header, columns: [] });
    await expect(Promise.all([removed, undone])).resolves.toEqual([undefined, undefined]);
  });

  it('rejects a command that fails, and tells of one that fails too late', async () => {
    const failing = connection.command({ event: 'remove', id: 99 });
    const notices: string[] = [];
    connection.noticed.connect((_, message) => notices.push(message));
    kernel.tell({
      type: 'failure',
      request: kernel.last('remove').request,
      message: 'there is no override 99'
    });
    await expect(failing).rejects.toThrow('no override 99');
    kernel.tell({ type: 'failure', request: 12345, message: 'late' });
    kernel.tell({ type: 'failure', request: null, message: 'notice' });
    expect(notices).toEqual(['late', 'notice']);
  });

  it('is busy only after a second without an answer', () => {
    void connection.ask('inspect', { node: H }).answer.catch(() => undefined);
    vi.advanceTimersByTime(900);
    expect(connection.busy).toBe(false);
    vi.advanceTimersByTime(200);
    expect(connection.busy).toBe(true);
    kernel.tell(detail(kernel.last('inspect').request, H));
    expect(connection.busy).toBe(false);
    expect(changes).toEqual(['busy', 'busy']);
  });

  it('gives up in the end, and says so', async () => {
    const answer = connection.ask('inspect', { node: H }).answer;
    const outcome = expect(answer).rejects.toThrow('No answer from the kernel');
    vi.advanceTimersByTime(60_001);
    await outcome;
    expect(connection.busy).toBe(false);
  });

  it('tells all that wait when the kernel goes', async () => {
    const answer = connection.ask('inspect', { node: H }).answer;
    const command = connection.command({ event: 'undo', steps: 1 });
    connection.dispose();
    expect(changes.at(-1)).toBe('closed');
    await expect(answer).rejects.toThrow('run the cell again');
    await expect(command).rejects.toThrow('run the cell again');
    await expect(connection.ask('inspect', { node: H }).answer).rejects.toThrow('run the cell again');
    const count = kernel.sent.length;
    kernel.snapshot(network());
    expect(kernel.sent).toHaveLength(count);
  });

  it('tells a session that ended from a kernel that went', async () => {
    expect(connection.end).toBeNull();
    const answer = connection.ask('inspect', { node: H }).answer;
    connection.dispose('session');
    await expect(answer).rejects.toThrow('The session has ended');
    // The first reason stays.
    connection.dispose();
    expect(connection.end).toBe('session');
  });

  it('passes on plots that the kernel shows by itself', () => {
    const titles: string[] = [];
    connection.plotted.connect((_, plot) => titles.push(plot.title));
    kernel.tell({
      type: 'plot',
      request: 0,
      title: 'Gradient check',
      note: '',
      figure: { data: [], layout: {} }
    });
    expect(titles).toEqual(['Gradient check']);
  });
});

describe('long requests', () => {
  it('tell how far they are, are not given up meanwhile, and end', async () => {
    vi.useFakeTimers();
    const kernel = new TestKernel();
    const connection = kernel.connect(1000, 60_000);
    const done = connection.run('check', {});
    const { request } = kernel.last('check');
    await expect(connection.run('diagnose', {})).rejects.toThrow(
      'already running a gradient check'
    );
    for (let i = 1; i <= 5; i++) {
      vi.advanceTimersByTime(40_000);
      kernel.tell({ type: 'progress', request, done: i, total: 5, left: 5 - i });
    }
    expect(connection.job?.progress).toEqual({ done: 5, total: 5, left: 0 });
    expect(connection.busy).toBe(false);
    connection.stop();
    connection.stop();
    expect(kernel.events('stop').map(({ of }) => of)).toEqual([request]);
    kernel.tell({ type: 'done', request });
    await expect(done).resolves.toBeUndefined();
    expect(connection.job).toBeNull();
    connection.dispose();
    vi.useRealTimers();
  });
});
