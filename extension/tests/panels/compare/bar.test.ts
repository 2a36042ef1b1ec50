// @vitest-environment jsdom
import '../../helpers/browser';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { CompareBar } from '../../../src/panels/compare/bar';
import { RunStrip } from '../../../src/panels/runs/strip';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { network } from '../../helpers/network';

describe('CompareBar', () => {
  let kernel: TestKernel;
  let host: RecordingHost;
  let bar: CompareBar;

  const show = (): void => {
    host.state.setGraph(host.recording.graph, 'values');
    bar.refresh('values');
  };

  beforeEach(() => {
    kernel = new TestKernel();
    host = new RecordingHost(kernel.connect());
    bar = new CompareBar(host);
    const steps = [1, 2, 3, 4, 5];
    const numbers = steps.map(() => 1);
    kernel.snapshot(
      network([], {
        timeline: {
          count: 5,
          keep: 0,
          steps,
          losses: numbers,
          gradients: numbers,
          marks: [],
          first_bad: null,
          kept: 0,
          kept_bytes: 0
        }
      })
    );
    host.recording.follow(host.connection, host.connection!.graph);
  });

  afterEach(() => {
    bar.dispose();
  });

  it('says that nothing differs between two sides that are the same', () => {
    host.recording.compareWith({ kind: 'now' });
    show();
    expect(bar.node.textContent).toContain('no norm differs');
  });

  it('names the kept run beside the number that was asked for', async () => {
    const strip = new RunStrip(host);
    host.recording.compareWith({ kind: 'run', step: 2 });
    show();
    expect(bar.node.textContent).not.toContain('run 3');
    const { request } = kernel.last('moment');
    const header = { output_value: 9, check: null, findings: null };
    kernel.tell({ type: 'moment', request, of: 0, step: 3, header, columns: [] }, []);
    await new Promise(resolve => setTimeout(resolve));
    show();
    strip.refresh('values');
    expect(bar.node.querySelector('input')?.value).toBe('2');
    expect(bar.node.textContent).toContain('run 3');
    const letter = strip.node.querySelector<HTMLElement>('.workbench-RunLetter')!;
    expect([letter.textContent, letter.style.left]).toEqual(['A', '50%']);
    strip.dispose();
  });
});
