/** A saved picture that holds two of its four runs. */

import type { ISaved } from '../../src/wire/protocol';
import { W, savedNetwork } from './network';

/** In run s the norm of each value is s, or as told; of the gradient of node i 100 s + i. */
export function savedWithRuns(valueOf?: (node: number) => number): ISaved {
  const [saved] = Object.values(savedNetwork());
  const { nodes, edges } = saved.header;
  const rows = [1, 3].flatMap(step => [
    ...Array.from({ length: nodes }, (_, i) => valueOf?.(i) ?? step),
    // W has none.
    ...Array.from({ length: nodes }, (_, i) => (i === W ? -1 : 100 * step + i)),
    ...Array.from({ length: edges }, () => 0.5)
  ]);
  const view = new DataView(new ArrayBuffer(4 * rows.length));
  rows.forEach((number, i) => view.setFloat32(4 * i, number, true));
  const steps = [1, 2, 3, 4];
  const timeline = {
    count: 4,
    keep: 0,
    steps,
    losses: steps.map(step => 1 / step),
    gradients: steps.map(() => null),
    marks: [],
    first_bad: null,
    kept: 0,
    kept_bytes: 0
  };
  return {
    ...saved,
    header: { ...saved.header, timeline },
    moments: {
      steps: [1, 3],
      losses: [null, 0.5],
      overrides: ['no overrides', null],
      norms: btoa(String.fromCharCode(...new Uint8Array(view.buffer)))
    }
  };
}
