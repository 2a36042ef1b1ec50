/** The plugin: puts the parts together, and holds none of their logic. */

import {
  IJupyterWidgetRegistry,
  type IWidgetRegistryData
} from '@jupyter-widgets/base';
import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IConsoleTracker } from '@jupyterlab/console';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { LabIcon } from '@jupyterlab/ui-components';

import { Besides, OPEN_BESIDE, addBesideCommand } from './lab/beside';
import { addCommands } from './lab/commands';
import { CellEdits } from './lab/edits';
import { Documents, type Resolver, liveGraphs } from './lab/live';
import { addNodeCommands, addNodeMenu } from './lab/menu';
import { rendererFactory } from './lab/mime';
import { loadPage } from './lab/page';
import { PanelTracker, PanelWidget, figureMaker } from './lab/panel';
import { revealLine } from './lab/reveal';
import { Settings } from './lab/settings';
import { SessionsSidebar } from './lab/sidebar';
import { SourceMarks } from './lab/source';
import { GraphModel, MODULE, MODULE_VERSION, graphViewClass } from './lab/widget';
import { Drawer } from './panels/plots/drawer';
import { GraphPanel } from './panels/shell/panel';

const PLUGIN = 'autodiff-workbench:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'Workbench: the live forward and gradient graph of a cell.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [
    IJupyterWidgetRegistry,
    INotebookTracker,
    ISettingRegistry,
    ICommandPalette,
    ILabShell,
    ILayoutRestorer,
    IConsoleTracker
  ],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    widgets: IJupyterWidgetRegistry | null,
    notebooks: INotebookTracker | null,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    consoles: IConsoleTracker | null
  ): void => {
    const settings = new Settings(registry, PLUGIN);
    const tracker = new PanelTracker();
    const edits = new CellEdits(tracker);
    const documents = notebooks && new Documents(notebooks, consoles);
    let besides: Besides | null = null;
    const make = (
      find: (picture: HTMLElement) => NotebookPanel | null,
      isBeside: boolean
    ): PanelWidget => {
      const panel = new GraphPanel({
        view: settings.current.view,
        height: settings.current.height,
        makeDrawer: host => new Drawer(host, figureMaker(rendermime)),
        loadPage,
        typeset:
          rendermime.latexTypesetter &&
          (node => void rendermime.latexTypesetter?.typeset(node)),
        reveal:
          notebooks &&
          ((picture, graph, node) =>
            revealLine(find(picture.node), picture.node, graph, node)),
        editing:
          notebooks && (made => edits.makeEditing(made, picture => find(picture.node))),
        openBeside:
          !isBeside && besides !== null
            ? picture => {
                const session = besides?.shownBy(picture) ?? null;
                if (session !== null) {
                  besides?.open(session);
                }
              }
            : null,
        tall: isBeside
      });
      const widget = new PanelWidget(panel);
      tracker.add(widget);
      addNodeMenu(app.commands, panel);
      return widget;
    };
    const makePanel = (resolver: Resolver): PanelWidget =>
      make(picture => documents?.notebookOf(resolver, picture) ?? null, false);
    if (notebooks !== null) {
      besides = new Besides({
        app,
        notebooks,
        live: liveGraphs,
        makePanel: find => make(find, true),
        icon: ICON,
        hasDock: labShell !== null
      });
      followBesides(tracker, besides);
      addBesideCommand(app, besides, () => tracker.current, palette);
      addSidebar(app, notebooks, besides, restorer);
      const { sessionsOf } = besides;
      new SourceMarks({
        notebooks,
        sessionsOf: sessionsOf.bind(besides),
        panels: () => tracker.panels
      });
    }
    settings.follow(() => tracker.panels);
    GraphModel.updateRate = () => settings.current.updateRate;
    rendermime.addFactory(rendererFactory({ live: liveGraphs, documents, makePanel }));
    const data: IWidgetRegistryData = {
      name: MODULE,
      version: MODULE_VERSION,
      exports: { GraphModel, GraphView: graphViewClass(makePanel) }
    };
    widgets?.registerWidget(data);
    addCommands(app.commands, tracker, palette);
    addNodeCommands(app.commands, () => tracker.current);
  }
};

/** Three nodes and their edges. */
const ICON = new LabIcon({
  name: 'autodiff-workbench:graph',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16">
    <g class="jp-icon3" fill="#616161">
      <rect x="1.5" y="1.5" width="5" height="3.6" rx="0.8"/>
      <rect x="9.5" y="1.5" width="5" height="3.6" rx="0.8"/>
      <rect x="5.5" y="10.9" width="5" height="3.6" rx="0.8"/>
      <path d="M3.5 5h1c0 2.8 3 2.2 3 5.9h-1C6.500 8 3.500 8.300 3.500 5z"/>
      <path d="M11.500 5h1c0 3.300-3 3-3 5.900h-1c0-3.700 3-3.100 3-5.900z"/>
    </g>
  </svg>`
});

/** Let a picture give way to a line in its cell while it stands beside the notebook. */
function followBesides(tracker: PanelTracker, besides: Besides): void {
  const follow = (): void => {
    for (const panel of tracker.panels) {
      if (panel.openBeside !== null) {
        panel.setAway(besides.findAway(panel));
      }
    }
  };
  besides.changed.connect(follow);
  tracker.changed.connect(follow);
}

/** The list of sessions, among the sidebars of the page. */
function addSidebar(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker,
  besides: Besides,
  restorer: ILayoutRestorer | null
): void {
  const sidebar = new SessionsSidebar({
    sessionsOf: notebook => besides.sessionsOf(notebook),
    open: session => besides.open(session)
  });
  sidebar.title.icon = ICON;
  const follow = (): void => sidebar.setNotebook(notebooks.currentWidget);
  notebooks.currentChanged.connect(follow);
  follow();
  app.shell.add(sidebar, 'left', { rank: 450 });
  restorer?.add(sidebar, sidebar.id);
  besides.restore(restorer, OPEN_BESIDE);
}

export default plugin;
