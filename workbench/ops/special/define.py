"""Declarations of the ops behind `scipy.special`, and helpers of their rules.

A rule calls SciPy's functions by their names; `Special` finds them where the arrays
are: `scipy.special` for NumPy's, `cupyx.scipy.special` for CuPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from scipy import special as scipy_special
from scipy.special import _ufuncs as private

from workbench.core import blame
from workbench.core.dims import broadcast_shapes
from workbench.core.op import CALLS, UFUNCS, Op
from workbench.core.refusals import REFUSED
from workbench.core.tensor import Tensor
from workbench.core.types import Array, is_device_array, is_differentiable
from workbench.errors import NotDifferentiableError
from workbench.ops import define, device
from workbench.ops.define import Parts, apply_and_split, op
from workbench.ops.special.device import find_kernels

Slope = Callable[..., Any]

#: `numpy.where`, but of two Python numbers one of them, which stays a number.
where = define.RULE_NAMES["where"]


def _ufunc(name: str) -> np.ufunc | None:
    """Return a public ufunc of SciPy's, also from behind its array API wrapper."""
    found = getattr(scipy_special, name, None)
    if not isinstance(found, np.ufunc):
        found = getattr(found, "__wrapped__", None)
    return found if isinstance(found, np.ufunc) else None


class Special:
    """A function of `scipy.special`, in the library of its arguments.

    >>> erf = Special("erf")
    >>> erf, float(erf(0.0))
    (scipy.special.erf, 0.0)
    """

    __slots__ = ("__name__", "ufunc")

    def __init__(self, name: str) -> None:
        self.__name__ = name
        # `zeta`, `lambertw` and a few more are functions in front of a private ufunc.
        found = _ufunc(name)
        self.ufunc = getattr(private, f"_{name}") if found is None else found

    def __call__(self, *args: Any) -> Array:
        """Return the function of arrays of one library, or of Tensors."""
        if any(map(is_device_array, args)) and not any(
            isinstance(x, Tensor) for x in args
        ):
            # Numbers that SciPy made into arrays, such as the branch of `lambertw`.
            plain = (x[()] if type(x) is np.ndarray and not x.ndim else x for x in args)
            given = tuple(plain)
            return self._on_gpu(given)(*given)
        return self.ufunc(*args)

    def template(self, node: Tensor) -> str:
        """Return the template of a call in the text of a program."""
        if not self.__name__.startswith("spherical_") or self.__name__[-2:] != "_d":
            called = {"riemann_zeta": "zeta"}.get(self.__name__, self.__name__)
            return f"special.{called}({{all}})"
        # SciPy gives derivatives in double precision alone.
        single = node.dtype in (np.float32, np.complex64)
        cast = f".astype(np.{node.dtype})" if single else ""
        return f"special.{self.__name__[:-2]}({{all}}, derivative=True){cast}"

    def _on_gpu(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        module = import_module("cupyx.scipy.special")
        found: Callable[..., Any] | None = getattr(module, self.__name__, None)
        # Of some functions CuPy has the real loops alone.
        if found is None or any(define.dtype_of(x).kind == "c" for x in args):
            found = find_kernels(self.__name__, self.ufunc) or found
        if found is None:
            return lambda *args: device.compute_on_host(
                self.__name__, "such special function", self.ufunc, args
            )
        return found

    def __repr__(self) -> str:
        return f"scipy.special.{self.__name__}"


class _Functions:
    """Every function of `scipy.special` by its name, for rules: ``F.erf``."""

    def __getattr__(self, name: str) -> Special:
        made = Special(name)
        setattr(self, name, made)
        return made


#: SciPy's functions for rules that are more than a line.
F: Any = _Functions()

# Texts of rules call them by their bare names, unless NumPy has that name too.
for _name in dir(scipy_special):
    if _ufunc(_name) is not None and not hasattr(np, _name):
        define.RULE_NAMES.setdefault(_name, getattr(F, _name))
for _name in "zeta lambertw".split():
    define.RULE_NAMES[_name] = getattr(F, _name)
for _name in "jn yn in kn".split():
    for _part in (f"spherical_{_name}", f"spherical_{_name}_d"):
        define.RULE_NAMES[_part] = getattr(F, _part)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let texts of rules call a function of this package."""
    define.RULE_NAMES[function.__name__] = function
    return function


def float_helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let texts of rules call a function, to which integers arrive as floats."""

    @wraps(function)
    def compute(*args: Any, **settings: Any) -> Any:
        return function(*map(define.widen_integer, args), **settings)

    return helper(compute)


def special(
    name: str,
    *partials: str | None,
    pretty_rule: str = "",
    op_name: str = "",
    **more: Any,
) -> Op:
    """Declare a ufunc of `scipy.special`, with its partials as `elementwise` has them.

    None for a partial derivative that no function of SciPy's gives: to ask for it is
    an error. An input that does not vary costs nothing.
    """
    function: Special = getattr(F, name)
    names = ["x"] if len(partials) == 1 else [f"x{i}" for i in range(len(partials))]
    texts = tuple(
        f"refuse_derivative(g, {x}, {name!r}, {i})" if p is None else p
        for i, (x, p) in enumerate(zip(names, partials, strict=True))
    )
    new_op = define.elementwise(
        op_name or name, function, *texts, pretty_rule=pretty_rule, **more
    )
    UFUNCS[function.ufunc], new_op.ufunc = new_op, function.ufunc
    return new_op


@helper
def refuse_derivative(g: Array, x: Array, name: str, place: int) -> Array:
    """Refuse the derivative by an input; nothing flows back to integers."""
    if not is_differentiable(define.dtype_of(x)):
        return 0 * g
    return _refuse(name, place)


def _refuse(name: str, place: int) -> NoReturn:
    ordinal = ("first", "second", "third", "fourth", "fifth")[place]
    raise NotDifferentiableError(
        f"scipy.special.{name}{blame.user_line()}: its derivative by the {ordinal}"
        " argument has no closed form. Differentiate by another argument; or hold this"
        " one fixed on purpose, with wb.stop_gradient(x) or x.value in its place; or"
        " give"
        f' a rule of your own, wb.override("{name}", vjp=...).'
    )


def special_tuple(name: str, *slopes: Sequence[Slope] | None, **more: Any) -> Op:
    """Declare a ufunc with several outputs.

    ``slopes[i][k](y, *inputs)`` gives the derivative of output k by input i, from the
    outputs ``y``; None for an input by which no derivative has a closed form.
    """
    function: Special = getattr(F, name)

    def pull(i: int) -> Callable[..., Any]:
        def pulled(g: Parts, y: tuple[Any, ...], *inputs: Any) -> Array:
            known = slopes[i]
            if known is None:
                return refuse_derivative(
                    next(c for c in g if c is not None), inputs[i], name, i
                )
            terms = [
                c * slope(y, *inputs)
                for c, slope in zip(g, known, strict=True)
                if c is not None
            ]
            return sum(terms[1:], terms[0])

        return pulled

    def push(
        tangents: tuple[Any, ...], y: tuple[Any, ...], *inputs: Any
    ) -> tuple[Any, ...]:
        moving = []
        for i, t in enumerate(tangents):
            known = slopes[i]
            if t is not None:
                moving.append(
                    [refuse_derivative(t, inputs[i], name, i)] * len(y)
                    if known is None
                    else [t * slope(y, *inputs) for slope in known]
                )
        return tuple(sum(column[1:], column[0]) for column in zip(*moving, strict=True))

    new_op = op(name, function, *map(pull, range(len(slopes))), push=push, **more)
    new_op.batch, new_op.pattern = "aligned", "each"
    new_op.lengths = lambda *inputs: (
        (broadcast_shapes(*map(define.shape_of, inputs)),) * function.ufunc.nout
    )
    CALLS[function.ufunc] = lambda *inputs: apply_and_split(new_op, inputs)
    return new_op


@helper
def below(n: Array) -> Array:
    """Return the order below ``n``, and 0 for 0: the factor of that term is then 0."""
    return where(n == 0, 0, n - 1)


@helper
def by_x(y: Array, x: Array, at_zero: Any) -> Array:
    """Return ``y / x``, and its limit where x is 0."""
    return where(x == 0, at_zero, y / where(x == 0, 1, x))


def series(x: Array, *coefficients: float) -> Array:
    """Return a power series from its constant term on, by Horner's rule.

    >>> series(2.0, 1.0, 0.0, 3.0)
    13.0
    """
    y: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        y = y * x + c
    return y


# Functions of `scipy.special` that take no Tensors, each with its reason.
#
# A test looks through all ufuncs of SciPy: each is declared in this package or named
# here.


_PARAMETER = "it is solved for a shape parameter, by which no derivative is closed"
_VALUES = "characteristic values have no closed derivative by their parameters"

for _names, _why in (
    (
        "bdtrik bdtrin btdtria btdtrib fdtridfd nbdtrik nbdtrin pdtrik",
        _PARAMETER,
    ),
    (
        "mathieu_a mathieu_b mathieu_cem mathieu_sem mathieu_modcem1 mathieu_modcem2"
        " mathieu_modsem1 mathieu_modsem2 obl_cv pro_cv obl_ang1 obl_ang1_cv obl_rad1"
        " obl_rad1_cv obl_rad2 obl_rad2_cv pro_ang1 pro_ang1_cv pro_rad1 pro_rad1_cv"
        " pro_rad2 pro_rad2_cv",
        _VALUES,
    ),
    ("ncfdtridfd ncfdtridfn ncfdtrinc", _PARAMETER),
    ("smirnov smirnovi", "its density has no closed form in SciPy"),
    (
        "besselpoly",
        "SciPy has no derivative of this integral by its scale or its order",
    ),
    (
        "modfresnelm modfresnelp",
        "SciPy's values left of 0 are not the integrals that it names",
    ),
    (
        "elliprj",
        "its derivatives divide by differences of its arguments, and lose their digits"
        " where these are near each other",
    ),
):
    for _name in _names.split():
        _full = f"scipy.special.{_name}"
        REFUSED[_full] = (_why, f"{_full}(x.value, ...)")
