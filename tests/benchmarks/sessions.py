"""What a session's questions cost, in gradients of the same program.

There is no peer to compare with: each row is the time of one question over the time
of a plain ``wb.grad`` of the program, measured in turn in one process, so that a
question that stops being linear in the program shows as a ratio that grows with it.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks import harness

__all__ = ["Question", "chain", "network", "run"]

Program = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """What is asked of a program: a function without arguments, and for how long."""

    name: str
    ask: Callable[[], Any]
    #: How often it is timed; one that takes seconds, once.
    rounds: int = 5


def chain(count: int) -> Program:
    """So many ops on 8 numbers: a quarter each of times, plus, tanh and minus."""
    start = np.linspace(0.1, 0.8, 8)

    def f(x: Any) -> Any:
        y = x
        for _ in range(count // 4):
            y = np.tanh(y * 1.01 + x) - 0.1
        return y.sum()

    return f, (start,)


def network(layers: int) -> Program:
    """Dense tanh layers on a table of 569 rows and 16 columns; 5 nodes in each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((569, 16))
    W = rng.standard_normal((layers, 16, 16)) * 0.25
    b = rng.standard_normal((layers, 16)) * 0.1

    def f(X: Any, W: Any, b: Any) -> Any:
        h = X
        for i in range(layers):
            h = np.tanh(h @ W[i] + b[i])
        return np.sum(h * h)

    return f, (X, W, b)


def run(
    name: str,
    title: str,
    programs: Mapping[str, Program],
    questions: Callable[..., list[Question]],
    keep: bool,
) -> None:
    """Measure, print and keep.

    Parameters
    ----------
    name
        What the file of the results is called.
    title
        What the table says.
    programs
        A function and its arguments, by a short text.
    questions
        Of a function and its arguments: what to ask.
    """
    print(title)
    print("  goal: questions of one kind cost the same in gradients at each length")
    rows = []
    for text, (f, args) in programs.items():
        plain, found = measured(f, args, questions(f, args))
        print(f"  {text}: one gradient {plain * 1e3:.3g} ms")
        for question, (spent, ratio) in found.items():
            cost = f"{spent * 1e3:>10.3g} ms{ratio:>10.3g} gradients"
            print(f"    {question:<44}{cost}", flush=True)
            rows.append(
                {
                    "program": text,
                    "gradient_s": float(f"{plain:.4g}"),
                    "question": question,
                    "seconds": float(f"{spent:.4g}"),
                    "in_gradients": float(f"{ratio:.4g}"),
                }
            )
    if keep:
        harness.save(name, title, {"rows": rows})


def measured(
    f: Callable[..., Any], args: tuple[Any, ...], questions: list[Question]
) -> tuple[float, dict[str, tuple[float, float]]]:
    """Seconds of a gradient; of each question, seconds and how many gradients."""
    import workbench as wb

    gradient = wb.grad(f, argnums=tuple(range(len(args))))
    gradient(*args)
    plain: list[float] = []
    times: dict[str, list[float]] = {q.name: [] for q in questions}
    for turn in range(max(q.rounds for q in questions)):
        now = [q for q in questions if turn < q.rounds]
        random.shuffle(now)
        for q in now:
            plain.append(seconds(lambda: gradient(*args)))
            times[q.name].append(seconds(q.ask))
    base = statistics.median(plain)
    spent = {name: statistics.median(found) for name, found in times.items()}
    return base, {name: (found, found / base) for name, found in spent.items()}


def seconds(call: Callable[[], Any]) -> float:
    """The time of this process, in which others that work have no part."""
    gc.collect()  # what one leaves behind must not cost the next
    start = time.process_time()
    call()
    return time.process_time() - start
