/**
 * Imports go down, and never in a circle: a file of `src` imports from its own room
 * or from lower ones, types as well.
 */

/// <reference types="vite/client" />

import ts from 'typescript';
import { describe, expect, it } from 'vitest';

/** The rooms from the lowest floor to the highest; those of one floor are strangers. */
const FLOORS: readonly (readonly string[])[] = [
  ['wire'],
  ['model'],
  ['layout', 'ui'],
  ['canvas'],
  ['panels'],
  [
    'panels/overrides',
    'panels/checks',
    'panels/plots',
    'panels/rewrites',
    'panels/runs',
    'panels/compare'
  ],
  ['panels/inspector'],
  ['panels/shell'],
  ['lab', 'standalone'],
  [''] // index.ts, which puts the parts together
];

const SRC = '../../src/';

/** The text of each file, by its path from `src`. */
const texts = new Map(
  Object.entries(
    import.meta.glob<string>('../../src/**/*.{ts,tsx,json,css}', {
      query: '?raw',
      import: 'default',
      eager: true
    })
  ).map(([path, text]) => [path.slice(SRC.length), text])
);

const imports = new Map(
  [...texts].map(([path, text]) => [
    path,
    ts
      .preProcessFile(text)
      .importedFiles.filter(({ fileName }) => fileName.startsWith('.'))
      .map(({ fileName }) => fileName.replace(/\?.*$/, '')) // how Vite shall load it
      .filter(fileName => !fileName.includes('/style/'))
      .map(fileName => resolved(path, fileName))
  ])
);

/** Where a relative path leads, seen from a file. */
function resolved(from: string, to: string): string {
  const parts = roomOf(from).split('/').filter(Boolean);
  for (const part of to.split('/')) {
    if (part === '..') {
      parts.pop();
    } else if (part !== '.') {
      parts.push(part);
    }
  }
  const file = parts.join('/');
  const known = [file, `${file}.tsx`].find(path => texts.has(path));
  return known ?? `${file}.ts`;
}

function roomOf(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}

function floorOf(room: string): number {
  return FLOORS.findIndex(rooms => rooms.includes(room));
}

/** Whether what stands in one room may import from the other. */
function mayImport(room: string, other: string): boolean {
  return room === other || floorOf(other) < floorOf(room);
}

/** Files that import each other in a ring; empty if there is none. */
function circleIn(graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): readonly string[] => {
    if (way.includes(path)) {
      return [...way.slice(way.indexOf(path)), path];
    }
    if (!done.has(path)) {
      for (const next of graph.get(path) ?? []) {
        const circle = visit(next, [...way, path]);
        if (circle.length > 0) {
          return circle;
        }
      }
      done.add(path);
    }
    return [];
  };
  for (const path of graph.keys()) {
    const circle = visit(path, []);
    if (circle.length > 0) {
      return circle;
    }
  }
  return [];
}

describe('the layers of the page', () => {
  it('hold every file', () => {
    const rooms = [...new Set([...texts.keys()].map(roomOf))];
    expect(rooms.sort()).toEqual(FLOORS.flat().sort());
  });

  it('are found in the imports', () => {
    expect(imports.get('model/adjacency.ts')).toEqual([]);
    expect(imports.get('layout/worker.ts')).toContain('layout/work.ts');
    const missing = [...imports.values()].flat().filter(path => !texts.has(path));
    expect(missing).toEqual([]);
  });

  it('import only lower ones', () => {
    const upward = [...imports].flatMap(([path, targets]) =>
      targets
        .filter(target => !mayImport(roomOf(path), roomOf(target)))
        .map(target => `${path} imports ${target}`)
    );
    expect(upward).toEqual([]);
  });

  it('know Lumino and JupyterLab at the top alone', () => {
    // Signals are all of Lumino that a page without JupyterLab has.
    const known = /^@(jupyterlab|jupyter-widgets|lumino)\/(?!signaling$|disposable$)/;
    const found = [...texts].filter(([path, text]) =>
      ts.preProcessFile(text).importedFiles.some(
        ({ fileName }) => known.test(fileName) && !/^(lab\/|index\.ts$)/.test(path)
      )
    );
    expect(found.map(([path]) => path)).toEqual([]);
  });

  it('a circle would be seen', () => {
    expect(circleIn(new Map(Object.entries({ a: ['b'], b: ['c'], c: ['b'] })))).toEqual(
      ['b', 'c', 'b']
    );
  });

  it('have no circle', () => {
    expect(circleIn(imports)).toEqual([]);
  });

  it('the worker is a file of its own beside the one that starts it', () => {
    const named = /new Worker\(new URL\('(.+)\.js', import\.meta\.url\)\)/.exec(
      texts.get('layout/start.ts') ?? ''
    );
    expect(texts.has(resolved('layout/start.ts', named![1]))).toBe(true);
  });

  it('have their tests in folders of the same names', () => {
    const tests = import.meta.glob(['../**/*.test.ts', '!./*']);
    const rooms = Object.keys(tests).map(path => roomOf(path.slice('../'.length)));
    expect(rooms.filter(room => floorOf(room) < 0)).toEqual([]);
  });
});
