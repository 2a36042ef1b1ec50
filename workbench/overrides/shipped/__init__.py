"""The rules that come with Workbench; `workbench.rules` is their public face.

To add one, say ``wb.rules.dampen(0.5)``, the gradient times ``|y|`` to a power:

1. the function, in `clipping.py` (rules that change the true gradient) or `safe.py`
   (rules that stay finite). It checks its settings and returns a text in the language
   of rules if that can say it::

       def dampen(power: float) -> str:
           power = _check_positive("dampen", "the power", power)
           return f"d * abs(y)**{power!r}"

2. the name, in the import, ``__all__`` and the docstring of `workbench/rules.py`, and
   in ``notebooks/guide/reference/rules.md``;
3. the case, in ``CASES`` of ``tests/overrides/shipped/test_everywhere.py``: an op, the
   rule, and the same by hand. It is tried in every transform;
4. for the menu of the page a row of ``extension/src/panels/presets.ts``.

Then ``python -m pytest tests/overrides/shipped workbench/overrides/shipped
tests/project``.
"""

from workbench.core import hooks


@hooks.load_rules.set
def load_rules() -> None:
    """Load the modules of named rules; loading registers the rules."""
    from workbench.overrides.shipped import clipping, fisher, safe  # noqa: F401
