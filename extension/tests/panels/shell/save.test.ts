// @vitest-environment jsdom
import '../../helpers/browser';

import { expect, test } from 'vitest';

import { Graph } from '../../../src/model/graph';
import { fillPage } from '../../../src/panels/shell/save';
import { network } from '../../helpers/programs';

const PAGE = '<p></p><script type="application/json" id="workbench-data"></script>';

test('the page holds the graph as it is, and reads it again', () => {
  const graph = network().graph();
  const page = new DOMParser().parseFromString(fillPage(PAGE, graph), 'text/html');
  const data: unknown = JSON.parse(page.getElementById('workbench-data')!.textContent);
  const again = Graph.fromSaved(data);
  expect(again.sameStructure(graph)).toBe(true);
  expect({ ...again.header, columns: [] }).toEqual({ ...graph.header, columns: [] });
  for (let node = 0; node < graph.count; node++) {
    expect(again.gradientStatistics(node)).toEqual(graph.gradientStatistics(node));
    expect(again.label(node)).toBe(graph.label(node));
  }
});

test('a label cannot end the script, nor be taken for a pattern', () => {
  const program = network();
  const label = `$&$'</script><img src=x onerror=alert(1)><!--`;
  program.nodes[5].name = label;
  const text = fillPage(PAGE, program.graph());
  const page = new DOMParser().parseFromString(text, 'text/html');
  expect(page.querySelector('img')).toBeNull();
  const data: unknown = JSON.parse(page.getElementById('workbench-data')!.textContent);
  expect(Graph.fromSaved(data).label(5)).toBe(label);
});

test('a graph too large to keep is refused', () => {
  const graph = Object.create(network().graph(), { count: { value: 50_001 } }) as Graph;
  expect(() => fillPage(PAGE, graph)).toThrow('up to 50,000 nodes');
});
