import { describe, expect, it } from 'vitest';

import { Pieces } from '../../src/wire/pieces';
import type { IPieceMessage } from '../../src/wire/protocol';
import { PictureError } from '../../src/wire/schema';

const BUFFERS = [[1, 2, 3], [], [4], [5, 6, 7, 8, 9], []];
const SIZES = BUFFERS.map(({ length }) => length);
const BYTES = BUFFERS.flat();

/** A view of bytes that are not at the beginning of their buffer. */
function viewOf(bytes: readonly number[]): DataView {
  return new DataView(Uint8Array.from([99, ...bytes, 99]).buffer, 1, bytes.length);
}

function piece(start: number, more: Partial<IPieceMessage> = {}): IPieceMessage {
  return { type: 'piece', seq: 7 + start, first: 7, start, sizes: SIZES, ...more };
}

const listed = (buffers: DataView[] | null): number[][] | null =>
  buffers?.map(({ buffer }) => [...new Uint8Array(buffer)]) ?? null;

describe('Pieces', () => {
  it.each([1, 2, 3, 4, 9])('are put together, %i bytes each', size => {
    const pieces = new Pieces();
    for (let at = 0; at < BYTES.length; at += size) {
      const bytes = BYTES.slice(at, at + size);
      // In one view or in two.
      pieces.take(piece(at), [viewOf(bytes.slice(0, 1)), viewOf(bytes.slice(1))]);
    }
    expect(listed(pieces.finish(7))).toEqual(BUFFERS);
    expect(pieces.finish(7)).toBeNull();
  });

  it('hold copies: what has come is not kept', () => {
    const pieces = new Pieces();
    const view = viewOf(BYTES);
    pieces.take(piece(0), [view]);
    const [first] = pieces.finish(7)!;
    view.setUint8(0, 77);
    expect(first.getUint8(0)).toBe(1);
    expect(first.buffer).not.toBe(view.buffer);
  });

  it('are no state while some are missing, or are those of another', () => {
    const pieces = new Pieces();
    pieces.take(piece(0), [viewOf(BYTES.slice(0, 4))]);
    expect(pieces.finish(7)).toBeNull();
    pieces.take(piece(0), [viewOf(BYTES)]);
    expect(pieces.finish(8)).toBeNull();
    // The middle one was lost.
    pieces.take(piece(0), [viewOf(BYTES.slice(0, 3))]);
    pieces.take(piece(6), [viewOf(BYTES.slice(6))]);
    expect(pieces.finish(7)).toBeNull();
    // This page came in the midst of it.
    pieces.take(piece(3), [viewOf(BYTES.slice(3))]);
    expect(pieces.finish(7)).toBeNull();
  });

  it('begin anew with the first of another state', () => {
    const pieces = new Pieces();
    pieces.take(piece(0), [viewOf(BYTES.slice(0, 5))]);
    pieces.take(piece(0, { seq: 20, first: 20, sizes: [2] }), [viewOf([8, 8])]);
    // A late one of the state before is none of it.
    expect(listed(pieces.finish(20))).toEqual([[8, 8]]);
  });

  it('are refused with more bytes than were told, before room is made', () => {
    const pieces = new Pieces();
    const many = viewOf([...BYTES, 10]);
    expect(() => {
      pieces.take(piece(0), [many]);
    }).toThrow(PictureError);
    expect(pieces.finish(7)).toBeNull();
  });

  it('make no room for buffers of which nothing comes', () => {
    const pieces = new Pieces();
    const sizes = Array<number>(28).fill(192_000_000);
    pieces.take(piece(0, { sizes: [1, ...sizes] }), [viewOf([1])]);
    const made = globalThis.ArrayBuffer;
    let bytes = 0;
    globalThis.ArrayBuffer = class extends made {
      constructor(size: number) {
        bytes += size;
        super(size);
      }
    } as typeof ArrayBuffer;
    try {
      expect(pieces.finish(7)).toBeNull();
    } finally {
      globalThis.ArrayBuffer = made;
    }
    expect(bytes).toBe(0);
  });
});
