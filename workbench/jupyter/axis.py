"""The entries along one side of a matrix, and the cells of a figure that show them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from workbench.jupyter.figure import plain_text
from workbench.session.matrix import starts_of

__all__ = ["MOST_CELLS", "Axis"]

#: The most cells of a figure along one axis.
MOST_CELLS = 200
#: About the width of a letter and the height of a line of the small type.
LETTER, LINE = 6.4, 15


class Axis:
    """Groups of named, indexed entries; those of a window fall into cells.

    >>> axis = Axis([("W", (2, 3)), ("b", ())])
    >>> axis.labels
    ['W[0, 0]', 'W[0, 1]', 'W[0, 2]', 'W[1, 0]', 'W[1, 1]', 'W[1, 2]', 'b']
    """

    def __init__(
        self,
        parts: Sequence[tuple[str, tuple[int, ...]]],
        window: tuple[int, int] | None = None,
    ) -> None:
        names = [name for name, _ in parts]
        self.parts = [
            (name if names.count(name) == 1 else f"{name} ({k + 1})", shape)
            for k, (name, shape) in enumerate(parts)
        ]
        sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in parts]
        self._edges = [0, *accumulate(sizes)]
        self.size = self._edges[-1]
        self.window = window or (0, self.size)
        self.block = max(1, -(-(self.window[1] - self.window[0]) // MOST_CELLS))
        #: The first entry of each cell of the figure, and the end.
        self.starts = starts_of(self._edges, self.window, self.block)

    @property
    def cells(self) -> int:
        """How many cells the figure has along it."""
        return len(self.starts) - 1

    def _part(self, flat: int) -> int:
        return int(np.searchsorted(self._edges, flat, "right")) - 1

    def index(self, flat: int) -> str:
        """The index of an entry within its node: ``[3, 1]``; empty of one number."""
        part = self._part(flat)
        shape = self.parts[part][1]
        if not shape:
            return ""
        found = np.unravel_index(flat - self._edges[part], shape)
        return f"[{', '.join(str(int(i)) for i in found)}]"

    def entry(self, flat: int) -> str:
        """How one writes an entry: ``W1[3, 1]``."""
        return self.parts[self._part(flat)][0] + self.index(flat)

    @property
    def labels(self) -> list[str]:
        """One text for each cell."""
        found = []
        for begin, end in pairwise(self.starts):
            label = self.entry(begin)
            if end - begin > 1:
                label += f" … {self.entry(end - 1)}"
            found.append(label)
        return found

    def edges(self) -> list[int]:
        """The cells at which groups begin, within the window, and the end."""
        low, high = self.window
        inside = [low, *(e for e in self._edges if low < e < high), high]
        places = np.searchsorted(self.starts, inside)
        return sorted({int(k) for k in places})

    def settings(self, pixels: int, *, across: bool) -> dict[str, Any]:
        """The axis of the figure: names at their middles, or single entries.

        ``pixels``: about how long it is drawn; ``across``: labels stand side by side.
        """
        made: dict[str, Any] = {
            "type": "category",
            "tickfont": {"size": 11},
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "tickmode": "array",
            "automargin": True,
        }
        if not across:
            made["tickangle"] = 0  # across a narrow page they stand upright
        if not self.cells:
            return made | {"tickvals": [], "ticktext": []}
        names = list(pairwise(self.edges()))
        longest = max(
            self.entry(self.starts[0]), self.entry(self.starts[-2]), key=len
        )  # of each group, about
        middles: list[float]
        need = (len(longest) + 2) * LETTER if across else LINE
        fits = max(1, int(pixels // need))
        if len(names) == 1 or self.cells <= fits:
            middles = list(range(0, self.cells, -(-self.cells // min(fits, 16))))
            texts = [self.entry(self.starts[int(k)]) for k in middles]
        else:
            middles, texts = [], []
            for a, b in names:
                name = self.parts[self._part(self.starts[a])][0]
                room = (b - a) / self.cells * pixels
                if room >= ((len(name) + 1) * LETTER if across else LINE):
                    middles.append((a + b - 1) / 2)
                    texts.append(name)
        texts = [plain_text(_short(text)) for text in texts]
        return made | {"tickvals": middles, "ticktext": texts}


def _short(text: str) -> str:
    return text if len(text) <= 32 else f"{text[:14]}…{text[-16:]}"
