/**
 * The renderer as an anywidget, live, in hosts that cannot load JupyterLab's
 * extensions. `workbench/jupyter/anyfront.py` is its other half.
 */

import { Signal } from '@lumino/signaling';

import { GraphConnection } from '../model/connection';
import { GraphPanel } from '../panels/shell/panel';
import { afterDraw, element } from '../ui/dom';
import type { IChannel, IReceived } from '../wire/channel';
import type { PageEvent } from '../wire/protocol';

type Hear = (content: unknown, buffers?: readonly (DataView | ArrayBuffer)[]) => void;

/** What is used of the model that a host of anywidget gives. */
export interface IModel {
  get(name: string): unknown;
  send(content: unknown): void;
  on(event: string, callback: Hear): void;
  off(event: string, callback: Hear): void;
  /** The host's models of one kernel; the same in all views of a notebook. */
  readonly widget_manager?: unknown;
}

/**
 * Milliseconds until the page asks once more: what a comm says before it has a lane
 * of its own in the kernel waits there for the running cells.
 */
const AGAIN = 1000;

/** The custom messages of a model as a channel. */
class ModelChannel implements IChannel {
  constructor(private readonly _model: IModel) {
    _model.on('msg:custom', this._hear);
  }

  readonly received = new Signal<this, IReceived>(this);

  send(event: PageEvent): void {
    this._model.send(event);
  }

  close(): void {
    this._model.off('msg:custom', this._hear);
  }

  private readonly _hear: Hear = (content, buffers = []) => {
    const views = buffers.map(one => (one instanceof DataView ? one : new DataView(one)));
    this.received.emit({ content, buffers: views });
  };
}

/** The line to the kernel that all views of one widget share. */
interface ILine {
  connection: GraphConnection;
  views: number;
}

/**
 * By the managers and the keys of their models: a copy of a notebook holds the keys of
 * the other one, and has a manager of its own.
 */
const lines = new Map<unknown, Map<string, ILine>>();

function openLine(model: IModel): ILine {
  const channel = new ModelChannel(model);
  const connection = new GraphConnection({ channel, afterDraw });
  connection.changed.connect((_, change) => {
    if (change === 'closed') {
      channel.close();
    }
  });
  setTimeout(() => {
    if (connection.graph === null && !connection.isDisposed) {
      connection.hello();
    }
  }, AGAIN);
  return { connection, views: 0 };
}

/** Draw the live graph of a model; returns how to take it off the page. */
export function mount(
  { model, el }: { model: IModel; el: HTMLElement },
  style: string
): () => void {
  const { widget_manager: manager } = model;
  const own = lines.get(manager) ?? new Map<string, ILine>();
  const key = String(model.get('key'));
  const line = own.get(key) ?? openLine(model);
  lines.set(manager, own.set(key, line));
  line.views += 1;

  const host = element('div');
  el.append(element('style', { text: style }), host);
  let stopFollowing = (): void => undefined;
  // A host with JupyterLab's variables keeps its own look.
  if (getComputedStyle(el).getPropertyValue('--jp-layout-color1').trim() === '') {
    host.className = 'workbench-Standalone';
    stopFollowing = followTheme(el, light => {
      host.dataset['jpThemeLight'] = String(light);
    });
  }
  const panel = new GraphPanel();
  panel.setHeight(Number(model.get('height')) || 560);
  host.append(panel.node);
  panel.attach();
  panel.connectTo(line.connection);
  return () => {
    stopFollowing();
    panel.dispose();
    line.views -= 1;
    if (line.views === 0) {
      own.delete(key);
      if (own.size === 0) {
        lines.delete(manager);
      }
      line.connection.dispose();
    }
    el.replaceChildren();
  };
}

/** Tell whether the page around an element is light, now and when that changes. */
function followTheme(el: HTMLElement, tell: (light: boolean) => void): () => void {
  const read = (): void => {
    tell(!isLight(getComputedStyle(el).color));
  };
  // Hosts mark their theme at the root or the body, or leave it to the system.
  const marks = new MutationObserver(read);
  for (const node of [document.documentElement, document.body]) {
    marks.observe(node, { attributes: true });
  }
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', read);
  read();
  return () => {
    marks.disconnect();
    system.removeEventListener('change', read);
  };
}

/** Whether a colour is nearer to white than to black; the text of a dark page is. */
function isLight(colour: string): boolean {
  // Hosts write colours in any form, as color(srgb …): a pixel is always numbers.
  const pen = element('canvas').getContext('2d');
  if (pen === null) {
    return false;
  }
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return red + green + blue > 3 * 127;
}
