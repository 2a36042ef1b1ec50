/** Whether the gradients are right: what the doctor finds, and the gradient check. */

import { PanelLayout, Widget } from '@lumino/widgets';

import type { IHost, Reason } from '../host';
import { Doctor } from './doctor';
import { GradientCheck } from './gradients';

export class Checks extends Widget {
  constructor(host: IHost) {
    super();
    this.addClass('workbench-Checks');
    const layout = new PanelLayout();
    this.layout = layout;
    this._doctor = new Doctor(host);
    this._gradients = new GradientCheck(host);
    layout.addWidget(this._doctor);
    layout.addWidget(this._gradients);
  }

  refresh(reason: Reason): void {
    this._doctor.refresh(reason);
    this._gradients.refresh(reason);
  }

  /** What runs in the kernel is further, or done. */
  refreshJob(): void {
    this._doctor.refreshJob();
    this._gradients.refreshJob();
  }

  private readonly _doctor: Doctor;
  private readonly _gradients: GradientCheck;
}
