"""The class of ops, and the tables that lead from NumPy's names to ops.

This file knows no op by its mathematics; those stand in `workbench/ops`, one
paragraph each.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cache
from importlib import import_module
from threading import RLock
from typing import Any, NamedTuple, NoReturn

import numpy as np

from workbench.core import hooks
from workbench.core.traits import UNKNOWN
from workbench.core.types import BatchRule, ComputeRule, InferRule, PullRule, PushRule


def format_call(functions: Sequence[str], operands: Sequence[str]) -> str:
    """Return the code of a call of the one function that a node brings."""
    return f"{functions[0]}({', '.join(operands)})"


class Lowering(NamedTuple):
    """A node that holds Graphs, in a backend's form: functions, and their call."""

    #: Nodes with equal keys share their functions.
    key: Hashable
    #: A name and a Graph for each function.
    graphs: Sequence[tuple[str, Any]]
    #: The lines of a function, of its steps and names, its name, arguments and outputs
    #: (see `backends/text.py`). None: the steps of the Graph, and a return.
    frame: Callable[[Any, str, list[str], list[str]], list[str]] | None = None
    #: The code of a call: of the names of the functions, and the operands.
    call: Callable[[Sequence[str], Sequence[str]], str] = format_call
    #: The helpers that the call names, as code.
    helpers: Sequence[str] = ()


class Repetition(NamedTuple):
    """A node that runs one program many times, in the form for a compiling backend.

    The operands of the node are the number of steps where it is ``counted``, then the
    values of the leaves of the program: those that are the same in each step, those of
    which each step takes an entry, and the first values of those that a step hands on.
    """

    #: The program of a step. Its first outputs are the values that it hands on, its
    #: last one says whether to stop, if there is an end.
    body: Any
    #: How many leaves are the same, are taken entry by entry, are handed on.
    consts: int
    seqs: int
    carries: int
    #: For each result what it is: ``("last", i)``, the last value of a carry;
    #: ``("rows", i)``, an output of the program in all steps; ``("marks", i)``, a carry
    #: before every so many steps; ``("count", 0)``, the number of steps.
    results: Sequence[tuple[str, int]]
    #: The number of steps, or the most; None where the first operand tells.
    steps: int | None = None
    reverse: bool = False
    #: The last output of the program ends it.
    until: bool = False
    #: After how many steps the values of ``marks`` are taken.
    every: int = 0
    #: It is an error if the program has not ended after the most steps.
    limited: bool = False


class Choice(NamedTuple):
    """A node that runs one of two programs, in the form for a compiling backend.

    The first operand tells whether it is the first; the others are the values of the
    leaves of either.
    """

    branches: tuple[Any, Any]


#: How NVRTC compiles the source of a `CudaCall`.
CUDA_OPTIONS = ("--std=c++17",)


class CudaCall(NamedTuple):
    """A node that is one launch of a CUDA function, in the form for the GPU's backend.

    Its arguments are pointers to the operands and then to the results, whose entries
    lie one after the other, and the numbers. Results hold zeros when it begins.
    """

    #: The whole text, and the function in it.
    source: str
    name: str
    blocks: int
    threads: int
    #: NumPy's scalars, each as wide as the function takes it.
    numbers: tuple[Any, ...]


class Root:
    """The derivatives of half the square of an op that is a root: ``y * dy``.

    Attributes
    ----------
    fill
        Makes its rules, called as ``pull`` and ``push`` of an op, when one is needed.
    rule
        Both rules in plain mathematics, for the picture.
    squares
        Whether half the square is half the sum of the squares of the operands, each
        times its conjugate.
    infinite
        Whether the slope of the op is infinite where it is 0, not taken as 0.
    holds
        ``holds(inputs) -> bool``, whether it is a root with these operands.
    """

    __slots__ = ("_rules", "fill", "holds", "infinite", "rule", "squares")

    def __init__(
        self,
        fill: Callable[[], tuple[PullRule, PushRule]],
        rule: str,
        squares: bool = False,
        infinite: bool = False,
        holds: Callable[[tuple[Any, ...]], bool] = lambda inputs: True,
    ) -> None:
        self.fill, self.rule = fill, rule
        self.squares, self.infinite, self.holds = squares, infinite, holds
        self._rules: tuple[PullRule, PushRule] | None = None

    @property
    def pull(self) -> PullRule:
        """The rule of reverse mode."""
        return self._find_rules()[0]

    @property
    def push(self) -> PushRule:
        """The rule of forward mode."""
        return self._find_rules()[1]

    def _find_rules(self) -> tuple[PullRule, PushRule]:
        if self._rules is None:
            self._rules = self.fill()
        return self._rules


class Limit(NamedTuple):
    """The derivative of an op where values coincide, as those of eigenvalues may.

    Its outputs are values and vectors. Where values are equal, what is made of both has
    a derivative that no rule for them alone can know: it is the limit where the values
    move apart and the vectors stay (see `autodiff/limits.py`).
    """

    #: Which output holds the values.
    values: int
    #: ``coincide(y)``: whether values are equal, for each matrix of the stack.
    coincide: Callable[[Any], Any]
    #: ``turn(y) -> y``: outputs that are as good, with values that are equal to the
    #: last bit, and another choice of their vectors.
    turn: Callable[[Any], tuple[Any, ...]]
    #: ``pull(along, g, y, inputs, params) -> cotangents``: where ``along`` is None, the
    #: reverse rule without what goes through equal values. Else that part alone, with
    #: what is divided by 0 divided by what these tangents of the values are apart.
    pull: Callable[..., Sequence[Any]]
    #: ``push(along, tangents, y, inputs, params) -> tangents``: the same forward.
    push: Callable[..., tuple[Any, ...]]


def is_always_view(params: dict[str, Any]) -> bool:
    """Return the `View.shares` of an op that never copies."""
    return True


class View(NamedTuple):
    """An op with a result that NumPy returns as a view of its operand."""

    #: ``shares(params) -> bool``, whether the result shares memory with the operand.
    shares: Callable[[dict[str, Any]], bool] = is_always_view
    #: ``put(x, part, params) -> x``: the operand whose view is ``part``. None: found by
    #: the places that the view shows.
    put: Callable[[Any, Any, dict[str, Any]], Any] | None = None
    #: Nobody may write to it.
    read_only: bool = False
    #: NumPy copies where the layout of the operand wants it.
    may_copy: bool = False


class Reading(NamedTuple):
    """Which entries an op reads, as plain NumPy that reads the same (`Op.pattern`).

    >>> import numpy as np
    >>> whole_rows = Reading(lambda x: np.sum(x, axis=-1, keepdims=True))
    """

    #: ``body(*operands, **params)`` gives an array for each result, which is broadcast
    #: to its shape, or None for one without derivative. Entries of it depend on those
    #: of the operands that the entries of the result depend on.
    body: Callable[..., Any]
    #: It computes the same as the op, and has its second derivatives too.
    is_same: bool = False


class Op:
    """One kind of computation: value, result type, both derivatives, batching.

    Attributes
    ----------
    name
        What users type to override it, ``"tanh"``.
    compute
        ``compute(*arrays, **params) -> array``, or a tuple of arrays for an op
        with several outputs. Plain NumPy: it also runs on CuPy arrays.
    pull
        Reverse mode, ``pull(mask, g, y, inputs, params) -> cotangents``: one
        cotangent (or None) per input; bit i of ``mask`` says that input i needs
        one. Plain NumPy on arrays or Tensors. None: the op has no derivative;
        what flows back through it is nothing.
    push
        Forward mode, ``push(tangents, y, inputs, params) -> tangent``, with None
        for an input that does not vary. None: the transpose of ``pull``.
    batch
        ``batch(inputs, batched, params) -> output`` with the batch axis first
        wherever ``batched`` is true, or a word of `ops.define.BATCHES`. None: a loop,
        as where the rule returns NotImplemented.
    connection
        ``connection(inputs, params) -> rows``: one row per input, and in it for each
        output whether it depends on that input's values (Theano's connection pattern).
        None: every output depends on every input. An input that is not connected has no
        gradient, which differs from a gradient of zero.
    infer
        ``infer(*specs_or_values, **params) -> Spec``. None: run ``compute`` on
        examples that take no memory. Shapes and settings hold `Dim`s where a length is
        known only when the program runs; what needs a number then raises an
        `UnknownLengthError`, and the lengths of the result are measured.
    rule
        The gradient in plain mathematics, for the picture.
    lengths
        ``lengths(*specs_or_values, **params) -> Spec``, asked in place of ``infer``
        where a length is unknown, and in place of ``compute`` where an example would
        be large. The shapes alone will do: the dtypes are asked at small numbers, with
        the same settings.
    traits
        What else is known of its mathematics (`Traits`), for those who examine, rewrite
        and explain programs.
    masked
        The op in its place when an operand is a masked cotangent: the same, but a
        factor that is 0 wins over infinity and NaN.
    finite
        Of such an op the one that gives the same wherever its result is finite. None:
        there is none.
    cure
        What to write instead when shapes do not fit.
    reads
        Which values ``pull`` reads: ``"y"`` for the output, integers for inputs;
        the picture draws them as saved values. None: not known.
    partial_reads
        The same for the cotangent of each input alone. None: as ``reads``.
    partials
        The partial derivative by each input, as an expression of ``x`` (or ``x0``,
        ``x1``), ``y`` and NumPy's functions: who looks for second derivatives reads
        there what it varies with. Nothing: that is not known.
    pattern
        Which entries of each operand an entry of the result depends on: a word for what
        several ops do (``"moved"``, ``"added"``, ``"lines"``, ...), of which
        `autodiff.sparse.rules.RELATIONS` has all; a `Reading`; or
        ``pattern(node) -> relations``. None: it follows from what else the row says
        (``elementwise``, ``carries``, ``joins``, ``kind``), from the body, of a linear
        op from trials; else it is dense.
    limit
        The derivative where values among the outputs coincide. None: the rules know.
    tighten
        ``tighten(params) -> params``, the settings with which the op and its rules give
        the last digits too, for checks, where a solver stops at a tolerance. None: they
        do.
    unfold
        ``unfold(values, params) -> outputs``, what ``compute`` gives by the ops that
        it is made of, each recorded where values are Tensors: for backends and
        analyses, which know these. None, as where it gives None: there are none.
    graphs
        ``graphs(inputs, params) -> graphs``, the programs that a node holds: the step
        of a loop, the branches of a choice. The rules of such an op take one more
        argument, the rules of overrides for nodes in there, or None. None: it holds
        none.
    repeats
        Whether those programs run many times, one run after the other.
    inner_sources
        ``inner_sources(node) -> pairs``, each leaf of those programs and what it takes
        its values from.
    lower
        ``lower(node, backend)``, what a node that holds programs, or code of its own,
        is to a backend of that name. No backend knows loops, branches or the kernels of
        users; it asks here. To ``"numpy"`` it is a `Lowering`: functions of its own,
        and their call. To ``"compiled"`` it is a `Repetition` or a `Choice`, to
        ``"cupy"`` a `CudaCall`. None, as where there is no ``lower``: ``compute`` is
        called.
    hoist
        ``hoist(values, params) -> outputs``, the same as ``compute`` by a loop whose
        steps do less, and by what stands before and after it: for backends that
        compile. None: the op itself.
    template
        How the text of a program writes it: Python code with ``{0}`` for an operand,
        ``{all}`` for all of them, ``{index:1}`` for the index whose arrays are the
        operands from 1 on, ``{name}`` for a setting, ``{more}`` for the other settings;
        brackets are put in where operators need them. Or a function of the node that
        gives such code, or a pair of it and a dict of what it names besides settings.
        None (or nothing): a call by its name.
    helper
        The code of a function that the text defines where it calls it.
    output_names
        What several outputs are called where the user has not named them.
    inline
        Whether a backend puts the ops of its one graph in the place of its nodes.
    elementwise
        It works entry by entry, with broadcasting.
    scalar
        What one entry of an elementwise op is, for the kernels of backends: an
        expression of ``x`` (or ``x0``, ``x1``) and NumPy's functions by their names.
        Nothing: backends have it as a primitive, call the loop of its ``ufunc``, or
        leave it to NumPy.
    ufunc
        The ufunc of NumPy or SciPy that it computes; its loops tell in which dtype.
        None: it computes none.
    passes
        It hands its first operand on: the entries are the same, in the same order.
    kind
        What it does, of an op of a kind that others treat alike: "reduction" of axes,
        "running" (a reduction of each beginning of an axis), "update" of an array at
        the index ``key``, "join" of operands along an axis, "window" (first rows of an
        operand, as many as another one says), "order" (indices that sort), "matrix"
        (a system of equations, or a factor, of each matrix of a stack).
    combines
        The ufunc by which such an op makes one entry of two. None: an update takes the
        place of what is there.
    keeps
        Its one input, its output and both derivatives share shape and dtype, so
        the backward sweep need not compare them.
    custom
        A user has made it: the text of a program hands its ``compute`` over, and does
        not look for its name in NumPy.
    calls_back
        ``compute`` runs functions of users, or a solver on them: what these raise is
        theirs, and says nothing of the op's operands.
    view
        How NumPy's result shares memory with the operand (`View`). None: it has memory
        of its own.
    root
        What it is where its result is the root of something smooth (`Root`): a length,
        which has a kink at 0 that its even powers have not. None: it is none.
    carries
        The operands, by place, of each of which an entry of the result is one entry,
        or such an entry times what does not depend on it.
    joins
        The first of the operands, to the last, of which the result is put together:
        each entry is one of theirs. None: it is not so.
    even
        ``even(inputs) -> scale`` of a function of the square of its first operand:
        ``scale(g)`` is ``g`` times the derivative by that over that itself, as of
        ``x**2`` it is ``2 * g``. None for one that is not even, here or as ``scale``.
    pairs
        ``pairs(inputs, params) -> bool``, whether it multiplies two operands entry by
        entry, and may sum the products. None: it does not.
    maker
        What the user calls, of an op whose name others may have too. None: the name
        tells it.
    compute_into
        ``compute_into(*arrays, **params) -> array``, the same as ``compute``, written
        into the first operand, an array of the shape and dtype of the result that
        nobody else holds. None: there is none.
    pull_into
        ``pull_into(mask, numbers) -> pull``, the reverse rule for these inputs that may
        write into ``g``. The operands are real arrays of its shape and dtype, those in
        the mask ``numbers`` Python numbers. None: there is none.
    fill_rules
        Called when ``pull``, ``push``, ``rule`` or what ``pull`` reads is first looked
        at and nobody has set it, to set them all: a table of a hundred rows costs its
        compiling only for the rows in use.
    """

    __slots__ = (
        "batch",
        "calls_back",
        "carries",
        "combines",
        "compute",
        "compute_into",
        "connection",
        "cure",
        "custom",
        "elementwise",
        "even",
        "fill_rules",
        "finite",
        "graphs",
        "helper",
        "hoist",
        "infer",
        "inline",
        "inner_sources",
        "joins",
        "keeps",
        "kind",
        "lengths",
        "limit",
        "lower",
        "maker",
        "masked",
        "name",
        "output_names",
        "pairs",
        "partial_reads",
        "partials",
        "passes",
        "pattern",
        "pull",
        "pull_into",
        "push",
        "reads",
        "repeats",
        "root",
        "rule",
        "scalar",
        "template",
        "tighten",
        "traits",
        "ufunc",
        "unfold",
        "view",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.compute: ComputeRule = _raise_undefined
        self.fill_rules: Callable[[], None] = self._set_defaults
        self.batch: BatchRule | str | None = None
        self.connection: Callable[..., Sequence[Sequence[bool]]] | None = None
        self.infer: InferRule | None = None
        self.lengths: InferRule | None = None
        self.limit: Limit | None = None
        self.maker: Any = None
        self.unfold: (
            Callable[[Sequence[Any], dict[str, Any]], Sequence[Any] | None] | None
        ) = None
        self.graphs: Callable[..., Sequence[Any]] | None = None
        self.inner_sources: Callable[[Any], Sequence[tuple[Any, Any]]] | None = None
        self.lower: Callable[[Any, str], Any] | None = None
        self.hoist: Callable[[Sequence[Any], dict[str, Any]], Sequence[Any]] | None = (
            None
        )
        self.template: str | Callable[[Any], Any] | None = None
        self.masked: Op | None = None
        self.finite: Op | None = None
        self.compute_into: ComputeRule | None = None
        self.pull_into: Callable[[int, int], PullRule] | None = None
        self.tighten: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self.view: View | None = None
        self.pattern: str | Reading | Callable[[Any], Any] | None = None
        self.cure = self.helper = self.scalar = self.kind = ""
        self.partials: tuple[str, ...] = ()
        self.ufunc: np.ufunc | None = None
        self.combines: np.ufunc | None = None
        self.output_names: tuple[str, ...] = ()
        self.root: Root | None = None
        self.even: Callable[[tuple[Any, ...]], Callable[[Any], Any] | None] | None = (
            None
        )
        self.pairs: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None
        self.carries: tuple[int, ...] = ()
        self.joins: int | None = None
        self.traits = UNKNOWN
        self.custom = False
        self.calls_back = False
        self.elementwise = False
        self.passes = False
        self.inline = False
        self.repeats = False
        self.keeps = False

    pull: PullRule | None
    push: PushRule | None
    rule: str
    reads: tuple[int | str, ...] | None
    partial_reads: Sequence[Collection[int | str]] | None

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in RULE_DEFAULTS:
            raise AttributeError(f"an op has no attribute {attribute!r}")
        # A second thread waits: half filled, an op looks like one without derivative.
        with FILLING:
            fill_rules, self.fill_rules = self.fill_rules, self._set_defaults
            try:
                fill_rules()
            except BaseException:
                self.fill_rules = fill_rules
                raise
            return getattr(self, attribute)

    def _set_defaults(self) -> None:
        """Set the rules that nobody has set: the op has no derivative."""
        for attribute, value in RULE_DEFAULTS.items():
            try:
                object.__getattribute__(self, attribute)
            except AttributeError:
                setattr(self, attribute, value)

    @property
    def chooses(self) -> bool:
        """True if each entry equals an entry of one operand, as for `where`."""
        return self.elementwise and self.joins is not None

    @property
    def has_own_rule(self) -> bool:
        """True if a rule of its own stands in for the derivatives of its graphs.

        Overrides of nodes in there mean nothing then.
        """
        return False

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: Any) -> Op:
        return self

    def __reduce__(self) -> Any:
        """Pickle an op of the table by its name; others say how themselves."""
        if OPS.get(self.name) is self:
            homes = {
                str(getattr(f, "__module__", None))
                for f in (self.compute, self.pull, self.push, self.lower)
            }
            # A rule that was written as a formula is in no module that there is.
            own = sorted(
                x for x in homes if x.startswith("workbench.") and x in sys.modules
            )
            return find_op, (self.name, *own)
        raise TypeError(
            f"{self!r} cannot be pickled: a function has made it while a program was"
            " recorded. Pickle the function itself, and record it anew there."
        )


#: Held while the rules of an op are filled in, which may look at other ops.
FILLING = RLock()

RULE_DEFAULTS: dict[str, Any] = {
    "pull": None,
    "push": None,
    "rule": "",
    "reads": None,
    "partial_reads": None,
}


def connect_nothing(
    inputs: tuple[Any, ...], params: dict[str, Any]
) -> list[list[bool]]:
    """Return the ``connection`` of an op with an output independent of its inputs."""
    return [[False] for _ in inputs]


def _raise_undefined(*arrays: Any, **params: Any) -> NoReturn:
    raise NotImplementedError("this op was declared but never defined")


class ViewParams(dict[str, Any]):
    """The settings of a node that makes an array of its own where NumPy has a view."""

    #: A weak reference to the array that stands for the view, if not the node does.
    holder: Any = None


class CopyParams(dict[str, Any]):
    """The settings of a node that makes a view where NumPy has an array of its own."""


class RavelParams(dict[str, Any]):
    """The settings of a reshape that copies non-contiguous arrays, as `numpy.ravel`."""


#: Every op by its name.
OPS: dict[str, Op] = {}

#: Those with a `root` or a `limit`: a sweep asks of each node whether it is one.
SINGULAR: set[Op] = set()

#: What users have made (see `workbench/custom`), by the names of their ops.
CUSTOM: dict[str, Any] = {}

#: The op behind each NumPy (or SciPy) ufunc.
UFUNCS: dict[Any, Op] = {}

#: What answers a ufunc that several ops make up: ``np.divmod``.
CALLS: dict[Any, Callable[..., Any]] = {}

#: What answers a NumPy function when a Tensor is among its arguments.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


#: What shape such a function's result has (a list for several), where its answer needs
#: a length that is not known yet. None in place of a length: it is measured.
LENGTHS: dict[Any, Callable[..., Any]] = {}

#: What answers a method or attribute of an array, by NumPy's own: ``np.ndarray.flat``;
#: and an operator with an array of another class, by that.
ATTRIBUTES: dict[Any, Callable[..., Any]] = {}

#: What makes an operand of an object beside Tensors, by its class: of an object array,
#: a list, a length.
OPERANDS: dict[type, Callable[[Any], Any]] = {}

#: Those NumPy functions that make an array for ``like=x`` and are not told of x.
MAKERS: set[Any] = set()


def note_traits(names: str, **traits: Any) -> None:
    """Set traits of ops, by their names; a row that many ops share cannot.

    >>> note_traits("add multiply", commutative=True)
    """
    for name in names.split():
        op = declare(name)
        op.traits = op.traits._replace(**traits)


def declare(name: str) -> Op:
    """Return the op of this name, made empty if not defined yet."""
    op = OPS.get(name)
    if op is None:
        op = OPS[name] = Op(name)
    return op


def find_op(name: str, *homes: str) -> Op:
    """Return the op of this name; load the modules of ops if unknown."""
    for home in homes:  # its rules, and what backends see of it, may stand apart
        import_module(home)
    if name not in OPS or OPS[name].compute is _raise_undefined:
        load_all_ops()
    return OPS[name]


def load_ops(function: object) -> bool:
    """Load the ops behind a function that nothing answers yet; False: there are none.

    SciPy's ufuncs name no module; they are those of `scipy.special`.
    """
    return load_ops_of(getattr(function, "__module__", None) or "scipy.special")


def load_ops_of(home: str) -> bool:
    """Load the ops behind a module of NumPy or SciPy; False: there are none."""
    module = hooks.OP_MODULES.get(home)
    if module is None:
        return False
    import_module(module)  # at once if it is loaded; waits if a thread is loading it
    return True


def load_all_ops() -> None:
    """Load every op, for readers of the whole table."""
    for module in hooks.OP_MODULES.values():
        import_module(module)
    hooks.call_deferred.load()


# Which calls of NumPy's functions write into an argument


@cache
def find_out(function: Any) -> int:
    """Return which of a function's arguments ``out`` is by its place; -1 for none."""
    if function not in FUNCTIONS and not load_ops(function):
        return -1
    try:
        names = inspect.signature(FUNCTIONS[function]).parameters
    except (KeyError, ValueError):
        return -1
    found = names.get("out")
    if found is None or found.kind is found.KEYWORD_ONLY:
        return -1
    return list(names).index("out")


def has_out(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call names an array for its result."""
    if kwargs.get("out") is not None:
        return True
    if len(args) < 3:
        return False
    place = find_out(function)
    return 0 < place < len(args) and args[place] is not None


WRITERS = frozenset(
    {np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal}
)


def writes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of a function of NumPy writes into an argument."""
    # That of `np.nan_to_num`: a handle must arrive there, not the node behind it.
    in_place = kwargs.get("copy", True) is False
    return in_place or function in WRITERS or has_out(function, args, kwargs)


def implements(
    *functions: Any, lengths: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Answer these NumPy functions with the decorated one for Tensors."""

    def register(answer: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = answer
            if lengths is not None:
                LENGTHS[function] = lengths
        return answer

    return register
