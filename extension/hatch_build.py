"""Compiles the JupyterLab extension whenever the Python package is built.

A build is skipped only when the one that lies in `workbench/labextension` was
made from exactly these sources, so a wheel never ships a stale page.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import node

SOURCES = (
    "src",
    "style",
    "schema",
    "package.json",
    "tsconfig*.json",
    "vite.config.mts",
    "yarn.lock",
)
PAGE = "workbench/session/page.html"  # of pictures without JupyterLab
RECEIPT = "built-from.sha256"  # lies in the result, so an sdist carries it too


class ExtensionHook(BuildHookInterface):
    """Hatch finds this class by its base."""

    def dependencies(self) -> list[str]:
        """Node itself comes from the package index where there is none."""
        return [] if self._is_built() or node.folder() else [node.PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page if it is not there or made from other sources."""
        if not self._is_built():
            self._build()
        # JupyterLab lists the extension with the version of the Python package.
        path = self._receipt().with_name("package.json")
        text = path.read_text()
        wanted = f'"version": "{self.metadata.version}"'
        if wanted not in text:
            path.write_text(re.sub(r'"version": "[^"]*"', wanted, text, count=1))

    def _build(self) -> None:
        extension = Path(self.root, "extension")
        environment = _environment()
        for command in (["jlpm", "install", "--immutable"], ["jlpm", "build:prod"]):
            subprocess.run(command, cwd=extension, env=environment, check=True)
        self._receipt().write_text(_digest(extension))

    def _is_built(self) -> bool:
        receipt = self._receipt()
        digest = _digest(Path(self.root, "extension"))
        built = receipt.exists() and Path(self.root, PAGE).exists()
        return built and receipt.read_text() == digest

    def _receipt(self) -> Path:
        return Path(self.root, "workbench", "labextension", RECEIPT)


def _digest(extension: Path) -> str:
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for top in sorted(extension.glob(pattern)):
            files = sorted(top.rglob("*")) if top.is_dir() else [top]
            for file in files:
                if file.is_file():
                    digest.update(str(file.relative_to(extension)).encode())
                    digest.update(file.read_bytes())
    return digest.hexdigest()


def _environment() -> dict[str, str]:
    """The environment in which `jlpm` is found, and finds Node."""
    folder = node.folder()
    if folder is None:
        raise SystemExit(
            f"Building the extension needs Node.js {node.OLDEST} or newer: "
            f"pip install '{node.PACKAGE}'"
        )
    # Last, the running Python's own scripts: without build isolation, in an
    # environment that is not activated, jlpm is there.
    scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join([folder, os.environ.get("PATH", os.defpath), scripts])
    return {**os.environ, "PATH": path}
