/** How long a layout takes: `npx vitest bench --run tests/layout.bench.ts`. */

import { bench, describe } from 'vitest';

import { itemsOf } from '../../src/layout/items';
import { layOut } from '../../src/layout/layout';
import { deep, tangle } from '../helpers/programs';

for (const count of [100, 1000, 10_000, 100_000]) {
  describe(`${count} nodes`, () => {
    for (const [name, program] of [
      ['blocks with skips', deep(count)],
      ['any program', tangle(count)]
    ] as const) {
      const { input } = itemsOf(program.graph(), new Set());
      bench(
        name,
        () => {
          layOut(input);
        },
        { iterations: 3, warmupIterations: 1, time: 300, warmupTime: 50 }
      );
    }
  });
}
