"""Build the documentation's site into `build/docs/html`: `make docs` runs this.

The sources (the pages of this folder, the tutorials, their pictures) are copied to
`build/docs/src`, so that what Sphinx writes beside them is not in the tree. The pages
run; the tutorials are shown with the outputs that are kept in them, of which a test says
that they are those of a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kernel import add_html

GUIDE = Path(__file__).resolve().parent
NOTEBOOKS = GUIDE.parent
#: Settings of the site, not pages of it.
SETTINGS = shutil.ignore_patterns("*.py", "_*")
#: What outputs depend on besides pages and the package.
CODE = (GUIDE / "kernel.py",)
PROCESSES = min(os.cpu_count() or 1, 4)
#: The front page is a page of the guide.
FRONT = """<!DOCTYPE html>
<meta charset="utf-8">
<title>Workbench</title>
<meta http-equiv="refresh" content="0; url=guide/index.html">
<a href="guide/index.html">Workbench</a>
"""


def forget_outputs(cache: Path) -> None:
    """Let pages run again if what they run has changed; else their outputs are kept."""
    code = hashlib.sha256()
    for file in sorted([*(NOTEBOOKS.parent / "workbench").rglob("*.py"), *CODE]):
        code.update(file.read_bytes())
    made_by = cache / "made_by"
    if not made_by.exists() or made_by.read_text() != code.hexdigest():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        made_by.write_text(code.hexdigest())


def copy_tutorial(tutorial: Path, folder: Path) -> None:
    """Copy a tutorial with its kept outputs in the form of the site's."""
    notebook: dict[str, Any] = json.loads(tutorial.read_text("utf-8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "data" in output:
                # A file has texts as lists of lines.
                data = {
                    kind: "".join(value) if isinstance(value, list) else value
                    for kind, value in output["data"].items()
                }
                add_html(data)
                output["data"] = data
    (folder / tutorial.name).write_text(json.dumps(notebook), "utf-8")


def main(build: Path) -> int:
    """Return Sphinx's exit code; each of its warnings is an error."""
    sources, site = build / "src", build / "html"
    for left in (sources, build / "doctrees"):  # what pages have run is kept
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(GUIDE, sources / "guide", ignore=SETTINGS)
    shutil.copytree(NOTEBOOKS / "images", sources / "images")
    for tutorial in NOTEBOOKS.glob("*.ipynb"):
        copy_tutorial(tutorial, sources)
    startup = build / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    shutil.copy(GUIDE / "kernel.py", startup)
    forget_outputs(build / "cache")
    start = time.perf_counter()
    # Pages with code wait for their kernels, side by side.
    options = ("-W", "--keep-going", "-q", "-j", str(PROCESSES), "-c", GUIDE)
    options += ("-d", build / "doctrees")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, sources, site],
        env=os.environ | {"WORKBENCH_GUIDE": str(GUIDE), "WORKBENCH_BUILD": str(build)},
        check=False,
    )
    (site / "index.html").write_text(FRONT)
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    print(f"{site / 'index.html'}: {time.perf_counter() - start:.0f} s, ", end="")
    print(f"{size / 1e6:.1f} MB")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs").resolve()))
