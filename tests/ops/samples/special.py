"""The ufuncs of `scipy.special`: gamma, beta, error functions, logistic, integrals."""

from __future__ import annotations

import numpy as np
from scipy import special as sp

from tests.ops.samples.table import Draw, Table, apart, constant, inside, positive

row = Table()


def between(low: float, high: float, *shape: int) -> Draw:
    return lambda rng: rng.uniform(low, high, shape)


# Gamma and beta

for _name in "gamma gammaln rgamma psi".split():
    row(_name, getattr(sp, _name), apart(2, 3))
row("gamma of complex", sp.gamma, positive(3), kinds="c", order=1)
row("rgamma of complex", sp.rgamma, apart(3), kinds="c", order=1)
row("loggamma", sp.loggamma, positive(3))
row("loggamma of complex", sp.loggamma, positive(3), kinds="c", order=1)
row("gammasgn", lambda x: x * sp.gammasgn(x), apart(4))
row("gammaln of none and of one", lambda x: sp.gammaln(x[:0]).sum() + x[0], apart(1))
row("poch", sp.poch, positive(2, 1), positive(1, 3))
row("zeta", lambda q: sp.zeta(2.5, q), positive(3))
row("zeta of integers", lambda q: sp.zeta(constant([2, 3, 4], q), q), apart(2, 3))
row(
    "zeta without derivative",
    lambda x: x * sp.zeta(np.floor(x) + 3) * sp.zetac(np.floor(x) + 3),
    positive(3),
)
row("beta", sp.beta, positive(2, 3), positive(3))
row("betaln", sp.betaln, positive(2, 1), positive(1, 3))
row("binom", sp.binom, between(4, 6, 3), positive(3))
for _name in "gammainc gammaincc".split():
    row(_name, getattr(sp, _name), between(0.5, 3, 3), positive(2, 3))
for _name in "gammaincinv gammainccinv".split():
    row(_name, getattr(sp, _name), between(0.5, 3, 3), between(0.2, 0.8, 3))
for _name in "betainc betaincc betaincinv betainccinv".split():
    row(_name, getattr(sp, _name), between(1, 3, 3), between(1, 3, 3),
        between(0.2, 0.8, 2, 3))  # fmt: skip
row("wright_bessel", lambda x: sp.wright_bessel(1.5, 1.1, x), positive(3))
row("log_wright_bessel", lambda x: sp.log_wright_bessel(1.5, 1.1, x), positive(3))

# Error functions and the normal distribution

for _name in "erf erfc erfcx erfi dawsn ndtr log_ndtr".split():
    row(_name, getattr(sp, _name), apart(2, 3), kinds="fc")
for _name in "erfinv".split():
    row(_name, getattr(sp, _name), inside(3))
for _name in "erfcinv ndtri".split():
    row(_name, getattr(sp, _name), between(0.2, 0.8, 3))
row("erfcx far out", sp.erfcx, between(51, 60, 3))
row("dawsn far out", sp.dawsn, between(51, 60, 3))
row("log_ndtr far out", sp.log_ndtr, between(-60, -50, 3))
row("ndtri_exp", sp.ndtri_exp, between(-3, -1, 3))
row("wofz", sp.wofz, positive(3), kinds="c")
row("wofz of real", lambda x: sp.wofz(x).imag, apart(3))
row("owens_t", sp.owens_t, apart(2, 3), apart(3))
row("voigt_profile", sp.voigt_profile, apart(2, 3), positive(3), positive(3))
row("fresnel", lambda x: sp.fresnel(x)[0] * sp.fresnel(x)[1], apart(3), kinds="fc")

# Logistic functions, entropies, losses, power transforms

for _name in "expit log_expit entr exprel cosm1 exp10".split():
    row(_name, getattr(sp, _name), positive(3) if _name == "entr" else apart(2, 3))
row("logit", sp.logit, between(0.1, 0.9, 3))
for _name in "sindg cosdg tandg cotdg".split():
    row(_name, getattr(sp, _name), between(20, 70, 3))
row("radian", sp.radian, apart(2, 3), apart(3), apart(3))
row(
    "NumPy's by SciPy's names",
    lambda x: sp.cbrt(x) + sp.exp2(x) * sp.expm1(x) + sp.log1p(x) * sp.round(x),
    positive(3),
)
row("xlogy", sp.xlogy, apart(2, 3), positive(3), kinds="fc")
row("xlog1py", sp.xlog1py, apart(2, 3), positive(3), kinds="fc")
row("rel_entr", sp.rel_entr, positive(2, 3), positive(3))
row("kl_div", sp.kl_div, positive(2, 3), positive(3))
row("rel_entr outside", lambda x, y: np.exp(-sp.rel_entr(x, y)), apart(3), apart(3))
row("huber", sp.huber, positive(3), apart(2, 3, shift=0.024))
row("pseudo_huber", sp.pseudo_huber, positive(3), apart(2, 3))
row("boxcox", sp.boxcox, positive(2, 3), apart(3))
row("boxcox near 0", sp.boxcox, positive(3), between(-0.01, 0.01, 3))
row("boxcox1p", sp.boxcox1p, positive(3), apart(3))
row("inv_boxcox", sp.inv_boxcox, positive(2, 3), positive(3))
row("inv_boxcox near 0", sp.inv_boxcox, apart(3), between(-0.01, 0.01, 3))
row("inv_boxcox1p", sp.inv_boxcox1p, positive(3), positive(3))
row("powm1", sp.powm1, positive(3), apart(2, 3))
row("lambertw", lambda z: sp.lambertw(z), positive(3), kinds="c")
row("lambertw of real", lambda x: sp.lambertw(x).real, positive(3))
row("lambertw, another branch", lambda z: sp.lambertw(z, 1), positive(3), kinds="c")
row("wrightomega", sp.wrightomega, apart(3), kinds="fc")
row("tklmbda", sp.tklmbda, between(-0.8, 0.8, 2, 3), between(0.3, 0.9, 3))

# Exponential integrals and their like; hypergeometric functions

row("expi", sp.expi, apart(3))
row("expi of complex", sp.expi, positive(3), kinds="c")
row("exp1", sp.exp1, positive(3), kinds="fc")
row("expn", lambda x: sp.expn(3, x) + sp.expn(1, x) + sp.expn(0, x), positive(3))
row("expn of orders", lambda x: sp.expn(constant([0, 1, 5], x), x), positive(2, 3))
row("sici", lambda x: sp.sici(x)[0] * sp.sici(x)[1], positive(3), kinds="fc")
row("shichi", lambda x: sp.shichi(x)[0] * sp.shichi(x)[1], positive(3), kinds="fc")
row("spence", sp.spence, positive(3), kinds="fc")
row("spence near 1", sp.spence, between(0.96, 1.04, 3))
row("hyp0f1", lambda z: sp.hyp0f1(1.3, z), apart(3), kinds="fc")
row("hyp1f1", lambda z: sp.hyp1f1(0.7, 1.3, z), apart(3), kinds="fc")
row("hyperu", lambda z: sp.hyperu(0.7, 1.3, z), positive(3))
row("hyp2f1", lambda z: sp.hyp2f1(0.7, 1.2, 2.3, z), inside(2, 3), kinds="fc")
row("kolmogorov", sp.kolmogorov, between(0.4, 1.8, 4))
row("kolmogi", sp.kolmogi, between(0.2, 0.8, 3))

# Elliptic integrals and functions

for _name in "ellipk ellipe".split():
    row(_name, getattr(sp, _name), inside(2, 3))
    row(f"{_name} near 0", getattr(sp, _name), between(-0.01, 0.01, 3))
row("ellipkm1", sp.ellipkm1, positive(2, 3))
row("ellipkm1, small", sp.ellipkm1, between(0.1, 0.2, 3))
for _name in "ellipkinc ellipeinc".split():
    row(_name, getattr(sp, _name), apart(2, 3), inside(3))
    row(f"{_name} of more turns", getattr(sp, _name), between(4, 6, 3), inside(3))
for _i, _part in enumerate(("sn", "cn", "dn", "ph")):
    row(f"ellipj {_part}", lambda u, m, i=_i: sp.ellipj(u, m)[i], apart(2, 3),
        between(0.1, 0.8, 3))  # fmt: skip
row("elliprc", sp.elliprc, positive(2, 3), between(2.1, 3, 3))
row("elliprf", sp.elliprf, between(0.5, 1, 2, 3), between(1.5, 2, 3), between(3, 4, 3))
row("elliprd", sp.elliprd, between(0.5, 1, 2, 3), between(1.5, 2, 3), between(3, 4, 3))
row("elliprg", sp.elliprg, between(0.5, 1, 2, 3), between(1.5, 2, 3), between(3, 4, 3))
row("elliprg of equals", lambda x: sp.elliprg(x, 2 * x, x), positive(3))
row(
    "elliprd of equals",
    lambda x: sp.elliprd(x, 2 * x, x) + sp.elliprd(x, x, x) + sp.elliprd(x, x, 1 + x),
    positive(3),
)
row("agm", sp.agm, positive(2, 3), positive(3))
