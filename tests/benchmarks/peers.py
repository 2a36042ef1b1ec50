"""Who computes a case: each library as an adapter of one piece of mathematics.

The mathematics of a case is a function of a namespace and of arrays. The namespace has
the library's array functions under NumPy's names, and the few that libraries spell in
ways of their own: ``constant``, ``logsumexp``, ``grad``, and the loops of
`PythonLoops`. An adapter makes of it a `Peer`: objective and derivative as functions
without arguments.

What is written by hand for one case stands in that case; `compile_c` serves those
that are C.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], Any]


class NotApplicable(AttributeError):
    """This peer has no such thing: it is left out, and the reason is told."""


@dataclass(frozen=True)
class Peer:
    """Who computes a case.

    ``read`` makes NumPy arrays of an answer, outside of what is timed; ``wait`` waits
    until compiled code is in place, ``release`` lets memory go that is kept for the
    next call. A limit, such as a copy, does not ``answers``.
    """

    objective: Call
    derivative: Call
    read: Callable[[Any], Any] = lambda answer: answer
    wait: Call = lambda: None
    release: Call = lambda: None
    answers: bool = True


@dataclass(frozen=True)
class Problem:
    """One piece of mathematics at one size.

    ``objective(names, *arrays)`` is a number, or a vector where the derivative is a
    "jacobian", a "hessian" apart, "blocks" (the Jacobian of each row of the arrays)
    or "compressed" (the products of the Jacobian with ``seeds``); else it is the
    "gradient" by the arrays at the places ``wrt``. Peers named in
    ``forward`` make a gradient in forward mode, since they have no other.
    """

    objective: Callable[..., Any]
    arrays: tuple[Any, ...]
    wrt: tuple[int, ...] = (0,)
    derivative: str = "gradient"
    seeds: Any = None
    forward: tuple[str, ...] = ()
    by_hand: Mapping[str, Callable[[], Peer]] = field(default_factory=dict)


class Names:
    """A library's functions and loops, with some more or in place of others."""

    def __init__(self, library: Any, loops: Any = None, **others: Any) -> None:
        self.__dict__.update(others)
        self._places = [library] if loops is None else [loops, library]

    def __getattr__(self, name: str) -> Any:
        for place in self._places:
            if hasattr(place, name):
                return getattr(place, name)
        raise NotApplicable(f"it has no {name}")


# Loops


class PythonLoops:
    """Loops for libraries without loops of their own; a state is a tuple of arrays."""

    def __init__(self, stack: Callable[[list[Any]], Any]) -> None:
        self._stack = stack

    def scan(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        """Return the last state, and the outputs of all steps in a stack.

        ``step(state, row)`` returns the next state and an output.
        """
        state, outputs = start, []
        for row in rows:
            state, y = step(state, row)
            outputs.append(y)
        return state, self._stack(outputs)

    def fold(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        """Return the last state; ``step(state, row)`` returns the next."""
        state = start
        for row in rows:
            state = step(state, row)
        return state

    def repeat(self, step: Any, start: tuple[Any, ...], count: int) -> Any:
        """Return the state after so many steps; ``step(state)`` returns the next."""
        state = start
        for _ in range(count):
            state = step(state)
        return state

    def while_loop(self, goes_on: Any, step: Any, start: tuple[Any, ...]) -> Any:
        """Return the first state for which the loop does not go on."""
        state = start
        while goes_on(state):
            state = step(state)
        return state


class OurLoops:
    """The same, of Workbench."""

    def __init__(self) -> None:
        import workbench as wb

        self._scan, self.while_loop = wb.scan, wb.while_loop

    def scan(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        def run(row: Any, *state: Any) -> list[Any]:
            after, y = step(state, row)
            return [*after, y]

        *states, outputs = self._scan(run, rows, [*start, None])
        return tuple(x[-1] for x in states), outputs

    def fold(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        made = self._scan(
            lambda row, *state: list(step(state, row)), rows, list(start), last=True
        )
        return tuple(made)

    def repeat(self, step: Any, start: tuple[Any, ...], count: int) -> Any:
        made = self._scan(
            lambda *state: list(step(state)),
            initial=list(start),
            n_steps=count,
            last=True,
        )
        return tuple(made)


class JaxLoops:
    """The same, of JAX."""

    def __init__(self) -> None:
        from jax import lax

        self.scan, self.while_loop = lax.scan, lax.while_loop

    def fold(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        return self.scan(lambda state, row: (step(state, row), None), start, rows)[0]

    def repeat(self, step: Any, start: tuple[Any, ...], count: int) -> Any:
        made = self.scan(lambda state, _: (step(state), None), start, None, count)
        return made[0]


class PytensorLoops:
    """The same, of PyTensor; its ``while_loop`` is not tried."""

    def __init__(self) -> None:
        import pytensor

        self._scan = functools.partial(
            pytensor.scan, return_list=True, return_updates=False
        )

    def scan(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        def run(row: Any, *state: Any) -> list[Any]:
            after, y = step(state, row)
            return [*after, y]

        *states, outputs = self._scan(run, rows, [*start, None])
        return tuple(x[-1] for x in states), outputs

    def fold(self, step: Any, start: tuple[Any, ...], rows: Any) -> Any:
        made = self._scan(lambda row, *state: list(step(state, row)), rows, list(start))
        return tuple(x[-1] for x in made)

    def repeat(self, step: Any, start: tuple[Any, ...], count: int) -> Any:
        made = self._scan(
            lambda *state: list(step(state)), outputs_info=list(start), n_steps=count
        )
        return tuple(x[-1] for x in made)


def _logsumexp(np: Any) -> Callable[..., Any]:
    def logsumexp(x: Any, axis: int) -> Any:
        top = np.max(x, axis=axis, keepdims=True)
        sums = np.sum(np.exp(x - top), axis=axis, keepdims=True)
        return np.sum(np.log(sums) + top, axis=axis)

    return logsumexp


NUMPY = Names(np, PythonLoops(np.stack), constant=np.asarray, logsumexp=_logsumexp(np))


# Workbench: eager, and as a program on each backend.


@functools.cache
def workbench_names() -> Names:
    import workbench as wb

    return Names(
        np,
        OurLoops(),
        constant=np.asarray,
        logsumexp=wb.logsumexp,
        grad=wb.grad,
    )


def differentiate(problem: Problem) -> tuple[Any, Any]:
    """Return the objective and its derivative, as functions of the arrays."""
    import workbench as wb

    names, wrt = workbench_names(), _single(problem.wrt)

    def objective(*arrays: Any) -> Any:
        return problem.objective(names, *arrays)

    if problem.derivative == "gradient":
        return objective, wb.grad(objective, wrt)
    if problem.derivative == "jacobian":
        return objective, wb.jacobian(objective, wrt)
    if problem.derivative == "hessian":
        return objective, wb.hessian(objective, wrt)
    if problem.derivative == "blocks":
        return wb.vmap(objective), wb.vmap(wb.jacobian(objective, wrt))

    def push(tangent: Any, x: Any) -> Any:
        return wb.jvp(objective, (x,), (tangent,))[1]

    pushed = wb.vmap(push, in_axes=(0, None))
    return objective, lambda x: pushed(problem.seeds, x)


def eager(problem: Problem) -> Peer:
    """Make the derivative anew at each call, as a notebook does."""
    _, derivative = differentiate(problem)
    objective, arrays = problem.objective, problem.arrays
    if problem.derivative == "blocks":
        objective, _ = differentiate(problem)
        return Peer(lambda: objective(*arrays), lambda: derivative(*arrays))
    names = workbench_names()
    return Peer(lambda: objective(names, *arrays), lambda: derivative(*arrays))


def program(backend: str, problem: Problem) -> Peer:
    """Trace and simplify once, and run on a backend."""
    import workbench as wb

    arrays = problem.arrays
    objective, derivative = (
        wb.compile(f, backend=backend) for f in differentiate(problem)
    )

    def wait() -> None:
        for f in (objective, derivative):
            f.wait()
        if derivative.backend != backend:
            raise NotApplicable(f"it runs on {derivative.backend}")

    def release() -> None:
        objective.release()
        derivative.release()

    return Peer(
        lambda: objective(*arrays),
        lambda: derivative(*arrays),
        wait=wait if backend == "compiled" else lambda: None,
        release=release if backend == "compiled" else lambda: None,
    )


# Others


def autograd(problem: Problem) -> Peer:
    import autograd as library
    import autograd.numpy as anp

    names = Names(
        anp,
        PythonLoops(anp.stack),
        constant=np.asarray,
        logsumexp=_logsumexp(anp),
        grad=library.grad,
    )
    arrays = problem.arrays

    def objective(*arrays: Any) -> Any:
        return problem.objective(names, *arrays)

    makers = {
        "gradient": library.grad,
        "jacobian": library.jacobian,
        "hessian": library.hessian,
    }
    if problem.derivative not in makers:
        raise NotApplicable("it has no vmap")
    derivative = makers[problem.derivative](objective, _single(problem.wrt))
    return Peer(lambda: objective(*arrays), lambda: derivative(*arrays))


def torch(problem: Problem, compiled: bool = False, device: str = "cpu") -> Peer:
    import torch as library

    library.set_num_threads(1)

    def grad(f: Any) -> Any:
        def gradient(*args: Any) -> Any:
            first = args[0]
            if not first.requires_grad:
                first = first.detach().requires_grad_()
            value = f(first, *args[1:])
            return library.autograd.grad(value, first, create_graph=True)[0]

        return gradient

    names = Names(
        library,
        PythonLoops(library.stack),
        constant=functools.partial(library.as_tensor, device=device),
        grad=grad,
    )
    arrays = [library.as_tensor(np.asarray(x), device=device) for x in problem.arrays]
    wrt = problem.wrt

    def objective(*arrays: Any) -> Any:
        return problem.objective(names, *arrays)

    f = library.compile(objective) if compiled else objective
    if problem.derivative == "gradient":

        def gradient() -> Any:
            given = list(arrays)
            for i in wrt:
                given[i] = arrays[i].detach().requires_grad_()
            return library.autograd.grad(f(*given), [given[i] for i in wrt])

        return Peer(lambda: f(*arrays), gradient, _read_torch)
    func, place = library.func, _single(wrt)
    if problem.derivative == "jacobian":
        made = func.jacfwd(objective, place)
    elif problem.derivative == "hessian":
        made = func.hessian(objective, place)
    elif problem.derivative == "blocks":
        f = func.vmap(objective)
        made = func.vmap(func.jacfwd(objective, place))
    else:
        seeds = library.as_tensor(problem.seeds, device=device)

        def made(x: Any) -> Any:
            def push(t: Any) -> Any:
                return func.jvp(objective, (x,), (t,))[1]

            return func.vmap(push)(seeds)

    if compiled:
        made, f = library.compile(made), library.compile(f)
    return Peer(lambda: f(*arrays), lambda: made(*arrays), _read_torch)


def _read_torch(answer: Any) -> Any:
    if isinstance(answer, (list, tuple)):
        return [_read_torch(x) for x in answer]
    return answer.detach().cpu().numpy()


def jax(problem: Problem, waits: bool = True) -> Peer:
    import jax as library
    import jax.numpy as jnp

    library.config.update("jax_enable_x64", True)
    names = Names(
        jnp,
        JaxLoops(),
        constant=jnp.asarray,
        logsumexp=library.nn.logsumexp,
        grad=library.grad,
    )
    arrays = [jnp.asarray(x) for x in problem.arrays]

    def objective(*arrays: Any) -> Any:
        return problem.objective(names, *arrays)

    f, place = objective, _single(problem.wrt)
    if problem.derivative == "gradient":
        forward = "jax" in problem.forward
        made = (library.jacfwd if forward else library.grad)(objective, place)
    elif problem.derivative == "jacobian":
        made = library.jacfwd(objective, place)
    elif problem.derivative == "hessian":
        made = library.hessian(objective, place)
    elif problem.derivative == "blocks":
        f = library.vmap(objective)
        made = library.vmap(library.jacfwd(objective, place))
    else:
        seeds = jnp.asarray(problem.seeds)

        def made(x: Any) -> Any:
            return library.vmap(lambda t: library.jvp(objective, (x,), (t,))[1])(seeds)

    value, derivative = library.jit(f), library.jit(made)
    ready = library.block_until_ready if waits else _pass
    return Peer(
        lambda: ready(value(*arrays)),
        lambda: ready(derivative(*arrays)),
        lambda answer: library.tree.map(np.asarray, answer),
    )


def _pass(answer: Any) -> Any:
    return answer


def pytensor(problem: Problem) -> Peer:
    import pytensor as library
    import pytensor.tensor as pt

    if problem.derivative in ("blocks", "compressed"):
        raise NotApplicable("batches of derivatives are not tried")
    names = Names(
        pt,
        PytensorLoops(),
        constant=pt.as_tensor,
        swapaxes=lambda x, a, b: x.swapaxes(a, b),
    )
    symbols = [pt.as_tensor(x).type() for x in problem.arrays]
    value = problem.objective(names, *symbols)
    sources = [symbols[i] for i in problem.wrt]
    if problem.derivative == "gradient":
        made = library.grad(value, sources)
    elif problem.derivative == "jacobian":
        made = library.gradient.jacobian(value, sources[0], vectorize=True)
    else:
        made = library.gradient.hessian(value, sources[0])
    arrays = list(map(np.asarray, problem.arrays))

    @functools.cache
    def compiled(output: str) -> Any:
        y = value if output == "objective" else made
        return library.function(symbols, y, trust_input=True)

    return Peer(
        lambda: compiled("objective")(*arrays), lambda: compiled("derivative")(*arrays)
    )


def casadi(problem: Problem) -> Peer:
    """Scalar code on buffers that are set once: no argument is checked in a call."""
    import casadi as library

    if problem.derivative != "gradient":
        raise NotApplicable("only gradients of vectors are tried")

    def total(x: Any, axis: int | None = None) -> Any:
        return library.sum1(library.vec(x))

    names = Names(library, sum=total, constant=lambda x: library.DM(x))
    shapes = list(map(np.shape, problem.arrays))
    symbols = [library.SX.sym(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    value = problem.objective(names, *symbols)
    made = [library.gradient(value, symbols[i]) for i in problem.wrt]
    calls = []
    for name, outputs in (("f", [value]), ("g", made)):
        f = library.Function(name, symbols, outputs)
        buffer, run = f.buffer()
        held = [np.ascontiguousarray(x) for x in problem.arrays]
        for i, x in enumerate(held):
            buffer.set_arg(i, memoryview(x))
        results = [np.zeros(y.shape).squeeze() for y in outputs]
        for i, y in enumerate(results):
            buffer.set_res(i, memoryview(y))
        calls.append(_returning(run, results, buffer, held))
    return Peer(*calls)


def _returning(run: Call, results: list[Any], *kept: Any) -> Call:
    """Return a call that runs and returns what it has filled."""

    def call(kept: Any = kept) -> Any:
        run()
        return results

    return call


def _single(wrt: tuple[int, ...]) -> Any:
    return wrt[0] if len(wrt) == 1 else wrt


#: Everybody, by the name in the tables.
PEERS: dict[str, Callable[[Problem], Peer]] = {
    "workbench eager": eager,
    "workbench numpy": functools.partial(program, "numpy"),
    "workbench compiled": functools.partial(program, "compiled"),
    "torch": torch,
    "torch.compile": functools.partial(torch, compiled=True),
    "jax": jax,
    "pytensor": pytensor,
    "autograd": autograd,
    "casadi": casadi,
}
OURS = tuple(name for name in PEERS if name.startswith("workbench"))


# C by hand


class MissingCompiler(ImportError):
    """There is no C compiler here, or it refuses."""


def compile_c(source: str) -> ctypes.CDLL:
    """Return C code as a library, vectorised with the vector math library.

    ``sin`` and ``cos`` are no built-ins: of both of one argument the compiler makes a
    scalar ``sincos``, and no vector is left. With ``-ffast-math`` the linker would add
    code that lets the processor take tiny numbers for zero, in this whole process.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        raise MissingCompiler("no gcc", name="gcc")
    head = "#include <math.h>\n" + "".join(
        f'__attribute__((simd("notinbranch"), const)) double {f}(double);\n'
        for f in ("sin", "cos")
    )
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.c"
        file.write_text(head + source)
        made = file.with_suffix(".so")
        unit = file.with_suffix(".o")
        options = ["-O3", "-march=native", "-ffast-math", "-fopenmp-simd", "-fPIC"]
        options += ["-fno-builtin-sin", "-fno-builtin-cos"]
        for command in (
            [compiler, *options, "-c", str(file), "-o", str(unit)],
            [compiler, "-shared", str(unit), "-o", str(made), "-lmvec", "-lm"],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise MissingCompiler(done.stderr.splitlines()[-1], name="gcc")
        return ctypes.CDLL(str(made))
    finally:
        shutil.rmtree(folder)


def pointers(*arrays: Any) -> list[Any]:
    """Return the addresses of arrays, as C takes them; they keep the arrays alive."""
    return [x.ctypes.data_as(ctypes.c_void_p) for x in arrays]
