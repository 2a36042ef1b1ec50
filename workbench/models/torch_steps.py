"""PyTorch's own steps: its arrays as NumPy's, its derivatives, its authors' rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from workbench.errors import ModelError
from workbench.models.foreign import Library, Step

# PyTorch's derivatives of one step


def is_float(x: Any) -> bool:
    """Return whether an array of PyTorch's can have a derivative."""
    return bool(x.is_floating_point() or x.is_complex())


def to_torch(x: Any) -> Any:
    """Return a copy of an array as PyTorch's; anything else as it is."""
    import torch

    if isinstance(x, (np.ndarray, np.generic)):
        return torch.from_numpy(np.array(x))
    return x


def to_numpy(x: Any) -> Any:
    """Return PyTorch's array as NumPy's; anything else as it is."""
    import torch

    if not isinstance(x, torch.Tensor):
        return x
    try:
        return x.detach().resolve_conj().resolve_neg().numpy()
    except TypeError:
        raise ModelError(describe_dtype(x.dtype)) from None


def describe_dtype(dtype: Any, place: str = "") -> str:
    """Return what is to be done about a dtype that NumPy does not have."""
    name = str(dtype).removeprefix("torch.")
    return (
        f"models: an array of PyTorch's is {name}{place}, which NumPy does not have."
        " Use float32 there: module.float(), x.float(), and no autocast."
    )


def differentiate(ys: Sequence[Any], xs: Sequence[Any], gs: Sequence[Any]) -> Any:
    """Return PyTorch's gradients, zeros where there is no way; can be derived again."""
    import torch

    pairs = [(y, g) for y, g in zip(ys, gs, strict=True) if y.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in xs]
    if any(is_once_derived(y) for y, _ in pairs):
        raise ModelError(
            "models.from_torch: the backward of this function has once_differentiable,"
            " so nobody knows its derivative, which forward mode asks for too. Write"
            " backward with PyTorch's operations, without once_differentiable."
        )
    found = torch.autograd.grad(
        [y for y, _ in pairs], xs, [g for _, g in pairs],
        create_graph=True, allow_unused=True,
    )  # fmt: skip
    return [
        torch.zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)
    ]


def is_once_derived(y: Any) -> bool:
    """Return whether PyTorch put an error in the place of a way back from an array."""
    seen, rest = set(), [y.grad_fn]
    while rest:
        node = rest.pop()
        if node is None or node in seen:
            continue
        if node.name().endswith("Error"):  # on no way to an input: it is never run
            return True
        seen.add(node)
        rest += [before for before, _ in node.next_functions]
    return False


class Torch(Library):
    """PyTorch, which runs and derives steps."""

    name = "torch"

    def run(self, step: Step, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the step computes, as NumPy arrays."""
        return tuple(map(to_numpy, step(*map(to_torch, arrays))))

    def pull(self, step: Step, count: int) -> Step:
        """Return the step of inputs and cotangents to the gradients of floats."""
        import torch

        def back(*arrays: Any) -> tuple[Any, ...]:
            with torch.enable_grad():
                given, floats = self._vary(arrays[:count])
                ys = [y for y in step(*given) if is_float(y)]
                # PyTorch's gradient of a complex number is the conjugate of ours.
                gs = [g.conj() for g in arrays[count:]]
                made = differentiate(ys, floats, gs)
            return tuple(g.conj().resolve_conj() for g in made)

        return back

    def push(self, step: Step, count: int) -> Step:
        """Return the step of inputs and tangents of floats to tangents of floats."""
        import torch

        def forward(*arrays: Any) -> tuple[Any, ...]:
            with torch.enable_grad():
                given, floats = self._vary(arrays[:count])
                ys = [y for y in step(*given) if is_float(y)]
                # The gradient is linear in the cotangents: its own is the tangent.
                gs = [torch.zeros_like(y).requires_grad_() for y in ys]
                back = differentiate(ys, floats, gs)
                return tuple(differentiate(back, gs, arrays[count:]))

        return forward

    def _vary(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return inputs, of which those of floats can vary, and these."""
        given = [
            x.detach().requires_grad_() if is_float(x) and not x.requires_grad else x
            for x in arrays
        ]
        return given, [x for x in given if is_float(x)]


TORCH = Torch()


# The functions of an author with a rule of his own

#: The classes of `torch.autograd.Function` that programs call, with the arguments that
#: are no arrays, by the number that the program holds.
AUTHORED: list[tuple[Any, tuple[Any, ...]]] = []
#: What stands for an array among those arguments.
ARRAY = object()


def call_authored(xs: Sequence[Any], number: int) -> list[Any]:
    """Call an author's function on its arrays; return its outputs as a list."""
    function, template = AUTHORED[number]
    given = iter(xs)
    made = function.apply(*(next(given) if x is ARRAY else x for x in template))
    return list(made) if isinstance(made, tuple) else [made]


@cache
def authored_operator() -> Any:
    """Return the op that stands for such a call in a program."""
    import torch

    def compute(xs: Sequence[Any], number: int) -> list[Any]:
        return [y.clone() for y in call_authored(xs, number)]

    made = torch.library.custom_op(
        "workbench::autograd_function", compute, mutates_args=(),
        schema="(Tensor[] xs, int number) -> Tensor[]",
    )  # fmt: skip
    made.register_fake(compute)
    return made


@contextmanager
def keep_authored() -> Iterator[None]:
    """Let programs keep calls of autograd functions, whose rules export drops."""
    import torch

    stand_in = authored_operator()
    original = torch.autograd.Function.__dict__["apply"]
    inside = False

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        xs = [x for x in args if isinstance(x, torch.Tensor)]
        if inside or not xs or kwargs or cls.__module__.startswith("torch."):
            return original.__get__(None, cls)(*args, **kwargs)
        template = [ARRAY if isinstance(x, torch.Tensor) else x for x in args]
        AUTHORED.append((cls, tuple(template)))
        inside = True
        try:
            made = stand_in(xs, len(AUTHORED) - 1)
        finally:
            inside = False
        return made[0] if len(made) == 1 else tuple(made)

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = original


@contextmanager
def note_hooks() -> Iterator[list[str]]:
    """Note at which lines a model hooks the gradients of intermediate values."""
    import torch

    noted: list[str] = []
    original = torch.Tensor.register_hook

    def register_hook(tensor: Any, hook: Any) -> Any:
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        noted.append(f"register_hook at {place}")
        return original(tensor, hook)

    torch.Tensor.register_hook = register_hook
    try:
        yield noted
    finally:
        torch.Tensor.register_hook = original
