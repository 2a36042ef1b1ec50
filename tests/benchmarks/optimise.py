"""Derivatives that solvers ask for: an optimal control, and a stiff equation.

The swing-up of a pendulum by collocation is solved by IPOPT, which CasADi brings and
cyipopt calls, and by SciPy's trust-constr. What a solver asks for is timed at points
that it has not seen: value and gradient, constraints, the entries of their Jacobian and
of the Hessian of the Lagrangian. JAX is given the patterns and colourings, CasADi and
Workbench find them. Allen and Cahn's equation is integrated by SciPy's implicit
methods, which take a Jacobian or make differences.
"""

from __future__ import annotations

import datetime
import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from tests.benchmarks import harness
from tests.benchmarks.peers import NUMPY, JaxLoops, Names, workbench_names

TITLE = "Derivatives for optimisers and solvers"
#: How many unknowns: the pendulum has three at each time.
SIZES = {"pendulum": (1_002, 10_002), "allen_cahn": (1_000, 10_000)}
ROUNDS = 15
TOLERANCE = 1e-8
IPOPT = {"tol": TOLERANCE, "max_iter": 200, "print_level": 0, "sb": "yes"}
#: The most unknowns for which a solver makes a dense Jacobian by differences.
DENSE = 1_000

#: An answer at a point; what is asked for by its name.
Answers = dict[str, Callable[[Any], Any]]
#: The end, the iterations, and the seconds of answers.
Solution = tuple[Any, int, float]


@dataclass
class Peer:
    """Who answers a solver: what it took to be ready, the answers, whole solutions.

    A solution is by its name; what it returns is the end, how many iterations, and
    how many seconds of them were answers, where that is known.
    """

    prepare: float
    answers: Answers
    solve: dict[str, Callable[[], Solution]] = field(default_factory=dict)


# The pendulum


@dataclass(frozen=True)
class Pendulum:
    """The least effort that swings a pendulum up in four seconds, at n times.

    Unknown are angles, speeds and torques, one after the other.
    """

    n: int

    @property
    def step(self) -> float:
        return 4.0 / (self.n - 1)

    @property
    def start(self) -> Any:
        return np.concatenate([np.linspace(0, np.pi, self.n), np.zeros(2 * self.n)])

    def effort(self, xp: Any, z: Any) -> Any:
        squares = z[2 * self.n :] * z[2 * self.n :]
        ends = squares[:1] + squares[self.n - 1 :]
        return self.step * (xp.sum(squares, axis=0) - xp.sum(ends, axis=0) / 2)

    def defects(self, xp: Any, z: Any) -> Any:
        n, h = self.n, self.step
        angle, speed, torque = z[:n], z[n : 2 * n], z[2 * n :]
        pull = torque - xp.sin(angle) - 0.1 * speed
        return xp.concatenate(
            [
                angle[1:] - angle[:-1] - h * (speed[1:] + speed[:-1]) / 2,
                speed[1:] - speed[:-1] - h * (pull[1:] + pull[:-1]) / 2,
                angle[:1],
                speed[:1],
                angle[n - 1 :] - np.pi,
                speed[n - 1 :],
            ]
        )

    @property
    def m(self) -> int:
        return 2 * self.n + 2


def workbench_pendulum(task: Pendulum) -> Peer:
    """Find, colour and compile; SciPy's method and IPOPT solve."""
    import workbench as wb

    names = workbench_names()
    begin = time.process_time()
    p = wb.optimize.problem(
        lambda z: task.effort(names, z),
        task.start,
        constraints=[(lambda z: task.defects(names, z), 0, 0)],
        sparse=True,
    )
    ones = np.ones(task.m)
    answers: Answers = {
        "value_and_gradient": p.value_and_gradient,
        "constraints": p.constraints,
        "jacobian": p.jacobian,
        "hessian": lambda x: p.lagrangian_hessian(x, ones),
    }
    for answer in answers.values():
        answer(p.x0)
    prepared = time.process_time() - begin
    time.sleep(1.0)  # compiled code takes over

    def solve_by_scipy() -> Solution:
        found = p.solve("trust-constr", options={"gtol": TOLERANCE, "maxiter": 200})
        return found.x, found.nit, math.nan

    callbacks = p.ipopt()["problem_obj"]
    solve = {
        "trust-constr": solve_by_scipy,
        "ipopt": lambda: solve_by_ipopt(task, callbacks),
    }
    return Peer(prepared, answers, solve)


def solve_by_ipopt(task: Pendulum, callbacks: Any) -> Solution:
    """Solve by cyipopt, with the callbacks of a peer."""
    import cyipopt

    counted = SimpleNamespace(iterations=0, spent=0.0)

    def count(_mode: int, iterations: int, *_: Any) -> bool:
        counted.iterations = iterations
        return True

    def clock(answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            begin = time.process_time()
            made = answer(*args)
            counted.spent += time.process_time() - begin
            return made

        return call

    wanted = ("objective", "gradient", "constraints", "jacobian", "hessian")
    methods = (*wanted, "jacobianstructure", "hessianstructure")
    asked = {name: clock(getattr(callbacks, name)) for name in methods}
    solver = cyipopt.Problem(
        n=3 * task.n,
        m=task.m,
        problem_obj=SimpleNamespace(intermediate=count, **asked),
        cl=np.zeros(task.m),
        cu=np.zeros(task.m),
    )
    for name, value in IPOPT.items():
        solver.add_option(name, value)
    x, _ = solver.solve(task.start)
    return x, counted.iterations, counted.spent


def casadi_pendulum(task: Pendulum) -> Peer:
    """Find, colour and write scalar code; the functions are those that IPOPT calls."""
    import casadi as library

    names = Names(
        library,
        concatenate=lambda parts: library.vertcat(*parts),
        sum=lambda x, axis: library.sum1(x),
    )
    begin = time.process_time()
    z = library.SX.sym("z", 3 * task.n)
    program = {"x": z, "f": task.effort(names, z), "g": task.defects(names, z)}
    options = {f"ipopt.{name}": value for name, value in IPOPT.items()}
    solver = library.nlpsol(
        "solver", "ipopt", program, {**options, "print_time": False}
    )
    ones = np.ones(task.m)
    answers: Answers = {}
    for name, function, places, more in (
        ("value_and_gradient", "nlp_grad_f", (0, 1), ()),
        ("constraints", "nlp_g", (0,), ()),
        ("jacobian", "nlp_jac_g", (1,), ()),
        ("hessian", "nlp_hess_l", (0,), (np.ones(1), ones)),
    ):
        answers[name] = _call_casadi(solver.get_function(function), places, more)
    for answer in answers.values():
        answer(task.start)
    prepared = time.process_time() - begin

    def solve() -> Solution:
        found = solver(x0=task.start, lbg=0, ubg=0)
        told = solver.stats()
        spent = sum(told[key] for key in told if key.startswith("t_proc_nlp_"))
        return np.asarray(found["x"]).ravel(), told["iter_count"], spent

    return Peer(prepared, answers, {"ipopt": solve})


def _call_casadi(f: Any, places: tuple[int, ...], more: tuple[Any, ...] = ()) -> Any:
    """Return a function of CasADi on set buffers; a matrix is one of SciPy."""
    buffer, run = f.buffer()
    held = np.empty(f.size1_in(0))
    buffer.set_arg(0, memoryview(held))
    for at, values in enumerate(more):
        buffer.set_arg(f.n_in() - len(more) + at, memoryview(values))
    made = []
    for place in places:
        pattern = f.sparsity_out(place)
        values = np.zeros(pattern.nnz())
        buffer.set_res(place, memoryview(values))
        if pattern.is_dense():
            made.append(values)
            continue
        parts = values, np.array(pattern.row()), np.array(pattern.colind())
        made.append(sparse.csc_array(parts, shape=pattern.shape))

    def call(x: Any) -> Any:
        held[:] = x
        run()
        return made[0] if len(made) == 1 else made

    call.kept = (buffer, held, more)  # type: ignore[attr-defined]
    return call


def jax_pendulum(task: Pendulum) -> Peer:
    """Jitted entries, along colours by SciPy of patterns that it is given."""
    import jax as library
    import jax.numpy as jnp

    import workbench as wb

    library.config.update("jax_enable_x64", True)
    names = Names(jnp, JaxLoops())

    def lagrangian(z: Any, multipliers: Any, scale: Any) -> Any:
        return scale * task.effort(names, z) + multipliers @ task.defects(names, z)

    ours = workbench_names()
    jacobian = wb.sparsity(lambda z: task.defects(ours, z), task.start).to_scipy("csr")
    weights = np.ones(task.m)
    hessian = wb.sparsity(
        lambda z: task.effort(ours, z) + ours.sum(weights * task.defects(ours, z)),
        task.start,
        order=2,
    ).to_scipy("csr")
    begin = time.process_time()
    value = library.jit(lambda z: task.effort(names, z))
    both = library.jit(library.value_and_grad(lambda z: task.effort(names, z)))
    constraints = library.jit(lambda z: task.defects(names, z))
    first = compress_by_jax(lambda z: task.defects(names, z), jacobian)
    second = compress_by_jax(library.grad(lagrangian), hessian)
    ones = np.ones(task.m)
    answers: Answers = {
        "value_and_gradient": lambda x: library.block_until_ready(both(x)),
        "constraints": lambda x: library.block_until_ready(constraints(x)),
        "jacobian": lambda x: _fill(jacobian, first(x)),
        "hessian": lambda x: _fill(hessian, second(x, ones, 1.0)),
    }
    for answer in answers.values():
        answer(task.start)
    prepared = time.process_time() - begin
    places = [sparse.coo_array(pattern) for pattern in (jacobian, hessian)]
    lower = np.flatnonzero(places[1].col <= places[1].row)
    callbacks = SimpleNamespace(
        objective=lambda x: float(value(x)),
        gradient=lambda x: np.asarray(both(x)[1]),
        constraints=lambda x: np.asarray(constraints(x)),
        jacobianstructure=lambda: (places[0].row, places[0].col),
        jacobian=lambda x: np.asarray(first(x)),
        hessianstructure=lambda: (places[1].row[lower], places[1].col[lower]),
        hessian=lambda x, lagrange, scale: np.asarray(second(x, lagrange, scale))[
            lower
        ],
    )
    return Peer(prepared, answers, {"ipopt": lambda: solve_by_ipopt(task, callbacks)})


def compress_by_jax(f: Callable[..., Any], pattern: Any) -> Callable[..., Any]:
    """Return the jitted entries of a Jacobian, row by row of its pattern."""
    import jax as library
    import jax.numpy as jnp
    from scipy.optimize._numdiff import group_columns

    groups = group_columns(pattern, np.arange(pattern.shape[1]))
    seeds = jnp.asarray(groups == np.arange(groups.max() + 1)[:, None], float)
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    places = jnp.asarray(groups[pattern.indices]), jnp.asarray(rows)

    def entries(x: Any, *others: Any) -> Any:
        def push(t: Any) -> Any:
            return library.jvp(lambda z: f(z, *others), (x,), (t,))[1]

        return library.vmap(push)(seeds)[places]

    return library.jit(entries)


def _fill(pattern: Any, values: Any) -> Any:
    parts = np.asarray(values), pattern.indices, pattern.indptr
    return sparse.csr_array(parts, shape=pattern.shape)


def scipy_pendulum(task: Pendulum) -> Peer:
    """Differences of NumPy's values, with the pattern of the Jacobian given."""
    from scipy.optimize._numdiff import approx_derivative, group_columns

    import workbench as wb

    ours = workbench_names()
    pattern = wb.sparsity(lambda z: task.defects(ours, z), task.start).to_scipy("csr")
    begin = time.process_time()
    groups = pattern, group_columns(pattern)
    prepared = time.process_time() - begin

    def constraints(x: Any) -> Any:
        return task.defects(NUMPY, x)

    answers: Answers = {
        "constraints": constraints,
        "jacobian": lambda x: approx_derivative(constraints, x, sparsity=groups),
    }
    return Peer(prepared, answers)


# Allen and Cahn's equation


@dataclass(frozen=True)
class AllenCahn:
    """Two phases of an alloy part, on n places with closed ends."""

    n: int

    @property
    def start(self) -> Any:
        place = np.linspace(-1, 1, self.n)
        return place**2 * np.cos(np.pi * place)

    @property
    def spread(self) -> float:
        return 1e-4 * ((self.n - 1) / 2) ** 2

    def rate(self, xp: Any, u: Any) -> Any:
        n = self.n
        left = xp.concatenate([u[1:2], u[: n - 1]])
        right = xp.concatenate([u[1:], u[n - 2 : n - 1]])
        return self.spread * (left - 2 * u + right) + 5 * (u - u * u * u)

    @property
    def pattern(self) -> Any:
        ones = np.ones((3, self.n))
        return sparse.dia_array((ones, (-1, 0, 1)), (self.n, self.n)).tocsr()

    def solvers(self, value: Any, **more: Any) -> dict[str, Any]:
        """Return the implicit methods of SciPy with these arguments."""
        from scipy.integrate import solve_ivp

        def solve(method: str) -> Solution:
            found = solve_ivp(
                value, (0, 20), self.start, method, rtol=1e-6, atol=1e-9, **more
            )
            return found.y[:, -1], found.nfev, math.nan

        return {name: lambda name=name: solve(name) for name in ("BDF", "Radau")}


def workbench_allen_cahn(task: AllenCahn) -> Peer:
    """Find, colour and compile."""
    import workbench as wb

    names = workbench_names()
    begin = time.process_time()
    p = wb.optimize.problem(lambda t, u: task.rate(names, u), task.start, t0=0.0)
    p.value(0.0, p.x0), p.jacobian(0.0, p.x0)
    prepared = time.process_time() - begin
    time.sleep(1.0)  # compiled code takes over
    asked = p.solve_ivp((0, 20), "BDF")
    answers: Answers = {
        "value": lambda x: p.value(0.0, x),
        "jacobian": lambda x: p.jacobian(0.0, x),
    }
    return Peer(prepared, answers, task.solvers(asked["fun"], jac=asked["jac"]))


def jax_allen_cahn(task: AllenCahn) -> Peer:
    """Jitted entries along the colours of the pattern that is given."""
    import jax as library
    import jax.numpy as jnp

    library.config.update("jax_enable_x64", True)
    names = Names(jnp, JaxLoops())
    pattern = task.pattern
    begin = time.process_time()
    value = library.jit(lambda u: task.rate(names, u))
    entries = compress_by_jax(lambda u: task.rate(names, u), pattern)
    answers: Answers = {
        "value": lambda x: np.asarray(value(x)),
        "jacobian": lambda x: _fill(pattern, entries(x)),
    }
    return _integrate(task, answers, begin)


def casadi_allen_cahn(task: AllenCahn) -> Peer:
    """Find, colour and write scalar code."""
    import casadi as library

    names = Names(library, concatenate=lambda parts: library.vertcat(*parts))
    begin = time.process_time()
    u = library.SX.sym("u", task.n)
    y = task.rate(names, u)
    value = _call_casadi(library.Function("value", [u], [y]), (0,))
    slope = library.Function("slope", [u], [library.jacobian(y, u)])
    jacobian = _call_casadi(slope, (0,))
    answers: Answers = {
        # SciPy keeps what it is given, so that a buffer must not change later.
        "value": lambda x: value(x).copy(),
        "jacobian": lambda x: jacobian(x).copy(),
    }
    return _integrate(task, answers, begin)


def _integrate(task: AllenCahn, answers: Answers, begin: float) -> Peer:
    """Return a peer of two functions, once both are ready."""
    for answer in answers.values():
        answer(task.start)
    prepared = time.process_time() - begin
    value, slope = answers["value"], answers["jacobian"]
    solve = task.solvers(lambda t, u: value(u), jac=lambda t, u: slope(u))
    return Peer(prepared, answers, solve)


def hand_allen_cahn(task: AllenCahn) -> Peer:
    """The three diagonals by hand, in NumPy."""
    ones = np.ones((3, task.n)) * task.spread
    ones[0, task.n - 2] *= 2
    ones[2, 1] *= 2

    def slope(u: Any) -> Any:
        diagonals = ones.copy()
        diagonals[1] = 5 - 2 * task.spread - 15 * u * u
        return sparse.dia_array((diagonals, (-1, 0, 1)), (task.n, task.n)).tocsc()

    answers: Answers = {"value": lambda u: task.rate(NUMPY, u), "jacobian": slope}
    return _integrate(task, answers, time.process_time())


def scipy_allen_cahn(task: AllenCahn) -> Peer:
    """Differences that the method makes, with the pattern given."""

    def value(t: float, u: Any) -> Any:
        return task.rate(NUMPY, u)

    return Peer(math.nan, {}, task.solvers(value, jac_sparsity=task.pattern))


def dense_allen_cahn(task: AllenCahn) -> Peer:
    """Differences that the method makes of all columns."""
    if task.n > DENSE:
        raise NotImplementedError(f"a dense Jacobian is tried up to {DENSE:,}")
    return Peer(math.nan, {}, task.solvers(lambda t, u: task.rate(NUMPY, u)))


TASKS: dict[str, Callable[[int], Any]] = {
    "pendulum": lambda unknowns: Pendulum(unknowns // 3),
    "allen_cahn": AllenCahn,
}
#: Who takes part; the answers of the first are right.
PEERS: dict[str, dict[str, Callable[[Any], Peer]]] = {
    "pendulum": {
        "casadi": casadi_pendulum,
        "workbench": workbench_pendulum,
        "jax": jax_pendulum,
        "scipy": scipy_pendulum,
    },
    "allen_cahn": {
        "hand": hand_allen_cahn,
        "workbench": workbench_allen_cahn,
        "jax": jax_allen_cahn,
        "casadi": casadi_allen_cahn,
        "scipy": scipy_allen_cahn,
        "scipy dense": dense_allen_cahn,
    },
}
#: How far answers and solutions may be apart, by the largest number.
AGREE = {"jax": 1e-9, "casadi": 1e-9, "workbench": 1e-9, "scipy": 1e-5}


# What is measured


def measure(problem: str, unknowns: int, names: Iterable[str] | None) -> list[Any]:
    """Return a row for each peer: seconds, and what is wrong with it."""
    task = TASKS[problem](unknowns)
    rows, peers = [], {}
    expected: dict[str, Any] = {}
    for name, make in PEERS[problem].items():
        if names is not None and name not in names:
            continue
        row = {"problem": problem, "unknowns": unknowns, "peer": name, "error": ""}
        rows.append(row | {"date": datetime.date.today().isoformat()})
        row = rows[-1]
        try:
            peer = make(task)
        except ImportError as error:
            row["error"] = f"not installed ({error.name})"
            continue
        except NotImplementedError as error:
            row["error"] = f"left out: {error}"
            continue
        point = task.start + 0.1 * np.cos(np.arange(len(task.start)))
        for what, answer in peer.answers.items():
            found = _read(answer(point))
            off = _compare(found, expected.setdefault(what, found))
            if off > AGREE.get(name, 1e-9):
                row["error"] = f"{what} differs by {off:.2g}"
        row["prepare_s"] = harness.keep_digits(peer.prepare)
        peers[name] = peer
    _time_answers(task, rows, peers)
    _time_solutions(rows, peers)
    return rows


def _read(answer: Any) -> list[Any]:
    """Return copies of the arrays of an answer; of a Hessian the upper triangle."""
    parts = answer if isinstance(answer, (tuple, list)) else [answer]
    made = []
    for part in parts:
        if not sparse.issparse(part):
            made.append(np.atleast_1d(np.array(part)))
        elif part.shape[0] == part.shape[1]:
            made.append(sparse.triu(part).tocsr())
        else:
            made.append(part.tocsr().copy())
    return made


def _compare(found: list[Any], expected: list[Any]) -> float:
    """Return how far arrays are apart, by the largest number of each."""
    off = 0.0
    for x, y in zip(found, expected, strict=True):
        apart = abs(x - y)
        off = max(off, float(apart.max() / max(abs(y).max(), 1e-300)))
    return off


def _time_answers(task: Any, rows: list[Any], peers: dict[str, Peer]) -> None:
    """Time each answer, in turns, at a point that is new for each call."""
    calls = {
        (row["peer"], what): harness.repeat_call(_vary(task.start, answer))
        for row in rows
        if row["peer"] in peers
        for what, answer in peers[row["peer"]].answers.items()
    }
    times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    order = list(calls)
    for _ in range(ROUNDS):
        random.shuffle(order)
        for key in order:
            times[key].append(calls[key]())
    for row in rows:
        for (name, what), taken in times.items():
            if name == row["peer"]:
                row[f"{what}_s"] = harness.keep_digits(min(taken))


def _vary(start: Any, answer: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a call at another point each time: an answer kept by its point is none."""
    x = start.copy()

    def call() -> Any:
        x[0] += 1e-6
        return answer(x)

    return call


def _time_solutions(rows: list[Any], peers: dict[str, Peer]) -> None:
    """Time whole solutions three times; the least counts, and the ends agree."""
    ends: dict[str, Any] = {}
    for turn in range(3):
        for row in rows:
            name = row["peer"]
            for method, solve in peers[name].solve.items() if name in peers else ():
                begin = time.process_time()
                try:
                    end, iterations, answers = solve()
                except ImportError as error:
                    row["error"] = f"not installed ({error.name})"
                    continue
                spent = harness.keep_digits(time.process_time() - begin)
                key = f"{method}_s"
                if spent <= row.get(key, math.inf):
                    row[key] = spent
                    row[f"{method}_answers_s"] = harness.keep_digits(answers)
                row[f"{method}_steps"] = iterations
                off = float(np.max(np.abs(end - ends.setdefault(method, end))))
                if turn == 0 and off > 1e-4:
                    row["error"] = f"{method} ends {off:.2g} apart"


def judge(rows: list[Any]) -> list[dict[str, Any]]:
    """Return the goals: ours is ahead of who else computes the same."""
    found = {(r["problem"], r["unknowns"], r["peer"]): r for r in rows}
    made = []
    for problem, sizes in SIZES.items():
        for n in sizes:
            ours = found.get((problem, n, "workbench"))
            others = [r for (p, k, _), r in found.items() if (p, k) == (problem, n)]
            for what in WHAT if ours else ():
                theirs = [
                    (row[f"{what}_s"], row["peer"])
                    for row in others
                    if row is not ours and f"{what}_s" in row and not row["error"]
                ]
                if not theirs or ours is None or f"{what}_s" not in ours:
                    continue
                best, peer = min(theirs)
                ratio = harness.keep_digits(ours[f"{what}_s"] / best)
                words = f"{problem}, n = {n:,}: {WHAT[what]} ≤ 1 × {peer}"
                met = ratio is not None and ratio <= 1
                made.append({"goal": words, "value": ratio, "met": met, "reason": ""})
    return made


#: What is asked for and solved, as the tables call it.
WHAT = {
    "value": "value",
    "value_and_gradient": "value and gradient",
    "constraints": "constraints",
    "jacobian": "Jacobian",
    "hessian": "Hessian",
    "ipopt": "solved by IPOPT",
    "trust-constr": "solved by trust-constr",
    "BDF": "solved by BDF",
    "Radau": "solved by Radau",
}
#: The parts that run in processes of their own.
PARTS = tuple(f"optimise.{problem}.{n}" for problem in SIZES for n in SIZES[problem])


def run(part: str, keep: bool, names: Iterable[str] | None = None) -> None:
    """Measure one problem at one size, print, and keep if wanted."""
    _, problem, size = part.split(".")
    rows = measure(problem, int(size), names)
    print(f"{problem}, {int(size):,} unknowns (`{part}`)")
    for row in rows:
        print(f"  {row['peer']:<12} {row['error']}")
        for what in ("prepare", *WHAT):
            if row.get(f"{what}_s") is not None:
                steps = row.get(f"{what}_steps", "")
                taken = harness.write_number(row[f"{what}_s"] * 1e3)
                inside = row.get(f"{what}_answers_s")
                told = "" if inside is None else f", answers {inside * 1e3:.3g} ms"
                print(f"    {WHAT.get(what, 'ready'):<24}{taken:>10} ms {steps}{told}")
    kept = harness.load("optimise").get("rows", [])
    stay = [
        r for r in kept if (r.get("problem"), r.get("unknowns")) != (problem, int(size))
    ]
    order = {name: at for at, name in enumerate(PARTS)}
    every = [
        r for r in stay + rows if f"optimise.{r['problem']}.{r['unknowns']}" in order
    ]
    every.sort(key=lambda r: order[f"optimise.{r['problem']}.{r['unknowns']}"])
    goals = judge(every)
    for one in goals:
        if one["goal"].startswith(f"{problem}, n = {int(size):,}:"):
            word = "met" if one["met"] else "missed"
            print(f"  goal: {one['goal']}: {one['value']:g}, {word}")
    if keep:
        harness.save("optimise", TITLE, {"goals": goals, "rows": every})
