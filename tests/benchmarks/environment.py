"""The environment of `make bench`: Workbench's own needs, and its peers.

``python tests/benchmarks/environment.py`` makes or renews ``.venv-bench``. The peers
stand in ``peers.txt``; one that cannot be installed is told, and stops no other.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).with_name("peers.txt")
FOLDER = ROOT / ".venv-bench"


def list_installs() -> list[list[str]]:
    """Return what pip is to install, in this order; first what Workbench needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"]]
    for extra in ("compiled", "distributed", "jupyter"):
        needs += project["optional-dependencies"][extra]
    lines = [line.strip() for line in PEERS.read_text().splitlines()]
    return [needs] + [x.split() for x in lines if x and not x.startswith("#")]


def main() -> int:
    """Install what is not there yet."""
    stamp, installs = FOLDER / "installed.txt", list_installs()
    text = "\n".join(map(" ".join, installs))
    if stamp.exists() and stamp.read_text() == text:
        return 0
    print("Installing the benchmarks' peers into .venv-bench: some minutes", flush=True)
    if not FOLDER.exists():
        venv.create(FOLDER, with_pip=True)
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    pip = [str(FOLDER / scripts / "python"), "-m", "pip", "install", "--quiet"]
    # Later lines keep what Workbench needs as it is; pip takes no extras there.
    limits = FOLDER / "limits.txt"
    limits.write_text("\n".join(re.sub(r"\[.*?\]", "", x) for x in installs[0]))
    for one in installs:
        done = subprocess.run([*pip, "--constraint", str(limits), *one])
        if done.returncode and one is installs[0]:
            return done.returncode
        if done.returncode:
            print(f"left out, pip could not install it: {' '.join(one)}", flush=True)
    stamp.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
