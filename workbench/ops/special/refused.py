"""Functions of `scipy.special` that take no Tensors, each with its reason.

A test looks through all ufuncs of SciPy: each is declared in this package or named
here.
"""

from __future__ import annotations

from workbench.core.refusals import REFUSED

__all__: list[str] = []

_PARAMETER = "it is solved for a shape parameter, by which no derivative is closed"
_VALUES = "characteristic values have no closed derivative by their parameters"
_NONCENTRAL = "no derivative of this noncentral distribution is closed in SciPy"

for _names, _why in (
    (
        "bdtrik bdtrin btdtria btdtrib chdtriv fdtridfd gdtrib nbdtrik nbdtrin"
        " pdtrik stdtridf",
        _PARAMETER,
    ),
    (
        "mathieu_a mathieu_b mathieu_cem mathieu_sem mathieu_modcem1 mathieu_modcem2"
        " mathieu_modsem1 mathieu_modsem2 obl_cv pro_cv obl_ang1 obl_ang1_cv obl_rad1"
        " obl_rad1_cv obl_rad2 obl_rad2_cv pro_ang1 pro_ang1_cv pro_rad1 pro_rad1_cv"
        " pro_rad2 pro_rad2_cv",
        _VALUES,
    ),
    (
        "chndtridf chndtrinc chndtrix ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc"
        " nctdtr nctdtridf nctdtrinc nctdtrit",
        _NONCENTRAL,
    ),
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
        "elliprg elliprj",
        "its derivatives need integrals of an order that SciPy does not have",
    ),
):
    for _name in _names.split():
        _full = f"scipy.special.{_name}"
        REFUSED[_full] = (_why, f"{_full}(x.value, ...)")
