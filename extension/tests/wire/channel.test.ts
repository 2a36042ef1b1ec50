import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Gate, waitForLane } from '../../src/wire/channel';
import type { PageEvent } from '../../src/wire/protocol';

const ack = (seq: number): PageEvent => ({ type: 'event', seq, event: 'ack', of: seq });

describe('Gate', () => {
  let sent: number[];

  const gateFor = (ready: Promise<unknown> | null): Gate =>
    new Gate(event => sent.push(event.seq), ready);

  /** Let promises that are settled be told. */
  const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

  beforeEach(() => {
    vi.useFakeTimers();
    sent = [];
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is open where there is nothing to wait for', () => {
    gateFor(null).send(ack(1));
    expect(sent).toEqual([1]);
  });

  it('keeps events, and their order, until it is ready', async () => {
    let open = (): void => undefined;
    const gate = gateFor(
      new Promise<void>(resolve => {
        open = resolve;
      })
    );
    gate.send(ack(1));
    gate.send(ack(2));
    await settle();
    expect(sent).toEqual([]);
    open();
    gate.send(ack(3));
    await settle();
    gate.send(ack(4));
    expect(sent).toEqual([1, 2, 3, 4]);
    await vi.advanceTimersByTimeAsync(5000);
    expect(sent).toEqual([1, 2, 3, 4]);
  });

  it('keeps the order of what is sent while it opens', async () => {
    const seen: number[] = [];
    const gate: Gate = new Gate(({ seq }) => {
      seen.push(seq);
      if (seq === 1) {
        gate.send(ack(3));
      }
    }, Promise.resolve());
    gate.send(ack(1));
    gate.send(ack(2));
    await settle();
    expect(seen).toEqual([1, 2, 3]);
  });

  it('waits two seconds and no longer', async () => {
    const gate = gateFor(new Promise(() => undefined));
    gate.send(ack(1));
    await vi.advanceTimersByTimeAsync(1999);
    expect(sent).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(sent).toEqual([1]);
    gate.send(ack(2));
    expect(sent).toEqual([1, 2]);
  });

  it('opens when it cannot be made ready', async () => {
    const gate = gateFor(Promise.reject(new Error('no subshell')));
    gate.send(ack(1));
    await settle();
    expect(sent).toEqual([1]);
  });

  it('sends nothing once it is closed', async () => {
    const gate = gateFor(Promise.resolve());
    gate.send(ack(1));
    gate.close();
    gate.send(ack(2));
    await vi.advanceTimersByTimeAsync(5000);
    expect(sent).toEqual([]);
  });
});

describe('waitForLane', () => {
  const started = Promise.resolve();
  const info = Promise.resolve();

  it('has nothing to wait for without a comm of JupyterLab, or without a lane', () => {
    expect(waitForLane(undefined, null)).toBeNull();
    expect(waitForLane({}, { info, supportsSubshells: true })).toBeNull();
    const disabled = { subshellStarted: started, commsOverSubshells: 'disabled' };
    expect(waitForLane(disabled, { info, supportsSubshells: true })).toBeNull();
  });

  it('waits for the subshell, where the kernel has some', async () => {
    let ready = false;
    let start = (): void => undefined;
    const subshellStarted = new Promise<void>(resolve => {
      start = resolve;
    });
    const lane = { subshellStarted, commsOverSubshells: 'perCommTarget' };
    const alone = waitForLane(lane, null);
    const waiting = waitForLane(lane, { info, supportsSubshells: true })?.then(is => {
      ready = true;
      return is;
    });
    await info;
    await Promise.resolve();
    expect(ready).toBe(false);
    start();
    await expect(waiting).resolves.toBe(true);
    await expect(alone).resolves.toBe(true);
  });

  it('has no lane where the subshell failed', async () => {
    const lane = { subshellStarted: Promise.reject(new Error('no')) };
    await expect(waitForLane(lane, null)).resolves.toBe(false);
  });

  it('does not wait for a subshell that a kernel cannot have', async () => {
    const never = { subshellStarted: new Promise<void>(() => undefined) };
    await expect(
      waitForLane(never, { info, supportsSubshells: false })
    ).resolves.toBe(false);
  });
});
