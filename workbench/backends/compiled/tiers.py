"""`TieredFunction`: NumPy answers at once, compiled code when ready.

A program is compiled once for each set of shapes and dtypes that it is called with, by
one thread in the background. Until then, and where it cannot be compiled, NumPy runs
it, so that a call never waits and never fails for the compiler's sake. Only the first
call on a GPU waits a moment: the library that would answer has kernels to load as well.
"""

from __future__ import annotations

import _thread
import atexit
import inspect
import os
import threading
import time
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from workbench.backends import numpy as numpy_backend
from workbench.backends.compiled.builder import KINDS
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.program import Program, Retreat
from workbench.backends.text import Form, Text
from workbench.core import dims, source
from workbench.core.graph import Graph
from workbench.core.schedule import Observer
from workbench.core.types import WEAK_TYPES, Spec, is_device_type
from workbench.errors import CompilerError, DeviceError, WorkbenchError

#: A function keeps compiled code for so many sets of shapes; the oldest goes first.
MOST_PROGRAMS = 16
#: With ``auto``, a program is compiled once NumPy has spent so many seconds on it.
WORTHWHILE = 0.02
#: What a GPU refuses to compile, for lack of memory say, is tried so many times.
MOST_TRIES = 3

#: The reasons against compiling that this process has warned of already.
_TOLD: set[str] = set()
#: A set of shapes and dtypes of the inputs.
Key = tuple[tuple[Any, ...], ...]


class Attempt:
    """The compiled code for one set of shapes: not yet, ready, or refused.

    Attributes
    ----------
    program
        The code, once it is ready.
    reason
        Why there is none, once that is known.
    done
        Set when either is known.
    """

    def __init__(self, specs: list[Spec], key: Key = ()) -> None:
        self.specs = specs
        self.key = key
        self.program: Program | None = None
        self.reason: str | None = None
        self.done = threading.Event()
        self.begun = False
        #: How often a GPU has refused to compile it.
        self.refused = 0
        #: The seconds that NumPy has spent on it.
        self.spent = 0.0

    def is_due(self) -> bool:
        """Return whether to compile now: not tried yet, or due for another try."""
        if self.program is not None or self.reason is not None:
            return False
        return not self.begun or (self.refused > 0 and self.done.is_set())


class TieredFunction:
    """A graph that runs on NumPy, and compiled when that is ready.

    Attributes
    ----------
    graph
        What it computes.
    eager
        Compile at the first call, and not only when that is worthwhile.
    """

    #: Who runs what is not compiled, in words.
    library = "NumPy"
    #: The kinds of entries that its kernels compute with.
    kinds = KINDS
    #: So many seconds a first call waits for compiled code.
    patience = 0.0

    def __init__(self, graph: Graph, own: bool = False, eager: bool = True) -> None:
        self._numpy = numpy_backend.compile(graph, own)
        self.graph = self._numpy.graph
        self.schedule = self._numpy.schedule
        self.eager = eager
        self._attempts: OrderedDict[Key, Attempt] = OrderedDict()
        self._last: Attempt | None = None
        #: Whether its caller knows, or tells, that NumPy runs what was to be compiled.
        self.has_warned = False
        #: Called in the background with each program that is ready.
        self.on_compiled: Callable[[Program], None] | None = None
        #: Whether `run_ready` has just left a call to NumPy.
        self._retreats = False

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the outputs for these inputs."""
        return self.run(arrays)

    def run(self, arrays: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for these inputs; with an observer, NumPy computes."""
        if observer is not None:
            return self.run_uncompiled(arrays, observer)
        try:
            key = tuple(map(self._describe, arrays))
            attempt = self._attempts.get(key)
        except (AttributeError, TypeError):  # not arrays
            return self.run_uncompiled(arrays)
        if attempt is None:
            attempt = self._begin(key, arrays)
        self._last = attempt
        if self.patience and attempt.is_due() and not attempt.begun:
            self._send(attempt)
            attempt.done.wait(self.patience)
        program = attempt.program
        if program is not None:
            if self._retreats:
                self._retreats = False
                return self.run_uncompiled(arrays)
            try:
                return program.run(arrays)
            except Retreat:
                return self.run_uncompiled(arrays)
            except CompilerError as error:
                attempt.program, attempt.reason = None, str(error)
                self._report(attempt.reason)
                return self.run_uncompiled(arrays)
        if attempt.reason is not None:
            self._report(attempt.reason)
            return self.run_uncompiled(arrays)
        start = time.perf_counter()
        made = self.run_uncompiled(arrays)
        attempt.spent += time.perf_counter() - start
        if attempt.is_due() and (self.eager or attempt.spent >= WORTHWHILE):
            self._send(attempt)
        return made

    def run_ready(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Return the outputs, if compiled code is ready for arrays like the last ones.

        Each is an array or a number of the caller's own. None: `run` knows.
        """
        last = self._last
        program = None if last is None else last.program
        if last is None or program is None or not program.is_fresh:
            return None
        for x, form in zip(arrays, last.key, strict=True):
            kind = type(x)
            if kind is np.ndarray or issubclass(kind, np.generic):
                # The one object of a dtype; that of a number is no type of Python's.
                if x.dtype is not form[0] or x.shape != form[1]:
                    return None
            elif kind is not form[0]:
                return None
        try:
            return program.run(arrays)
        except Retreat:  # `run` need not try it again
            self._retreats = True
        except CompilerError as error:
            last.program, last.reason = None, str(error)
            self._report(last.reason)
        return None

    def run_uncompiled(
        self, arrays: Sequence[Any], observer: Observer | None = None
    ) -> list[Any]:
        """Return the outputs as NumPy computes them."""
        return self._numpy.run(arrays, observer)

    def _find_compiler(self) -> Callable[[Graph], Any]:
        """Return the function that turns a graph into a program."""
        return Program

    def _describe(self, x: Any) -> tuple[Any, ...]:
        """Return the part of an input that decides its program."""
        return describe_form(x)

    def _find_foreign(self, key: Key) -> str | None:
        """Return the reason why compiled code refuses these arrays, or None."""
        foreign = [form[0] for form in key if len(form) > 2]
        if not foreign:
            return None
        kind = foreign[0]
        told = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        on_gpu = ' backend="cupy" compiles it for the GPU.' * is_device_type(kind)
        return f"{told} is not an array of NumPy's.{on_gpu}"

    def _begin(self, key: Key, arrays: Sequence[Any]) -> Attempt:
        specs = [
            Spec((), np.result_type(type(x)), True)
            if type(x) in WEAK_TYPES
            else Spec(tuple(x.shape), x.dtype)
            for x in arrays
        ]
        attempt = self._attempts.setdefault(key, Attempt(specs, key))
        foreign = self._find_foreign(key)
        if foreign is not None:
            attempt.reason = foreign
            attempt.done.set()
        if len(self._attempts) > MOST_PROGRAMS:
            self._attempts.popitem(last=False)
        return attempt

    def _send(self, attempt: Attempt) -> None:
        attempt.begun = True
        attempt.done.clear()
        job = partial(
            _compile_wanted, weakref.ref(attempt), self._numpy, self._find_compiler(),
            self.on_compiled, self.kinds,
        )  # fmt: skip
        BACKGROUND.send(job, attempt.done)

    def _report(self, reason: str) -> None:
        """Warn that NumPy runs the program in place of compiled code, once a reason."""
        if self.eager and not self.has_warned:
            self.has_warned = True
            if reason not in _TOLD:
                _TOLD.add(reason)
                text = f"the program runs as {self.library}: {reason}"
                warnings.warn(text, RuntimeWarning, stacklevel=source.count_frames())

    # The state of it

    @property
    def backend(self) -> str:
        """The backend of the next call, for the last shapes: numpy or compiled."""
        last = self._last
        return "numpy" if last is None or last.program is None else "compiled"

    @property
    def reason(self) -> str | None:
        """Why the last shapes run on NumPy for good; None: they do not, or not yet."""
        return None if self._last is None else self._last.reason

    def is_ready(self) -> bool:
        """Return whether compiled code for the last shapes is in place, or refused."""
        return self._last is not None and self._last.done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the compiled code of the last shapes; start compiling if needed.

        Before the first call these are the shapes that the inputs were declared with.
        """
        attempt = self._last
        if attempt is None:
            specs = [Spec(x.spec.shape, x.spec.dtype) for x in self.graph.leaves]
            if any(dims.has_dim(s.shape) for s in specs):
                return False
            key = tuple([(s.dtype, tuple(s.shape)) for s in specs])
            attempt = self._attempts.get(key)
            if attempt is None:
                attempt = self._attempts[key] = Attempt(specs, key)
            self._last = attempt
        if attempt.is_due():
            self._send(attempt)
        return attempt.done.wait(timeout)

    def separate_steps(self) -> Program | None:
        """Return the compiled code of the last shapes with each step called by itself.

        It is compiled anew. None where NumPy runs.
        """
        last = self._last
        if last is None or last.program is None:
            return None
        return Program(expand(self.graph, last.specs), separate=True)

    def release(self) -> None:
        """Let the memory go that compiled code keeps for the next call."""
        for attempt in list(self._attempts.values()):
            if attempt.program is not None:
                attempt.program.release()

    # Its text

    def text(self, form: Form | None = None) -> Text:
        """Return the program as NumPy code, in a form of the caller's."""
        return self._numpy.text(form)

    @property
    def source(self) -> str:
        """The program as NumPy code, to run with ``constants`` as its globals."""
        return self._numpy.source

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that the text of the program names but cannot spell out."""
        return self._numpy.constants


def describe_form(x: Any) -> tuple[Any, ...]:
    """Return the part of an input that decides its program: dtype and shape."""
    kind = type(x)
    if kind is np.ndarray or issubclass(kind, np.generic):
        return x.dtype, x.shape
    return (kind, ()) if kind in WEAK_TYPES else (kind, x.dtype, x.shape)


def _compile_wanted(
    reference: weakref.ref[Attempt],
    function: numpy_backend.NumpyFunction,
    make: Callable[[Graph], Any],
    tell: Callable[[Program], None] | None,
    kinds: Collection[str],
) -> None:
    """Compile a program, unless its function has dropped the attempt."""
    attempt = reference()
    if attempt is not None:
        _compile(function, attempt, make, tell, kinds)


def _compile(
    function: numpy_backend.NumpyFunction,
    attempt: Attempt,
    make: Callable[[Graph], Any],
    tell: Callable[[Program], None] | None,
    kinds: Collection[str],
) -> None:
    """Compile a program for the shapes of an attempt; never raise."""
    try:
        graph = expand(function.graph, attempt.specs, function.schedule, kinds)
        attempt.program = make(graph)
    except CompilerError as error:
        attempt.reason = str(error)
    except DeviceError as error:  # it may have memory again at a later call
        attempt.refused += 1
        if attempt.refused >= MOST_TRIES:
            attempt.reason = f"the GPU refused while it was compiled: {error}"
    except WorkbenchError as error:
        attempt.reason = f"it cannot be recorded at these shapes: {error}"
    except Exception as error:  # the compiler must not take a program down
        attempt.reason = f"the compiler failed: {type(error).__name__}: {error}"
    else:
        if tell is not None:
            with suppress(Exception):  # the code is ready, whoever listens
                tell(attempt.program)


#: An object has entries for so many programs at most; the oldest goes first.
MOST_ENTRIES = 8


#: Entries that were dropped lately. Another thread may be in Python code that one has
#: called, and comes back into the machine code of it.
DROPPED: deque[Any] = deque(maxlen=256)


def install_entry(
    owner: Any, program: Program, base: type, form: type | None, call: str, **more: Any
) -> None:
    """Let calls of an object run a program at once, without Python code.

    Python looks for ``__call__`` in the class of an object: it gets a class of its own,
    derived from ``base``. What an entry does not take goes to the one before it, and
    from the last to the method ``call``.
    """
    old = vars(type(owner)).get("entries", ())
    if type(owner) is not base and not old:  # a class of the user's
        return
    last = getattr(owner, call)
    entry = program.make_entry(form, old[0] if old else last, **more)
    if entry is None:
        return
    entries = (entry, *old)[:MOST_ENTRIES]
    DROPPED.extend(old[MOST_ENTRIES - 1 :])
    entries[-1].__self__.set_fallback(last)
    members: dict[str, Any] = {"__call__": entry, "entries": entries}
    members |= {name: getattr(base, name) for name in ("__module__", "__doc__")}
    with suppress(TypeError, ValueError):  # of what it was made from, if that has one
        members["__signature__"] = inspect.signature(owner)
    owner.__class__ = type(base.__name__, (base,), members)


def compile(graph: Graph, own: bool = False) -> TieredFunction:
    """Return the graph as a function that is compiled at its first call."""
    return TieredFunction(graph, own)


def compile_when_worthwhile(graph: Graph, own: bool = False) -> TieredFunction:
    """Return the graph as a function, compiled after a while of running."""
    return TieredFunction(graph, own, eager=False)


# The background


class Background:
    """One thread that does jobs in order, and does not keep a process alive.

    LLVM survives neither a fork nor the end of the process in the midst of its work:
    both wait for the job at hand. What was to follow is done in the child too, and by
    nobody at the end.
    """

    def __init__(self) -> None:
        self._jobs: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._ended = False
        self._reset()

    def _reset(self) -> None:
        self._has_thread = False
        self._lock = threading.RLock()
        #: Held during a job; by the job's own thread, if that forks.
        self._working = threading.RLock()

    def send(self, job: Callable[[], None], done: threading.Event) -> None:
        """Do a job some time, then set the event."""
        with self._lock:
            if self._ended:
                done.set()
                return
            self._jobs.append((job, done))
            try:
                self._start()
            except RuntimeError:  # the system has no thread for us
                self._jobs.pop()
                done.set()

    def _start(self) -> None:
        # Not `threading.Thread`: an interrupt in its start leaves a lock behind.
        if not self._has_thread:
            _thread.start_new_thread(self._work, ())
            self._has_thread = True

    def _work(self) -> None:
        try:
            while self._do_job():
                pass
        except BaseException:
            self._has_thread = False
            raise

    def _do_job(self) -> bool:
        """Do the next job; False: there is none, and the thread ends."""
        with self._working:
            with self._lock:
                if not self._jobs:
                    self._has_thread = False
                    return False
                job, done = self._jobs.popleft()
            try:
                job()
            finally:
                done.set()
            return True

    def pause(self) -> None:
        """Wait for the job at hand, and begin no other."""
        self._working.acquire()
        self._lock.acquire()

    def resume(self) -> None:
        """Go on after a pause."""
        self._lock.release()
        self._working.release()

    def restart(self) -> None:
        """Go on in the child of a fork, where the thread is not."""
        self._reset()
        if self._jobs:
            self._start()

    def end(self) -> None:
        """Wait for the job at hand, and forget the others."""
        with self._lock:
            self._ended = True
            for _, done in self._jobs:
                done.set()
            self._jobs.clear()
        with self._working:
            pass


BACKGROUND = Background()
atexit.register(BACKGROUND.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=BACKGROUND.pause,
        after_in_parent=BACKGROUND.resume,
        after_in_child=BACKGROUND.restart,
    )
