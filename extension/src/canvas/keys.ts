/** What the keys do while the picture has the focus. */

import type { Direction } from './walk';

export type Action =
  | { do: 'walk'; direction: Direction }
  | { do: 'open' | 'override' | 'mark' | 'fit' | 'clear' }
  | { do: 'zoom'; factor: number };

const STEP = 1.25;

/**
 * What a key asks for; null for keys that are not ours, with ctrl, alt or command
 * among them: they belong to the panel around the picture and to JupyterLab.
 */
export function actionOf(event: KeyboardEvent): Action | null {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return null;
  }
  switch (event.key) {
    case 'ArrowUp':
      return { do: 'walk', direction: 'up' };
    case 'ArrowDown':
      return { do: 'walk', direction: 'down' };
    case 'ArrowLeft':
      return { do: 'walk', direction: 'left' };
    case 'ArrowRight':
      return { do: 'walk', direction: 'right' };
    case 'Enter':
      return { do: 'open' };
    case 'o':
      return { do: 'override' };
    case 'm':
      return { do: 'mark' };
    case 'f':
      return { do: 'fit' };
    case 'Escape':
      return { do: 'clear' };
    case '+':
    case '=':
      return { do: 'zoom', factor: STEP };
    case '-':
      return { do: 'zoom', factor: 1 / STEP };
    default:
      return null;
  }
}
