/** Saving what is drawn: as an image, or as a page that works without a kernel. */

import type { JSX } from 'react';

import type { ICaption } from '../../canvas/caption';
import type { GraphCanvas } from '../../canvas/canvas';
import type { Graph, ISavedParts } from '../../model/graph';

import { Icon } from '../../ui/controls';
import { element } from '../../ui/dom';
import { FORMATS, type Format, type IHost } from '../host';

const WORDS: Record<Format, string> = {
  svg: 'SVG, as it is drawn',
  png: 'PNG, as it is drawn',
  html: 'HTML, to click in without a kernel'
};

/** The element of the data in the page, as in `workbench/session/html.py`. */
const PLACE = '<script type="application/json" id="workbench-data">';

/** A picture of more nodes is not saved; as in `workbench/session/wire/notebook.py`. */
const MOST_SAVED = 50_000;

/** A button of the bar that offers the formats. */
export function SaveMenu({ host }: { host: IHost }): JSX.Element {
  const formats = FORMATS.filter(format => format !== 'html' || host.canSavePage);
  return (
    <label className="workbench-Button workbench-mod-icon workbench-Menu">
      <Icon name="save" />
      <select
        title="Save picture"
        aria-label="Save picture"
        data-lm-suppress-shortcuts="true"
        value=""
        onChange={event => host.save(event.currentTarget.value as Format)}
      >
        <option value="" hidden>
          Save picture
        </option>
        {formats.map(format => (
          <option key={format} value={format}>
            {WORDS[format]}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The page of a graph, made of the empty one; what is not given is as the graph has it. */
export function fillPage(page: string, graph: Graph, parts?: Partial<ISavedParts>): string {
  if (graph.count > MOST_SAVED) {
    throw new Error(
      `Pictures of up to ${MOST_SAVED.toLocaleString('en')} nodes are saved as HTML.`
    );
  }
  // In JSON "<" stands in texts alone. Written so, no label can end the script.
  const data = JSON.stringify(graph.toSaved(parts)).replaceAll('<', '\\u003c');
  return page.replace(PLACE, () => PLACE + data);
}

export interface IPageSources {
  /** What stands below an image. */
  caption: ICaption | null;
  /** Gets the empty page; null where there is none. */
  loadPage: (() => Promise<string>) | null;
  /** What only the kernel knows: past runs, the sweeps with numbers, details. */
  loadParts: () => Promise<Partial<ISavedParts>>;
}

/** Have the browser save a picture, in a file that is named after its session. */
export async function saveFile(
  format: Format,
  graph: Graph | null,
  canvas: GraphCanvas,
  sources: IPageSources
): Promise<void> {
  const content = await makeFile(format, graph, canvas, sources);
  if (graph !== null && content !== null) {
    download(content, graph.header.session, format);
  }
}

async function makeFile(
  format: Format,
  graph: Graph | null,
  canvas: GraphCanvas,
  { caption, loadPage, loadParts }: IPageSources
): Promise<Blob | null> {
  switch (format) {
    case 'svg':
      return new Blob([canvas.drawSvg(caption)], { type: 'image/svg+xml' });
    case 'png':
      return canvas.drawPng(caption);
    case 'html': {
      const [page = '', parts] = await Promise.all([loadPage?.(), loadParts()]);
      const text = graph && fillPage(page, graph, parts);
      return text === null ? null : new Blob([text], { type: 'text/html' });
    }
  }
}

function download(content: Blob, session: string, format: Format): void {
  const name = session.replaceAll(/[^\p{L}\p{N}_-]+/gu, '-') || 'graph';
  const address = URL.createObjectURL(content);
  element('a', { attributes: { href: address, download: `${name}.${format}` } }).click();
  // The browser has begun to read by then.
  setTimeout(() => {
    URL.revokeObjectURL(address);
  }, 10_000);
}
