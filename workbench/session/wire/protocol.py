"""What travels between the kernel and the page: the types, nothing else.

The same shapes stand in `extension/src/wire/protocol.ts`, with what each field means,
and what the page may ask for, which `jupyter/link.py` looks at field by field.
`tests/session/wire/golden/snapshot.json` is read by the tests of both sides.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from workbench.session.statistics import Distribution

#: The version of everything below. A reader refuses a newer one, and takes what an
#: older one lacks as absent: 2 added checks, findings, history and matrices.
SCHEMA = 2

#: The MIME type of a saved picture, which is drawn without a kernel.
MIME_TYPE = "application/vnd.workbench.graph+json"

#: The rows of the columns of statistics, in this order.
STATISTICS = ("min", "max", "mean", "std", "norm", "bad")

#: What a node is: its code in the column `kind`.
KINDS = ("input", "constant", "op")

#: What a check says of a node's rule: its code in the column `check`.
STATUSES = ("unchecked", "right", "wrong", "kink", "unsure", "overridden")

#: What a check says of gradients; "changed" is on purpose. Older pictures of schema 2
#: say only whether they are wrong.
Outcome = Literal["right", "wrong", "changed"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "changed")

#: The columns in the order in which their buffers come, with their dtypes.
COLUMNS: dict[str, Literal["uint8", "int32", "float64"]] = {
    "kind": "uint8",
    "op": "int32",
    "name": "int32",
    "dtype": "int32",
    "shape": "int32",
    "scope": "int32",
    "place": "int32",
    "source": "int32",
    "line": "int32",
    "input_start": "int32",
    "inputs": "int32",
    "saved_start": "int32",
    "saved": "int32",
    "value_stats": "float64",
    "grad_stats": "float64",
    "true_stats": "float64",
    "edge_norm": "float64",
    "change": "float64",
    "override": "int32",
    "check": "uint8",
    "check_ratio": "float64",
}


class Column(TypedDict):
    """One buffer: which column it is, and how long."""

    name: str
    dtype: str
    length: int


class TargetData(TypedDict):
    """What an override is attached to; one of the fields, as `kind` says."""

    kind: Literal["node", "op", "scope", "other"]
    node: NotRequired[int]
    op: NotRequired[str]
    scope: NotRequired[str]
    text: NotRequired[str]


class EffectData(TypedDict):
    """What an override does to the gradient by one input."""

    node: int
    name: str
    relative: float | None
    angle: float | None


class OverrideData(TypedDict):
    """One override of a session; ``steps`` of a loop as a subscript has them."""

    id: int
    label: str
    rule: str
    data: bool
    stored: bool
    target: TargetData
    steps: str
    enabled: bool
    matched: list[int]
    covered: list[int]
    note: str
    effects: list[EffectData]
    code: str


class NodeCheckData(TypedDict):
    """One node of a gradient check that is worth a line."""

    node: int
    status: str
    mode: str
    place: str
    expected: float | None
    got: float | None
    ratio: float | None
    text: str


class GradientCheckData(TypedDict):
    """The gradient of the whole program by one input, in one mode.

    ``change`` is what is changed on purpose, relatively to the true gradient, None
    where nothing is, or beyond comparison; ``by`` names what changes it.
    """

    name: str
    mode: str
    ok: bool
    verdict: Outcome
    change: float | None
    by: list[str]
    text: str


class CheckData(TypedDict):
    """The last gradient check of a session; ``ok``: nothing is wrong.

    ``changes`` says in words what is changed on purpose.
    """

    ok: bool
    verdict: Outcome
    changes: str
    stopped: bool
    stale: bool
    summary: str
    counts: dict[str, int]
    nodes: list[NodeCheckData]
    gradients: list[GradientCheckData]


class FixData(TypedDict):
    """What would mend a finding."""

    text: str
    code: str
    attachable: bool


class FindingData(TypedDict):
    """One thing that the doctor found."""

    kind: str
    severity: Literal["error", "warning", "note"]
    node: int
    path: list[int]
    sweep: Literal["forward", "backward"]
    title: str
    evidence: str
    cause: str
    fix: FixData | None


class FindingsData(TypedDict):
    """What the doctor found, most important first."""

    stale: bool
    stopped: bool
    list: list[FindingData]


class HistoryData(TypedDict):
    """What was changed, oldest first, and what was undone, in the order of redo."""

    done: list[str]
    undone: list[str]


class ErrorData(TypedDict):
    """Why a cell failed half-way, and at which node if that is known."""

    node: int | None
    message: str


class Header(TypedDict):
    """A snapshot without its buffers."""

    schema: int
    version: str
    session: str
    nodes: int
    edges: int
    output: int
    output_name: str
    output_value: float | None
    wrt: list[int]
    strings: list[str]
    columns: list[Column]
    overrides: list[OverrideData]
    undo: str | None
    redo: str | None
    history: HistoryData
    check: CheckData | None
    findings: FindingsData | None
    backend: str
    seconds: float
    error: ErrorData | None


class Saved(TypedDict):
    """What a notebook holds under the MIME type."""

    schema: int
    model_id: str
    header: Header
    buffers: list[str]


class SnapshotMessage(TypedDict):
    """Kernel to page: everything."""

    type: Literal["snapshot"]
    seq: int
    header: Header


class PatchMessage(TypedDict):
    """Kernel to page: the fields and the columns that changed."""

    type: Literal["patch"]
    seq: int
    header: dict[str, Any]
    columns: list[Column]


class DetailBody(TypedDict):
    """What there is to say about one node."""

    node: int
    rule: str | None
    inputs: list[str]
    params: list[list[str]]
    code: str | None
    value: Distribution | None
    gradient: Distribution | None
    true_gradient: Distribution | None
    array: str | None
    gradient_array: str | None


class Detail(DetailBody):
    """Kernel to page: the answer to `inspect`."""

    type: Literal["detail"]
    seq: int
    request: int


class ExpressionAnswer(TypedDict):
    """Kernel to page: whether an expression would do."""

    type: Literal["expression"]
    seq: int
    request: int
    ok: bool
    message: str


class WindowData(TypedDict):
    """Which entries of a matrix: rows and columns, each from and to (excluded)."""

    rows: list[int]
    columns: list[int]


class MatrixData(TypedDict):
    """What a heat map shows."""

    kind: str
    of: int
    wrt: list[int]
    path: list[int]
    mode: str
    rows: int
    columns: int
    window: WindowData
    block: list[int]


class PlotAnswer(TypedDict):
    """Kernel to page: a Plotly figure."""

    type: Literal["plot"]
    seq: int
    request: int
    title: str
    note: str
    figure: dict[str, Any]
    matrix: MatrixData | None
    views: list[str]


class Progress(TypedDict):
    """Kernel to page: how far a long request is."""

    type: Literal["progress"]
    seq: int
    request: int
    done: int
    total: int
    left: float | None


class Done(TypedDict):
    """Kernel to page: a long command is done, or was stopped."""

    type: Literal["done"]
    seq: int
    request: int


class Failure(TypedDict):
    """Kernel to page: a request that could not be met, or a notice."""

    type: Literal["failure"]
    seq: int
    request: int | None
    message: str


KernelMessage = (
    SnapshotMessage
    | PatchMessage
    | Detail
    | ExpressionAnswer
    | PlotAnswer
    | Progress
    | Done
    | Failure
)
