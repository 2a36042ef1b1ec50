// @vitest-environment jsdom
import '../helpers/browser';

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { ConsolePanel, IConsoleTracker } from '@jupyterlab/console';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { LabIcon } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';
import { BesideGraph } from '../../src/lab/beside';
import { Documents, LiveGraphs } from '../../src/lab/live';
import { SavedGraph } from '../../src/lab/mime';
import {
  TracedLines,
  describeLines,
  findLine,
  findLines,
  findName
} from '../../src/panels/lines';
import { PanelWidget } from '../../src/lab/panel';
import { NotebookSessions } from '../../src/lab/sessions';
import { paced } from '../../src/lab/widget';
import { Program, readGraph } from '../helpers/programs';
import { GraphPanel } from '../../src/panels/shell/panel';
import { mount } from '../../src/standalone/widget';
import { MIME_TYPE } from '../../src/wire/protocol';
import { TestKernel } from '../helpers/channel';
import { H, LOSS, network, savedNetwork } from '../helpers/network';

// The frame around a panel is JupyterLab's; what is shown in it is ours.
vi.mock('@jupyterlab/apputils', async () => {
  const { Widget: Base } = await import('@lumino/widgets');
  class MainAreaWidget extends Base {
    constructor({ content }: { content: Widget }) {
      super();
      this.content = content;
    }

    readonly content: Widget;
    readonly toolbar = new Base();
  }
  return { MainAreaWidget, WidgetTracker: Map };
});

/** What an output area hands to a renderer. */
function modelOf(data: Record<string, unknown>): IRenderMime.IMimeModel {
  return {
    trusted: false,
    data: data as IRenderMime.IMimeModel['data'],
    metadata: {},
    setData: () => undefined
  };
}

describe('LiveGraphs', () => {
  it('knows a connection until it closes, and tells of both', () => {
    const live = new LiveGraphs();
    const told: string[] = [];
    live.changed.connect((_, id) => told.push(id));
    const connection = new TestKernel().connect();
    live.add('a', connection);
    expect(live.find('a')).toBe(connection);
    expect(live.find('b')).toBeNull();
    connection.dispose();
    expect(live.find('a')).toBeNull();
    expect(told).toEqual(['a', 'a']);
  });

  it('does not lose a newer connection when an older one closes', () => {
    const live = new LiveGraphs();
    const [older, newer] = [new TestKernel().connect(), new TestKernel().connect()];
    live.add('a', older);
    live.add('a', newer);
    older.dispose();
    expect(live.find('a')).toBe(newer);
  });

  it('tells kernels apart, and keeps the older of two connections to one', () => {
    const live = new LiveGraphs();
    const [one, two, three] = [1, 2, 3].map(() => new TestKernel().connect());
    live.add('a', one, 'k1');
    live.add('a', two, 'k2');
    expect([live.find('a', 'k1'), live.find('a', 'k2')]).toEqual([one, two]);
    expect([live.find('a', 'k3'), live.find('a', null)]).toEqual([null, null]);
    live.add('a', three, 'k1');
    expect(live.list('k1').map(({ connection }) => connection)).toEqual([three]);
    three.dispose();
    expect(live.find('a', 'k1')).toBe(one);
  });
});

/** A notebook as far as its kernel goes, which can be changed. */
class TestNotebook {
  constructor(public kernelId: string | null) {}

  readonly resolver = {} as IRenderMime.IResolver;
  readonly kernelChanged = new Signal<object, void>({});

  run(kernelId: string | null): void {
    this.kernelId = kernelId;
    this.kernelChanged.emit();
  }

  /** A view of it: a notebook, or with `console` a console. */
  view(node = document.createElement('div')): NotebookPanel {
    // eslint-disable-next-line @typescript-eslint/no-this-alias
    const notebook = this;
    const content = { isDisposed: false, rendermime: { resolver: this.resolver } };
    const sessionContext = {
      kernelChanged: this.kernelChanged,
      get session() {
        return notebook.kernelId === null ? null : { kernel: { id: notebook.kernelId } };
      }
    };
    const view = { node, content, console: content, sessionContext };
    return view as unknown as NotebookPanel;
  }
}

/** What the page knows of its notebooks, or of its consoles. */
class TestTracker<T = NotebookPanel> {
  readonly widgetAdded = new Signal<this, T>(this);

  add(widget: T): void {
    this._widgets.push(widget);
    this.widgetAdded.emit(widget);
  }

  remove(widget: T): void {
    this._widgets = this._widgets.filter(one => one !== widget);
  }

  forEach(call: (widget: T) => void): void {
    this._widgets.forEach(call);
  }

  filter(test: (widget: T) => boolean): T[] {
    return this._widgets.filter(test);
  }

  find(test: (widget: T) => boolean): T | undefined {
    return this._widgets.find(test);
  }

  private _widgets: T[] = [];
}

function documentsOf(
  notebooks: TestTracker,
  consoles: TestTracker<ConsolePanel> | null = null
): Documents {
  return new Documents(
    notebooks as unknown as INotebookTracker,
    consoles as unknown as IConsoleTracker | null
  );
}

describe('Documents', () => {
  it('knows the kernel of a notebook and of a console by its resolver', () => {
    const [notebooks, consoles] = [new TestTracker(), new TestTracker<ConsolePanel>()];
    const [one, two, three] = ['k1', null, 'k3'].map(id => new TestNotebook(id));
    notebooks.add(one.view());
    const documents = documentsOf(notebooks, consoles);
    let told = 0;
    documents.changed.connect(() => told++);
    expect(documents.kernelOf(one.resolver)).toBe('k1');
    expect(documents.kernelOf(two.resolver)).toBeNull();
    expect(documents.kernelOf(null), 'the renderers of no document').toBeNull();
    notebooks.add(two.view());
    consoles.add(three.view() as unknown as ConsolePanel);
    expect(told).toBe(2);
    expect(documents.kernelOf(two.resolver)).toBeNull();
    expect(documents.kernelOf(three.resolver)).toBe('k3');
    expect(documents.notebookOf(three.resolver)).toBeNull();
    two.run('k2');
    one.run('k2');
    expect(told).toBe(4);
    expect(documents.kernelOf(two.resolver)).toBe('k2');
  });

  it('takes the view of a notebook that has the picture, or any that is left', () => {
    const notebooks = new TestTracker();
    const notebook = new TestNotebook('k1');
    const [first, second] = [notebook.view(), notebook.view()];
    const [inside, outside] = [1, 2].map(() => document.createElement('p'));
    second.node.append(inside);
    notebooks.add(first);
    notebooks.add(second);
    const documents = documentsOf(notebooks);
    expect(documents.notebookOf(notebook.resolver, inside)).toBe(second);
    expect(documents.notebookOf(notebook.resolver, outside)).toBe(first);
    notebooks.remove(first);
    expect(documents.notebookOf(notebook.resolver, outside)).toBe(second);
    expect(documents.kernelOf(notebook.resolver)).toBe('k1');
  });
});

describe('NotebookSessions', () => {
  const kernels = ['k1', 'k2'];

  /** A notebook with a kernel and, perhaps, a saved picture in its output. */
  function notebookOf(kernelId: string, saved: Record<string, unknown>[]): NotebookPanel {
    const outputs = saved.map(data => ({ data }));
    const cell = {
      type: 'code',
      outputs: { length: outputs.length, get: (i: number) => outputs[i] }
    };
    const owner = {};
    const signal = (): Signal<object, void> => new Signal<object, void>(owner);
    return {
      sessionContext: { kernelChanged: signal(), session: { kernel: { id: kernelId } } },
      content: { modelContentChanged: signal(), model: { cells: [cell] } },
      disposed: signal()
    } as unknown as NotebookPanel;
  }

  it('lists what lives in the kernel of the notebook, and follows it', () => {
    const live = new LiveGraphs();
    const mine = new TestKernel();
    live.add('a', mine.connect(), kernels[0]);
    live.add('b', new TestKernel().connect(), kernels[1]);
    const sessions = new NotebookSessions(notebookOf(kernels[0], []), live);
    expect(sessions.list.map(({ key, name }) => [key, name])).toEqual([['a', '']]);
    let told = 0;
    sessions.changed.connect(() => told++);
    mine.snapshot(network());
    expect(told).toBe(1);
    expect(sessions.list[0].name).toBe('model');
    const newer = new TestKernel();
    live.add('c', newer.connect(), kernels[0]);
    newer.snapshot(network());
    expect(sessions.find('model')?.key).toBe('c');
    sessions.dispose();
    const before = told;
    newer.snapshot(network());
    expect(told).toBe(before);
  });

  it('lists saved pictures until a session of their name lives; damaged ones never', () => {
    const live = new LiveGraphs();
    const damaged = { [MIME_TYPE]: { schema: 'x' } };
    const text = { [MIME_TYPE]: 'no object' };
    const notebook = notebookOf('k1', [damaged, text, savedNetwork()]);
    const sessions = new NotebookSessions(notebook, live);
    expect(sessions.list.map(({ name }) => name)).toEqual(['model']);
    expect(sessions.find('model')?.connection).toBeNull();
    const kernel = new TestKernel();
    live.add('a', kernel.connect(), 'k1');
    kernel.snapshot(network());
    expect(sessions.list).toHaveLength(1);
    expect(sessions.find('model')?.connection).not.toBeNull();
  });
});

describe('BesideGraph', () => {
  it('lets go of a session whose kernel its notebook runs no more', () => {
    const live = new LiveGraphs();
    const notebook = new TestNotebook('k1');
    const sessions = new NotebookSessions(
      Object.assign(notebook.view(), {
        content: {
          modelContentChanged: new Signal<object, void>({}),
          model: { cells: [] }
        },
        disposed: new Signal<object, void>({})
      }),
      live
    );
    const kernel = new TestKernel();
    const connection = kernel.connect();
    live.add('a', connection, 'k1');
    kernel.snapshot(network());
    const shown = { path: 'a.ipynb', name: 'model' };
    const icon = { name: 'icon' } as unknown as LabIcon;
    const beside = new BesideGraph(
      new PanelWidget(new GraphPanel({ tall: true })),
      shown,
      icon
    );
    beside.follow(sessions);
    expect(beside.content.panel.connection).toBe(connection);
    // The kernel goes on: another notebook runs it.
    notebook.run('k2');
    expect(beside.content.panel.connection).toBeNull();
    expect(connection.isDisposed).toBe(false);
    notebook.run('k1');
    expect(beside.content.panel.connection).toBe(connection);
    beside.follow(null);
    expect(beside.content.panel.connection).toBeNull();
    beside.dispose();
  });
});

describe('the line of an anywidget', () => {
  it('is shared by the views of one manager, and by no copy of the notebook', () => {
    const sent: string[] = [];
    const mountIn = (manager: object, name: string): (() => void) => {
      const model = {
        get: (field: string) => ({ key: 'k', height: 320 })[field],
        send: ({ event }: { event: string }) => sent.push(`${name}: ${event}`),
        on: () => undefined,
        off: () => undefined,
        widget_manager: manager
      };
      const el = document.createElement('div');
      document.body.append(el);
      return mount({ model, el }, '');
    };
    const [own, copy] = [{}, {}];
    const ends = [mountIn(own, 'own'), mountIn(own, 'again'), mountIn(copy, 'copy')];
    expect(sent).toEqual(['own: hello', 'copy: hello']);
    ends.forEach(end => end());
  });
});

describe('the update rate', () => {
  it('holds the kernel back to so many changes a second; at its own, not at all', () => {
    vi.useFakeTimers();
    try {
      let rate = 20;
      let drawn = 0;
      const after = paced(
        callback => callback(),
        () => rate
      );
      for (let i = 0; i < 5; i++) {
        after(() => drawn++);
      }
      expect(drawn).toBe(5);
      rate = 2;
      for (let i = 0; i < 3; i++) {
        after(() => drawn++);
      }
      expect(drawn).toBe(5);
      vi.advanceTimersByTime(501);
      expect(drawn).toBe(6);
      vi.advanceTimersByTime(1000);
      expect(drawn).toBe(8);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('what a session knows of the lines of its cell', () => {
  const { header, buffers } = network();
  const graph = readGraph(header, buffers);

  it('finds lines by their text, where they stand now', () => {
    const traced = new TracedLines(graph);
    const [count] = [...traced.cells];
    const source = graph.source(H).trim();
    const placed = traced.place(count, ['# new', '# lines', source]);
    expect(placed.get(2)).toContain(H);
    expect(traced.place(count, ['something else']).size).toBe(0);
    const line = describeLines(graph, placed).get(2);
    expect(line?.result).not.toBeNull();
    expect(line?.norm).toBe(graph.gradNorm(line?.result ?? -1));
    expect(line?.level).toBeGreaterThanOrEqual(0);
  });

  it('tells of a line that has made very many nodes', () => {
    const program = new Program();
    let h = program.input('x');
    for (let step = 0; step < 150_000; step++) {
      h = program.op('sin', [h], { line: 2, source: '  h = np.sin(h)' });
    }
    const large = program.graph();
    const traced = new TracedLines(large);
    expect([...traced.cells]).toEqual([3]);
    const placed = traced.place(3, ['for _ in range(150_000):', '  h = np.sin(h)']);
    expect(placed.get(1)).toHaveLength(150_000);
    expect(describeLines(large, placed).get(1)?.result).toBe(h);
  });

  it('finds the node that a name means; none where there is no such name', () => {
    const [cell] = [...new TracedLines(graph).cells];
    expect(findName(graph, 'h', 100, cell)).toBe(H);
    expect(findName(graph, 'h', 100, cell + 1)).toBeNull();
    expect(findName(graph, 'no such', 1, cell)).toBeNull();
  });
});

describe('SavedGraph', () => {
  let live: LiveGraphs;
  let panels: GraphPanel[];
  let picture: SavedGraph;
  let notebooks: TestTracker;
  let notebook: TestNotebook;
  let documents: Documents;

  /** A picture in an output of a notebook. */
  const makePicture = ({ resolver }: TestNotebook): SavedGraph => {
    const makePanel = (): PanelWidget => {
      const panel = new GraphPanel();
      panels.push(panel);
      return new PanelWidget(panel);
    };
    return new SavedGraph({ live, documents, makePanel }, resolver);
  };
  const render = async (data: Record<string, unknown>): Promise<void> => {
    await picture.renderModel(modelOf(data));
  };
  const banner = (): string =>
    panels[0].node.querySelector('.workbench-Banner')?.textContent ?? '';

  beforeEach(() => {
    live = new LiveGraphs();
    panels = [];
    notebooks = new TestTracker();
    notebook = new TestNotebook('k1');
    notebooks.add(notebook.view());
    documents = documentsOf(notebooks);
    picture = makePicture(notebook);
  });

  it('draws what is saved, says that it is saved, and sends nothing', async () => {
    await render(savedNetwork());
    expect(panels[0].state.graph?.label(H)).toBe('h');
    expect(panels[0].connection).toBeNull();
    expect(banner()).toContain('saved picture');
  });

  it('becomes live when its model is there, before or after', async () => {
    const kernel = new TestKernel();
    await render(savedNetwork('m'));
    live.add('other', new TestKernel().connect(), 'k1');
    expect(panels[0].connection).toBeNull();
    const connection = kernel.connect();
    live.add('m', connection, 'k1');
    expect(panels[0].connection).toBe(connection);
    kernel.snapshot(network([], { output_value: 0.5 }));
    expect(panels[0].state.graph?.header.output_value).toBe(0.5);
    expect(banner()).toBe('');

    const late = makePicture(notebook);
    await late.renderModel(modelOf(savedNetwork('m')));
    expect(panels[1].state.graph?.header.output_value).toBe(0.5);
  });

  it('is saved in a copy of its notebook, which runs a kernel of its own', async () => {
    const copy = new TestNotebook('k2');
    notebooks.add(copy.view());
    const copied = makePicture(copy);
    await picture.renderModel(modelOf(savedNetwork('m')));
    await copied.renderModel(modelOf(savedNetwork('m')));
    const kernel = new TestKernel();
    const connection = kernel.connect();
    live.add('m', connection, 'k1');
    kernel.snapshot(network());
    expect(panels.map(panel => panel.connection)).toEqual([connection, null]);
    expect(panels[1].node.textContent).toContain('run the cell to make it live');
    // Nor in one without a kernel, nor in a document that the page does not know.
    for (const other of [new TestNotebook(null), new TestNotebook('k1')]) {
      if (other.kernelId === null) {
        notebooks.add(other.view());
      }
      await makePicture(other).renderModel(modelOf(savedNetwork('m')));
      expect(panels.at(-1)!.connection).toBeNull();
    }
    // Where the reader gives the copy that very kernel, it is live.
    copy.run('k1');
    expect(panels[1].connection).toBe(connection);
    kernel.snapshot(network([], { output_value: 0.5 }));
    copy.run('k2');
    expect(panels.map(panel => panel.connection).slice(0, 2)).toEqual([connection, null]);
    expect(panels[1].state.graph?.header.output_value).toBe(0.5);
    expect(panels[1].node.textContent).toContain('No kernel answers any more');
    kernel.snapshot(network([], { output_value: 0.75 }));
    expect(panels[1].state.graph?.header.output_value).toBe(0.5);
    copy.run('k1');
    expect(panels[1].state.graph?.header.output_value).toBe(0.75);
  });

  it('goes on with another connection to its kernel when one of two ends', async () => {
    const [older, newer] = [new TestKernel(), new TestKernel()];
    live.add('m', older.connect(), 'k1');
    older.snapshot(network([], { output_value: 0.25 }));
    const connection = newer.connect();
    live.add('m', connection, 'k1');
    newer.snapshot(network([], { output_value: 0.5 }));
    await render(savedNetwork('m'));
    expect(panels[0].state.graph?.header.output_value).toBe(0.5);
    connection.dispose();
    expect(panels[0].connection).not.toBeNull();
    expect(panels[0].state.graph?.header.output_value).toBe(0.25);
  });

  it('on a page that is one document is live wherever its model is', async () => {
    const makePanel = (): PanelWidget => {
      const panel = new GraphPanel();
      panels.push(panel);
      return new PanelWidget(panel);
    };
    const only = new SavedGraph({ live, documents: null, makePanel }, null);
    await only.renderModel(modelOf(savedNetwork('m')));
    const connection = new TestKernel().connect();
    live.add('m', connection);
    expect(panels[0].connection).toBe(connection);
  });

  it('shares the connection, but not the selection, with other views', async () => {
    const kernel = new TestKernel();
    const connection = kernel.connect();
    live.add('m', connection, 'k1');
    kernel.snapshot(network());
    await render(savedNetwork('m'));
    const other = new GraphPanel();
    other.connectTo(connection);
    panels[0].state.select(H);
    other.state.select(LOSS);
    expect([panels[0].state.selected, other.state.selected]).toEqual([H, LOSS]);
    expect(kernel.events('hello')).toHaveLength(1);
  });

  it('shows the last graph as it was when its kernel ends in a comparison', () => {
    const kernel = new TestKernel();
    const connection = kernel.connect();
    const panel = new GraphPanel();
    panel.connectTo(connection);
    kernel.snapshot(network());
    panel.recording.compareWith({ kind: 'now' });
    expect(panel.state.graph?.compared).not.toBeNull();
    connection.dispose();
    expect(panel.state.graph).toBe(connection.graph);
    expect([panel.recording.live, panel.recording.against]).toEqual([
      connection.graph,
      null
    ]);
  });

  it('leaves a comparison by Escape, but not from a form or a list', () => {
    const kernel = new TestKernel();
    const panel = new GraphPanel();
    panel.connectTo(kernel.connect());
    kernel.snapshot(network());
    document.body.append(panel.node);
    panel.attach();
    const press = (where: HTMLElement): boolean => {
      panel.recording.compareWith({ kind: 'now' });
      const event = new KeyboardEvent('keydown', {
        key: 'Escape',
        bubbles: true,
        cancelable: true
      });
      where.dispatchEvent(event);
      return panel.recording.against === null;
    };
    const partOf = (name: string): HTMLElement => panel.node.querySelector(name)!;
    expect(press(partOf('.workbench-Inspector'))).toBe(false);
    expect(press(partOf('.workbench-Compare'))).toBe(true);
    expect(press(panel.canvas.node)).toBe(true);
    panel.state.select(H);
    expect(press(panel.canvas.node), 'the selection goes first').toBe(false);
    expect(press(panel.canvas.node)).toBe(true);
    panel.dispose();
  });

  it('leaves a live view alone when what is saved is brought up to date', async () => {
    const kernel = new TestKernel();
    live.add('m', kernel.connect(), 'k1');
    await render(savedNetwork('m'));
    kernel.snapshot(network([], { output_value: 0.5 }));
    panels[0].state.select(H);
    const field = panels[0].node.querySelector<HTMLInputElement>(
      '.workbench-Expression'
    );
    field!.value = '2 * d + ';
    field!.dispatchEvent(new Event('input'));
    await render(savedNetwork('m'));
    expect(panels).toHaveLength(1);
    expect(field!.value).toBe('2 * d + ');
    expect(panels[0].state.graph?.header.output_value).toBe(0.5);
  });

  it('keeps the last live picture when the kernel dies, with its selection', async () => {
    const kernel = new TestKernel();
    const connection = kernel.connect();
    live.add('m', connection, 'k1');
    await render(savedNetwork('m'));
    kernel.snapshot(network([], { output_value: 0.5 }));
    panels[0].state.select(H);
    connection.dispose();
    expect(panels[0].connection).toBeNull();
    expect(panels[0].state.graph?.header.output_value).toBe(0.5);
    expect(panels[0].state.selected).toBe(H);
    expect(banner()).toContain('No kernel answers any more');
    // The notebook holds something else by now: that is what it shows.
    await render(savedNetwork('other'));
    expect(panels[0].state.graph?.header.output_value).toBe(0.0831);
    expect(banner()).toContain('saved picture');
  });

  it('keeps the saved picture when the kernel dies before it sent one', async () => {
    const connection = new TestKernel().connect();
    live.add('m', connection, 'k1');
    await render(savedNetwork('m'));
    connection.dispose();
    expect(panels[0].state.graph?.header.output_value).toBe(0.0831);
    expect(banner()).toBe('saved picture · run the cell to make it live');
  });

  it('keeps the last live picture where the saved one cannot be read', async () => {
    const kernel = new TestKernel();
    const connection = kernel.connect();
    live.add('m', connection, 'k1');
    kernel.snapshot(network());
    await render({ [MIME_TYPE]: { schema: 99, model_id: 'm' } });
    connection.dispose();
    expect(panels[0].isDisposed).toBe(false);
    expect(panels[0].state.graph?.label(H)).toBe('h');
    expect(banner()).toContain('No kernel answers any more');
  });

  it.each([
    ['newer', { schema: 99, model_id: 'm', header: {}, buffers: [] }, 'schema 99'],
    ['empty', {}, 'Workbench cannot draw this picture'],
    ['text', '<img src=x onerror=alert(1)>', 'Workbench cannot draw this picture'],
    ['null', null, 'Workbench cannot draw this picture']
  ])('says in text what is wrong with a %s picture', async (_, data, message) => {
    await render({ [MIME_TYPE]: data });
    expect(panels).toHaveLength(0);
    expect(picture.node.textContent).toContain(message);
    expect(picture.node.querySelector('img')).toBeNull();
  });

  it('draws a live graph even where the saved one cannot be read', async () => {
    const kernel = new TestKernel();
    live.add('m', kernel.connect(), 'k1');
    kernel.snapshot(network());
    await render({ [MIME_TYPE]: { schema: 99, model_id: 'm' } });
    expect(panels[0].state.graph?.label(H)).toBe('h');
  });

  it('shows labels as text', async () => {
    const saved = savedNetwork();
    const { header } = saved[MIME_TYPE];
    header.session = '<img src=x>';
    header.error = { node: H, message: '<b>shapes</b> do not match' };
    await render(saved);
    expect(panels[0].node.querySelector('.workbench-Name')?.textContent).toBe(
      '<img src=x>'
    );
    expect(banner()).toBe('<b>shapes</b> do not match');
    expect(panels[0].node.querySelector('img, b')).toBeNull();
  });
});

describe('the lines that a change names', () => {
  const text = 'é = 1\n  a = (\n    b)\n\nend';

  it('are found where they are whole, and nowhere else', () => {
    const { start, end } = findLines(text, 2, ['  a = (', '    b)'])!;
    expect(text.slice(start, end)).toBe('  a = (\n    b)');
    expect(findLines(text, 5, ['end'])).toEqual({ start: 22, end: 25 });
    for (const [line, lines] of [
      [1, ['  a = (']],
      [2, ['a = (']],
      [5, ['end', '']],
      [0, ['é = 1']],
      [0, ['']],
      [2, []]
    ] as const) {
      expect(findLines(text, line, lines)).toBeNull();
    }
  });

  it('are counted from the first that is not blank, as the kernel does', () => {
    const led = `\n  \n${text}`;
    const { start, end } = findLines(led, 2, ['  a = (', '    b)'])!;
    expect(led.slice(start, end)).toBe('  a = (\n    b)');
    expect(findLines(led, 0, ['  '])).toBeNull();
    // Of two lines of one text the one that ran: the second of the program.
    const twice = ['', '', 'x = 1', 'y = x', '', 'y = x'];
    expect(findLine(twice, 'y = x', 2)).toBe(3);
    expect(findLine(twice, 'y = x', 4)).toBe(5);
    expect(findLine(['', '', '', ''], 'y = x', 1)).toBeNull();
  });
});
