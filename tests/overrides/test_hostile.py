"""10,000 hostile texts: nothing runs, and only the language's own error comes out.

They are those that a saved notebook of a stranger could hold where a rule's text is
read: fragments of Python, bytes, names that look like others, numbers and nests
without end, rules by their names with settings that are none, and good texts with a
few characters changed. Watched are the interpreter's audit events and the built-in
functions that run code; how long reading takes is counted in calls, not in seconds.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import ExpressionError
from workbench.overrides.allowed_ops import list_functions
from workbench.overrides.expression import Expression
from workbench.overrides.named import RULES
from workbench.overrides.rule_parser import BoundRule, parse_rule

COUNT = 10_000
X = np.array([[0.9, -0.4, 1.3], [0.2, -1.1, 0.6]])

FORBIDDEN = (
    "exec", "import", "open", "os.", "subprocess.", "socket.", "ctypes.", "shutil.",
    "sys.settrace", "code.__new__", "function.__new__", "pickle.",
    "marshal.", "webbrowser.", "urllib.", "glob.", "tempfile.",
)  # fmt: skip
seen: list[str] = []
#: The thread that is watched, if one is: the events of others are their own.
watched_thread: int | None = None


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if threading.get_ident() == watched_thread and event.startswith(FORBIDDEN):
        seen.append(event)


sys.addaudithook(watch)


@contextlib.contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code that runs, by any of the usual ways, is written down."""
    global watched_thread
    for name in ("eval", "exec", "open", "input", "breakpoint", "print"):
        plain = getattr(builtins, name)

        def told(*args: Any, _name: str = name, _plain: Any = plain, **kw: Any) -> Any:
            if threading.get_ident() == watched_thread:
                seen.append(_name)
            return _plain(*args, **kw)

        monkeypatch.setattr(builtins, name, told)
    seen.clear()
    gc.disable()  # finalizers of what earlier tests left may do anything
    watched_thread = threading.get_ident()
    try:
        yield
    finally:
        watched_thread = None
        gc.enable()
        monkeypatch.undo()


# The texts

FUNCTIONS = [*filter(str.isidentifier, list_functions())]

GOOD = [
    "clip(d, -1, 1)", "0.5 * d", "-d", "g * (1 - y**2)", "where(x > 0, d, 0.1 * d)",
    "d * (1.0 / maximum(1.0, norm(d)))", "d - mean(d, axis=(0, 1), keepdims=True)",
    "where(isfinite(d), d, 0)", "safe_sqrt(eps=1e-6)", "noise(scale=0.1, seed=3)",
    "kfac(damping=0.001, weights=1, mean=False)", "2 ** 3 ** 2 / 512 * d",
]  # fmt: skip
WORDS = [
    *FUNCTIONS, *"g d x y t x0 x1 x99 True False None 0 1 17 1e308 0x1F 1_0".split(),
    *"+ - * / ** < <= == != ( ) , . = axis= keepdims= eps= seed= **x *x".split(),
    *"@ % // ~ & | ^ := : ; -> if else and or not in is lambda for await".split(),
    *"yield del import from async with try class def return global raise".split(),
    *"__import__ eval exec open __class__ __builtins__ __globals__ os sys".split(),
    "().__class__.__bases__[0].__subclasses__()", "__import__('os').system('true')",
    "[x for x in d]", "{d for d in x}", "(d for d in x)", "{1: d}", "(lambda: 1)()",
    "(lambda d: d)(d)", "(y := d)", "f'{d}'", 'f"{__import__(\'os\')}"', "b'x'",
    "'%s' % d", "print(d)", "getattr(d, 'T')", "vars()", "globals()", "d.T", "d.dtype",
    "np.sum(d)", "d[0]", "d[...]", "...", "`d`", "\\", "\n", "\t", "\r", "\x0c", "\0",
    "#", "'", '"', '"""', "safe_sqrt", "safe_sqrt(", "noise(scale=", "trap", "trap(",
]  # fmt: skip
#: Letters that look like those of the language, or that Python folds into them.
LIKE = "ｄｇｘ𝐝𝑔𝓍ｅｖａｌⅆаеосхуꞏ∕×−–‐（），＝＊０１²½\u200b\u202e\ufeff﹍͟"
VALUES = [
    "1", "-1", "1e999", "nan", "inf", "1j", "'a'", "[1]", "(1,)", "{}", "None",
    "eval('1')", "lambda: 0", "d", "os", "__import__('os')", "9" * 500, "-" * 60 + "1",
    "(" * 40 + "1" + ")" * 40, "x.y", "f(1)", "1if 1else 2", "*d", "**d", "not 1",
]  # fmt: skip

Random = np.random.Generator


def pick(rng: Random, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def words(rng: Random) -> str:
    glue = pick(rng, ["", " ", "\t", "("])
    return glue.join(pick(rng, WORDS) for _ in range(rng.integers(30)))


def soup(rng: Random) -> str:
    drawn = bytes(rng.integers(0, 256, rng.integers(1, 80), dtype=np.uint8))
    return drawn.decode(pick(rng, ["latin-1", "utf-8", "utf-16-le"]), "replace")


def symbols(rng: Random) -> str:
    letters = "gdxytab01.()+-*/<>=!, _[]{}:;'\"@%&|^~\\#"
    return "".join(pick(rng, letters) for _ in range(rng.integers(60)))


def confusable(rng: Random) -> str:
    text = list(pick(rng, GOOD))
    for _ in range(rng.integers(1, 4)):
        text[rng.integers(len(text))] = pick(rng, LIKE)
    return "".join(text)


def mutated(rng: Random) -> str:
    text = list(pick(rng, GOOD))
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(text) + 1))
        what = pick(rng, ["cut", "put", "double", "swap"])
        if what == "put":
            text.insert(at, pick(rng, WORDS))
        elif text and what == "cut":
            del text[min(at, len(text) - 1)]
        elif what == "double":
            text[at:at] = text[: int(rng.integers(len(text) + 1))]
        else:
            text.reverse()
    return "".join(text)[:1500]


def settings(rng: Random) -> str:
    name = pick(rng, [*RULES, *FUNCTIONS, "nothing", "__import__", "g", "x0", "true"])
    given = [
        pick(rng, ["", "eps=", "seed=", "axis=", "__class__=", "**", "*", "a.b=", "1="])
        + pick(rng, VALUES)
        for _ in range(rng.integers(4))
    ]
    return (
        f"{name}({', '.join(given)}{pick(rng, [')', '', '))', ').x', ')()', ')[0]'])}"
    )


def large(rng: Random) -> str:
    n = int(rng.integers(1, 3000))
    return pick(rng, [
        "(" * n + "d" + ")" * n, "-" * n + "d", "abs(" * n + "d" + ")" * n, "d" * n,
        "d" + "+d" * n, "9" * n, "9" * n + "**" + "9" * n, "d**" * n + "2",
        "2**" * n + "2", "1e" + "9" * n, "where(" * n, "d<" * n + "d", "0x" + "f" * n,
        "[" * n + "]" * n,
        " " * n + "d", "d," * n, "max(d, axis=(" + "0," * n + "))", "lambda:" * n + "d",
        "trap(" + "a=1," * n + ")", "noise(scale=" + "-" * n + "1)", "1" + "_1" * n,
        "(" * n + "1", "'" * n, "\\" * n, "\n" * n + "d", "d if d else " * n + "d",
    ])  # fmt: skip


FAMILIES: list[Callable[[Random], str]] = [
    words, soup, symbols, confusable, mutated, settings, large,
]  # fmt: skip


# What must hold


class Counter:
    """How many calls of functions are made, as a measure of time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1


def attempt(text: str, arriving: str) -> Any:
    """What reading makes of a text; None where it is refused."""
    try:
        return parse_rule(text, arriving)
    except ExpressionError:
        return None


def counted(text: str) -> int:
    """How many calls of functions reading a text takes."""
    counter = Counter()
    sys.setprofile(counter)
    try:
        attempt(text, "g")
    finally:
        sys.setprofile(None)
    return counter.calls


def test_E3_10_000_hostile_texts_run_nothing(
    rng: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb.rules.scale(1)
    ran: list[Any] = []

    def trap(node: Any, g: Any, **settings: Any) -> Any:
        ran.append(settings)
        return g

    texts = [FAMILIES[i % len(FAMILIES)](rng) for i in range(COUNT)]
    names = {"g": X, "d": 2 * X, "x": X, "y": np.tanh(X), "x0": X, "t": X}
    good = 0
    before = dict(RULES)
    wb.named_rule("trap")(trap)
    try:
        with watched(monkeypatch):
            read = [attempt(text, arriving) for text in texts for arriving in "gt"]
        assert seen == []
        for made in read:
            good += made is not None
            if isinstance(made, Expression):
                values = {**dict.fromkeys(made.names, X), **names}
                with (
                    np.errstate(all="ignore"),
                    contextlib.suppress(ValueError, TypeError, LookupError),
                ):
                    made(values)  # good, but perhaps not for these shapes
            elif made is not None:
                assert isinstance(made, BoundRule)
                for value in made.settings.values():
                    assert type(value) in (int, float, bool, type(None))
                    assert value is None or abs(value) <= 1e300
        assert ran == []  # to read a text that means a rule is not to run it
    finally:
        RULES.clear()
        RULES.update(before)
    # Some texts are good, so that the others are not refused for one reason alone.
    assert COUNT / 100 < good < COUNT


def test_overrides_refuse_what_reading_refuses(rng: Random) -> None:
    for i in range(300):
        text = FAMILIES[i % len(FAMILIES)](rng)
        try:
            parse_rule(text)
        except ExpressionError:
            if text != "true":
                with pytest.raises(ExpressionError):
                    wb.override("tanh", text)


def test_reading_takes_a_number_of_calls_that_the_length_bounds(rng: Random) -> None:
    """What was close is looked for among some hundred names."""
    wb.rules.scale(1)
    for i in range(700):
        text = FAMILIES[i % len(FAMILIES)](rng)
        assert counted(text) < 60_000 + 200 * min(len(text), 1001), text[:80]


def test_a_refusal_is_short_whatever_the_text(rng: Random) -> None:
    told = []
    for i in range(300):
        try:
            parse_rule(FAMILIES[i % len(FAMILIES)](rng) * 3)
        except ExpressionError as error:
            told.append(str(error))
    assert all(0 < len(text) < 3000 for text in told)


def test_the_watch_would_see_code_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch):
        eval("1 + 1")
    assert "exec" in seen
    assert "eval" in seen
