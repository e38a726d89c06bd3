"""The power goes at every step of formatting, the first start, creating topics and snapshots.

After each cut the node starts again, what was acknowledged is there, ids have not changed, and
nothing half made stands in its way. A step is any call that changes the disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from barnabas.controller.format import format_storage, random_cluster_id, storage_info
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.controller.harness import Machine, run

CHANGES = {"append", "truncate", "sync", "rename", "remove", "mkdir"}
MOST_STEPS = 400


class PowerCut(BaseException):
    """Nothing that runs may catch it."""


class Steps:
    """Cuts the power just before the step of that number."""

    def __init__(self, machine: Machine, at: int) -> None:
        self.left = at
        self.is_cut = False
        machine.disk.fails = self._step

    def _step(self, operation: str, path: str) -> bool:
        if operation in CHANGES:
            if self.left == 0:
                self.is_cut = True
                raise PowerCut
            self.left -= 1
        return False


def at_every_step(act: Callable[[Machine], None], check: Callable[[Machine], None], **how: bool):  # type: ignore[no-untyped-def]
    """`act` on a fresh machine, cut off at each of its steps in turn; then `check`."""
    for at in range(MOST_STEPS):
        machine = Machine({"node.id": "1"})
        machine.answered = []  # type: ignore[attr-defined]
        if how.get("started"):
            machine.start()
        steps = Steps(machine, at)
        try:
            act(machine)
        except PowerCut:
            pass
        machine.disk.fails = lambda operation, path: False
        machine.disk.power_cut(random.Random(at))
        check(machine)
        if not steps.is_cut:
            return
    raise AssertionError("it never ended")


def create(machine: Machine, name: str) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)]
    )
    topic = run(machine.controller.create_topics(request)).topics[0]
    assert topic.error_code == 0
    machine.answered.append((name, topic.topic_id))  # type: ignore[attr-defined]


def check_topics(machine: Machine) -> None:
    controller = machine.restart()
    for name, topic_id in machine.answered:  # type: ignore[attr-defined]
        topic = controller.image.topics[name]
        assert topic.topic_id == topic_id
        assert [each.leader for each in topic.partitions.values()] == [1, 1]
    before = dict(controller.image.topics)
    create(machine, "after")
    again = machine.restart()
    assert again.image.topics.keys() == {*before, "after"}
    assert again.cluster_id == machine.formatted.cluster_id


def test_formatting() -> None:
    done = False
    for at in range(MOST_STEPS):
        machine = Machine({"node.id": "1"}, directories=2)
        for directory in ("/data0", "/data1"):
            machine.disk.remove_tree(directory)
        machine.disk.power_cut(random.Random(0))
        steps = Steps(machine, at)
        try:
            reformat(machine)
        except PowerCut:
            pass
        machine.disk.fails = lambda operation, path: False
        machine.disk.power_cut(random.Random(at))
        before = {
            each.path: each.meta for each in storage_info(machine.disk, machine.config) if each.meta
        }
        reformat(machine)
        for each in storage_info(machine.disk, machine.config):
            assert each.problem is None
            assert before.get(each.path, each.meta) == each.meta
        machine.restart()
        if not steps.is_cut:
            done = True
            break
    assert done


def reformat(machine: Machine) -> None:
    """As a node does that may format what is empty."""
    known = [
        each.meta.cluster_id for each in storage_info(machine.disk, machine.config) if each.meta
    ]
    format_storage(
        machine.disk,
        machine.config,
        cluster_id=known[0] if known else random_cluster_id(machine.random),
        randomness=machine.random,
        now_ms=machine.clock.ms,
        ignore_formatted=True,
    )


def test_the_first_start() -> None:
    at_every_step(lambda machine: machine.start() and None, check_topics)


def test_creating_topics() -> None:
    def act(machine: Machine) -> None:
        for name in ("a", "b", "c"):
            create(machine, name)

    at_every_step(act, check_topics, started=True)


def test_writing_a_snapshot() -> None:
    def act(machine: Machine) -> None:
        create(machine, "a")
        machine.replica.write_snapshot(machine.clock.ms)
        machine.clock.ms += 10 * 86_400_000
        machine.disk.now_ms = machine.clock.ms
        create(machine, "b")
        machine.replica.maintain(machine.clock.ms)
        create(machine, "c")

    at_every_step(act, check_topics, started=True)


def test_producer_ids_are_never_given_twice() -> None:
    def act(machine: Machine) -> None:
        for _ in range(3):
            machine.answered.append(machine.producer_ids()[0])  # type: ignore[attr-defined]

    def check(machine: Machine) -> None:
        machine.restart()
        given = [*machine.answered, machine.producer_ids()[0]]  # type: ignore[attr-defined]
        assert len(set(given)) == len(given)

    at_every_step(act, check, started=True)


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_write_that_fails_is_not_answered(operation: str) -> None:
    machine = Machine({"node.id": "1"})
    machine.answered = []  # type: ignore[attr-defined]
    machine.start()
    create(machine, "before")
    machine.disk.fails = lambda name, path: name == operation
    with pytest.raises(ApiError):
        create(machine, "lost")
    machine.replica.maintain(machine.clock.ms)
    assert len(machine.failures) == 1
    machine.disk.fails = lambda name, path: False
    machine.disk.power_cut(random.Random(1))
    check_topics(machine)
