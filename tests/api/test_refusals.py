"""What Barnabas answers in its own way, or can be asked only of itself, in every version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.api import produce as produce_api
from barnabas.api.repeats import MAX_REPEATS
from barnabas.testing import Cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import (
    alter_configs,
    api_versions,
    describe_configs,
    describe_groups,
    describe_producers,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from tests.api.config_questions import TOPIC, describing, replacing
from tests.api.group_questions import find
from tests.api.interview import Interview, versions_of
from tests.api.log_questions import TIMEOUT_MS, batch, fetching, production
from tests.api.script import SETTINGS
from tests.api.topic_questions import make_topic


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(overrides=SETTINGS) as running:
        yield running


@pytest.fixture
def it(cluster: Cluster) -> Iterator[Interview]:
    interview = Interview(cluster.bootstrap_servers)
    yield interview
    interview.close()


def test_transactions_are_refused_for_good(it: Interview) -> None:
    for version in versions_of(init_producer_id.InitProducerIdRequest):
        request = init_producer_id.InitProducerIdRequest(
            transactional_id="t", transaction_timeout_ms=60_000
        )
        answer = it.quietly(request, version)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    for version in range(1, 7):
        asked = find_coordinator.FindCoordinatorRequest(key_type=1, key="t", coordinator_keys=["t"])
        answer = it.quietly(asked, version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert "transactions" in found.error_message
        assert (found.node_id, found.host, found.port) == (-1, "", -1)
    make_topic(it, "no-transactions")
    for version in versions_of(produce.ProduceRequest):
        records = batch(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
        answer = it.quietly(production(it, ("no-transactions", 0, records), txn="t"), version)
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.INVALID_TXN_STATE


def test_topics_made_on_demand_are_in_the_first_answer(it: Interview) -> None:
    for version in versions_of(metadata.MetadataRequest):
        names = [f"demanded-{version}", "not/a topic"]
        asked = [metadata.MetadataRequestTopic(name=name) for name in names]
        answer = it.quietly(metadata.MetadataRequest(topics=asked), version)
        found = {topic.name: topic for topic in answer.topics}
        assert found[names[0]].error_code == ErrorCode.NONE
        assert [each.leader_id for each in found[names[0]].partitions] == [1]
        assert found[names[1]].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_null_records_are_refused(it: Interview) -> None:
    """Apache Kafka never answers this."""
    make_topic(it, "null-records")
    for version in versions_of(produce.ProduceRequest):
        request = production(it, ("null-records", 0, b""))
        request.topic_data[0].partition_data[0].records = None
        (partition,) = it.quietly(request, version).responses[0].partition_responses
        assert partition.error_code == ErrorCode.INVALID_RECORD


def test_old_leader_epochs_are_fenced(cluster: Cluster) -> None:
    """The answer names the leader where the version can say so."""
    it = Interview(cluster.bootstrap_servers)
    make_topic(it, "led-again")
    it.newest(production(it, ("led-again", 0, batch(2))))
    it.close()
    cluster.restart()
    it = Interview(cluster.bootstrap_servers)
    it.know("led-again")
    asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="led-again")])
    epoch = it.newest(asked).topics[0].partitions[0].leader_epoch
    assert epoch > 0
    for version in versions_of(fetch.FetchRequest):
        request = fetching(it, ("led-again", 0, 0), epoch=epoch - 1)
        answer = it.quietly(request, version)
        (partition,) = answer.responses[0].partitions
        if version < 9:
            assert partition.error_code == ErrorCode.NONE
            continue
        assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
        if version >= 12:
            leader = partition.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (1, epoch)
        assert [each.node_id for each in answer.node_endpoints] == [1] * (version >= 16)
    for version in range(4, 12):
        partition = list_offsets.ListOffsetsPartition(
            partition_index=0, timestamp=-1, current_leader_epoch=epoch - 1
        )
        topic = list_offsets.ListOffsetsTopic(name="led-again", partitions=[partition])
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[topic], timeout_ms=TIMEOUT_MS
        )
        answer = it.quietly(request, version)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    for version in versions_of(offset_for_leader_epoch.OffsetForLeaderEpochRequest):
        wanted = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=epoch - 1, leader_epoch=0
        )
        of = offset_for_leader_epoch.OffsetForLeaderTopic(topic="led-again", partitions=[wanted])
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=[of])
        (found,) = it.quietly(request, version).topics[0].partitions
        assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
        wanted.current_leader_epoch = -1
        (found,) = it.quietly(request, version).topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 2)
    it.close()


def test_a_resource_that_is_replaced_twice_stays_as_it_is(it: Interview) -> None:
    """Apache Kafka decides the same, but then fails over its own two answers and gives none."""
    make_topic(it, "twice", retention_ms="7000")
    for version in versions_of(alter_configs.AlterConfigsRequest):
        request = replacing(TOPIC, "twice", ("retention.ms", "1"))
        request.resources += replacing(TOPIC, "twice", ("segment.ms", "2")).resources
        answer = it.quietly(request, version)
        assert [(each.error_code, each.error_message) for each in answer.responses] == [
            (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        ] * 2
    shown = it.newest(describing((TOPIC, "twice", ["retention.ms"])))
    assert shown.results[0].configs[0].value == "7000"


def test_api_versions_lists_what_the_handlers_serve(cluster: Cluster, it: Interview) -> None:
    request = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for version in versions_of(api_versions.ApiVersionsRequest):
        answer = it.quietly(request, version)
        listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert listed == {
            int(key): both for key, both in cluster.node.advertised_versions().items()
        }
        assert listed[0] == (0, 13)
        assert listed[22] == (0, 5)


@pytest.mark.parametrize(
    ("repeats", "code"),
    [(MAX_REPEATS, ErrorCode.NONE), (MAX_REPEATS + 1, ErrorCode.INVALID_REQUEST)],
)
def test_asking_for_the_same_again_and_again(it: Interview, repeats: int, code: ErrorCode) -> None:
    """The answer to very many repeats of a short question could have any size."""
    name = f"repeats-{repeats}"
    make_topic(it, name)
    find(it)
    count = repeats + 1
    resource = describe_configs.DescribeConfigsResource(resource_type=TOPIC, resource_name=name)
    settings = it.quietly(describe_configs.DescribeConfigsRequest(resources=[resource] * count), 4)
    assert {result.error_code for result in settings.results} == {code}
    assert len(settings.results) == count
    groups = it.quietly(describe_groups.DescribeGroupsRequest(groups=[name] * count), 5)
    assert {group.error_code for group in groups.groups} == {code}
    topic = describe_producers.TopicRequest(name=name, partition_indexes=[0] * count)
    producers = it.quietly(describe_producers.DescribeProducersRequest(topics=[topic]), 0)
    assert {each.error_code for each in producers.topics[0].partitions} == {code}
    group = offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None)
    offsets = it.quietly(offset_fetch.OffsetFetchRequest(groups=[group] * count), 8)
    assert {each.error_code for each in offsets.groups} == {code}
    partitions = offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0] * count)
    group = offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=[partitions])
    (answer,) = it.quietly(offset_fetch.OffsetFetchRequest(groups=[group]), 8).groups
    assert answer.error_code == code


def test_a_produce_request_that_takes_too_long(
    it: Interview, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes can be very many batches of a hundred megabytes each."""
    make_topic(it, "too-long")
    with monkeypatch.context() as patched:
        patched.setattr(produce_api, "LONGEST_NS", -1)
        answer = it.quietly(production(it, ("too-long", 0, batch())), 9)
    (refused,) = answer.responses[0].partition_responses
    assert (refused.error_code, refused.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    answer = it.quietly(production(it, ("too-long", 0, batch())), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 0
