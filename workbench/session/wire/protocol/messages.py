"""What the kernel sends to the page, which acknowledges each message by its number."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from workbench.checks.statistics import Distribution
from workbench.session.wire.protocol import fields
from workbench.session.wire.protocol.snapshot import Header, MomentsData


class SnapshotMessage(TypedDict):
    """Everything."""

    type: Literal["snapshot"]
    seq: int
    #: The ``first`` of the pieces in which its buffers have come before it.
    pieces: NotRequired[int]
    header: Header


class PatchMessage(TypedDict):
    """The fields and the columns that changed; columns whole, or in parts."""

    type: Literal["patch"]
    seq: int
    #: The ``first`` of the pieces in which its buffers have come before it.
    pieces: NotRequired[int]
    #: The ``seq`` of the state that it changes: to a page that shows another one it
    #: says nothing.
    of: int
    #: The last command that it includes, by its ``request``, of one page; 0 for none.
    #: None if it answers commands of several pages: all that wait are done.
    answers: int | None
    header: Annotated[dict[str, Any], fields.Meta(part="Header")]
    columns: fields.PatchColumnList


class PieceMessage(TypedDict):
    """Some of the bytes of the buffers of a large state, which comes after them."""

    type: Literal["piece"]
    seq: int
    #: The ``seq`` of the first piece of the same state.
    first: int
    #: How many bytes have come in the pieces before.
    start: fields.Count
    #: The bytes of each buffer of the state; the pieces hold one after another.
    sizes: Annotated[
        list[Annotated[int, fields.Meta(minimum=0, maximum=fields.MOST_BYTES)]],
        fields.Meta(maxItems=len(fields.COLUMNS)),
    ]


class DeviceKernelData(TypedDict):
    """A kernel of a GPU: which it is, and its text in CUDA."""

    #: "the value: kernel 2, with 3 other nodes"
    title: fields.Text
    source: fields.Code


class DetailBody(TypedDict):
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
    #: What computes it: "CuPy op by op on NVIDIA H200".
    runs_on: NotRequired[fields.Text]
    #: The kernels that compute its value and its rule.
    kernels: NotRequired[Annotated[list[DeviceKernelData], fields.Meta(maxItems=2)]]


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
    message: fields.Text


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
    step: fields.Count
    header: Annotated[dict[str, Any], fields.Meta(part="Header")]
    columns: fields.ColumnList


class PeerData(TypedDict):
    """Another session of the notebook."""

    name: fields.Text
    #: Why it cannot be compared; empty if it can.
    refused: fields.Text


class PeersAnswer(TypedDict):
    """The other sessions of the notebook that have been shown."""

    type: Literal["peers"]
    seq: int
    request: int
    peers: list[PeerData]


class RunsAnswer(TypedDict):
    """The past runs that are saved with a picture; None where there are none."""

    type: Literal["runs"]
    seq: int
    request: int
    moments: MomentsData | None


class NormsAnswer(TypedDict):
    """The norms of a node over the runs; None where there is none."""

    type: Literal["norms"]
    seq: int
    request: int
    node: fields.Node
    steps: list[fields.Count]
    values: list[float | None]
    gradients: list[float | None]


class WindowData(TypedDict):
    """A part of a matrix: rows and columns, each from and to (excluded)."""

    rows: fields.Span
    columns: fields.Span


class MatrixData(TypedDict):
    """The matrix of a heat map; each cell stands for ``block`` entries each way."""

    kind: fields.PlotKind
    of: fields.Node
    wrt: fields.NodeList
    #: The nodes between the two, both included.
    path: fields.NodeList
    mode: Literal["forward", "reverse", ""]
    rows: fields.Count
    columns: fields.Count
    window: WindowData
    block: fields.Span
    #: Of a pattern that follows from the program: how many colours the numbers of its
    #: cells are; 0 where they are shares of a block. Absent from one of values.
    colours: NotRequired[fields.Count]


class FigureData(TypedDict):
    """A Plotly figure: the data of application/vnd.plotly.v1+json."""

    data: Annotated[list[Any], fields.Meta(maxItems=fields.MOST_STRINGS)]
    layout: dict[str, Any]


class PlotAnswer(TypedDict):
    """A figure, with the other plots of the same nodes."""

    type: Literal["plot"]
    seq: int
    request: int
    title: fields.Text
    note: fields.Text
    figure: FigureData
    matrix: Annotated[MatrixData | None, fields.Meta(default=None)]
    views: Annotated[
        list[fields.PlotKind], fields.Meta(maxItems=len(fields.PLOT_KINDS), default=[])
    ]
    #: The overrides in force, "stop at h"; those left out if it is the true one.
    overrides: Annotated[list[fields.Text], fields.Meta(default=[])]
    #: Whether it is the true derivative of a program with overrides.
    is_true: Annotated[bool, fields.Meta(default=False)]
    #: Of a gradient check what it says; "changed" where overrides are in force; None
    #: where nothing was checked.
    verdict: Annotated[fields.Outcome | None, fields.Meta(default=None)]
    #: Why all entries are zero; empty where they are not.
    zero: Annotated[fields.Text, fields.Meta(default="")]


class PassedData(TypedDict):
    """What a node passes on to one of its inputs, without an override and with it."""

    node: fields.Node
    name: fields.Text
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
    node: fields.Node
    passed: list[PassedData]


class RewriteData(TypedDict):
    """One step of a simplification."""

    rule: fields.Text
    #: The table that the rule is from; empty for what no rule of a table does.
    group: fields.Text
    #: How the result may differ.
    note: fields.Text
    #: What stood there, and what stands there now, as code.
    before: fields.Text
    after: fields.Text
    #: Where the rule is written, "exact_rules.py:31"; empty for none.
    site: fields.Text


class SimplificationAnswer(TypedDict):
    """The steps that simplify the derivative, without the rules that are off."""

    type: Literal["simplification"]
    seq: int
    request: int
    steps: list[RewriteData]
    #: How many steps there are in all; of very many only the first are listed.
    total: fields.Count


class ProgramAnswer(TypedDict):
    """The derivative as a program after so many steps; its columns are the buffers.

    What the last step took away stands in it too, after all that is there, and is read
    by nothing else.
    """

    type: Literal["program"]
    seq: int
    request: int
    step: fields.Count
    header: Header
    nodes: Annotated[fields.NodeCount, fields.Meta(sizes="nodes")]
    #: What tells each node from all others, at all steps.
    keys: Annotated[list[fields.Key], fields.Meta(most="nodes")]
    #: The node of the session that each belongs to; -1 for none.
    forward: Annotated[list[fields.ForwardNode], fields.Meta(most="nodes")]
    #: The nodes that the last step made, and those that it took away.
    came: fields.NodeList
    went: fields.NodeList
    #: The whole program as code; empty where that is long.
    text: fields.Text


class PlaceData(TypedDict):
    """A node that holds a program, and the step of a loop, from 0."""

    node: fields.Count
    step: int


Path = Annotated[list[PlaceData], fields.Meta(minItems=1, maxItems=16)]


class InsideAnswer(TypedDict):
    """The program inside a node, at one step of a loop; its columns are the buffers."""

    type: Literal["inside"]
    seq: int
    request: int
    #: From a node of the session to the one that is open, with the step that is shown.
    path: Path
    #: The step of a loop, and how many there are; None for no loop.
    step: fields.Count | None
    steps: fields.Count | None
    #: Some of the steps, and the norm of the gradient that arrives at the state before
    #: each of them; None where it is not finite.
    marks: list[fields.Count]
    norms: list[float | None]
    header: Header


class ProgressMessage(TypedDict):
    """The state of a long request; ``left`` are the seconds that it may take."""

    type: Literal["progress"]
    seq: int
    request: int
    done: float
    total: float
    left: Annotated[float | None, fields.Meta(default=None)]


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
    message: fields.Text


KernelMessage = Annotated[
    SnapshotMessage
    | PatchMessage
    | PieceMessage
    | Detail
    | ExpressionAnswer
    | MomentAnswer
    | PeersAnswer
    | RunsAnswer
    | NormsAnswer
    | PlotAnswer
    | PreviewAnswer
    | SimplificationAnswer
    | ProgramAnswer
    | InsideAnswer
    | ProgressMessage
    | DoneMessage
    | FailureMessage,
    fields.Meta(title="KernelMessage"),
]
