"""What changes a gradient on purpose: overrides, and ops that stand there for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from workbench.autodiff.inner_programs import PULLS, PUSHES, everything, held
from workbench.core.tensor import Tensor
from workbench.overrides.matching import resolve
from workbench.overrides.override import Override, override

__all__ = ["PURPOSE", "in_words", "passing", "true_within"]

#: Ops that change a gradient on purpose, and what they do.
PURPOSE = {
    "stop_gradient": "stops the gradient",
    "zero_grad": "makes the gradient zero",
    "grad_clip": "clips the gradient",
    "grad_scale": "scales the gradient",
}

#: So many gradients are named that one override changes.
MOST_NAMED = 8


def passing(nodes: Sequence[Tensor]) -> list[Override]:
    """Return overrides that let the true gradient pass those ops of a program.

    Their forward rules are the identity: so is what they pass on then.
    """
    found = {
        x.op.name
        for x in everything(nodes)
        if x.op.name in PURPOSE and not x.op.custom and x.origin is None
    }
    return [override(name, "g", jvp="t", name=name) for name in sorted(found)]


@contextmanager
def true_within(node: Tensor) -> Iterator[None]:
    """Let the true gradient pass those ops inside a node, a loop say."""
    ops = passing([node]) if node.op.inner_nodes else []
    with ExitStack() as stack:
        if ops:
            found = resolve(ops, everything([node]))
            stack.enter_context(held(PULLS, found.pulls()))
            stack.enter_context(held(PUSHES, found.pushes()))
        yield


def in_words(
    changed: Mapping[str, float], changers: Mapping[str, tuple[str, ...]]
) -> str:
    """Return what changes which gradients, and by how much.

    ``overrides (stop) change W by 100 %, b by 50 % on purpose``; empty where nothing
    is changed. ``changers`` names for each gradient what changes it.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, relative in changed.items():
        if relative != 0:
            by = changers.get(name, ())
            groups.setdefault(by, []).append(f"{name} {_amount(relative)}")
    return "; ".join(
        f"{_subject(by)} {_listed(amounts)} on purpose"
        for by, amounts in groups.items()
    )


def _listed(amounts: list[str]) -> str:
    more = len(amounts) - MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(amounts[:MOST_NAMED]) + rest


def _amount(relative: float) -> str:
    if math.isnan(relative):
        return "beyond comparison"
    return "from zero" if math.isinf(relative) else f"by {100 * relative:.3g} %"


def _subject(by: tuple[str, ...]) -> str:
    """Those that change something, with the verb."""
    given = [label for label in by if label not in PURPOSE]
    ops = [label for label in by if label in PURPOSE]
    parts = [f"overrides ({', '.join(given)})"] if given else []
    parts += [] if by else ["overrides"]
    many = bool(parts) or len(ops) > 1
    return f"{' and '.join([*parts, *ops])} {'change' if many else 'changes'}"
