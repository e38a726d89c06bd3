"""Very many new partitions get their logs a few at a time, and never one that is wanted no more."""

from __future__ import annotations

import pytest

from barnabas.replica.late_creation import LOGS_AT_ONCE, LOGS_PER_TURN
from barnabas.wire.errors import ApiError, ErrorCode
from tests.replica.replicas import Replicas, topic

COUNT = LOGS_AT_ONCE + 2 * LOGS_PER_TURN + 1


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


def turn(replicas: Replicas) -> int:
    """One turn of the loop; gives how many partitions there are after it."""
    deferred = replicas.deferred[:]
    replicas.deferred.clear()
    for callback in deferred:
        callback()
    return len(replicas.replicas.partitions)


def test_a_few_in_each_turn(replicas: Replicas) -> None:
    manager = replicas.replicas
    manager.apply_topic(topic("t", COUNT), is_new=True)
    assert len(manager.partitions) == LOGS_AT_ONCE
    with pytest.raises(ApiError) as refused:
        manager.partition("t", COUNT - 1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert turn(replicas) == LOGS_AT_ONCE + LOGS_PER_TURN
    assert turn(replicas) == COUNT - 1
    assert turn(replicas) == COUNT
    assert manager.partition("t", COUNT - 1).is_leader
    turn(replicas)
    assert not replicas.deferred, "nothing is left to be done"


def test_later_topics_wait_their_turn_and_are_what_the_image_says_then(replicas: Replicas) -> None:
    manager = replicas.replicas
    manager.apply_topic(topic("t", COUNT), is_new=True)
    manager.apply_topic(topic("u"), is_new=True)
    assert manager.find("u", 0) is None
    manager.apply_topic(topic("u", epoch=7))
    for _ in range(3):
        turn(replicas)
    assert manager.partition("u", 0).leader_epoch == 7
    assert len(manager.partitions) == COUNT + 1


def test_what_is_needed_at_once_does_not_wait(replicas: Replicas) -> None:
    manager = replicas.replicas
    manager.apply_topic(topic("t", COUNT), is_new=True)
    manager.apply_topic(topic("groups", COUNT), is_new=True, at_once=True)
    assert len(manager.partitions) == LOGS_AT_ONCE + COUNT


def test_what_was_deleted_meanwhile_gets_no_log(replicas: Replicas) -> None:
    manager = replicas.replicas
    manager.apply_topic(topic("t", COUNT), is_new=True)
    manager.remove_topic(topic("t", COUNT))
    assert not manager.partitions
    for _ in range(4):
        assert turn(replicas) == 0


def test_nothing_is_created_after_the_end(replicas: Replicas) -> None:
    replicas.replicas.apply_topic(topic("t", COUNT), is_new=True)
    replicas.replicas.close()
    assert turn(replicas) == LOGS_AT_ONCE
    assert not replicas.deferred
