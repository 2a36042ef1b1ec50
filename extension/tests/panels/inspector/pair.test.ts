// @vitest-environment jsdom
import '../../helpers/browser';

import { beforeEach, describe, expect, it } from 'vitest';

import { PairBar, showDerivative } from '../../../src/panels/inspector/pair';
import { TestKernel } from '../../helpers/channel';
import { RecordingHost } from '../../helpers/host';
import { H, LOSS, T, W, X, clipOfH, network } from '../../helpers/network';

describe('PairBar', () => {
  let host: RecordingHost;
  let bar: PairBar;

  const strip = (): HTMLElement => bar.node.querySelector('.workbench-PairStrip')!;
  const said = (): string => bar.node.querySelector('[role=status]')!.textContent;
  const choose = (one: number | null, other: number | null): void => {
    host.state.mark(one);
    host.state.select(other);
    bar.refresh('selection');
  };
  const press = (label: string): void => {
    const found = [...strip().querySelectorAll('button')].find(
      ({ textContent, title }) => textContent === label || title === label
    );
    found!.click();
  };

  beforeEach(() => {
    host = new RecordingHost(new TestKernel().connect());
    bar = new PairBar(host);
  });

  it('is not there until a node is marked, and then asks for another', () => {
    choose(null, W);
    expect(strip().hidden).toBe(true);
    choose(W, W);
    expect(strip().hidden).toBe(false);
    expect(strip().textContent).toContain('choose a second node');
    expect(said()).toContain('W is marked. Select a second node');
  });

  it('G2: names the derivative of the later by the earlier, whichever was first', () => {
    for (const [one, other] of [
      [W, H],
      [H, W]
    ]) {
      choose(one, other);
      expect(strip().textContent).toContain('∂ h / ∂ W');
      expect(strip().textContent).toContain('10 × 6');
      expect(said()).toContain('h is computed from W');
    }
    press('Derivative');
    expect(host.plots).toEqual([['jacobian', H, [W]]]);
    press('Hessian');
    expect(host.plots[1]).toEqual(['hessian', null, [W, H]]);
  });

  it('names the overrides in force between the two, and no others', () => {
    choose(W, H);
    expect(strip().textContent).not.toContain('force');
    host.show(network([clipOfH()]));
    bar.refresh('values');
    expect(strip().textContent).toContain('with 1 override: clip ±0.1 at h');
    expect(said()).toContain('h is computed from W. The derivative is with 1 override: clip ±0.1 at h.');
    // By h itself its own rule does not run.
    choose(H, LOSS);
    expect(strip().textContent).not.toContain('force');
    choose(W, LOSS);
    expect(strip().textContent).toContain('with 1 override: clip ±0.1 at h');
  });

  it('refuses with words where no way leads from one to the other', () => {
    choose(T, H);
    expect(strip().textContent).toContain('Neither t nor h is computed from the other');
    expect(strip().querySelectorAll('button')).toHaveLength(1);
    showDerivative(host);
    expect(host.said.at(-1)).toContain('Neither t nor h');
    expect(host.plots).toEqual([]);
  });

  it('says what to do where there is no pair', () => {
    showDerivative(host);
    expect(host.said.at(-1)).toContain('Mark a node with m');
  });

  it('offers no derivative in a saved picture', () => {
    host = new RecordingHost();
    bar = new PairBar(host);
    choose(X, LOSS);
    expect(strip().textContent).toContain('∂ loss / ∂ X');
    expect(strip().querySelector('.workbench-mod-primary')).toBeNull();
    showDerivative(host);
    expect(host.said.at(-1)).toContain('run the cell again');
  });

  it('lets go, and gives the keyboard back to the graph', () => {
    choose(W, H);
    press('Clear the pair');
    expect([host.state.marked, host.state.selected]).toEqual([null, H]);
    expect(host.said).toContain('focus');
  });
});
