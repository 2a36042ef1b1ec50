"""What ONNX's recurrences mean in NumPy: LSTM, GRU, RNN.

Rows as in `onnx_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special

from workbench.control_flow.scan import scan
from workbench.models.onnx_rules import (
    Array,
    Unsupported,
    read_integers,
    row,
)

_ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.where(x > 0, 0, x))),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x > 0, x, a * x),
    "Relu": lambda x, a, b: np.where(x <= 0, 0, x),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x, a, b: scipy.special.expit(x),
    "Softplus": lambda x, a, b: np.logaddexp(x, 0),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x <= a, 0, x),
}
_DEFAULTS = {
    "Affine": (1.0, 0.0), "Elu": (1.0, 0.0), "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, 0.0), "ScaledTanh": (1.0, 1.0), "ThresholdedRelu": (1.0, 0.0),
}  # fmt: skip

Cell = Callable[..., tuple[Any, Any]]


def _lstm(x: Array, h: Array, c: Array, p: Any, f: Sequence[Any], forget: bool) -> Any:
    """Return the next state and cell; ``p`` holds the bound of gates and peepholes."""
    gate, peek = p
    k = h.shape[-1]
    i, o, g, new = (x[:, j * k : (j + 1) * k] for j in range(4))
    i = f[0](gate(i + peek[0] * c if peek is not None else i))
    g = 1 - i if forget else f[0](gate(g + peek[2] * c if peek is not None else g))
    c = g * c + i * f[1](gate(new))
    o = f[0](gate(o + peek[1] * c if peek is not None else o))
    return o * f[2](c), c


def _run_recurrence(
    kind: str,
    x: Array,
    w: Array,
    r: Array,
    bias: Array,
    lengths: Any,
    start: Array,
    cell: Array,
    peepholes: Array,
    settings: dict[str, Any],
) -> list[Any]:
    hidden, layout = settings["hidden_size"], settings.get("layout", 0)
    if layout:
        x = np.swapaxes(x, 0, 1)
        start, cell = (s if s is None else np.swapaxes(s, 0, 1) for s in (start, cell))
    direction = settings.get("direction", "forward")
    ways = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}[direction]
    usual = {"LSTM": "Sigmoid Tanh Tanh", "GRU": "Sigmoid Tanh", "RNN": "Tanh"}[kind]
    names = settings.get("activations") or usual.split() * len(ways)
    slopes = list(settings.get("activation_alpha") or ())
    shifts = list(settings.get("activation_beta") or ())
    functions = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise Unsupported(f"with the activation {name}")
        a, b = _DEFAULTS.get(name, (0.0, 0.0))
        a = slopes.pop(0) if slopes and name in _DEFAULTS else a
        b = (
            shifts.pop(0)
            if shifts and name in ("Affine", "HardSigmoid", "ScaledTanh")
            else b
        )
        functions.append(lambda x, f=_ACTIVATIONS[name], a=a, b=b: f(x, a, b))
    per = len(functions) // len(ways)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    bound = settings.get("clip")
    rows, last, cells = [], [], []
    count = x.shape[0]
    ends = None if lengths is None else np.array(read_integers(lengths))
    for d, way in enumerate(ways):
        turned = x[::way]
        if ends is not None and way < 0:  # each from its own end
            steps = np.arange(count)[:, None]
            places = np.where(steps < ends, ends - 1 - steps, steps)
            turned = x[places, np.arange(len(ends))]
        zero = np.zeros_like(x, shape=(x.shape[1], hidden))
        first = zero if start is None else start[d]
        inner = zero if cell is None else cell[d]
        moved = None if bias is None else bias[d]
        peek = None if peepholes is None else np.reshape(peepholes[d], (3, hidden))
        step = _make_cell(
            kind, w[d].T, r[d].T, moved, peek, gates * hidden, bound,
            functions[d * per : (d + 1) * per],
            bool(settings.get("linear_before_reset", 0)),
            bool(settings.get("input_forget", 0)),
        )  # fmt: skip
        if isinstance(count, int) and not count:
            shown = np.zeros_like(x, shape=(0, x.shape[1], hidden))
            y, inside = first[None], inner[None]
        elif ends is None:
            y, inside = scan(step, [turned], initial=[first, inner])
            shown = y
        else:
            live = (np.arange(count)[:, None] < ends)[..., None]

            def masked(x: Any, live: Any, h: Any, c: Any, step: Cell = step) -> Any:
                new, inside = step(x, h, c)
                return np.where(live, new, h), np.where(live, inside, c)

            y, inside = scan(masked, [turned, live], initial=[first, inner])
            shown = np.where(live, y, 0)
        if way < 0 and count:
            shown = shown[::-1] if ends is None else shown[places, np.arange(len(ends))]
        rows.append(shown)
        last.append(y[-1])
        cells.append(inside[-1])
    ys, hs, cs = np.stack(rows, 1), np.stack(last), np.stack(cells)
    if layout:
        ys = np.transpose(ys, (2, 0, 1, 3))
        hs, cs = np.swapaxes(hs, 0, 1), np.swapaxes(cs, 0, 1)
    return [ys, hs, cs]


def _make_cell(
    kind: str,
    w: Array,
    r: Array,
    bias: Array,
    peek: Array,
    width: int,
    bound: float | None,
    f: Sequence[Any],
    reset_after: bool,
    forget: bool,
) -> Cell:
    """Return one step of a recurrence: of an input and two states."""

    def gate(x: Array) -> Array:
        return x if not bound else np.clip(x, -bound, bound)

    before: Any = 0.0 if bias is None else bias[:width]
    after: Any = 0.0 if bias is None else bias[width:]

    def lstm(x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        return _lstm(x @ w + h @ r + before + after, h, c, (gate, peek), f, forget)

    def gru(x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        k = h.shape[-1]
        a = x @ w + before
        both = h @ r[:, : 2 * k] + (after if bias is None else after[: 2 * k])
        update = f[0](gate(a[:, :k] + both[:, :k]))
        reset = f[0](gate(a[:, k : 2 * k] + both[:, k:]))
        rest = after if bias is None else after[2 * k :]
        if reset_after:
            inner = reset * (h @ r[:, 2 * k :] + rest)
        else:
            inner = (reset * h) @ r[:, 2 * k :] + rest
        new = f[1](gate(a[:, 2 * k :] + inner))
        return (1 - update) * new + update * h, c

    def rnn(x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        return f[0](gate(x @ w + h @ r + before + after)), c

    return {"LSTM": lstm, "GRU": gru, "RNN": rnn}[kind]


@row("LSTM", "GRU", "RNN")
def _recur(
    x: Array,
    w: Array,
    r: Array,
    bias: Array = None,
    lengths: Any = None,
    start: Array = None,
    cell: Array = None,
    peepholes: Array = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
    *,
    step: Any,
) -> Any:
    settings = {**step.settings, "hidden_size": hidden_size or r.shape[-1]}
    made = _run_recurrence(
        step.op, x, w, r, bias, lengths, start, cell, peepholes, settings
    )
    return made[: 3 if step.op == "LSTM" else 2]
