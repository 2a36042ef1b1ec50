"""`Target`: the device that a graph is lowered for, a processor or another.

Fusion, schedule and memory are the same for all of them. A target says what its kernels
compute, and which steps it has besides kernels.
"""

from __future__ import annotations

from typing import Protocol

from workbench.backends.compiled.builder import KINDS, Builder, EntryBuilder
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.machine import Machine, find_address
from workbench.backends.compiled.products import is_product
from workbench.backends.compiled.systems import name_function


class Target(Protocol):
    """What a graph is lowered for.

    Attributes
    ----------
    kinds
        The kinds of entries that its kernels compute with.
    """

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of entries that its kernels compute with."""

    def make_builder(self) -> EntryBuilder:
        """Return a builder that writes an entry in the target's language."""

    def has_products(self, kind: str) -> bool:
        """Return whether a library multiplies matrices of a kind of entries."""

    def takes_matrices(self, a: View, b: View) -> bool:
        """Return whether matrices are multiplied as they lie."""

    def has_systems(self, op: str, kind: str) -> bool:
        """Return whether a library computes an op of `systems`."""


class Processor:
    """The processor of this machine, with SciPy's BLAS and LAPACK."""

    kinds = KINDS

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def make_builder(self) -> EntryBuilder:
        """Return a builder that writes an entry as LLVM's IR."""
        return Builder(self.machine, 1)

    def has_products(self, kind: str) -> bool:
        """Return whether BLAS is there, which knows all floats."""
        return find_address("blas_dgemm") is not None

    def takes_matrices(self, a: View, b: View) -> bool:
        """Return whether registers or BLAS take matrices as they lie."""
        return is_product(a, b)

    def has_systems(self, op: str, kind: str) -> bool:
        """Return whether LAPACK computes an op of a kind of entries."""
        return find_address(name_function(op, kind)) is not None
