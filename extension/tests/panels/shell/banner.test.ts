// @vitest-environment jsdom
import '../../helpers/browser';

import { describe, expect, it } from 'vitest';

import type { GraphConnection } from '../../../src/model/connection';
import type { Graph } from '../../../src/model/graph';
import { NodeDetail, NodeSummary } from '../../../src/panels/inspector/node';
import { SAVED, bannerOf } from '../../../src/panels/shell/banner';
import { TopBar } from '../../../src/panels/shell/topbar';
import { RecordingHost } from '../../helpers/host';
import { W, network } from '../../helpers/network';
import { readGraph } from '../../helpers/programs';

function graphOf(changes: Parameters<typeof network>[1] = {}): Graph {
  const { header, buffers } = network([], changes);
  return readGraph(header, buffers);
}

const live = (problem: string | null, isDeaf = false): GraphConnection =>
  ({ problem, isDeaf }) as unknown as GraphConnection;

describe('what is told of a picture', () => {
  it('says that a kernel is gone, and that the last state is shown', () => {
    expect(bannerOf(graphOf(), null, null, 'kernel').note).toContain('No kernel answers');
    expect(bannerOf(graphOf(), live(null), null, 'kernel').note).toBe('');
  });

  it('says that a later cell took the name, where the kernel goes on', () => {
    const { note } = bannerOf(graphOf({ session: 'm' }), null, null, 'session');
    expect(note).toContain('A later cell took the name “m”');
    expect(note).not.toContain('No kernel answers');
  });

  it('speaks of no cell on a page of its own', () => {
    const { note } = bannerOf(graphOf(), null, null, null, true);
    expect(note).toMatch(/^saved picture/);
    expect(note).not.toContain('cell');
    const host = new RecordingHost();
    host.alone = true;
    const bar = new TopBar(host);
    const detail = new NodeDetail(host, () => undefined);
    const node = new NodeSummary(host, detail);
    bar.refresh('graph');
    node.refresh('graph');
    expect(bar.node.querySelector('.workbench-Backend')?.getAttribute('title')).toBe(
      'A saved picture'
    );
    expect(node.node.textContent).toBe('Click a node to see its values and gradients.');
    detail.dispose();
  });

  it('a saved one says so, a live one nothing', () => {
    expect(bannerOf(graphOf(), null, null)).toEqual({
      problem: null,
      note: SAVED,
      broken: null,
      nonFinite: '',
      empty: false
    });
    expect(bannerOf(graphOf(), live(null), 'damaged')).toEqual({
      problem: null,
      note: '',
      broken: null,
      nonFinite: '',
      empty: false
    });
  });

  it('leads to the step since which a training is broken', () => {
    const timeline = {
      count: 120,
      keep: 0,
      steps: [1, 120],
      losses: [1, null],
      gradients: [1, null],
      kept: 5,
      kept_bytes: 40,
      first_bad: 2,
      marks: [{ step: 2, kind: 'nan' as const, node: W, text: 'NaN in the value of W' }]
    };
    const graph = graphOf({ timeline });
    const told = (shown: number | null): string | undefined =>
      bannerOf(graph, live(null), null, null, false, shown).broken?.text;
    expect(told(null)).toBe('NaN since step 2 of 120: W, line 1');
    expect(told(50)).toBe('NaN since step 2 of 120: W, line 1');
    expect(told(2), 'there the picture itself says it').toBeUndefined();
    expect(told(1)).toBeUndefined();
  });

  it('a saved one that cannot be drawn counts only where there is no other', () => {
    expect(bannerOf(null, null, 'damaged').problem).toBe('damaged');
    expect(bannerOf(graphOf(), null, 'damaged').problem).toBeNull();
    expect(bannerOf(graphOf(), live('newer schema'), null).problem).toBe('newer schema');
  });

  it('a kernel that hears nothing while its cell runs says when it will', () => {
    const { problem, note } = bannerOf(graphOf(), live(null, true), null);
    expect(problem).toBeNull();
    expect(note).toContain('hears the page only between cells');
    expect(note).toContain('when the cell is done');
  });

  it('a cell that failed says how', () => {
    const error = { node: null, message: 'shapes differ' };
    expect(bannerOf(graphOf({ error }), live(null), null).problem).toBe('shapes differ');
  });

  it('there is none: no kernel, no picture; one that is coming is not missing', () => {
    expect(bannerOf(null, null, null).empty).toBe(true);
    expect(bannerOf(null, live(null), null).empty).toBe(false);
    expect(bannerOf(null, null, 'damaged').empty).toBe(false);
  });
});
