"""The types of all that travels between the kernel and the page, or is saved.

They are declared here and nowhere else. `schema.py` writes them as JSON Schema and
checks data from outside by it; `extension/wire.py` writes that schema and the types of
the page, which checks what it gets by the same schema. A field with a default may be
absent: older kernels, pages and notebooks do not have it.
"""

# Annotations are no strings here: it takes five times as long to read them as such.
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from workbench.session.statistics import Distribution

#: The version of everything below. A reader refuses a newer one, and takes what an
#: older one lacks as absent: 2 added checks, findings, history and matrices.
SCHEMA = 2

#: The MIME type of a saved picture, which is drawn without a kernel.
MIME_TYPE = "application/vnd.workbench.graph+json"

#: The largest things that are read; beyond them a browser would stall.
MOST_NODES, MOST_EDGES, MOST_STRINGS = 1_000_000, 4_000_000, 1_000_000
#: The longest text, the longest one that a program may need, and what a page may ask.
MOST_CHARACTERS, MOST_CODE, MOST_TEXT = 20_000, 100_000, 2000
#: The most rules that a page may switch off.
MOST_RULES = 1000
#: The most runs that a saved picture holds, and the most characters of their norms.
MOST_MOMENTS, MOST_MOMENT_BYTES = 200, 2**16
#: The longest list, where the type says nothing else.
MOST_ITEMS = 10_000


class Meta:
    """Keywords of JSON Schema that a type does not say by itself, and these of ours.

    ``sizes`` names what a field counts; ``below`` and ``most`` are such a name: an
    index below that size, a list of at most so many. ``choose`` is a default by
    another field, which is true or false: its name, and the default for each.
    ``encoded`` is base64, ``part`` the type that an object has some fields of.
    """

    def __init__(self, **keywords: object) -> None:
        self.keywords = keywords


#: The rows of the columns of statistics, in this order; ``bad`` counts the entries that
#: are NaN or infinite: 0 is a healthy array, NaN none.
STATISTICS = ("min", "max", "mean", "std", "norm", "bad")
#: What a node is: its code in the column `kind`.
KINDS = ("input", "constant", "op")
#: What a check says of a node's rule: its code in the column `check`.
STATUSES = ("unchecked", "right", "wrong", "kink", "unsure", "overridden")
#: What a check says of gradients; "changed" is on purpose. Older pictures of schema 2
#: say only whether they are wrong.
Outcome = Literal["right", "wrong", "changed"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "changed")
#: What the page can have drawn of derivatives: heat maps of a Jacobian and of the
#: output's Hessian, singular values of the one and eigenvalues of the other, which
#: entries are not zero, the errors of gradients, and the error of differences against
#: their step.
PLOT_KINDS = (
    "jacobian",
    "hessian",
    "singular",
    "spectrum",
    "sparsity",
    "check",
    "steps",
)

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
Span = Annotated[list[int], Meta(minItems=2, maxItems=2)]
Status = Annotated[str, Meta(title="Status", enum=STATUSES)]
PlotKind = Annotated[str, Meta(title="PlotKind", enum=PLOT_KINDS)]
ColumnName = Annotated[str, Meta(title="ColumnName", enum=tuple(COLUMNS))]
Verdict = Annotated[
    Outcome, Meta(title="Outcome"), Meta(choose=("ok", "right", "wrong"))
]


class Column(TypedDict):
    """One buffer: which column it is, and its length."""

    name: ColumnName
    dtype: Annotated[Dtype, Meta(title="ColumnDtype")]
    length: Annotated[int, Meta(minimum=0, maximum=MOST_EDGES * len(STATISTICS))]


ColumnList = Annotated[list[Column], Meta(maxItems=len(COLUMNS))]


class NodeTarget(TypedDict):
    """An override of one node."""

    kind: Literal["node"]
    node: Node


class OpTarget(TypedDict):
    """An override of all nodes of an op."""

    kind: Literal["op"]
    op: Text


class ScopeTarget(TypedDict):
    """An override of all nodes of a scope."""

    kind: Literal["scope"]
    scope: Text


class OtherTarget(TypedDict):
    """An override that only Python can make: of a pattern, or by a function."""

    kind: Literal["other"]
    text: Text


TargetData = Annotated[
    NodeTarget | OpTarget | ScopeTarget | OtherTarget, Meta(title="Target")
]


class EffectData(TypedDict):
    """The effect of an override on the gradient by one input."""

    node: Node
    name: Text
    #: ‖g − g_true‖ / ‖g_true‖
    relative: float | None
    #: The angle between the two, in degrees.
    angle: float | None


class OverrideData(TypedDict):
    """One override of a session."""

    id: int
    label: Text
    #: The expression, the named rule, or the name of a Python function.
    rule: Text
    #: Whether the rule is a text that the page can edit.
    data: bool
    #: Whether the rule can be saved: a text or a list of nodes.
    stored: Annotated[bool, Meta(choose=("data", True, False))]
    target: TargetData
    #: The steps of a loop as a subscript has them: "3", "10:20"; "" for all.
    steps: Annotated[Text, Meta(default="")]
    enabled: bool
    #: The nodes whose gradient it gives; of a pattern the last node of each match.
    matched: NodeList
    #: The other nodes of its matches: their own rules do not run.
    covered: Annotated[NodeList, Meta(default=[])]
    #: Why another override comes first for some of its nodes.
    note: Annotated[Text, Meta(default="")]
    effects: Annotated[list[EffectData], Meta(most="nodes")]
    #: The line of Python that does the same.
    code: Code


class NodeCheckData(TypedDict):
    """One node of a gradient check that is worth a line."""

    node: Node
    status: Status
    #: "rev" or "fwd".
    mode: Text
    #: The worst entry, "x[3, 1]"; empty where there is none.
    place: Text
    expected: float | None
    got: float | None
    #: The error in tolerances.
    ratio: float | None
    text: Text


class GradientCheckData(TypedDict):
    """The gradient of the whole program by one input in one mode, or an equation."""

    name: Text
    mode: Text
    ok: bool
    verdict: Verdict
    #: The change on purpose, relatively to the true gradient; None without one, or
    #: beyond comparison.
    change: Annotated[float | None, Meta(default=None)]
    #: The labels of what changes it.
    by: Annotated[list[Text], Meta(default=[])]
    text: Text


class StatusCounts(TypedDict):
    """The number of nodes that have each status."""

    unchecked: Annotated[NodeCount, Meta(default=0)]
    right: Annotated[NodeCount, Meta(default=0)]
    wrong: Annotated[NodeCount, Meta(default=0)]
    kink: Annotated[NodeCount, Meta(default=0)]
    unsure: Annotated[NodeCount, Meta(default=0)]
    overridden: Annotated[NodeCount, Meta(default=0)]


class CheckData(TypedDict):
    """The last gradient check of a session."""

    #: Whether nothing is wrong.
    ok: bool
    verdict: Verdict
    #: The changes on purpose in words: by what, and how large.
    changes: Annotated[Text, Meta(default="")]
    #: Whether it was stopped before its end.
    stopped: bool
    #: Whether the session has changed since.
    stale: bool
    summary: Text
    counts: StatusCounts
    #: The first nodes that are not simply right, the wrong ones before the others.
    nodes: list[NodeCheckData]
    gradients: list[GradientCheckData]


class EditData(TypedDict):
    """A change of the source of a cell: whole lines, and what to write there."""

    #: The number that the cell ran under.
    cell: Count
    #: The first of these lines, from 1.
    line: Annotated[int, Meta(minimum=1)]
    before: list[Text]
    after: list[Text]


class FixData(TypedDict):
    """The cure of a finding."""

    text: Text
    code: Text
    #: Whether the page can attach it; otherwise the program has to change.
    attachable: bool
    #: How the program has to change, where that is certain.
    edit: NotRequired[EditData]


class FindingData(TypedDict):
    """One thing that the doctor found."""

    kind: Text
    severity: Literal["error", "warning", "note"]
    node: Node
    #: From the node to blame to where it shows.
    path: Annotated[list[Node], Meta(most="nodes")]
    sweep: Literal["forward", "backward"]
    title: Text
    evidence: Text
    cause: Text
    fix: FixData | None


class FindingsData(TypedDict):
    """The doctor's findings, most important first."""

    stale: bool
    stopped: bool
    list: list[FindingData]


class ProfileStepData(TypedDict):
    """A step of a run that computes several nodes at once: a kernel."""

    #: "kernel 2"
    name: Text
    #: "exp, 2 multiply, sum", and how many these are.
    ops: Text
    count: Count
    time: float
    bytes: float


class ProfileData(TypedDict):
    """What the last profile of a session measured."""

    #: Whether other overrides hold now.
    stale: bool
    backend: Text
    #: Seconds and bytes of one run.
    time: float
    bytes: float
    #: The dearest steps of several nodes.
    steps: list[ProfileStepData]


class MarkData(TypedDict):
    """A run at which something happened."""

    step: Count
    kind: Literal["nan", "explosion", "overrides"]
    #: The first node with a NaN or an infinity.
    node: Node | None
    text: Text


class TimelineData(TypedDict):
    """The runs of a session in at most some hundred points, with the peaks of the loss.

    In a patch only the points that are new, after so many that stay.
    """

    #: How many runs there were; they are counted from 1.
    count: Count
    keep: Annotated[Count, Meta(default=0)]
    steps: list[Count]
    losses: list[float | None]
    #: The norm of the gradient by all ``wrt``; None where it was not measured.
    gradients: list[float | None]
    marks: list[MarkData]


class HistoryData(TypedDict):
    """The changes, oldest first, and those undone, in the order of redo."""

    done: list[Text]
    undone: list[Text]


class ErrorData(TypedDict):
    """Why a cell failed half-way, and at which node if that is known."""

    node: Node | None
    message: Text


class Header(TypedDict):
    """A snapshot without its buffers."""

    schema: int
    #: The version of workbench that wrote it.
    version: Text
    session: Text
    nodes: Annotated[NodeCount, Meta(sizes="nodes")]
    edges: Annotated[int, Meta(minimum=0, maximum=MOST_EDGES)]
    #: The node that was differentiated; -1 for a cell that failed.
    output: Annotated[int, Meta(minimum=-1, below="nodes")]
    output_name: Text
    #: Its value if that is a finite scalar.
    output_value: float | None
    wrt: NodeList
    #: The nodes that hold programs, which can be looked into: loops, ops of graphs.
    holders: Annotated[NodeList, Meta(default=[])]
    strings: Annotated[list[Code], Meta(maxItems=MOST_STRINGS)]
    columns: ColumnList
    overrides: list[OverrideData]
    #: The next change that undo and redo would make.
    undo: Text | None
    redo: Text | None
    history: Annotated[HistoryData, Meta(default={"done": [], "undone": []})]
    check: Annotated[CheckData | None, Meta(default=None)]
    findings: Annotated[FindingsData | None, Meta(default=None)]
    profile: Annotated[ProfileData | None, Meta(default=None)]
    #: The runs; None before the first.
    timeline: Annotated[TimelineData | None, Meta(default=None)]
    #: What the next run is computed by.
    backend: Text
    #: The GPU on which the values lie; absent on the CPU.
    device: NotRequired[Text]
    #: Seconds of the last forward and backward run together.
    seconds: float
    error: ErrorData | None


Buffer = Annotated[str, Meta(encoded="base64", maxLength=2**28)]


class MomentsData(TypedDict):
    """Some past runs of a saved picture, so that it can be scrubbed and compared."""

    steps: Annotated[list[Count], Meta(maxItems=MOST_MOMENTS)]
    losses: Annotated[list[float | None], Meta(maxItems=MOST_MOMENTS)]
    #: The overrides of each run in words, where they are not those of the picture.
    overrides: Annotated[list[Text | None], Meta(maxItems=MOST_MOMENTS)]
    #: A row for each run, as 4-byte floats: the norms of all values, of all gradients,
    #: and of what flows back along all edges; -1 where there is nothing.
    norms: Annotated[str, Meta(encoded="base64", maxLength=MOST_MOMENT_BYTES)]


class Saved(TypedDict):
    """The data that a notebook holds under the MIME type."""

    schema: int
    #: The live widget that it is the picture of.
    model_id: Text
    header: Header
    buffers: Annotated[list[Buffer], Meta(maxItems=len(COLUMNS))]
    #: None without runs, and where two of them would be too much to keep.
    moments: Annotated[MomentsData | None, Meta(default=None)]


# Kernel to page. The page acknowledges each message by its number.


class SnapshotMessage(TypedDict):
    """Everything."""

    type: Literal["snapshot"]
    seq: int
    header: Header


class PatchMessage(TypedDict):
    """The fields and the columns that changed, each whole."""

    type: Literal["patch"]
    seq: int
    header: Annotated[dict[str, Any], Meta(part="Header")]
    columns: ColumnList


class DeviceKernelData(TypedDict):
    """A kernel of a GPU: which it is, and its text in CUDA."""

    #: "the value: kernel 2, with 3 other nodes"
    title: Text
    source: Code


class DetailBody(TypedDict):
    """All there is to say about one node."""

    node: Node
    #: The gradient rule in plain mathematics, "g · (1 − y²)".
    rule: Text | None
    #: The names of Tensors and the text of constants.
    inputs: Annotated[list[Text], Meta(maxItems=MOST_STRINGS)]
    params: Annotated[
        list[Annotated[list[Text], Meta(minItems=2, maxItems=2)]],
        Meta(maxItems=MOST_STRINGS),
    ]
    #: The code inside the op: a loop, branches, a kernel.
    code: Annotated[Text | None, Meta(default=None)]
    value: Distribution | None
    gradient: Distribution | None
    true_gradient: Distribution | None
    #: Small arrays in full, as NumPy prints them.
    array: Text | None
    gradient_array: Text | None
    #: What computes it: "CuPy op by op on NVIDIA H200".
    runs_on: NotRequired[Text]
    #: The kernels that compute its value and its rule.
    kernels: NotRequired[Annotated[list[DeviceKernelData], Meta(maxItems=2)]]


class Detail(DetailBody):
    """The answer to `inspect`."""

    type: Literal["detail"]
    seq: int
    request: int


class ExpressionAnswer(TypedDict):
    """The answer to `check-expression`."""

    type: Literal["expression"]
    seq: int
    request: int
    ok: bool
    message: Text


class MomentAnswer(TypedDict):
    """A run of the past, or another session: what to change in the picture to show it.

    Of the statistics of a run only norms are there; ``bad`` is 1 where one is not
    finite. Overrides are told where they are not those of the picture.
    """

    type: Literal["moment"]
    seq: int
    request: int
    #: The run whose norms are kept that is nearest to the one that was asked for; 0 for
    #: another session.
    step: Count
    header: Annotated[dict[str, Any], Meta(part="Header")]
    columns: ColumnList


class PeerData(TypedDict):
    """Another session of the notebook."""

    name: Text
    #: Why it cannot be compared; empty if it can.
    refused: Text


class PeersAnswer(TypedDict):
    """The other sessions of the notebook that have been shown."""

    type: Literal["peers"]
    seq: int
    request: int
    peers: list[PeerData]


class NormsAnswer(TypedDict):
    """The norms of a node over the runs; None where there is none."""

    type: Literal["norms"]
    seq: int
    request: int
    node: Node
    steps: list[Count]
    values: list[float | None]
    gradients: list[float | None]


class WindowData(TypedDict):
    """A part of a matrix: rows and columns, each from and to (excluded)."""

    rows: Span
    columns: Span


class MatrixData(TypedDict):
    """The matrix of a heat map; each cell stands for ``block`` entries each way."""

    kind: PlotKind
    of: Node
    wrt: NodeList
    #: The nodes between the two, both included.
    path: NodeList
    mode: Literal["forward", "reverse", ""]
    rows: Count
    columns: Count
    window: WindowData
    block: Span
    #: Of a pattern that follows from the program: how many colours the numbers of its
    #: cells are; 0 where they are shares of a block, as in one of values.
    colours: NotRequired[Count]


class FigureData(TypedDict):
    """A Plotly figure: the data of application/vnd.plotly.v1+json."""

    data: Annotated[list[Any], Meta(maxItems=MOST_STRINGS)]
    layout: dict[str, Any]


class PlotAnswer(TypedDict):
    """A figure, with the other plots of the same nodes."""

    type: Literal["plot"]
    seq: int
    request: int
    title: Text
    note: Text
    figure: FigureData
    matrix: Annotated[MatrixData | None, Meta(default=None)]
    views: Annotated[list[PlotKind], Meta(maxItems=len(PLOT_KINDS), default=[])]
    #: The overrides in force, "stop at h"; those left out if it is the true one.
    overrides: Annotated[list[Text], Meta(default=[])]
    #: Whether it is the true derivative of a program with overrides.
    is_true: Annotated[bool, Meta(default=False)]
    #: Of a gradient check what it says; "changed" where overrides are in force; None
    #: where nothing was checked.
    verdict: Annotated[Outcome | None, Meta(default=None)]
    #: Why all entries are zero; empty where they are not.
    zero: Annotated[Text, Meta(default="")]


class PassedData(TypedDict):
    """What a node passes on to one of its inputs, without an override and with it."""

    node: Node
    name: Text
    before: Distribution | None
    after: Distribution | None
    before_norm: float | None
    after_norm: float | None
    #: ‖after − before‖ / ‖before‖; None beyond comparison.
    change: float | None


class PreviewAnswer(TypedDict):
    """What a node would pass on with a rule that is not attached yet."""

    type: Literal["preview"]
    seq: int
    request: int
    node: Node
    passed: list[PassedData]


class RewriteData(TypedDict):
    """One step of a simplification."""

    rule: Text
    #: The table that the rule is from; empty for what no rule of a table does.
    group: Text
    #: How the result may differ.
    note: Text
    #: What stood there, and what stands there now, as code.
    before: Text
    after: Text
    #: Where the rule is written, "exact_rules.py:31"; empty for none.
    site: Text


class SimplificationAnswer(TypedDict):
    """The steps that simplify the derivative, without the rules that are off."""

    type: Literal["simplification"]
    seq: int
    request: int
    steps: list[RewriteData]
    #: How many steps there are in all; of very many only the first are listed.
    total: Count


class ProgramAnswer(TypedDict):
    """The derivative as a program after so many steps; its columns are the buffers.

    What the last step took away stands in it too, after all that is there, and is read
    by nothing else.
    """

    type: Literal["program"]
    seq: int
    request: int
    step: Count
    header: Header
    nodes: Annotated[NodeCount, Meta(sizes="nodes")]
    #: What tells each node from all others, at all steps.
    keys: Annotated[list[Key], Meta(most="nodes")]
    #: The node of the session that each belongs to; -1 for none.
    forward: Annotated[list[ForwardNode], Meta(most="nodes")]
    #: The nodes that the last step made, and those that it took away.
    came: NodeList
    went: NodeList
    #: The whole program as code; empty where that is long.
    text: Text


class PlaceData(TypedDict):
    """A node that holds a program, and the step of a loop, from 0."""

    node: Count
    step: int


Path = Annotated[list[PlaceData], Meta(minItems=1, maxItems=16)]


class InsideAnswer(TypedDict):
    """The program inside a node, at one step of a loop; its columns are the buffers."""

    type: Literal["inside"]
    seq: int
    request: int
    #: From a node of the session to the one that is open, with the step that is shown.
    path: Path
    #: The step of a loop, and how many there are; None for no loop.
    step: Count | None
    steps: Count | None
    #: Some of the steps, and the norm of the gradient that arrives at the state before
    #: each of them; None where it is not finite.
    marks: list[Count]
    norms: list[float | None]
    header: Header


class ProgressMessage(TypedDict):
    """The state of a long request; ``left`` are the seconds that it may take."""

    type: Literal["progress"]
    seq: int
    request: int
    done: float
    total: float
    left: Annotated[float | None, Meta(default=None)]


class DoneMessage(TypedDict):
    """The end of a long command, after the state that it led to."""

    type: Literal["done"]
    seq: int
    request: int


class FailureMessage(TypedDict):
    """The answer to a request that could not be met, or a notice."""

    type: Literal["failure"]
    seq: int
    request: int | None
    message: Text


KernelMessage = Annotated[
    SnapshotMessage
    | PatchMessage
    | Detail
    | ExpressionAnswer
    | MomentAnswer
    | PeersAnswer
    | NormsAnswer
    | PlotAnswer
    | PreviewAnswer
    | SimplificationAnswer
    | ProgramAnswer
    | InsideAnswer
    | ProgressMessage
    | DoneMessage
    | FailureMessage,
    Meta(title="KernelMessage"),
]


# Page to kernel. Events are counted from 1 in each view of the page.


class Event(TypedDict):
    """The fields of all events."""

    type: Literal["event"]
    seq: Annotated[int, Meta(default=0)]


class HelloEvent(Event):
    """The page is there: send a snapshot."""

    event: Literal["hello"]
    schema: int


class AckEvent(Event):
    """The message of this number has been drawn."""

    event: Literal["ack"]
    of: int


class Request(Event):
    """The fields of all events that are answered."""

    request: int


class InspectEvent(Request):
    """Ask for the details of a node."""

    event: Literal["inspect"]
    node: int
    #: Where the node is one of a program inside others: the way there.
    path: NotRequired[Path]


class MomentEvent(Request):
    """Ask for the norms of all nodes at a run of the past, or in another session."""

    event: Literal["moment"]
    step: Count
    #: The name of another session, which is shown as it is now.
    session: NotRequired[Typed]


class PeersEvent(Request):
    """Ask which other sessions there are, and which have the same program."""

    event: Literal["peers"]


class NormsEvent(Request):
    """Ask for the norms of a node over the runs."""

    event: Literal["norms"]
    node: int


class CheckExpressionEvent(Request):
    """Ask whether a rule would do for a target, or for that of override ``id``."""

    event: Literal["check-expression"]
    target: TargetData
    rule: Typed
    id: NotRequired[int]


class OverrideEvent(Request):
    """Attach a rule; with ``id``, in place of that override's rule and target.

    Without ``steps``, those of the override that is replaced stay.
    """

    event: Literal["override"]
    id: NotRequired[int]
    target: TargetData
    rule: Typed
    label: Typed
    steps: NotRequired[Typed]


class SwitchEvent(Request):
    """Switch an override on or off."""

    event: Literal["switch"]
    id: int
    enabled: bool


class RemoveEvent(Request):
    """Remove an override."""

    event: Literal["remove"]
    id: int


class EditEvent(Request):
    """Give an override another rule, whatever its target is."""

    event: Literal["edit"]
    id: int
    rule: Typed
    label: Typed
    steps: NotRequired[Typed]


class MoveEvent(Request):
    """Put an override at another place in the order; 0 is the first."""

    event: Literal["move"]
    id: int
    to: int


class UndoEvent(Request):
    """Go some changes back or forth."""

    event: Literal["undo", "redo"]
    steps: Annotated[int, Meta(default=1)]


class ExamineEvent(Request):
    """Check all rules and gradients, ask the doctor, or measure a run. Long."""

    event: Literal["check", "diagnose", "profile"]


class FixEvent(Request):
    """Attach the fix of a finding, by its position in the list."""

    event: Literal["fix"]
    finding: Count


class StopEvent(Request):
    """Stop a long request; what it has is kept."""

    event: Literal["stop"]
    of: int


class PlotEvent(Request):
    """Draw derivatives of a node by others. Long."""

    event: Literal["plot"]
    plot: PlotKind
    #: None: the session's output.
    of: Annotated[int | None, Meta(default=None)]
    #: Empty: the session's ``wrt``.
    wrt: Annotated[list[int], Meta(maxItems=MOST_NODES)]
    #: The part of the matrix to show; None: all of it.
    window: Annotated[WindowData | None, Meta(default=None)]
    #: Whether overrides are applied; false for the true derivative.
    overrides: Annotated[bool, Meta(default=True)]


class PreviewEvent(Request):
    """Ask what a node would pass on with a rule; the fields are `OverrideEvent`'s."""

    event: Literal["preview"]
    node: int
    id: NotRequired[int]
    target: TargetData
    rule: Typed
    steps: NotRequired[Typed]


class SimplifyEvent(Request):
    """Ask for the steps that simplify the derivative. Long."""

    event: Literal["simplify"]
    #: The rules that are switched off.
    without: Annotated[list[Typed], Meta(maxItems=MOST_RULES)]


class ProgramEvent(Request):
    """Ask for the derivative as a program after so many of these steps. Long."""

    event: Literal["program"]
    without: Annotated[list[Typed], Meta(maxItems=MOST_RULES)]
    step: Count


class InsideEvent(Request):
    """Ask for the program inside a node, at one step of a loop. Long."""

    event: Literal["inside"]
    path: Path


PageEvent = Annotated[
    HelloEvent
    | AckEvent
    | InspectEvent
    | MomentEvent
    | PeersEvent
    | NormsEvent
    | CheckExpressionEvent
    | OverrideEvent
    | SwitchEvent
    | RemoveEvent
    | EditEvent
    | MoveEvent
    | UndoEvent
    | ExamineEvent
    | FixEvent
    | StopEvent
    | PlotEvent
    | PreviewEvent
    | SimplifyEvent
    | ProgramEvent
    | InsideEvent,
    Meta(title="PageEvent"),
]
