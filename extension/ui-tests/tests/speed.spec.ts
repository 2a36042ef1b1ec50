/**
 * How long the page takes: one table in the output, and in `screenshots/speed.md`.
 * Nothing here fails on a time.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { CDPSession } from '@playwright/test';
import { type IJupyterLabPageFixture, expect, test } from '@jupyterlab/galata';

import { GraphOnPage, kernelReady, print, screenshotOf } from './graph';

const SETUP = `%load_ext workbench
import numpy as np
import workbench as wb
rng = np.random.default_rng(7)
x = np.linspace(0.1, 1.0, 8)
W = 0.1 * rng.standard_normal((8, 8))
wide = np.linspace(0.1, 1.0, 569 * 16).reshape(569, 16)
OPS = [np.add, np.subtract, lambda a, b: np.sin(a), lambda a, b: np.tanh(a + b)]
KINDS = rng.integers(0, 4, 10_000)
A = rng.integers(0, 10**6, 10_000)
B = A - rng.integers(1, 30, 10_000)`;

/** Programs of so many ops; `steps` is how often a loop runs. */
const chain = (steps: number, input = 'x'): string => `%%autodiff y --name chain
h = ${input}
for i in range(${String(steps)}):
    h = np.sin(h) * 1.01
y = np.sum(h)`;

const LAYERED = `%%autodiff y --wrt W --name layered
row = [W[i % 8] for i in range(20)]
for layer in range(500):
    row = [row[i] + row[(i + 1 + layer % 5) % 20] for i in range(20)]
y = np.sum(np.stack(row))`;

const tangle = (ops: number): string => `%%autodiff y --wrt x --name tangle
values = [x, np.sin(x), np.cos(x)]
for i in range(${String(ops)}):
    k, n = i % 10_000, len(values)
    values.append(OPS[KINDS[k]](values[A[k] % n], values[B[k] % n]))
y = np.sum(np.stack(values[-200:]))`;

const scoped = (ops: number): string => `%%autodiff y --wrt x --name scoped
h = x
for block in range(${String(ops / 10_000)}):
    for layer in range(20):
        with wb.scope(f"block{block}/layer{layer}"):
            for i in range(250):
                h = np.sin(h) * 1.01
y = np.sum(h)`;

type Probed = HTMLElement & {
  workbenchCanvas: { boxOf(node: number): { width: number } | null };
};

/** The rows of the table: what was measured, the numbers, the goal. */
const rows: [string, string, string][] = [];

function tell(what: string, measured: string, goal: string): void {
  rows.push([what, measured, goal]);
  console.log(`measured: ${what}: ${measured} (goal ${goal})`);
}

/** The middle of some times. */
const middle = (times: number[]): number =>
  [...times].sort((a, b) => a - b)[times.length >> 1];

const inMs = (time: number): string => `${time.toFixed(0)} ms`;
const inSeconds = (time: number): string => `${(time / 1000).toFixed(2)} s`;
const inMB = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;

/** Milliseconds from the start of a cell to the first picture that is at rest. */
interface IOpened {
  fromStart: number;
  /** From the kernel's word that the cell is done; less than 0 where it comes later. */
  fromEnd: number;
  /** How long the page's thread stood still, the longest first. */
  tasks: number[];
}

/** A part of the panel, and the text that it must show; null: another than before. */
interface IFollowed {
  part: string;
  text: string | null;
}

/** A notebook whose second cell shows graphs. */
class Bench {
  readonly graph: GraphOnPage;

  private constructor(readonly page: IJupyterLabPageFixture) {
    this.graph = new GraphOnPage(page);
  }

  static async begin(page: IJupyterLabPageFixture): Promise<Bench> {
    await page.setViewportSize({ width: 1400, height: 900 });
    await page.notebook.createNew('speed.ipynb');
    await kernelReady(page);
    await page.notebook.setCell(0, 'code', '1');
    await page.notebook.addCell('code', '1');
    const bench = new Bench(page);
    await bench._write(0, SETUP);
    await page.notebook.runCell(0);
    // The first picture of a page loads and compiles what the others have.
    await bench.open(chain(10));
    return bench;
  }

  /** Run a program and wait for its picture. */
  async open(program: string): Promise<IOpened> {
    await this._write(1, program);
    await this.page.notebook.selectCells(1);
    const opened = await this.page.evaluate(async () => {
      const { shell, commands } = window.jupyterapp;
      const notebook = shell.currentWidget as NotebookPanel;
      const kernel = notebook.sessionContext.session!.kernel!;
      const tasks: number[] = [];
      const observer = new PerformanceObserver(list => {
        tasks.push(...list.getEntries().map(({ duration }) => duration));
      });
      observer.observe({ type: 'longtask' });
      let end = NaN;
      kernel.anyMessage.connect((_, { msg, direction }) => {
        if (direction === 'recv' && msg.header.msg_type === 'execute_reply') {
          end = performance.now();
        }
      });
      const old = document.querySelector('.workbench-Canvas');
      const frame = (): Promise<number> => new Promise(requestAnimationFrame);
      const start = performance.now();
      void commands.execute('notebook:run-cell');
      const isThere = (): boolean => {
        const now = document.querySelector<HTMLElement>('.workbench-Canvas');
        return now !== null && now !== old && now.dataset['ready'] !== undefined;
      };
      while (!isThere()) {
        await frame();
      }
      const picture = performance.now();
      while (Number.isNaN(end)) {
        await frame();
      }
      // What comes after the picture may keep the page from answering as well.
      const tree = '.workbench-Cell > * > .workbench-Tree [role=treeitem]';
      while (document.querySelector(tree) === null) {
        await frame();
      }
      await new Promise(resolve => setTimeout(resolve, 1500));
      observer.disconnect();
      tasks.sort((a, b) => b - a);
      return { fromStart: picture - start, fromEnd: picture - end, tasks };
    });
    await this.graph.ready();
    await this.graph.live();
    return opened;
  }

  /** The middle of several openings. */
  async openOften(program: string, times: number): Promise<IOpened> {
    const all: IOpened[] = [];
    for (let i = 0; i < times; i++) {
      all.push(await this.open(program));
    }
    return {
      fromStart: middle(all.map(({ fromStart }) => fromStart)),
      fromEnd: middle(all.map(({ fromEnd }) => fromEnd)),
      tasks: all.flatMap(({ tasks }) => tasks).sort((a, b) => b - a)
    };
  }

  /** Override the gradient of a node; milliseconds until the page tells the effect. */
  async override(sentence: string, times: number): Promise<number> {
    const { graph } = this;
    await graph.click(await graph.node(sentence));
    const taken: number[] = [];
    for (let i = 0; i < times; i++) {
      await graph.chip('expression').click();
      await graph.field.fill(`${String(0.5 + i / 10)} * d`);
      await expect(graph.button('Apply')).toBeEnabled();
      taken.push(
        await graph.panel.evaluate(async panel => {
          const effect = (): string =>
            panel.querySelector('.workbench-Effect')?.textContent ?? '';
          const buttons = [...panel.querySelectorAll('button')];
          const apply = buttons.find(button => button.textContent === 'Apply');
          const before = effect();
          const start = performance.now();
          apply?.click();
          while (effect() === before || !effect().includes('changes')) {
            await new Promise(requestAnimationFrame);
          }
          return performance.now() - start;
        })
      );
    }
    return middle(taken);
  }

  /** Move a slider; milliseconds until all that is said to follow it does. */
  async slide(name: RegExp, to: number, follows: readonly IFollowed[]): Promise<number> {
    const slider = this.graph.panel.getByRole('slider', { name });
    return slider.evaluate(
      async (input, [position, parts]) => {
        const panel = input.closest('.workbench-Panel')!;
        const told = (part: string): string => panel.querySelector(part)?.textContent ?? '';
        const before = parts.map(({ part }) => told(part));
        const hasFollowed = ({ part, text }: IFollowed, at: number): boolean =>
          text === null ? told(part) !== before[at] : told(part).includes(text);
        const start = performance.now();
        // React hears of a value that is set in the way of the browser alone.
        const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!;
        set!.call(input, String(position));
        input.dispatchEvent(new Event('input', { bubbles: true }));
        while (!parts.every(hasFollowed)) {
          await new Promise(requestAnimationFrame);
        }
        return performance.now() - start;
      },
      [to, follows] as const
    );
  }

  /** Milliseconds until the page tells how many nodes a search has found. */
  async search(text: string): Promise<number> {
    const field = this.graph.panel.getByRole('searchbox').first();
    const time = await field.evaluate(async (input, wanted) => {
      const panel = input.closest('.workbench-Panel')!;
      const told = (): string =>
        panel.querySelector('.workbench-Hits')?.textContent ?? '';
      const before = told();
      const start = performance.now();
      (input as HTMLInputElement).value = wanted;
      input.dispatchEvent(new Event('input', { bubbles: true }));
      while (told() === before) {
        await new Promise(requestAnimationFrame);
      }
      await new Promise(requestAnimationFrame);
      return performance.now() - start;
    }, text);
    await field.fill('');
    return time;
  }

  /** Let all nodes be shown, the steps of loops too. */
  async unfold(): Promise<void> {
    await this.graph.panel.evaluate(async panel => {
      const pause = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 900));
      const tree = panel.querySelector('.workbench-Cell > * > .workbench-Tree')!;
      for (let i = 0; i < 400; i++) {
        const all = panel.querySelector<HTMLElement>('[title="Show the nodes of all steps"]');
        const folded = tree.querySelector<HTMLElement>('[aria-expanded=false]');
        if (all !== null) {
          all.click();
          await pause();
        } else if (folded !== null) {
          folded.click();
        } else {
          break;
        }
      }
      await pause();
    });
    await this.graph.ready();
  }

  /** Zoom in until a card is so many times as wide as at zoom 1. */
  async zoom(scale: number): Promise<void> {
    await this.graph.canvas.evaluate((canvas, wanted) => {
      const probe = (canvas as Probed).workbenchCanvas;
      const surface = canvas.querySelector<HTMLElement>('.workbench-Canvas-surface')!;
      const box = surface.getBoundingClientRect();
      const now = (): number => (probe.boxOf(4)?.width ?? 0) / 152;
      for (let i = 0; i < 2000 && now() < wanted; i++) {
        surface.dispatchEvent(
          new WheelEvent('wheel', {
            deltaY: -60,
            ctrlKey: true,
            clientX: box.x + box.width / 2,
            clientY: box.y + box.height / 2,
            cancelable: true,
            bubbles: true
          })
        );
      }
    }, scale);
    await this.page.waitForTimeout(500);
    await this.graph.ready();
  }

  /** The times of frames while the picture is dragged, over what was not seen before. */
  async drag(): Promise<number[]> {
    return this.graph.canvas.evaluate(async canvas => {
      const surface = canvas.querySelector<HTMLElement>('.workbench-Canvas-surface')!;
      const box = surface.getBoundingClientRect();
      const point = (type: string, x: number, y: number): void => {
        surface.dispatchEvent(
          new PointerEvent(type, {
            clientX: box.x + x,
            clientY: box.y + y,
            pointerId: 1,
            pointerType: 'mouse',
            button: 0,
            buttons: 1,
            bubbles: true
          })
        );
      };
      surface.setPointerCapture = () => undefined;
      const times: number[] = [];
      let [x, y] = [300, 400];
      point('pointerdown', x, y);
      let last = await new Promise<number>(requestAnimationFrame);
      for (let i = 0; i < 90; i++) {
        // Down, to the side and up again: two thirds of it is new.
        x += i % 60 < 30 ? 3 : -3;
        y += i < 45 ? -14 : 14;
        point('pointermove', x, y);
        const now = await new Promise<number>(requestAnimationFrame);
        times.push(now - last);
        last = now;
      }
      point('pointerup', x, y);
      return times;
    });
  }

  /** Bytes of the page's heap, its arrays with it. */
  async heap(): Promise<number> {
    // Galata's page is a wrapper.
    const [plain] = this.page.context().pages();
    this._line ??= await this.page.context().newCDPSession(plain);
    for (let i = 0; i < 3; i++) {
      await this._line.send('HeapProfiler.collectGarbage');
    }
    const usage = (await this._line.send('Runtime.getHeapUsage')) as {
      usedSize: number;
      backingStorageSize?: number;
    };
    return usage.usedSize + (usage.backingStorageSize ?? 0);
  }

  private async _write(cell: number, source: string): Promise<void> {
    await this.page.evaluate(
      ([at, text]) => {
        const notebook = window.jupyterapp.shell.currentWidget as NotebookPanel;
        notebook.content.widgets[at].model.sharedModel.setSource(text);
      },
      [cell, source] as const
    );
  }

  private _line: CDPSession | null = null;
}

test.afterAll(() => {
  const lines = rows.map(row => `| ${row.join(' | ')} |`);
  const table = ['| | measured | goal |', '|---|---|---|', ...lines, ''].join('\n');
  const path = screenshotOf('speed').replace(/png$/, 'md');
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, table);
  console.log(table);
});

test('how long small graphs take @alone', async ({ page }) => {
  const bench = await Bench.begin(page);
  for (const [what, input] of [
    ['8 entries', 'x'],
    ['569×16', 'wide']
  ] as const) {
    const { fromStart, fromEnd } = await bench.openOften(chain(50, input), 5);
    tell(
      `100 ops on ${what}: cell end to picture; start to picture`,
      `${inMs(fromEnd)}; ${inMs(fromStart)}`,
      '100 ms; –'
    );
    const effect = await bench.override('y, sum', 5);
    tell(`100 ops on ${what}: override to effect`, inMs(effect), '100 ms');
  }
  expect(rows.length).toBeGreaterThan(3);
});

/** Thirty runs, each with other inputs; what the page has to show of each, as JSON. */
const TRAIN = `import json
for step in range(30): value = chain.run(x=x * (1 - 0.01 * step))
seen = [chain.at(step) for step in range(1, 31)]
print(json.dumps([[str(one.values["x"]), f"{float(one.value):.4g}"] for one in seen]))`;

test('how long it takes to be at another step, or weight @alone', async ({ page }) => {
  test.setTimeout(240_000);
  const bench = await Bench.begin(page);
  const { graph } = bench;
  await bench.open(chain(500));
  const runs = JSON.parse(await print(page, TRAIN)) as [string, string][];
  const status = graph.panel.locator('.workbench-Runs').getByRole('status');
  await expect(status).toHaveText(/^30 steps · 30 kept/);
  await graph.click(await graph.node('x'));
  await graph.showTab('Node');
  const scrubs: number[] = [];
  for (const step of [25, 4, 18, 9, 29, 1, 13, 21, 6, 15]) {
    const [value, loss] = runs[step - 1];
    const time = await bench.slide(/^Run$/, step - 1, [
      { part: '.workbench-Runs [role=status]', text: `step ${step} of 30` },
      { part: '.workbench-Title', text: loss },
      { part: '.workbench-NodeNumbers', text: value }
    ]);
    scrubs.push(time);
    await page.waitForTimeout(500);
  }
  tell('1,000 ops: scrub to a kept step, all panels right', inMs(middle(scrubs)), '150 ms');

  await bench.open(chain(50));
  await graph.click(await graph.node('x'));
  const moves: number[] = [];
  for (const to of [100, -100, 200, -200, 300, -300, 150, -150, 250, -250]) {
    const time = await bench.slide(/^Value of x\[0\]/, to, [
      { part: '.workbench-Title', text: null },
      { part: '.workbench-NodeNumbers .workbench-Table', text: null }
    ]);
    moves.push(time);
    await page.waitForTimeout(500);
  }
  tell('100 ops: slider of a weight to both sweeps', inMs(middle(moves)), '100 ms');
  expect(rows.length).toBeGreaterThan(1);
});

test('how long graphs of 10,000 nodes take @alone', async ({ page }) => {
  test.setTimeout(400_000);
  const bench = await Bench.begin(page);
  for (const [name, program] of [
    ['a chain', chain(5000)],
    ['layers', LAYERED],
    ['a tangle', tangle(10_000)]
  ] as const) {
    const { fromEnd, tasks } = await bench.openOften(program, 3);
    tell(
      `10,000 ops in ${name}: cell end to picture; longest task`,
      `${inSeconds(fromEnd)}; ${inMs(tasks[0] ?? 0)}`,
      '1.5 s; –'
    );
    const frames = [middle(await bench.drag())];
    await bench.unfold();
    await bench.graph.button('Fit the graph into view').click();
    await page.waitForTimeout(1000);
    await bench.graph.ready();
    const slow: number[] = [];
    for (const scale of [0, 0.02, 0.1, 0.3, 0.65, 1, 2]) {
      await bench.zoom(scale);
      const times = await bench.drag();
      frames.push(middle(times));
      slow.push(...times.filter(time => time > 50));
    }
    const [folded, ...unfolded] = frames.map(time => time.toFixed(0));
    tell(
      `… a frame of dragging, median: folded; unfolded at seven zooms; frames over 50 ms`,
      `${folded} ms; ${unfolded.join(', ')} ms; ${String(slow.length)} of 630`,
      '20 ms; 20 ms; –'
    );
  }
  await bench.open(chain(6250));
  const effect = await bench.override('y, sum', 5);
  tell('12,500 ops: override to effect', inMs(effect), '300 ms');
  expect(rows.length).toBeGreaterThan(6);
});

test('how long graphs of 100,000 nodes take @alone', async ({ page }) => {
  test.setTimeout(580_000);
  const bench = await Bench.begin(page);
  for (const [what, program] of [
    ['100,000 ops in scopes', scoped(100_000)],
    ['100,000 ops in a loop', chain(50_000)],
    ['100,000 ops in a tangle', tangle(100_000)]
  ] as const) {
    const { fromEnd, tasks } = await bench.open(program);
    const found = await bench.search('sin');
    tell(
      `${what}: cell end to picture; search; longest task`,
      `${inSeconds(fromEnd)}; ${inMs(found)}; ${inMs(tasks[0] ?? 0)}`,
      '5 s; 200 ms; –'
    );
  }
  expect(rows.length).toBeGreaterThan(2);
});

test('how long graphs of a million nodes take @measure', async ({ page }) => {
  test.setTimeout(580_000);
  const bench = await Bench.begin(page);
  const before = await bench.heap();
  for (const [what, program] of [
    ['990,000 ops in scopes', scoped(990_000)],
    ['990,000 ops in a loop', chain(495_000)]
  ] as const) {
    const { fromEnd, tasks } = await bench.open(program);
    const heap = (await bench.heap()) - before;
    tell(
      `${what}: cell end to picture; longest tasks; heap`,
      `${inSeconds(fromEnd)}; ${tasks.slice(0, 3).map(inMs).join(', ')}; ${inMB(heap)}`,
      '–; 500 ms; –'
    );
  }
  expect(rows.length).toBeGreaterThan(1);
});
