/**
 * The bar above the graph: what it is, what is drawn, and what can be done with
 * the whole of it.
 */

import { Widget } from '@lumino/widgets';

import type { Graph } from '../../model/graph';
import type { Colouring, Stage } from '../../model/state';
import { Segments, button, element, icon } from '../../ui/dom';
import { formatNumber, formatPlural, formatSeconds } from '../../ui/numbers';
import { summaryOf } from '../../ui/words';
import type { IHost, Reason } from '../host';

const STAGES = [
  { value: 'traced', label: 'Traced', title: 'The forward graph as the cell ran' },
  { value: 'derivative', label: 'Derivative', title: 'With the gradient of each node' }
] as const;

const COLOURINGS: readonly { value: Colouring; label: string }[] = [
  { value: 'gradient', label: 'gradient' },
  { value: 'value', label: 'value' },
  { value: 'change', label: 'change' },
  { value: 'none', label: 'none' }
];

export class TopBar extends Widget {
  constructor(private readonly _host: IHost) {
    super({ node: element('div', { role: 'toolbar' }) });
    this.addClass('workbench-TopBar');
    this.node.setAttribute('aria-label', 'Graph');
    const state = _host.state;

    this._stages = new Segments<Stage>('Stage', 'segments', stage => {
      state.setStage(stage);
    });
    this._stages.setChoices(STAGES);

    this._search = element('input', {
      class: 'workbench-Input workbench-Search',
      title: 'Search nodes ( / )',
      attributes: {
        type: 'search',
        placeholder: 'Search',
        'aria-label': 'Search nodes by name, op, shape, scope or line',
        spellcheck: 'false',
        autocomplete: 'off'
      }
    });
    this._search.addEventListener('input', () => {
      state.search(this._search.value);
    });
    this._search.addEventListener('keydown', event => {
      this._onSearchKey(event);
    });

    this._colour = element(
      'select',
      {
        class: 'workbench-Select workbench-mod-quiet workbench-Colour',
        attributes: { 'aria-label': 'Colour', 'data-lm-suppress-shortcuts': 'true' }
      },
      COLOURINGS.map(({ value, label }) =>
        element('option', { text: label, attributes: { value } })
      )
    );
    this._colour.addEventListener('change', () => {
      state.setColouring(this._colour.value as Colouring);
    });

    this._undo = this._iconButton('undo', 'Undo', () => {
      _host.asking.undo();
    });
    this._redo = this._iconButton('redo', 'Redo', () => {
      _host.asking.redo();
    });
    this._steps = this._iconButton('steps', 'Step through both sweeps', () => {
      state.setStep(state.step === null ? 0 : null);
    });
    this._plots = this._iconButton('plot', 'Jacobian, Hessian, gradient check', () => {
      _host.toggleDrawer();
    });
    this._panel = this._iconButton('panel', 'Inspector', () => {
      _host.toggleInspector();
    });

    this.node.append(
      element('div', { class: 'workbench-Group workbench-Title' }, [
        this._name,
        this._value
      ]),
      this._stages.node,
      element('div', { class: 'workbench-SearchField' }, [this._search, this._hits]),
      element('label', { class: 'workbench-Group workbench-Quiet' }, [
        element('span', { class: 'workbench-WideOnly', text: 'Colour:' }),
        this._colour
      ]),
      this._found,
      element('div', { class: 'workbench-Space' }),
      element('div', { class: 'workbench-Group workbench-Buttons' }, [
        this._undo,
        this._redo,
        this._iconButton('fit', 'Fit the graph into view', () => {
          _host.fitGraph();
        }),
        this._steps,
        this._plots,
        this._panel
      ]),
      element('div', { class: 'workbench-Group workbench-Quiet' }, [
        this._spinner,
        this._size,
        this._time,
        this._backend
      ])
    );
  }

  /** Put the keyboard into the search field. */
  focusSearch(): void {
    this._search.focus();
    this._search.select();
  }

  refresh(reason: Reason): void {
    if (reason === 'hover') {
      return;
    }
    if (reason === 'selection') {
      this._showHits();
      return;
    }
    const { state, connection } = this._host;
    const header = state.graph?.header;
    this._stages.choose(state.stage);
    this._colour.value = state.colouring;
    this._showHits();
    this._name.textContent = header?.session ?? '';
    this._value.textContent =
      header === undefined
        ? ''
        : header.output_value === null
          ? header.output_name
          : `${header.output_name} = ${formatNumber(header.output_value, 4)}`;
    this._showFound(state.graph);
    this._name.title = this._name.textContent;
    this._value.title = this._value.textContent;
    this._showUndo(this._undo, 'Undo', connection && (header?.undo ?? null));
    this._showUndo(this._redo, 'Redo', connection && (header?.redo ?? null));
    this._press(this._steps, state.step !== null, (state.graph?.count ?? 0) > 0);
    this._press(this._plots, this._host.drawerOpen, true);
    this._press(this._panel, this._host.inspectorOpen, true);
    this._size.textContent =
      header === undefined ? '' : formatPlural(header.nodes, 'node');
    this._time.textContent =
      header === undefined ? '' : `· ${formatSeconds(header.seconds)}`;
    this._spinner.hidden = !(connection?.busy ?? false);
    this._showBackend(header?.backend ?? '', connection !== null);
  }

  /** What checks and the doctor found, in a few words; nothing if it is nothing. */
  private _showFound(graph: Graph | null): void {
    const found = graph === null ? null : summaryOf(graph);
    this._found.hidden = found === null;
    if (found !== null) {
      const label = `${found.text}: show checks`;
      this._found.replaceChildren(
        icon(found.severity),
        element('span', { class: 'workbench-FoundText', text: found.text }),
        element('span', { class: 'workbench-FoundCount', text: found.count })
      );
      this._found.className =
        `workbench-Button workbench-Found workbench-mod-${found.severity}` +
        (found.stale ? ' workbench-mod-stale' : '');
      this._found.title = found.stale ? `${label} (before the last change)` : label;
      this._found.setAttribute('aria-label', this._found.title);
    }
  }

  private _showHits(): void {
    const { query, matches, selected } = this._host.state;
    const hits = [...matches];
    const at = selected === null ? -1 : hits.indexOf(selected);
    this._hits.textContent =
      query === ''
        ? ''
        : hits.length === 0
          ? 'none'
          : at < 0
            ? formatPlural(hits.length, 'hit')
            : `${at + 1}/${hits.length}`;
    if (query === '' && document.activeElement !== this._search) {
      this._search.value = '';
    }
  }

  private _showUndo(node: HTMLButtonElement, verb: string, what: string | null): void {
    if (what === null && node === document.activeElement) {
      // A disabled button would drop the keyboard out of the graph.
      this._host.focusGraph();
    }
    node.disabled = what === null;
    const label =
      what === null ? `Nothing to ${verb.toLowerCase()}` : `${verb}: ${what}`;
    node.title = label;
    node.setAttribute('aria-label', label);
  }

  private _press(node: HTMLButtonElement, pressed: boolean, enabled: boolean): void {
    node.setAttribute('aria-pressed', String(pressed));
    node.disabled = !enabled;
  }

  private _showBackend(backend: string, live: boolean): void {
    this._backend.textContent = live ? backend : 'saved';
    this._backend.classList.toggle('workbench-mod-live', live);
    this._backend.title = live
      ? `Computed by the backend “${backend}”`
      : 'A saved picture: run the cell to make it live';
  }

  private _onSearchKey(event: KeyboardEvent): void {
    const { state } = this._host;
    if (event.key === 'Enter') {
      event.preventDefault();
      event.stopPropagation();
      const node = state.nextMatch(event.shiftKey);
      if (node !== null) {
        this._host.find(node);
        this._showHits();
      }
    } else if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      this._search.value = '';
      state.search('');
      this._host.focusGraph();
    }
  }

  private _iconButton(
    name: Parameters<typeof icon>[0],
    label: string,
    onClick: () => void
  ): HTMLButtonElement {
    const node = button('icon', label, onClick);
    node.append(icon(name));
    return node;
  }

  private readonly _name = element('span', { class: 'workbench-Name' });
  private readonly _value = element('span', { class: 'workbench-Quiet' });
  private readonly _stages: Segments<Stage>;
  private readonly _search: HTMLInputElement;
  private readonly _hits = element('span', {
    class: 'workbench-Hits',
    attributes: { 'aria-live': 'polite' }
  });
  private readonly _found = button('plain', '', () => {
    this._host.showChecks();
  });
  private readonly _colour: HTMLSelectElement;
  private readonly _undo: HTMLButtonElement;
  private readonly _redo: HTMLButtonElement;
  private readonly _steps: HTMLButtonElement;
  private readonly _plots: HTMLButtonElement;
  private readonly _panel: HTMLButtonElement;
  private readonly _size = element('span');
  private readonly _time = element('span', {
    class: 'workbench-WideOnly',
    title: 'Forward and backward run together'
  });
  private readonly _spinner = element('span', {
    class: 'workbench-Spinner',
    title: 'The kernel is busy; it answers when it is done',
    role: 'status',
    attributes: { 'aria-label': 'The kernel is busy' }
  });
  private readonly _backend = element('span', { class: 'workbench-Backend' });
}
