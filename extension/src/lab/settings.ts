/** How new graphs begin, as the user set it in JupyterLab. */

import type { ISettingRegistry } from '@jupyterlab/settingregistry';

import {
  COLOURINGS,
  type Colouring,
  type SettingsChange,
  TILE_TEXTS,
  type TileText,
  ViewSettings
} from '../model/state';
import type { GraphPanel } from '../panels/shell/panel';

export interface ISettings {
  /** Pixels of the graph and inspector, without bar and drawer. */
  readonly height: number;
  /** Changes a second that are drawn at most. */
  readonly updateRate: number;
  /** How the pictures are drawn. */
  readonly view: Required<SettingsChange>;
}

const STANDARD: ISettings = { height: 560, updateRate: 20, view: new ViewSettings() };

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

  get current(): ISettings {
    return this._current;
  }

  /** Tell the panels that are there when a setting changes. */
  follow(panels: () => readonly GraphPanel[]): void {
    this._panels = panels;
  }

  private _read(composite: Readonly<Record<string, unknown>>): void {
    const { height, colouring, animated, updateRate, foldFrom, tileText, bins } =
      composite;
    const { view } = STANDARD;
    this._current = {
      height: typeof height === 'number' ? height : STANDARD.height,
      updateRate:
        typeof updateRate === 'number' && updateRate > 0
          ? updateRate
          : STANDARD.updateRate,
      view: {
        stage: view.stage,
        colouring: COLOURINGS.includes(colouring as Colouring)
          ? (colouring as Colouring)
          : view.colouring,
        animated: typeof animated === 'boolean' ? animated : view.animated,
        foldFrom: typeof foldFrom === 'number' ? foldFrom : view.foldFrom,
        tileText: TILE_TEXTS.includes(tileText as TileText)
          ? (tileText as TileText)
          : view.tileText,
        bins: typeof bins === 'number' && bins > 0 ? bins : view.bins
      }
    };
    // Stage and colours are as the reader of each panel has chosen them.
    const { animated: soft, foldFrom: from, tileText: text, bins: bars } = this._current.view;
    for (const panel of this._panels()) {
      panel.setHeight(this._current.height);
      panel.state.settings.set({
        animated: soft,
        foldFrom: from,
        tileText: text,
        bins: bars
      });
    }
  }

  private _current: ISettings = STANDARD;
  private _panels: () => readonly GraphPanel[] = () => [];
}
