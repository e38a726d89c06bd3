"""Exactly once: by condition, by deadline or by force, whatever the order of events."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.delayed.purgatory import DelayedOperation, Purgatory
from barnabas.delayed.timer import TimingWheel


class World:
    def __init__(self) -> None:
        self.now_ms = 0
        self.wheel = TimingWheel(lambda: self.now_ms)
        self.purgatory = Purgatory("Test", self.wheel)

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.wheel.advance(self.now_ms)


class Operation(DelayedOperation):
    def __init__(
        self, delay_ms: int | None, *, ready: bool = False, completes_itself: bool = False
    ):
        super().__init__(delay_ms)
        self.ready = ready
        self.completes_itself = completes_itself
        self.events: list[str] = []
        self.then: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        if self.ready and self.completes_itself:
            return self.force_complete()
        return self.ready

    def on_complete(self) -> None:
        self.events.append("complete")
        self.then()

    def on_expiration(self) -> None:
        self.events.append("expired")


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("completes_itself", [False, True])
def test_a_condition_that_holds_is_never_watched(world: World, completes_itself: bool) -> None:
    operation = Operation(100, ready=True, completes_itself=completes_itself)
    assert world.purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["complete"]
    assert (len(world.purgatory), world.purgatory.watched, len(world.wheel)) == (0, 0, 0)


@pytest.mark.parametrize("completes_itself", [False, True])
def test_completes_when_a_key_is_checked(world: World, completes_itself: bool) -> None:
    operation = Operation(100, completes_itself=completes_itself)
    assert not world.purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (len(world.purgatory), world.purgatory.watched, len(world.wheel)) == (1, 2, 1)
    assert world.purgatory.check_and_complete("a") == 0
    operation.ready = True
    assert world.purgatory.check_and_complete("other") == 0
    assert world.purgatory.check_and_complete("b") == 1
    assert world.purgatory.check_and_complete("a") == 0
    world.advance(1000)
    assert operation.events == ["complete"]
    assert (len(world.purgatory), world.purgatory.watched, len(world.wheel)) == (0, 0, 0)


def test_expires_at_its_deadline(world: World) -> None:
    operation = Operation(100)
    world.purgatory.try_complete_else_watch(operation, ["a"])
    world.advance(99)
    assert operation.events == []
    world.advance(1)
    assert operation.events == ["complete", "expired"]
    assert world.purgatory.expired_total == 1
    operation.ready = True
    assert world.purgatory.check_and_complete("a") == 0


@pytest.mark.parametrize("delay_ms", [0, -1])
def test_no_delay_expires_at_once(world: World, delay_ms: int) -> None:
    operation = Operation(delay_ms)
    assert world.purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["complete", "expired"]
    assert len(world.purgatory) == 0


def test_without_a_deadline_only_the_condition_completes(world: World) -> None:
    operation = Operation(None)
    world.purgatory.try_complete_else_watch(operation, ["a"])
    world.advance(10**9)
    assert operation.events == []
    assert len(world.wheel) == 0
    assert operation.force_complete()
    assert not operation.force_complete()
    assert world.purgatory.watched == 0


def test_the_same_key_twice_is_one_key(world: World) -> None:
    operation = Operation(100)
    world.purgatory.try_complete_else_watch(operation, ["a", "a"])
    assert world.purgatory.watched == 1
    operation.force_complete()
    assert world.purgatory.watched == 0


def test_an_operation_may_complete_others_and_watch_new_ones(world: World) -> None:
    first, second, third = Operation(100), Operation(100), Operation(100)
    for operation in (first, second):
        world.purgatory.try_complete_else_watch(operation, ["a"])
    second.ready = first.ready = True

    def chain() -> None:
        world.purgatory.check_and_complete("a")
        world.purgatory.try_complete_else_watch(third, ["a"])

    first.then = chain
    assert world.purgatory.check_and_complete("a") == 1
    assert second.events == ["complete"]
    assert world.purgatory.watchers_of("a") == (third,)


def test_cancel_key_keeps_the_deadline(world: World) -> None:
    operation = Operation(100)
    world.purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert world.purgatory.cancel_key("a") == (operation,)
    assert world.purgatory.cancel_key("a") == ()
    assert world.purgatory.watched == 1
    world.advance(100)
    assert operation.events == ["complete", "expired"]
    assert world.purgatory.watched == 0


def test_force_complete_all(world: World) -> None:
    operations = [Operation(100) for _ in range(3)]
    for operation in operations:
        world.purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert world.purgatory.force_complete_all() == 3
    assert all(operation.events == ["complete"] for operation in operations)
    assert (len(world.purgatory), world.purgatory.watched, len(world.wheel)) == (0, 0, 0)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("watch"), st.integers(1, 50), st.sets(st.integers(0, 4))),
            st.tuples(st.just("ready"), st.integers(0, 10), st.just(frozenset[int]())),
            st.tuples(st.just("check"), st.integers(0, 4), st.just(frozenset[int]())),
            st.tuples(st.just("force"), st.integers(0, 10), st.just(frozenset[int]())),
            st.tuples(st.just("cancel"), st.integers(0, 4), st.just(frozenset[int]())),
            st.tuples(st.just("advance"), st.integers(0, 30), st.just(frozenset[int]())),
        ),
        max_size=50,
    )
)
def test_exactly_once(steps: list[tuple[str, int, set[int]]]) -> None:
    world = World()
    operations: list[Operation] = []
    for step, number, keys in steps:
        if step == "watch":
            operation = Operation(number)
            operations.append(operation)
            world.purgatory.try_complete_else_watch(operation, keys)
        elif step == "check":
            world.purgatory.check_and_complete(number)
        elif step == "cancel":
            world.purgatory.cancel_key(number)
        elif step == "advance":
            world.advance(number)
        elif number < len(operations):
            if step == "ready":
                operations[number].ready = True
            else:
                operations[number].force_complete()
        waiting = [operation for operation in operations if not operation.completed]
        assert len(world.purgatory) == len(world.wheel) == len(waiting)
        assert world.purgatory.watched == sum(len(operation._keys) for operation in waiting)
    world.advance(100)
    assert all(operation.events.count("complete") == 1 for operation in operations)
    assert world.purgatory._watchers == {}
