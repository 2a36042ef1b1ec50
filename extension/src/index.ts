/** The plugin: puts the parts together, and holds none of their logic. */

import {
  IJupyterWidgetRegistry,
  type IWidgetRegistryData
} from '@jupyter-widgets/base';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { PanelTracker, addCommands } from './lab/commands';
import { liveGraphs } from './lab/live';
import { loadPage } from './lab/page';
import { rendererFactory } from './lab/mime';
import { revealLine } from './lab/reveal';
import { Settings } from './lab/settings';
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
    ICommandPalette
  ],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    widgets: IJupyterWidgetRegistry | null,
    notebooks: INotebookTracker | null,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null
  ): void => {
    const settings = new Settings(registry, PLUGIN);
    const tracker = new PanelTracker();
    const makePanel = (): GraphPanel => {
      const panel = new GraphPanel({
        settings: settings.current,
        makeDrawer: host => new Drawer(host, rendermime),
        loadPage,
        reveal:
          notebooks &&
          ((picture, graph, node) => revealLine(notebooks, picture.node, graph, node))
      });
      tracker.add(panel);
      return panel;
    };
    settings.follow(() => tracker.panels);
    rendermime.addFactory(rendererFactory({ live: liveGraphs, makePanel }));
    const data: IWidgetRegistryData = {
      name: MODULE,
      version: MODULE_VERSION,
      exports: { GraphModel, GraphView: graphViewClass(makePanel) }
    };
    widgets?.registerWidget(data);
    addCommands(app.commands, tracker, palette);
  }
};

export default plugin;
