/**
 * The bar of a comparison: what is compared with what, how it is seen, and the way back
 * to one graph.
 */

import type { JSX, ReactNode } from 'react';

import { type Quantity, changeOf, isAsBad, rankChanges } from '../../model/comparison';
import type { ComparedView, Graph, Measure } from '../../model/graph';
import type { Recording, Side } from '../../model/recording';
import { Button, Segments } from '../../ui/controls';
import type { Box } from '../../ui/dom';
import { formatCount, formatPlural } from '../../ui/numbers';
import { factorText } from '../../ui/words';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

const VIEWS = [
  {
    value: 'colours',
    label: 'Difference',
    title: 'One picture: colours tell what became of each norm'
  },
  {
    value: 'beside',
    label: 'Side by side',
    title: 'Two pictures that move and fold together'
  }
] as const;

const MEASURES = [
  { value: 'ratio', label: '× ratio', title: 'Colours tell the ratio of the norms' },
  {
    value: 'difference',
    label: '± difference',
    title: 'Colours tell the difference of the norms'
  }
] as const;

export class CompareBar extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Compare');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Comparison');
    // Its keys are its own: a notebook would take them to walk its cells.
    this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
    this.setHidden(true);
  }

  /** Leave the comparison by Escape, in it or a place of a panel where nothing takes it. */
  hearEscape(panel: HTMLElement, places: readonly Box[]): void {
    panel.addEventListener('keydown', event => {
      const { target } = event;
      if (
        event.key === 'Escape' &&
        !event.defaultPrevented &&
        !this.isHidden &&
        target instanceof Node &&
        [this, ...places].some(({ node }) => node.contains(target))
      ) {
        event.preventDefault();
        event.stopPropagation();
        this.host.recording.compareWith(null);
        this.host.focusGraph();
      }
    });
  }

  override refresh(reason: Reason): void {
    if (reason === 'hover' || reason === 'selection') {
      return;
    }
    const { recording, state } = this.host;
    this.setHidden(recording.against === null || state.stage === 'simplified');
    if (!this.isHidden) {
      this.draw();
    }
  }

  protected render(): ReactNode {
    const { recording, state } = this.host;
    const { against, view, measure, sides } = recording;
    if (against === null) {
      return null;
    }
    return (
      <>
        <SideChoice recording={recording} side={against} />
        <span className="workbench-CompareAfter">
          <span aria-hidden="true">→</span>
          <span className="workbench-RunLetter">B</span>
          {sides.after}
        </span>
        <Segments<ComparedView>
          label="How two states are seen"
          look="segments"
          choices={VIEWS}
          chosen={view}
          onChoose={chosen => recording.setView(chosen)}
        />
        <Segments<Measure>
          label="What colours tell"
          look="segments"
          choices={MEASURES}
          chosen={measure}
          hidden={view !== 'colours'}
          onChoose={chosen => recording.setMeasure(chosen)}
        />
        <div className="workbench-CompareEnd">
          <span className="workbench-CompareText" role="status">
            {this._text(state.graph)}
          </span>
          <Button
            look="outlined"
            title="Show one graph again (Escape)"
            onClick={() => {
              recording.compareWith(null);
              this.host.focusGraph();
            }}
          >
            Done
          </Button>
        </div>
      </>
    );
  }

  /** "31 nodes changed, most: w × 0.12", with a way to the node. */
  private _text(graph: Graph | null): ReactNode {
    const { problem } = this.host.recording;
    if (problem !== null) {
      return problem;
    }
    if (graph === null || graph.compared === null) {
      return 'waiting for the kernel …';
    }
    const ranked = rankChanges(graph);
    const [first] = ranked;
    return ranked.length === 0 ? (
      'no norm differs'
    ) : (
      <>
        {`${formatPlural(ranked.length, 'node')} changed, most: `}
        <Button
          look="link"
          onClick={() => {
            this.host.state.selectAlone(first);
            this.host.find(first);
          }}
        >
          {`${graph.label(first)} ${tellChange(graph, first)}`.trim()}
        </Button>
      </>
    );
  }
}

/** "× 0.12", "new", "NaN": the larger change of a node. */
function tellChange(graph: Graph, node: number): string {
  const changes = (['gradient', 'value'] satisfies Quantity[])
    .map(what => changeOf(graph, node, what))
    .filter(change => change !== null)
    .filter(change => !isAsBad(change));
  const odd = changes.find(({ fate }) => fate === 'bad' || fate === 'came' || fate === 'went');
  if (odd !== undefined) {
    return odd.fate === 'bad' ? 'NaN, inf' : odd.fate === 'came' ? 'new' : 'gone';
  }
  const far = ({ before, after }: (typeof changes)[number]): number =>
    Math.abs(Math.log2(after / before)) || 0;
  const [most] = changes.sort((a, b) => far(b) - far(a));
  return factorText(most);
}

/** What is compared with: a run by its number, now, without overrides, a session. */
function SideChoice({
  recording,
  side
}: {
  recording: Recording;
  side: Side;
}): JSX.Element {
  const { base, peers, count, canGo, hasOverrides } = recording;
  const value = side.kind === 'session' ? `session ${side.name}` : side.kind;
  return (
    <>
      <label className="workbench-Group">
        <span>Compare</span>
        <span className="workbench-RunLetter">A</span>
        <select
          className="workbench-Select"
          aria-label="Compare with"
          value={value}
          onChange={event => recording.compareWith(sideOf(event.currentTarget.value))}
        >
          {canGo && <option value="run">run</option>}
          <option value="now">now</option>
          {(hasOverrides || side.kind === 'true') && (
            <option value="true">without overrides</option>
          )}
          {peers.map(({ name, refused }) => (
            <option
              key={name}
              value={`session ${name}`}
              disabled={refused !== ''}
              title={refused}
            >
              {refused === ''
                ? recording.nameSession(name)
                : `${recording.nameSession(name)}: ${refused}`}
            </option>
          ))}
        </select>
      </label>
      {side.kind === 'run' && (
        <input
          className="workbench-Input workbench-RunNumber"
          type="number"
          min="1"
          max={count}
          aria-label={`Run to compare with, 1 to ${formatCount(count)}`}
          title="Shift and a click on the strip choose it too"
          value={side.step}
          onChange={event => {
            const step = event.currentTarget.valueAsNumber;
            if (Number.isInteger(step) && step >= 1 && step <= count) {
              recording.compareWith({ kind: 'run', step });
            }
          }}
        />
      )}
      {side.kind === 'run' && base !== side.step && (
        <span title="Not every run is kept: this is the nearest">{`run ${base}`}</span>
      )}
    </>
  );
}

/** The side that an entry of the list stands for. */
function sideOf(value: string): Side {
  return value === 'now' || value === 'true'
    ? { kind: value }
    : value === 'run'
      ? { kind: 'run', step: 1 }
      : { kind: 'session', name: value.slice('session '.length) };
}
