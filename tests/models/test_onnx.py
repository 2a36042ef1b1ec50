"""Models as functions: what the room loads without any foreign library."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench import errors, models
from workbench.errors import MissingPackageError
from workbench.models import onnx_reader as importer


def test_the_room_loads_no_foreign_library() -> None:
    program = (
        "import sys\nfrom workbench import models\n"
        "assert all(callable(getattr(models, name)) for name in models.__all__)\n"
        "assert not {'onnx', 'jax', 'torch'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_the_package_an_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    importer.load_library.cache_clear()
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"'autodiff-workbench\[onnx\]'"):
        models.from_onnx(b"")


def test_an_unknown_name_of_the_room() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'from_caffe'"):
        _ = models.from_caffe  # type: ignore[attr-defined]


def test_scopes_come_from_names_of_nodes() -> None:
    assert importer.read_scope("MatMul_1") is None
    assert importer.read_scope("/encoder/layer.0/MatMul") == "encoder/layer.0"
    # Names are text of a stranger: no pattern, no markup, no length without end.
    assert importer.read_scope("/a*b/<b>x</b>/y") == "a_b/_b_x_/b_"
    assert len(importer.read_scope("/".join(["a" * 1000] * 1000)) or "") < 1300
