// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Graph } from '../../../src/model/graph';
import { Histogram, Oddities, joinBins } from '../../../src/panels/histogram';
import {
  NodeDetail,
  NodeNumbers,
  NodeSummary
} from '../../../src/panels/inspector/node';
import type { IDistribution } from '../../../src/wire/protocol';
import { TestKernel } from '../../helpers/channel';
import { drawn } from '../../helpers/drawn';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, PRODUCT, SCALED, W, clipOfH, network, savedNetwork } from '../../helpers/network';

const bell = (changes: Partial<IDistribution> = {}): IDistribution => ({
  counts: [1, 4, 9, 4, 0],
  low: -1,
  high: 1,
  zeros: 0,
  nan: 0,
  inf: 0,
  size: 18,
  ...changes
});

const answer = (request: number, node: number): Record<string, unknown> => ({
  type: 'inspect',
  request,
  node,
  rule: 'g · (1 − y²)',
  inputs: ['matmul'],
  params: [['axis', '0']],
  code: 'for h in <b>hs</b>:\n    pass',
  value: bell(),
  gradient: bell(),
  true_gradient: bell(),
  array: '[[0.5 <b>1</b>]]',
  gradient_array: null
});

describe('NodeDetail', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let detail: NodeDetail;
  let changes: number;

  beforeEach(() => {
    vi.useFakeTimers();
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    changes = 0;
    detail = new NodeDetail(host, () => {
      changes += 1;
    });
    host.state.select(H);
    detail.refresh('selection');
  });

  afterEach(() => {
    detail.dispose();
    vi.useRealTimers();
  });

  const tell = async (node: number, request = kernel.last('inspect').request) => {
    kernel.tell(answer(request, node));
    await vi.advanceTimersByTimeAsync(0);
  };

  it('asks once about what is selected, and passes the answer on', async () => {
    expect(kernel.events('inspect').map(({ node }) => node)).toEqual([H]);
    detail.refresh('hover');
    detail.refresh('view');
    await tell(H);
    expect(detail.detail?.rule).toBe('g · (1 − y²)');
    expect(changes).toBe(1);
    expect(kernel.events('inspect')).toHaveLength(1);
  });

  it('forgets the answer about another node', async () => {
    const first = kernel.last('inspect').request;
    host.state.select(W);
    detail.refresh('selection');
    await tell(H, first);
    expect(detail.detail).toBeNull();
    await tell(W);
    expect(detail.detail?.node).toBe(W);
  });

  it('has one question at a time while values stream, at a calm rhythm', async () => {
    for (let patch = 0; patch < 40; patch++) {
      detail.refresh('values');
      await vi.advanceTimersByTimeAsync(50);
    }
    // The kernel was busy: nothing but the first question waits for it.
    expect(kernel.events('inspect')).toHaveLength(1);
    await tell(H);
    expect(kernel.events('inspect')).toHaveLength(2);
    await tell(H);
    for (let patch = 0; patch < 20; patch++) {
      detail.refresh('values');
      await vi.advanceTimersByTimeAsync(50);
      if (kernel.events('inspect').length > 2 + patch) {
        throw new Error('asked at every patch');
      }
      await tell(H);
    }
    const asked = kernel.events('inspect').length;
    expect(asked).toBeGreaterThan(3);
    expect(asked).toBeLessThan(7);
  });

  it('keeps the last answer while values change', async () => {
    await tell(H);
    detail.refresh('values');
    expect(detail.detail).not.toBeNull();
  });

  it('says what the kernel refuses', async () => {
    const { request } = kernel.last('inspect');
    kernel.tell({ type: 'failure', request, message: 'no node 3' });
    await vi.advanceTimersByTimeAsync(0);
    expect(host.said).toEqual(['no node 3']);
  });
});

describe('a file, where no kernel is asked', () => {
  const detailOf = (node: number): Record<string, unknown> => {
    const jacobians = [['∂h/∂<i>x</i>', '[[0.25]]']];
    const told = Object.entries({ ...answer(0, node), jacobians });
    return Object.fromEntries(told.filter(([name]) => !['type', 'request'].includes(name)));
  };
  const open = (details: unknown): { host: RecordingHost; detail: NodeDetail } => {
    const host = new RecordingHost();
    const saved = { ...Object.values(savedNetwork())[0], details };
    // As a file has it: through text and back.
    const graph = Graph.fromSaved(JSON.parse(JSON.stringify(saved)));
    host.state.setGraph(Graph.fromSaved(graph.toSaved()), 'graph');
    host.state.select(H);
    return { host, detail: new NodeDetail(host, () => undefined) };
  };

  it('has histograms and small derivatives of the selected node', () => {
    const { host, detail } = open(Array.from({ length: 7 }, (_, node) => detailOf(node)));
    expect(detail.detail?.node).toBe(H);
    const summary = new NodeSummary(host, detail);
    summary.refresh('graph');
    expect(summary.node.querySelectorAll('.workbench-Histogram')).toHaveLength(2);
    const numbers = new NodeNumbers(host, detail);
    numbers.refresh('graph');
    expect(numbers.node.textContent).toContain('∂h/∂<i>x</i>[[0.25]]');
    expect(numbers.node.querySelector('i')).toBeNull();
    host.state.select(null);
    expect(detail.detail).toBeNull();
  });

  it('does without them where the program was too large', () => {
    expect(open(null).detail.detail).toBeNull();
  });

  it('refuses details of another program', () => {
    expect(() => open([detailOf(0)])).toThrow('the list of details tells of 1 of 7 nodes');
  });
});

describe('the selected node', () => {
  it('is told in full, as text', async () => {
    const kernel = new TestKernel();
    const host = new RecordingHost(kernel.connect());
    const { header, buffers } = network([clipOfH()]);
    host.show({ header, buffers });
    host.state.select(H);
    const detail = new NodeDetail(host, () => undefined);
    detail.refresh('selection');
    kernel.tell(answer(kernel.last('inspect').request, H));
    await vi.waitFor(() => {
      expect(detail.detail).not.toBeNull();
    });
    const summary = new NodeSummary(host, detail);
    const numbers = new NodeNumbers(host, detail);
    summary.refresh('values');
    numbers.refresh('values');
    const text = summary.node.textContent;
    for (const part of ['h', 'tanh', '[3]:1', 'np.tanh(X @ W)', '5 × 2 · float64']) {
      expect(text).toContain(part);
    }
    expect(text).toContain('g · (1 − y²)');
    const shown = [...numbers.node.querySelectorAll('pre')];
    expect(shown.map(({ textContent }) => textContent)).toEqual([
      'for h in <b>hs</b>:\n    pass',
      '[[0.5 <b>1</b>]]'
    ]);
    expect(numbers.node.querySelector('b')).toBeNull();
    expect(numbers.node.querySelector('table')?.textContent).toContain('0.75');
  });

  it('has a rule for each of its inputs', async () => {
    const kernel = new TestKernel();
    const host = new RecordingHost(kernel.connect());
    host.state.select(SCALED);
    const detail = new NodeDetail(host, () => undefined);
    detail.refresh('selection');
    const { request } = kernel.last('inspect');
    const rule = 'by h: g · x₁   by t: g · x₀';
    const inputs = ['h', 't'];
    kernel.tell({ ...answer(request, SCALED), inputs, params: [], rule });
    await vi.waitFor(() => {
      expect(detail.detail).not.toBeNull();
    });
    const summary = new NodeSummary(host, detail);
    summary.refresh('values');
    const lines = summary.node.querySelectorAll('.workbench-Facts dd:last-child div');
    const texts = [...lines].map(({ textContent }) => textContent);
    expect(texts).toEqual(['by h: g · x₁', 'by t: g · x₀']);
  });

  it('is told as an output, or as the op of several outputs, that it is', () => {
    const { header, buffers } = network();
    const strings = header.strings.map(text => (text === 'tanh' ? 'item' : text));
    const host = new RecordingHost(new TestKernel().connect());
    host.show({ header: { ...header, strings }, buffers });
    const summary = new NodeSummary(host, new NodeDetail(host, () => undefined));
    const told = (node: number): string => {
      host.state.select(node);
      summary.refresh('values');
      return summary.node.textContent;
    };
    expect(told(H)).toContain('hof matmul');
    expect(told(PRODUCT)).toContain('outputsh: 5 × 2 · float64');
  });

  it('offers no plot of several outputs at once', () => {
    const { header, buffers } = network();
    const strings = header.strings.map(text => (text === 'float64' ? '' : text));
    const host = new RecordingHost(new TestKernel().connect());
    host.show({ header: { ...header, strings }, buffers });
    host.state.select(H);
    const numbers = new NodeNumbers(host, new NodeDetail(host, () => undefined));
    numbers.refresh('values');
    expect(numbers.node.querySelectorAll('button')).toHaveLength(0);
  });

  it('shows the magnitudes of complex entries, and says so', () => {
    const { header, buffers } = network();
    const strings = header.strings.map(text =>
      text === 'float64' ? 'complex128' : text
    );
    const host = new RecordingHost(new TestKernel().connect());
    host.show({ header: { ...header, strings }, buffers });
    host.state.select(H);
    const numbers = new NodeNumbers(host, new NodeDetail(host, () => undefined));
    numbers.refresh('values');
    const heads = numbers.node.querySelector('thead')?.textContent;
    expect(heads).toBe('|value||gradient|');
  });

  it('shows what runs inside as text, and keeps it while values stream', async () => {
    const kernel = new TestKernel();
    const host = new RecordingHost(kernel.connect());
    const detail = new NodeDetail(host, () => undefined);
    host.state.select(H);
    detail.refresh('selection');
    kernel.tell(answer(kernel.last('inspect').request, H));
    await vi.waitFor(() => {
      expect(detail.detail).not.toBeNull();
    });
    const numbers = new NodeNumbers(host, detail);
    numbers.refresh('values');
    const shown = numbers.node.querySelector('.workbench-Code pre');
    expect(shown?.textContent).toBe('for h in <b>hs</b>:\n    pass');
    numbers.refresh('values');
    expect(numbers.node.querySelector('.workbench-Code pre')).toBe(shown);
    host.state.select(W);
    detail.refresh('selection');
    numbers.refresh('values');
    expect(numbers.node.querySelector('.workbench-Code pre')).toBeNull();
    detail.dispose();
  });

  it('offers plots of it', () => {
    const host = new RecordingHost(new TestKernel().connect());
    host.state.select(H);
    const numbers = new NodeNumbers(host, new NodeDetail(host, () => undefined));
    numbers.refresh('values');
    for (const link of numbers.node.querySelectorAll('button')) {
      link.click();
    }
    expect(host.plots).toEqual([
      ['jacobian', H, []],
      ['hessian', null, [H]]
    ]);
    host.state.select(LOSS);
    numbers.refresh('values');
    expect(numbers.node.textContent).not.toContain('Hessian');
  });
});

describe('histogram', () => {
  const histogram = (
    shown: IDistribution,
    look: 'value' | 'gradient',
    behind?: IDistribution
  ): HTMLElement =>
    drawn(Histogram, { shown, look, behind }).querySelector('.workbench-Histogram')!;
  const bars = (node: HTMLElement, look: string): string =>
    node.querySelector(`path.workbench-mod-${look}`)?.getAttribute('d') ?? '';

  it('draws a bar for each bin that is not empty', () => {
    const path = bars(histogram(bell(), 'value'), 'value');
    expect(path.match(/M/g)).toHaveLength(4);
  });

  it('draws the tallest bin as high as there is room, others by their root', () => {
    const tops = [...bars(histogram(bell(), 'value'), 'value').matchAll(/V([\d.]+)h/g)];
    const heights = tops.map(([, top]) => 40 - Number(top));
    expect(heights).toEqual([13, 26, 39, 26]);
  });

  it('puts the true gradient behind, on the same axis', () => {
    const both = histogram(bell(), 'gradient', bell({ low: -2, high: 2 }));
    expect(bars(both, 'behind')).toMatch(/^M0\.00 /);
    expect(bars(both, 'gradient')).toMatch(/^M40\.00 /);
    expect(both.textContent).toBe('−22');
  });

  it('draws a constant array, and none for an array without finite entries', () => {
    const constant = histogram(bell({ low: 3, high: 3, counts: [18] }), 'value');
    expect(bars(constant, 'value')).toContain('M78.00');
    const none = bell({ low: 0, high: 0, counts: [0], nan: 18 });
    expect(bars(histogram(none, 'value'), 'value')).toBe('');
    expect(histogram(none, 'value').getAttribute('aria-label')).toContain(
      '18 not finite'
    );
  });

  it('counts what is odd, and only that', () => {
    const shown = drawn(Oddities, { of: bell({ zeros: 2, nan: 1 }) }).children;
    expect([...shown].map(({ textContent }) => textContent)).toEqual([
      'zeros 2',
      'NaN 1'
    ]);
  });
});

describe('fewer bars of a histogram', () => {
  it('are sums of neighbours, equally wide, and count the same entries', () => {
    const counts = Array.from({ length: 40 }, (_, i) => i);
    const one = { low: -1, high: 1, size: 780, zeros: 0, nan: 0, inf: 0, counts };
    const ten = joinBins(one, 10);
    expect(ten.counts).toHaveLength(10);
    expect(ten.counts.slice(0, 2)).toEqual([0 + 1 + 2 + 3, 4 + 5 + 6 + 7]);
    expect(ten.counts.reduce((sum, n) => sum + n)).toBe(780);
    expect([ten.low, ten.high]).toEqual([-1, 1]);
    expect(joinBins(one, 40)).toBe(one);
    expect(joinBins({ ...one, counts: [3] }, 10).counts).toEqual([3]);
  });
});
