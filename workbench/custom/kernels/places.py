"""Where the source of a kernel stands in the user's file or cell.

Looked for only when a compiler complains: the text of the file is parsed and the
literal found that holds the source.
"""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import NamedTuple

from workbench.core import source as lines

__all__ = ["Home", "Text"]


class Home(NamedTuple):
    """The file or cell of a class, and the line of its statement."""

    filename: str
    line: int

    @classmethod
    def of_caller(cls) -> Home:
        """The user's line that runs now."""
        site = lines.decode(*lines.caller(2))
        return cls("", 0) if site is None else cls(site.filename, site.line)


class Text(NamedTuple):
    """The source of a kernel, and where it comes from.

    ``file`` is set where it was read from one.
    """

    text: str
    home: Home
    file: Path | None = None

    def place(self, line: int) -> str:
        """A line of the source, as an error names it."""
        if self.file is not None:
            return f"{self.file.name}:{line}"
        first = self._first()
        if first is None:
            return f"line {line} of the source"
        return f"{lines.short(self.home.filename)}:{first + line - 1}"

    def where(self) -> str:
        """The place of the source as an error quotes it; empty if it is not known."""
        place = self.place(1)
        return "" if place.startswith("line") else f" (at {place})"

    def _first(self) -> int | None:
        """The line of the user's file on which the source begins."""
        whole = "".join(linecache.getlines(self.home.filename))
        try:
            tree = ast.parse(whole)
        except (SyntaxError, ValueError):
            return None
        found = [
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value == self.text
        ]
        # The nearest, should two kernels have the same text.
        return min(found, key=lambda n: abs(n - self.home.line), default=None)
