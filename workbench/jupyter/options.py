"""The line after ``%%autodiff``: what it says, and what Tab offers."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import numpy as np

from workbench.errors import UsageError

__all__ = ["PARTS", "Options", "close", "complete", "is_input", "parse"]

#: What ``--show`` can name.
PARTS = {
    "graph": "both passes, live",
    "jacobian": "the derivative of what the output is computed from",
    "hessian": "the second derivatives",
    "check": "the gradient against differences",
    "none": "nothing",
}
_FLAGS = {
    "--wrt": "differentiate by these variables",
    "--name": "call the session so",
    "--show": "show these parts",
    "--seed": "the variable that holds the cotangent of an output of many numbers",
}


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes
    ----------
    output
        The variable to differentiate; None: the cell's last expression.
    wrt
        What to differentiate by; empty: every input that reaches the output.
    name
        The session's name in the notebook.
    show
        Parts to display, in order.
    seed
        The variable with the output's cotangent, or None.
    """

    output: str | None = None
    wrt: tuple[str, ...] = ()
    name: str = "ad"
    show: tuple[str, ...] = ("graph",)
    seed: str | None = None


def parse(line: str) -> Options:
    """Read the line.

    Raises
    ------
    UsageError
        In one line: what is wrong and what to write.
    """
    try:
        words = shlex.split(line.replace(",", " "), comments=True)
    except ValueError as error:
        raise UsageError(f"%%autodiff: {error} in {line.strip()!r}") from None
    given: dict[str, list[str]] = {"": []}
    flag = ""
    for word in words:
        if not word.startswith("-"):
            if flag in ("--name", "--seed") and given[flag]:
                flag = ""  # these take one word; the next is the output
            given[flag].append(word)
            continue
        flag, equals, rest = word.partition("=")
        if flag not in _FLAGS:
            raise UsageError(
                f"%%autodiff has no option {flag}{close(flag, _FLAGS)};"
                f" there are {', '.join(_FLAGS)}"
            )
        if flag in given:
            raise UsageError(f"%%autodiff: {flag} stands there twice")
        given[flag] = [rest] if equals else []
    for flag, values in given.items():
        if flag and not values:
            raise UsageError(f"%%autodiff: {flag} needs a value ({_FLAGS[flag]})")
        if flag in ("", "--name", "--seed") and len(values) > 1:
            what = flag or "the output"
            hint = f"; did you mean --wrt {' '.join(values[1:])}?" if flag == "" else ""
            raise UsageError(
                f"%%autodiff: {what} is one name, not {' '.join(values)}{hint}"
            )
    shown = _unique(given.get("--show", ["graph"]))
    for part in shown:
        if part not in PARTS:
            raise UsageError(
                f"%%autodiff: --show has no {part!r}{close(part, PARTS)};"
                f" there are {', '.join(PARTS)}"
            )
    made = Options(
        next(iter(given[""]), None),
        _unique(given.get("--wrt", [])),
        given.get("--name", ["ad"])[0],
        tuple(part for part in shown if part != "none"),
        next(iter(given.get("--seed", [])), None),
    )
    for name in (made.output, *made.wrt, made.name, made.seed):
        if name is not None and (not name.isidentifier() or iskeyword(name)):
            raise UsageError(f"%%autodiff: {name!r} is no name of a variable")
    return made


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def close(word: str, known: Iterable[str]) -> str:
    """``", did you mean W1?"``, or nothing where no name is close."""
    found = difflib.get_close_matches(word, list(known), 1, 0.5)
    if not found:
        lower = {name.lower(): name for name in known}
        found = [lower[word.lower()]] if word.lower() in lower else []
    return f", did you mean {found[0]}?" if found else ""


def is_input(value: Any) -> bool:
    """Whether a variable of the notebook becomes an input: float arrays, numbers."""
    if type(value) in (float, complex):
        return True
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("f", "c") and (
        type(value) is np.ndarray
        or isinstance(value, np.generic)
        or hasattr(value, "__cuda_array_interface__")
    )


def complete(text: str, names: Mapping[str, Any]) -> list[str]:
    """What Tab offers after ``text``, the line up to the cursor."""
    words = text.split()
    if text[-1:].isspace() or not words:
        words.append("")
    current, before = words[-1], words[1:-1]
    used = {word for word in before if word.startswith("--")}
    flag = next((word for word in reversed(before) if word.startswith("--")), "")
    offered = [f for f in _FLAGS if f not in used]
    if current.startswith("-"):
        return [f for f in offered if f.startswith(current)]
    variables = sorted(
        n for n, v in names.items() if not n.startswith("_") and is_input(v)
    )
    last = before[-1] if before else ""
    if flag == "--show":
        found = [p for p in PARTS if p not in before]
    elif flag == "--wrt":
        found = [v for v in variables if v not in before[before.index("--wrt") :]]
    elif flag == "--seed":
        found = variables if last == "--seed" else []
    elif flag == "--name":
        found = ["ad", "model"] if last == "--name" else []
    else:
        found = [] if before else variables
    if last not in _FLAGS:
        found = found + offered
    return [word for word in found if word.startswith(current)]
