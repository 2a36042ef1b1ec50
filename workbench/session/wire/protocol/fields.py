"""The kinds of fields, the limits of what is read, and the columns of a snapshot."""

from typing import Annotated, Literal, NamedTuple, NotRequired, TypedDict

from workbench.core.schema import Meta as Meta

#: The version of everything below; a reader refuses a newer one.
SCHEMA = 1
#: The largest number that can be such a version.
MOST_SCHEMA = 1000

#: The MIME type of a saved picture, which is drawn without a kernel.
MIME_TYPE = "application/vnd.workbench.graph+json"

#: The largest things that are read; beyond them a browser would stall.
MOST_NODES, MOST_EDGES, MOST_STRINGS = 1_000_000, 4_000_000, 1_000_000
#: The longest text, the longest one that a program may need, and what a page may ask.
MOST_CHARACTERS, MOST_CODE, MOST_TEXT = 20_000, 100_000, 2000
#: The most rules that a page may switch off, and axes of an array, as NumPy has it.
MOST_RULES, MOST_AXES = 1000, 64
#: The most runs that a saved picture holds, and the most characters of their norms.
MOST_MOMENTS, MOST_MOMENT_BYTES = 200, 2**16

#: The rows of the columns of statistics, in this order; ``bad`` counts the entries that
#: are NaN or infinite: 0 is a healthy array, NaN none.
STATISTICS = ("min", "max", "mean", "std", "norm", "bad")
#: What a node is: its code in the column `kind`.
KINDS = ("input", "constant", "op")
#: What a check says of a node's rule: its code in the column `check`.
STATUSES = ("unchecked", "right", "wrong", "kink", "unsure", "overridden")
#: What a check says of gradients; "changed" is on purpose.
Outcome = Literal["right", "wrong", "changed"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "changed")
Dtype = Literal["uint8", "int32", "float64"]


class ColumnRule(NamedTuple):
    """What a column holds: ``length`` entries, of ``low`` to before ``below``.

    Both are numbers or names of what the header counts: ``nodes``, ``edges``,
    ``strings``, ``overrides``, and the ``steps`` of its profile; ``starts`` and
    ``statistics`` are one more and six times as many as there are nodes. A column of
    any length has none.
    """

    dtype: Dtype
    length: str | None = "nodes"
    low: int | None = None
    below: str | int | None = None
    optional: bool = False


_STRING = ColumnRule("int32", low=-1, below="strings")
#: The columns in the order of their buffers, which are flat and little-endian. Edge e
#: is one input of one node; the inputs of node i are those from ``input_start[i]`` to
#: before ``input_start[i + 1]``, and all stand before it.
COLUMN_RULES: dict[str, ColumnRule] = {
    "kind": ColumnRule("uint8", low=0, below=len(KINDS)),
    # Positions in `strings`, -1 for none. A shape reads "569×16", "()" for a scalar; a
    # scope "encoder/layer1"; a place "[3]:1" or "net.py:20", whose line is `source`.
    "op": _STRING,
    "name": _STRING,
    "dtype": _STRING,
    "shape": _STRING,
    "scope": _STRING,
    "place": _STRING,
    "source": _STRING,
    # The line in the cell, from 1; -1 for none.
    "line": ColumnRule("int32"),
    "input_start": ColumnRule("int32", "starts"),
    "inputs": ColumnRule("int32", "edges"),
    # The nodes whose values the gradient rule of a node reads.
    "saved_start": ColumnRule("int32", "starts"),
    "saved": ColumnRule("int32", None, 0, "nodes"),
    # NaN where there is no value, no gradient, or no number.
    "value_stats": ColumnRule("float64", "statistics"),
    "grad_stats": ColumnRule("float64", "statistics"),
    # The gradient with all overrides off; absent without one.
    "true_stats": ColumnRule("float64", "statistics", optional=True),
    # The norm of what flows back along an edge; NaN where nothing does.
    "edge_norm": ColumnRule("float64", "edges"),
    # The same with all overrides off; absent without one.
    "true_edge_norm": ColumnRule("float64", "edges", optional=True),
    # ‖g − g_true‖ / ‖g_true‖ of a node's gradient; NaN where there is none.
    "change": ColumnRule("float64"),
    # The override whose rule a node runs, or lies within; -1 for the true rule.
    "override": ColumnRule("int32", low=-1, below="overrides"),
    # Absent without Python loops that the trace has unrolled: the loop that a node
    # stands in, and the iteration, from 0; -1 for none.
    "loop": ColumnRule("int32", low=-1, below="nodes", optional=True),
    "iteration": ColumnRule("int32", low=-1, below="nodes", optional=True),
    # Absent before the first check: a status, and the worst error in tolerances.
    "check": ColumnRule("uint8", low=0, below=len(STATUSES), optional=True),
    "check_ratio": ColumnRule("float64", optional=True),
    # Absent before the first profile: what a node's value and its gradient rule cost in
    # a run, in seconds and in bytes read and written; NaN for what is not computed. The
    # step that computes it with other nodes; -1 for one of its own.
    "value_time": ColumnRule("float64", optional=True),
    "value_bytes": ColumnRule("float64", optional=True),
    "value_step": ColumnRule("int32", low=-1, below="steps", optional=True),
    "rule_time": ColumnRule("float64", optional=True),
    "rule_bytes": ColumnRule("float64", optional=True),
    "rule_step": ColumnRule("int32", low=-1, below="steps", optional=True),
}
#: The dtypes of the columns.
COLUMNS = {name: rule.dtype for name, rule in COLUMN_RULES.items()}

# Kinds of fields

Text = Annotated[str, Meta(maxLength=MOST_CHARACTERS)]
Code = Annotated[str, Meta(maxLength=MOST_CODE)]
#: What a user has typed into the page.
Typed = Annotated[str, Meta(maxLength=MOST_TEXT)]
Count = Annotated[int, Meta(minimum=0)]
NodeCount = Annotated[int, Meta(minimum=0, maximum=MOST_NODES)]
Node = Annotated[int, Meta(minimum=0, below="nodes")]
#: A node of the session in a message about another program; -1 for none.
ForwardNode = Annotated[int, Meta(minimum=-1, maximum=MOST_NODES)]
#: The number of the step that made a node, and its place there: "0.12", "3.0".
Key = Annotated[str, Meta(maxLength=40)]
NodeList = Annotated[list[Node], Meta(maxItems=MOST_NODES)]
#: A loop by its number and an iteration of it; -1 and -1 for none.
Around = Annotated[
    list[Annotated[int, Meta(minimum=-1, maximum=MOST_NODES)]],
    Meta(minItems=2, maxItems=2),
]
Span = Annotated[list[int], Meta(minItems=2, maxItems=2)]
Status = Annotated[str, Meta(title="Status", enum=STATUSES)]
ColumnName = Annotated[str, Meta(title="ColumnName", enum=tuple(COLUMNS))]
Verdict = Annotated[
    Outcome, Meta(title="Outcome"), Meta(choose=("ok", "right", "wrong"))
]


#: The most entries of a column, and bytes.
MOST_LENGTH = MOST_EDGES * len(STATISTICS)
MOST_BYTES = 8 * MOST_LENGTH


class Column(TypedDict):
    """One buffer: which column it is, and its length."""

    name: ColumnName
    dtype: Annotated[Dtype, Meta(title="ColumnDtype")]
    length: Annotated[int, Meta(minimum=0, maximum=MOST_LENGTH)]


ColumnList = Annotated[list[Column], Meta(maxItems=len(COLUMNS))]
#: The most parts of one column that a patch replaces.
MOST_PARTS = 500


class PatchColumn(Column):
    """One buffer of a patch: a whole column, or the parts of it that changed.

    With ``base`` it begins as that column of the page as it was before the patch, and
    the buffer holds the entries of ``parts``, each from the first to before the second
    number, in rising order; ``length`` is that of the buffer.
    """

    base: NotRequired[ColumnName]
    parts: NotRequired[Annotated[list[Span], Meta(maxItems=MOST_PARTS)]]


PatchColumnList = Annotated[list[PatchColumn], Meta(maxItems=len(COLUMNS))]
