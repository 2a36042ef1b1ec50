"""Programs that fill arrays: NumPy's value, and the derivative of differences."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.core.filling import (
    NAMES,
    PROGRAMS,
    V6,
    W,
    draw_program,
    function_of,
    with_names,
)
from workbench.core import traces
from workbench.core.memory import Memory, Version
from workbench.core.tensor import CHANGED, Tensor
from workbench.core.walk import order_nodes
from workbench.errors import DtypeError, GradientLostError, TraceError


def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The sum of what a function gives, each entry with a weight of its own."""

    def value(x: Any) -> Any:
        y = f(x)
        w = W[: int(np.prod(np.shape(y), dtype=int))].reshape(np.shape(y))
        return (y * w).sum() if np.shape(y) else y * W[0]

    return value


def differences(f: Callable[[Any], Any], x: Any, h: float) -> Any:
    """The gradient by central differences of the eighth order."""
    made = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        for k, c in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), 1):
            up, down = x.copy(), x.copy()
            up[i] += k * h
            down[i] -= k * h
            made[i] += c * (f(up) - f(down)) / h
    return made


def assert_close(found: Any, expected: Any, rtol: float) -> None:
    size = 1 + np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * size)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_fills_arrays(name: str) -> None:
    f, x, smooth = PROGRAMS[name]
    traced = with_names(f)
    graph = wb.trace(traced)(x.copy())
    value = graph.outputs[0]
    assert_close(getattr(value, "value", value), f(x.copy()), 1e-13)
    for node in order_nodes([y for y in graph.outputs if isinstance(y, Tensor)]):
        assert type(node) not in CHANGED
        assert CHANGED.isdisjoint(map(type, node.inputs))
        assert node.value is not None

    loss, before = total(traced), x.copy()
    truth = differences(total(f), x, 1e-3 if smooth else 1e-4)
    assert_close(wb.grad(loss)(x), truth, 1e-6)
    np.testing.assert_array_equal(x, before)
    v = np.cos(np.arange(x.size)).reshape(x.shape)
    assert_close(wb.jvp(loss, (x,), (v,))[1], np.sum(truth * v), 1e-6)
    if smooth:
        h, gradient = 1e-5, wb.grad(loss)
        far = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
        assert_close(wb.hvp(loss, x, v), far, 1e-5)


def slopes(f: Callable[[Any], Any], x: Any, v: Any) -> tuple[float, float]:
    """The derivative in a direction, by differences of two widths.

    The function may write to what it is given.
    """
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}

    def slope(h: float) -> float:
        ends = [f(x + k * h * v) - f(x - k * h * v) for k in weights]
        return float(np.dot([*weights.values()], ends) / h)

    return slope(1e-5), slope(2e-5)


def check_random(count: int, rng: np.random.Generator) -> None:
    batched = 0
    for _ in range(count):
        text = draw_program(random.Random(int(rng.integers(2**32))))
        plain, f = function_of(text, np), function_of(text, NAMES)
        x = rng.normal(size=(4, 6))
        try:
            truth = plain(x.copy())
        except IndexError:  # no array to NumPy, or too short
            with pytest.raises((IndexError, TypeError, TraceError)):
                wb.grad(f)(x)
            continue
        value, gradient = wb.value_and_grad(f)(x)
        np.testing.assert_allclose(value, truth, rtol=1e-10, err_msg=text)
        size = 1 + np.abs(gradient).max()
        for v in rng.normal(size=(3, *x.shape)):
            slope, again = slopes(plain, x, v)
            if abs(slope - again) <= 1e-6 * size:  # no mask changes on the way
                assert abs(np.sum(gradient * v) - slope) <= 1e-5 * size, text
        moved = wb.jvp(f, (x,), (np.ones_like(x),))[1]
        assert abs(moved - np.sum(gradient)) <= 1e-9 * size * x.size, text
        xs = np.stack([x, -x])
        try:
            found = wb.vmap(f)(xs)
        except TraceError:
            continue
        expected = [plain(x.copy()) for x in xs]
        np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=text)
        if batched % 4 == 0:
            slope = wb.vmap(wb.grad(f))(xs)[0]
            np.testing.assert_allclose(slope, gradient, atol=1e-9 * size, err_msg=text)
        batched += 1
    assert batched > count / 2  # the others write to what they are given


def test_random_programs_of_aliases(rng: np.random.Generator) -> None:
    check_random(300, rng)


def test_second_derivatives_of_random_programs(rng: np.random.Generator) -> None:
    """Three ways to them, against differences of the gradient."""
    tried = 0
    while tried < 30:
        text = draw_program(random.Random(int(rng.integers(2**32))))
        x, v = rng.normal(size=(2, 4, 6))
        try:
            function_of(text, np)(x.copy())
        except IndexError:
            continue
        if " > " in text:  # a mask may change between two points
            continue
        f = function_of(text, NAMES)
        gradient, h = wb.grad(f), 1e-5
        far = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
        moved = wb.grad(lambda x, f=f, v=v: wb.jvp(f, (x,), (v,))[1])
        along = wb.grad(lambda x, g=gradient, v=v: wnp.sum(g(x) * v))
        for found in (wb.hvp(f, x, v), moved(x), along(x)):
            size = 1 + np.abs(far).max()
            np.testing.assert_allclose(found, far, atol=1e-4 * size, err_msg=text)
        tried += 1


@pytest.mark.long
@pytest.mark.parametrize("part", range(6))
def test_many_random_programs_of_aliases(part: int, rng: np.random.Generator) -> None:
    check_random(500, rng)


# Masks without values: how many entries they take is not known

AT_MASKS = {
    "twice those": "y[y > 0.3] *= 2",
    "a function of those": "m = x > 0.3; y[m] = np.sqrt(y[m]) * x[0] + x[m]",
    "those of rows": "v = y.reshape(3, 2); m = v[:, 0] > 0.3; v[m] /= 1 + x[:2] ** 2",
    "those of columns": "v = y.reshape(3, 2).T; m = v[0] > 0.3; v[:, m] *= v[:, m]",
    "a number in columns": "v = y.reshape(3, 2).T; v[:, v[0] > 0.3] = x[1]",
    "through a view": "v = y[1:]; v[v < 0.3] = -v[v < 0.3]",
    "a mask made twice": "y[x > 0] += x[1] - 2 * y[x > 0]",
    "not those": "y[~(y > 0.3)] = -y[~(y > 0.3)]",
    "after a write": "m = y > 0.3; y[0] = 5; y[m] *= x[2]",
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", AT_MASKS)
def test_entries_at_a_mask_without_values(name: str) -> None:
    text = writing(AT_MASKS[name])
    plain, f = function_of(text, np), function_of(text, NAMES)
    xs = np.linspace(-1, 2, 12).reshape(2, 6) + 0.03
    truth = [plain(x.copy()) for x in xs]
    np.testing.assert_allclose(wb.vmap(f)(xs), truth, rtol=1e-14)
    graph = wb.trace(f)(wb.Spec((6,), np.dtype(float)))
    np.testing.assert_allclose(graph.run([xs[1]])[0], truth[1], rtol=1e-14)
    expected = [differences(total(plain), x, 1e-4) for x in xs]
    assert_close(wb.vmap(wb.grad(total(f)))(xs), expected, 1e-7)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: wnp.sum(x[x > 0]),
        lambda x: x[x > 0],
        lambda x: (x, x[x > 0]),
        lambda x: x[x > 0].mean(),
        lambda x: x * x[x > 0],
        lambda x: x[x > 0] @ x[x > 0],
        lambda x: np.add.reduce(x[x > 0]),
        lambda x: len(x[x > 0]),
        lambda x: np.concatenate([x[x > 0], x]),
        lambda x: np.stack([x[x > 0], x[x > 0]]),
        lambda x: [v * 2 for v in x[x > 0]],
        lambda x: store_at(x * 1.0, x > 0, (x * 1.0)[x > 0.5]),
        lambda x: store_at(x * 1.0, x > 0, (x[1:])[x[1:] > 0]),
        lambda x: store_at(x * 1.0, x > 0, x[:3]),
        lambda x: store_at(x * 1.0, x > 0, x[x > 0] * x),
        lambda x: store_at(x * 1.0, [0, 1], x[x > 0]),
    ],
)
def test_how_many_entries_a_mask_takes_is_not_known(f: Callable[[Any], Any]) -> None:
    told = r"boolean index \(at .*x > 0.*np\.where\(mask"
    with pytest.raises(TraceError, match=told):
        wb.vmap(f)(XS[None])


def store_at(y: Any, index: Any, values: Any) -> Any:
    y[index] = values  # of x > 0
    return y


# Everything of NumPy that writes

#: The statement, and where it may write: ``y`` is six numbers made from ``x``.
WRITES = {
    "an entry": "y[1] = x[0] * x[2]",
    "a slice": "y[1:4] = x[:3] * x[0]",
    "a slice of a slice": "y[::-1][1:4] += x[:3]",
    "an index of arrays": "y[[1, 1, 2]] = x[:3]",
    "an index of arrays, added": "y[[1, 1, 2]] += x[0]",
    "a mask": "y[y > 1.3] *= x[0]",
    "a mask, by a number": "y[x > 0.7] = 0",
    "all": "y[...] = x * x",
    "a new axis": "v = y[None, 1:]; v *= x[0]; v[0, 0] = 3",
    "a swap": "y[0], y[1] = y[1], y[0]",
    "flat": "y.reshape(2, 3).T.flat[1:3] = x[0] * x[1]; y.flat[2] = x[3]",
    "all of flat": "y.flat = x[:3]",
    "a transpose": "y.reshape(2, 3).T[0] = x[:2] * x[2]",
    "a line": "y.reshape(2, 3).reshape(-1)[1] = x[0]",
    "real": "z = y * (1 + 2j); z.real = x * x; y += np.abs(z)",
    "imag": "z = y * (1 + 2j); z.imag[1] = x[0]; y += np.abs(z)",
    "fill": "y.fill(x[0])",
    "sort": "v = y[1:]; y.sort(); v *= np.arange(5.0)",
    "sort of rows": "y.reshape(2, 3).sort(axis=0)",
    "partition": "y.partition(2); y.sort()",
    "method put": "y.put([0, 2], [x[1] * x[1], 3.0])",
    "put": "np.put(y, [7, -8], [x[0], 2.0], mode='wrap')",
    "place": "np.place(y, x > 0.7, np.stack([x[0] * x[1], x[2]]))",
    "putmask": "np.putmask(y, x > 0.7, x[:2] * x[2:4])",
    "put_along_axis": "np.put_along_axis(y, np.array([4, 1]), x[:2] * 3, 0)",
    "copyto": "z = x * x; np.copyto(y, z); z[0] = 5; y[1] = 7; y += z",
    "copyto where": "np.copyto(y, x * x, where=x > 0.7)",
    "fill_diagonal": "np.fill_diagonal(y.reshape(2, 3), x[0])",
    "nan_to_num": "y[0] = np.nan; np.nan_to_num(y, copy=False)",
    "resize": "y.resize(8); y[7] = x[0]",
    "add.at": "np.add.at(y, [0, 0, 1], x[:3])",
    "subtract.at": "np.subtract.at(y, [0, 0, 1], x[:3])",
    "multiply.at": "np.multiply.at(y, [0, 0, 1], x[:3])",
    "divide.at": "np.divide.at(y, [0, 0, 1], x[:3])",
    "maximum.at": "np.maximum.at(y, [0, 0, 1], x[:3] * 3)",
    "negative.at": "np.negative.at(y, [0, 0, 1])",
    "power.at": "np.power.at(y, [2, 2, 3], [2.0, 2.0, 3.0])",
    "out": "np.multiply(x, x, out=y); np.exp(y * 0.1, out=y)",
    "out of a view": "np.multiply(x[:2], x[2:4], out=y[::3])",
    "out where": "np.sqrt(x, out=y, where=x > 0.7)",
    "out of two": "z = x * 1.0; np.modf(x * 1.9, out=(y, z)); y *= z",
    "sum": "np.sum(x.reshape(2, 3), axis=1, out=y[:2])",
    "sum, by place": "np.sum(x.reshape(2, 3), 1, None, y[:2])",
    "mean": "np.mean(x.reshape(2, 3), axis=0, out=y[:3])",
    "cumsum": "np.cumsum(y, out=y)",
    "reduce": "np.add.reduce(x.reshape(2, 3), axis=1, out=y[:2])",
    "accumulate": "np.multiply.accumulate(x, out=y)",
    "dot": "np.dot(x.reshape(2, 3), x[:3], y[:2])",
    "matmul": "np.matmul(x.reshape(2, 3), x[:3], out=y[:2])",
    "concatenate": "np.concatenate([x[:2], x[:4] * x[0]], out=y)",
    "stack": "np.stack([x[:3], x[3:]], out=y.reshape(2, 3))",
    "clip": "y.clip(0.9, x[3], out=y)",
    "take": "np.take(x, [1, 1, 2], out=y[3:])",
    "round": "np.round(x, 1, y)",
    "einsum": "np.einsum('ij,j->i', x.reshape(2, 3), x[:3], out=y[4:])",
    "what broadcasting gives": "a, b = np.broadcast_arrays(y, x); y[1] = 5; y += a * b",
    "what atleast_1d gives": """
        z, w = np.atleast_1d(y, x[0])
        y[0] = 3
        z[1] = 4
        y *= z
        """,
    "no copy of asarray": "z = np.asarray(y); z[0] = x[1]",
    "no copy of astype": "z = y.astype(float, copy=False); z[0] = x[1]",
    "a copy": "z = y.copy(); z[0] = x[1]; y *= z",
    "a copy of another order": """
        z = y.reshape(2, 3).T.copy()
        v = z.reshape(-1)
        v *= 3
        y = z.ravel() * x
        """,
    "another order, added to": """
        z = y.reshape(2, 3).T * 1.0
        z += x.reshape(3, 2)
        v = z.reshape(-1)
        v *= 3
        y = z.ravel() * x
        """,
    "zeros by columns": """
        z = np.zeros((2, 3), order='F')
        z[0] = x[:3]
        v = z.reshape(-1)
        v *= 2
        y = z.ravel()
        """,
    "zeros, all by place": """
        z = np.zeros((2, 3), float, 'F')
        z[0] = x[:3]
        v = z.T.reshape(-1)
        v *= 2
        y = z.ravel()
        """,
    "full by columns": """
        z = np.full((2, 3), x[0], order='F')
        v = z.T.reshape(-1)
        v *= x
        y = z.ravel()
        """,
    "full_like of a shape": """
        z = np.full_like(x, 2, shape=(2, 3))
        z[0] = x[:3]
        y += z[0, 1]
        """,
    "empty_like of a shape": """
        z = np.empty_like(x, shape=(2, 3))
        z[:] = 2
        y *= z[1, 1]
        """,
    "an array of two axes": "z = np.array(x, ndmin=2); z[0, 1] = x[2]; y *= z[0]",
    "eye by columns": "z = np.eye(3, order='F'); z[1] = x[:3]; y[:3] = z @ x[3:]",
    "identity": "z = np.identity(3); z[1] = x[:3]; y[:3] = z @ x[:3]",
    "tri": "z = np.tri(3); z[1] = x[:3]; y[:3] = z @ x[:3]",
    "logspace": "z = np.logspace(0, 1, 6); z[1] = x[0] * x[1]; y *= z",
    "shuffle": "np.random.default_rng(3).shuffle(y); y[0] = 2",
    "no axes": "z = np.array(0.0); z += x[0]; w = z; w += x[1]; y *= z",
    "an error, then on": """
        try:
            y[:2] = x
        except ValueError:
            y[0] = x[1] ** 2
        """,
}
XS = np.array([0.6, 1.5, 2.5, 1.27, 0.8, 3.1])


def writing(statement: str) -> str:
    lines = statement.strip().split("\n")
    if len(lines) > 1:
        lines = [lines[0].strip(), *(s.removeprefix(" " * 8) for s in lines[1:])]
    body = "\n".join(f"    {s}" for s in ["y = x * 2.0", *lines, "return y * y + y"])
    return f"def f(x):\n{body}"


@pytest.mark.filterwarnings("ignore:.*out has")
@pytest.mark.filterwarnings("ignore:.*shuffling")
@pytest.mark.parametrize("name", WRITES)
def test_what_writes(name: str) -> None:
    text = writing(WRITES[name])
    plain, f = function_of(text, np), function_of(text, NAMES)
    truth = plain(XS.copy())
    value, _ = wb.vjp(f, XS)
    np.testing.assert_allclose(value, truth, rtol=1e-14)
    expected = differences(total(plain), XS, 1e-4)
    assert_close(wb.grad(total(f))(XS), expected, 1e-7)
    moved = wb.jvp(total(f), (XS,), (np.ones(6),))[1]
    assert_close(moved, np.sum(expected), 1e-7)
    try:
        found = wb.vmap(f)(np.stack([XS, XS[::-1]]))
    except TraceError:
        return
    np.testing.assert_allclose(found, [truth, plain(XS[::-1].copy())], rtol=1e-14)


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("y = np.zeros(6, int); y[0] = x[0]", DtypeError, "rounded and their gradient"),
        ("y[9] = 1", IndexError, "index 9 is out of bounds"),
        ("y[:2] = x", ValueError, "could not broadcast"),
        ("v = np.broadcast_to(y, (2, 6)); v[0, 0] = 1", TraceError, "anybody write"),
        ("v = np.diagonal(np.outer(x, x)); v[0] = 1", TraceError, "anybody write"),
        ("np.copyto(plain, x)", GradientLostError, "np.copyto writes"),
        ("np.sin(x, out=plain)", TraceError, "out is a plain array"),
        ("v = y[1:]; y.resize(8)", ValueError, "shares its memory"),
        ("np.sum(x.reshape(2, 3), axis=1, out=y)", ValueError, "shape"),
    ],
)
def test_what_is_refused(statement: str, kind: Any, message: str) -> None:
    f = function_of("plain = np.zeros(6)\n" + writing(statement), NAMES)
    if "plain" in statement:
        f.__globals__["plain"] = np.zeros(6)
    with pytest.raises(kind, match=message):
        wb.grad(total(f))(XS)


def test_a_write_that_fails_leaves_all_as_it_was() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        v = y[1:]
        for bad in (lambda: y.__setitem__(9, 1.0), lambda: v.__setitem__(0, x)):
            with pytest.raises((IndexError, ValueError)):
                bad()
        v[0] = x[0]
        return y * v[0]

    np.testing.assert_allclose(wb.jacobian(f)(XS), differences_of_all(f, XS), atol=1e-6)


def differences_of_all(f: Callable[[Any], Any], x: Any) -> Any:
    h = 1e-6
    steps = h * np.eye(x.size)
    return np.stack([(f(x + e) - f(x - e)) / (2 * h) for e in steps], axis=-1)


# Rules of users


def test_a_rule_reads_an_array_as_it_is_now() -> None:
    def make(np: Any, custom: Any) -> Any:
        def f(x: Any) -> Any:
            kept = np.zeros(6)

            def cube(z: Any) -> Any:
                kept[:] = z

                def pull(g: Any) -> Any:
                    slope = np.zeros(6)
                    slope[:] = 3 * kept * kept
                    return slope * g

                return z * z * z, pull

            return np.sum(custom(cube)(x) * x)

        return f

    f = make(wnp, wb.custom_gradient)
    np.testing.assert_allclose(wb.grad(f)(XS), 4 * XS**3, rtol=1e-14)


# What is left


def program_of_writes(x: Any) -> Any:
    y = wnp.zeros(2000)
    for i in range(1, 50):
        y[i] = y[i - 1] * 0.5 + x[i] * x[i]
    y[10:20] *= 2
    v = y[100:]
    v += 1
    return wnp.sum(y * y)


@pytest.mark.parametrize(
    "transform",
    [
        wb.grad(program_of_writes),
        lambda x: wb.jvp(program_of_writes, (x,), (x,)),
        lambda x: wb.hvp(program_of_writes, x, x),
        lambda x: wb.trace(program_of_writes)(x),
        lambda x: wb.vmap(program_of_writes)(x[None]),
    ],
)
def test_nothing_is_left_for_the_collector(transform: Callable[[Any], Any]) -> None:
    x = np.linspace(0, 1, 2000)
    transform(x)  # what is loaded at first
    gc.collect()
    gc.disable()
    try:
        transform(x)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_large_arrays_die_with_the_trace() -> None:
    alive: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2.0
        for k in range(5):
            y[k] = x[k]
            y += 1.0
            alive.append(weakref.ref(y._value))
        return np.sum(y * y)

    gc.disable()
    try:
        wb.grad(f)(np.ones(300_000))
        assert all(r() is None for r in alive)
    finally:
        gc.enable()


def test_the_collector_is_set_as_before() -> None:
    """While arrays are filled it looks more seldom, whatever ends that."""
    before = gc.get_threshold()
    seen: list[Any] = []

    def f(x: Any, then: Any) -> Any:
        y = wnp.zeros(3)
        y[0] = x[0]
        seen.append(gc.get_threshold()[0])
        wb.grad(lambda z: z * y[0])(x[1])
        seen.append(gc.get_threshold()[0])
        then()
        return wnp.sum(y)

    wb.grad(lambda x: f(x, int))(XS)
    assert gc.get_threshold() == before
    assert min(seen) > before[0]
    with pytest.raises(ZeroDivisionError):
        wb.grad(lambda x: f(x, lambda: 1 // 0))(XS)
    assert gc.get_threshold() == before
    try:
        wb.grad(lambda x: f(x, lambda: gc.set_threshold(900, 11, 12)))(XS)
        assert gc.get_threshold() == (900, 11, 12)
    finally:
        gc.set_threshold(*before)


def test_n_stores_copy_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward, backward and forward mode copy a whole array a few times, not n."""
    copied = 0
    copy = np.copy

    def count(x: Any, *args: Any, **settings: Any) -> Any:
        nonlocal copied
        copied += 1
        return copy(x, *args, **settings)

    def f(x: Any) -> Any:
        y = wnp.zeros(400)
        for i in range(1, 400):
            y[i] = 0.5 * y[i - 1] + x[i] * x[i]
        return wnp.sum(y)

    def versions(x: Any) -> Any:
        graph = wb.trace(f)(x)
        nodes = [n for n in order_nodes(graph.outputs) if type(n) is Version]
        assert len(nodes) == 399
        held = [n for n in nodes if vars(Tensor)["_value"].__get__(n) is not None]
        assert len(held) <= 1

    x = np.linspace(0, 1, 400)
    versions(x)
    second = wb.trace(lambda x: wb.jvp(wb.grad(f), (x,), (x,)))(x)
    value_of = vars(Tensor)["_value"].__get__
    whole = [n for n in order_nodes(second.outputs) if np.shape(value_of(n)) == (400,)]
    assert len(whole) < 30
    monkeypatch.setattr(np, "copy", count)
    wb.grad(f)(x)
    wb.jvp(f, (x,), (x,))
    assert copied < 10


def test_an_array_that_outlives_its_trace() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = wnp.zeros(3)
        y[0] = x[0]
        kept.append(y)
        return wnp.sum(y)

    wb.grad(f)(XS)
    (y,) = kept
    np.testing.assert_array_equal(y.value, [0.6, 0, 0])
    y[1] = 5.0
    y += 1.0
    np.testing.assert_array_equal(y.value, [1.6, 6, 1])

    def g(x: Any) -> Any:
        y[2] = x[0] * x[0]
        return wnp.sum(y * y)

    np.testing.assert_allclose(wb.grad(g)(XS)[0], 4 * 0.6**3)


@pytest.mark.parametrize(("op", "rule"), [("index_set", "y"), ("getitem", "x")])
def test_a_rule_of_an_override_reads_the_values_of_a_version(
    op: str, rule: str
) -> None:
    def fill(x: Any) -> Any:
        a = NAMES.zeros(2)
        a[0] = x[0]
        a[1] = x[1]
        return NAMES.sum(NAMES.square(a[0:2]))

    def without_stores(x: Any) -> Any:
        a = wb.at(wb.at(NAMES.zeros(2))[0].set(x[0]))[1].set(x[1])
        return NAMES.sum(NAMES.square(a[0:2]))

    x = np.array([1.0, 2.0])
    for derive in (wb.grad, wb.jacobian):
        filled, truth = (
            derive(f, overrides=[wb.override(op, f"d * (2 + {rule})")])(x)
            for f in (fill, without_stores)
        )
        np.testing.assert_array_equal(filled, truth)


@pytest.mark.parametrize("shape", [(1, 2), (2, 5), (5, 2), (3, 1, 2)])
@pytest.mark.parametrize(
    "key",
    [(..., slice(None, 2)), (..., slice(None, None, -1)), (slice(0, 1), ...),
     (..., slice(0, 1), slice(None)), (slice(None),), (...,), (slice(0, 5), ...)],
    ids=str,
)  # fmt: skip
def test_a_key_with_an_ellipsis_writes_where_numpy_does(
    shape: tuple[int, ...], key: Any
) -> None:
    def f(x: Any) -> Any:
        a = NAMES.zeros(shape)
        a[...] = x[0]
        a[key] = x[1] * NAMES.arange(float(a[key].shape[-1]))
        a[key] *= x[2]
        return NAMES.sum(a * NAMES.arange(float(a.size)).reshape(shape))

    def g(x: Any) -> Any:
        return f(x) ** 2

    value, slope = wb.value_and_grad(g)(V6[:3])
    np.testing.assert_allclose(value, g(V6[:3]), rtol=1e-12)
    truth = differences(g, V6[:3], 1e-2)
    np.testing.assert_allclose(slope, truth, rtol=1e-8, atol=1e-8)
    slopes = wb.grad(g)
    truth = [differences(lambda x, i=i: slopes(x)[i], V6[:3], 1e-2) for i in range(3)]
    np.testing.assert_allclose(wb.hessian(g)(V6[:3]), truth, rtol=1e-8, atol=1e-8)


def test_hessians_through_a_reversed_row() -> None:
    def f(x: Any) -> Any:
        a = NAMES.zeros((1, 2))
        a[0, 0], a[0, 1] = x[0], x[1]
        return NAMES.sum(a[..., ::-1] ** 3)

    x = np.array([0.7, 1.9])
    np.testing.assert_allclose(wb.hessian(f)(x), np.diag(6 * x), rtol=1e-12)


def test_programs_within_a_program_leave_nothing_behind() -> None:
    alive: list[int] = []

    def inner(y: Any) -> Any:
        a = NAMES.zeros(3)
        for i in range(3):
            a[i] = y[i] ** 2
        v = a[1:]
        v *= 2.0
        a += 1.0
        return NAMES.sum(a)

    def outer(x: Any) -> Any:
        total = 0.0
        for k in range(600):
            total += wb.grad(inner)(np.ones(3))[k % 3]
        alive.append(len(traces.LOCAL.stack[-1].changes))
        gc.collect()
        kinds = [vars(object)["__class__"].__get__(x) for x in gc.get_objects()]
        alive.append(kinds.count(Memory))
        return NAMES.sum(x) * total

    np.testing.assert_allclose(wb.grad(outer)(XS), 600 / 3 * (2 + 4 + 4))
    assert max(alive) < 100  # of 600


@pytest.mark.parametrize("escape", ["aux", "nonlocal", "view", "added"])
def test_an_array_of_an_inner_program_is_written_in_the_outer_one(escape: str) -> None:
    def outer(x: Any) -> Any:
        kept: list[Any] = []

        def inner(y: Any) -> Any:
            a = NAMES.zeros(3)
            a[0] = y * x[0]
            a[1] = x[1]
            if escape == "added":
                a += 1.0
            kept.append(a[::-1] if escape == "view" else a)
            return y**2 * a[0], a

        for _ in range(100):  # so many that what nobody shows is dropped
            slope, aux = wb.grad(inner, has_aux=True)(2.0)
        b = aux if escape in ("aux", "added") else kept[0]
        b[0] = x[2] * 3.0
        b *= x[0]
        kept[0][2] += x[1]
        return NAMES.sum(b * b) + slope + NAMES.sum(kept[0] ** 2) + NAMES.sum(aux)

    def plainly(x: Any) -> Any:
        more = 1.0 if escape == "added" else 0.0
        first = [np.array([2 * x[0], x[1], 0]) + more for _ in range(2)]
        last = first[0]
        slope = 3 * 4 * x[0] + 4.0 * more
        kept = first[1][::-1] if escape == "view" else first[1]
        b = last if escape in ("aux", "added") else kept
        b[0] = x[2] * 3.0
        b *= x[0]
        kept[2] += x[1]
        return np.sum(b * b) + slope + np.sum(kept**2) + np.sum(last)

    value, slope = wb.value_and_grad(outer)(XS)
    np.testing.assert_allclose(value, plainly(XS))
    np.testing.assert_allclose(slope, differences(plainly, XS, 1e-3), rtol=1e-8)


def test_what_random_programs_found() -> None:
    def f(x: Any) -> Any:
        a = NAMES.concatenate([x[:2], np.ones(2), x[2:]])
        a[::2] -= x[1]
        column = a.reshape((6, 1))
        column[..., 0:] = +NAMES.sin(a)[:, None]  # adds an axis to all entries
        b = NAMES.sin(x) * 1.0
        part = b[::2]
        b.fill(0.5)  # a plain number over all, without values
        part *= x[0]
        NAMES.clip(a, -0.4, 0.9, out=a)
        c = NAMES.zeros(3)
        c[:0] += x[0] * c[:0]  # a view without entries
        c[1] = b[0] * a[-1]
        return NAMES.sum(a * a) + NAMES.sum(b) + NAMES.sum(c * c)

    x = np.array([0.3, 0.7, -0.2, 0.45])
    np.testing.assert_allclose(wb.grad(f)(x), differences(f, x, 1e-4), atol=1e-9)
    slopes = wb.grad(f)
    truth = [differences(lambda x, i=i: slopes(x)[i], x, 1e-4) for i in range(4)]
    np.testing.assert_allclose(wb.hessian(f)(x), truth, atol=1e-7)
    np.testing.assert_allclose(wb.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])


def test_a_view_without_entries_is_written_to() -> None:
    def f(x: Any) -> Any:
        a = np.zeros((3, 2))
        empty = a[3:, :1]
        a[:0] += x[0]
        np.add(x[:1], x[1], out=empty)
        a[0, 0] = x[0] ** 2
        empty *= x[2]
        np.copyto(empty, x[0])
        assert empty.shape == (0, 1)
        return np.sum(a) + np.sum(empty)

    np.testing.assert_allclose(wb.grad(f)(XS), [2 * XS[0], 0, 0, 0, 0, 0])


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_places_are_stored_in_an_array_of_integers_without_values(dtype: str) -> None:
    def program(x: Any) -> Any:
        places = np.zeros(4, dtype)
        places[:] = np.argsort(x) if dtype != "bool" else x > 0
        places[0] = 1
        return np.where(places > 0, x**2, x) + np.sum(places)

    xs = np.array([[0.3, -1.2, 2.0, 0.7], [1.0, 3.0, -2.0, 0.0]])
    values, slopes = [program(x) for x in xs], [wb.jacobian(program)(x) for x in xs]
    np.testing.assert_array_equal([wb.compile(program)(x) for x in xs], values)
    np.testing.assert_array_equal(wb.vmap(program)(xs), values)
    np.testing.assert_array_equal(wb.vmap(wb.jacobian(program))(xs), slopes)
    found = wb.jacobian(program, sparse=True)
    np.testing.assert_array_equal([found(x).toarray() for x in xs], slopes)


@pytest.mark.parametrize("other", [np.array([1, 2]), np.array([0.5, -2.0])])
def test_a_function_of_numpys_reads_an_array_that_was_made_near(other: Any) -> None:
    """NumPy asks the class of the array without Tensors first, unless told."""

    def write(x: Any) -> Any:
        made = np.concatenate([other, other[:1]])
        filled = np.zeros_like(x)
        filled[0], filled[1:] = x[0], x[1:] * x[1:]
        return np.outer(made, filled) + np.outer(filled, made)

    def loop(x: Any) -> Any:
        return wb.scan(lambda row, h: write(x) @ row + h, [rows], [x], last=True)

    def at(x: Any) -> Any:
        made, filled = np.concatenate([other, other[:1]]), np.append(x[:1], x[1:] ** 2)
        return x + (np.outer(made, filled) + np.outer(filled, made)) @ rows.sum(0)

    rows, x = np.array([[0.3, 0.1, -0.2], [0.2, 0.5, 0.4]]), np.array([0.7, 0.4, 1.1])
    truth = [np.sum(at(x + 1e-30j * e)).imag / 1e-30 for e in np.eye(3)]
    slopes = wb.grad(lambda x: np.sum(loop(x)))(x)
    np.testing.assert_allclose(slopes, truth, rtol=1e-12)
