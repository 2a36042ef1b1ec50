"""Gradient rules to attach: clipped, scaled, stopped, safe, noisy, natural.

Each function here returns what :func:`workbench.override` takes as ``vjp``: a text
wherever a text can say it, so that it can be edited in the page and stored, and else
a function. The names of the texts (``"safe_sqrt(eps=1e-6)"``) can be written by hand
too.

What flows back is changed (`overrides/shipped/clipping.py`)
    `clip`, `clip_by_norm`, `scale`, `normalise`, `stop`, `reverse`,
    `straight_through`, `sanitise`, `formula`; entry by entry
    `sanitise_entries`; with noise `noise`
Derivatives that stay finite at singular points (`overrides/shipped/safe.py`)
    `safe_sqrt`, `safe_log`, `safe_divide`, `safe_power`, `safe_norm`, `safe_atan2`,
    `safe_arcsin`, `safe_arccos`, `safe_exp`
The steepest direction in another metric (`overrides/shipped/natural.py`, `fisher.py`)
    `natural`, `fisher`, `kfac`

In forward mode a rule that is linear in what arrives is transposed (`scale`, `stop`,
`reverse`, `straight_through`, all safe ones, `natural`); the others make forward mode
an error that says so, unless the override says ``jvp="true"``. Jacobians and Hessians
then go in reverse mode by themselves.
"""

from __future__ import annotations

from workbench.overrides.shipped.clipping import (
    clip,
    clip_by_norm,
    formula,
    noise,
    normalise,
    reverse,
    sanitise,
    sanitise_entries,
    scale,
    stop,
    straight_through,
)
from workbench.overrides.shipped.fisher import fisher, kfac
from workbench.overrides.shipped.natural import natural
from workbench.overrides.shipped.safe import (
    safe_arccos,
    safe_arcsin,
    safe_atan2,
    safe_divide,
    safe_exp,
    safe_log,
    safe_norm,
    safe_power,
    safe_sqrt,
)

__all__ = [
    "clip",
    "clip_by_norm",
    "fisher",
    "formula",
    "kfac",
    "natural",
    "noise",
    "normalise",
    "reverse",
    "safe_arccos",
    "safe_arcsin",
    "safe_atan2",
    "safe_divide",
    "safe_exp",
    "safe_log",
    "safe_norm",
    "safe_power",
    "safe_sqrt",
    "sanitise",
    "sanitise_entries",
    "scale",
    "stop",
    "straight_through",
]
