"""What the class of a kernel declares: its settings, sources and threads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from workbench.custom.kernels.patterns import Pattern
from workbench.custom.kernels.places import Home, Text
from workbench.custom.kernels.signature import Signature
from workbench.custom.kernels.units import SETTINGS
from workbench.custom.op import Op
from workbench.errors import KernelError, UsageError

__all__ = [
    "arrays",
    "flags_of",
    "kinds_of",
    "letters",
    "sources_of",
    "threads_of",
    "told",
]

#: What a class declares; none of it is a setting.
DECLARED = (
    "inputs", "outputs", "types", "c", "cpp", "cuda", "flags", "threads", "messages",
    "derivatives", "time_limit",
)  # fmt: skip

#: What a setting of each type may be.
WANTED: dict[type, Any] = {bool: (bool, np.bool_), int: Integral, float: Real}


_ARRAY = re.compile(r"\s*([^:\[\],]+?)\s*:\s*([^:\[\],]+\[[^\[\]]*\])\s*(?:,|$)")


def arrays(cls: Any, which: str) -> dict[str, str]:
    """The arrays of ``"x: float64[n, 3], w: float64[n]"``, or of a mapping."""
    told = getattr(cls, which)
    if not isinstance(told, str):
        return dict(told)
    found: dict[str, str] = {}
    at = 0
    while at < len(told.rstrip()):
        part = _ARRAY.match(told, at)
        if part is None or part[1] in found:
            raise KernelError(
                f"{cls.__qualname__}: {which} = {told!r}: {told[at:].strip()!r} is no"
                " list of arrays with a name, dtype and shape each. Write"
                f' {which} = "x: float64[n, d], y: float64[]".'
            )
        found[part[1]] = part[2]
        at = part.end()
    return found


def letters(cls: Any) -> dict[str, Sequence[str]]:
    """The dtypes of ``"T: int32 | float64"``, or of a mapping."""
    told = cls.types
    if not isinstance(told, str):
        return dict(told)
    found: dict[str, Sequence[str]] = {}
    for part in filter(str.strip, told.split(",")):
        letter, _, names = part.partition(":")
        found[letter.strip()] = [name.strip() for name in names.split("|")]
    return found


def kinds_of(cls: type) -> dict[str, type]:
    """The type of each setting: what a kernel can be told."""
    found: dict[str, type] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Op):
            continue
        for name, told in vars(base).get("__annotations__", {}).items():
            if "ClassVar" in str(told) or name.startswith("_"):
                continue
            if name in DECLARED:
                raise UsageError(
                    f"{cls.__qualname__}: {name} is no setting but belongs to the"
                    f" class: write {name} = ... without an annotation."
                )
            spelled = {kind.__name__: kind for kind in SETTINGS}
            kind = spelled.get(getattr(told, "__name__", told))
            if kind is None:
                raise KernelError(
                    f"{cls.__qualname__}: the setting {name} is declared as {told!r};"
                    " a kernel takes settings of type bool, int or float."
                )
            found[name] = kind
    return found


def sources_of(cls: Any, home: Home) -> dict[str, Text]:
    """The sources of a class, by their language."""
    found = {}
    for language in ("c", "cpp", "cuda"):
        told = getattr(cls, language)
        if told is None:
            continue
        if isinstance(told, Path):
            try:
                found[language] = Text(told.read_text(encoding="utf-8"), home, told)
            except OSError as error:
                raise KernelError(
                    f"{cls.__qualname__}: {language} = {told!r} cannot be read:"
                    f" {error.strerror}."
                ) from error
        elif isinstance(told, str):
            found[language] = Text(told, home)
        else:
            raise KernelError(
                f"{cls.__qualname__}: {language} = {told!r} is no source. Write its"
                " text, or the pathlib.Path of its file."
            )
    if {"c", "cpp"} <= found.keys():
        raise KernelError(f"{cls.__qualname__} has C and C++ source. Keep one of them.")
    if not found and not cls._has_fallback():
        raise KernelError(
            f"{cls.__qualname__} has no source: write c, cpp or cuda = '''...'''."
        )
    return found


def flags_of(cls: Any) -> tuple[str, ...]:
    """The flags of a text, ``"-O3 -fopenmp"``, or of a sequence."""
    try:
        found = shlex.split(cls.flags) if isinstance(cls.flags, str) else [*cls.flags]
        wrong = not all(isinstance(flag, str) for flag in found)
    except (TypeError, ValueError):
        wrong = True
    if wrong:
        raise KernelError(
            f"{cls.__qualname__}: flags = {cls.flags!r} are no flags of a compiler."
            ' Write flags = "-O3 -fopenmp".'
        )
    return tuple(found)


def threads_of(cls: Any, signature: Signature) -> Pattern:
    """The text of ``threads`` as a length of the declaration's letters."""
    told = "1" if cls.threads is None else cls.threads
    made = Pattern.of(cls.name, "threads", f"int64[{told}]")
    known = {*signature.letters, *signature.settings, "size"}
    free = [x for x in made.letters() if x not in known]
    if free or len(made.dims) != 1:
        raise KernelError(
            f"{cls.__qualname__}: threads = {told!r} is no number of the letters"
            f" {', '.join(sorted(known - {'...'}))}."
        )
    return made


def told(name: str, kinds: dict[str, type], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as a kernel is told them."""
    if settings.keys() != kinds.keys():
        raise UsageError(
            f"{name}: its settings are {', '.join(settings) or 'none'}, and it declares"
            f" {', '.join(kinds) or 'none'}. Declare each as an annotated attribute,"
            " such as n: int, and leave __init__ out."
        )
    for key, value in settings.items():
        kind = kinds[key]
        fits = isinstance(value, WANTED[kind])
        if kind is int and fits:
            fits = not isinstance(value, bool) and -(2**63) <= value < 2**63
        if not fits:
            raise UsageError(
                f"{name}: the setting {key}={value!r} is declared as {kind.__name__},"
                f" and the kernel is told {SETTINGS[kind]}. Give it one of those."
            )
    return {key: kinds[key](value) for key, value in settings.items()}
