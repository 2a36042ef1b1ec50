"""Rules of strangers: what they would make is known, and bounded, before they run.

Every function that a rule may name is abused here, in a process of its own whose
memory is measured: long results, products of long results, counts that a list of
numbers asks for, and work without end.
"""

from __future__ import annotations

import inspect
import json
import resource
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import workbench as wb
from tests.ops.samples import SAMPLES
from workbench.autodiff.budget import MOST_FREE, Budget, Demand, budget_for, weigh
from workbench.errors import (
    OverrideError,
    RegistrationError,
    TraceError,
    UsageError,
    WorkbenchError,
)
from workbench.overrides.allowed_ops import list_functions

X = np.array([0.5, 1.0, 2.0])


def made_by(*nodes: Any, given: Any = X) -> Any:
    """What a rule of these nodes gives; the last output is returned."""
    last = nodes[-1][0][-1]
    return wb.graph_rule(["x", "g"], [last], nodes).run([given, given])[0]


# What each function makes


class Spy(np.ndarray[Any, Any]):
    """An array that compares what is made of it with what was foretold."""

    seen: ClassVar[set[str]] = set()
    wrong: ClassVar[list[str]] = []

    def __array_function__(self, func: Any, kinds: Any, args: Any, given: Any) -> Any:
        args, given = plain(args), plain(given)
        made = func(*args, **given)
        self.look(func, args, given, made)
        return spied(made)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **given: Any) -> Any:
        args, given = plain(args), plain(given)
        made = getattr(ufunc, method)(*args, **given)
        if method == "__call__":
            self.look(ufunc, args, given, made)
        return spied(made)

    def look(self, func: Any, args: Any, given: Any, made: Any) -> None:
        known = [k for k, f in list_functions().items() if f is func]
        if not known or "out" in given:
            return
        (name,) = known
        if name == "einsum" and isinstance(args[0], str):
            return  # a rule has no text of letters
        try:
            told = weigh(func, args, given, Budget([np.ones(1000)])).demand.entries
        except TraceError:
            return  # what depends on values is refused
        if arrays(made) and sizes(made) > max(told, sizes(args), 1):
            self.wrong.append(f"{name}: {sizes(made)} entries, and {told} foretold")
        self.seen.add(name)


def plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: plain(part) for key, part in x.items()}
    if type(x) in (tuple, list):
        return type(x)(map(plain, x))
    return x.view(np.ndarray) if isinstance(x, Spy) else x


def spied(x: Any) -> Any:
    if type(x) in (tuple, list):
        return type(x)(map(spied, x))
    return x.view(Spy) if type(x) is np.ndarray else x


def arrays(made: Any) -> bool:
    """Whether something new is made: no view."""
    if isinstance(made, (tuple, list)):
        return any(map(arrays, made))
    return isinstance(made, np.ndarray) and made.base is None


def sizes(made: Any) -> int:
    if isinstance(made, (tuple, list)):
        return sum(map(sizes, made))
    return prod(getattr(made, "shape", ()))


def test_no_function_makes_more_than_is_foretold(rng: np.random.Generator) -> None:
    """Of all samples of all ops: what NumPy makes is the truth."""
    for sample in SAMPLES:
        args = [np.real(a).astype(float).view(Spy) for a in sample.arguments(rng)]
        with np.errstate(all="ignore"):
            try:
                sample.f(*args)
            except (TypeError, ValueError):
                continue  # some functions take no subclass
    assert not Spy.wrong
    assert len(Spy.seen) > 150


def test_a_call_of_each_function_takes_some_of_the_budget() -> None:
    """Whatever its operands: one that gave some back would be called without end."""
    vector, matrix, positions = np.ones(40), np.eye(6), np.arange(4)
    given = [
        (x, *more)
        for x in (vector, matrix, positions, [matrix, matrix])
        for more in ((), (x,), (2,), (x, x))
    ]
    told = set()
    for name, function in list_functions().items():
        for operands in given:
            if isinstance(function, np.ufunc) and len(operands) != function.nin:
                continue
            try:
                work = weigh(function, operands, {}, Budget([])).demand.work
            except (
                TypeError,
                ValueError,
                LookupError,
                WorkbenchError,
                AttributeError,
            ):
                continue  # not meant for these
            assert work > 0, (name, operands)
            told.add(name)
    assert len(told) > 0.8 * len(list_functions())


@pytest.mark.parametrize("name", ["tile", "repeat"])
def test_an_op_is_weighed_before_it_runs_at_its_full_size(name: str) -> None:
    """Of 160 MB, nothing is asked for, though lengths are told by a recorded body."""
    setting = {"tile": "reps", "repeat": "repeats"}[name]
    nodes = [(["a"], name, ["x"], {setting: 200_000})]
    rule = wb.graph_rule(["x", "g"], ["a"], nodes)
    text = wb.override("tanh", f"sum({name}(d, {setting}=200000)) * d")
    x = np.ones(100)
    gradient = wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[text])
    for run in (lambda: rule.run([x, x]), lambda: gradient(x)):
        tracemalloc.start()
        with pytest.raises((UsageError, OverrideError), match="20,000,000 entries"):
            run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6


@pytest.mark.parametrize(
    ("name", "size"), [("fft.fft", 16), ("fft.rfft", 16), ("fft.irfft", 8), ("exp", 8)]
)
def test_complex_entries_made_of_floats_count_16_bytes(name: str, size: int) -> None:
    made = weigh(list_functions()[name], [np.ones(1000)], {}, Budget([]))
    assert made.itemsize == size


def test_a_long_transform_is_refused_by_the_bytes_of_its_result() -> None:
    with pytest.raises(UsageError, match=r"9,999,000 entries \(160 MB\)"):
        made_by((["a"], "fft.fft", ["x"], {"n": 9_999_000}))


# Hostile rules

#: x and g have 3 entries; before each of these stand the ROWS.
ROWS: list[Any] = [
    (["M"], "outer", ["x", "x"]),
    (["L"], "tile", ["x"], {"reps": 30_000}),
    (["B"], "tile", ["M"], {"reps": [300, 300]}),
    (["n"], "astype", ["L"], {"dtype": "int64"}),
    (["many"], "multiply", ["n", 9_000_000]),
    (["E"], "reshape", ["L"], {"shape": [90_000, 1]}),
    (["R"], "reshape", ["L"], {"shape": [1, 90_000]}),
    (["S"], "reshape", ["L"], {"shape": [10_000, 1, 3, 3]}),
    (["T"], "reshape", ["L"], {"shape": [10_000, 3, 3]}),
    (["bytes"], "astype", ["E"], {"dtype": "uint8"}),
    (["less"], "less", ["E", 0]),
    (["v"], "sum", ["B"], {"axis": 0}),
    (["nE"], "reshape", ["n"], {"shape": [90_000, 1]}),
    (["nR"], "reshape", ["n"], {"shape": [1, 90_000]}),
    (["none"], "delete", ["x", [0, 1, 2]]),
]
#: What asks for gigabytes, or for hours.
ABUSED: list[Any] = [
    ("add", ["E", "L"]),
    ("arctan2", ["L", "E"]),
    ("divmod", ["E", "L"], {}, 2),
    ("where", ["E", "L", 0]),
    ("clip", ["L", "E", 1]),
    ("choose", ["n", ["E", "L"]]),
    ("select", [["less", "less"], ["L", "L"]]),
    ("meshgrid", ["L", "L"], {}, 2),
    ("meshgrid", ["x"] * 30, {}, 30),
    ("broadcast_arrays", ["L", "E"], {}, 2),
    ("isclose", ["L", "E"]),
    ("lib.scimath.power", ["L", "E"]),
    ("kron", ["L", "L"]),
    ("kron", ["B", "L"]),
    ("outer", ["L", "L"]),
    ("linalg.outer", ["L", "L"]),
    ("inner", ["E", "E"]),
    ("dot", ["E", "R"]),
    ("matmul", ["E", "R"]),
    ("linalg.matmul", ["E", "R"]),
    ("vecmat", ["E", "R"]),
    ("tensordot", ["L", "L"], {"axes": 0}),
    ("linalg.tensordot", ["L", "L"], {"axes": 0}),
    ("einsum", ["L", [0], "L", [1], [0, 1]]),
    ("einsum", ["L", [0], "L", [1], "L", [2], []]),
    ("einsum", ["L", [0], "L", [1], "L", [2], "L", [3]], {"optimize": "greedy"}),
    ("einsum", ["x", [0]] * 30, {"optimize": "optimal"}),
    ("linalg.multi_dot", [["B"] * 900]),
    ("linalg.matrix_power", ["B", 9_000_000]),
    ("tile", ["L"], {"reps": 1_000_000}),
    ("tile", ["L", "many"]),
    ("repeat", ["L"], {"repeats": 1_000_000}),
    ("repeat", ["L", "many"]),
    ("repeat", ["L", 9_000_000]),
    ("pad", ["B"], {"pad_width": 1_000_000}),
    ("pad", ["M"], {"pad_width": [[9000, 9000], [9000, 9000]], "mode": "reflect"}),
    ("pad", ["M", "many"]),
    ("resize", ["L", "many"]),
    ("broadcast_to", ["L"], {"shape": [100_000, 90_000]}),
    ("broadcast_to", ["x", "many"]),
    ("zeros_like", ["L"], {"shape": [9_000_000, 9_000_000]}),
    ("full_like", ["L", 1.0], {"shape": [90_000, 90_000]}),
    ("ones_like", ["x"], {"shape": 9_000_000, "dtype": "complex128"}),
    ("diag", ["L"]),
    ("diag", ["x"], {"k": 9_000_000}),
    ("diagflat", ["L"]),
    ("tril", ["L"]),
    ("triu", ["L"]),
    ("vander", ["L"]),
    ("vander", ["L"], {"N": 1_000_000}),
    ("take", ["E", "n"], {"axis": 1}),
    ("take_along_axis", ["E", "nR"], {"axis": 1}),
    ("insert", ["E", "n", "L"], {"axis": 1}),
    ("concatenate", [["B"] * 500]),
    ("stack", [["B"] * 500]),
    ("block", [["B"] * 500]),
    ("array_split", ["x", 9_000_000]),
    ("hsplit", ["none", 9_000_000]),
    ("diff", ["L"], {"n": 1_000_000}),
    ("quantile", ["E", "L"], {"axis": 1}),
    ("percentile", ["B", "L", 0]),
    ("histogram", ["x"], {"bins": 9_999_999}, 2),
    ("histogram", ["many"], {"bins": "fd"}, 2),
    ("histogram_bin_edges", ["many"], {"bins": "auto"}),
    ("histogram2d", ["x", "x"], {"bins": 9_000_000}, 3),
    ("histogramdd", ["B"], {"bins": 10}, 2),
    ("bincount", ["many"]),
    ("bincount", ["n"], {"minlength": 9_999_999, "weights": "L"}),
    ("isin", ["many", "n"], {"kind": "table"}),
    ("unpackbits", ["bytes"], {"count": 9_000_000, "axis": 1}),
    ("tensordot", ["B", "M"], {"axes": 9_999_999}),
    ("cov", ["E"]),
    ("corrcoef", ["E"]),
    ("convolve", ["L", "L"]),
    ("correlate", ["L", "L"]),
    ("polymul", ["L", "L"]),
    ("polydiv", ["L", "L"], {}, 2),
    ("polyval", ["L", "L"]),
    ("polyint", ["L"], {"m": 9_000_000}),
    ("polyder", ["L"], {"m": 9_000_000}),
    ("poly", ["L"]),
    ("roots", ["L"]),
    ("polyadd", ["E", "L"]),
    ("polyder", ["E"]),
    ("polyval", ["E", "E"]),
    ("roll", ["x", "E", "n"]),
    ("ravel_multi_index", [["n", "nE"], [3, 3]]),
    ("linalg.solve", ["S", "T"]),
    ("polyfit", ["L", "L"], {"deg": 10_000}),
    ("fft.fft", ["E"], {"n": 9_000_000, "axis": 1}),
    ("fft.irfft", ["E"], {"n": 9_000_000, "axis": 1}),
    ("fft.fftn", ["M"], {"s": [90_000, 90_000]}),
    ("fft.rfft2", ["M", "many"]),
    ("linalg.svd", ["E"], {}, 3),
    ("linalg.qr", ["E"], {"mode": "complete"}, 2),
    ("linalg.svd", ["B"], {"full_matrices": False}, 3),
    ("linalg.eigvals", ["B"]),
    ("linalg.inv", ["B"]),
    ("linalg.pinv", ["B"]),
    ("linalg.norm", ["B"], {"ord": "nuc"}),
    ("linalg.cond", ["B"]),
    ("linalg.matrix_rank", ["B"]),
    ("linalg.lstsq", ["B", "B"], {}, 4),
    ("linalg.tensorsolve", ["B", "v"]),
    ("lib.stride_tricks.sliding_window_view", ["L"], {"window_shape": 9_000}),
]
#: What one rule may hold, and what NumPy takes beside it for a moment.
MOST_PEAK = 500e6
REFUSED = (
    "a rule that is data may", "a rule that is data cannot",
    "more than 10,000,000 entries",
    "A rule does not set it", "is not a length", "must be of integral type",
    "AxisError",
)  # fmt: skip
#: What stands at random where a rule may have a number or a setting.
HOSTILE: list[Any] = [
    2, 7, 50, 1000, 6000, 10**5, 10**6, 10**7 - 1, -1, 0, 1, True, False, 0.5,
    [100, 100], [3000, 3000], [50, 50, 50], [2] * 10, [[1000, 1000]], [[0, 5000]] * 2,
    "complete", "greedy", "edge", "reflect", "linear_ramp", "float64", "complex128",
]  # fmt: skip


def abuse() -> list[str]:
    """Run what asks for too much; what was not refused for its size."""
    through = []
    for op, inputs, *more in ABUSED:
        params, count = (*more, 1)[:2] if more else ({}, 1)
        outputs = [f"out{i}" for i in range(count)]
        told = "it ran"
        try:
            made_by(*ROWS, (outputs, op, inputs, params))
        except (UsageError, RegistrationError) as error:
            told = str(error)
        if not any(words in told for words in REFUSED):
            through.append(f"{op}{inputs}{params}"[:80] + f": {told[:300]}")
    return through


def fuzz(seed: int, count: int) -> int:
    """Run random rules, each op in turn with what follows it; how many ran."""
    rng, ran = np.random.default_rng(seed), 0

    def pick(values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    def operand() -> Any:
        known = ["x", "g", "M", "L", "B", "E", "n"]
        numbers = [2, 3, 100, 5000, 10**6, 0.5]
        several = [pick([*known, 0, 1, 2]) for _ in range(rng.integers(1, 4))]
        return pick([pick(known), pick(known), pick(numbers), several])

    for op, function in list_functions().items():
        plain = isinstance(function, np.ufunc)
        keys = [] if plain else list(inspect.signature(function).parameters)
        for _ in range(count):
            inputs = [operand() for _ in range(function.nin if plain else pick([1, 2]))]
            params = {
                k: pick(HOSTILE) for k in keys[len(inputs) :] if rng.random() < 0.4
            }
            outputs = ["a", "b"][: function.nout] if plain else ["a"]
            after = [
                (["c"], pick(["kron", "outer", "matmul"]), ["a", pick(["a", "L"])]),
                (["d"], pick(["kron", "multiply", "sort"]), ["c"] * 2),
            ][: int(rng.integers(3))]
            try:
                made_by(*ROWS, (outputs, op, inputs, params), *after)
            except WorkbenchError:
                continue
            ran += 1
    return ran


def measure(seed: int) -> None:
    """What the process of the test prints: peaks of memory, and what ran."""
    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30,) * 2)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        through = abuse()
        ran = fuzz(seed, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print(json.dumps({"through": through, "ran": ran, "peak": 1024 * peak}))


@pytest.mark.long
def test_no_rule_of_a_stranger_takes_memory_or_time(
    rng: np.random.Generator, measured: Callable[[str], None]
) -> None:
    seed = int(rng.integers(10**6))
    print(f"seed of the process: {seed}")
    made = subprocess.run(
        [
            sys.executable, "-c",
            f"from tests.custom.test_budget import measure; measure({seed})",
        ],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-3000:]
    told = json.loads(made.stdout)
    measured(f"rules of strangers: a peak of {told['peak'] / 1e6:.0f} MB")
    assert told["through"] == []
    assert told["ran"] > 100  # what is modest runs
    assert told["peak"] < MOST_PEAK


# The budget


def test_the_refusal_says_what_would_be_made_and_what_may_be() -> None:
    with pytest.raises(
        UsageError,
        match=r"kron makes t of 324,000,000 entries \(2\.59 GB\), and a rule that is"
        r" data may hold 80 MB at a time, of which 144 kB are taken beside arrays of"
        r" 48 bytes\. Write a function rule\(node, g\)",
    ):
        made_by((["a"], "tile", ["g"], {"reps": 6000}), (["t"], "kron", ["a", "a"]))
    with pytest.raises(UsageError, match=r"svd makes u of .* and a rule that is data"):
        made_by(
            (["a"], "tile", ["g"], {"reps": [1200, 400]}),
            (["u", "s", "v"], "linalg.svd", ["a"]),
        )
    with pytest.raises(UsageError, match=r"in some 6\.5e\+09 operations, and a rule"):
        made_by(
            (["a"], "tile", ["g"], {"reps": [600, 200]}),
            (["t"], "linalg.svdvals", ["a"]),
        )


@pytest.mark.parametrize("op", ["unique", "flatnonzero", "nonzero", "roots"])
def test_a_step_whose_shape_depends_on_values_is_refused(op: str) -> None:
    with pytest.raises(UsageError, match=f"the result of {op} depends on values"):
        made_by((["a"], op, ["x"]))


def test_a_step_reads_few_values_and_is_made_of_few_ops() -> None:
    with pytest.raises(RegistrationError, match="reads 65 values, and a rule that is"):
        made_by((["a"], "stack", [["x"] * 65]))
    with pytest.raises(UsageError, match="diff makes a of more than 10,000 ops"):
        made_by((["a"], "diff", ["x"], {"n": 10**6}))


def test_what_was_recorded_runs_again_for_other_values() -> None:
    rule = wb.graph_rule(
        ["x", "g"], ["s"], [(["o"], "outer", ["x", "g"]), (["s"], "sum", ["o"])]
    )
    for x in (X, 2 * X, np.ones(5), np.ones(5, np.float32)):
        (made,) = rule.run([x, x])
        assert made == pytest.approx(np.sum(x) ** 2)
        assert made.dtype == x.dtype
    assert len(rule.steps[0].weighed.known) == 3  # by shape and dtype


def test_zeros_of_two_signs_are_two_numbers() -> None:
    nodes = [(["s"], "copysign", ["g", "x1"])]
    rule = wb.override("copysign", wb.graph_rule(["x0", "x1", "g"], ["s", None], nodes))
    of_plus = wb.grad(lambda x: np.sum(np.copysign(x, 0.0)), overrides=[rule])
    of_minus = wb.grad(lambda x: np.sum(np.copysign(x, -0.0)), overrides=[rule])
    np.testing.assert_array_equal(of_plus(X), np.ones_like(X))
    np.testing.assert_array_equal(of_minus(X), -np.ones_like(X))


def test_what_a_program_has_large_its_rules_may_have_large() -> None:
    """A product of matrices costs n**3, a metric of them n**2 for each."""
    x = np.ones((400, 400))
    nodes = [(["a"], "matmul", ["x", "g"]), (["q"], "linalg.solve", ["a", "g"])]
    nodes[0] = (["a"], "add", ["x", "g"])
    nodes.insert(1, (["i"], "multiply", ["a", 1.0]))
    np.testing.assert_allclose(made_by(*nodes[:2], given=x), 2 * x)
    assert Budget([x]).refusal(Demand(64 * x.size, 30 * 400**3)) == ""
    assert Budget([x]).refusal(Demand(MOST_FREE + 65 * x.size, 0)) != ""


def test_what_is_let_go_of_counts_no_longer() -> None:
    """Twenty steps of 38 MB run one after the other, and not beside one another."""
    long = [(["a0"], "tile", ["g"], {"reps": 1_600_000})]
    chain = [([f"a{i}"], "negative", [f"a{i - 1}"]) for i in range(1, 20)]
    made = made_by(*long, *chain, (["s"], "sum", ["a19"]))
    assert made == pytest.approx(-1_600_000 * np.sum(X))
    apart = [([f"a{i}"], "negative", ["a0"]) for i in range(1, 20)]
    with pytest.raises(UsageError, match=r"negative makes a2 of .* are taken"):
        made_by(*long, *apart, (["s"], "stack", [[f"a{i}" for i in range(20)]]))


def test_rules_of_one_sweep_share_a_budget() -> None:
    nodes = [(["a"], "tile", ["x"], {"reps": 1_400_000}), (["s"], "sum", ["a"])]
    rule = wb.graph_rule(["x", "g"], ["s"], nodes)
    with budget_for([X]) as shared:
        for _ in range(3):
            rule.run([X, X])
        assert shared.used_bytes < 100
        # What is recorded stays in the program.
        leaves = [wb.Spec((3,), np.float64)] * 2
        for _ in range(2):
            rule.graph(*leaves)
        with pytest.raises(UsageError, match=r"of which 67\.2 MB are taken"):
            rule.graph(*leaves)


# Where rules of strangers come in


def test_a_file_that_asks_for_gigabytes_changes_nothing(tmp_path: Path) -> None:
    nodes = [
        {"outputs": ["a"], "op": "tile", "inputs": ["g"], "params": {"reps": 6000}},
        {"outputs": ["t"], "op": "kron", "inputs": ["a", "a"]},
        {"outputs": ["r"], "op": "sum", "inputs": ["t"]},
        {"outputs": ["q"], "op": "multiply", "inputs": ["r", "x"]},
    ]
    rule = {"workbench_rule": 1, "inputs": ["x", "g"], "returns": ["q"], "nodes": nodes}
    one = {"target": {"kind": "op", "op": "tanh"}, "vjp": rule, "jvp": None}
    data = {"workbench_overrides": 1, "session": "ad", "overrides": [one]}
    file = tmp_path / "evil.json"
    file.write_text(json.dumps(data))
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(X))
    before = session.grads["x"]
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="kron makes t of 324,000,000 entries"):
            session.load(file)
        (told,) = session.load(file, strict=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "kron makes t of" in told
    assert peak < 20e6
    assert session.overrides == []
    assert session.history.done == []
    np.testing.assert_array_equal(session.grads["x"], before)


@pytest.mark.parametrize(
    "text",
    ["x * g", "where(x > 0, x, g)", "clip(g, x, 1)", "arctan2(g, x)", "g - x > 0",
     "d * sum(x, axis=1)", "max(x, axis=1) + x"],
)  # fmt: skip
def test_an_expression_does_not_broadcast_without_end(text: str) -> None:
    """A vector beside a column makes a matrix: here one of 3.2 GB."""
    column = np.ones((20_000, 1))
    program = wb.trace(lambda x: np.sum(np.reshape(x, (20_000,))))(column)
    session = wb.Session(program)
    with pytest.raises(OverrideError, match=r"makes 400,000,000 entries \(3\.2 GB\)"):
        session.override("reshape", text)
    with pytest.raises(OverrideError, match=r"makes 400,000,000 entries \(3\.2 GB\)"):
        session.check_rule("reshape", text)
    assert session.overrides == []
    # In the forms that fit they run.
    session.override("reshape", "d * sum(x, axis=1, keepdims=True)")


@pytest.mark.parametrize("name", ["fisher", "kfac"])
def test_a_metric_by_its_name_is_not_larger_than_its_program(name: str) -> None:
    given = (np.ones((1, 50_000)), np.ones(50_000))
    if name == "fisher":
        given = (np.ones((160, 160)), np.ones((160, 24_000)))
    session = wb.Session(wb.trace(lambda W, x: np.sum(W @ x))(*given), wrt=["W"])
    with pytest.raises(OverrideError, match=rf"{name}: at matmul the metric has"):
        session.override("matmul", name)
