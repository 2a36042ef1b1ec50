/** The parts of a panel that React draws. */

import type { ReactNode } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';

import { Box } from '../ui/dom';
import type { IHost, INodeHost, Reason } from './host';

/**
 * Other than a `ReactWidget` of JupyterLab it is drawn when `draw` returns, so that
 * the keyboard can be put into it, and what was written in it stays while a notebook
 * takes its cell off the page.
 */
export abstract class Part<H extends INodeHost = IHost> extends Box {
  constructor(
    protected readonly host: H,
    className: string,
    node?: HTMLElement
  ) {
    super(className, node);
  }

  /** Draw what has changed; where the pointer is and how the view lies is no change. */
  refresh(reason: Reason): void {
    if (reason !== 'hover' && reason !== 'view') {
      this.draw();
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      this._root.unmount();
    }
  }

  protected draw(): void {
    if (!this.isDisposed) {
      flushSync(() => this._root.render(this.render()));
    }
  }

  protected abstract render(): ReactNode;

  private readonly _root = createRoot(this.node);
}
