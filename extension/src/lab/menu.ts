/** The menu of a node: what can be done with it, at the pointer or by the menu key. */

import type { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import type { Graph } from '../model/graph';
import type { GraphPanel } from '../panels/shell/panel';

interface INodeCommand {
  label: string;
  execute: (panel: GraphPanel, graph: Graph, node: number) => void;
  enabled?: (panel: GraphPanel, graph: Graph, node: number) => boolean;
}

/** Commands on the selected node, under the last part of their ids. */
const NODE_COMMANDS: Readonly<Record<string, INodeCommand>> = {
  'show-line': {
    label: 'Show Line in Cell',
    execute: (panel, _, node) => panel.reveal(node),
    enabled: (panel, graph, node) => panel.canReveal && graph.source(node) !== ''
  },
  'derivative-of': {
    label: 'Derivative of Node (Jacobian)',
    execute: (panel, _, node) => panel.plot('jacobian', node, []),
    enabled: (panel, graph, node) =>
      canPlot(panel, graph, node) && graph.kind(node) === 'op'
  },
  'derivative-by': {
    label: 'Second Derivative by Node (Hessian)',
    execute: (panel, _, node) => panel.plot('hessian', null, [node]),
    enabled: (panel, graph, node) =>
      canPlot(panel, graph, node) && node !== graph.header.output
  },
  'copy-node': {
    label: 'Copy Node as Code',
    execute: (panel, graph, node) => void panel.copy(codeOf(graph, node))
  },
  'copy-gradient': {
    label: 'Copy Gradient as Code',
    execute: (panel, graph, node) => {
      const { session } = graph.header;
      void panel.copy(`${session}.cotangents[${keyOf(graph, node)}]`);
    },
    enabled: (_, graph, node) => graph.hasGradient(node)
  },
  fold: {
    label: 'Fold or Unfold Scope of Node',
    execute: (panel, graph, node) => panel.state.toggleFold(graph.fold(node)),
    enabled: (_, graph, node) => graph.fold(node) !== ''
  }
};

/** What the menu holds: these commands, and those that keys have too; "" is a line. */
const ITEMS = [
  'show-line',
  '',
  'override',
  'mark',
  'derivative',
  'derivative-of',
  'derivative-by',
  '',
  'compare',
  '',
  'copy-node',
  'copy-gradient',
  '',
  'fold'
] as const;

function idOf(name: string): string {
  return `workbench:${name}`;
}

export function addNodeCommands(
  commands: CommandRegistry,
  current: () => GraphPanel | null
): void {
  for (const [name, { label, execute, enabled }] of Object.entries(NODE_COMMANDS)) {
    const find = (): Parameters<INodeCommand['execute']> | null => {
      const panel = current();
      const { graph = null, selected = null } = panel?.state ?? {};
      return panel === null || graph === null || selected === null
        ? null
        : [panel, graph, selected];
    };
    commands.addCommand(idOf(name), {
      label,
      isEnabled: () => {
        const found = find();
        return found !== null && (enabled?.(...found) ?? true);
      },
      execute: () => {
        const found = find();
        if (found !== null) {
          execute(...found);
        }
      }
    });
  }
}

/** Let the picture of a panel have the menu. */
export function addNodeMenu(commands: CommandRegistry, panel: GraphPanel): void {
  panel.canvas.menuRequested.connect((_, { x, y }) => {
    const menu = new Menu({ commands });
    menu.addClass('workbench-NodeMenu');
    for (const name of ITEMS) {
      menu.addItem(name === '' ? { type: 'separator' } : { command: idOf(name) });
    }
    menu.aboutToClose.connect(() => {
      // What was chosen runs after the menu is closed.
      setTimeout(() => {
        menu.dispose();
      });
      panel.focusGraph();
    });
    menu.open(x, y);
  });
}

function canPlot(panel: GraphPanel, graph: Graph, node: number): boolean {
  return (
    panel.canPlot &&
    panel.connection !== null &&
    graph.hasGradient(node) &&
    graph.isArray(node)
  );
}

/** `model["h"]`; by its number where a name would not do. */
export function codeOf(graph: Graph, node: number): string {
  return `${graph.header.session}[${keyOf(graph, node)}]`;
}

/** The name of a node as Python, if it is the only one of that name; else its id. */
function keyOf(graph: Graph, node: number): string {
  const name = graph.name(node);
  for (let other = 0; name !== '' && other < graph.count; other++) {
    if (other !== node && graph.name(other) === name) {
      return String(node);
    }
  }
  return name === '' ? String(node) : JSON.stringify(name);
}
