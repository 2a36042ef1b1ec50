// @vitest-environment jsdom
import '../helpers/browser';

import { createElement } from 'react';
import { flushSync } from 'react-dom';
import { type Root, createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { CopyLink } from '../../src/panels/links';
import { TestKernel } from '../helpers/channel';
import { RecordingHost } from '../helpers/host';

describe('CopyLink', () => {
  let node: HTMLElement;
  let root: Root;

  beforeEach(() => {
    node = document.createElement('div');
    root = createRoot(node);
  });

  afterEach(() => {
    root.unmount();
  });

  /** Draw the link with a code; the same link stands beside another node then. */
  const show = (host: RecordingHost, code: string): void => {
    flushSync(() => root.render(createElement(CopyLink, { host, code, label: 'Copy' })));
  };
  const press = async (): Promise<void> => {
    node.querySelector('button')!.click();
    await new Promise(resolve => setTimeout(resolve));
  };

  it('says that it has copied, and of other code it does not', async () => {
    const host = new RecordingHost(new TestKernel().connect());
    show(host, 'first()');
    await press();
    expect(host.copied).toEqual(['first()']);
    expect(node.textContent).toBe('Copied');
    show(host, 'second()');
    expect(node.textContent).toBe('Copy');
  });

  it('shows the code of a saved picture, and never that of another node', async () => {
    const host = new RecordingHost(null);
    show(host, 'first()');
    expect(node.querySelector('pre')).toBeNull();
    await press();
    expect(node.querySelector('pre')!.textContent).toBe('first()');
    show(host, 'second()');
    expect(node.querySelector('pre')).toBeNull();
  });
});
