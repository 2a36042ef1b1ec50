/** Another rule for an override, written where it stands in the list. */

import { button, element } from '../../ui/dom';
import type { IOverride } from '../../wire/protocol';
import type { IHost } from '../host';

/** Milliseconds without a key before the kernel is asked about a rule. */
const PAUSE = 150;

export class RuleEdit {
  readonly node = element('form', { class: 'workbench-RuleEdit' });

  constructor(
    private readonly _host: IHost,
    private _override: IOverride,
    /** It is applied, or given up. */
    private readonly _onDone: () => void
  ) {
    this._field = element('input', {
      class: 'workbench-Input',
      attributes: {
        type: 'text',
        'aria-label': `Rule of ${_override.label}`,
        spellcheck: 'false',
        autocomplete: 'off',
        maxlength: '1000'
      }
    });
    this._field.value = _override.rule;
    this._field.addEventListener('input', () => {
      this._refused = false;
      this._show('', null);
      clearTimeout(this._timer);
      this._timer = setTimeout(() => {
        this._check();
      }, PAUSE);
    });
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        this._close();
      } else if (event.key === 'Enter' && event.target === this._field) {
        // Notebooks do not let a form submit itself by Enter.
        event.preventDefault();
        event.stopPropagation();
        this._submit();
      }
    });
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      this._submit();
    });
    this.node.append(
      element('div', { class: 'workbench-Field' }, [this._field, this._apply]),
      element('div', { class: 'workbench-Under' }, [
        this._message,
        button('link', 'Cancel', () => {
          this._close();
        })
      ])
    );
    this._show('', null);
  }

  focus(): void {
    this._field.focus();
    this._field.select();
  }

  /** What the kernel says of the override now; what was written stays. */
  update(override: IOverride): void {
    this._override = override;
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._question += 1;
  }

  private _close(): void {
    this.dispose();
    this._onDone();
  }

  private _check(): void {
    const question = ++this._question;
    const { connection } = this._host;
    const rule = this._field.value.trim();
    if (connection === null || rule === '') {
      return;
    }
    const { target, id } = this._override;
    connection.checkExpression(target, rule, id).then(
      ({ ok, message }) => {
        if (question === this._question) {
          this._show(message || (ok ? 'ok' : 'not a rule'), ok);
        }
      },
      (error: unknown) => {
        if (question === this._question) {
          this._show(wordsOf(error), false);
        }
      }
    );
  }

  private _submit(): void {
    if (this._apply.disabled) {
      return;
    }
    clearTimeout(this._timer);
    const question = ++this._question;
    this._apply.disabled = true;
    this._host.asking.edit(this._override, this._field.value.trim()).then(
      () => {
        this._close();
      },
      (error: unknown) => {
        if (question === this._question) {
          this._show(wordsOf(error), false);
        }
      }
    );
  }

  private _show(message: string, ok: boolean | null): void {
    const rule = this._field.value.trim();
    this._refused = ok === false;
    this._message.textContent = message;
    this._message.classList.toggle('workbench-mod-bad', this._refused);
    this._field.setAttribute('aria-invalid', String(this._refused));
    this._apply.disabled = rule === '' || this._refused || rule === this._override.rule;
  }

  private readonly _field: HTMLInputElement;
  private readonly _apply = button('primary', 'Apply', () => undefined, {
    attributes: { type: 'submit' }
  });
  private readonly _message = element('span', {
    class: 'workbench-Message',
    role: 'status',
    attributes: { 'aria-live': 'polite' }
  });
  private _refused = false;
  private _question = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
