"""What every page sends to the kernel; what it asks for is declared by `requests`.

Events are counted from 1 in each view of a page.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from workbench.session.wire.protocol import fields

#: More requests than a page ever makes.
PAGE_REQUESTS = 2**20


class Event(TypedDict):
    """The fields of all events."""

    type: Literal["event"]
    seq: Annotated[int, fields.Meta(default=0)]


class HelloEvent(Event):
    """The page is there: send a picture."""

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


class Question(Request):
    """The fields of all events that ask about a session and leave it as it is."""

    #: The run of the past that is asked about; absent: the session as it is now.
    at: NotRequired[Annotated[int, fields.Meta(minimum=1)]]


class StopEvent(Request):
    """Stop a long request; what it has is kept."""

    event: Literal["stop"]
    of: int
