"""The picture of a session: its header, and what a notebook holds of it."""

from typing import Annotated, Literal, NotRequired, TypedDict

from workbench.checks.statistics import Distribution
from workbench.session.wire.protocol import fields

Texts = list[fields.Text]


class NodeTarget(TypedDict):
    """An override of one node."""

    kind: Literal["node"]
    node: fields.Node


class OpTarget(TypedDict):
    """An override of all nodes of an op."""

    kind: Literal["op"]
    op: fields.Text


class ScopeTarget(TypedDict):
    """An override of all nodes of a scope."""

    kind: Literal["scope"]
    scope: fields.Text


class OtherTarget(TypedDict):
    """An override that only Python can make: of a pattern, or by a function."""

    kind: Literal["other"]
    text: fields.Text


TargetData = Annotated[
    NodeTarget | OpTarget | ScopeTarget | OtherTarget, fields.Meta(title="Target")
]


class EffectData(TypedDict):
    """The effect of an override on the gradient by one input."""

    node: fields.Node
    name: fields.Text
    #: ‖g − g_true‖ / ‖g_true‖
    relative: float | None
    #: The angle between the two, in degrees.
    angle: float | None


class OverrideData(TypedDict):
    """One override of a session."""

    id: int
    label: fields.Text
    #: The expression, the named rule, or the name of a Python function.
    rule: fields.Text
    #: Whether the rule is a text that the page can edit.
    data: bool
    #: Whether the rule can be saved: a text or a list of nodes.
    stored: Annotated[bool, fields.Meta(choose=("data", True, False))]
    target: TargetData
    #: The steps of a loop as a subscript has them: "3", "10:20"; "" for all.
    steps: Annotated[fields.Text, fields.Meta(default="")]
    enabled: bool
    #: The nodes whose gradient it gives; of a pattern the last node of each match.
    matched: fields.NodeList
    #: The other nodes of its matches: their own rules do not run.
    covered: Annotated[fields.NodeList, fields.Meta(default=[])]
    #: Why another override comes first for some of its nodes.
    note: Annotated[fields.Text, fields.Meta(default="")]
    effects: Annotated[list[EffectData], fields.Meta(most="nodes")]
    #: The line of Python that does the same.
    code: fields.Code


class NodeCheckData(TypedDict):
    """One node of a gradient check that is worth a line."""

    node: fields.Node
    status: fields.Status
    #: "rev" or "fwd".
    mode: fields.Text
    #: The worst entry, "x[3, 1]"; empty where there is none.
    place: fields.Text
    expected: float | None
    got: float | None
    #: The error in tolerances.
    ratio: float | None
    text: fields.Text


class GradientCheckData(TypedDict):
    """The gradient of the whole program by one input in one mode, or an equation."""

    name: fields.Text
    mode: fields.Text
    ok: bool
    verdict: fields.Verdict
    #: The change on purpose, relatively to the true gradient; None without one, or
    #: beyond comparison.
    change: Annotated[float | None, fields.Meta(default=None)]
    #: The labels of what changes it.
    by: Annotated[list[fields.Text], fields.Meta(default=[])]
    text: fields.Text


class StatusCounts(TypedDict):
    """The number of nodes that have each status."""

    unchecked: Annotated[fields.NodeCount, fields.Meta(default=0)]
    right: Annotated[fields.NodeCount, fields.Meta(default=0)]
    wrong: Annotated[fields.NodeCount, fields.Meta(default=0)]
    kink: Annotated[fields.NodeCount, fields.Meta(default=0)]
    unsure: Annotated[fields.NodeCount, fields.Meta(default=0)]
    overridden: Annotated[fields.NodeCount, fields.Meta(default=0)]


class CheckData(TypedDict):
    """The last gradient check of a session."""

    #: Whether nothing is wrong.
    ok: bool
    verdict: fields.Verdict
    #: The changes on purpose in words: by what, and how large.
    changes: Annotated[fields.Text, fields.Meta(default="")]
    #: Whether it was stopped before its end.
    stopped: bool
    #: What was not looked at and why: a sentence for each reason.
    unchecked: Annotated[Texts, fields.Meta(default=[])]
    #: Whether the session has changed since.
    stale: bool
    summary: fields.Text
    counts: StatusCounts
    #: The first nodes that are not simply right, the wrong ones before the others.
    nodes: list[NodeCheckData]
    gradients: list[GradientCheckData]


class EditData(TypedDict):
    """A change of the source of a cell: whole lines, and what to write there."""

    #: The number that the cell ran under.
    cell: fields.Count
    #: The first of these lines, from 1.
    line: Annotated[int, fields.Meta(minimum=1)]
    before: list[fields.Text]
    after: list[fields.Text]


class FixData(TypedDict):
    """The cure of a finding."""

    text: fields.Text
    code: fields.Text
    #: Whether the page can attach it; otherwise the program has to change.
    attachable: bool
    #: How the program has to change, where that is certain.
    edit: NotRequired[EditData]


class FindingData(TypedDict):
    """One thing that the doctor found."""

    kind: fields.Text
    severity: Literal["error", "warning", "note"]
    node: fields.Node
    #: From the node to blame to where it shows.
    path: Annotated[list[fields.Node], fields.Meta(most="nodes")]
    sweep: Literal["forward", "backward"]
    title: fields.Text
    evidence: fields.Text
    cause: fields.Text
    fix: FixData | None


class FindingsData(TypedDict):
    """The doctor's findings, most important first."""

    stale: bool
    stopped: bool
    #: What was not looked at and why: a sentence for each reason.
    unchecked: Annotated[Texts, fields.Meta(default=[])]
    list: list[FindingData]
    #: The run that was examined; absent: what the picture shows.
    step: NotRequired[fields.Count]


class ProfileStepData(TypedDict):
    """A step of a run that computes several nodes at once: a kernel."""

    #: "kernel 2"
    name: fields.Text
    #: "exp, 2 multiply, sum", and how many these are.
    ops: fields.Text
    count: fields.Count
    time: float
    bytes: float


class ProfileData(TypedDict):
    """What the last profile of a session measured."""

    #: Whether other overrides hold now.
    stale: bool
    backend: fields.Text
    #: Seconds and bytes of one run.
    time: float
    bytes: float
    #: The dearest steps of several nodes.
    steps: list[ProfileStepData]


class MarkData(TypedDict):
    """A run at which something happened."""

    step: fields.Count
    kind: Literal["nan", "explosion", "overrides", "stop"]
    #: The first node with a NaN or an infinity.
    node: fields.Node | None
    text: fields.Text


class TimelineData(TypedDict):
    """The runs of a session in at most some hundred points, with the peaks of the loss.

    In a patch only the points that are new, after so many that stay.
    """

    #: How many runs there were; they are counted from 1.
    count: fields.Count
    keep: Annotated[fields.Count, fields.Meta(default=0)]
    steps: list[fields.Count]
    losses: list[float | None]
    #: The norm of the gradient by all ``wrt``; None where it was not measured.
    gradients: list[float | None]
    marks: list[MarkData]
    #: The run, with a mark, since which values or gradients are not finite; None if
    #: the last one is finite.
    first_bad: Annotated[fields.Count | None, fields.Meta(default=None)]
    #: How many runs can be asked about, and the bytes of their inputs.
    kept: Annotated[fields.Count, fields.Meta(default=0)]
    kept_bytes: Annotated[float, fields.Meta(default=0.0)]


class BranchData(TypedDict):
    """Runs that were made again from a past one, in few points."""

    #: By which it is compared, as another session is.
    name: fields.Text
    #: The first run, and the last one.
    step: fields.Count
    count: fields.Count
    #: The overrides that hold in it; "" for none.
    text: fields.Text
    steps: list[fields.Count]
    losses: list[float | None]


class StopData(TypedDict):
    """A condition on gradients at which a loop of runs stops."""

    id: int
    nodes: fields.NodeList
    text: fields.Text


class LoopNormsData(TypedDict):
    """A loop that is one node: the gradient that arrives before some of its steps."""

    node: fields.Node
    steps: fields.Count
    #: The steps, and the norm at each; None where it is not finite.
    marks: list[fields.Count]
    norms: list[float | None]


class HistoryData(TypedDict):
    """The changes, oldest first, and those undone, in the order of redo."""

    done: list[fields.Text]
    undone: list[fields.Text]


class ErrorData(TypedDict):
    """Why a cell failed half-way, and at which node if that is known."""

    node: fields.Node | None
    message: fields.Text


class Header(TypedDict):
    """A snapshot without its buffers."""

    schema: int
    #: The version of workbench that wrote it.
    version: fields.Text
    session: fields.Text
    nodes: Annotated[fields.NodeCount, fields.Meta(sizes="nodes")]
    edges: Annotated[int, fields.Meta(minimum=0, maximum=fields.MOST_EDGES)]
    #: The node that was differentiated; -1 for a cell that failed.
    output: Annotated[int, fields.Meta(minimum=-1, below="nodes")]
    output_name: fields.Text
    #: Its value if that is a finite scalar.
    output_value: float | None
    wrt: fields.NodeList
    #: The nodes that hold programs, which can be looked into: loops, ops of graphs.
    holders: Annotated[fields.NodeList, fields.Meta(default=[])]
    #: The loops among them, as far as the gradients along them have been measured.
    loops: NotRequired[list[LoopNormsData]]
    #: Of the loops in the column `loop`, where some stand in others: the one around
    #: each, which comes before it, and the iteration there; -1 for none.
    around: NotRequired[
        Annotated[list[fields.Around], fields.Meta(maxItems=fields.MOST_NODES)]
    ]
    strings: Annotated[list[fields.Code], fields.Meta(maxItems=fields.MOST_STRINGS)]
    columns: fields.ColumnList
    overrides: list[OverrideData]
    #: The next change that undo and redo would make.
    undo: fields.Text | None
    redo: fields.Text | None
    history: Annotated[HistoryData, fields.Meta(default={"done": [], "undone": []})]
    check: Annotated[CheckData | None, fields.Meta(default=None)]
    findings: Annotated[FindingsData | None, fields.Meta(default=None)]
    profile: Annotated[ProfileData | None, fields.Meta(default=None)]
    #: The runs; None before the first.
    timeline: Annotated[TimelineData | None, fields.Meta(default=None)]
    #: The last branches, the oldest first.
    branches: Annotated[list[BranchData], fields.Meta(default=[])]
    #: The conditions at which a loop of runs stops.
    stops: Annotated[list[StopData], fields.Meta(default=[])]
    #: What the next run is computed by.
    backend: fields.Text
    #: The GPU on which the values lie; absent on the CPU.
    device: NotRequired[fields.Text]
    #: Seconds of the last forward and backward run together.
    seconds: float
    error: ErrorData | None


Buffer = Annotated[str, fields.Meta(encoded="base64", maxLength=2**28)]


class MomentsData(TypedDict):
    """Some past runs of a saved picture, so that it can be scrubbed and compared."""

    steps: Annotated[list[fields.Count], fields.Meta(maxItems=fields.MOST_MOMENTS)]
    losses: Annotated[list[float | None], fields.Meta(maxItems=fields.MOST_MOMENTS)]
    #: The overrides of each run in words, where they are not those of the picture.
    overrides: Annotated[
        list[fields.Text | None], fields.Meta(maxItems=fields.MOST_MOMENTS)
    ]
    #: A row for each run, as 4-byte floats: the norms of all values, of all gradients,
    #: and of what flows back along all edges; -1 where there is nothing.
    norms: Annotated[
        str, fields.Meta(encoded="base64", maxLength=fields.MOST_MOMENT_BYTES)
    ]


class LessonNodeData(TypedDict):
    """What a lesson shows of one node; empty where there is nothing to show."""

    #: A small array in rows of numbers.
    value: fields.Text
    gradient: fields.Text
    #: "h = tanh(a)", and the chain rule in symbols.
    made: fields.Text
    rule: fields.Text


class LessonData(TypedDict):
    """The two sweeps through a small program with numbers and the chain rule."""

    #: Whether a page begins with it.
    open: bool
    #: As many as the picture has.
    nodes: Annotated[list[LessonNodeData], fields.Meta(most="nodes")]


class DeviceKernelData(TypedDict):
    """A kernel of a GPU: which it is, and its text in CUDA."""

    #: "the value: kernel 2, with 3 other nodes"
    title: fields.Text
    source: fields.Code


class DetailData(TypedDict):
    """All there is to say about one node."""

    node: fields.Node
    #: The gradient rule in plain mathematics, "g · (1 − y²)".
    rule: fields.Text | None
    #: The names of Tensors and the text of constants.
    inputs: Annotated[list[fields.Text], fields.Meta(maxItems=fields.MOST_STRINGS)]
    params: Annotated[
        list[Annotated[list[fields.Text], fields.Meta(minItems=2, maxItems=2)]],
        fields.Meta(maxItems=fields.MOST_STRINGS),
    ]
    #: The code inside the op: a loop, branches, a kernel.
    code: Annotated[fields.Text | None, fields.Meta(default=None)]
    value: Distribution | None
    gradient: Distribution | None
    true_gradient: Distribution | None
    #: Small arrays in full, as NumPy prints them.
    array: fields.Text | None
    gradient_array: fields.Text | None
    #: In a file: the small derivatives of a node that has a name, each with its title.
    jacobians: NotRequired[
        Annotated[
            list[Annotated[list[fields.Text], fields.Meta(minItems=2, maxItems=2)]],
            fields.Meta(maxItems=fields.MOST_STRINGS),
        ]
    ]
    #: What computes it: "CuPy op by op on NVIDIA H200".
    runs_on: NotRequired[fields.Text]
    #: The kernels that compute its value and its rule.
    kernels: NotRequired[Annotated[list[DeviceKernelData], fields.Meta(maxItems=2)]]


class Saved(TypedDict):
    """The data that a notebook holds under the MIME type."""

    schema: int
    #: The live widget that it is the picture of.
    model_id: fields.Text
    header: Header
    buffers: Annotated[list[Buffer], fields.Meta(maxItems=len(fields.COLUMNS))]
    #: None without runs, and where two of them would be too much to keep.
    moments: Annotated[MomentsData | None, fields.Meta(default=None)]
    #: None of a program that is too large for one, and in a notebook.
    lesson: Annotated[LessonData | None, fields.Meta(default=None)]
    #: What a kernel would say of each node; None of a program that is too large for
    #: it, and in a notebook.
    details: Annotated[
        Annotated[list[DetailData], fields.Meta(most="nodes")] | None,
        fields.Meta(default=None),
    ]
