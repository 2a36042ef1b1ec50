"""What a function of symbols is made of: outputs, updates, replacements, leaves.

Everything that can be wrong with them is found here, before anything runs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from workbench.autodiff.derivatives import forward_nodes
from workbench.core import blame, types, walk
from workbench.core.dims import Dim
from workbench.core.graph import Graph
from workbench.core.shared import Shared, fits_dtype, refuse_sparse
from workbench.core.tensor import IDENTITY, Tensor, admit
from workbench.core.types import Shape
from workbench.errors import (
    DtypeError,
    MissingInputError,
    ShapeError,
    UnusedInputError,
    UsageError,
)
from workbench.symbolic.arguments import Signature, as_pairs, quote_symbol
from workbench.symbolic.variables import as_numbers


def is_leaf(x: Tensor) -> bool:
    """Return whether a Tensor gets its value from outside: a symbol or shared value."""
    return x.op is IDENTITY and not x.inputs and x._value is None


def as_output(y: object) -> Any:
    """Return an output: an expression, or a constant as an array of its own."""
    if isinstance(y, Tensor):
        return y
    if isinstance(y, Dim):
        return admit(y)
    if isinstance(y, (np.ndarray, list)) and np.asarray(y).dtype == object:
        return admit(np.asarray(y))
    if y is None or np.asarray(y).dtype.kind not in "biufc":
        raise UsageError(
            f"an output of a function is an expression or an array of numbers, not"
            f" {y!r}."
        )
    return y if hasattr(y, "dtype") else np.asarray(y)[()]


def check_updates(updates: object) -> dict[Shared, Any]:
    """Return the updates by shared value, each of which has one."""
    states: dict[Shared, Any] = {}
    for x, new in as_pairs(updates, "updates", "{w: w - step}"):
        if not isinstance(x, Shared):
            what = blame.describe(x) if isinstance(x, Tensor) else repr(x)
            raise UsageError(
                f"updates: {what} is not a shared value, and only shared values can be"
                " updated. Make one: w = wb.shared(0.0)."
            )
        if x in states:
            raise UsageError(f"updates: {x.describe()} is updated twice.")
        new = admit(new) if isinstance(new, Dim) else new
        states[x] = new if isinstance(new, Tensor) else x.fit_value(new)
    return states


def fit_update(new: object, x: Shared) -> Any:
    """Return the new value of a shared one, in its dtype."""
    if not isinstance(new, Tensor) or x.spec.dtype == object:
        return new
    if not np.can_cast(new.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"the update of {x.describe()} is"
            f" {blame.describe(new)}{blame.quote_site(new.site)}, which is not cast to"
            f" {x.dtype} automatically. Cast it: .astype(np.{x.dtype})."
        )
    if not _may_match(new.shape, x.shape):
        raise ShapeError(
            f"the update of {x.describe()} is {blame.describe(new)}"
            f"{blame.quote_site(new.site)}, of another shape. Update it with one of its"
            " shape, or leave lengths open where it is made: wb.shared(value,"
            " shape=(None,))."
        )
    return new if new.dtype == x.dtype else new.astype(x.dtype)


def _may_match(shape: Shape, other: Shape) -> bool:
    """Return whether two shapes agree where both are known."""
    return len(shape) == len(other) and all(
        m == n
        for m, n in zip(shape, other, strict=True)
        if isinstance(m, int) and isinstance(n, int)
    )


def replace_symbols(outputs: list[Any], givens: object) -> list[Any]:
    """Return the outputs with some Tensors replaced, all at once."""
    new: dict[Tensor, Any] = {}
    for x, value in as_pairs(givens, "givens", "{x: new}"):
        if not isinstance(x, Tensor):
            raise UsageError(
                f"givens: {x!r} is not a Tensor, so nothing reads it. Its keys are"
                " symbols, shared values or expressions."
            )
        if x in new:
            raise UsageError(f"givens: {blame.describe(x)} is replaced twice.")
        new[x] = _fit_replacement(value, x)
    if not new:
        return outputs
    # A leaf is computed from nothing, so a replaced expression runs as one.
    return Graph([*new], outputs).run([*new.values()])


def check_swaps(swap: object, readable: set[Shared]) -> dict[Tensor, Any]:
    """Return the pairs of shared values and their replacements, checked."""
    swaps: dict[Tensor, Any] = {}
    for x, other in as_pairs(swap, "swap", "{w: other}"):
        for one in (x, other):
            if not isinstance(one, Shared):
                raise UsageError(f"swap: {one!r} is not a shared value.")
        if x not in readable:
            raise UsageError(
                f"swap: the function neither reads nor writes {x.describe()}."
            )
        if types.spec_of(x) != types.spec_of(other):
            raise UsageError(
                f"swap: {other.describe()} takes the place of {x.spec}. Give one of"
                " the same dtype and shape."
            )
        swaps[x] = other
    return swaps


def _fit_replacement(value: Any, x: Tensor) -> Any:
    """Return the replacement of a Tensor, in the dtype of that Tensor."""
    what = f"givens: what replaces {blame.describe(x)}{blame.quote_site(x.site)}"
    if isinstance(value, Dim):
        value = admit(value)
    refuse_sparse(value, what)
    plain = not hasattr(value, "dtype")
    if plain:
        value = as_numbers(value, what)
    spec = types.spec_of(value)
    if not np.can_cast(spec.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"{what} is of dtype {spec.dtype}, which is not cast to {x.dtype}"
            " automatically. Cast it with .astype."
        )
    if plain and not fits_dtype(value, x.dtype):
        raise DtypeError(
            f"{what} is {value!r}, which is out of the range of {x.dtype}."
        )
    if not _may_match(spec.shape, x.shape):
        raise ShapeError(f"{what} is {spec}. Give one of the shape {x.shape}.")
    return value if spec.dtype == x.dtype else value.astype(x.dtype)


def find_shared_leaves(outputs: list[Any], signature: Signature) -> list[Shared]:
    """Return the shared values that outputs need; other symbols must be inputs."""
    given = {x.serial for x in signature.symbols}
    shared, missing = [], []
    for x in walk.order_nodes([y for y in outputs if isinstance(y, Tensor)]):
        if isinstance(x, Shared):
            shared.append(x)
        elif is_leaf(x) and x.serial not in given:
            missing.append(x)
    if missing:
        raise missing_symbols_error(missing, signature.function)
    return shared


def missing_symbols_error(
    missing: list[Tensor], what: str, cure: str = ""
) -> MissingInputError:
    """Return the error that names symbols without a value, and their lines."""
    shown = ", ".join(
        f"{x.name!r} {types.spec_of(x)}{blame.quote_site(x.site)}"
        if x.name
        else quote_symbol(x)
        for x in missing[:5]
    )
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    one = len(missing) == 1
    them = "it" if one else "them"
    givens = f"Add {them} to the inputs, or replace {them} with givens={{x: value}}"
    return MissingInputError(
        f"{what} needs the symbol{'s' * (not one)} {shown}{more}, and"
        f" {'it is' if one else 'they are'} given no value. {cure or givens}."
    )


def check_unused(outputs: list[Any], signature: Signature, policy: str) -> None:
    """Raise or warn, as the policy says, of inputs that nothing reads."""
    if policy == "ignore":
        return
    nodes = walk.order_nodes([y for y in outputs if isinstance(y, Tensor)])
    # A gradient may be a constant, as that of a sum is: its input is used all the same.
    nodes += forward_nodes(nodes)
    needed = {x.serial for x in nodes}
    unused = [(i, x) for i, x in enumerate(signature.symbols) if x.serial not in needed]
    if not unused:
        return
    shown = ", ".join(quote_symbol(x, i) for i, x in unused[:5])
    more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
    said = (
        f"{signature.function}: nothing reads the"
        f" input{'s' * (len(unused) != 1)} {shown}{more}. Leave"
        f" {'it' if len(unused) == 1 else 'them'} out, or pass"
        ' on_unused_input="ignore".'
    )
    if policy == "raise":
        raise UnusedInputError(said)
    warnings.warn(said, UserWarning, stacklevel=3)
