/**
 * What the renderer uses of Lumino, for pages that have no Lumino: signals and widgets.
 * The build of the standalone renderer takes this file in the place of `@lumino/widgets`,
 * `@lumino/messaging` and `@lumino/signaling`, which are half a megabyte. Types are
 * checked against it (`tsconfig.standalone.json`), so that nothing else of Lumino comes
 * into the renderer.
 */

type Slot<T, U> = (sender: T, args: U) => void;

export interface ISignal<T, U> {
  connect(slot: Slot<T, U>, receiver?: unknown): boolean;
  disconnect(slot: Slot<T, U>, receiver?: unknown): boolean;
}

/** Tells those that are connected, in the order in which they came. */
export class Signal<T, U> implements ISignal<T, U> {
  /** Disconnect what hears by methods of an object from all signals. */
  static disconnectReceiver(receiver: object): void {
    for (const signal of Signal._heard.get(receiver) ?? []) {
      signal._slots = signal._slots.filter(one => one.receiver !== receiver);
    }
    Signal._heard.delete(receiver);
  }

  /** Disconnect all that an object tells, and all that it hears. */
  static clearData(object: object): void {
    Signal.disconnectReceiver(object);
    for (const signal of Signal._told.get(object) ?? []) {
      signal._slots = [];
    }
  }

  constructor(readonly sender: T) {
    if (typeof sender === 'object' && sender !== null) {
      remember(Signal._told, sender, this);
    }
  }

  connect(slot: Slot<T, U>, receiver?: unknown): boolean {
    if (this._find(slot, receiver) !== undefined) {
      return false;
    }
    this._slots = [...this._slots, { slot, receiver }];
    if (typeof receiver === 'object' && receiver !== null) {
      remember(Signal._heard, receiver, this);
    }
    return true;
  }

  disconnect(slot: Slot<T, U>, receiver?: unknown): boolean {
    const found = this._find(slot, receiver);
    this._slots = this._slots.filter(one => one !== found);
    return found !== undefined;
  }

  emit(args: U): void {
    for (const { slot, receiver } of this._slots) {
      (slot as Slot<T, U>).call(receiver, this.sender, args);
    }
  }

  private _find(slot: unknown, receiver: unknown): ISlot | undefined {
    return this._slots.find(one => one.slot === slot && one.receiver === receiver);
  }

  private static readonly _told: Signals = new WeakMap();
  private static readonly _heard: Signals = new WeakMap();
  private _slots: readonly ISlot[] = [];
}

type Signals = WeakMap<object, Set<Signal<unknown, unknown>>>;

function remember(signals: Signals, by: object, one: Signal<unknown, unknown>): void {
  signals.set(by, (signals.get(by) ?? new Set()).add(one));
}

/** Without its types: a widget of one kind is a widget. */
interface ISlot {
  slot: unknown;
  receiver: unknown;
}

/** What happens to a widget; parts of the page hear of it by their methods. */
export class Message {
  constructor(readonly type: 'after-attach' | 'before-detach' | 'resize') {}
}

class ResizeMessage extends Message {
  static readonly UnknownSize = new ResizeMessage('resize');
}

const AFTER_ATTACH = new Message('after-attach');
const BEFORE_DETACH = new Message('before-detach');

/** An element of the page that knows whether it is on it, and to be seen. */
export class Widget {
  static readonly ResizeMessage = ResizeMessage;

  /** Put a widget into an element of the page. */
  static attach(widget: Widget, host: HTMLElement): void {
    host.append(widget.node);
    MessageLoop.sendMessage(widget, AFTER_ATTACH);
  }

  /** Take a widget off the page. */
  static detach(widget: Widget): void {
    MessageLoop.sendMessage(widget, BEFORE_DETACH);
    widget.node.remove();
  }

  constructor(options: { node?: HTMLElement | undefined } = {}) {
    this.node = options.node ?? document.createElement('div');
    this.addClass('lm-Widget');
  }

  readonly node: HTMLElement;
  /** Told once, when it is over. */
  get disposed(): ISignal<this, void> {
    return this._disposed;
  }
  parent: Widget | null = null;

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get isAttached(): boolean {
    return this._isAttached;
  }

  get isHidden(): boolean {
    return this.hasClass('lm-mod-hidden');
  }

  get isVisible(): boolean {
    return this._isAttached && !this.isHidden && this.parent?.isVisible !== false;
  }

  get layout(): PanelLayout | null {
    return this._layout;
  }

  set layout(layout: PanelLayout | null) {
    this._layout = layout;
    layout?.adopt(this);
  }

  addClass(name: string): void {
    this.node.classList.add(name);
  }

  removeClass(name: string): void {
    this.node.classList.remove(name);
  }

  toggleClass(name: string, force?: boolean): boolean {
    return this.node.classList.toggle(name, force);
  }

  hasClass(name: string): boolean {
    return this.node.classList.contains(name);
  }

  show(): void {
    if (this.isHidden) {
      this.removeClass('lm-mod-hidden');
      if (this.isVisible) {
        this.onAfterShow();
      }
    }
  }

  hide(): void {
    this.addClass('lm-mod-hidden');
  }

  setHidden(hidden: boolean): void {
    if (hidden) {
      this.hide();
    } else {
      this.show();
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._disposed.emit();
    if (this._isAttached) {
      Widget.detach(this);
    }
    this.parent?.layout?.forget(this);
    for (const child of [...(this._layout?.widgets ?? [])]) {
      child.dispose();
    }
    Signal.disconnectReceiver(this);
  }

  /** Hear what happens; what stands in it hears it first. */
  processMessage(message: Message): void {
    this._isAttached = message.type === 'after-attach' || this._isAttached;
    for (const child of this._layout?.widgets ?? []) {
      MessageLoop.sendMessage(child, message);
    }
    switch (message.type) {
      case 'after-attach':
        this.onAfterAttach(message);
        break;
      case 'before-detach':
        this.onBeforeDetach(message);
        this._isAttached = false;
        break;
      case 'resize':
        this.onResize(message);
        break;
    }
  }

  // For others to override.
  /* eslint-disable @typescript-eslint/no-unused-vars */

  protected onAfterAttach(_: Message): void {
    return undefined;
  }

  protected onBeforeDetach(_: Message): void {
    return undefined;
  }

  protected onAfterShow(): void {
    return undefined;
  }

  protected onResize(_: Message): void {
    return undefined;
  }
  /* eslint-enable @typescript-eslint/no-unused-vars */

  private readonly _disposed = new Signal<this, void>(this);
  private _layout: PanelLayout | null = null;
  private _isAttached = false;
  private _isDisposed = false;
}

/** Widgets one under the other, in the element of theirs. */
export class PanelLayout {
  get widgets(): readonly Widget[] {
    return this._widgets;
  }

  addWidget(widget: Widget): void {
    this.insertWidget(this._widgets.length, widget);
  }

  insertWidget(index: number, widget: Widget): void {
    const before = this._widgets[index]?.node ?? null;
    this._widgets.splice(index, 0, widget);
    if (this._parent !== null) {
      this._place(widget, before);
    }
  }

  /** Stand in a widget from now on. */
  adopt(parent: Widget): void {
    this._parent = parent;
    for (const widget of this._widgets) {
      this._place(widget, null);
    }
  }

  /** Leave a widget out that is disposed of. */
  forget(widget: Widget): void {
    this._widgets = this._widgets.filter(other => other !== widget);
    widget.node.remove();
  }

  private _place(widget: Widget, before: Node | null): void {
    widget.parent = this._parent;
    this._parent?.node.insertBefore(widget.node, before);
    if (this._parent?.isAttached === true) {
      MessageLoop.sendMessage(widget, AFTER_ATTACH);
    }
  }

  private _widgets: Widget[] = [];
  private _parent: Widget | null = null;
}

export const MessageLoop = {
  sendMessage(widget: Widget, message: Message): void {
    widget.processMessage(message);
  },

  /** Tell a widget in a moment, after what is being done. */
  postMessage(widget: Widget, message: Message): void {
    queueMicrotask(() => {
      if (!widget.isDisposed) {
        widget.processMessage(message);
      }
    });
  }
};
