"""What a session keeps in a file of its own: its overrides, as far as they are data."""

from __future__ import annotations

import warnings
from dataclasses import replace
from os import PathLike

from workbench.errors import OverrideError, WorkbenchError
from workbench.session import applied_override, storing
from workbench.session.fair_lock import changing
from workbench.session.history import Entry
from workbench.session.state import Kept

__all__ = ["Saving"]


class Saving(Kept):
    """The part of `Session` that writes overrides to files and reads them."""

    def save(self, path: str | PathLike[str]) -> list[str]:
        """Write the overrides to a file, those that are data.

        Parameters
        ----------
        path
            The file, which is replaced. It holds JSON: rules that are texts or lists
            of nodes (`wb.graph_rule`), and targets that are nodes, ops or scopes.

        Returns
        -------
        What was not kept, a line for each override whose rule or target is code, as
        that of a pattern is; a warning says it too.

        Raises
        ------
        OSError
            If the file cannot be written; one that was there is as it was.

        Examples
        --------
        >>> import numpy as np, tempfile, workbench as wb
        >>> path = tempfile.mkdtemp() + "/overrides.json"
        >>> graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
        >>> session = wb.Session(graph)
        >>> one = session.override("tanh", "0.5 * d")
        >>> session.save(path)
        []
        >>> other = wb.Session(graph)
        >>> other.load(path)
        []
        >>> other.overrides
        [<override 1: scale ×0.5 on every tanh; changes x by 50 %>]
        """
        with self.lock:
            text, lost = storing.written(
                self.name, self._state.entries, self.nodes, self.graph.nodes
            )
        storing.write(path, text)
        if lost:
            warnings.warn(
                f"{self.name}.save: not kept, for they are code: {'; '.join(lost)}."
                f" {self.name}.code() prints their lines.",
                stacklevel=2,
            )
        return lost

    @changing
    def load(self, path: str | PathLike[str], *, strict: bool = True) -> list[str]:
        """Attach the overrides of a file that :meth:`save` has written.

        They come after those that are there, as one change, which one undo takes
        back; one that is there already is not attached again. The file is not
        trusted: nothing in it runs.

        Parameters
        ----------
        path
            The file.
        strict
            Whether all have to fit. If not, those that do are attached.

        Returns
        -------
        What did not fit, a line for each; empty if all did.

        Raises
        ------
        OverrideError
            If something does not fit: a node that is gone or has another op or
            shape, a rule that nobody has named. Nothing has changed then.
        UsageError
            If a rule would make arrays far larger than the program's, or work far
            longer: it is refused before it runs, and nothing has changed.
        SnapshotError
            If the file is damaged, too large, or of a newer Workbench.
        OSError
            If it cannot be read.

        Examples
        --------
        >>> import numpy as np, tempfile, workbench as wb
        >>> path = tempfile.mkdtemp() + "/overrides.json"
        >>> tanh, sin = (
        ...     wb.Session(wb.trace(lambda x: np.sum(f(x)))(np.zeros(2)))
        ...     for f in (np.tanh, np.sin)
        ... )
        >>> one = tanh.override("tanh", "0.5 * d")
        >>> tanh.save(path)
        []
        >>> len(sin.load(path, strict=False)), sin.overrides
        (1, [])
        """
        stored = storing.read(path)
        before, added = self._state, dict[int, Entry]()
        problems = dict[int, str]()  # by the place in the file, as `added`
        following = before.following
        for place, one in enumerate(stored):
            try:
                made = storing.fitted(one, self.nodes, self.graph.nodes)
                target = applied_override.target_in(
                    self.nodes, self.forward.program, made.target
                )
                made = replace(made, target=target)
                known = [e.override for e in (*before.entries, *added.values())]
                if any(applied_override.alike(made, other) for other in known):
                    continue
                added[place] = Entry(following, made)
                following += 1
            except WorkbenchError as error:
                problems[place] = str(error)
        if not strict:
            added = self._sifted(added, problems)
        lines = [
            f"{stored[place].where}: {storing.cut(problems[place], 1000)}"
            for place in sorted(problems)
        ]
        if problems and strict:
            raise OverrideError(
                f"{self.name}.load: {len(problems)} of {len(stored)} overrides do not"
                f" fit, and none was attached. {' '.join(lines[:5])} With"
                " strict=False those that fit are."
            )
        if added:
            count = f"{len(added)} override{'s' * (len(added) != 1)}"
            self._edit(f"load {count}", (*before.entries, *added.values()))
        return lines

    def _sifted(
        self, added: dict[int, Entry], problems: dict[int, str]
    ) -> dict[int, Entry]:
        """Those of some overrides that fit together; of the others the errors.

        All are tried at once, then halves of what does not fit: a file is not
        trusted, and one by one would be a sweep for each of those before.
        """
        before, good = self._state, dict[int, Entry]()
        stack = [list(added)]
        while stack:
            part = stack.pop()
            tried = good | {place: added[place] for place in part}
            try:
                self._fitting((*before.entries, *tried.values()), before.history)
                good = tried
            except WorkbenchError as error:
                half = len(part) // 2
                if half:
                    stack += [part[half:], part[:half]]
                else:
                    problems[part[0]] = str(error)
        return good
