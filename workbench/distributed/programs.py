"""Programs and arrays on the workers of a cluster.

What travels is a Graph that is simplified here, once; a worker traces nothing and
differentiates nothing. It lies there as the result of a task, so that Dask keeps it
where it is needed, hands the same object to each piece, and makes it again where its
worker is lost. Dask is imported by the first use of this room.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
import threading
import uuid
from collections.abc import Sequence
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from workbench.core import blame, hooks
from workbench.core.graph import Graph, inline
from workbench.core.pickling import lift_constants
from workbench.core.types import is_device_array
from workbench.errors import ClusterError, check_packages
from workbench.rewrite.driver import Replay, check_rewrites
from workbench.symbolic.function import BACKENDS

#: Arrays up to so many bytes are tasks of their own, which a lost worker cannot lose.
IN_TASK = 2**20

# The libraries, and the client


def find_library(name: str = "distributed") -> Any:
    """Return a module of Dask.

    Raises
    ------
    MissingPackageError
        If Dask is not installed, with the command that installs it.
    """
    check_packages("workbench.distributed", "distributed", "dask", "distributed")
    return import_module(name)


def find_client(client: Any = None) -> Any:
    """Return the given client or the current one, after a check of its workers.

    Raises
    ------
    ClusterError
        If there is none, or its workers have another Workbench or another Python.
    """
    library = find_library()
    if client is None:
        try:
            client = library.default_client()
        except ValueError:
            raise ClusterError(
                "there is no Dask client. Write client = dask.distributed.Client(), or"
                " give client=."
            ) from None
    if client.status == "running" and client not in CHECKED:
        check_workers(client)
        CHECKED[client] = None
    return client


#: Clients whose workers have been looked at.
CHECKED: WeakKeyDictionary[Any, None] = WeakKeyDictionary()

#: A worker may lack the package, and then no function of it arrives there: this one
#: is sent as a text.
PROBE = """
def tell():
    import sys
    try:
        import workbench
    except ImportError as error:
        return repr(error), ""
    return workbench.__version__, "{}.{}".format(*sys.version_info)
"""


def check_workers(client: Any) -> None:
    """Raise a `ClusterError` if a worker has another Workbench or another Python."""
    code = compile(PROBE, "<probe>", "exec").co_consts[0]
    probe = FunctionType(code, {"__name__": "__main__"}, "tell")
    version = str(hooks.namespace("workbench").__version__)
    here = version, "{}.{}".format(*sys.version_info)
    for address, found in client.run(probe, on_error="return").items():
        if isinstance(found, BaseException):
            continue  # it has just been lost, and the pieces will tell
        there, python = found
        if not python:
            raise ClusterError(
                f"worker {address} has no Workbench ({there}). Install it there: pip"
                f" install autodiff-workbench=={version}."
            )
        if found != here:
            raise ClusterError(
                f"worker {address} has Workbench {there} and Python {python}, here are"
                f" {version} and {here[1]}: programs would not be the same. Install the"
                " same there."
            )


# What lies on a worker


class WorkerProgram:
    """A Graph on a worker, and its compiled functions there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._lock = threading.Lock()  # a worker may have several threads
        self._functions: dict[str, Any] = {}

    def __reduce__(self) -> Any:
        return WorkerProgram, (self.graph,)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs by compiled code, which is waited for.

        The last digits of NumPy and of compiled code differ: they must not depend on
        which of them is ready. Where an array lies on a GPU, all go there, and the
        results come back.
        """
        if not any(map(is_device_array, values)):
            return list(self._find_function("compiled", values).run(list(values)))
        from workbench.backends.cupy.devices import to_cpu, to_gpu

        there = [x if is_device_array(x) else to_gpu(x) for x in values]
        return [to_cpu(y) for y in self._find_function("cupy", there).run(there)]

    def _find_function(self, backend: str, values: Sequence[Any]) -> Any:
        with self._lock:
            made: Any = self._functions.get(backend)
            if made is None:
                made = BACKENDS[backend](self.graph, own=True)
                made.has_warned = True  # warnings on a worker are not read
                if backend == "cupy":
                    made.run(values)  # so that it knows where they lie
                made.wait()
                self._functions[backend] = made
            return made


def load_program(data: bytes) -> WorkerProgram:
    """Return a program from its bytes: a task that runs on a worker."""
    return WorkerProgram(pickle.loads(data))


def read(x: Any) -> Any:
    """Return the array itself: a task that runs on a worker."""
    return x


# Sending


class Packed(NamedTuple):
    """A program ready to send: its bytes, and the large arrays that its nodes read."""

    key: str
    data: bytes
    constants: list[Any]

    def place(self, client: Any) -> Any:
        """Return a future of the program; the cluster keeps a single one."""
        return client.submit(load_program, self.data, key=self.key)


def pack(graph: Graph) -> Packed:
    """Return a program ready to send: simplified, with large constants apart.

    The values of these come first when it runs.

    Raises
    ------
    ClusterError
        If it holds what cannot be pickled, which it names.
    """
    simple = Replay(inline(graph), check_rewrites((), (), False)).run()
    lifted, constants = lift_constants(simple)
    data = dump(lifted, "the program")
    digest = hashlib.blake2b(data, digest_size=12).hexdigest()
    return Packed(f"wb-program-{digest}", data, constants)


def dump(x: Any, what: str, function: Any = None) -> bytes:
    """Return a value pickled by cloudpickle, for the workers.

    Raises
    ------
    ClusterError
        If it cannot, with what the ``function`` in it reads that is to blame.
    """
    pickler = import_module("cloudpickle")
    try:
        return bytes(pickler.dumps(x))
    except Exception as error:
        told = (str(error) or type(error).__name__).rstrip(".")
        for name, value in list_variables(function):
            try:
                pickler.dumps(value)
            except Exception:
                told += f", for {name} = {blame.shorten(repr(value))}"
                break
        raise ClusterError(
            f"{what} cannot be sent to the workers: {told}. Pass the objects that it"
            " reads as arguments, or define it in a module that workers can import."
        ) from error


def list_variables(function: Any) -> list[tuple[str, Any]]:
    """Return the outer variables of a function, by name."""
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return []
    return [*found.nonlocals.items(), *found.globals.items()]


def place_array(client: Any, x: Any) -> Any:
    """Return a future of an array that pieces share."""
    if getattr(x, "nbytes", 0) <= IN_TASK:
        return client.submit(read, x, key=f"wb-array-{uuid.uuid4().hex}")
    # Nobody but its worker holds it: where it is lost, the driver sends it again.
    return client.scatter(x, hash=False)


def count_workers(client: Any) -> int:
    """Return how many threads of workers there are, at least one."""
    return max(1, sum(map(int, client.nthreads().values())))
