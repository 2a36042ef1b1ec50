"""A real IPython shell in this process, for cells that tests run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
TOLD = re.compile(r"^\w+Error: .+(?:\n.+)*", re.MULTILINE)


class Ran:
    """What came of one cell."""

    def __init__(self, result: Any, captured: Any) -> None:
        self.result = result.result
        self.error = result.error_before_exec or result.error_in_exec
        self.stdout = ESCAPES.sub("", captured.stdout)
        self.stderr = ESCAPES.sub("", captured.stderr)
        self.outputs = [output.data for output in captured.outputs]

    @property
    def text(self) -> str:
        """All that was printed, errors included; the text of one is one line.

        A notebook shows it broken between words.
        """
        return TOLD.sub(lambda told: told[0].replace("\n", " "), self.shown)

    @property
    def shown(self) -> str:
        """All that was printed, line by line."""
        return self.stdout + self.stderr


class Notebook:
    """Cells, run one after the other in one namespace."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.names: dict[str, Any] = shell.user_ns
        self.run("import numpy as np\nimport workbench as wb")
        self._first = dict(self.names)

    def reset(self) -> None:
        """Forget all names but those of the start."""
        self.names.clear()
        self.names.update(self._first)

    @property
    def number(self) -> int:
        """What the notebook shows at the cell that has run last."""
        return self.shell.execution_count - 1

    def run(self, cell: str, *, ok: bool = True) -> Ran:
        """Run a cell as a front end does."""
        with capture_output() as captured:
            result = self.shell.run_cell(cell, store_history=True)
        ran = Ran(result, captured)
        if ok:
            assert ran.error is None, ran.text
        return ran


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "workbench")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture(scope="module")
def _notebook(shell: InteractiveShell) -> Notebook:
    return Notebook(shell)


@pytest.fixture
def notebook(_notebook: Notebook) -> Notebook:
    """A notebook with nothing in it but NumPy and Workbench."""
    _notebook.reset()
    return _notebook
