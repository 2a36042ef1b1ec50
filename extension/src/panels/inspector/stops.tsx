/** At which gradients of the selected node a loop of runs stops; and a field for more. */

import { type JSX, type KeyboardEvent, type ReactNode, useState } from 'react';

import { Button, IconButton } from '../../ui/controls';
import { errorText } from '../../ui/words';
import type { IHost } from '../host';
import { Part } from '../part';

/** The conditions; each but the first takes a number. */
const CONDITIONS = {
  not_finite: { words: 'is not finite', unit: null },
  norm_above: { words: 'has a norm above', unit: '' },
  norm_below: { words: 'has a norm below', unit: '' },
  angle_above: { words: 'turns by more than', unit: '°' }
} as const;
type Kind = keyof typeof CONDITIONS;

export class StopConditions extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Stops');
  }

  protected render(): ReactNode {
    const { state, connection, recording } = this.host;
    const { graph, selected: node } = state;
    const stops =
      graph === null || node === null
        ? []
        : graph.header.stops.filter(({ nodes }) => nodes.includes(node));
    const offers =
      connection !== null &&
      recording.shown === null &&
      node !== null &&
      graph?.hasGradient(node) === true;
    this.setHidden(stops.length === 0 && !offers);
    return (
      <>
        {stops.map(stop => (
          <div key={stop.id} className="workbench-Stop">
            <span aria-hidden="true">⚑</span>
            <span className="workbench-StopText">{`A loop stops when ${stop.text}`}</span>
            {connection !== null && (
              <IconButton
                icon="close"
                label={`Remove: a loop stops when ${stop.text}`}
                onClick={() => this.host.asking.removeStop(stop)}
              />
            )}
          </div>
        ))}
        {offers && <StopForm key={node} host={this.host} node={node} />}
      </>
    );
  }
}

/** "Stop a loop when its gradient … [Stop there]", open once it is asked for. */
function StopForm({ host, node }: { host: IHost; node: number }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [kind, setKind] = useState<Kind>('not_finite');
  const [text, setText] = useState('');
  const [refusal, setRefusal] = useState('');
  if (!open) {
    return (
      <Button
        look="link"
        title="Let a loop of runs end at the first one whose gradient breaks here"
        onClick={() => setOpen(true)}
      >
        Stop a loop here …
      </Button>
    );
  }
  const { unit } = CONDITIONS[kind];
  const number = Number(text);
  const isReady = unit === null || (text.trim() !== '' && number >= 0);
  const attach = (): void => {
    host.asking
      .stopWhen({
        node,
        not_finite: kind === 'not_finite',
        ...(kind !== 'not_finite' && { [kind]: number })
      })
      .then(() => {
        setOpen(false);
        setText('');
        setRefusal('');
      })
      .catch((error: unknown) => setRefusal(errorText(error)));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && isReady) {
      event.preventDefault();
      attach();
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      setOpen(false);
      host.focusGraph();
    }
  };
  return (
    <div
      className="workbench-StopForm"
      role="group"
      aria-label="Stop a loop here"
      data-lm-suppress-shortcuts="true"
    >
      <label>
        Stop a loop when its gradient{' '}
        <select
          className="workbench-Select"
          value={kind}
          onChange={event => setKind(event.currentTarget.value as Kind)}
        >
          {Object.entries(CONDITIONS).map(([value, { words }]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {unit !== null && (
        <input
          className="workbench-Input"
          inputMode="decimal"
          aria-label={`${CONDITIONS[kind].words}${unit && ', in degrees'}`}
          placeholder={unit === '' ? '100' : '90°'}
          value={text}
          onChange={event => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
      )}
      <Button look="outlined" disabled={!isReady} onClick={attach}>
        Stop there
      </Button>
      <Button look="link" onClick={() => setOpen(false)}>
        Cancel
      </Button>
      {refusal !== '' && (
        <p className="workbench-Refusal" role="alert">
          {refusal}
        </p>
      )}
    </div>
  );
}
