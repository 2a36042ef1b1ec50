/** Links that panels share: to code, to what overrides do, to nodes and their lines. */

import { type JSX, useEffect, useState } from 'react';

import type { Graph } from '../model/graph';
import { Button, classes } from '../ui/controls';
import type { IOverride } from '../wire/protocol';
import type { INodeHost } from './host';

/** The label of an override, as it stands beside the node in the picture. */
export function Pill({
  override,
  text = override.label
}: {
  override: IOverride;
  text?: string;
}): JSX.Element {
  const off = !override.enabled && 'workbench-mod-off';
  return (
    <span className={classes('workbench-Pill', off)} title={override.rule}>
      {text}
    </span>
  );
}

const STRANGE =
  'Copied from the saved picture, which anyone may have written. Read it before ' +
  'you run it:';

/** Milliseconds for which a link says that it has copied. */
const SAID = 1500;

/**
 * Put code on the clipboard, and say that it is there. What no kernel has said is
 * shown as it was copied: nobody should run what was never seen.
 */
export function CopyLink({
  host,
  code,
  label
}: {
  host: INodeHost;
  code: string;
  label: string;
}): JSX.Element {
  // The code that was copied, and shown: of another one neither is said.
  const [copied, setCopied] = useState<string | null>(null);
  const [shown, setShown] = useState<string | null>(null);
  useEffect(() => {
    const rest = (): void => setCopied(null);
    const timer = copied !== null ? setTimeout(rest, SAID) : undefined;
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <>
      <Button
        look="link"
        title={code}
        onClick={() => {
          setShown(host.connection === null ? code : null);
          void host.copy(code).then(done => setCopied(done ? code : null));
        }}
      >
        {copied === code ? 'Copied' : label}
      </Button>
      {shown === code && (
        <div className="workbench-Array workbench-Copied">
          <div className="workbench-Quiet">{STRANGE}</div>
          <pre>{shown}</pre>
        </div>
      )}
    </>
  );
}

// Where something is: links to a node in the picture and to its line in the cell.

/** Select a node, bring it into the middle, and light up a way through the graph. */
export function goTo(host: INodeHost, node: number, path: readonly number[] = []): void {
  host.state.selectAlone(node);
  if (path.length > 1) {
    host.state.showTrail(path);
  }
  host.centre(node);
}

interface INodeProps {
  host: INodeHost;
  graph: Graph;
  node: number;
}

export function NodeLink({
  host,
  graph,
  node,
  path = []
}: INodeProps & { path?: readonly number[] }): JSX.Element {
  const label = graph.label(node);
  return (
    <Button
      look="link"
      className="workbench-NodeLink"
      title={path.length > 1 ? 'Select it, and show the path from it' : 'Select it'}
      aria-label={`Select the node ${label}`}
      onClick={() => goTo(host, node, path)}
    >
      {label}
    </Button>
  );
}

/** The line that made a node, as a button where there is a cell to go to. */
export function SourceLine({ host, graph, node }: INodeProps): JSX.Element | null {
  const place = graph.place(node);
  const line = graph.source(node).trim();
  if (place === '' && line === '') {
    return null;
  }
  const text = (
    <>
      <span className="workbench-Place">{place}</span>
      <code>{line}</code>
    </>
  );
  return host.canReveal ? (
    <button
      type="button"
      className="workbench-Source"
      title={`Go to this line: ${line}`}
      onClick={() => host.reveal(node)}
    >
      {text}
    </button>
  ) : (
    <div className="workbench-Source" title={line}>
      {text}
    </div>
  );
}
