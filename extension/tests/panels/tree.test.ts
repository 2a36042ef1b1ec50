// @vitest-environment jsdom
import '../helpers/browser';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphTree } from '../../src/panels/tree';
import { RecordingHost } from '../helpers/host';
import { H, PRODUCT, W } from '../helpers/network';
import { Program } from '../helpers/programs';

describe('GraphTree', () => {
  let host: RecordingHost;
  let tree: GraphTree;

  const lines = (): string[] =>
    [...tree.node.querySelectorAll('[role=treeitem]')].map(
      item => `${item.getAttribute('aria-level')} ${item.textContent.split(',')[0]}`
    );
  const press = (key: string): void => {
    const from = tree.node.querySelector('[tabindex="0"]')!;
    from.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  };
  const selected = (): string[] =>
    [...tree.node.querySelectorAll('[aria-selected=true]')].map(
      item => item.textContent.split(',')[0]
    );

  beforeEach(() => {
    host = new RecordingHost();
    tree = new GraphTree(host);
    tree.refresh('graph');
    document.body.replaceChildren(tree.node);
  });

  it('lists nodes in order, each scope once with all that it holds', () => {
    expect(lines()).toEqual([
      '1 X',
      '1 W',
      '1 scope layer',
      '2 matmul',
      '2 h',
      '1 t',
      '1 multiply',
      '1 loss'
    ]);
  });

  it('shows what is selected in the picture, and selects in it', () => {
    host.state.select(H);
    tree.refresh('selection');
    expect(selected()).toEqual(['h']);
    press('ArrowUp');
    press('Enter');
    expect(host.state.selected).toBe(PRODUCT);
    expect(host.centred).toEqual([PRODUCT]);
    tree.refresh('selection');
    expect(selected()).toEqual(['matmul']);
  });

  it('G2: marks a node for a derivative, and shows both that are chosen', () => {
    press('ArrowDown');
    press('m');
    expect(host.state.marked).toBe(W);
    host.state.select(H);
    tree.refresh('selection');
    expect(selected()).toEqual(['W', 'h']);
    host.state.selectAlone(H);
    tree.refresh('selection');
    expect(selected()).toEqual(['h']);
  });

  it('closes and opens scopes with the picture', () => {
    press('ArrowDown');
    press('ArrowDown');
    press('ArrowLeft');
    expect([...host.state.folded]).toEqual(['layer']);
    expect(lines()).toEqual([
      '1 X',
      '1 W',
      '1 scope layer',
      '1 t',
      '1 multiply',
      '1 loss'
    ]);
    press('ArrowLeft');
    expect(host.state.folded.size).toBe(1);
    press('ArrowRight');
    expect(lines()).toHaveLength(8);
  });

  it('tells of a loop the step that is open, and no other', () => {
    const program = new Program();
    let h = program.input('x');
    for (let iteration = 0; iteration < 60; iteration++) {
      const at = { loop: 0, iteration, line: 2 };
      h = program.op('sin', [h], { ...at, name: `a${iteration}` });
      h = program.op('tanh', [h], { ...at, name: `b${iteration}` });
    }
    program.op('sum', [h], { name: 'loss' });
    host.state.setGraph(program.graph());
    host.state.toggleFold('loop, line 2, 60 steps');
    tree.refresh('graph');
    const loop = '1 loop';
    expect(lines()).toEqual(['1 x', loop, '1 loss']);
    expect(tree.node.textContent).toContain('loop, line 2, 60 steps, 120 nodes');
    host.state.openIteration('loop, line 2, 60 steps', 17);
    tree.refresh('graph');
    expect(lines()).toEqual(['1 x', loop, '2 a17', '2 b17', '1 loss']);
    const item = tree.node.querySelector('[aria-expanded]');
    expect(item?.getAttribute('aria-expanded')).toBe('true');
    expect(item?.textContent).toContain('step 17 of 60 is open');
    press('ArrowDown');
    press('ArrowLeft');
    expect(lines()).toEqual(['1 x', loop, '1 loss']);
    press('ArrowRight'); // the step that was open last
    expect(lines()).toContain('2 a17');
    host.state.unfold('loop, line 2, 60 steps');
    tree.refresh('graph');
    expect(lines()).toHaveLength(3 + 120);
  });

  it('has one line in the order of tabs', () => {
    for (const key of ['End', 'Home', 'ArrowDown', 'ArrowUp', 'ArrowUp', 'ArrowDown']) {
      press(key);
      expect(tree.node.querySelectorAll('[tabindex="0"]')).toHaveLength(1);
    }
    press('Enter');
    expect(host.state.selected).toBe(W);
  });

  it('writes its lines anew after a quiet moment, never once it is disposed', () => {
    vi.useFakeTimers();
    try {
      const [before] = tree.node.children;
      tree.refresh('values');
      expect(tree.node.children[0]).toBe(before);
      vi.runAllTimers();
      const [after] = tree.node.children;
      expect(after).not.toBe(before);
      tree.refresh('values');
      tree.dispose();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });
});
