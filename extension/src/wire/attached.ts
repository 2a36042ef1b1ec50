/**
 * Overrides and the history of their changes, read from untrusted data. What an
 * older kernel or notebook does not say is absent: nothing covered, no note.
 */

import {
  LIMITS,
  PictureError,
  boolean,
  finite,
  integer,
  list,
  nodeList,
  optional,
  quoted,
  record,
  text,
  within
} from './fields';
import { IEffect, IHistory, IOverride, Target } from './protocol';

export function checkOverrides(value: unknown, nodes: number): IOverride[] {
  return list(value, 'overrides', LIMITS.overrides).map((item, i) =>
    checkOverride(item, `overrides[${i}]`, nodes)
  );
}

/** What was changed; of a kernel that does not say, nothing. */
export function checkHistory(value: unknown): IHistory {
  const data = record(value ?? { done: [], undone: [] }, 'history');
  const texts = (name: 'done' | 'undone'): string[] =>
    list(data[name], `history.${name}`, LIMITS.overrides).map((item, i) =>
      text(item, `history.${name}[${i}]`)
    );
  return { done: texts('done'), undone: texts('undone') };
}

function checkOverride(value: unknown, where: string, nodes: number): IOverride {
  const data = record(value, where);
  const isData = boolean(data['data'], `${where}.data`);
  return {
    id: integer(data['id'], `${where}.id`),
    label: text(data['label'], `${where}.label`),
    rule: text(data['rule'], `${where}.rule`),
    data: isData,
    stored: boolean(data['stored'] ?? isData, `${where}.stored`),
    target: checkTarget(data['target'], `${where}.target`, nodes),
    enabled: boolean(data['enabled'], `${where}.enabled`),
    matched: nodeList(data['matched'], `${where}.matched`, nodes),
    covered: nodeList(data['covered'] ?? [], `${where}.covered`, nodes),
    note: text(data['note'] ?? '', `${where}.note`),
    effects: list(data['effects'], `${where}.effects`, LIMITS.nodes).map((item, i) =>
      checkEffect(item, `${where}.effects[${i}]`, nodes)
    ),
    code: text(data['code'], `${where}.code`)
  };
}

function checkTarget(value: unknown, where: string, nodes: number): Target {
  const data = record(value, where);
  const kind = data['kind'];
  switch (kind) {
    case 'node': {
      const node = integer(data['node'], `${where}.node`);
      within(node, 0, nodes, `${where}.node`);
      return { kind, node };
    }
    case 'op':
      return { kind, op: text(data['op'], `${where}.op`) };
    case 'scope':
      return { kind, scope: text(data['scope'], `${where}.scope`) };
    case 'other':
      return { kind, text: text(data['text'], `${where}.text`) };
    default:
      throw new PictureError(
        `${where}.kind is ${quoted(kind)}, not node, op, scope or other`
      );
  }
}

function checkEffect(value: unknown, where: string, nodes: number): IEffect {
  const data = record(value, where);
  const node = integer(data['node'], `${where}.node`);
  within(node, 0, nodes, `${where}.node`);
  return {
    node,
    name: text(data['name'], `${where}.name`),
    relative: optional(data['relative'], finite, `${where}.relative`),
    angle: optional(data['angle'], finite, `${where}.angle`)
  };
}
