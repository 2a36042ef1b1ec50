"""The rules that come with Workbench; `workbench.rules` is their public face."""

from workbench.core import hooks


@hooks.load_rules.set
def load_rules() -> None:
    """Load the modules whose rules have names: they register themselves."""
    from workbench.overrides.shipped import clipping, fisher, safe  # noqa: F401
