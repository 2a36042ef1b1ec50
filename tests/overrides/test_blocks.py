"""Where `with wb.overrides` and `with wb.scope` hold: tasks, generators, threads.

The derivative of ``sin`` at 0 is 1, and 0.5 where the block's override holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import subprocess
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core import source
from workbench.core.source import is_suspended
from workbench.errors import OverrideError
from workbench.overrides import override_blocks
from workbench.overrides.override_blocks import suspend_overrides

HALF = wb.override("sin", "0.5 * d")
TENFOLD = wb.override("sin", "10 * d")


def slope() -> float:
    """The derivative of the sine at 0, under the overrides that hold here."""
    return float(wb.grad(np.sin)(0.0))


def place() -> str | None:
    """The scope that an op has here."""
    return wb.trace(np.sin)(0.0).outputs[0].scope


class Kind:
    """A kind of block: how it is opened, and what is seen inside and outside."""

    def __init__(self, name: str, opened: Any, look: Any, inside: Any, out: Any):
        self.name, self.opened, self.look = name, opened, look
        self.inside, self.out = inside, out

    def __repr__(self) -> str:
        return self.name


OVERRIDES = Kind("overrides", lambda: wb.overrides(HALF), slope, 0.5, 1.0)
SCOPE = Kind("scope", lambda: wb.scope("a"), place, "a", None)
BOTH = pytest.mark.parametrize("kind", [OVERRIDES, SCOPE], ids=repr)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a block behind."""
    yield
    if override_blocks.OWNED or source.Scope.owned or override_blocks.blocks_in_force():
        gc.collect()
    assert not override_blocks.OWNED
    assert not source.Scope.owned
    assert override_blocks.blocks_in_force() == []
    assert place() is None


# Tasks


@BOTH
def test_two_tasks_of_which_one_is_in_the_block(kind: Kind) -> None:
    async def inside(opened: asyncio.Event, done: asyncio.Event) -> Any:
        with kind.opened():
            opened.set()
            await done.wait()
            return kind.look()

    async def outside(opened: asyncio.Event, done: asyncio.Event) -> Any:
        await opened.wait()
        seen = kind.look()
        done.set()
        return seen

    async def main() -> list[Any]:
        events = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(inside(*events), outside(*events))

    assert asyncio.run(main()) == [kind.inside, kind.out]


@BOTH
def test_a_task_that_starts_in_the_block_has_it(kind: Kind) -> None:
    async def look() -> Any:
        await asyncio.sleep(0)
        return kind.look()

    async def main() -> list[Any]:
        with kind.opened():
            seen = await asyncio.gather(look(), asyncio.to_thread(kind.look))
        return [*seen, kind.look()]

    assert asyncio.run(main()) == [kind.inside, kind.inside, kind.out]


@BOTH
def test_a_block_that_ends_in_another_task(kind: Kind) -> None:
    """A token of the first task would be refused in the second."""

    async def main() -> list[Any]:
        stack = contextlib.ExitStack()
        opened, left = asyncio.Event(), asyncio.Event()
        seen = []

        async def enter() -> None:
            stack.enter_context(kind.opened())
            seen.append(kind.look())
            opened.set()
            await left.wait()
            seen.append(kind.look())

        async def leave() -> None:
            await opened.wait()
            stack.close()
            left.set()
            seen.append(kind.look())

        await asyncio.gather(enter(), leave())
        return seen

    assert asyncio.run(main()) == [kind.inside, kind.out, kind.out]


def test_a_task_that_outlives_the_block_has_it_no_more() -> None:
    """Overrides hold until they are left, wherever the context was copied."""

    async def main() -> float:
        left = asyncio.Event()

        async def late() -> float:
            await left.wait()
            return slope()

        with wb.overrides(HALF):
            task = asyncio.create_task(late())
            await asyncio.sleep(0)
            assert slope() == 0.5
        left.set()
        return await task

    assert asyncio.run(main()) == 1.0


def test_tasks_in_one_block_object_each_leave_their_own() -> None:
    shared = wb.overrides(HALF)

    async def work(first: asyncio.Event, then: asyncio.Event) -> list[float]:
        with shared:
            first.set()
            await then.wait()
            seen = [slope()]
        return [*seen, slope()]

    async def main() -> list[list[float]]:
        one, two = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(work(one, two), work(two, one))

    assert asyncio.run(main()) == [[0.5, 1.0], [0.5, 1.0]]


# Generators


@BOTH
def test_a_suspended_generator_keeps_its_block_to_itself(kind: Kind) -> None:
    def steps() -> Iterator[Any]:
        with kind.opened():
            yield kind.look()
            yield kind.look()
        yield kind.look()

    made = steps()
    assert next(made) == kind.inside
    assert kind.look() == kind.out
    assert next(made) == kind.inside
    assert kind.look() == kind.out
    assert next(made) == kind.out
    assert list(made) == []


@BOTH
def test_a_generator_that_is_dropped_leaves_its_block(kind: Kind) -> None:
    def steps() -> Iterator[Any]:
        with kind.opened():
            yield kind.look()

    made = steps()
    assert next(made) == kind.inside
    del made
    assert kind.look() == kind.out
    made = steps()
    next(made)
    made.close()
    assert kind.look() == kind.out
    made = steps()
    next(made)
    with pytest.raises(ZeroDivisionError):
        made.throw(ZeroDivisionError)
    assert kind.look() == kind.out


@BOTH
def test_a_generator_closed_in_another_thread(kind: Kind) -> None:
    def steps() -> Iterator[Any]:
        with kind.opened():
            yield kind.look()

    made = steps()
    assert next(made) == kind.inside
    thread = threading.Thread(target=made.close)
    thread.start()
    thread.join()
    assert kind.look() == kind.out


@BOTH
def test_a_generator_inside_a_generator(kind: Kind) -> None:
    def inner() -> Iterator[Any]:
        with kind.opened():
            yield kind.look()

    def outer() -> Iterator[Any]:
        for seen in inner():
            yield seen, kind.look()

    for (inside, between), seen in [(pair, kind.look()) for pair in outer()]:
        assert (inside, between, seen) == (kind.inside, kind.out, kind.out)

    def whole() -> Iterator[Any]:
        with kind.opened():
            yield from (kind.look() for _ in range(2))

    assert list(whole()) == [kind.inside] * 2


@BOTH
def test_a_function_that_a_generator_calls_is_inside(kind: Kind) -> None:
    def look_at(_: str) -> Any:
        return kind.look()

    def helper() -> Any:
        return [kind.look() for _ in range(2)]

    def steps() -> Iterator[Any]:
        with kind.opened():
            yield helper()
            yield [*map(look_at, "ab")]

    made = steps()
    assert next(made) == [kind.inside] * 2
    assert kind.look() == kind.out
    assert next(made) == [kind.inside] * 2
    made.close()


def test_generators_that_take_turns() -> None:
    def steps(given: wb.Override) -> Iterator[float]:
        with wb.overrides(given):
            for _ in range(3):
                yield slope()
        yield slope()

    turns = [steps(HALF), steps(TENFOLD), steps(HALF)]
    seen = [[next(one) for one in turns] for _ in range(4)]
    assert seen == [[0.5, 10, 0.5]] * 3 + [[1, 1, 1]]


def test_the_callers_block_is_around_that_of_the_generator() -> None:
    def steps() -> Iterator[float]:
        with wb.overrides(TENFOLD):
            yield slope()
            yield slope()

    made = steps()
    assert next(made) == 10
    with wb.overrides(HALF):  # entered later, but the generator runs inside it
        assert next(made) == 10
        assert slope() == 0.5
    made.close()


def test_scopes_of_a_generator_are_inside_those_of_its_caller() -> None:
    def steps() -> Iterator[str | None]:
        with wb.scope("step"):
            yield place()
            yield place()
            with wb.scope("deep/er"):
                yield place()

    made = steps()
    assert next(made) == "step"
    with wb.scope("model"):
        assert next(made) == "model/step"
        assert place() == "model"
        with wb.scope("layer"):
            assert next(made) == "model/layer/step/deep/er"
            assert place() == "model/layer"
        made.close()
        assert place() == "model"


def test_layers_made_by_a_generator() -> None:
    """The program that the scope of a generator is for."""

    def layers(x: Any) -> Iterator[Any]:
        for i in range(3):
            with wb.scope(f"layer{i}"):
                x = np.tanh(x)
                yield x

    def loss(x: Any) -> Any:
        total = 0.0
        for h in layers(x):
            total = total + np.sum(h * h)
        return total

    nodes = wb.trace(loss)(np.ones(3)).nodes
    scopes = [(n.op.name, n.scope) for n in nodes if n.op.name != "identity"]
    assert [s for name, s in scopes if name == "tanh"] == ["layer0", "layer1", "layer2"]
    assert {s for name, s in scopes if name != "tanh"} == {None}


def test_every_op_notes_the_scope_that_holds() -> None:
    """Each way in which a node is made, with a generator's scope open or inside it."""
    ways: list[Callable[[Any], Any]] = [
        np.sin, np.sum, np.linalg.norm, lambda x: x + x, lambda x: x + 1.0,
        lambda x: 1.0 + x, lambda x: -x, lambda x: x[0], lambda x: x[np.array([0, 1])],
        lambda x: np.add(x, 1), lambda x: np.reshape(x, (3, 1)), lambda x: x @ x,
        lambda x: wb.checkpoint(np.sin)(x), np.var,
    ]  # fmt: skip

    def steps(x: Any) -> Iterator[Any]:
        with wb.scope("generator"):
            for way in ways:
                yield way(x)

    for spec in (np.ones(3), wb.Spec((3,), float)):

        def both(x: Any) -> list[Any]:
            made = steps(x)
            return [y for way in ways for y in (next(made), way(x))]

        found = [y.scope for y in wb.trace(both)(spec).outputs]
        assert found == ["generator", None] * len(ways)


def test_a_generator_goes_on_in_another_thread() -> None:
    """As a web server does that streams what a generator gives."""

    def steps() -> Iterator[float]:
        with wb.overrides(HALF):
            yield slope()
            yield slope()
            yield slope()

    made = steps()
    assert next(made) == 0.5
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(next, made).result() == 0.5
        context = contextvars.copy_context()
        assert pool.submit(context.run, next, made).result() == 0.5
        assert pool.submit(slope).result() == 1.0
    assert slope() == 1.0
    assert next(made, None) is None


@BOTH
def test_a_generator_that_hands_out_work_waits_inside_its_block(kind: Kind) -> None:
    def steps() -> Iterator[Any]:
        with kind.opened(), ThreadPoolExecutor(1) as pool:
            context = contextvars.copy_context()
            yield pool.submit(context.run, kind.look).result()

    assert list(steps()) == [kind.inside]


# Context managers


@BOTH
def test_a_context_manager_made_of_a_generator(kind: Kind) -> None:
    @contextlib.contextmanager
    def mine() -> Iterator[int]:
        with kind.opened():
            yield 3

    with mine() as got:
        assert (got, kind.look()) == (3, kind.inside)
    assert kind.look() == kind.out

    @mine()
    def decorated() -> Any:
        return kind.look()

    assert [decorated(), decorated(), kind.look()] == [
        kind.inside, kind.inside, kind.out,
    ]  # fmt: skip


@BOTH
def test_context_managers_in_each_other(kind: Kind) -> None:
    def plain() -> Iterator[None]:
        with kind.opened():
            yield

    @contextlib.contextmanager
    def inner() -> Iterator[None]:
        yield from plain()

    @contextlib.contextmanager
    def outer() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(inner())
            yield

    with outer():
        assert kind.look() == kind.inside
    assert kind.look() == kind.out

    def steps() -> Iterator[Any]:
        with outer():
            yield kind.look()

    made = steps()
    assert next(made) == kind.inside
    assert kind.look() == kind.out
    assert next(made, None) is None


@BOTH
def test_an_exit_stack(kind: Kind) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(kind.opened())
        assert kind.look() == kind.inside
        kept = stack.pop_all()
    assert kind.look() == kind.inside
    kept.close()
    assert kind.look() == kind.out
    # Entered by a generator that is used up, for who holds the stack.
    with contextlib.ExitStack() as stack:
        all(stack.enter_context(block) or True for block in [kind.opened()])
        assert kind.look() == kind.inside


@BOTH
def test_a_class_that_enters_a_block_for_its_user(kind: Kind) -> None:
    class Mine:
        def __enter__(self) -> None:
            self.block = kind.opened()
            self.block.__enter__()

        def __exit__(self, *error: object) -> None:
            self.block.__exit__(*error)

    with Mine():
        assert kind.look() == kind.inside

    def steps() -> Iterator[Any]:
        with Mine():
            yield kind.look()

    made = steps()
    assert next(made) == kind.inside
    assert kind.look() == kind.out
    made.close()


@BOTH
def test_a_context_manager_that_iterates_a_generator(kind: Kind) -> None:
    """Only what a generator delegates to is part of it."""

    def plain() -> Iterator[None]:
        with kind.opened():
            yield

    @contextlib.contextmanager
    def outer() -> Iterator[None]:
        for _ in plain():
            yield

    told = "no derivative was taken" if kind is OVERRIDES else ""
    with pytest.raises(OverrideError, match=told) if told else contextlib.nullcontext():
        with outer():
            assert kind.look() == kind.out


# Asynchronous generators


@BOTH
def test_an_asynchronous_generator(kind: Kind) -> None:
    async def steps() -> AsyncIterator[Any]:
        with kind.opened():
            yield kind.look()
            await asyncio.sleep(0)
            yield kind.look()

    async def main() -> list[Any]:
        seen: list[Any] = []
        async for inside in steps():
            # Also in what the one who iterates starts.
            child = await asyncio.create_task(asyncio.to_thread(kind.look))
            seen += [inside, kind.look(), child]
        return seen

    assert asyncio.run(main()) == [kind.inside, kind.out, kind.out] * 2


@BOTH
def test_an_asynchronous_generator_that_awaits_is_inside(kind: Kind) -> None:
    async def look() -> Any:
        await asyncio.sleep(0)
        return kind.look()

    async def steps() -> AsyncIterator[Any]:
        with kind.opened():
            yield await look()
            yield await asyncio.to_thread(kind.look)
            for seen in await asyncio.gather(look(), look()):
                yield seen

    async def main() -> list[Any]:
        return [seen async for seen in steps()]

    assert asyncio.run(main()) == [kind.inside] * 4


@BOTH
def test_an_asynchronous_context_manager(kind: Kind) -> None:
    @contextlib.asynccontextmanager
    async def mine() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        with kind.opened():
            yield
            await asyncio.sleep(0)

    async def main() -> list[Any]:
        async with mine():
            seen = [kind.look()]
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(mine())
            seen.append(kind.look())
        return [*seen, kind.look()]

    assert asyncio.run(main()) == [kind.inside, kind.inside, kind.out]


@BOTH
def test_an_asynchronous_generator_that_nobody_finishes(kind: Kind) -> None:
    """The loop closes it at its end, in a task of its own."""

    async def steps() -> AsyncIterator[Any]:
        with kind.opened():
            yield kind.look()

    async def main() -> list[Any]:
        made = steps()
        return [await anext(made), kind.look()]

    assert asyncio.run(main()) == [kind.inside, kind.out]
    assert kind.look() == kind.out


@BOTH
def test_a_coroutine_of_the_old_kind_is_none_of_the_generators(kind: Kind) -> None:
    @types.coroutine
    def old() -> Iterator[Any]:
        with kind.opened():
            yield from asyncio.sleep(0).__await__()
            return kind.look()

    async def main() -> list[Any]:
        async def other() -> Any:
            return kind.look()

        return await asyncio.gather(old_task(), other())

    async def old_task() -> Any:
        return await old()

    assert asyncio.run(main()) == [kind.inside, kind.out]


# Threads


@BOTH
def test_a_new_thread_starts_without_the_block(kind: Kind) -> None:
    seen: list[Any] = []
    with kind.opened():
        thread = threading.Thread(
            target=contextvars.Context().run,
            args=(lambda: seen.append(kind.look()),),
        )
        thread.start()
        thread.join()
        seen.append(kind.look())
    assert seen == [kind.out, kind.inside]


# Fixtures of pytest


@pytest.fixture
def halved() -> Iterator[None]:
    with wb.overrides(HALF), wb.scope("fixture"):
        yield


@pytest.fixture
def deeper(halved: None) -> Iterator[None]:
    with wb.scope("deeper"):
        yield


@pytest.mark.usefixtures("deeper")
def test_a_fixture_opens_a_block_for_the_test() -> None:
    assert slope() == 0.5
    assert place() == "fixture/deeper"


@pytest.mark.long
def test_fixtures_of_a_module(tmp_path: Path) -> None:
    """The block lasts as long as the fixture, in a run of pytest's own."""
    (tmp_path / "test_it.py").write_text(
        "import numpy as np, pytest, workbench as wb\n"
        "@pytest.fixture(scope='module')\n"
        "def halved():\n"
        "    with wb.overrides(wb.override('sin', '0.5 * d')):\n"
        "        yield\n"
        "@pytest.mark.parametrize('i', [0, 1])\n"
        "def test_inside(halved, i):\n"
        "    assert wb.grad(np.sin)(0.0) == 0.5\n"
    )
    (tmp_path / "test_other.py").write_text(
        "import numpy as np, workbench as wb\n"
        "def test_after():\n"
        "    assert wb.grad(np.sin)(0.0) == 1\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "3 passed" in done.stdout, done.stdout


# What the block tells at its end


def test_each_entering_tells_of_its_own_derivatives() -> None:
    def steps() -> Iterator[None]:
        with wb.overrides(HALF):
            yield
            yield

    made = steps()
    next(made)
    assert slope() == 1.0  # not in the block, which has seen nothing
    next(made)
    with pytest.raises(OverrideError, match="no derivative was taken"):
        next(made)


def test_the_message_names_what_was_differentiated_in_the_block() -> None:
    def steps() -> Iterator[Any]:
        with wb.overrides(wb.override("cos", "d")):
            yield wb.grad(np.sin)(0.0)

    made = steps()
    next(made)
    wb.grad(np.tanh)(0.0)
    with pytest.raises(OverrideError, match="Its ops: sin"):
        next(made)


def test_one_object_entered_twice() -> None:
    block = wb.overrides(HALF)
    with block:
        with block:
            assert slope() == 0.5
        assert slope() == 0.5
    assert slope() == 1.0
    named = wb.scope("a")
    with named, named:
        assert place() == "a/a"
    assert place() is None


@wb.scope("decorated")
def recursive(x: Any, n: int) -> Any:
    return recursive(np.sin(x), n - 1) if n else np.cos(x)


def test_a_scope_as_a_decorator() -> None:
    graph = wb.trace(lambda x: recursive(x, 2))(0.0)
    scopes = [n.scope for n in graph.nodes if n.op.name in ("sin", "cos")]
    assert scopes == ["/".join(["decorated"] * i) for i in (1, 2, 3)]


def test_blocks_that_are_left_in_another_order() -> None:
    one, two = wb.scope("one"), wb.scope("two")
    with wb.scope("around"):
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)
        two.__exit__(None, None, None)
        assert place() == "around"


def test_no_block_holds_aside() -> None:
    """Also where a generator, begun outside, goes on inside with a block of its own."""

    def steps() -> Iterator[float]:
        with wb.overrides(TENFOLD):
            yield slope()
            yield slope()

    made = steps()
    with wb.overrides(HALF):
        with suspend_overrides() as given:
            assert given == [HALF]
            assert slope() == 1.0
            assert next(made) == 10
            assert slope() == 1.0
        assert slope() == 0.5
        assert next(made) == 10
    made.close()


def test_a_block_that_the_function_enters_itself_is_not_the_calls_own() -> None:
    """What holds is read once, before the function runs."""

    def f(x: Any) -> Any:
        opened.append(wb.overrides(HALF))
        opened[-1].__enter__()
        return np.sin(x)

    opened: list[Any] = []
    assert wb.grad(f)(0.0) == 1.0
    assert slope() == 0.5
    opened[-1].__exit__(None, None, None)


# How a suspended generator is told


def test_which_generators_are_suspended() -> None:
    frames: list[Any] = []

    def inner() -> Iterator[int]:
        yield 1

    def steps() -> Iterator[int]:
        frames.append(sys._getframe())
        assert not is_suspended(frames[0])
        yield 1
        assert not is_suspended(frames[0])
        yield from inner()
        return

    made = steps()
    next(made)
    assert is_suspended(frames[0])
    next(made)
    assert is_suspended(frames[0])
    assert next(made, None) is None
    assert not is_suspended(frames[0])
