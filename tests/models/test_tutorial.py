"""Models of other libraries, in an environment of their own, with their tutorial.

The libraries are large, and nothing else needs them. PyTorch is its build for the CPU,
which not every package index has.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from tests.project import environments
from tests.project.executed import MODELS, Executed, differences, quiet

pytestmark = pytest.mark.long

#: PyTorch without CUDA, whose version says so.
TORCH = "torch==2.13.0+cpu"
#: What the models are opened beside, and what runs the tests.
BESIDES = (
    "onnxruntime", "flax", "optax", "nbclient", "ipykernel", "pytest",
    "pytest-timeout", "pytest-xdist", "hypothesis",
)  # fmt: skip
#: Ships the model that the tutorial opens; what it needs besides has no part in that.
SHIPS_MODEL = "rapidocr-onnxruntime==1.4.4"


def list_needs() -> list[str]:
    """What the package needs for it; its own source is on the path."""
    text = (environments.ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    needs = [*project["dependencies"]]
    for extra in ("jupyter", "compiled", "jax", "onnx"):
        needs += extras[extra]
    return needs


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "environment"
    try:
        programs = environments.environment(folder, TORCH, *list_needs(), *BESIDES)
    except AssertionError as error:
        if "No matching distribution found for torch" not in str(error):
            raise
        pytest.skip(f"the package index has no {TORCH}")
    pip = (programs / "python", "-m", "pip", "install", "--no-deps", SHIPS_MODEL)
    environments.run(*pip, cwd=environments.ROOT)
    return programs / "python"


def run(python: Path, *command: str | Path) -> str:
    return environments.run(
        python, *command, cwd=environments.ROOT, limit=1200,
        PYTHONPATH=str(environments.ROOT),
        PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    )  # fmt: skip


@pytest.mark.timeout(1300)  # hundreds of tests, one by one
def test_all_of_the_models(python: Path) -> None:
    """Those of this folder, with no library that is missing."""
    told = run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs",
        "-m", "long or not long", f"--ignore={__file__}", Path(__file__).parent,
    )  # fmt: skip
    assert "could not import" not in told


def test_the_tutorial(python: Path, tmp_path: Path) -> None:
    """What is kept of each cell is what a fresh run gives, and none fails."""
    run(python, "-m", "tests.project.executed", MODELS.stem, tmp_path)
    executed = Executed(MODELS, tmp_path / MODELS.name)
    quiet(executed, "divide by zero encountered in the gradient of sqrt")
    different = [*differences(executed)]
    assert not different, "\n".join(different)
    assert "step 0: loss 0.875, and the gradient is not a number" in executed.printed(
        "def train("
    )
    assert "away" in executed.shown("f, parameters")
    assert "100 steps" in executed.printed("safe = ")
    assert "The rule of limit" in executed.printed("for wrong in")
    by_differences, new, old = (
        float(line.split()[-1]) for line in executed.printed("right = ").splitlines()
    )
    assert new == pytest.approx(by_differences, rel=1e-5)
    assert old != pytest.approx(by_differences, rel=0.5)
