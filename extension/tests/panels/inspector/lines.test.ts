// @vitest-environment jsdom
import '../../helpers/browser';

import { describe, expect, it } from 'vitest';

import { SourceLines } from '../../../src/panels/inspector/lines';
import { lastReached } from '../../../src/panels/lines';
import { formatNumber } from '../../../src/ui/numbers';
import { RecordingHost } from '../../helpers/host';

const make = (alone: boolean): { host: RecordingHost; part: SourceLines } => {
  const host = new RecordingHost();
  host.alone = alone;
  const part = new SourceLines(host);
  part.refresh('graph');
  return { host, part };
};

describe('SourceLines', () => {
  it('tells of each line what it says and the gradient of what it gives', () => {
    const { host, part } = make(true);
    const graph = host.state.graph!;
    const lines = graph.groupByLine().filter(({ source }) => source.trim() !== '');
    const buttons = [...part.node.querySelectorAll('button')];
    expect(lines.length).toBeGreaterThan(1);
    expect(buttons.map(one => one.querySelector('code')!.textContent)).toEqual(
      lines.map(({ source }) => source.trim())
    );
    for (const [i, { nodes }] of lines.entries()) {
      // By hand: the last of its nodes that has a gradient.
      const reached = [...nodes].filter(node => graph.hasGradient(node));
      const end = reached.length > 0 ? Math.max(...reached) : null;
      expect(lastReached(graph, nodes)).toBe(end);
      const told = end === null ? 'no gradient' : formatNumber(graph.gradNorm(end));
      expect(buttons[i].title).toContain(told);
    }
  });

  it('goes to the node of a line, and marks the line of the selected node', () => {
    const { host, part } = make(true);
    part.node.querySelector('button')!.click();
    const { selected } = host.state;
    expect(host.centred).toEqual([selected]);
    part.refresh('selection');
    const pressed = [...part.node.querySelectorAll('[aria-pressed=true]')];
    expect(pressed).toEqual([part.node.querySelector('button')]);
  });

  it('outlines what a line made while the pointer or the keyboard is on it', () => {
    const { host, part } = make(true);
    const button = part.node.querySelector('button')!;
    button.dispatchEvent(new FocusEvent('focusin', { bubbles: true }));
    expect(host.state.outlined.size).toBeGreaterThan(0);
    button.dispatchEvent(new FocusEvent('focusout', { bubbles: true }));
    expect(host.state.outlined.size).toBe(0);
  });

  it('is not there beside a cell, which has an editor', () => {
    expect(make(false).part.node.hidden).toBe(true);
  });
});
