/** How new graphs begin, as the user set it in JupyterLab. */

import type { ISettingRegistry } from '@jupyterlab/settingregistry';

import {
  COLOURINGS,
  type Colouring,
  TILE_TEXTS,
  type TileText
} from '../model/state';
import { type GraphPanel, type IPanelSettings, STANDARD } from '../panels/shell/panel';

export class Settings {
  constructor(registry: ISettingRegistry | null, plugin: string) {
    registry?.load(plugin).then(
      settings => {
        const read = (): void => this._read(settings.composite);
        settings.changed.connect(read);
        read();
      },
      () => {
        // Without its schema the extension works with the standard settings.
      }
    );
  }

  get current(): IPanelSettings {
    return this._current;
  }

  /** Tell the panels that are there when a setting changes. */
  follow(panels: () => readonly GraphPanel[]): void {
    this._panels = panels;
  }

  private _read(composite: Readonly<Record<string, unknown>>): void {
    const { height, colouring, animated, updateRate, foldFrom, tileText, bins } =
      composite;
    this._current = {
      height: typeof height === 'number' ? height : STANDARD.height,
      colouring: COLOURINGS.includes(colouring as Colouring)
        ? (colouring as Colouring)
        : STANDARD.colouring,
      animated: typeof animated === 'boolean' ? animated : STANDARD.animated,
      updateRate:
        typeof updateRate === 'number' && updateRate > 0
          ? updateRate
          : STANDARD.updateRate,
      foldFrom: typeof foldFrom === 'number' ? foldFrom : STANDARD.foldFrom,
      tileText: TILE_TEXTS.includes(tileText as TileText)
        ? (tileText as TileText)
        : STANDARD.tileText,
      bins: typeof bins === 'number' && bins > 0 ? bins : STANDARD.bins
    };
    for (const panel of this._panels()) {
      panel.setHeight(this._current.height);
      panel.state.setView('animated', this._current.animated);
      panel.state.foldFrom = this._current.foldFrom;
      panel.state.setView('tileText', this._current.tileText);
      panel.state.setView('bins', this._current.bins);
    }
  }

  private _current: IPanelSettings = STANDARD;
  private _panels: () => readonly GraphPanel[] = () => [];
}
