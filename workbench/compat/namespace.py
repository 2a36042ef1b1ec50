"""One way to stand in for another library: its names, `install`, and what is unknown.

A package here that has the names of a library (`theano/`, `autograd/`, `tensorflow/`)
makes one `ForeignNamespace`. That puts its modules under the library's name, finds
names that it lacks in other modules, and says of all the rest that it is not known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from types import FunctionType, ModuleType
from typing import Any

from workbench.core.types import ArrayLike
from workbench.errors import UsageError

__all__ = ["ForeignNamespace"]

#: What a source answers of a name that it lacks.
MISSING = object()


class ForeignNamespace(MetaPathFinder):
    """The names of another library, and where they are found here.

    Attributes
    ----------
    name
        The library's name, as programs import it.
    package
        The name of the package that stands in for it.
    places
        The modules of the library that there are, by dotted names below it.
    aliases
        Where those of them are found that have another name here.
    begin, end
        What to do at `install` and at `uninstall` besides.

    Examples
    --------
    >>> from workbench.compat.namespace import ForeignNamespace
    >>> names = ForeignNamespace("numbers2", "workbench.compat")
    >>> _ = names.install()
    >>> import numbers2
    >>> numbers2.__name__
    'workbench.compat'
    >>> names.uninstall()
    """

    def __init__(
        self,
        name: str,
        package: str,
        places: Sequence[str] = (),
        aliases: Mapping[str, str] | None = None,
        begin: Callable[[], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.package = name, package
        self.places = tuple(places)
        self.aliases = dict(aliases or {})
        self.begin, self.end = begin, end

    @property
    def modules(self) -> dict[str, str]:
        """Each name of a module below the library, and where it is found here."""
        return {**{place: place for place in self.places}, **self.aliases}

    def resolve_module(self, place: str) -> Any:
        """Return what stands for a module of the library."""
        found: Any = sys.modules[self.package]
        for part in filter(None, place.split(".")):
            found = getattr(found, part)
        if isinstance(found, FunctionType):  # which has the name of its module
            return sys.modules[f"{self.package}.{place}"]
        return found

    def install(self) -> ModuleType:
        """Make ``import`` of the library's name, and of its modules, work.

        Returns
        -------
        The module that ``import`` of the name gives from now on, in this process.

        Raises
        ------
        UsageError
            If the library itself has been imported.
        """
        ours = sys.modules[self.package]
        known = sys.modules.get(self.name)
        if known is not None and known is not ours:
            raise UsageError(
                f"{self.name} itself has been imported, from"
                f" {getattr(known, '__file__', '?')}. Call install() before anything"
                " imports it, in a fresh process."
            )
        sys.modules[self.name] = ours
        for name, place in self.modules.items():
            found = self.resolve_module(place)
            if isinstance(found, ModuleType) and not hasattr(found, "__path__"):
                # Else Python says "not a package" of a module below it, and never asks.
                found.__path__ = []
            sys.modules[f"{self.name}.{name}"] = found
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        if self.begin is not None:
            self.begin()
        return ours

    def uninstall(self) -> None:
        """Undo `install`; names that programs have imported already stay.

        What two libraries begin, as Theano and PyTensor do, ends with the last of them.
        """
        if sys.modules.get(self.name) is sys.modules[self.package]:
            sys.meta_path.remove(self)
            for name in [self.name, *(f"{self.name}.{at}" for at in self.modules)]:
                sys.modules.pop(name, None)
        others = [x for x in sys.meta_path if isinstance(x, ForeignNamespace)]
        if self.end is not None and all(x.end is not self.end for x in others):
            self.end()  # also after a use by the package's own name

    def find_spec(
        self, name: str, path: Any = None, target: ArrayLike | None = None
    ) -> None:
        """Refuse a module of the library that is missing, and list those there are.

        ``importlib.util.find_spec``, which only asks, is answered with None.
        """
        asking = sys._getframe(2).f_globals.get("__name__") == "importlib.util"
        if name.startswith(f"{self.name}.") and not asking:
            raise ModuleNotFoundError(
                f"{name} is not known to Workbench. Of the modules of {self.name} it"
                f" has {', '.join(sorted(self.modules))}.",
                name=name,
            )

    def fall_back(
        self,
        place: str = "",
        *sources: Any,
        cure: Callable[[str], str] | None = None,
    ) -> Callable[[str], Any]:
        """Return the ``__getattr__`` of a module: other modules' names, or the error.

        A function hides the module of its name, as it does in the libraries.

        Parameters
        ----------
        place
            The module's name below the library.
        sources
            Where names are looked up that the module lacks.
        cure
            What to write instead of a name; by default where the names are listed.
        """
        path = f"{self.name}.{place}".rstrip(".")

        def find_name(name: str) -> Any:
            below = f"{place}.{name}".lstrip(".")
            home = self.aliases.get(below, below)
            if not name.startswith("__"):
                for source in sources:
                    found = getattr(source, name, MISSING)
                    is_module = isinstance(found, ModuleType)
                    if found is not MISSING and not (is_module and home != below):
                        return found
            if home != below:
                return self.resolve_module(home)
            told = f"dir({path}) lists what is." if cure is None else cure(name)
            raise AttributeError(f"{path}.{name} is not known to Workbench. {told}")

        return find_name

    def list_names(
        self, place: str, own: Iterable[str], *sources: Any
    ) -> Callable[[], list[str]]:
        """Return the ``__dir__`` of a module that falls back on others.

        Parameters
        ----------
        place
            The module's name below the library.
        own
            The names that the module itself holds.
        sources
            Where names are looked up that it lacks, as for `fall_back`.
        """
        start = f"{place}." if place else ""
        below = [n.removeprefix(start) for n in self.modules if n.startswith(start)]
        modules = [name for name in below if "." not in name]

        def list_all() -> list[str]:
            found = [
                getattr(source, "__all__", None) or dir(source) for source in sources
            ]
            public = [n for names in found for n in names if not n.startswith("_")]
            return sorted({*own, *modules, *public})

        return list_all
