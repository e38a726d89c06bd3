"""Telling the controller in which directory a replica is."""

from __future__ import annotations

from barnabas.replica.directory_assignments import REPLICAS_PER_REQUEST, DirectoryAssignments
from barnabas.wire.codec import decode, encode
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from tests.replica.replicas import Replicas, topic, topic_id

T = b"t" * 16
A = b"a" * 16
B = b"b" * 16


def answer(
    request: AssignReplicasToDirsRequest, code: ErrorCode = ErrorCode.NONE
) -> AssignReplicasToDirsResponse:
    request = decode(AssignReplicasToDirsRequest, 0, encode(request, 0))
    return AssignReplicasToDirsResponse(
        directories=[
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=each.topic_id,
                        partitions=[
                            AssignReplicasToDirsResponsePartitionData(
                                partition_index=partition.partition_index, error_code=code
                            )
                            for partition in each.partitions
                        ],
                    )
                    for each in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def test_told_once_and_one_request_at_a_time() -> None:
    assignments = DirectoryAssignments(1)
    for index in range(REPLICAS_PER_REQUEST + 1):
        assignments.submit(T, index, A)
    first = assignments.take_request(0)
    assert first is not None
    assert assignments.take_request(0) is None
    assignments.submit(T, 0, A)
    assignments.answered(answer(first), 0)
    assert len(assignments) == 1
    second = assignments.take_request(0)
    assert second is not None
    assignments.answered(answer(second), 0)
    assert len(assignments) == 0
    assert assignments.next_due_ms is None


def test_what_fails_is_told_again_more_and_more_slowly_and_the_latest_word_counts() -> None:
    assignments = DirectoryAssignments(1)
    assignments.submit(T, 0, A)
    now_ms = 0
    for expected in (100, 200, 400):
        request = assignments.take_request(now_ms)
        assert request is not None
        assignments.answered(None, now_ms)
        assert assignments.next_due_ms == now_ms + expected
        now_ms += expected
    request = assignments.take_request(now_ms)
    assert request is not None
    assignments.submit(T, 0, B)
    assignments.answered(answer(request, ErrorCode.UNKNOWN_SERVER_ERROR), now_ms)
    request = assignments.take_request(now_ms + 10_000)
    assert request is not None
    assert [directory.id for directory in request.directories] == [B]
    assignments.answered(answer(request, ErrorCode.UNKNOWN_TOPIC_ID), now_ms)
    assert len(assignments) == 0


def test_a_replica_in_another_directory_than_registered_is_told() -> None:
    node = Replicas()
    node.replicas.directory_ids = {"/a": A}
    node.replicas.apply_topic(topic("t"))
    request = node.replicas.assignments.take_request(0)
    assert request is not None
    assert request.directories[0].id == A
    assert request.directories[0].topics[0].topic_id == topic_id("t")
    node.replicas.assignments.answered(answer(request), 0)
    assert len(node.replicas.assignments) == 0
