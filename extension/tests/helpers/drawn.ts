/** What a component of React draws. */

import { type FunctionComponent, createElement } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';

export function drawn<P extends object>(
  component: FunctionComponent<P>,
  properties: P
): HTMLElement {
  const node = document.createElement('div');
  flushSync(() => {
    createRoot(node).render(createElement(component, properties));
  });
  return node;
}
