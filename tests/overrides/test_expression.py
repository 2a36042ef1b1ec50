"""The language of rules: what it computes and refuses, and that it runs nothing."""

from __future__ import annotations

import ast
import contextlib
import gc
import pickle
import sys
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.errors import ExpressionError, OverrideError, UsageError
from workbench.overrides.allowed_ops import list_functions, norm
from workbench.overrides.expression import MOST_CHARACTERS, parse

G = np.array([[0.5, -2.0, 0.25], [1.5, 0.0, -0.75]])
D = np.array([[3.0, -0.1, 0.7], [-1.0, 2.0, 0.4]])
X = np.array([[0.9, -0.4, 1.3], [0.2, -1.1, 0.6]])
Y = np.tanh(X)
NAMES = {"g": G, "d": D, "x": X, "y": Y, "x0": X, "x1": 2 * X}

#: Expressions and what they mean, written in NumPy.
MEANS: dict[str, Any] = {
    "d": D,
    "  clip(d, -1, 1)": np.clip(D, -1, 1),
    "0.5 * d": 0.5 * D,
    "-d": -D,
    "+d": D,
    "- - d": D,
    "zeros_like(d)": np.zeros_like(D),
    "g * (1 - y**2)": G * (1 - Y**2),
    "where(x > 0, d, 0.1 * d)": np.where(X > 0, D, 0.1 * D),
    "where(logical_and(-1 < x, x <= 0.5), d, 0)": np.where((X > -1) & (X <= 0.5), D, 0),
    "where(x0 == x, d, g)": D,
    "where(x != x, d, g)": G,
    "where(x >= x1, d, g)": np.where(X >= 2 * X, D, G),
    "d / norm(d)": D / np.linalg.norm(D),
    "d * minimum(1, 0.5 / norm(d, axis=0))": D
    * np.minimum(1, 0.5 / np.linalg.norm(D, axis=0)),
    "d - mean(d, axis=(0, 1), keepdims=True)": D - D.mean(),
    "d - sum(d, axis=-1, keepdims=True)": D - D.sum(-1, keepdims=True),
    "max(abs(d)) * sign(d)": np.abs(D).max() * np.sign(D),
    "2 ** 3 ** 2 / 512 * d": D,
    "d ** -2 + x1": D**-2.0 + 2 * X,
    "abs(d) ** y": np.abs(D) ** Y,
    "1e-3 * d - .5": 1e-3 * D - 0.5,
    "sqrt(2) * d": np.sqrt(2) * D,
    "norm(3) * maximum(1, 2) * d": 6 * D,
    "roll(d, -1)": np.roll(D, -1),
    "round(d / 3, 2) + round(0.25, 1)": np.round(D / 3, 2) + 0.2,
    "d - take(d, 0)": D - D[0, 0],
    "sum(d, 0) + flip(d, 1)": D.sum(0) + D[:, ::-1],
    "cumsum(diff(reshape(d, 6), 1), 0)": D.ravel()[1:] - D[0, 0],
    "+".join("d" * 400): 400 * D,
}


@pytest.mark.parametrize("text", MEANS, ids=lambda text: text[:40])
def test_an_expression_means_what_numpy_means(text: str) -> None:
    np.testing.assert_allclose(parse(text)(NAMES), MEANS[text], rtol=1e-13)


#: What people write in rules, with how many arguments.
FUNCTIONS = {
    **dict.fromkeys(
        """
        abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conj cos cosh cumsum
        deg2rad exp exp2 expm1 floor isfinite isinf isnan log log10 log1p log2
        logical_not max mean median min nan_to_num norm ones_like prod reciprocal rint
        sign sin sinc sinh sort sqrt square std sum tan tanh transpose trunc var
        zeros_like
        """.split(),
        1,
    ),
    **dict.fromkeys(
        """
        arctan2 copysign fmax heaviside hypot logaddexp logical_and logical_or maximum
        minimum outer power
        """.split(),
        2,
    ),
    "clip": 3,
    "where": 3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_runs_on_arrays_and_is_recorded_on_tensors(name: str) -> None:
    """Its value is that of NumPy's function, and a graph comes out for Tensors."""
    count = FUNCTIONS[name]
    rule = parse(f"{name}({', '.join('xdg'[:count])})")
    values = [np.abs(X) / 2 + 1.1, D, G]
    names = dict(zip("xdg", values, strict=True))
    with np.errstate(all="ignore"):
        expected = (norm if name == "norm" else getattr(np, name))(*values[:count])
        np.testing.assert_array_equal(rule(names), expected)
        specs = [wb.Spec(v.shape, v.dtype) for v in values]
        graph = wb.trace(
            lambda *xs: rule(dict(zip("xdg", xs, strict=True)))
        )(*specs)  # fmt: skip
    if name not in ("zeros_like", "ones_like"):
        (output,) = graph.outputs
        assert output.shape == np.shape(expected)
        assert output.dtype == np.asarray(expected).dtype


def test_float32_stays_float32() -> None:
    x = np.float32([0.5, 2.0])
    for text in ("0.5 * d", "clip(d, -1, 1)", "where(d > 0, d, 0)", "d ** 2", "d / 3"):
        assert parse(text)({"d": x}).dtype == np.float32, text
    for text in ("where(d > 1, 1, 0)", "full_like(d, 2)", "roll(d, 1)", "pad(d, 2)"):
        assert parse(text)({"d": x}).dtype.kind == "f", text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broadcast_arrays(d, d)", "broadcast_arrays gives 2 arrays in a"),
        ("unstack(d)", "unstack gives 2 arrays in a tuple at character 1"),
        ("meshgrid(d)", "meshgrid gives 1 array in a"),
        ("d + ix_(take(d, 0, axis=0))", "ix_ gives 1 array in a tuple at character 5"),
        ("where(x > 0, meshgrid(d), 0)", "meshgrid .* at character 14"),
        ("histogram(d)", "histogram gives 2 arrays"),
    ],
)
def test_a_function_that_gives_several_arrays_is_refused(text: str, words: str) -> None:
    """Their sum would be taken for the gradient."""
    with pytest.raises(ExpressionError, match=words):
        parse(text)(NAMES)
    rule = wb.override("tanh", text)
    with pytest.raises(ExpressionError, match=f"on tanh .*{words}"):
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[rule])(X)
    with pytest.raises(ExpressionError, match=words):
        wb.trace(lambda d: parse(text)({"d": d, "x": d}))(wb.Spec((2, 3), float))


#: What is refused: the text, the place (from 1; 0 where Python chooses it), and
#: words of the error.
REFUSED: list[tuple[str, int, str]] = [
    ("clip(e, -1, 1)", 6, "unknown name 'e'"),
    ("  q * d", 3, "unknown name 'q'"),
    ("cilp(d, -1, 1)", 1, "Did you mean clip?"),
    ("d * tanhh(x)", 5, "Did you mean tanh?"),
    ("d + gg", 5, "Did you mean g?"),
    ("t * d", 1, "unknown name 't'"),
    ("x123456 * d", 1, "unknown name"),
    ("tanh * d", 1, "tanh is a function"),
    ("where(x, d, g, y)", 1, "where(condition, x=None, y=None, /) does not take"),
    ("exp(d, g)", 1, "exp takes 1 input and gives 1 output, not 2 and 1"),
    ("modf(d)", 1, "modf takes 1 input and gives 2 outputs"),
    ("empty(d)", 1, "unknown function 'empty'"),
    ("place(d, x, g)", 1, "unknown function 'place'"),
    ("repeat(d, repeats=99999999)", 1, "more than 10,000,000 entries"),
    ("d(x)", 1, "unknown function 'd'"),
    ("x.real", 1, "Functions stand alone"),
    ("x.__class__", 1, "Functions stand alone"),
    ("d if x > 0 else g", 1, "where(condition, a, b)"),
    ("x > 0 and d", 1, "logical_and(a, b)"),
    ("not d", 1, "logical_not(a)"),
    ("0 < x < 1", 9, "logical_and(0 < x, x < 1)"),
    ("x is d", 1, "this operator"),
    ("x in d", 1, "this operator"),
    ("d // 2", 1, "this operator"),
    ("d @ g", 3, "'@' has no meaning"),
    ("d % 2", 3, "'%' has no meaning"),
    ("d[0]", 2, "'[' has no meaning"),
    ("lambda: d", 7, "':' has no meaning"),
    ("'d'", 1, "has no meaning"),
    ("d; g", 2, "';' has no meaning"),
    ("d\nimport os", 2, "has no meaning"),
    ("d # g", 3, "'#' has no meaning"),
    ("é", 1, "has no meaning"),
    ("\x00", 1, "has no meaning"),
    ("d, g", 1, "A rule gives one gradient"),
    ("(d, g)", 1, "A rule gives one gradient"),
    ("()", 1, "A rule gives one gradient"),
    ("sum(*d)", 5, "Write the arguments one by one"),
    ("sum(d, axis=d)", 8, "axis=0, axis=(0, 1), keepdims=True"),
    ("sum(d, axis=1j)", 8, "complex among its params"),
    ("sum(d, axis=1e999)", 8, "A constant is finite"),
    ("sum(d, out=d)", 8, "A setting is a number"),
    ("sum(d, out=None)", 1, "sum sets 'out'"),
    ("sum(d, axes=0)", 1, "unexpected keyword argument 'axes'"),
    ("exp(d, axis=0)", 1, "exp has no setting 'axis'"),
    ("sum(**d)", 5, "sum with **"),
    ("d +", 0, "not an expression"),
    ("d d", 0, "not an expression"),
    ("(d", 0, "not an expression"),
    ("d = 1", 0, "not an expression"),
    ("1if d else 2", 1, "where(condition, a, b)"),
    ("True", 1, "True is not a real number"),
    ("None", 1, "None is not a real number"),
    ("1j * d", 1, "1j is not a real number"),
    ("... * d", 1, "is not a real number"),
    ("1e999 * d", 1, "not a finite number"),
    ("9" * 400 + " * d", 1, "not a finite number"),
    ("d / (1 - 1) + 1 / 0", 15, "not a finite number"),
    ("(-1) ** 0.5 * d", 1, "not a finite number"),
    ("exp(1000) * d", 1, "not a finite number"),
    ("d + diagflat(1, k=9999999)", 5, "diagflat of numbers alone"),
    ("take(1, 3)", 1, "Write functions of g, d, x or y"),
    ("split(1, 3)", 1, "split of numbers alone"),
    ("histogram(1, bins=9999999)", 1, "histogram of numbers alone"),
    ("meshgrid()", 1, "meshgrid of numbers alone"),
    ("clip(d, -1, 1, x)", 1, "clip sets 'out'"),
    ("log(0) * d", 1, "not a finite number"),
    ("d ** 17", 6, "exponents go up to 16"),
    ("d ** -17", 6, "exponents go up to 16"),
    ("d ** (4 * 4 + 1)", 7, "exponents go up to 16"),
    ("power(d, 17)", 10, "exponents go up to 16"),
    ("float_power(d, -17)", 16, "exponents go up to 16"),
    ("9 ** 9 ** 9", 6, "exponents go up to 16"),
    ("-" * 51 + "d", 51, "nested more than 50 levels"),
    ("(" * 300 + "d" + ")" * 300, 0, "not an expression"),
    ("abs(" * 60 + "d" + ")" * 60, 201, "nested more than 50 levels"),
]


@pytest.mark.parametrize(("text", "place", "words"), REFUSED, ids=lambda x: str(x)[:24])
def test_a_refusal_says_where_and_what_is_allowed(
    text: str, place: int, words: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert f"at character {place or ''}" in str(caught.value)
    assert words in str(caught.value)
    assert isinstance(caught.value, OverrideError)
    assert isinstance(caught.value, ValueError)


def test_an_unknown_name_is_told_the_names_and_what_functions_are() -> None:
    with pytest.raises(ExpressionError, match="d \\(what the true rule gives\\)") as e:
        parse("bogus")
    assert "Functions are NumPy's, without the np" in str(e.value)
    assert "Did you mean" not in str(e.value)


def test_limits_are_where_they_are_said_to_be() -> None:
    assert parse("d" + " " * 999)(NAMES) is D
    with pytest.raises(ExpressionError, match="1001 characters; at most 1000"):
        parse("d" + " " * 1000)
    np.testing.assert_array_equal(parse("-" * 49 + "d")(NAMES), -D)
    with pytest.raises(ExpressionError, match="50 levels"):
        parse("-" * 50 + "d")
    parse("d ** 16 + d ** -16")
    with pytest.raises(ExpressionError, match="the rule is empty"):
        parse(" \t ")
    with pytest.raises(ExpressionError, match="not int"):
        parse(3)  # type: ignore[arg-type]


def test_it_is_recorded_once_for_values_of_a_kind() -> None:
    rule = parse("where(x > 0, d, 0.1 * d) + cumsum(d, axis=0)")
    for d in (D, 2 * D, D[0], D[0].astype(np.float32)):
        x = np.ones_like(d)
        found = rule({"d": d, "x": x})
        np.testing.assert_allclose(found, d + np.cumsum(d, axis=0), rtol=1e-6)
        assert found.dtype == d.dtype
    assert len(rule.program.known) == 3
    for number in (0.1, 0.2, 0.3):  # the value of a number is no kind
        assert parse("2 * d")({"d": number}) == 2 * number
    assert len(parse("2 * d").program.known) == 1


def test_a_number_of_parts_is_not_counted_to_the_end() -> None:
    rule = parse("array_split(d, 9999999)")
    tracemalloc.start()
    with pytest.raises(UsageError, match="more than 10,000 ops"):
        rule({"d": D})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # 535 MB, where all their ends were listed


def write(rng: np.random.Generator, depth: int) -> str:
    """A random expression of arrays of one shape, continuous but where data are 0."""
    if depth == 0 or rng.random() < 0.1:
        names = ["d", "g", "x", "y", "x1", "0.5", "2", "1e-3"]
        return names[int(rng.integers(len(names)))]
    a, b, c = (write(rng, depth - 1) for _ in range(3))
    forms = [
        f"({a} + {b})", f"({a} - {b} * {c})", f"({a}) / (1 + abs({b}))", f"-({a})",
        f"({a}) ** 2", f"where(x < y, {b}, {c})", f"clip({a}, -1, 1)",
        f"maximum({a}, {b})", f"tanh({a})", f"sqrt(1 + abs({a}))", f"hypot({a}, {b})",
        f"where(logical_and(g > 0, x != 0.9), {c}, 0)", f"({a}) + sum(d, axis=0)",
        f"({a}) * mean(d + {b}, keepdims=True)", f"cumsum(d * {a}, axis=1)",
        f"flip(x + {a}, axis=-1)", f"({a}) - min(x + {b})",
    ]  # fmt: skip
    return forms[int(rng.integers(len(forms)))]


def test_random_texts_mean_what_python_means(rng: np.random.Generator) -> None:
    """NumPy's functions, called by Python; of arrays, and of Tensors."""
    scope = {n: getattr(np, n) for n in FUNCTIONS if n != "norm"} | {"flip": np.flip}
    near = {"rtol": 1e-9, "atol": 1e-9}
    for _ in range(60):
        text = write(rng, 3)
        expected = eval(text, scope | NAMES)
        rule = parse(text)
        np.testing.assert_allclose(rule(NAMES), expected, **near, err_msg=text)
        leaves = [*rule.names]
        if leaves:
            specs = [wb.Spec(NAMES[n].shape, float) for n in leaves]
            run = lambda *xs, r=rule, ns=leaves: r(dict(zip(ns, xs, strict=True)))  # noqa: E731
            (again,) = wb.trace(run)(*specs).run([NAMES[n] for n in leaves])
            np.testing.assert_allclose(again, expected, **near, err_msg=text)


def test_what_it_holds_at_a_time_is_weighed_and_not_all_it_makes() -> None:
    """400 sums of 1.6 MB one after the other, of which two are there at a time."""
    d = np.ones(200_000)
    np.testing.assert_array_equal(parse("+".join("d" * 400))({"d": d}), 400 * d)
    text = "*".join(["transpose(outer(d, d))"] * 3)  # a view keeps what it shows
    with pytest.raises(UsageError, match=r"12,000,000 entries .* may hold 8. MB"):
        parse(text)({"d": np.ones(2000)})


def test_a_shape_that_depends_on_values_is_refused() -> None:
    rule = wb.override("tanh", "unique(d)")
    with pytest.raises(OverrideError, match="depends on values"):
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[rule])(X)


def test_an_axis_that_is_not_there_is_told_at_the_node() -> None:
    rule = wb.override("tanh", "d * sum(x, axis=2)")
    with pytest.raises(
        OverrideError, match=r"rule 'd \* sum.* out of bounds"
    ) as caught:
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[rule])(X)
    assert "np.sum(np.tanh(x))" in str(caught.value)
    assert not str(caught.value).endswith("..")


@pytest.mark.parametrize("text", ["take(d, d)", "delete(d, 9)", "insert(d, 9, 1)"])
def test_what_numpy_refuses_in_a_text_is_told_at_the_node(text: str) -> None:
    rule = wb.override("tanh", text)
    with pytest.raises(OverrideError, match=r"on tanh .* failed: .*ind") as caught:
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[rule])(X[0])
    assert repr(text) in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_text_is_pickled_as_a_text() -> None:
    rule = pickle.loads(pickle.dumps(parse("2 * t", "t")))
    assert rule({"t": 3.0}) == 6


def test_derivatives_of_a_text_are_those_of_what_it_says() -> None:
    """d/dx of x * (1 - x**2) is 1 - 3 x**2, and -6 x that of it; forward mode too."""
    rule = wb.override("tanh", "g * x * (1 - square(x))")
    first = wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[rule])
    second = wb.grad(lambda x: np.sum(first(x)))
    np.testing.assert_allclose(first(X), X * (1 - X**2))
    np.testing.assert_allclose(second(X), 1 - 3 * X**2)
    third = wb.grad(lambda x: np.sum(second(x)))
    np.testing.assert_allclose(third(X), -6 * X)
    _, moved = wb.jvp(first, (X,), (D,))
    np.testing.assert_allclose(moved, D * (1 - 3 * X**2))
    with wb.overrides(rule):
        _, moved = wb.jvp(np.tanh, (X,), (D,))
    np.testing.assert_allclose(moved, D * X * (1 - X**2))


def test_the_forward_language_has_t_in_place_of_g() -> None:
    assert parse("2 * t0", "t")({"t0": 3.0}) == 6
    with pytest.raises(ExpressionError, match="t \\(the tangent that arrives\\)"):
        parse("g", "t")


# Hostile texts

_WATCHED = {"exec", "import", "open", "os.system", "subprocess.Popen", "os.exec"}
_seen: list[str] = []
#: The thread that is watched, if one is: the events of others are their own.
_watched_thread: int | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if threading.get_ident() == _watched_thread and event in _WATCHED:
        _seen.append(event)


sys.addaudithook(_watch)

_WORDS = st.sampled_from(
    [
        *filter(str.isidentifier, list_functions()),
        *"g d x y x0 x1 x99 t True None 0 1 2 17 1e308 1e-308 0x1F 1_0 1j".split(),
        *"+ - * / ** < <= == != ( ) , . = axis= keepdims=".split(),
        *"@ % // ~ & | ^ := : ;".split(),
        *"if else and or not in is lambda for await yield del import from".split(),
        *"__import__ eval exec open __class__ __builtins__ os system().".split(),
        *["__import__('os').system('true')", "().__class__", "{}", "[]", "''"],
        *'" \\ \n \t \0 é ∂'.split(" "),
        "[x for x in d]",
        "(lambda: 1)()",
        "print(d)",
        "9**9**9**9",
        "'%s' % d",
        'f"{d}"',
    ]
)
HOSTILE = (
    st.lists(_WORDS, max_size=30).map(" ".join)
    | st.lists(_WORDS, max_size=30).map("".join)
    | st.text(max_size=60)
    | st.text("gdxy01.()+-*/<>=, ", max_size=60)
)


def many(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=False,
        database=None,
    )


@many(300)
@given(HOSTILE)
def test_hostile_texts_run_nothing(text: str) -> None:
    assert_runs_nothing(text)


@pytest.mark.long
@many(4000)
@given(HOSTILE)
def test_many_hostile_texts_run_nothing(text: str) -> None:
    assert_runs_nothing(text)


def assert_runs_nothing(text: str) -> None:
    """They are an ExpressionError, or an expression of arrays; nothing else happens."""
    global _watched_thread
    _seen.clear()
    gc.disable()  # finalizers of what earlier tests left may do anything
    _watched_thread = threading.get_ident()
    try:
        rule = parse(text)  # nothing but an ExpressionError may come out here
        names = {**dict.fromkeys(rule.names, X[:0]), "d": D, "g": G, "x": X, "y": Y}
        with np.errstate(all="ignore"), contextlib.suppress(ValueError, TypeError):
            rule(names)  # good, but perhaps not for these shapes
    except ExpressionError:
        pass
    finally:
        _watched_thread = None
        gc.enable()
    assert _seen == []


def test_what_is_too_long_is_not_given_to_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What parsing may cost is bounded by the length of what is parsed."""
    parsed: list[int] = []
    plain = ast.parse

    def counted(source: str, *args: Any, **settings: Any) -> Any:
        parsed.append(len(source))
        return plain(source, *args, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(ast, "parse", counted)
        for part in ("(", "-", "d+", "9", "2**", "where(", "d if d else ", " "):
            for count in (MOST_CHARACTERS + 1, 10**6):
                with pytest.raises(ExpressionError, match="at most 1000 are read"):
                    parse(part * count)
        assert not parsed
        with pytest.raises(ExpressionError):
            parse("(" * MOST_CHARACTERS)
    assert parsed == [MOST_CHARACTERS]


def test_the_watch_over_hostile_texts_would_see_them() -> None:
    global _watched_thread
    _watched_thread = threading.get_ident()
    try:
        eval("1 + 1")
    finally:
        _watched_thread = None
    assert "exec" in _seen


def test_what_people_write_for_the_names_is_understood() -> None:
    for written, meant in (("gradient", "g"), ("default", "d"), ("input", "x")):
        with pytest.raises(ExpressionError, match=rf"Did you mean {meant}\?"):
            parse(f"2 * {written}")
