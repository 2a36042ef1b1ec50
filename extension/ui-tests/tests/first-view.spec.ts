/** What a reader sees before touching anything: shapes and gradients that can be read. */

import { expect, test } from '@jupyterlab/galata';

import { GraphOnPage, open, runAll, screenshotOf } from './graph';

interface ICard {
  /** What is written on the card, and on its tile; the tile has a number at all. */
  onCard: string[];
  onTile: string[];
  hasTile: boolean;
}

interface ILook {
  cards: ICard[];
  /** The size of the smallest letters, in pixels of the page. */
  least: number;
}

/** All texts of the picture, by the cards and tiles that they stand on. */
async function look(graph: GraphOnPage): Promise<ILook> {
  return graph.canvas.evaluate(canvas => {
    interface IRect {
      x: number;
      y: number;
      width: number;
      height: number;
    }
    const { workbenchCanvas: probe } = canvas as HTMLElement & {
      workbenchCanvas: {
        boxOf(node: number): IRect | null;
        tileOf(node: number): IRect | null;
        readonly size: { width: number; height: number };
        svg(): string;
      };
    };
    const parsed = new DOMParser().parseFromString(probe.svg(), 'image/svg+xml');
    const texts = Array.from(parsed.querySelectorAll('text'), text => {
      const matrix = text.parentElement?.closest('[transform]')?.getAttribute('transform');
      const [scale, , , , dx, dy] = (matrix ?? '').match(/-?[\d.]+/g)!.map(Number);
      const size = parseFloat(/([\d.]+)px/.exec(text.getAttribute('style') ?? '')![1]);
      return {
        text: text.textContent,
        x: scale * Number(text.getAttribute('x')) + dx,
        y: scale * Number(text.getAttribute('y')) + dy,
        size: scale * size
      };
    });
    const within = (rect: IRect | null): string[] =>
      texts
        .filter(
          ({ x, y }) =>
            rect !== null &&
            x >= rect.x &&
            x <= rect.x + rect.width &&
            y >= rect.y &&
            y <= rect.y + rect.height
        )
        .map(({ text }) => text);
    const cards: ICard[] = [];
    for (let node = 0; probe.boxOf(node) !== null; node++) {
      const card = probe.boxOf(node)!;
      const tile = probe.tileOf(node);
      const seen = card.y >= 0 && card.y + card.height <= probe.size.height;
      if (seen) {
        cards.push({ onCard: within(card), onTile: within(tile), hasTile: tile !== null });
      }
    }
    return { cards, least: Math.min(...texts.map(({ size }) => size)) };
  });
}

for (const [width, height] of [
  [1400, 900],
  [1000, 700]
]) {
  test(`the first picture of the first tutorial can be read at ${width}`, async ({
    page,
    tmpPath
  }) => {
    await page.setViewportSize({ width, height });
    await open(page, tmpPath, '01-first-gradient.ipynb');
    await runAll(page);
    const graph = new GraphOnPage(page);
    await graph.ready();
    await graph.live();
    // The inspector is closed until something is chosen.
    await expect(graph.button('Inspector')).toHaveAttribute('aria-pressed', 'false');
    const { cards, least } = await look(graph);
    expect(least).toBeGreaterThanOrEqual(10);
    expect(cards.length).toBeGreaterThan(8);
    for (const { onCard, onTile, hasTile } of cards) {
      // A constant is its number; all else has a name and a shape.
      const shape = onCard.some(text => /^(\(\)|\d+(×\d+)*)$/.test(text));
      expect(shape || onCard.length === 1, onCard.join(' ')).toBe(true);
      expect(onTile.length, onCard.join(' ')).toBe(hasTile ? 1 : 0);
    }
    await page.screenshot({ path: screenshotOf(`light-first-view-${width}`) });
    await page.theme.setDarkTheme();
    await page.screenshot({ path: screenshotOf(`dark-first-view-${width}`) });

    // A click opens it, and what was clicked stays where it was.
    const h = await graph.node('h, tanh');
    const before = await boxOf(graph, h);
    await graph.canvas.click({ position: { x: before.x + 12, y: before.y + 12 } });
    await expect(graph.panel.locator('.workbench-NodeName')).toHaveText('htanh');
    await expect.poll(async () => (await boxOf(graph, h)).y).toBe(before.y);
    await page.screenshot({ path: screenshotOf(`dark-first-choice-${width}`) });
  });
}

async function boxOf(graph: GraphOnPage, node: number): Promise<{ x: number; y: number }> {
  return graph.canvas.evaluate((canvas, id) => {
    const { workbenchCanvas: probe } = canvas as HTMLElement & {
      workbenchCanvas: { boxOf(node: number): { x: number; y: number } };
    };
    return probe.boxOf(id);
  }, node);
}
