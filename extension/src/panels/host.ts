/** What the parts of a graph panel may know of, and ask of, the whole. */

import type { GraphConnection } from '../model/connection';
import type { Change, GraphState } from '../model/state';
import type { PlotKind } from '../wire/protocol';
import type { Asking } from './asking';

/** What made a part draw itself again: the state, or the line to the kernel. */
export type Reason = Change | 'connection';

export interface IHost {
  readonly state: GraphState;
  /** Null while the picture is a saved one. */
  readonly connection: GraphConnection | null;
  fitGraph(): void;
  /** What is asked of the kernel. */
  readonly asking: Asking;
  /** Bring a node into view. */
  centre(node: number): void;
  /** Bring a node to the middle if it is not in sight. */
  find(node: number): void;
  /** Go to the line of the cell that made the node. */
  reveal(node: number): void;
  /** Whether there is a cell to go to. */
  readonly canReveal: boolean;
  /** Put the keyboard back into the graph. */
  focusGraph(): void;
  /** Put text on the clipboard; true if that worked. */
  copy(text: string): Promise<boolean>;
  /** Ask for a plot and show it in the drawer. */
  plot(kind: PlotKind, of: number | null, wrt: number[]): void;
  toggleDrawer(): void;
  readonly drawerOpen: boolean;
  toggleInspector(): void;
  /** Open the inspector at what checks and the doctor found. */
  showChecks(): void;
  readonly inspectorOpen: boolean;
  /** A line that fades by itself; errors stay until the next one. */
  say(message: string, tone?: 'quiet' | 'error'): void;
}
