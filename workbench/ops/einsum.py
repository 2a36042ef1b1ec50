"""`einsum`: any product of any number of operands, summed over any axes.

All spellings become one: explicit subscripts without an ellipsis. The gradient of
an operand is an einsum of the cotangent and the other operands. Three operands and
more are multiplied pair by pair, in the order that opt_einsum finds (D. G. A. Smith,
J. Gray, "opt_einsum", Journal of Open Source Software 3 (2018) 753).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from workbench.core.broadcasting import common
from workbench.core.dims import Dim, same
from workbench.core.op import declare, implements
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Spec, spec_of, value_spec
from workbench.ops.contraction import LETTERS, product_dtype
from workbench.ops.define import no_out, shape_of, sum_to
from workbench.ops.indexing import SCATTER
from workbench.ops.keys import ARRAY

__all__ = ["EINSUM", "parse"]

Params = dict[str, Any]
Batched = tuple[bool, ...]
Shape = tuple[Any, ...]


def _einsum_compute(*operands: Any, subscripts: str, optimize: Any = None) -> Any:
    shapes = tuple(map(shape_of, operands))
    if optimize is None:
        # Looking for products that BLAS can do pays only for large operands.
        optimize = len(operands) > 1 and sum(map(math.prod, shapes)) > 4096
        if len(operands) > 2 and not optimize:
            optimize = math.prod(_lengths(parse(subscripts)[0], shapes).values()) > 4096
    if len(operands) > 2 and (optimize is True or isinstance(optimize, str)):
        how = "auto" if optimize is True else optimize
        optimize = _path(subscripts, shapes, how)
    return np.einsum(subscripts, *operands, optimize=optimize)


@lru_cache(maxsize=1024)
def _path(subscripts: str, shapes: tuple[Shape, ...], how: str) -> Any:
    """The order of pairwise products, by opt_einsum; looked for once."""
    # Loaded here: a program without such products needs no search for paths.
    from opt_einsum import contract_path

    path, _ = contract_path(subscripts, *shapes, shapes=True, optimize=how)
    return ["einsum_path", *path]


def parse(subscripts: str) -> tuple[list[str], str]:
    """The terms of the operands, and that of the output."""
    inputs, output = subscripts.split("->")
    return inputs.split(","), output


def _lengths(terms: list[str], shapes: Sequence[Shape]) -> dict[str, int]:
    """The length of each letter's axis."""
    lengths: dict[str, Any] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f"{term!r} names {len(term)} axes of shape {shape}")
        for letter, n in zip(term, shape, strict=True):
            known = lengths.setdefault(letter, n)
            if isinstance(known, Dim) or isinstance(n, Dim):
                lengths[letter] = common(known, n)
            elif known != n:
                if 1 not in (n, lengths[letter]):
                    raise ValueError(
                        f"axes {letter!r} have lengths {lengths[letter]} and {n}"
                    )
                lengths[letter] = max(n, lengths[letter])
    return lengths


def _einsum_infer(*operands: Any, subscripts: str, **_: Any) -> Spec:
    specs = [value_spec(x) for x in operands]
    terms, output = parse(subscripts)
    lengths = _lengths(terms, [s.shape for s in specs])
    if missing := set(output) - set(lengths):
        raise ValueError(f"the output names {sorted(missing)}, which no operand has")
    return Spec(tuple(lengths[c] for c in output), product_dtype(*specs))


def _einsum_transpose(
    k: int, g: Any, operands: tuple[Any, ...], subscripts: str
) -> Any:
    """The cotangent of operand ``k``: an einsum of ``g`` and the others."""
    terms, output = parse(subscripts)
    term, shape = terms[k], shape_of(operands[k])
    others = [i for i in range(len(terms)) if i != k]
    letters = "".join(dict.fromkeys(term))
    reached = set(output).union(*(terms[i] for i in others))
    kept = "".join(c for c in letters if c in reached)
    inputs = ",".join([output, *(terms[i] for i in others)])
    # By the op, on arrays too: it multiplies pair by pair, np.einsum all at once.
    arrays = (g, *(operands[i] for i in others))
    passed = apply(EINSUM, arrays, {"subscripts": f"{inputs}->{kept}"})
    lengths = dict(zip(term, shape, strict=True))
    found = dict(zip(kept, shape_of(passed), strict=True))
    if kept != letters:
        passed = np.reshape(passed, tuple(found.get(c, 1) for c in letters))
    # Along axes that the forward pass summed away, it is the same for all.
    full = tuple(
        lengths[c]
        if same((found.get(c, 1),), (1,))
        else common(found[c], lengths[c])
        if isinstance(found[c], Dim) or isinstance(lengths[c], Dim)
        else found[c]
        for c in letters
    )
    if not same(shape_of(passed), full):
        passed = np.broadcast_to(passed, full)
    passed = sum_to(passed, tuple(lengths[c] for c in letters))
    return passed if letters == term else _on_diagonal(passed, letters, term, shape)


def _on_diagonal(x: Any, letters: str, term: str, shape: Shape) -> Any:
    """Zeros of ``shape`` with ``x`` where axes of the same letter agree."""
    parts = [
        np.reshape(
            np.arange(n, like=x), tuple(n if c == letter else 1 for c in letters)
        )
        for letter, n in zip(term, shape, strict=True)
    ]
    return apply(SCATTER, (x, *parts), {"key": (ARRAY,) * len(term), "shape": shape})


def _einsum_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    return [
        _einsum_transpose(k, g, inputs, params["subscripts"]) if mask >> k & 1 else None
        for k in range(len(inputs))
    ]


def _einsum_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
    total = None
    for k, t in enumerate(tangents):
        if t is not None:
            term = apply(EINSUM, (*inputs[:k], t, *inputs[k + 1 :]), params)
            total = term if total is None else total + term
    return total


def _einsum_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    terms, output = parse(params["subscripts"])
    batch = next(c for c in LETTERS if c not in params["subscripts"])
    terms = [batch + t if b else t for t, b in zip(terms, batched, strict=True)]
    subscripts = f"{','.join(terms)}->{batch}{output}"
    return apply(EINSUM, inputs, {**params, "subscripts": subscripts})


def _einsum_view(params: Params) -> bool:
    """Whether NumPy gives a view: axes of one operand in another order, a diagonal."""
    terms, output = parse(params["subscripts"])
    return len(terms) == 1 and set(terms[0]) == set(output)


EINSUM = declare("einsum")
EINSUM.compute, EINSUM.infer = _einsum_compute, _einsum_infer
EINSUM.lengths = _einsum_infer
EINSUM.view = _einsum_view
EINSUM.pull, EINSUM.push, EINSUM.batch = _einsum_pull, _einsum_push, _einsum_batch
EINSUM.rule = "einsum of g and the other operands"
EINSUM.cure = "Axes of the same letter must have the same length."


@implements(np.einsum)
def einsum(
    *operands: Any, out: None = None, optimize: Any = None, dtype: Any = None, **_: Any
) -> Any:
    """`numpy.einsum`, in all its spellings."""
    no_out("np.einsum", out)
    subscripts, arrays = _spelt(operands)
    if dtype is not None:
        arrays = tuple(np.astype(x, dtype) for x in arrays)
    params: Params = {
        "subscripts": _explicit(subscripts, [shape_of(x) for x in arrays])
    }
    if optimize is not None:
        hashable = isinstance(optimize, (bool, str))
        params["optimize"] = optimize if hashable else _frozen(optimize)
    return apply(EINSUM, arrays, params)


def _frozen(path: Any) -> Any:
    return tuple(map(_frozen, path)) if isinstance(path, (list, tuple)) else path


def _spelt(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The subscripts as text, from ``("ij->i", x)`` or ``(x, [0, 1], [0])``."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), tuple(map(admit, operands[1:]))
    pairs, output = list(operands), None
    if len(pairs) % 2:
        output = pairs.pop()
    arrays, terms = pairs[::2], pairs[1::2]
    used = sorted({n for term in terms for n in term if n is not Ellipsis})
    letters = {n: LETTERS[i] for i, n in enumerate(used)} | {Ellipsis: "..."}
    text = ",".join("".join(letters[n] for n in term) for term in terms)
    if output is not None:
        text += "->" + "".join(letters[n] for n in output)
    return text, tuple(map(admit, arrays))


def _explicit(subscripts: str, shapes: list[Shape]) -> str:
    """Subscripts with an output and letters in place of each ellipsis."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"einsum {subscripts!r} names {len(terms)} operands, and gets {len(shapes)}"
        )
    if not arrow:
        once = sorted(c for c in set(inputs) if c.isalpha() and inputs.count(c) == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    if "..." in subscripts:
        free = [c for c in reversed(LETTERS) if c not in subscripts]
        ranks = [
            len(s) - len(t.replace("...", "")) if "..." in t else 0
            for t, s in zip(terms, shapes, strict=True)
        ]
        widest = "".join(free[: max(ranks)])
        terms = [
            t.replace("...", widest[len(widest) - r :])
            for t, r in zip(terms, ranks, strict=True)
        ]
        output = output.replace("...", widest)
    return f"{','.join(terms)}->{output}"


@implements(np.einsum_path)
def einsum_path(
    *operands: Any, optimize: Any = "greedy", einsum_call: bool = False
) -> Any:
    """`numpy.einsum_path`: it looks at shapes alone."""
    find: Any = np.einsum_path
    return find(
        *(spec_of(x).example() if isinstance(x, Tensor) else x for x in operands),
        optimize=optimize,
        einsum_call=einsum_call,
    )
