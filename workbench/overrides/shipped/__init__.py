"""The rules that come with Workbench; `workbench.rules` is their public face."""

from workbench.core import hooks


@hooks.load_rules.set
def load_rules() -> None:
    """Load the modules of named rules; loading registers the rules."""
    from workbench.overrides.shipped import clipping, fisher, safe  # noqa: F401
