/** The pictures of a notebook that version 0.1.0 has saved: the page opens them. */

import { expect, test } from 'vitest';

import { Graph } from '../../src/model/graph';

interface ICell {
  outputs?: { data?: Record<string, unknown> }[];
}

const [text] = Object.values(
  import.meta.glob<string>('../../../tests/jupyter/golden/notebook-0.1.0.ipynb', {
    query: '?raw',
    import: 'default',
    eager: true
  })
);
const { cells } = JSON.parse(text) as { cells: ICell[] };
const saved = cells
  .flatMap(cell => cell.outputs ?? [])
  .map(output => output.data?.['application/vnd.workbench.graph+json'])
  .filter(data => data !== undefined);

test('every picture of a notebook of version 0.1.0 opens', () => {
  const graphs = saved.map(data => Graph.fromSaved(data));
  const names = graphs.map(graph => graph.header.session);
  expect(names).toEqual(['model', 'model', 'lengths', 'lengths']);
  expect(graphs[0].header.output_value).toBeCloseTo(0.34729387961, 10);
  expect(graphs[0].header.overrides).toHaveLength(8);
  expect(graphs[0].header.check?.verdict).toBe('changed');
  expect(graphs[2].header.findings?.list).toHaveLength(1);
});
