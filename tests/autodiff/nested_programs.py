"""Random programs of loops, branches and calls, each beside itself written out.

A program is text, twice: `built` of Workbench's structures, and `written` out in plain
Python, whose loops and ifs NumPy and Workbench both run. Both come from the same
draws, line by line. They stay smooth and moderate: a condition is never near a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import workbench as wb
from workbench.errors import TraceError

__all__ = ["CONTENTS", "N", "Program", "draw_program", "draw_rules", "is_above"]

#: The length of the vectors.
N = 3
#: How near a condition may come to its tie, and what counts as moderate.
NEAR, LARGEST = 1e-3, 30.0

# ruff: noqa: E501 a template is one line
#: Lines that make a vector, of the vectors p and q and the numbers s and t.
VECTORS = """
np.sin({p}) | np.cos({p} + {q}) | np.tanh({p}) | 0.6 * {p} - 0.4 * {q} | np.exp(-{p} * {p})
{p} * {q} / (1 + {q} * {q}) | np.arctan({p}) * 0.5 | {p} * np.cos({s}) | np.tanh({p} - {s})
np.cumsum({p}) * 0.3 | {p}[::-1] | np.concatenate([{p}[1:], {p}[:1]]) | np.roll({p}, 1)
np.log1p({p} * {p}) | np.broadcast_to({p}[0] * {s}, {q}.shape) | np.zeros_like({p}) + {s}
np.outer({p}, {q}) @ np.tanh({q}) * 0.2 | np.sin({s} * {p}) | np.sqrt(1 + {p} * {p}) - {q} / 2
np.stack([{p}, {q}]).sum(axis=0) / 2 | np.tanh({p} * {q}) | np.sin({p}) / (1 + {s} * {s})
fill({p}, {s}) | fill({p}, {q}[-1])
"""
#: Lines that make a number.
NUMBERS = """
np.sin({s}) | np.tanh({s} + {t}) | 0.5 * {s} - 0.3 * {t} | np.mean({p}) | {s} / (1 + {t} * {t})
np.sum(np.sin({p})) * 0.3 | {p}[0] | np.tanh({p}[-1] * {s}) | {p} @ {q} / (2 + {p} @ {p})
np.exp(-{s} * {s}) | np.arctan({t}) * 0.5 | np.cos({s} - {t}) | np.sum({p} * {q}) / 4
"""
#: By kind of value: "v" for a vector, "s" for a number.
TEMPLATES = {
    kind: [t.strip() for line in text.strip().splitlines() for t in line.split(" | ")]
    for kind, text in (("v", VECTORS), ("s", NUMBERS))
}
#: Functions with their gradients by hand, none of which an override here means.
BY_HAND = {
    "v": [
        ("p / (1 + q * q)", "g / (1 + q * q), -2 * q * p * g / (1 + q * q) ** 2"),
        ("p * q - p", "g * q - g, g * p"),
    ],
    "s": [("np.sum(p * p * q) / 4", "g * p * q / 2, g * p * p / 4")],
}
#: What loops keep. In bytes it cannot be told of a step of unknown lengths.
MEMORY = ('"auto"', '"all"', "1", "2")

Names = dict[str, str]


def is_above(x: Any) -> Any:
    """Whether a number is positive, as the program's conditions ask."""
    return np.real(x) > 0


def fill(p: Any, s: Any) -> Any:
    """Return an array that is written to, through a view too."""
    try:
        out = np.zeros_like(p)
        out[1:] = 0.6 * p[:-1]
        end = out[-1:]
        end += np.sin(s)
        out *= np.cos(s)
        return out
    except TraceError:  # an expression is not written to
        return join_parts(p, s)


def join_parts(p: Any, s: Any) -> Any:
    """Return the array of `fill`, made without a write."""
    moved = np.concatenate([np.zeros_like(p[:1]), 0.6 * p[:-1]])
    last = np.concatenate([np.zeros_like(p[:-1]), 0 * p[:1] + np.sin(s)])
    return (moved + last) * np.cos(s)


@dataclass(frozen=True)
class Program:
    """A program of vectors x, w and a number s: its two texts, and where it runs."""

    built: str
    written: str
    args: tuple[Any, ...]
    #: Three more places, one row of each argument for each.
    rows: tuple[Any, ...]
    #: Which overrides it meets: a key of `RULES`; "" for none.
    rules: str = ""

    def function(self, text: str, above: Callable[[Any], Any] = is_above) -> Any:
        """Return the function of one of its texts."""
        space: dict[str, Any] = {"np": np, "wb": wb, "is_above": above}
        # Where there are values a write is more nodes, and a scope's rule acts on each.
        space["fill"] = join_parts if self.rules in OF_SCOPES else fill
        exec(text, space)
        return space["f"]

    def each(self) -> list[Program]:
        """Return the program at each of its rows."""
        return [replace(self, args=row) for row in zip(*self.rows, strict=True)]

    def is_good(self) -> bool:
        """Whether its values are moderate and its conditions clear, where it runs."""
        margins: list[float] = []

        def above(x: Any) -> Any:
            margins.append(abs(float(x)))
            return x > 0

        f = self.function(self.written, above)
        with np.errstate(all="ignore"):
            values = [f(*at.args) for at in (self, *self.each())]
        good = all(np.all(np.abs(value) < LARGEST) for value in values)
        return bool(good) and min(margins, default=1.0) > NEAR

    @property
    def code(self) -> str:
        """Code that makes the program, to be run from the root of the checkout."""
        args, rows = (
            ", ".join(f"np.array({np.asarray(a).tolist()})" for a in given)
            for given in (self.args, self.rows)
        )
        return (
            "import numpy as np\nfrom tests.autodiff.nested_programs import Program\n"
            f"built = '''\n{self.built}'''\nwritten = '''\n{self.written}'''\n"
            f"program = Program(built, written, ({args}), ({rows}), {self.rules!r})\n"
        )


@dataclass
class Writer:
    """Draws a program and writes its lines, both ways at once."""

    rng: np.random.Generator
    #: Which structures it may use.
    allowed: tuple[str, ...]
    #: Whether a loop written out says in a scope which of its steps runs.
    steps: bool = False
    #: Whether what is written runs in a loop.
    loops: bool = False
    built: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    indent: str = ""
    count: int = 0

    # Lines and draws

    def add(self, built: str, written: str | None = None) -> None:
        """Add lines: the same to both texts if only one is given."""
        for lines, text in (
            (self.built, built),
            (self.written, built if written is None else written),
        ):
            lines += [self.indent + line for line in text.splitlines()]

    @contextmanager
    def limited(self, **settings: Any) -> Any:
        """Write what is within with other settings."""
        before = {name: getattr(self, name) for name in settings}
        vars(self).update(settings)
        yield
        vars(self).update(before)

    @contextmanager
    def inside(self, header: str) -> Any:
        """Indent what is written within, under a header."""
        self.add(header)
        before, self.indent = self.indent, self.indent + "    "
        yield
        self.indent = before

    def fresh(self, word: str) -> str:
        """Return a name that is not taken."""
        self.count += 1
        return f"{word}{self.count}"

    def choose(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, odds: float) -> bool:
        return bool(self.rng.random() < odds)

    def number(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 3)

    def pick(self, names: Names, kind: str) -> str:
        """Return a name of this kind; the newest are the likeliest."""
        found = [name for name, of in names.items() if of == kind]
        return str(self.choose(found[-5:] if self.chance(0.7) else found))

    def pick_some(self, names: Names, most: int) -> list[str]:
        """Return up to so many names, of any kind."""
        kinds = [self.choose("vs") for _ in range(int(self.rng.integers(most + 1)))]
        return [self.pick(names, kind) for kind in kinds]

    # Plain lines

    def expression(self, names: Names, kind: str) -> str:
        """Return a plain expression of what is there."""
        template: str = self.choose(TEMPLATES[kind])
        return template.format(
            p=self.pick(names, "v"), q=self.pick(names, "v"),
            s=self.pick(names, "s"), t=self.pick(names, "s"),
        )  # fmt: skip

    def plain(self, names: Names, kind: str | None = None) -> str:
        """Write a plain line, at times in a scope; return the name that it sets."""
        kind = kind or self.choose("vvs")
        name = self.fresh(kind)
        line = f"{name} = {self.expression(names, kind)}"
        if self.chance(0.2):
            scope = self.choose(["cell", "cell/gate"])
            with self.inside(f'with wb.scope("{scope}"):'):
                self.add(line)
        else:
            self.add(line)
        names[name] = kind
        return name

    def mix(self, names: Names, kind: str, *of: str) -> str:
        """Write a line that depends on each of these names; return its name."""
        name = self.fresh(kind)
        terms = [n if names[n] == kind else f"np.mean({n})" for n in of if kind == "s"]
        terms = terms or list(of)
        weights = [self.number(0.2, 0.5) for _ in terms]
        total = " + ".join(f"{a} * {b}" for a, b in zip(weights, terms, strict=True))
        if kind == "v" and all(names[n] == "s" for n in of):
            total = f"({total}) * np.cos({self.pick(names, 'v')})"
        self.add(f"{name} = {total}")
        names[name] = kind
        return name

    # Blocks and functions

    def block(self, names: Names, depth: int) -> None:
        """Write a few lines, among them structures where there is depth for them."""
        for _ in range(int(self.rng.integers(1, 3))):
            self.plain(names)
        if depth > 0:
            for _ in range(1 if self.chance(0.7) else 2):
                self.structure(names, depth - 1)
                if self.chance(0.5):
                    self.plain(names)

    def structure(self, names: Names, depth: int) -> None:
        """Write a loop, a branch or a call, whose inside has this depth."""
        getattr(self, self.choose(self.allowed))(names, depth)

    def define(
        self,
        names: Names,
        takes: Names,
        gives: str,
        depth: int,
        *,
        closed: bool = False,
    ) -> str:
        """Write a function of ``takes`` and of all that is outside; return its name.

        It gives one value of each kind in ``gives``, each computed from its last
        lines and its parameters.
        """
        name = self.fresh("fn")
        inner = dict(takes) if closed else {**names, **takes}
        if closed:  # it must not read what is outside; constants it may
            inner |= {n: k for n, k in names.items() if n[0] == "C"}
            if "v" not in takes.values():
                raise AssertionError("a closed function takes a vector")
        with self.inside(f"def {name}({', '.join(takes)}):"):
            before = set(inner)
            self.block(inner, depth)
            made = [n for n in inner if n not in before]
            outs = [self.mix(inner, k, *made[-2:], *takes) for k in gives]
            self.add(f"return {', '.join(outs)}")
        return name

    def parameters(self, names: Names, given: list[str]) -> Names:
        """Return the names by which a function calls what it is given."""
        return {self.fresh("p"): names[n] for n in given}

    # Loops

    def scan(self, names: Names, depth: int) -> None:
        sequences, steps, entries = self.sequences(names)
        kinds = self.choose(["v", "s", "vs", "vv"])
        extra = self.choose(["", "", "v", "s"])
        starts = [self.pick(names, k) for k in kinds]
        others = self.pick_some(names, 2)
        takes = {self.fresh("e"): k for k in entries}
        takes |= {self.fresh("h"): k for k in kinds}
        takes |= self.parameters(names, others)
        with self.limited(loops=True):
            step = self.define(names, takes, kinds + extra, depth)
        last = self.chance(0.3)
        backward = bool(sequences) and self.chance(0.2)
        outs = [self.fresh("y") for _ in kinds + extra]
        states, extras = ", ".join(outs[: len(kinds)]), outs[len(kinds) :]
        settings = f", memory={self.choose(MEMORY)}"
        settings += ", last=True" * last + ", reverse=True" * backward
        settings += "" if sequences else f", n_steps={steps}"
        initial = ", ".join([*starts, *["None"] * len(extra)])
        self.add(
            f"{', '.join(outs)} = wb.scan({step}, [{', '.join(sequences)}], [{initial}],"
            f" [{', '.join(others)}]{settings})",
            self.loop(step, sequences, steps, starts, states, extras, others, last, backward),
        )  # fmt: skip
        for out, kind in zip(outs, kinds + extra, strict=True):
            self.unstack(names, out, kind, last)

    def sequences(self, names: Names) -> tuple[list[str], str, str]:
        """Return sequences, how many steps they give, and the kinds of their entries."""
        numbers = f"np.array({[self.number(-1, 1) for _ in range(3)]})"
        three = f"np.stack([{', '.join(self.pick(names, 'v') for _ in range(3))}])"
        vector = self.pick(names, "v")
        return self.choose(
            [
                ([], str(self.choose([2, 3])), ""),
                (["np.arange(3.0)"], "3", "s"),
                ([numbers], "3", "s"),
                ([three], "3", "v"),
                ([numbers, three], "3", "sv"),
                ([vector], f"len({vector})", "s"),  # as many steps as it is long
            ]
        )

    def loop(
        self, step: str, sequences: list[str], steps: str, starts: list[str],
        states: str, extras: list[str], others: list[str], last: bool, backward: bool,
    ) -> str:  # fmt: skip
        """Return a loop in plain Python."""
        i, xs = self.fresh("i"), [self.fresh("xs") for _ in sequences]
        lines = [f"{x} = {given}" for x, given in zip(xs, sequences, strict=True)]
        lines += [f"{states} = {', '.join(starts)}"]
        outs = [*states.split(", "), *extras]
        lines += [f"{out}s = []" for out in outs if not last]
        order = f"reversed(range({steps}))" if backward else f"range({steps})"
        lines += [f"for {i} in {order}:"]
        given = ", ".join([*[f"{x}[{i}]" for x in xs], *states.split(", "), *others])
        scope = f'with wb.scope(f"step{{{i}}}of{{{steps}}}"): ' * self.steps
        if self.steps and backward:  # its first step is that of the last entries
            scope = scope.replace(f"{{{i}}}", f"{{{steps} - 1 - {i}}}")
        lines += [f"    {scope}{', '.join(outs)} = {step}({given})"]
        lines += [f"    {out}s.append({out})" for out in outs if not last]
        lines += [f"{out} = np.stack({out}s)" for out in outs if not last]
        return "\n".join(lines)

    def unstack(self, names: Names, out: str, kind: str, last: bool) -> None:
        """Make a value of what a loop gave."""
        if last:
            names[out] = kind
            return
        name = self.fresh(kind)
        way = self.choose(["{}[-1]", "np.sum({}, axis=0) * 0.4", "np.mean({}, axis=0)"])
        self.add(f"{name} = {way.format(out)}")
        names[name] = kind

    def while_loop(self, names: Names, depth: int) -> None:
        """A loop that counts, or that ends where a number has grown enough."""
        # In a loop: `test_second_order_of_loops_of_other_lengths_in_each_step`.
        counts = self.steps or self.loops or self.chance(0.5)
        kinds = self.choose(["v", "s", "vs"])
        starts = [self.pick(names, k) for k in kinds]
        first = "0"
        if not counts:
            first = self.fresh("s")
            self.add(f"{first} = 0.5 * np.tanh({self.pick(names, 's')})")
            names[first] = "s"
        takes = {self.fresh("h"): k for k in kinds}
        if not counts:
            takes = {self.fresh("h"): "s", **takes}
        with self.limited(loops=True):
            step = self.define(names, takes, kinds, depth)
        more, body, k = self.fresh("more"), self.fresh("body"), self.fresh("k")
        with self.inside(f"def {more}(state):"):
            ends = self.choose([2, 3]) if counts else self.number(0.8, 1.2)
            self.add(f"return state[0] < {ends}" if counts
                     else f"return is_above({ends} - state[0])")  # fmt: skip
        rest = [self.fresh("h") for _ in kinds]
        with self.inside(f"def {body}(state):"):
            self.add(f"{k}, {', '.join(rest)} = state")
            outs = ", ".join(self.fresh("z") for _ in kinds)
            self.add(f"{outs} = {step}({', '.join(rest if counts else [k, *rest])})")
            grown = (
                f"{k} + 1"
                if counts
                else f"{k} + 0.8 + 0.1 * np.sin(np.mean({rest[0]}))"
            )
            self.add(f"return {grown}, {outs}")
        outs = [self.fresh(kind) for kind in kinds]
        state, end = self.fresh("state"), self.fresh("s")
        initial = f"({first}, {', '.join(starts)})"
        memory = self.choose(MEMORY)
        scope = f'with wb.scope(f"step{{{state}[0]}}of{ends}"): ' * self.steps
        self.add(
            f"{end}, {', '.join(outs)} = wb.while_loop({more}, {body}, {initial},"
            f" max_steps=20, memory={memory})",
            f"{state} = {initial}\n"
            f"while {more}({state}):\n    {scope}{state} = {body}({state})\n"
            f"{end}, {', '.join(outs)} = {state}",
        )
        names |= dict(zip(outs, kinds, strict=True))
        if not counts:
            names[end] = "s"

    # Branches and calls

    def cond(self, names: Names, depth: int) -> None:
        given = self.pick_some(names, 2)
        takes = self.parameters(names, given)
        gives = self.choose(["v", "s", "vs"])
        yes = self.define(names, takes, gives, depth)
        no = self.define(names, takes, gives, max(depth - 1, 0))
        test = f"is_above({self.pick(names, 's')} - {self.number(-0.3, 0.3)})"
        outs = [self.fresh(kind) for kind in gives]
        self.add(
            f"{', '.join(outs)} = wb.cond({', '.join([test, yes, no, *given])})",
            f"{', '.join(outs)} = ({yes} if {test} else {no})({', '.join(given)})",
        )
        names |= dict(zip(outs, gives, strict=True))

    def call(
        self, names: Names, given: list[str], gives: str, called: str, fn: str
    ) -> None:
        """Write a call: of this, and written out of the function that it stands for."""
        outs = [self.fresh(kind) for kind in gives]
        args = ", ".join(given)
        self.add(
            f"{', '.join(outs)} = {called}({args})", f"{', '.join(outs)} = {fn}({args})"
        )
        names |= dict(zip(outs, gives, strict=True))

    def checkpoint(self, names: Names, depth: int) -> None:
        given = self.pick_some(names, 2) or [self.pick(names, "v")]
        gives = self.choose(["v", "s", "vs"])
        fn = self.define(names, self.parameters(names, given), gives, depth)
        self.call(names, given, gives, f"wb.checkpoint({fn})", fn)

    def from_graph(self, names: Names, depth: int) -> None:
        """An op made of symbols, in place."""
        given = [self.pick(names, "v"), *self.pick_some(names, 2)]
        takes = self.parameters(names, given)
        gives = self.choose(["v", "s", "vs"])
        # See `test_a_checkpoint_in_an_op_of_unknown_lengths`.
        with self.limited(allowed=("scan", "while_loop", "cond", "from_graph", "vmap")):
            fn = self.define(names, takes, gives, depth, closed=True)
        op = self.fresh("op")
        of = {"v": "vector", "s": "scalar"}
        symbols = ", ".join(f'wb.{of[k]}("{n}")' for n, k in takes.items())
        inline = ", inline=True" * self.chance(0.2)
        passed = self.fresh("symbols")
        outputs = f"{fn}(*{passed})" if len(gives) == 1 else f"list({fn}(*{passed}))"
        self.add(
            f"{passed} = [{symbols}]\n{op} = wb.OpFromGraph({passed}, {outputs}{inline})",
            "",
        )
        self.call(names, given, gives, op, fn)

    def custom(self, names: Names, depth: int) -> None:
        """A function with its gradient: that of `wb.vjp`, or one by hand."""
        given = [self.pick(names, "v"), self.pick(names, "v")]
        gives, name = self.choose(["v", "s"]), self.fresh("custom")
        if depth == 0 and self.chance(0.7):
            value, slopes = self.choose(BY_HAND[gives])
            self.add(
                f"@wb.custom_gradient\ndef {name}(p, q):\n"
                f"    return {value}, lambda g: ({slopes})",
                f"def {name}(p, q):\n    return {value}",
            )
            self.call(names, given, gives, name, name)
            return
        # Forward mode transposes the gradient, which of a loop fails at times today.
        with self.limited(allowed=("cond", "checkpoint", "custom")):
            takes = self.parameters(names, given)
            fn = self.define(names, takes, gives, depth, closed=True)
        self.add(
            f"@wb.custom_gradient\ndef {name}(p, q):\n    return wb.vjp({fn}, p, q)", ""
        )
        self.call(names, given, gives, name, fn)

    def vmap(self, names: Names, depth: int) -> None:
        """A batch inside: each row by itself, what is captured for all of them."""
        given = [self.pick(names, "v") for _ in range(3)]
        fn = self.define(names, {self.fresh("p"): "v"}, "v", depth)
        out, batch, name = self.fresh("y"), self.fresh("b"), self.fresh("v")
        self.add(f"{batch} = np.stack([{', '.join(given)}])")
        self.add(f"{out} = wb.vmap({fn})({batch})",
                 f"{out} = np.stack([{fn}({batch}[i]) for i in range(3)])")  # fmt: skip
        self.add(f"{name} = np.sum({out}, axis=0) * 0.3")
        names[name] = "v"


# Overrides


def half_of_sine(node: Any, g: Any) -> Any:
    (x,) = node.inputs
    return 0.5 * g * np.cos(x)


def is_in(steps: int | slice) -> Callable[[Any], bool]:
    """Return what is true for a tanh that runs in these steps of the loop around it."""

    def predicate(node: Any) -> bool:
        loops = [s for s in (node.scope or "").split("/") if s.startswith("step")]
        if node.op.name != "tanh" or not loops:
            return False
        step, of = map(int, loops[-1].removeprefix("step").split("of"))
        chosen = range(of)[steps]
        return step == chosen if isinstance(chosen, int) else step in chosen

    return predicate


#: Overrides by a name: those of a program built, and of one written out.
RULES: dict[str, Callable[[], list[Any]]] = {
    "": list,
    "an op": lambda: [wb.override("tanh", "0.5 * d")],
    "a function": lambda: [wb.override("sin", half_of_sine)],
    "a scope": lambda: [wb.override("cell/*", "0.5 * d")],
    "a structure": lambda: [
        wb.override(wb.pattern(lambda u: np.arctan(u) * 0.5), "0.3 * d")
    ],
    "several": lambda: [
        wb.override("tanh", "0.5 * d"),
        wb.override("cell/gate", "2 * d"),
        wb.override("sin", half_of_sine),
    ],
}
#: Those that act on each node of a scope.
OF_SCOPES = ("a scope", "several")
STEPS: list[int | slice] = [0, 1, -1, slice(1, None), slice(0, 2)]


def draw_rules(name: str) -> tuple[list[Any], list[Any]]:
    """Return overrides by their name, for a program built and for one written out."""
    if name in RULES:
        return RULES[name](), RULES[name]()
    steps = STEPS[int(name.removeprefix("steps "))]
    return (
        [wb.override("tanh", "0.5 * d", steps=steps)],
        [wb.override(is_in(steps), "0.5 * d")],
    )


# Programs

#: What programs may hold: every structure; what overrides reach into; what they reach
#: into step by step.
CONTENTS: dict[str, tuple[str, ...]] = {
    "everything": ("scan", "scan", "while_loop", "cond", "checkpoint", "from_graph",
                   "custom", "vmap"),
    "overrides": ("scan", "scan", "while_loop", "cond", "checkpoint"),
    "steps": ("scan", "scan", "while_loop"),
}  # fmt: skip
#: A line for each override to meet, and a loop for those of steps.
MET = """
o1 = np.tanh(x) * np.sin(x) + np.arctan(x) * 0.5
with wb.scope("cell/gate"):
    o2 = o1 * 0.5
"""
LOOP = "o3 = wb.scan(lambda h: np.tanh(h + x), initial=o2, n_steps=3, last=True)"
LOOP_WRITTEN = """
o3 = o2
for i in range(3):
    with wb.scope(f"step{i}of3"):
        o3 = np.tanh(o3 + x)
"""


def draw_program(rng: np.random.Generator, contents: str = "everything") -> Program:
    """Draw a program that is good where it runs."""
    while True:
        writer = Writer(rng, CONTENTS[contents], steps=contents == "steps")
        constants = {f"C{i}": "s" for i in range(2)}
        for name in constants:
            writer.add(f"{name} = {writer.number(-1, 1)}")
        names = {**constants, "x": "v", "w": "v", "s": "s"}
        rules = ""
        with writer.inside("def f(x, w, s):"):
            writer.block(names, int(writer.choose([2, 2, 3])))
            made = [n for n in names if n not in ("x", "w", "s", *constants)]
            if contents == "overrides":
                rules = writer.choose([name for name in RULES if name])
            elif contents == "steps":
                rules = f"steps {rng.integers(len(STEPS))}"
            if rules:
                writer.add(MET)
                writer.add(LOOP, LOOP_WRITTEN)
                names |= {"o2": "v", "o3": "v"}
                made += ["o2", "o3"]
            out = writer.mix(names, "v", *made[-4:], "x", "w", "s")
            writer.add(f"return {out}")
        args = [np.round(rng.uniform(-1, 1, shape), 3) for shape in ((N,), (N,), ())]
        rows = [np.round(rng.uniform(-1, 1, (3, *a.shape)), 3) for a in args]
        program = Program(
            "\n".join(writer.built) + "\n", "\n".join(writer.written) + "\n",
            tuple(args), tuple(rows), rules,
        )  # fmt: skip
        if program.is_good():
            return program
