// @vitest-environment jsdom
import '../../helpers/browser';

import { describe, expect, test } from 'vitest';

import { checkMessage } from '../../../src/wire/guards';
import { whole } from '../../helpers/channel';
import { network } from '../../helpers/network';

describe('what the kernel says of the inside of a node', () => {
  const message = (fields: object): unknown => ({
    type: 'inside',
    seq: 1,
    request: 2,
    path: [{ node: 3, step: 17 }],
    step: 17,
    steps: 500,
    marks: [0, 250],
    norms: [1.5, null],
    ...whole(network().header),
    ...fields
  });

  test('is read', () => {
    expect(checkMessage(message({}))).toMatchObject({ type: 'inside', step: 17 });
    const bare = { step: null, steps: null, marks: [], norms: [] };
    expect(checkMessage(message(bare))).toMatchObject(bare);
  });

  test.each([
    [{ step: 500 }, 'at step 500 of 500'],
    [{ step: null }, 'at step null of 500'],
    [{ steps: null }, 'at step 17 of null'],
    [{ marks: [0] }, 'came with 1 marks, 2 norms'],
    [{ marks: [0, 500] }, 'a loop of 500 steps came with'],
    [{ path: [] }, 'path has 0 entries'],
    [{ path: [{ node: -1, step: 0 }] }, 'path[0].node'],
    [{ norms: ['x', 1] }, 'norms[0]']
  ])('is refused as %j', (fields, text) => {
    expect(() => checkMessage(message(fields))).toThrow(text);
  });
});
