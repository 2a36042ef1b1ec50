"""`CupyFunction`: CuPy answers op by op, the compiled program when ready.

The first call waits a moment for that. It is the compiled backend's function with
another kind of program. Compute follows data: what it is given lies on the GPU, and so
does what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from workbench.backends import numpy as numpy_backend
from workbench.backends.compiled import tiers
from workbench.backends.cupy.devices import check_places, find_runtime
from workbench.backends.cupy.launches import Device
from workbench.backends.cupy.program import Program
from workbench.backends.cupy.runtime import Runtime
from workbench.core.formatting import format_bytes
from workbench.core.graph import Graph
from workbench.core.schedule import Observer
from workbench.errors import DeviceMemoryError

_T = TypeVar("_T")


class CupyFunction(tiers.TieredFunction):
    """A graph that runs on the GPU, and compiled when that is ready."""

    library = "CuPy"
    kinds = Device().kinds
    #: CuPy compiles or loads a kernel for each op of a first answer; those of a small
    #: program are all there before.
    patience = 0.3

    def __init__(
        self, graph: Graph, own: bool = False, runtime: Runtime | None = None
    ) -> None:
        self.runtime = find_runtime() if runtime is None else runtime
        super().__init__(graph, own)
        # Kernels are written from values of the host; ops compute with those of the
        # device.
        self._ops = numpy_backend.compile(graph)
        with self.runtime.use(), self.runtime.guard():
            self._numpy.schedule.replace_constants(self._download)
            self._ops.schedule.replace_constants(self._upload)
            self.runtime.settle()  # calls may be on other streams
        constants = filter(self.runtime.owns, self._ops.schedule.constants.values())
        starts = [(self.runtime.find_address(x), x.nbytes) for x in constants]
        #: Where the constants of the ops lie.
        self._places = [range(start, start + size) for start, size in starts]
        self._names = [self.graph.label(x) for x in self.graph.leaves]

    def _download(self, x: Any) -> Any:
        return self.runtime.download([x])[0] if self.runtime.owns(x) else x

    def _upload(self, x: Any) -> Any:
        """Return a constant on the device, as a copy of the program's own."""
        if self.runtime.owns(x):
            return x.copy()
        return self.runtime.upload(x) if isinstance(x, np.ndarray) else x

    def run(self, arrays: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for these inputs, on the GPU.

        With an observer, CuPy computes op by op.

        Raises
        ------
        UsageError
            If an array does not lie on the GPU.
        DeviceMemoryError
            If its memory does not suffice.
        DeviceError
            If CUDA refuses a step, or an index was out of bounds in an earlier call.
        """
        check_places(self.runtime, arrays, self._names)
        with self.runtime.use():
            return self._retry(lambda: super(CupyFunction, self).run(arrays, observer))

    def run_uncompiled(
        self, arrays: Sequence[Any], observer: Observer | None = None
    ) -> list[Any]:
        """Return the outputs as CuPy computes them, op by op.

        Those in the memory of a constant are copied: the caller may write to them.
        """
        made = self._ops.run(arrays, observer)
        return [x.copy() if self._is_constant(x) else x for x in made]

    def _is_constant(self, x: Any) -> bool:
        if not self._places or not self.runtime.owns(x):
            return False
        address = self.runtime.find_address(x)
        return any(address in place for place in self._places)

    def _retry(self, run: Callable[[], _T]) -> _T:
        """Run, and once more after an allocation that failed."""
        runtime = self.runtime
        try:
            with runtime.guard():
                return run()
        except DeviceMemoryError:
            self.release()
            runtime.free()
        try:
            with runtime.guard():
                return run()
        except DeviceMemoryError as error:
            program = self._last.program if self._last is not None else None
            needs = ""
            if program is not None:
                needs = f" A call takes {format_bytes(program.memory)} besides inputs."
            raise DeviceMemoryError(
                f"the memory of the GPU does not suffice: {error}.{needs}"
                f" {runtime.describe_memory()}, after unused memory was freed. Delete"
                " arrays (del x), take smaller batches, or checkpoint (wb.checkpoint)."
            ) from error

    def _find_compiler(self) -> Callable[[Graph], Program]:
        return partial(Program, runtime=self.runtime)

    def _describe(self, x: Any) -> tuple[Any, ...]:
        return (x.dtype, x.shape) if self.runtime.owns(x) else tiers.describe_form(x)

    def _find_foreign(self, key: tiers.Key) -> str | None:
        return None

    def separate_steps(self) -> Any:
        """Return the compiled program of the last shapes, with separate steps.

        None where CuPy runs op by op.
        """
        return None if self._last is None else self._last.program

    @property
    def backend(self) -> str:
        """The name of the backend of the next call: ``cupy``."""
        return "cupy"

    @property
    def device(self) -> str:
        """The name of the GPU."""
        return self.runtime.name


def compile(graph: Graph, own: bool = False) -> CupyFunction:
    """Return the graph as a function that runs on the GPU.

    Raises
    ------
    DeviceError
        If there is none.
    """
    return CupyFunction(graph, own)
