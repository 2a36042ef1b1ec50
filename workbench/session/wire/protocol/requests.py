"""What a page may ask of the kernel: a request is the function that answers it.

A decorator names it. Its parameters after the session are the fields that the page
sends, and what it returns is the answer: their types are those of the wire, by which
`schema.py` checks what comes, and `extension/wire.py` writes the types of the page::

    @question("sizes")
    def count_entries(session: Session, node: fields.Node) -> SizesData:
        return {"size": session.graph.nodes[node].size}

The page asks it by ``connection.ask('sizes', { node })``. All of them stand in
`workbench/jupyter/answers.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from workbench.session.wire.protocol import events, fields, messages

F = TypeVar("F", bound=Callable[..., Any])
#: A TypedDict is made of these, of names that are known at run time alone.
_make_type: Any = TypedDict

#: What a page may ask, by its name.
REQUESTS: dict[str, "RequestKind"] = {}


@dataclass(frozen=True, eq=False)
class RequestKind:
    """One kind of request.

    Attributes
    ----------
    name
        Its name on the wire, and the type of the message that answers it.
    kind
        A question is answered at once, a job in a thread of its own, with a copy of the
        session; a command changes the session, and the next picture answers it.
    handler
        Takes the session and the fields; of a job also ``progress``, if it has such a
        parameter.
    keeps
        What the session keeps of a job, which answers nothing: ``"report"``.
    title
        What is at work, in words.
    """

    name: str
    kind: Literal["question", "job", "command"]
    handler: Callable[..., Any]
    keeps: str | None = None
    title: str = "A plot"

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.handler, include_extras=True)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that are fields: all but the session and the progress."""
        _, *others = signature(self.handler).parameters.values()
        return {one.name: one for one in others if one.name != "progress"}

    @property
    def reports(self) -> bool:
        """True if the handler reports progress."""
        return "progress" in self._hints

    @property
    def fields(self) -> dict[str, Any]:
        """The type of each field; one that may be absent has a default."""
        found = {}
        for name, parameter in self.parameters.items():
            found[name] = self._hints[name]
            if parameter.default is not Parameter.empty:
                default = fields.Meta(default=parameter.default)
                found[name] = Annotated[found[name], default]
        return found

    @property
    def event(self) -> Any:
        """The type of the event that asks."""
        kind = events.Request if self.kind == "command" else events.Question
        head = get_type_hints(kind, include_extras=True)
        named = {"event": Literal[self.name]}
        return _make_type(f"{self._title}Event", {**head, **named, **self.fields})

    @property
    def message(self) -> Any:
        """The type of the message that answers; None if the next picture does."""
        if self.kind == "command" or self.keeps is not None:
            return None
        head = {"type": Literal[self.name], "seq": int, "request": int}
        answer, body = self._hints["return"], dict[str, Any]()
        if get_origin(answer) is not None:  # a Picture[...] with what is said besides
            (answer,) = get_args(answer)
            body = get_type_hints(messages.PictureData, include_extras=True)
        body |= get_type_hints(answer, include_extras=True)
        return _make_type(f"{self._title}Answer", {**head, **body})

    @property
    def _title(self) -> str:
        return self.name.title().replace("-", "")

    def call(self, session: Any, message: dict[str, Any], **more: Any) -> Any:
        """Answer a message that was read by the schema."""
        given = {name: message[name] for name in self.parameters}
        return self.handler(session, **given, **more)


def _declare(
    name: str, kind: Literal["question", "job", "command"], **more: Any
) -> Callable[[F], F]:
    def declare(handler: F) -> F:
        REQUESTS[name] = RequestKind(name, kind, handler, **more)
        return handler

    return declare


def question(name: str) -> Callable[[F], F]:
    """Declare the function that answers a question of a page at once."""
    return _declare(name, "question")


def command(name: str) -> Callable[[F], F]:
    """Declare how a page changes the session; the next picture answers."""
    return _declare(name, "command")


def job(
    name: str, *, keeps: str | None = None, title: str = "A plot"
) -> Callable[[F], F]:
    """Declare long work: its answer, or the result that the session ``keeps``."""
    return _declare(name, "job", keeps=keeps, title=title)


def list_events() -> Any:
    """Return the type of all that a page sends."""
    asked = [one.event for one in REQUESTS.values()]
    known = (events.HelloEvent, events.AckEvent, events.StopEvent, *asked)
    return Annotated[Union[known], fields.Meta(title="PageEvent")]  # noqa: UP007


def list_messages() -> Any:
    """Return the type of all that the kernel sends."""
    answers = [one.message for one in REQUESTS.values() if one.message is not None]
    known = (
        messages.PictureMessage,
        messages.PieceMessage,
        *answers,
        messages.ProgressMessage,
        messages.DoneMessage,
        messages.FailureMessage,
    )
    return Annotated[Union[known], fields.Meta(title="KernelMessage")]  # noqa: UP007
