"""How lengths are written, and the error for one that is not known yet."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from workbench.core import source
from workbench.core.atoms import Atom, Length, Made, Polynomial, atoms_of
from workbench.errors import UnknownLengthError

__all__ = ["asked", "written"]

#: Those of two arguments that are written between them.
SIGNS = {"floordiv": "//", "mod": "%"}


def written(x: Any, name: Callable[[Atom], str], *, code: bool = False) -> str:
    """A length as text, with the names of its atoms; ``code`` as Python runs it."""
    if not isinstance(x, Polynomial):
        return str(x)
    order = sorted(
        x.terms.items(), key=lambda t: (-len(t[0]), t[1] < 0, [a.key for a in t[0]])
    )
    shown = ""
    between = " * " if code else "*"
    for product, factor in order:
        alone = len(product) == 1 and factor == 1 and len(order) == 1
        names = [_atom_text(a, name, code, alone=alone) for a in product]
        if abs(factor) != 1 or not names:
            names.insert(0, str(abs(factor)))
        text = between.join(names)
        if not shown:
            shown = f"-{text}" if factor < 0 else text
        else:
            shown += f" {'-' if factor < 0 else '+'} {text}"
    return shown


def _atom_text(
    atom: Atom, name: Callable[[Atom], str], code: bool, *, alone: bool
) -> str:
    if not isinstance(atom, Made):
        return name(atom)
    args = [written(x, name, code=code) for x in atom.args]
    if atom.kind in SIGNS:
        text = f" {SIGNS[atom.kind]} ".join(
            f"({arg})" if " " in arg or "*" in arg else arg for arg in args
        )
        return text if alone else f"({text})"
    if atom.kind == "broadcast" and code:
        lengths = ", ".join(f"({arg},)" for arg in args)
        return f"np.broadcast_shapes({lengths})[0]"
    return f"{atom.kind}({', '.join(args)})"


#: Calls of NumPy that make an array of a length, on the user's line.
_MAKER = re.compile(r"\bnp\.(zeros|ones|empty|full|eye|identity|arange|tri)\(")
#: What to write for those that look at the shape before anything else.
_LIKE = {"zeros": "np.zeros_like(x, shape=...)", "empty": "np.empty_like(x, shape=...)"}


def asked(what: str, length: Polynomial) -> UnknownLengthError:
    """The error for a number that is not known yet, with what to write instead."""
    site = source.decode(*source.caller())
    where = "" if site is None else f" (at {site.place}: {site.text})"
    text = "" if site is None else site.text
    maker = None if "broadcast_to(" in text else _MAKER.search(text)
    if maker is not None:
        call = _LIKE.get(maker[1], f"np.{maker[1]}(..., like=x)")
        cure = f"Write {call}, where x is a Tensor: the array is made at run time."
    else:
        cure = (
            "Write it where NumPy gets a Tensor too (x / n, np.reshape(x, ...),"
            " np.zeros_like(x, shape=...), np.arange(n, like=x); wb.constant(a) makes"
            " one of an array), use wb.scan in place of a loop over it, or declare the"
            " length: shape=(3,)."
        )
    named = ", ".join(
        dict.fromkeys(
            f"the length of axis {a.axis} of {a.tensor.name or a.tensor.op.name!r}"
            for a in atoms_of(length)
            if isinstance(a, Length)
        )
    )
    because = f"{named} is known only when the program runs" if named else (
        "it is known only when the program runs"
    )  # fmt: skip
    return UnknownLengthError(f"{what}{where}: {because}. {cure}")
