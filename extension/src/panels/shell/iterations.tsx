/**
 * The loops of which one iteration is open: a strip under the picture for each, to go
 * from iteration to iteration, with their gradients side by side.
 */

import { type JSX, type ReactNode, useLayoutEffect, useRef } from 'react';

import { type INormScale, normScale } from '../../canvas/scale';
import { type ISparkline, drawSparkline, sparklineOf } from '../../canvas/sparkline';
import { readTheme, watchTheme } from '../../canvas/theme';
import { type ILoop, loopHeading } from '../../model/folds';
import type { Graph } from '../../model/graph';
import { Button, IconButton } from '../../ui/controls';
import { formatNumber } from '../../ui/numbers';
import type { IHost, Reason } from '../host';
import { Part } from '../part';

/** So many strips at most, of the loops that were opened last. */
const STRIPS = 3;

/** So many bars of gradients at most. */
const BARS = 250;

export class Iterations extends Part {
  constructor(host: IHost) {
    super(host, 'workbench-Iterations');
  }

  override refresh(reason: Reason): void {
    if (reason !== 'hover' && reason !== 'selection' && reason !== 'connection') {
      this.draw();
    }
  }

  protected render(): ReactNode {
    const { state } = this.host;
    const { graph, folding, stage } = state;
    // Of the loops opened last those that are in sight, from the outside in.
    const open = [...folding.open]
      .filter(([path]) => folding.isInSight(path))
      .slice(-STRIPS)
      .sort(([a], [b]) => Number(a.startsWith(`${b}/`)) - Number(b.startsWith(`${a}/`)));
    this.setHidden(graph === null || open.length === 0 || stage === 'simplified');
    if (graph === null) {
      return null;
    }
    return open.map(([path, at]) => {
      const loop = graph.loopIn(path, folding.open);
      return (
        loop !== null && (
          <IterationStrip
            key={path}
            name={loopHeading(path.slice(path.lastIndexOf('/') + 1)).replace(/^loop(, )?/, '')}
            at={at}
            times={loop.times}
            onOpen={iteration => state.openIteration(path, iteration)}
            bars={
              stage === 'derivative' &&
              barsOf(graph, loop, at, to => state.openIteration(path, to))
            }
          >
            <Button
              look="link"
              title="Show the loop as one card"
              onClick={() => state.toggleFold(path)}
            >
              Fold
            </Button>
            <Button
              look="link"
              title="Show the nodes of all steps"
              onClick={() => state.unfold(path)}
            >
              All steps
            </Button>
          </IterationStrip>
        )
      );
    });
  }
}

/** One iteration among many: ‹ 17 / 500 ›, a number to write, their gradients. */
export function IterationStrip({
  name,
  at,
  times,
  onOpen,
  bars,
  children
}: {
  /** The lines of the loop; "" if it has none. */
  name: string;
  at: number;
  times: number;
  onOpen: (iteration: number) => void;
  bars: ReactNode;
  children?: ReactNode;
}): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  // Written where another iteration opens, but not while one types.
  useLayoutEffect(() => {
    const { current } = field;
    if (current !== null) {
      current.value = String(at);
      if (current === document.activeElement) {
        current.select();
      }
    }
  }, [at]);
  return (
    <div
      className="workbench-IterationStrip"
      role="group"
      aria-label={`Loop${name === '' ? '' : `, ${name}`}`}
    >
      <span className="workbench-IterationName">
        {name === '' ? 'Loop' : name}
      </span>
      <span className="workbench-IterationSteps">
        <IconButton
          icon="back"
          label="Step before"
          disabled={at === 0}
          onClick={() => onOpen(at - 1)}
        />
        <input
          ref={field}
          className="workbench-Input workbench-Number"
          type="text"
          inputMode="numeric"
          aria-label={`Step, from 0 to ${times - 1}`}
          title={`Steps are counted from 0 to ${times - 1}, as in steps=${at}`}
          size={Math.max(3, String(times).length)}
          data-lm-suppress-shortcuts="true"
          onFocus={event => event.currentTarget.select()}
          onBlur={event => (event.currentTarget.value = String(at))}
          onKeyDown={event => {
            const by = event.key === 'ArrowUp' ? 1 : event.key === 'ArrowDown' ? -1 : 0;
            const written = event.currentTarget.value.trim();
            if (event.key === 'Enter' && /^\d+$/.test(written)) {
              onOpen(Number(written));
            } else if (by !== 0) {
              onOpen(at + by);
            } else {
              return;
            }
            event.preventDefault();
            event.stopPropagation();
          }}
        />
        <span className="workbench-Quiet">/ {times}</span>
        <IconButton
          icon="forward"
          label="Step after"
          disabled={at >= times - 1}
          onClick={() => onOpen(at + 1)}
        />
      </span>
      <span className="workbench-Offstage" role="status">
        {`step ${at} of ${times}`}
      </span>
      {bars}
      <span className="workbench-Links">{children}</span>
    </div>
  );
}

/** The gradients of all iterations; a click opens the one there. */
function barsOf(
  graph: Graph,
  loop: ILoop,
  at: number,
  onOpen: (iteration: number) => void
): JSX.Element | false {
  const scale = normScale(graph, 'gradient');
  return (
    <Bars norms={graph.iterationNorms(loop)} scale={scale} at={at} onOpen={onOpen} />
  );
}

export function Bars({
  norms,
  scale,
  at,
  onOpen
}: {
  norms: Float64Array;
  scale: INormScale;
  at: number;
  onOpen: (iteration: number) => void;
}): JSX.Element | false {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const { current } = canvas;
    if (current === null) {
      return undefined;
    }
    const draw = (): void => {
      drawBars(current, sparklineOf(norms, scale, BARS), at / norms.length);
    };
    draw();
    return watchTheme(current, draw);
  });
  const norm = norms[at];
  return (
    norms.some(one => !Number.isNaN(one)) && (
      <>
        <canvas
          ref={canvas}
          className="workbench-IterationBars"
          aria-hidden="true"
          title="The largest gradient norm of each step; click to open one"
          onClick={event => {
            const { left, width } = event.currentTarget.getBoundingClientRect();
            const part = (event.clientX - left) / Math.max(width, 1);
            onOpen(Math.floor(part * norms.length));
          }}
        />
        <span className="workbench-BarsText" title="The largest gradient of this step">
          {Number.isNaN(norm) ? 'no gradient' : `‖g‖ ${formatNumber(norm)}`}
        </span>
      </>
    )
  );
}

/** Draw the bars, and a line where the open iteration is. */
function drawBars(canvas: HTMLCanvasElement, bars: ISparkline, at: number): void {
  const context = canvas.getContext('2d');
  const { clientWidth: width, clientHeight: height } = canvas;
  if (context === null || width === 0) {
    return;
  }
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  context.scale(ratio, ratio);
  const theme = readTheme(canvas);
  drawSparkline(context, theme, bars, { x: 0, y: 2, width, height: height - 2 });
  context.fillStyle = theme.accent;
  context.fillRect(Math.min(at * width, width - 2), 0, 2, height);
}
