/** A host for one part of a panel: it does what it is told and keeps a record. */

import type { GraphConnection } from '../../src/model/connection';
import { Recording } from '../../src/model/recording';
import { GraphState } from '../../src/model/state';
import {
  Asking,
  type Format,
  type ICellEditing,
  type IHost,
  type IWithin
} from '../../src/panels/host';
import type { PlotKind } from '../../src/wire/protocol';
import { type INetwork, network } from './network';
import { readGraph } from './programs';

export class RecordingHost implements IHost {
  constructor(readonly connection: GraphConnection | null = null) {
    this.show(network());
  }

  readonly state = new GraphState();
  readonly shown = this.state;
  readonly recording = new Recording();
  readonly unsimplified: string | null = null;
  readonly within: IWithin | null = null;
  readonly said: string[] = [];
  readonly copied: string[] = [];
  readonly asking = new Asking(this, () => undefined);
  readonly centred: number[] = [];
  readonly plots: [PlotKind, number | null, number[]][] = [];
  readonly canReveal = false;
  alone = false;
  editing: ICellEditing | null = null;
  readonly openBeside = null;
  readonly canPlot = true;
  readonly typeset = null;
  readonly canSavePage = true;
  readonly saved: Format[] = [];
  readonly drawerOpen = false;
  readonly inspectorOpen = true;

  show({ header, buffers }: INetwork): void {
    this.state.setGraph(readGraph(header, buffers), 'values');
  }

  say(message: string): void {
    this.said.push(message);
  }

  centre(node: number): void {
    this.centred.push(node);
  }

  find(node: number): void {
    this.centred.push(node);
  }

  plot(kind: PlotKind, of: number | null, wrt: number[]): void {
    this.plots.push([kind, of, wrt]);
  }

  save(format: Format): void {
    this.saved.push(format);
  }

  copy(text: string): Promise<boolean> {
    this.copied.push(text);
    return Promise.resolve(true);
  }

  fitGraph(): void {
    this.said.push('fit');
  }

  reveal(node: number): void {
    this.said.push(`reveal ${node}`);
  }

  focusGraph(): void {
    this.said.push('focus');
  }

  lookInside(node: number): boolean {
    this.said.push(`inside ${node}`);
    return true;
  }

  toggleDrawer(): void {
    this.said.push('drawer');
  }

  showChecks(): void {
    this.said.push('checks');
  }

  toggleInspector(): void {
    this.said.push('inspector');
  }
}
