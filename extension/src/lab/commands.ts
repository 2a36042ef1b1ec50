/** The commands of the palette and the keyboard, on the graph in use. */

import type { ICommandPalette } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { GraphPanel } from '../panels/shell/panel';
import type { PanelTracker } from './panel';

interface ICommand {
  label: string;
  caption: string;
  execute: (panel: GraphPanel) => void;
  enabled?: (panel: GraphPanel) => boolean;
}

/** Commands on a graph, under the last part of their ids. */
const COMMANDS: Readonly<Record<string, ICommand>> = {
  fit: {
    label: 'Fit Graph',
    caption: 'Fit the graph into view',
    execute: panel => panel.fitGraph()
  },
  undo: {
    label: 'Undo Override',
    caption: 'Undo the last change of a gradient override',
    execute: panel => panel.asking.undo(),
    enabled: panel => panel.asking.canUndo
  },
  redo: {
    label: 'Redo Override',
    caption: 'Redo the last change of a gradient override',
    execute: panel => panel.asking.redo(),
    enabled: panel => panel.asking.canRedo
  },
  search: {
    label: 'Search Nodes',
    caption: 'Search the graph by name, op, shape, scope or line',
    execute: panel => panel.focusSearch()
  },
  override: {
    label: 'Override Gradient of Node',
    caption: 'Attach a gradient rule to the selected node',
    execute: panel => panel.startOverride(),
    enabled: panel => panel.state.selected !== null
  },
  mark: {
    label: 'Mark Node for Derivative',
    caption: 'Mark the node; the derivative is between it and the node selected next',
    execute: panel => panel.markNode(),
    enabled: panel => panel.state.selected !== null
  },
  derivative: {
    label: 'Derivative Between Two Nodes',
    caption: 'Draw the derivative between the marked and the selected node',
    execute: panel => panel.showDerivative(),
    enabled: panel => panel.state.pair !== null
  },
  check: {
    label: 'Check Gradients',
    caption: 'Compare the rule of each node, and all gradients, with differences',
    execute: panel => panel.run('check')
  },
  diagnose: {
    label: 'Diagnose Gradients',
    caption: 'Find the node to blame for what is wrong in either pass',
    execute: panel => panel.run('diagnose')
  },
  stop: {
    label: 'Stop Check or Diagnosis',
    caption: 'Stop, and keep what was found so far',
    execute: panel => panel.asking.stop(),
    enabled: panel => (panel.connection?.job ?? null) !== null
  },
  checks: {
    label: 'Show Checks of Graph',
    caption: 'What the doctor and the gradient check found',
    execute: panel => panel.showChecks()
  },
  overrides: {
    label: 'Show Overrides of Graph',
    caption: 'All overrides: switch, order, edit, undo, copy as code',
    execute: panel => panel.showOverrides()
  },
  'step-forward': {
    label: 'Step Forward in Sweeps',
    caption: 'One step on in both sweeps, or in the simplification',
    execute: panel => panel.step(1)
  },
  'step-back': {
    label: 'Step Back in Sweeps',
    caption: 'One step back in both sweeps, or in the simplification',
    execute: panel => panel.step(-1)
  },
  play: {
    label: 'Play or Pause Sweeps',
    caption: 'Play both sweeps, or the steps of the simplification',
    execute: panel => panel.togglePlay()
  },
  compare: {
    label: 'Compare Runs, Overrides or Sessions',
    caption: 'Compare what is shown with a run, without overrides, or another session',
    execute: panel => panel.toggleComparison(),
    enabled: panel => panel.state.graph !== null
  },
  plots: {
    label: 'Show Plots of Graph',
    caption: 'Jacobian, Hessian and gradient check',
    execute: panel => panel.toggleDrawer()
  },
  'save-svg': {
    label: 'Save Graph as SVG',
    caption: 'Save the picture as it is drawn',
    execute: panel => panel.save('svg'),
    enabled: panel => panel.state.graph !== null
  },
  'save-png': {
    label: 'Save Graph as PNG',
    caption: 'Save the picture as it is drawn',
    execute: panel => panel.save('png'),
    enabled: panel => panel.state.graph !== null
  },
  'save-html': {
    label: 'Save Graph as HTML',
    caption: 'Save a page that shows the graph without a kernel',
    execute: panel => panel.save('html'),
    enabled: panel => panel.state.graph !== null
  },
  inspector: {
    label: 'Show Inspector of Graph',
    caption: 'Node, overrides and checks beside the graph',
    execute: panel => panel.toggleInspector()
  }
};

function idOf(name: string): string {
  return `workbench:${name}`;
}

export function addCommands(
  commands: CommandRegistry,
  tracker: PanelTracker,
  palette: ICommandPalette | null
): void {
  for (const [name, command] of Object.entries(COMMANDS)) {
    const { label, caption, execute, enabled } = command;
    commands.addCommand(idOf(name), {
      label,
      caption,
      isEnabled: () => {
        const panel = tracker.current;
        return panel !== null && (enabled?.(panel) ?? true);
      },
      execute: () => {
        if (tracker.current !== null) {
          execute(tracker.current);
        }
      }
    });
    palette?.addItem({ command: idOf(name), category: 'Workbench' });
  }
  // Press the button that has the keyboard: notebooks take Enter for themselves.
  commands.addCommand(idOf('press'), {
    label: 'Press the Focused Button',
    execute: () => {
      if (document.activeElement instanceof HTMLElement) {
        document.activeElement.click();
      }
    }
  });
  // Hand a key to the picture: notebooks take arrows and others for their cells.
  commands.addCommand(idOf('key'), {
    label: args => `Key ${keyOf(args)} in the Graph`,
    execute: args => {
      const event = new KeyboardEvent('keydown', {
        key: keyOf(args),
        cancelable: true
      });
      // What is prevented is not taken for a shortcut again.
      event.preventDefault();
      document.activeElement?.dispatchEvent(event);
    }
  });
  tracker.changed.connect(() => {
    for (const name of Object.keys(COMMANDS)) {
      commands.notifyCommandChanged(idOf(name));
    }
  });
}

function keyOf({ key }: ReadonlyPartialJSONObject): string {
  return typeof key === 'string' ? key : '';
}
