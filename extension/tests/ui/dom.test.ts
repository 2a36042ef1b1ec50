// @vitest-environment jsdom
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it } from 'vitest';

import { Box, element } from '../../src/ui/dom';

describe('Box', () => {
  let told: string[];

  /** A box that says what happens to it. */
  class Telling extends Box {
    constructor(private readonly _name: string) {
      super(_name);
    }

    protected override onAttach(): void {
      told.push(`${this._name} on`);
    }

    protected override onDetach(): void {
      told.push(`${this._name} off`);
    }
  }

  beforeEach(() => {
    told = [];
  });

  it('stands in another, with other elements, and hears with it', () => {
    const [outer, inner] = [new Telling('outer'), new Telling('inner')];
    const line = element('hr');
    expect(outer.append(inner, line)).toBe(outer);
    expect([...outer.node.children]).toEqual([inner.node, line]);
    outer.attach();
    outer.attach();
    expect([inner.isAttached, told]).toEqual([true, ['inner on', 'outer on']]);
    const late = new Telling('late');
    outer.append(late);
    outer.detach();
    outer.detach();
    expect(told.slice(2)).toEqual(['late on', 'inner off', 'late off', 'outer off']);
    outer.attach();
    expect(inner.isAttached).toBe(true);
  });

  it('is over with all in it, off the page, and hears no signal any more', () => {
    const [outer, middle, inner] = ['outer', 'middle', 'inner'].map(n => new Telling(n));
    const signal = new Signal<object, string>({});
    signal.connect(function (this: unknown, _, text) {
      told.push(text);
    }, inner);
    document.body.append(outer.append(middle.append(inner)).node);
    outer.attach();
    told = [];
    middle.dispose();
    middle.dispose();
    expect(told).toEqual(['inner off', 'middle off']);
    expect([inner.isDisposed, inner.isAttached]).toEqual([true, false]);
    expect(outer.node.children).toHaveLength(0);
    signal.emit('heard');
    outer.dispose();
    expect(told.slice(2)).toEqual(['outer off']);
    expect(outer.node.isConnected).toBe(false);
  });

  it('is hidden as any element is', () => {
    const box = new Box('name');
    box.setHidden(true);
    expect([box.isHidden, box.node.hidden]).toEqual([true, true]);
    box.setHidden(false);
    expect(box.isHidden).toBe(false);
  });
});
