"""Questions about the node and its cluster."""

from __future__ import annotations

from typing import Any

from barnabas.wire.messages import (
    add_raft_voter,
    alter_partition_reassignments,
    api_versions,
    describe_cluster,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from tests.api.interview import Interview, versions_of

METADATA_TOPIC = "__cluster_metadata"


def ask_about_cluster(it: Interview) -> None:
    answer = it.newest(describe_cluster.DescribeClusterRequest())
    it.call(answer.cluster_id, "CLUSTER")
    _versions(it)
    _cluster(it)
    _quorum(it)
    _features(it)
    _replicas(it)
    _members(it)


def _versions(it: Interview) -> None:
    cls = api_versions.ApiVersionsRequest

    def asked(name: str, version: str) -> Any:
        return cls(client_software_name=name, client_software_version=version)

    for version in versions_of(cls):
        answer = it.quietly(asked("interview", "1.0"), version)
        # It is an offset of the metadata log.
        if version >= 3:
            assert answer.finalized_features_epoch > 0
            answer.finalized_features_epoch = 1
        for features in (answer.supported_features, answer.finalized_features):
            features.sort(key=lambda each: each.name)
        it.keep("all", answer, version)
        it.ask("bad name", asked("bad name!", "1.0"), version)
        it.ask("no version", asked("interview", ""), version)


def _cluster(it: Interview) -> None:
    cls = describe_cluster.DescribeClusterRequest
    it.every("plain", cls, lambda _: cls())
    it.every("operations", cls, lambda _: cls(include_cluster_authorized_operations=True))
    it.every("fenced", cls, lambda v: cls(include_fenced_brokers=True) if v >= 2 else None)
    it.every("controllers", cls, lambda v: cls(endpoint_type=2) if v >= 1 else None)
    it.every("unknown type", cls, lambda v: cls(endpoint_type=9) if v >= 1 else None)


def _quorum(it: Interview) -> None:
    cls = describe_quorum.DescribeQuorumRequest

    def asked(*topics: tuple[str, list[int]]) -> Any:
        return cls(
            topics=[
                describe_quorum.DescribeQuorumRequestTopicData(
                    topic_name=topic,
                    partitions=[
                        describe_quorum.DescribeQuorumRequestPartitionData(partition_index=index)
                        for index in indexes
                    ],
                )
                for topic, indexes in topics
            ]
        )

    for question, topics in {
        "metadata": [(METADATA_TOPIC, [0])],
        "partition 1": [(METADATA_TOPIC, [1])],
        "another topic": [("first", [0])],
        "two topics": [(METADATA_TOPIC, [0]), ("first", [0])],
        "nothing": [],
    }.items():
        for version in versions_of(cls):
            answer = it.quietly(asked(*topics), version)
            for topic in answer.topics:
                for partition in topic.partitions:
                    if not partition.error_code:
                        assert partition.high_watermark > 0
                        partition.high_watermark = 1
                        partition.leader_epoch = min(partition.leader_epoch, 1)
                    for replica in (*partition.current_voters, *partition.observers):
                        assert replica.log_end_offset > 0
                        replica.log_end_offset = 1
            for node in answer.nodes:
                for listener in node.listeners:
                    listener.port = 1
            it.keep(question, answer, version)


def _features(it: Interview) -> None:
    cls = update_features.UpdateFeaturesRequest

    def asked(*updates: tuple[str, int, int], validate_only: bool = False) -> Any:
        return cls(
            validate_only=validate_only,
            timeout_ms=10_000,
            feature_updates=[
                update_features.FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    upgrade_type=kind,
                    allow_downgrade=kind > 1,
                )
                for name, level, kind in updates
            ],
        )

    for question, request in {
        "the same": asked(("metadata.version", 30, 1)),
        "too high": asked(("metadata.version", 99, 1)),
        "too low": asked(("metadata.version", 1, 2)),
        "down, said to be up": asked(("metadata.version", 20, 1)),
        "zero": asked(("metadata.version", 0, 2)),
        "negative": asked(("metadata.version", -1, 1)),
        "unknown": asked(("no.such.feature", 1, 1)),
        "unknown to zero": asked(("no.such.feature", 0, 3)),
        "twice": asked(("metadata.version", 30, 1), ("metadata.version", 30, 1)),
        "no name": asked(("", 1, 1)),
        "nothing": asked(),
    }.items():
        it.every(question, cls, lambda _, request=request: request)
    for version in (1, 2):
        it.ask("unknown upgrade type", asked(("metadata.version", 30, 9)), version)
        it.ask("unsafe", asked(("metadata.version", 20, 3), validate_only=True), version)
        it.ask("safe", asked(("metadata.version", 20, 2), validate_only=True), version)


def _replicas(it: Interview) -> None:
    elect = elect_leaders.ElectLeadersRequest

    def elected(topic: str, kind: int) -> Any:
        return elect(
            election_type=kind,
            topic_partitions=[elect_leaders.TopicPartitions(topic=topic, partitions=[0])],
        )

    it.every("preferred", elect, lambda v: elected("first", 0))
    it.every("unclean", elect, lambda v: elected("first", 1) if v >= 1 else None)
    it.every("no such topic", elect, lambda v: elected("no-such-topic", 0))
    move = alter_partition_reassignments.AlterPartitionReassignmentsRequest

    def moved(topic: str, replicas: list[int] | None) -> Any:
        partition = alter_partition_reassignments.ReassignablePartition(
            partition_index=0, replicas=replicas
        )
        return move(
            topics=[
                alter_partition_reassignments.ReassignableTopic(name=topic, partitions=[partition])
            ]
        )

    it.every("no such topic", move, lambda _: moved("no-such-topic", [1]))
    it.every("no such broker", move, lambda _: moved("first", [99]))
    it.every("nothing to cancel", move, lambda _: moved("first", None))
    it.every("no replicas", move, lambda _: moved("first", []))
    moving = list_partition_reassignments.ListPartitionReassignmentsRequest
    it.every("all", moving, lambda _: moving(topics=None))


def _members(it: Interview) -> None:
    unregister = unregister_broker.UnregisterBrokerRequest
    it.every("no such broker", unregister, lambda _: unregister(broker_id=99))
    add = add_raft_voter.AddRaftVoterRequest
    it.every(
        "another cluster", add, lambda _: add(cluster_id="another", timeout_ms=1_000, voter_id=9)
    )
    remove = remove_raft_voter.RemoveRaftVoterRequest
    it.every("another cluster", remove, lambda _: remove(cluster_id="another", voter_id=9))
