"""Fresh checkouts and fresh environments, for tests of what a stranger installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODE = {"node", "nodejs", "npm", "npx", "corepack", "yarn", "jlpm", "jupyter-builder"}


def run(*command: str | Path, cwd: Path, limit: float = 300, **env: str) -> str:
    """What a command prints; its failure shows all of that."""
    answer = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
    return answer.stdout


def copy_checkout(folder: Path) -> Path:
    """What a clone of this working tree would hold: no build, no packages."""
    known = ("--cached", "--others", "--exclude-standard", "-z")
    for name in run("git", "ls-files", *known, cwd=ROOT).split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return folder


def path_without_node(folder: Path) -> str:
    """A PATH on which everything but Node is found: links stand in for its folders."""
    kept = []
    for number, entry in enumerate(os.environ["PATH"].split(os.pathsep)):
        place = Path(entry)
        if any((place / name).exists() for name in NODE):
            links = folder / str(number)
            links.mkdir(parents=True)
            for program in place.iterdir():
                if program.name not in NODE:
                    (links / program.name).symlink_to(program)
            place = links
        kept.append(str(place))
    return os.pathsep.join(kept)


def environment(
    folder: Path,
    *requirements: str | Path,
    cwd: Path = ROOT,
    python: str = sys.executable,
) -> Path:
    """The programs of a new environment in which only `requirements` are installed."""
    run(python, "-m", "venv", folder, cwd=cwd)
    programs = folder / "bin"
    words = [str(word) for word in requirements]
    installer = shutil.which("uv")
    if installer:
        # Ten times as fast as pip, but it does not read pip's settings.
        python = ("--python", programs / "python")
        try:
            run(installer, "pip", "install", *python, *words, cwd=cwd)
            return programs
        except AssertionError as error:
            print(error)
    run(programs / "python", "-m", "pip", "install", *words, cwd=cwd, limit=600)
    return programs
