"""Models as functions: what the room loads, and ONNX files."""

from __future__ import annotations

import subprocess
import sys


def test_the_room_loads_no_foreign_library() -> None:
    program = (
        "import sys\nfrom workbench import models\nassert models.__all__\n"
        "assert not {'onnx', 'jax', 'torch'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
