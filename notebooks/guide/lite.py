"""Build JupyterLite with the tutorials beside the documentation: `make site` runs this.

The folder is served by any static host. A reader's browser gets Pyodide and its
packages from where JupyterLite's kernel of this version gets them, and the others from
the package index. With ``--pyodide`` and ``--wheels`` all stand in the folder itself,
and no other machine is asked.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parent.parent
ROOT = NOTEBOOKS.parent
#: Tutorials that a browser cannot run: of a GPU's, Dask's and others' packages.
ELSEWHERE = ("09-on-the-gpu", "12-on-a-cluster", "14-other-libraries")
#: The kernel, which a notebook must name, or JupyterLite asks the reader.
KERNEL = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
#: What each notebook installs first, with what these need: a cell and its picture.
PACKAGES = ("autodiff-workbench", "opt_einsum")
#: And without what they need: its other half is in the page already.
WIDGETS = ("comm", "ipywidgets")
#: What is installed by a cell of its own, before the first that draws a plot: 10 MB.
PLOTS = ("narwhals", "plotly")
DRAWS = re.compile(r"\bplotly\b|\bplots\.|\.plot\(")


def list_tutorials() -> list[Path]:
    """Return the tutorials that run in a browser."""
    found = sorted(NOTEBOOKS.glob("*.ipynb"))
    return [one for one in found if one.stem not in ELSEWHERE]


def add_setup(notebook: dict[str, Any], own: Collection[str] = ()) -> None:
    """Name the browser's kernel, and put cells in that install packages.

    From the package index, or those of ``own``, which the site serves, and no others.
    """
    notebook["metadata"]["kernelspec"] = KERNEL
    cells = notebook["cells"]
    places = (
        i
        for i, cell in enumerate(cells)
        if cell["cell_type"] == "code" and DRAWS.search("".join(cell["source"]))
    )
    first = next(places, None)
    if first is not None:
        cells.insert(first, make_cell("plots", write_installation([PLOTS], own)))
    served = [x for x in (*PACKAGES, *WIDGETS) if x.replace("-", "_") in own]
    packages = [served] if own else [PACKAGES, WIDGETS]
    cells.insert(0, make_cell("setup", write_installation(packages, own)))


def make_cell(name: str, code: str) -> dict[str, Any]:
    """Return a cell of code that has not run."""
    cell = {"cell_type": "code", "id": name, "metadata": {}, "source": code}
    return {**cell, "execution_count": None, "outputs": []}


def write_installation(
    packages: Iterable[Sequence[str]], own: Collection[str] = ()
) -> str:
    """Return code that installs packages; widgets, and our own, bring no others."""
    lines = ["import piplite", ""]
    for names in packages:
        alone = ", deps=False" if own or names is WIDGETS else ""
        lines.append(f"await piplite.install({[*names]!r}{alone})")
    return "\n".join(lines)


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this checkout, made in a folder."""
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
    subprocess.run([*command, "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("autodiff_workbench-*.whl")
    return wheel


def main(out: Path, pyodide: Path | None, folder: Path | None) -> int:
    """Return the exit code of JupyterLite's build."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as made:
        contents, here = Path(made, "contents"), Path(made, "lite")
        contents.mkdir()
        here.mkdir()
        wheels = sorted(folder.glob("*.whl")) if folder else []
        own = [one for one in wheels if one.name.startswith("autodiff_workbench-")]
        served = wheels if own else [*wheels, build_wheel(Path(made))]
        names = {one.name.partition("-")[0] for one in served} if folder else ()
        for tutorial in list_tutorials():
            notebook = json.loads(tutorial.read_text("utf-8"))
            add_setup(notebook, names)
            text = json.dumps(notebook, ensure_ascii=False)
            (contents / tutorial.name).write_text(text, "utf-8")
        shutil.copytree(NOTEBOOKS / "images", contents / "images")
        options: list[str | Path] = ["--apps", "lab", "--no-sourcemaps"]
        options += ["--lite-dir", here, "--contents", contents, "--output-dir", out]
        for wheel in served:
            options += ["--piplite-wheels", wheel]
        if pyodide:
            options += ["--pyodide", pyodide]
        command = (sys.executable, "-m", "jupyterlite_core.app", "build", *options)
        return subprocess.run(command, cwd=here, check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", default="build/docs/html/lite")
    parser.add_argument("--pyodide", type=Path, help="an archive of its folder pyodide")
    parser.add_argument("--wheels", type=Path, help="a folder of plain Python wheels")
    words = parser.parse_args()
    paths = (words.out, words.pyodide, words.wheels)
    sys.exit(main(*(path and path.resolve() for path in paths)))
