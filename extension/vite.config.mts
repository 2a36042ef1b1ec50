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

const hashOf = (script: string): string =>
  createHash('sha256').update(script).digest('base64');

/**
 * Puts the bundle into the page, compressed, and the script that unpacks it. The page
 * allows these two and no other.
 */
function wholePage(): Plugin {
  return {
    name: 'whole-page',
    generateBundle(_, bundle) {
      const [chunk, ...more] = Object.values(bundle);
      if (chunk.type !== 'chunk' || more.length > 0) {
        throw new Error('The renderer must be one file: load nothing by import() in it.');
      }
      const { code, fileName } = chunk;
      const loader = readFileSync(at(LOADER), 'utf8');
      const packed = deflateSync(code, { level: 9 }).toString('base64');
      const page = readFileSync(at(PAGE), 'utf8');
      delete bundle[fileName];
      this.emitFile({
        type: 'asset',
        fileName: 'page.html',
        source: page
          .replace('%LOADER_HASH%', hashOf(loader))
          .replace('%HASH%', hashOf(code))
          .replace('%LOADER%', () => loader)
          .replace('%RENDERER%', packed)
      });
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
    rolldownOptions: {
      input: ENTRY,
      // The host of a widget imports it.
      preserveEntrySignatures: 'strict',
      output: { format: 'es' }
    }
  }
});
