"""What the page sends to the kernel; events are counted from 1 in each view of it."""

from typing import Annotated, Literal, NotRequired, TypedDict

from workbench.session.wire.protocol import fields
from workbench.session.wire.protocol.messages import Path, WindowData
from workbench.session.wire.protocol.snapshot import TargetData

#: More requests than a page ever makes.
PAGE_REQUESTS = 2**20


class Event(TypedDict):
    """The fields of all events."""

    type: Literal["event"]
    seq: Annotated[int, fields.Meta(default=0)]


class HelloEvent(Event):
    """The page is there: send a snapshot."""

    event: Literal["hello"]
    schema: Annotated[int, fields.Meta(minimum=1, maximum=fields.MOST_SCHEMA)]
    #: It asked before, and no state has come; that of a large program takes its time.
    again: NotRequired[bool]


class AckEvent(Event):
    """The message of this number has been drawn."""

    event: Literal["ack"]
    of: int


class Request(Event):
    """The fields of all events that are answered."""

    #: Counted up from a multiple of `PAGE_REQUESTS` that the page draws at random: what
    #: answers the request of one page is sent to all.
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
    step: fields.Count
    #: The name of another session, which is shown as it is now.
    session: NotRequired[fields.Typed]


class PeersEvent(Request):
    """Ask which other sessions there are, and which have the same program."""

    event: Literal["peers"]


class RunsEvent(Request):
    """Ask for the past runs that are saved with a picture."""

    event: Literal["runs"]


class NormsEvent(Request):
    """Ask for the norms of a node over the runs."""

    event: Literal["norms"]
    node: int


class CheckExpressionEvent(Request):
    """Ask whether a rule would do for a target, or for that of override ``id``."""

    event: Literal["check-expression"]
    target: TargetData
    rule: fields.Typed
    id: NotRequired[int]


class OverrideEvent(Request):
    """Attach a rule; with ``id``, in place of that override's rule and target.

    Without ``steps``, those of the override that is replaced stay.
    """

    event: Literal["override"]
    id: NotRequired[int]
    target: TargetData
    rule: fields.Typed
    label: fields.Typed
    steps: NotRequired[fields.Typed]


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
    rule: fields.Typed
    label: fields.Typed
    steps: NotRequired[fields.Typed]


class MoveEvent(Request):
    """Put an override at another place in the order; 0 is the first."""

    event: Literal["move"]
    id: int
    to: int


class UndoEvent(Request):
    """Go some changes back or forth."""

    event: Literal["undo", "redo"]
    steps: Annotated[int, fields.Meta(default=1)]


class ExamineEvent(Request):
    """Check all rules and gradients, ask the doctor, or measure a run. Long."""

    event: Literal["check", "diagnose", "profile"]


class FixEvent(Request):
    """Attach the fix of a finding, by its position in the list."""

    event: Literal["fix"]
    finding: fields.Count


class StopEvent(Request):
    """Stop a long request; what it has is kept."""

    event: Literal["stop"]
    of: int


class PlotEvent(Request):
    """Draw derivatives of a node by others. Long."""

    event: Literal["plot"]
    plot: fields.PlotKind
    #: None: the session's output.
    of: Annotated[int | None, fields.Meta(default=None)]
    #: Empty: the session's ``wrt``.
    wrt: Annotated[list[int], fields.Meta(maxItems=fields.MOST_NODES)]
    #: The part of the matrix to show; None: all of it.
    window: Annotated[WindowData | None, fields.Meta(default=None)]
    #: Whether overrides are applied; false for the true derivative.
    overrides: Annotated[bool, fields.Meta(default=True)]


class PreviewEvent(Request):
    """Ask what a node would pass on with a rule; the fields are `OverrideEvent`'s."""

    event: Literal["preview"]
    node: int
    id: NotRequired[int]
    target: TargetData
    rule: fields.Typed
    steps: NotRequired[fields.Typed]


class SimplifyEvent(Request):
    """Ask for the steps that simplify the derivative. Long."""

    event: Literal["simplify"]
    #: The rules that are switched off.
    without: Annotated[list[fields.Typed], fields.Meta(maxItems=fields.MOST_RULES)]


class ProgramEvent(Request):
    """Ask for the derivative as a program after so many of these steps. Long."""

    event: Literal["program"]
    without: Annotated[list[fields.Typed], fields.Meta(maxItems=fields.MOST_RULES)]
    step: fields.Count


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
    | RunsEvent
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
    fields.Meta(title="PageEvent"),
]
