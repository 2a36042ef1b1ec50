/**
 * A large state comes in pieces, so that the page stands still for none of them: here
 * they are put together. `workbench/jupyter/sending.py` cuts it.
 */

import type { IPieceMessage } from './protocol';
import { PictureError } from './schema';

const EMPTY = new ArrayBuffer(0);

export class Pieces {
  /**
   * Take a piece: the first of a state lets go of what has come of another one, and so
   * does one that does not follow the one before.
   */
  take({ seq, first, start, sizes }: IPieceMessage, parts: readonly DataView[]): void {
    if (seq === first && start === 0) {
      this._begin(first, sizes);
    } else if (first !== this._first || start !== this._bytes) {
      this.clear();
      return;
    }
    for (const part of parts) {
      this._add(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
    }
  }

  /** The buffers of a state, ours to keep; null if not all of its pieces have come. */
  finish(first: number): DataView<ArrayBuffer>[] | null {
    const isWhole = first === this._first && this._bytes === this._total;
    const buffers = this._buffers;
    const count = isWhole ? this._sizes.length : 0;
    this.clear();
    // Of a buffer without bytes no piece has come.
    return isWhole
      ? Array.from({ length: count }, (_, i) => new DataView(buffers[i] ?? EMPTY))
      : null;
  }

  /** Let go of what has come. */
  clear(): void {
    this._begin(null, []);
  }

  private _begin(first: number | null, sizes: readonly number[]): void {
    this._first = first;
    this._sizes = sizes;
    this._total = sizes.reduce((sum, size) => sum + size, 0);
    this._bytes = 0;
    this._at = 0;
    this._filled = 0;
    this._buffers = [];
  }

  /** Lay bytes into the buffer that is not full, and those after it. */
  private _add(part: Uint8Array): void {
    if (part.length > this._total - this._bytes) {
      const total = this._total;
      this.clear();
      throw new PictureError(`the pieces of a state hold more than its ${total} bytes`);
    }
    this._bytes += part.length;
    while (part.length > 0) {
      const size = this._sizes[this._at];
      // Room is made for one buffer at a time, once those before it are full.
      const buffer = (this._buffers[this._at] ??= new ArrayBuffer(size));
      const here = part.subarray(0, size - this._filled);
      new Uint8Array(buffer).set(here, this._filled);
      part = part.subarray(here.length);
      this._filled += here.length;
      if (this._filled === size) {
        this._at += 1;
        this._filled = 0;
      }
    }
  }

  /** The number of the first piece of the state that is put together. */
  private _first: number | null = null;
  private _sizes: readonly number[] = [];
  private _total = 0;
  /** How many bytes have come. */
  private _bytes = 0;
  /** The buffer that is being filled, and how many bytes of it are. */
  private _at = 0;
  private _filled = 0;
  private _buffers: (ArrayBuffer | undefined)[] = [];
}
