"""The largest eigenvalues of Hessians, and the output over a plane, against algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import workbench as wb
from workbench.checks.progress import CheckStopped
from workbench.errors import UsageError
from workbench.jupyter import plots
from workbench.session.landscape import Landscape, compute_landscape

RNG = np.random.default_rng(7)
#: Orthonormal columns.
Q = np.linalg.qr(RNG.standard_normal((60, 60)))[0]
CURVES = np.concatenate([[9.0, -7.0, 5.0, 4.0, -3.0], np.linspace(-1, 1, 55)])
A = (Q * CURVES) @ Q.T


def bowl(x: Any) -> Any:
    """A function with Hessian A."""
    return x @ A @ x / 2


def note_of(figure: Any) -> str:
    return str(figure.layout.title.subtitle.text).replace("<br>", " ")


def eigenvalues_of(figure: Any) -> Any:
    shown = [t.customdata for t in figure.data if t.customdata is not None]
    return np.sort(np.concatenate(shown))


# Eigenvalues


def test_the_largest_eigenvalues_are_found_without_the_matrix() -> None:
    session = wb.Session(wb.trace(bowl)(np.ones(60)))
    figure = wb.plots.spectrum(session, count=5)
    assert_allclose(eigenvalues_of(figure), [-7, -3, 4, 5, 9], rtol=1e-10)
    assert note_of(figure) == (
        "60 × 60; the 5 eigenvalues of largest magnitude: 3 positive, 2 negative,"
        " 0 zero; from -7 to 9, by Lanczos' method"
    )


def test_of_a_hessian_too_large_for_all_the_largest_are_shown() -> None:
    n = 3600
    c = np.arange(1.0, n + 1) ** 2
    session = wb.Session(wb.trace(lambda x: np.sum(c * x**2) / 2)(np.ones(n)))
    figure = wb.plots.spectrum(session)
    assert_allclose(eigenvalues_of(figure), c[-20:], rtol=1e-9)
    assert "the 20 eigenvalues of largest magnitude" in note_of(figure)


@pytest.mark.parametrize("rows", [1, 5, 60])
def test_more_eigenvalues_than_there_are_rows_are_all(rows: int) -> None:
    part = A[:rows, :rows]
    session = wb.Session(wb.trace(lambda x: x @ part @ x / 2)(np.ones(rows)))
    figure = wb.plots.spectrum(session, count=100)
    assert_allclose(eigenvalues_of(figure), np.linalg.eigvalsh(part), atol=1e-12)


def test_with_overrides_they_are_those_of_the_symmetric_part() -> None:
    B = np.linspace(0, 1, 3600).reshape(60, 60)

    program = wb.trace(lambda x: np.sum(np.tanh(A @ x) * (B @ x)))
    session = wb.Session(program(np.full(60, 0.1)))
    session.override("multiply", "d * (1 + x0)")
    found = plots._get_hessian(session, None, True)
    whole = np.asarray(found.compute_all())
    assert np.max(np.abs(whole - whole.T)) > 1e-3
    values = np.linalg.eigvalsh((whole + whole.T) / 2)
    chosen = values[np.argsort(-np.abs(values))[:4]]
    figure = wb.plots.spectrum(session, count=4)
    assert_allclose(eigenvalues_of(figure), np.sort(chosen), rtol=1e-8)
    assert "those of its symmetric part: overrides are in force" in note_of(figure)


def test_eigenvalues_that_cannot_be_found_are_refused() -> None:
    with np.errstate(all="ignore"):
        session = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.zeros(50)))
    with pytest.raises(UsageError, match="entries that are not finite: it has no"):
        wb.plots.spectrum(session, count=3)
    session = wb.Session(wb.trace(bowl)(np.ones(60)))
    for count in (0, -1, 2.5, True):
        with pytest.raises(UsageError, match="give the number of eigenvalues, a"):
            wb.plots.spectrum(session, count=count)  # type: ignore[arg-type]


@pytest.mark.parametrize("f", [np.sum, lambda x: np.sum(np.maximum(x, 0))])
def test_where_nothing_curves_all_eigenvalues_are_zero(f: Any) -> None:
    session = wb.Session(wb.trace(f)(np.ones(40)))
    assert_allclose(eigenvalues_of(wb.plots.spectrum(session, count=3)), np.zeros(3))
    found = compute_landscape(session, points=3)
    assert found.names == ("a random direction", "another one")


def test_the_search_for_eigenvalues_can_be_stopped() -> None:
    session = wb.Session(wb.trace(bowl)(np.ones(60)))
    seen: list[int] = []

    def stop(done: int, total: int) -> bool:
        seen.append(done)
        return done == 7

    with pytest.raises(CheckStopped):
        plots.spectrum_plot(session, progress=stop, count=5)
    assert seen == [*range(8)]
    assert "by Lanczos" in note_of(wb.plots.spectrum(session, count=5))


# The output over a plane


def test_a_landscape_is_the_function_on_the_plane() -> None:
    x = RNG.standard_normal(60)
    session = wb.Session(wb.trace(bowl)(x))
    found = compute_landscape(session, directions=(Q[:, 0], Q[:, 1]), reach=2, points=9)
    assert found.values.shape == (9, 9)
    assert not len(found.steps)
    assert_allclose(found.across, np.linspace(-2, 2, 9))
    for i, j in [(0, 0), (4, 4), (8, 2)]:
        place = x + found.across[j] * Q[:, 0] + found.down[i] * Q[:, 1]
        assert_allclose(found.values[i, j], place @ A @ place / 2, rtol=1e-12)


def test_without_runs_the_plane_is_that_of_the_largest_curvature() -> None:
    session = wb.Session(wb.trace(bowl)(np.zeros(60)))
    found = compute_landscape(session, reach=1, points=3)
    assert found.names == ("curvature 9", "curvature -7")
    assert_allclose(found.values, [[1, -3.5, 1], [4.5, 0, 4.5], [1, -3.5, 1]],
                    atol=1e-9)  # fmt: skip


def train(session: wb.Session, steps: int, rate: float) -> list[Any]:
    places = []
    for _ in range(steps):
        session.run(x=session.values["x"] - rate * session.grads["x"])
        places.append(np.asarray(session.values["x"]))
    return places


def test_the_plane_of_a_training_holds_its_path() -> None:
    """Gradient descent on a bowl of two curved directions stays in their plane."""
    c = np.zeros(10)
    c[[2, 7]] = 3.0, 1.0
    session = wb.Session(wb.trace(lambda x: np.sum(c * x * x))(np.ones(10)))
    places = train(session, 20, 0.1)
    found = compute_landscape(session, points=5)
    assert found.names == ("along the path", "across it")
    assert found.steps == [*range(1, 21)]
    assert_allclose(found.share, 1, rtol=1e-12)
    assert_allclose(found.path[:, 2], [np.sum(c * p * p) for p in places], rtol=1e-12)
    distances = np.hypot(found.path[:, 0], found.path[:, 1])
    assert_allclose(distances, [np.linalg.norm(p - places[-1]) for p in places])
    for k, axis in enumerate((found.across, found.down)):
        assert axis[0] < found.path[:, k].min()
        assert found.path[:, k].max() < axis[-1]
    figure = wb.plots.landscape(session, points=5)
    assert [t.name for t in figure.data[1:]] == ["kept runs", "now"]
    assert note_of(figure).endswith(
        "20 kept runs, 100% of their squared distance in this plane"
    )


def test_several_inputs_move_together() -> None:
    def f(W: Any, b: Any) -> Any:
        return np.sum(W * W) + np.sum(b)

    W, b = np.ones((2, 2)), np.array([1.0, 2.0])
    session = wb.Session(wb.trace(f)(W, b))
    one = {"W": np.array([[1.0, 0.0], [0.0, 0.0]])}
    other = [np.zeros((2, 2)), np.array([0.0, 3.0])]
    found = compute_landscape(session, directions=(one, other), reach=1, points=3)
    assert_allclose(found.values, [[5, 6, 9], [6, 7, 10], [7, 8, 11]])


def test_where_a_program_is_not_defined_the_landscape_has_holes() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.ones(2)))
    figure = wb.plots.landscape(session, directions=np.eye(2), reach=2, points=5)
    assert np.count_nonzero(np.isnan(figure.data[0].customdata)) == 16
    assert "16 of 25 not finite" in note_of(figure)
    assert wb.plots.landscape(session, directions=np.eye(2), reach=0.5).data[0].z.size


def test_a_landscape_of_wide_heights_is_coloured_by_the_logarithm() -> None:
    session = wb.Session(wb.trace(lambda x: np.exp(np.sum(x)))(np.zeros(2)))
    figure = wb.plots.landscape(session, directions=np.eye(2), reach=5, points=3)
    assert note_of(figure).endswith("colours by the logarithm")
    assert_allclose(figure.data[0].z, np.log10(figure.data[0].customdata))


def test_without_a_finite_curvature_the_plane_is_drawn_at_random() -> None:
    with np.errstate(all="ignore"):
        session = wb.Session(wb.trace(lambda x: np.sum(np.sqrt(x)))(np.arange(3.0)))
        found = compute_landscape(session, points=3)
        assert found.names == ("a random direction", "another one")
        with pytest.raises(UsageError, match="not finite"):
            compute_landscape(session, directions="curvature", points=3)


def test_a_name_of_the_output_is_text() -> None:
    x = wb.vector("x", shape=(2,))
    y = np.sum(x**4)
    y.name = "<a href='x'>L</a>%{x}"
    session = wb.Session(wb.Graph([x], [y]))
    session.run(x=np.array([1.0, 2.0]))
    heights, *_, place = wb.plots.landscape(session, points=3).data
    written = "&lt;a href='x'&gt;L&lt;/a&gt;%&#123;x}"
    assert heights.colorbar.title.text == written
    assert f"<br>{written} %{{customdata:.6~g}}" in heights.hovertemplate
    assert place.name == "now"


def test_places_where_a_solver_fails_are_holes() -> None:
    from workbench.scipy.integrate import solve_ivp

    def f(w: Any) -> Any:
        found = solve_ivp(
            lambda t, y: w[0] * y * y + w[1], (0.0, 1.0), np.array([1.0]), rtol=1e-6
        )
        return np.sum(found.y[:, -1])

    session = wb.Session(wb.trace(f)(np.array([0.5, 0.0])))
    found = compute_landscape(session, directions=np.eye(2), reach=1.0, points=3)
    assert np.isfinite(found.values[1, 0])
    assert np.isnan(found.values[1, 2])  # it runs to infinity before t = 1


def test_a_plane_across_the_path_has_room() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x * x))(np.ones(3)))
    for x in (0.9, 0.5, 0.2):
        session.run(x=np.array([x, x, 1.0]))
    across = np.array([[1.0, -1.0, 1e-17], [0.0, 1e-17, 1.0]])
    found = compute_landscape(session, directions=across, points=3)
    assert np.ptp(found.across) > 0.1
    assert np.ptp(found.down) > 0.1


def test_numbers_of_numpy_are_numbers() -> None:
    session = wb.Session(wb.trace(bowl)(np.ones(60)))
    found = compute_landscape(
        session, directions="random", reach=np.float32(0.5), points=np.int64(2)
    )
    assert_allclose(found.across, [-0.5, 0.5])
    assert wb.plots.spectrum(session, count=np.int64(2)).data


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a word": ({"directions": "up"}, "write 'path', 'curvature' or 'random'"),
    "no path": ({"directions": "path"}, "needs three kept runs"),
    "points": ({"points": 1}, "the number of points along a side, 2 to 201"),
    "many points": ({"points": 10**6}, "2 to 201"),
    "reach": ({"reach": -1}, "a number above 0"),
    "shapes": ({"directions": (np.ones(3), np.ones(2))}, r"in the shapes of wrt: x"),
    "parallel": ({"directions": (np.ones(60), np.ones(60))}, "they span no plane"),
    "three": ({"directions": np.eye(60)[:3]}, "two directions of finite numbers"),
    "a name": ({"directions": ({"q": 1}, {"x": np.ones(60)})}, "has no input 'q'"),
    "far away": ({"reach": 1e308}, "a number above 0"),
    "a node": ({"wrt": "matmul 1"}, "matmul 1 is computed from others"),
}


@pytest.mark.parametrize(("given", "words"), BAD.values(), ids=BAD)
def test_a_landscape_that_cannot_be_is_refused(
    given: dict[str, Any], words: str
) -> None:
    session = wb.Session(wb.trace(bowl)(np.ones(60)))
    with pytest.raises(UsageError, match=words):
        wb.plots.landscape(session, **given)


def test_one_entry_and_complex_inputs_have_no_landscape() -> None:
    session = wb.Session(wb.trace(lambda x: x * x)(2.0))
    with pytest.raises(UsageError, match="the inputs have one entry"):
        wb.plots.landscape(session)
    session = wb.Session(wb.trace(lambda z: np.sum(np.abs(z)))(np.ones(2) + 1j))
    with pytest.raises(UsageError, match="z is complex"):
        wb.plots.landscape(session)


def test_a_landscape_can_be_stopped() -> None:
    session = wb.Session(wb.trace(bowl)(np.ones(60)))
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> bool:
        seen.append((done, total))
        return done == 3

    with pytest.raises(CheckStopped):
        compute_landscape(session, directions="random", points=4, progress=stop)
    assert seen == [(k, 16) for k in range(4)]
    assert isinstance(compute_landscape(session, points=2), Landscape)
