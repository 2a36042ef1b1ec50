/** A fix that changes the program: its lines as a diff, applied on a click, undone. */

import { type JSX, useState } from 'react';

import { Button } from '../../ui/controls';
import { errorText } from '../../ui/words';
import type { IEdit } from '../../wire/protocol';
import type { IHost } from '../host';

/** The button that shows what would change, and then that which changes it. */
export function EditOffer({
  host,
  edit,
  stale
}: {
  host: IHost;
  edit: IEdit;
  stale: boolean;
}): JSX.Element | null {
  const [shown, setShown] = useState<IEdit | null>(null);
  const [busy, setBusy] = useState(false);
  const { connection, editing } = host;
  if (connection === null || editing === null) {
    return null;
  }
  const refusal = shown === edit ? editing.explainRefusal(edit) : '';
  const apply = (): void => {
    setBusy(true);
    editing
      .apply(edit)
      .catch((error: unknown) => host.say(errorText(error), 'error'))
      .finally(() => setBusy(false));
  };
  return (
    <>
      <Button
        look="outlined"
        disabled={stale}
        aria-expanded={shown === edit}
        title={
          stale
            ? 'Found before the last change of the session: diagnose again first'
            : 'Show what would change in the cell'
        }
        onClick={() => setShown(shown === edit ? null : edit)}
      >
        Apply to cell …
      </Button>
      {shown === edit && !stale && (
        <div className="workbench-EditOffer" role="group" aria-label="Change of the cell">
          <div className="workbench-Quiet">{placeText(edit)}</div>
          <Diff edit={edit} />
          {refusal !== '' && (
            <p className="workbench-Refusal" role="alert">
              {refusal}
            </p>
          )}
          <div className="workbench-Row">
            <Button
              look="primary"
              disabled={refusal !== '' || busy}
              title="Change the cell and run it again; undo takes it back"
              onClick={apply}
            >
              Apply and run
            </Button>
            <Button look="link" onClick={() => setShown(null)}>
              Cancel
            </Button>
          </div>
        </div>
      )}
    </>
  );
}

/** What was changed last, as long as the cell has it so, and the way back. */
export function LastEdit({ host }: { host: IHost }): JSX.Element | null {
  const [busy, setBusy] = useState(false);
  const edit = host.editing?.applied ?? null;
  if (edit === null) {
    return null;
  }
  return (
    <div className="workbench-EditOffer" role="group" aria-label="Changed in the cell">
      <div className="workbench-Quiet">{`Changed: ${placeText(edit)}`}</div>
      <Diff edit={edit} />
      <div className="workbench-Row">
        <Button
          look="outlined"
          disabled={busy}
          title="Put the old lines back and run the cell again"
          onClick={() => {
            setBusy(true);
            host.editing
              ?.undo()
              .catch((error: unknown) => host.say(errorText(error), 'error'))
              .finally(() => setBusy(false));
          }}
        >
          Undo in the cell
        </Button>
      </div>
    </div>
  );
}

/** "cell [3], line 2" */
function placeText({ cell, line, before }: IEdit): string {
  const last = line + before.length - 1;
  return `cell [${cell}], ${last > line ? `lines ${line} to ${last}` : `line ${line}`}`;
}

/** The lines that go and that come: text, and a sign beside the colour. */
function Diff({ edit: { before, after } }: { edit: IEdit }): JSX.Element {
  const indent = Math.min(
    ...[...before, ...after]
      .filter(line => line.trim() !== '')
      .map(line => line.length - line.trimStart().length)
  );
  return (
    <div className="workbench-Diff">
      {before.map((line, i) => (
        <del key={`old ${i}`}>
          <span aria-hidden="true">−</span>
          <code>{line.slice(indent)}</code>
        </del>
      ))}
      {after.map((line, i) => (
        <ins key={`new ${i}`}>
          <span aria-hidden="true">+</span>
          <code>{line.slice(indent)}</code>
        </ins>
      ))}
    </div>
  );
}
