/** How a graph panel begins, before anybody has touched it. */

import type { Colouring } from '../../model/state';

/** How a view begins; the settings of JupyterLab give it. */
export interface IPanelSettings {
  /** Pixels of the graph and inspector, without bar and drawer. */
  height: number;
  colouring: Colouring;
  animated: boolean;
}

export const STANDARD: IPanelSettings = {
  height: 560,
  colouring: 'gradient',
  animated: true
};
