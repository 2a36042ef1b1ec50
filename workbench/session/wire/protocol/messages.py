"""What the kernel sends to the page, which acknowledges each message by its number."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from workbench.checks.statistics import Distribution
from workbench.session.wire.protocol import fields
from workbench.session.wire.protocol.snapshot import (
    DetailData,
    LessonData,
    MomentsData,
)


class PictureData(TypedDict):
    """A graph as it travels, with its columns as buffers: whole, or what changed."""

    #: The ``seq`` of the picture that it changes, 0 for the one that is drawn; None for
    #: a whole one. To a page that shows another one it says nothing.
    of: int | None
    #: All of the header but its columns, or the fields that changed.
    header: Annotated[dict[str, Any], fields.Meta(part="Header")]
    #: All columns, or those that changed: whole, or in parts.
    columns: fields.PatchColumnList


class PictureMessage(PictureData):
    """The session as it is, or what has changed since the picture before."""

    type: Literal["picture"]
    seq: int
    #: The ``first`` of the pieces in which its buffers have come before it.
    pieces: NotRequired[int]
    #: The last command that it includes, by its ``request``, of one page; 0 for none.
    #: None if it answers commands of several pages, or is whole: all are done then.
    answers: int | None


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


class ExpressionData(TypedDict):
    """Whether a rule would do, and why not."""

    ok: bool
    message: fields.Text


class DifferenceData(TypedDict):
    """A node that has another op in another program, or none."""

    node: fields.Node
    #: The name of the node there, "nothing" for none, and its op; "" for none.
    other: fields.Text
    op: fields.Text


class MomentData(TypedDict):
    """A run of the past, or another session, as changes of the picture.

    Of a run that is not ``whole`` only the norms of the statistics are there; ``bad``
    is 1 where one is not finite. Overrides are told where they are not those of the
    picture.
    """

    #: The kept run that is nearest to the one that was asked for; 0 for another
    #: session.
    step: fields.Count
    #: Whether the session can be asked about the run, as about the present: its inputs
    #: are kept. Of others the norms are.
    whole: Annotated[bool, fields.Meta(default=True)]
    #: What differs, where another session has another program.
    differing: Annotated[list[DifferenceData], fields.Meta(default=[])]


class PeerData(TypedDict):
    """Another session of the notebook."""

    name: fields.Text
    #: Why it cannot be compared; empty if it can.
    refused: fields.Text


class PeersData(TypedDict):
    """The other sessions of the notebook that have been shown."""

    peers: list[PeerData]


class RunsData(TypedDict):
    """The past runs that are saved with a picture; None where there are none."""

    moments: MomentsData | None


class SweepsData(TypedDict):
    """The lesson of a program; None for one that is too large."""

    lesson: LessonData | None


class DetailsData(TypedDict):
    """The details of all nodes; None of a program that is too large."""

    details: list[DetailData] | None


class EntryData(TypedDict):
    """One entry of an input."""

    node: fields.Node
    index: fields.Count
    #: "W[1, 1]"
    place: fields.Text
    #: None where it is not finite.
    value: float | None
    #: How many entries the input has, and the largest magnitude of them.
    count: fields.Count
    largest: float


ArrayQuantity = Annotated[
    Literal["value", "gradient"], fields.Meta(title="ArrayQuantity")
]
#: The kept run that an array is compared with: before the one that is shown.
ArrayTime = Annotated[Literal["first", "last"], fields.Meta(title="ArrayTime")]
#: An index along each of the first axes of an array; None for all of an axis.
ArrayIndex = Annotated[
    list[fields.Count | None], fields.Meta(maxItems=fields.MOST_AXES)
]


class ArrayData(TypedDict):
    """A part of an array in few cells; or its change since another run."""

    node: fields.Node
    quantity: ArrayQuantity
    #: The shape of the whole array, and the part that is shown.
    shape: Annotated[list[fields.Count], fields.Meta(maxItems=fields.MOST_AXES)]
    index: ArrayIndex
    #: Whether the cells are the magnitudes of complex numbers.
    is_complex: bool
    #: How many entries a cell stands for, each way: of a matrix it is the one of
    #: largest magnitude. Of a long line the first row has the lowest of each block, and
    #: the second one the highest.
    block: fields.Span
    #: Rows of cells; None where one is not finite.
    values: list[list[float | None]]
    #: The run that was subtracted; None if none was.
    against: fields.Count | None


class ArrayHistoryData(TypedDict):
    """Histograms of a part of an array at some runs, the oldest first."""

    node: fields.Node
    quantity: ArrayQuantity
    index: ArrayIndex
    steps: list[fields.Count]
    histograms: list[Distribution]


class NormsData(TypedDict):
    """The norms of a node over the runs; None where there is none."""

    node: fields.Node
    steps: list[fields.Count]
    values: list[float | None]
    gradients: list[float | None]


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


class PreviewData(TypedDict):
    """What a node would pass on with a rule that is not attached yet."""

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


class SimplificationData(TypedDict):
    """The steps that simplify the derivative, without the rules that are off."""

    steps: list[RewriteData]
    #: How many steps there are in all; of very many only the first are listed.
    total: fields.Count


class ProgramData(TypedDict):
    """The derivative as a program after so many steps.

    What the last step took away stands in it too, after all that is there, and is read
    by nothing else.
    """

    step: fields.Count
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


class InsideData(TypedDict):
    """The program inside a node, at one step of a loop."""

    #: From a node of the session to the one that is open, with the step that is shown.
    path: Path
    #: The step of a loop, and how many there are; None for no loop.
    step: fields.Count | None
    steps: fields.Count | None
    #: Some of the steps, and the norm of the gradient that arrives at the state before
    #: each of them; None where it is not finite.
    marks: list[fields.Count]
    norms: list[float | None]


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
