/** The tree of all that can be folded, from the paths of the nodes. */

/** A scope, a scope inside one, or a loop ("×200 · line 4"), with what is in it. */
export interface IScope {
  /** "encoder/layer1" */
  path: string;
  /** "layer1" */
  name: string;
  /** The path of the scope around it; null at the top. */
  parent: string | null;
  depth: number;
  /** How many nodes stand in it and in the scopes inside it. */
  nodes: number;
  /** The smallest and the largest of their ids. */
  first: number;
  last: number;
}

/** The scopes on the paths of all nodes, each after the one around it. */
export function scopesOf(
  count: number,
  pathOf: (node: number) => string
): Map<string, IScope> {
  const scopes = new Map<string, IScope>();
  const known = new Map<string, string[]>();
  for (let node = 0; node < count; node++) {
    const innermost = pathOf(node);
    let paths = known.get(innermost);
    if (paths === undefined) {
      paths = pathsTo(innermost);
      known.set(innermost, paths);
    }
    for (const path of paths) {
      const scope = scopes.get(path);
      if (scope === undefined) {
        const cut = path.lastIndexOf('/');
        const parent = cut < 0 ? null : path.slice(0, cut);
        scopes.set(path, {
          path,
          name: path.slice(cut + 1),
          parent,
          depth: parent === null ? 0 : (scopes.get(parent)?.depth ?? 0) + 1,
          nodes: 1,
          first: node,
          last: node
        });
      } else {
        scope.nodes++;
        scope.last = node;
      }
    }
  }
  return scopes;
}

/** "a/b/c" is in "a", "a/b" and "a/b/c". */
function pathsTo(scope: string): string[] {
  if (scope === '') {
    return [];
  }
  const parts = scope.split('/');
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}
