"""Log directories that fail: their partitions are offline, the others go on."""

from __future__ import annotations

import pytest

from barnabas.replica.fetch import Results
from barnabas.replica.fetch_session import FetchTarget
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition
from tests.log.simulated_disk import SimulatedDisk
from tests.replica.replicas import Replicas, topic, topic_id

DIRECTORIES = ("/a", "/b")


def in_directory(node: Replicas, path: str) -> list[int]:
    return sorted(
        partition.index
        for partition in node.replicas.partitions.values()
        if partition.log is not None and partition.log.parent_directory == path
    )


@pytest.fixture
def node() -> Replicas:
    node = Replicas(directories=DIRECTORIES)
    node.replicas.apply_topic(topic("t", 4), is_new=True)
    for index in range(4):
        assert node.produce(b"1", index=index).answer == (ErrorCode.NONE, 0)
    node.turn()
    return node


def test_a_write_that_fails_takes_one_directory_offline(node: Replicas) -> None:
    lost, kept = in_directory(node, "/b"), in_directory(node, "/a")
    assert len(lost) == len(kept) == 2
    node.fail("/b")
    for index in lost:
        assert node.produce(b"2", index=index).answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    for index in kept:
        assert node.produce(b"2", index=index).answer == (ErrorCode.NONE, 1)
    assert node.replicas.offline == {("t", index) for index in lost}
    assert node.all_failed == 0
    described = {each.path: each for each in node.logs.describe()}
    assert (described["/a"].is_online, described["/b"].is_online) == (True, False)
    node.logs.checkpoint()
    node.flush()
    node.logs.close()
    assert "/a/.kafka_cleanshutdown" in node.disk.names
    assert "/b/.kafka_cleanshutdown" not in node.disk.names


def test_a_directory_that_fails_as_an_epoch_begins_keeps_no_other_partition_from_its_own(
    node: Replicas,
) -> None:
    lost, kept = in_directory(node, "/b"), in_directory(node, "/a")
    node.fail("/b")
    node.replicas.apply_topic(topic("t", 4, epoch=9))
    epochs = {p.index: p.leader_epoch for p in node.replicas.partitions.values()}
    assert set(epochs.values()) == {9}
    assert node.replicas.offline == {("t", index) for index in lost}
    for index in kept:
        assert node.produce(b"2", index=index).answer == (ErrorCode.NONE, 1)


def test_who_waits_for_a_partition_that_goes_offline_is_told(node: Replicas) -> None:
    (index, *_) = in_directory(node, "/b")
    told: list[Results] = []
    wanted = FetchPartition(partition=index, fetch_offset=1, partition_max_bytes=100)
    target = FetchTarget("t", topic_id("t"), wanted)
    now = node.replicas.fetch(
        [target], max_wait_ms=1000, min_bytes=1, max_bytes=100, isolation_level=0, done=told.append
    )
    assert now is None
    node.replicas.directory_failed("/b", OSError("simulated"))
    ((_, data),) = told[0]
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_new_partitions_go_where_it_works(node: Replicas) -> None:
    node.replicas.directory_failed("/b", OSError("simulated"))
    node.replicas.apply_topic(topic("new", 2), is_new=True)
    for index in range(2):
        assert node.produce(b"1", name="new", index=index).answer == (ErrorCode.NONE, 0)


def test_a_directory_that_is_gone_at_the_start(node: Replicas) -> None:
    lost, kept = in_directory(node, "/b"), in_directory(node, "/a")
    disk: SimulatedDisk = node.disk
    node.logs.close()
    node.fail("/b")
    again = Replicas(disk, directories=DIRECTORIES)
    again.replicas.apply_topic(topic("t", 4))
    for index in kept:
        assert again.produce(b"2", index=index).answer == (ErrorCode.NONE, 1)
    for index in lost:
        assert again.produce(b"2", index=index).answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert not any(f"/a/t-{index}" in disk.names for index in lost), "no second, empty log is made"
    again.logs.close()
    disk.fails = lambda operation, path: False
    disk.kill()
    repaired = Replicas(disk, directories=DIRECTORIES)
    repaired.replicas.apply_topic(topic("t", 4))
    for index in lost:
        assert repaired.produce(b"2", index=index).answer == (ErrorCode.NONE, 1)


def test_when_all_have_failed_somebody_is_told(node: Replicas) -> None:
    node.replicas.directory_failed("/b", OSError("simulated"))
    assert node.all_failed == 0
    node.replicas.directory_failed("/a", OSError("simulated"))
    assert node.all_failed == 1
    assert node.produce(b"1").answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_topic_deleted_while_it_is_offline_leaves_nothing_behind(node: Replicas) -> None:
    node.replicas.directory_failed("/b", OSError("simulated"))
    node.replicas.remove_topic(topic("t", 4))
    assert node.replicas.offline == set()
    assert node.replicas.partitions == {}
