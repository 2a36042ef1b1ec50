/**
 * The build of the standalone renderer: a page for pictures without JupyterLab, whole in
 * one file. `session/html.py` and the page itself put the data of a picture into it.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { deflateSync } from 'node:zlib';

import { type Plugin, defineConfig } from 'vite';

const ENTRY = 'src/standalone/index.ts';
const PAGE = 'src/standalone/page.html';
const LOADER = 'src/standalone/loader.js';

/** The path of a file beside this one. */
const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

interface IPackage {
  name: string;
  version: string;
  identifier: string;
  text?: string;
}

/** The notices of packages, each text once; Jupyter's come without one. */
function writeNotices(packages: readonly IPackage[]): string {
  const [, terms] = readFileSync(at(OWN_LICENCE), 'utf8').split(/^Copyright.*$/m);
  const named = new Map<string, string[]>();
  for (const { name, version, identifier, text } of packages) {
    const isJupyter = name.startsWith('@lumino/') && identifier === 'BSD-3-Clause';
    if (text === undefined && !isJupyter) {
      throw new Error(`The licence of ${name} comes without its text: add it here.`);
    }
    const notice = text ?? `Copyright (c) Jupyter Development Team.\n\n${terms.trim()}`;
    named.set(notice, [
      ...(named.get(notice) ?? []),
      `## ${name} - ${version} (${identifier})`
    ]);
  }
  const parts = [...named].map(([notice, heads]) => `${heads.join('\n')}\n\n${notice}`);
  return ['This page holds code of these packages.', ...parts].join('\n\n');
}

const hashOf = (script: string): string =>
  createHash('sha256').update(script).digest('base64');

/** A file of the bundle for a moment, until it stands in the page. */
const LICENCES = 'licences.json';
const OWN_LICENCE = '../LICENSE';

/**
 * Puts the bundle into the page, compressed, and the script that unpacks it, with the
 * licences of the packages in it. The page allows these two scripts and no other.
 */
function wholePage(): Plugin {
  return {
    name: 'whole-page',
    generateBundle: {
      order: 'post', // after Vite, which adds the licences
      handler(_, bundle) {
        const licences = bundle[LICENCES];
        delete bundle[LICENCES];
        const [chunk, ...more] = Object.values(bundle);
        if (chunk.type !== 'chunk' || more.length > 0) {
          throw new Error(
            'The renderer must be one file: load nothing by import() in it.'
          );
        }
        if (licences?.type !== 'asset') {
          throw new Error('The licences of the bundled packages are missing.');
        }
        const { code, fileName } = chunk;
        const loader = readFileSync(at(LOADER), 'utf8');
        const packed = deflateSync(code, { level: 9 }).toString('base64');
        const page = readFileSync(at(PAGE), 'utf8');
        const packages = JSON.parse(String(licences.source)) as IPackage[];
        const notices = writeNotices(packages).replaceAll(/-(?=-)/g, '- ');
        delete bundle[fileName];
        this.emitFile({
          type: 'asset',
          fileName: 'page.html',
          source: page
            .replace('%LICENCES%', () => notices)
            .replace('%LOADER_HASH%', hashOf(loader))
            .replace('%HASH%', hashOf(code))
            .replace('%LOADER%', () => loader)
            .replace('%RENDERER%', packed)
        });
      }
    }
  };
}

export default defineConfig({
  plugins: [wholePage()],
  resolve: {
    alias: [
      { find: './start', replacement: at('src/standalone/start.ts') },
      { find: 'react/jsx-runtime', replacement: 'preact/jsx-runtime' },
      { find: 'react-dom/client', replacement: 'preact/compat/client' },
      { find: /^react(-dom)?$/, replacement: 'preact/compat' }
    ]
  },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    outDir: '../workbench/session',
    emptyOutDir: false,
    target: 'es2022',
    modulePreload: false,
    license: { fileName: LICENCES },
    rolldownOptions: {
      input: ENTRY,
      // The host of a widget imports it.
      preserveEntrySignatures: 'strict',
      output: { format: 'es' }
    }
  }
});
