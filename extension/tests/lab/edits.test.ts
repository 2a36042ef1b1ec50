// @vitest-environment jsdom
import '../helpers/browser';

import { beforeEach, expect, it, vi } from 'vitest';

import type { NotebookPanel } from '@jupyterlab/notebook';

import { CellEdits } from '../../src/lab/edits';
import { PanelTracker, PanelWidget } from '../../src/lab/panel';
import { GraphPanel } from '../../src/panels/shell/panel';
import { TestKernel } from '../helpers/channel';
import { network } from '../helpers/network';

const runCells = vi.hoisted(() => vi.fn<(...args: unknown[]) => Promise<boolean>>());
vi.mock('@jupyterlab/notebook', () => ({ NotebookActions: { runCells } }));

const SOURCE = '\n%%autodiff loss\na = np.log(1 + np.exp(z))\nloss = np.mean(a)';
const EDIT = {
  cell: 3,
  line: 2,
  before: ['a = np.log(1 + np.exp(z))'],
  after: ['a = np.logaddexp(0, z)']
};

/** A notebook of one cell, which ran as [3]; no picture is drawn in it. */
function makeNotebook(): { notebook: NotebookPanel; source: () => string } {
  let source = SOURCE;
  const sharedModel = {
    execution_count: 3,
    getSource: () => source,
    updateSource: (start: number, end: number, text: string) => {
      source = source.slice(0, start) + text + source.slice(end);
    }
  };
  const cell = {
    node: document.createElement('div'),
    model: { id: 'c', type: 'code', trusted: true, getMetadata: () => true, sharedModel }
  };
  const notebook = { content: { widgets: [cell], model: {} }, context: {} };
  return {
    notebook: notebook as unknown as NotebookPanel,
    source: () => source
  };
}

beforeEach(() => {
  runCells.mockReset();
});

/** A panel beside the notebook, live. */
function makePanel(): { panel: GraphPanel; tracker: PanelTracker; old: TestKernel } {
  const tracker = new PanelTracker();
  const panel = new GraphPanel({ tall: true });
  tracker.add(new PanelWidget(panel));
  const old = new TestKernel();
  panel.connectTo(old.connect());
  old.snapshot(network());
  return { panel, tracker, old };
}

it('the panel beside the notebook asks the session that the run made, not the old one', async () => {
  const { panel, tracker, old } = makePanel();
  const { notebook, source } = makeNotebook();
  const fresh = new TestKernel();
  runCells.mockImplementation(() => {
    // The panel follows its session; what it shows comes after the cell is over.
    setTimeout(() => {
      panel.connectTo(fresh.connect());
      fresh.snapshot(network());
    });
    return Promise.resolve(true);
  });
  const editing = new CellEdits(tracker).makeEditing(panel, () => notebook);
  expect(editing.explainRefusal(EDIT)).toBe('');
  await editing.apply(EDIT);
  expect(source()).toBe(SOURCE.replace(EDIT.before[0], EDIT.after[0]));
  expect(runCells).toHaveBeenCalledTimes(1);
  expect(old.events('diagnose')).toHaveLength(0);
  expect(fresh.events('diagnose')).toHaveLength(1);
  const checks = panel.node.querySelector('[role=tab][aria-selected=true]');
  expect(checks?.textContent).toMatch(/^Checks/);
  expect(editing.applied).toEqual(EDIT);

  await editing.undo();
  expect(source()).toBe(SOURCE);
  expect(editing.applied).toBeNull();
});

it('a cell that fails after the change is told, and nothing is asked', async () => {
  const { panel, tracker, old } = makePanel();
  const { notebook } = makeNotebook();
  runCells.mockResolvedValue(false);
  const editing = new CellEdits(tracker).makeEditing(panel, () => notebook);
  await expect(editing.apply(EDIT)).rejects.toThrow('failed after the change');
  expect(old.events('diagnose')).toHaveLength(0);
});
