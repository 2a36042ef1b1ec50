/** The keyboard in the picture: walks from card to card, and does what keys ask. */

import type { GraphState } from '../model/state';
import { Scene } from './scene';
import type { Picture } from './surface';

/** What the keys ask of the picture's owner. */
export interface IKeyboard {
  /** Open a node, or unfold a scope; its middle is at this point. */
  activate(item: number, x: number, y: number): void;
  /** Begin to override a node. */
  override(node: number): void;
  /** Show the derivative between the two nodes that are chosen. */
  derivative(): void;
}

export class Keyboard {
  constructor(
    private readonly _state: GraphState,
    private readonly _picture: Picture,
    private readonly _to: IKeyboard
  ) {}

  /** Do what a key asks for, if it is one of ours. */
  press(event: KeyboardEvent): void {
    const action = actionOf(event);
    if (action !== null && this._act(action)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** Do what a key asks for; false if there was nothing to do. */
  private _act(action: Action): boolean {
    const { scene, camera } = this._picture;
    const { selected, marked } = this._state;
    const item =
      scene === null || selected === null ? null : scene.items.itemOf[selected];
    switch (action.do) {
      case 'walk':
        return scene !== null && this._walk(scene, item, action.direction);
      case 'open':
        if (item === null) {
          return false;
        }
        if (this._state.pair === null) {
          this._to.activate(item, ...this._picture.middle(item));
        } else {
          this._to.derivative();
        }
        return true;
      case 'override':
        if (selected !== null) {
          this._to.override(selected);
        }
        return selected !== null;
      case 'mark':
        if (selected !== null) {
          this._state.mark(marked === selected ? null : selected);
        }
        return selected !== null;
      case 'fit':
        camera.fit();
        return true;
      case 'clear':
        if (selected === null && marked === null) {
          return false;
        }
        // First the pair, then the selection.
        this._state.selectAlone(marked === null ? null : selected);
        return true;
      case 'zoom':
        camera.zoomBy(action.factor);
        return true;
    }
  }

  private _walk(
    scene: Scene,
    item: number | null,
    direction: Parameters<typeof stepFrom>[2]
  ): boolean {
    const { output } = scene.graph.header;
    const start = output < 0 ? scene.items.count - 1 : scene.items.itemOf[output];
    const next = item === null ? start : stepFrom(scene, item, direction, this._before);
    if (next !== null && next >= 0) {
      this._before = item;
      this._state.select(scene.items.node[next]);
      this._picture.camera.reveal(scene.card(next));
    }
    return true;
  }

  private _before: number | null = null;
}

// What the keys do while the picture has the focus.

type Action =
  | { do: 'walk'; direction: Direction }
  | { do: 'open' | 'override' | 'mark' | 'fit' | 'clear' }
  | { do: 'zoom'; factor: number };

const STEP = 1.25;

const ACTIONS: Readonly<Partial<Record<string, Action>>> = {
  ArrowUp: { do: 'walk', direction: 'up' },
  ArrowDown: { do: 'walk', direction: 'down' },
  ArrowLeft: { do: 'walk', direction: 'left' },
  ArrowRight: { do: 'walk', direction: 'right' },
  Enter: { do: 'open' },
  o: { do: 'override' },
  m: { do: 'mark' },
  f: { do: 'fit' },
  Escape: { do: 'clear' },
  '+': { do: 'zoom', factor: STEP },
  '=': { do: 'zoom', factor: STEP },
  '-': { do: 'zoom', factor: 1 / STEP }
};

/**
 * What a key asks for; null for keys that are not ours, with ctrl, alt or command
 * among them: they belong to the panel around the picture and to JupyterLab.
 */
export function actionOf(event: KeyboardEvent): Action | null {
  const bare = !event.ctrlKey && !event.metaKey && !event.altKey;
  return (bare && ACTIONS[event.key]) || null;
}

// Walking from card to card with the arrow keys.

type Direction = 'up' | 'down' | 'left' | 'right';

/**
 * The item that an arrow leads to: up to an input, down to what reads it, sideways
 * to the next card of the row. Of several the one that was come from is taken,
 * else the nearest. Null where there is none.
 */
export function stepFrom(
  scene: Scene,
  item: number,
  direction: Direction,
  before: number | null
): number | null {
  if (direction === 'left' || direction === 'right') {
    return scene.nextInRow(item, direction === 'left' ? -1 : 1);
  }
  const candidates = scene.neighbours(item, direction === 'up');
  if (candidates.length === 0) {
    return null;
  }
  if (before !== null && candidates.includes(before)) {
    return before;
  }
  const away = (other: number): number =>
    Math.abs(scene.x(other) - scene.x(item)) +
    Math.abs(scene.top(other) - scene.top(item));
  return candidates.reduce((best, other) => (away(other) < away(best) ? other : best));
}
