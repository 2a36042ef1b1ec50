"""The ufuncs of `scipy.special`: Bessel functions, polynomials, distributions."""

from __future__ import annotations

import numpy as np
from scipy import special as sp

from tests.ops.samples.special import between
from tests.ops.samples.table import Table, apart, constant, inside, positive
from workbench.scipy import special as ours

row = Table()

# Bessel functions: an integer order, one between, orders as an array

for _name in "jv yv iv kv hankel1 hankel2".split():
    _f, _kinds = getattr(sp, _name), "c" if _name[0] == "h" else "fc"
    row(_name, lambda x, f=_f: f(1.5, x), between(0.5, 2, 2, 3), kinds=_kinds)
    row(
        f"{_name} of integers",
        lambda x, f=_f: f(constant(range(3), x), x),
        between(0.5, 2, 2, 3),
        kinds=_kinds,
    )
row("hankel1 of real", lambda x: sp.hankel1(1, x).real * x, positive(3))
for _name in "jve yve ive kve hankel1e hankel2e".split():
    _kinds = {"k": "fc", "h": "c"}.get(_name[0], "f")
    _f = getattr(sp, _name)
    row(
        _name,
        lambda x, f=_f: f(1.5, x) + f(0, x),
        between(0.5, 2, 2, 3),
        kinds=_kinds,
    )
row("ive left of 0", lambda x: sp.ive(1, x), apart(3))
for _name in "yn kn".split():
    _f = getattr(sp, _name)
    row(_name, lambda x, f=_f: f(2, x) + f(0, x), between(0.5, 2, 3))
for _name in "j0 j1 i0 i1 i0e i1e".split():
    row(f"special.{_name}", getattr(sp, _name), apart(2, 3))
for _name in "y0 y1 k0 k1 k0e k1e".split():
    row(_name, getattr(sp, _name), between(0.5, 2, 2, 3))
for _name in "spherical_jn spherical_yn spherical_in spherical_kn".split():
    _f = getattr(ours, _name)
    _truth = getattr(sp, _name)
    row(
        _name,
        lambda x, f=_f: f(2, x) * f(0, x),
        between(0.5, 2, 2, 3),
        kinds="fc",
        truth=lambda x, f=_truth: (f(2, x) * f(0, x)).astype(x.dtype),
    )
    row(
        f"{_name}, its derivative",
        lambda x, f=_f: f(constant([0, 1, 3], x), x, derivative=True),
        between(0.5, 2, 2, 3),
        truth=lambda x, f=_truth: f(constant([0, 1, 3], x), x, derivative=True).astype(
            x.dtype
        ),
    )
row(
    "derivatives of Bessel functions",
    lambda x: (
        sp.jvp(1.5, x) * sp.yvp(1.5, x, 2) + sp.ivp(1, x) * sp.kvp(1, x)
        + (sp.h1vp(1, x) * sp.h2vp(2, x)).real
    ),
    positive(3),
)  # fmt: skip
row("airy", lambda x: sp.airy(x)[0] * sp.airy(x)[3], apart(3), kinds="fc")
row("airy, the others", lambda x: sp.airy(x)[1] * sp.airy(x)[2], apart(3))
row("airye", lambda x: sp.airye(x)[0] * sp.airye(x)[3], positive(3))
row("airye, the others", lambda x: sp.airye(x)[1] * sp.airye(x)[2], positive(3))
row("struve", lambda x: sp.struve(1.5, x) + sp.struve(0, x), positive(2, 3))
row("modstruve", lambda x: sp.modstruve(1.5, x) + sp.modstruve(0, x), positive(2, 3))
for _name in "ber bei berp beip".split():
    row(_name, getattr(sp, _name), apart(2, 3))
for _name in "ker kei kerp keip".split():
    row(_name, getattr(sp, _name), between(0.5, 2, 2, 3))
row(
    "kelvin",
    lambda x: sum(part.real * (k + part.imag) for k, part in enumerate(sp.kelvin(x))),
    positive(3),
)
for _name in "pbdv pbvv pbwa".split():
    _f = getattr(sp, _name)
    row(
        _name,
        lambda x, f=_f: f(1.3, x)[0] * (1 + f(1.3, x)[1]),
        positive(3),
    )
for _name in "itj0y0 iti0k0 it2j0y0 it2i0k0".split():
    _f = getattr(sp, _name)
    row(
        _name,
        lambda x, f=_f: f(x)[0] * (2 + f(x)[1]),
        between(1, 1.5, 3),
        order=1,
    )
for _i in (0, 2):  # SciPy has but seven digits farther out
    row(
        f"itairy {_i}",
        lambda x, i=_i: sp.itairy(x)[i] * sp.itairy(x)[i + 1],
        between(0.05, 0.25, 3),
        order=1,
    )
for _name in "itstruve0 it2struve0 itmodstruve0".split():
    row(_name, getattr(sp, _name), positive(3), order=1)

# Orthogonal polynomials: degree 0, a whole one and one between

for _name in (
    "legendre chebyt chebyu chebyc chebys laguerre sh_legendre sh_chebyt sh_chebyu"
).split():
    _f = getattr(sp, f"eval_{_name}")
    row(
        f"eval_{_name}",
        lambda x, f=_f: f(3, x) + f(0, x) + f(1.5, x),
        between(0.1, 0.9, 2, 3),
    )
    row(
        f"eval_{_name} of degrees",
        lambda x, f=_f: f(constant(range(3), x), x),
        between(0.1, 0.9, 2, 3),
    )
row(
    "eval_legendre of complex", lambda x: sp.eval_legendre(2.5, x), inside(3), kinds="c"
)
for _name in "hermite hermitenorm".split():
    _f = getattr(sp, f"eval_{_name}")
    row(
        f"eval_{_name}",
        lambda x, f=_f: f(3, x) + f(0, x) + f([1, 2, 3], x),
        apart(2, 3),
    )
row("eval_gegenbauer", lambda x: sp.eval_gegenbauer(3, 0.7, x), inside(3))
row("eval_genlaguerre", lambda x: sp.eval_genlaguerre(2.5, 0.7, x), positive(3))
row("eval_jacobi", lambda x: sp.eval_jacobi(3, 0.7, 0.3, x), inside(2, 3))
row(
    "eval_sh_jacobi",
    lambda x: sp.eval_sh_jacobi(3, 1.7, 0.6, x) + sp.eval_sh_jacobi(0, 1.7, 0.6, x),
    between(0.1, 0.9, 3),
)
row("lpmv", lambda x: sp.lpmv(1, 2.5, x) + sp.lpmv(0, 0, x), inside(3))

# Distribution functions by their old names

for _name in "pdtr pdtrc".split():
    _f = getattr(sp, _name)
    row(_name, lambda x, f=_f: f(2.0, x), positive(2, 3))
for _name in "chdtr chdtrc stdtr".split():
    row(_name, getattr(sp, _name), between(1, 4, 3), positive(2, 3))
for _name in "chdtri chdtriv stdtrit".split():
    _draws = between(1, 4, 3), between(0.2, 0.8, 2, 3)
    _order = -1 if _name == "chdtriv" else 1
    row(_name, getattr(sp, _name), *_draws[::_order])
row("stdtridf", sp.stdtridf, between(0.05, 0.1, 3), between(-2.6, -2, 2, 3))
row("gdtrib", sp.gdtrib, positive(3), between(0.2, 0.8, 2, 3), positive(3))
for _name in "fdtr fdtrc fdtri".split():
    row(_name, getattr(sp, _name), between(2, 4, 3), between(2, 4, 3),
        between(0.2, 0.8, 2, 3))  # fmt: skip
_five = np.int64(5)
for _name, _a in (("pdtri", (2,)), ("bdtr", (2.0, _five)), ("bdtrc", (2.0, _five)),
    ("bdtri", (2.0, _five)),
    ("nbdtr", (2, 5)), ("nbdtrc", (2, 5)), ("nbdtri", (2, 5))):  # fmt: skip
    _f = getattr(sp, _name)
    row(_name, lambda p, f=_f, a=_a: f(*a, p), between(0.2, 0.8, 2, 3))
for _name in "gdtr gdtrc".split():
    row(_name, getattr(sp, _name), positive(2, 3), between(1, 3, 3), positive(3))
row("gdtrix", sp.gdtrix, positive(3), between(1, 3, 3), between(0.2, 0.8, 3))
row("gdtria", sp.gdtria, between(0.2, 0.8, 3), between(1, 3, 3), positive(3))
row("chndtr", sp.chndtr, positive(2, 3), between(1.5, 4, 3), positive(3))
_draws = between(0.2, 0.8, 2, 3), between(1.5, 4, 3), positive(3)
row("chndtrix", sp.chndtrix, *_draws)
row("chndtridf", sp.chndtridf, between(3, 4, 3), between(0.3, 0.5, 2, 3), positive(3))
row("chndtrinc", lambda x: sp.chndtrinc(12 + x, 2.5, 0.2 + x / 40), positive(3))
_draws = between(2, 4, 3), between(5, 7, 3), positive(3)
row("ncfdtr", sp.ncfdtr, *_draws, positive(2, 3))
row("ncfdtri", sp.ncfdtri, *_draws, between(0.2, 0.8, 2, 3))
row("nctdtr", sp.nctdtr, between(2, 6, 3), apart(3), apart(2, 3))
row("nctdtrit", sp.nctdtrit, between(2, 6, 3), apart(3), between(0.2, 0.8, 2, 3))
row("nctdtridf", sp.nctdtridf, between(0.05, 0.1, 3), between(-0.5, 0.5, 2, 3),
    between(-2.6, -2, 3))  # fmt: skip
row(
    "nctdtrinc",
    sp.nctdtrinc,
    between(2, 6, 3),
    between(0.2, 0.8, 2, 3),
    apart(3),
    order=1,
)  # SciPy has but seven digits of some
row("nrdtrimn", sp.nrdtrimn, between(0.2, 0.8, 3), positive(3), apart(3))
row("nrdtrisd", sp.nrdtrisd, apart(3), between(0.6, 0.9, 3), between(2, 3, 3))

# SciPy's plain functions, in `workbench.scipy.special`

for _axis in (None, 0, (0, 2), -1):
    for _name in "softmax log_softmax logsumexp".split():
        _f = getattr(ours, _name)
        _truth = getattr(sp, _name)
        row(
            f"{_name} along {_axis}",
            lambda x, f=_f, a=_axis: f(x, axis=a),
            apart(2, 3, 2),
            truth=lambda x, f=_truth, a=_axis: f(x, axis=a),
        )
row("softplus", ours.softplus, apart(2, 3), truth=sp.softplus)
for _n in (0, 1, 3):
    row(
        f"polygamma {_n}",
        lambda x, n=_n: ours.polygamma(n, x),
        apart(2, 3),
        truth=lambda x, n=_n: sp.polygamma(n, x).astype(x.dtype),
    )
row(
    "polygamma of orders",
    lambda x: ours.polygamma(constant(range(3), x), x),
    positive(2, 3),
    truth=lambda x: sp.polygamma(np.arange(3), x),
)
row(
    "multigammaln",
    lambda a: ours.multigammaln(a, 3),
    between(2, 4, 3),
    truth=lambda a: sp.multigammaln(a, 3).astype(a.dtype),
)
row("zeta of SciPy's name", lambda q: ours.zeta(1.5, q), positive(3))
row("lambertw of SciPy's name", lambda x: ours.lambertw(x).real, positive(3))
row(
    "factorial",
    ours.factorial,
    apart(4),
    truth=lambda n: sp.factorial(n).astype(n.dtype),
)
row("comb", ours.comb, between(3, 5, 3), apart(2, 3), truth=sp.comb)
row("perm", ours.perm, between(3, 5, 3), apart(2, 3), truth=sp.perm)
row("diric", lambda x: ours.diric(x, 5) + ours.diric(x, 4), apart(3),
    truth=lambda x: (sp.diric(x, 5) + sp.diric(x, 4)).astype(x.dtype))  # fmt: skip
row("sinc of scipy.special", ours.sinc, apart(3))
