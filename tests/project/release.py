"""Builds what a person publishes, and tries it: `make release`.

The archives of the sources and the wheel go into `dist`. Each extra is tried in an
empty environment, and the core on every Python that the machine has. Nothing is
published: the last lines say what a person does then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.project import environments
from tests.project.probes import PROBES

DIST = environments.ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def read_address(name: str) -> str:
    """Return an address of the project."""
    settings = tomllib.loads((environments.ROOT / "pyproject.toml").read_text())
    return str(settings["project"]["urls"][name])


def try_extra(wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel with an extra, or none, in an empty environment, and use it."""
    name = f"{wheel}[{extra}]" if extra else wheel
    programs = environments.environment(folder, name, cwd=folder.parent)
    run_probe(programs, extra or "core", folder.parent)


def run_probe(programs: Path, extra: str, folder: Path) -> None:
    """Run a probe in an environment, away from this checkout."""
    script = Path(__file__).with_name("probes.py")
    environments.run(programs / "python", script, extra, cwd=folder)


def find_pythons() -> dict[str, str]:
    """Return the Pythons of this machine, by their version."""
    found = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    # One without venv makes no environment: Debian has that in a package of its own.
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for version in PYTHONS:
        programs = [shutil.which(f"python{version}")]
        programs += map(str, versions.glob(f"{version}.*/bin/python"))
        for program in filter(None, programs):
            answer = subprocess.run(
                [program, "-c", ask], capture_output=True, text=True, check=False
            )
            if answer.stdout.strip() == version:
                found[version] = program
                break
    return found


def build() -> tuple[Path, Path]:
    """Return the sources and the wheel, made anew and found to be in order."""
    shutil.rmtree(DIST, ignore_errors=True)
    environments.run(sys.executable, "-m", "build", cwd=environments.ROOT, limit=900)
    (sources,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    environments.run(
        sys.executable, "-m", "twine", "check", "--strict", sources, wheel, cwd=DIST
    )
    return sources, wheel


def main() -> int:
    """Build, try, and say what a person does then."""
    sources, wheel = build()
    version = wheel.name.split("-")[1]
    print(f"Built {sources.name} and {wheel.name}; their metadata is in order.")
    with tempfile.TemporaryDirectory() as folder:
        extras = [name for name in PROBES if name != "core"]
        for number, extra in enumerate(["", *extras]):
            try_extra(wheel, extra, Path(folder, str(number)))
            print(f"In an empty environment: {f'[{extra}]' if extra else 'the core'}.")
        for known, program in find_pythons().items():
            place = Path(folder, known)
            programs = environments.environment(place, wheel, python=program)
            run_probe(programs, "core", Path(folder))
            print(f"On Python {known}: the core.")
    print(
        f"\nTo publish {version}: give the section of CHANGELOG.md its date, commit,\n"
        f"git tag v{version} && git push origin v{version}.\n"
        "The workflow `release` builds the same again and waits for a person's word\n"
        "in the environment `release` before it uploads."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
