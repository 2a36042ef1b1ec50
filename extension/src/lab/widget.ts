/**
 * The live side in the page: the model that the kernel opens, and its view for
 * layouts of ipywidgets. The model has a connection; the view is a graph panel.
 */

import {
  DOMWidgetModel,
  DOMWidgetView,
  JupyterLuminoPanelWidget
} from '@jupyter-widgets/base';
import { type ISignal, Signal } from '@lumino/signaling';

import { GraphConnection } from '../model/connection';
import { afterDraw } from '../ui/dom';
import {
  Gate,
  type IChannel,
  type ILane,
  type IReceived,
  type ISubshells,
  waitForLane
} from '../wire/channel';
import { type PageEvent, SCHEMA } from '../wire/protocol';
import { type Resolver, liveGraphs } from './live';
import type { PanelWidget } from './panel';

/** The names under which the kernel finds these classes; the version is the wire's. */
export const MODULE = 'autodiff-workbench';
export const MODULE_VERSION = `${SCHEMA}.0.0`;

/** What is used of a kernel: when it goes, when its line is up again, and a stop. */
interface IKernelLine extends ISubshells {
  readonly id: string;
  readonly status: string;
  interrupt(): Promise<void>;
  readonly statusChanged: ISignal<unknown, string>;
  readonly connectionStatusChanged: ISignal<unknown, string>;
  readonly disposed: ISignal<unknown, void>;
}

/** After these, nothing that the kernel held is there any more. */
const GONE: ReadonlySet<string> = new Set([
  'restarting',
  'autorestarting',
  'terminating',
  'dead'
]);

export class GraphModel extends DOMWidgetModel {
  override defaults(): ReturnType<DOMWidgetModel['defaults']> {
    return {
      ...super.defaults(),
      _model_name: 'GraphModel',
      _model_module: MODULE,
      _model_module_version: MODULE_VERSION,
      _view_name: 'GraphView',
      _view_module: MODULE,
      _view_module_version: MODULE_VERSION,
      height: 560
    };
  }

  override initialize(
    ...[attributes, options]: Parameters<DOMWidgetModel['initialize']>
  ): void {
    super.initialize(attributes, options);
    this.connection = null;
    // A model that a notebook saved has no comm, and nothing to be asked.
    if (options.comm !== undefined) {
      const kernel = kernelOf(this.widget_manager);
      const channel = new ModelChannel(this, kernel);
      const connection = new GraphConnection({
        channel,
        afterDraw: paced(afterDraw, () => GraphModel.updateRate()),
        ...(kernel && {
          interrupt: () => {
            // A kernel that cannot be interrupted says so in the notebook.
            kernel.interrupt().catch(() => undefined);
          }
        })
      });
      this.connection = connection;
      liveGraphs.add(this.model_id, connection, kernel?.id ?? null);
      // One that dies closes no lines; one that is shut down closes them first.
      this.once('comm:close', () => connection.dispose('session'));
      this.once('destroy', () => connection.dispose());
      connection.changed.connect((_, change) => {
        if (change === 'closed') {
          channel.close();
        }
      });
      followKernel(connection, kernel, channel);
    }
  }

  /** How many changes a second are drawn at most: a setting of the user. */
  static updateRate: () => number = () => Infinity;

  // Declared, not initialised: Backbone calls `initialize` before fields are set.
  /** Null for a model that no kernel holds. */
  declare connection: GraphConnection | null;
}

/** The view class; each view makes its own panel, in the document of a resolver. */
export function graphViewClass(
  makePanel: (resolver: Resolver) => PanelWidget
): typeof DOMWidgetView {
  return class GraphView extends DOMWidgetView {
    override _createElement(): HTMLElement {
      const widget = new JupyterLuminoPanelWidget({ view: this });
      this.luminoWidget = widget;
      this.content = widget;
      return widget.node;
    }

    override _setElement(node: HTMLElement): void {
      this.el = node;
    }

    override render(): void {
      super.render();
      const { model } = this;
      if (!(model instanceof GraphModel)) {
        throw new TypeError('GraphView is a view of a GraphModel');
      }
      const widget = makePanel(resolverOf(model.widget_manager));
      const { panel } = widget;
      const resize = (): void => panel.setHeight(Number(model.get('height')) || 560);
      resize();
      this.listenTo(model, 'change:height', resize);
      this.content.addWidget(widget);
      if (model.connection !== null) {
        panel.connectTo(model.connection);
      } else {
        panel.setSaved(null, 'This graph is not live: run the cell again.');
      }
    }

    declare content: JupyterLuminoPanelWidget;
  };
}

/** The custom messages of a widget model as a channel. */
class ModelChannel implements IChannel {
  constructor(model: GraphModel, kernel: ISubshells | null) {
    // The shim of a comm around JupyterLab's own; another page may have none.
    const comm = model.comm as { jsServicesComm?: ILane } | undefined;
    const lane = waitForLane(comm?.jsServicesComm, kernel);
    lane?.then(
      known => (this._hasLane = known),
      () => undefined
    );
    this._gate = new Gate(event => {
      model.send(event);
    }, lane);
    model.on('msg:custom', (content: unknown, buffers?: DataView[]) => {
      this._received.emit({ content, buffers: buffers ?? [] });
    });
  }

  get received(): ISignal<unknown, IReceived> {
    return this._received;
  }

  send(event: PageEvent): void {
    this._gate.send(event);
  }

  /** Whether it is heard while a cell runs. */
  get hasLane(): boolean {
    return this._hasLane;
  }

  /** The line is closed. */
  close(): void {
    this._gate.close();
  }

  private readonly _gate: Gate;
  private _hasLane = false;
  private readonly _received = new Signal<this, IReceived>(this);
}

/** Milliseconds for which a kernel is busy before it is worth a word. */
const MOMENT = 1000;

/**
 * Close the connection when the kernel goes, and ask for the state again when the
 * line was down: the widget manager does neither. Say when nothing is heard.
 */
function followKernel(
  connection: GraphConnection,
  kernel: IKernelLine | null,
  channel: { readonly hasLane: boolean }
): void {
  if (kernel === null) {
    return;
  }
  let wasDown = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onStatus = (_: unknown, status: string): void => {
    if (GONE.has(status)) {
      connection.dispose();
      return;
    }
    clearTimeout(timer);
    if (status !== 'busy') {
      connection.setDeaf(false);
    } else {
      timer = setTimeout(() => {
        connection.setDeaf(kernel.status === 'busy' && !channel.hasLane);
      }, MOMENT);
    }
  };
  const onLine = (_: unknown, status: string): void => {
    if (status === 'connected' && wasDown && !connection.isDisposed) {
      connection.hello();
    }
    wasDown = status !== 'connected';
  };
  const onDisposed = (): void => connection.dispose();
  kernel.statusChanged.connect(onStatus);
  kernel.connectionStatusChanged.connect(onLine);
  kernel.disposed.connect(onDisposed);
  onStatus(null, kernel.status);
  connection.changed.connect((_, change) => {
    if (change === 'closed') {
      clearTimeout(timer);
      kernel.statusChanged.disconnect(onStatus);
      kernel.connectionStatusChanged.disconnect(onLine);
      kernel.disposed.disconnect(onDisposed);
    }
  });
}

/** The kernel behind a widget manager: JupyterLab's managers have one. */
function kernelOf(manager: unknown): IKernelLine | null {
  const { kernel } = manager as { kernel?: unknown };
  return typeof kernel === 'object' && kernel !== null && 'statusChanged' in kernel
    ? (kernel as IKernelLine)
    : null;
}

/** What tells the document of a widget manager: JupyterLab's draw with its renderers. */
function resolverOf(manager: unknown): Resolver {
  const { rendermime } = manager as { rendermime?: { resolver?: Resolver } };
  return rendermime?.resolver ?? null;
}

/** Changes a second that the kernel sends at most. */
const FASTEST = 20;

type AfterDraw = (callback: () => void) => void;

/** Call back at most so many times a second: the kernel waits for the last call. */
export function paced(after: AfterDraw, rate: () => number): AfterDraw {
  let last = -Infinity;
  return callback => {
    after(() => {
      const now = performance.now();
      // At its own rate the kernel needs no brake.
      const pause = rate() < FASTEST ? 1000 / rate() : 0;
      const wait = Math.max(0, last + pause - now);
      last = now + wait;
      if (wait > 0) {
        setTimeout(callback, wait);
      } else {
        callback();
      }
    });
  };
}
