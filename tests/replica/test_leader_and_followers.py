"""A leader and its followers, wired back to back: ISR, high watermark, truncation."""

from __future__ import annotations

from barnabas.record.validate import AppendOrigin
from barnabas.replica.fetcher import State
from barnabas.replica.settings import ReplicaSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.log.batches import batch
from tests.replica.brokers import TOPIC_ID, Cluster, over_the_wire, produced


def test_a_record_is_committed_once_every_replica_has_asked_for_what_follows() -> None:
    cluster = Cluster()
    answer = cluster.leader.produce(b"1")
    assert produced(answer) is None
    for node in (2, 3, 2):
        cluster.fetch(node)
        assert cluster.leader.log.high_watermark == 0
    cluster.fetch(3)
    assert produced(answer) == (ErrorCode.NONE, 0)
    assert [broker.values() for broker in cluster.brokers.values()] == [[b"1"]] * 3


def test_one_replica_alone_commits_at_once() -> None:
    cluster = Cluster(1)
    assert produced(cluster.leader.produce(b"1")) == (ErrorCode.NONE, 0)


def test_followers_learn_the_high_watermark_with_the_next_answer() -> None:
    cluster = Cluster(2)
    cluster.leader.produce(b"1")
    follower = cluster.brokers[2]
    seen = []
    for _ in range(2):
        cluster.fetch(2)
        seen.append((follower.log.log_end_offset, follower.log.high_watermark))
    assert seen == [(1, 0), (1, 1)]


def test_a_follower_that_is_silent_leaves_the_isr_and_comes_back() -> None:
    cluster = Cluster(3)
    cluster.leader.produce(b"1")
    cluster.fetch(2)
    cluster.fetch(2)
    cluster.pass_time(10_001)
    cluster.fetch(2)
    leader = cluster.leader
    leader.replicas.tick(cluster.clock.ms)
    assert leader.partition.maximal_isr == {1, 2, 3}
    assert leader.log.high_watermark == 0
    assert cluster.settle_isr(1)
    assert leader.partition.isr == [1, 2]
    assert leader.log.high_watermark == 1
    cluster.fetch(3)
    cluster.fetch(3)
    assert leader.partition.isr == [1, 2]
    assert leader.partition.maximal_isr == {1, 2, 3}
    assert cluster.settle_isr(1)
    assert sorted(leader.partition.isr) == [1, 2, 3]


def test_while_an_expansion_is_pending_the_newcomer_holds_the_high_watermark() -> None:
    cluster = Cluster(2)
    cluster.change(isr=(1,))
    cluster.publish()
    leader = cluster.leader
    cluster.fetch(2)
    assert leader.partition.pending is not None
    answer = leader.produce(b"1")
    assert produced(answer) is None
    assert cluster.settle_isr(1, lost=True)
    assert leader.partition.pending is not None
    cluster.pass_time(50)
    cluster.settle_isr(1)  # the controller says that the version is old
    cluster.publish()
    assert leader.partition.pending is None
    assert sorted(leader.partition.isr) == [1, 2]


def test_who_is_fenced_or_of_an_old_epoch_does_not_join() -> None:
    cluster = Cluster(2)
    cluster.change(isr=(1,))
    cluster.fenced.add(2)
    cluster.publish()
    cluster.fetch(2)
    assert cluster.leader.partition.pending is None
    cluster.fenced.clear()
    cluster.epochs[2] = 7
    cluster.publish(1)
    cluster.pass_time(1)
    cluster.fetch(2)
    assert cluster.leader.partition.pending is None
    cluster.brokers[2].epoch = 7
    cluster.fetch(2)
    assert cluster.leader.partition.pending is not None


def test_too_few_in_sync() -> None:
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.change(isr=(1,))
    cluster.publish()
    leader = cluster.leader
    assert produced(leader.produce(b"1")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert produced(leader.produce(b"2", acks=1)) == (ErrorCode.NONE, 0)
    assert leader.log.high_watermark == 0, "nothing is committed by fewer than that"
    cluster.fetch(2)
    cluster.fetch(2)
    cluster.settle_isr(1)
    assert leader.log.high_watermark == 1


def test_a_produce_that_waits_fails_when_the_leader_moves() -> None:
    cluster = Cluster(3)
    old = cluster.leader
    answer = old.produce(b"1")
    cluster.change(leader=2)
    cluster.publish()
    assert produced(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_what_the_new_leader_lacks_is_cut_off() -> None:
    cluster = Cluster(3)
    cluster.leader.produce(b"1")
    for _ in range(2):
        cluster.fetch(2)
        cluster.fetch(3)
    old = cluster.leader
    old.produce(b"never replicated")
    cluster.change(leader=2)
    cluster.publish()
    cluster.leader.produce(b"2")
    for _ in range(4):
        cluster.fetch(1)
        cluster.fetch(3)
    assert [broker.values() for broker in cluster.brokers.values()] == [[b"1", b"2"]] * 3
    assert old.log.epochs.entries() == [(0, 0), (1, 1)]


def test_a_leader_that_wrote_nothing_forgets_its_epoch() -> None:
    cluster = Cluster(2)
    cluster.leader.produce(b"1")
    cluster.fetch(2)
    cluster.fetch(2)
    cluster.change(leader=2)
    cluster.publish(2)
    cluster.change(leader=1)
    cluster.publish()
    cluster.leader.produce(b"2")
    for _ in range(4):
        cluster.fetch(2)
    assert cluster.brokers[2].values() == [b"1", b"2"]
    assert cluster.brokers[2].log.epochs.entries() == cluster.leader.log.epochs.entries()


def test_a_follower_below_the_leaders_start_begins_there() -> None:
    cluster = Cluster(2)
    cluster.change(isr=(1,))
    cluster.publish()
    leader = cluster.leader
    for value in (b"1", b"2", b"3"):
        leader.produce(value)
    leader.log.increment_log_start_offset(2)
    steps = [cluster.fetch(2) for _ in range(3)]
    assert steps == ["FetchRequest (full)", "ListOffsetsRequest", "ListOffsetsRequest"]
    cluster.pass_time(20)
    cluster.fetch(2)
    assert cluster.brokers[2].log.log_start_offset == 2
    assert cluster.brokers[2].values() == [b"3"]


def test_a_follower_of_a_leader_that_begins_inside_a_batch_begins_with_that_batch() -> None:
    cluster = Cluster(2)
    cluster.change(isr=(1,))
    cluster.publish()
    leader = cluster.leader
    now_ms = cluster.clock.now_ms()
    leader.partition.append(
        memoryview(batch(b"1", b"2", b"3")), now_ms, AppendOrigin.CLIENT, acks_all=False
    )
    leader.partition.maybe_advance_high_watermark(now_ms)
    leader.log.increment_log_start_offset(2)
    for _ in range(3):
        cluster.fetch(2)
    cluster.pass_time(20)
    cluster.fetch(2)
    follower = cluster.brokers[2].log
    assert (follower.log_start_offset, follower.log_end_offset) == (2, 3)


def test_sessions_name_only_what_moved() -> None:
    cluster = Cluster(2)
    assert cluster.fetch(2) == "FetchRequest (full)"
    fetcher = next(iter(cluster.brokers[2].replicas.fetchers.values()))
    request = fetcher.next_request(cluster.clock.ms)
    assert isinstance(request, FetchRequest)
    assert (request.session_epoch, request.topics) == (1, [])
    fetcher.answered(None, cluster.clock.ms)
    assert fetcher.next_request(cluster.clock.ms) is None
    assert fetcher.next_due_ms == cluster.clock.ms + 20
    cluster.pass_time(20)
    assert cluster.fetch(2) == "FetchRequest (full)"


def test_a_fenced_follower_waits_for_the_metadata() -> None:
    cluster = Cluster(2)
    cluster.change(leader=1)
    cluster.publish(1)
    cluster.fetch(2)
    fetcher = next(iter(cluster.brokers[2].replicas.fetchers.values()))
    assert [each.state for each in fetcher._followed.values()] == [State.FENCED]
    assert fetcher.next_due_ms is None
    cluster.publish(2)
    assert cluster.fetch(2) == "FetchRequest"


def test_a_stranger_is_no_follower() -> None:
    cluster = Cluster(2)
    for epoch, code in (
        (0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        partition = FetchPartition(
            partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=100
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=9, replica_epoch=1),
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        data = cluster.leader.handle(request).response.responses[0].partitions[0]
        assert data.error_code == code


def test_a_new_leader_that_knows_little_says_so() -> None:
    cluster = Cluster(2)
    cluster.leader.produce(b"1")
    cluster.fetch(2)
    cluster.change(leader=2)
    cluster.publish()
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)]),
        ],
    )
    answer = cluster.leader.handle(request).response.topics[0].partitions[0]
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.fetch(1)
    cluster.fetch(1)
    answer = cluster.leader.handle(request).response.topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 1)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_served_there() -> None:
    cluster = Cluster(2, settings=ReplicaSettings(rack_aware_selector=True))
    cluster.leader.produce(b"1")
    for _ in range(3):
        cluster.fetch(2)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        rack_id="rack-2",
        min_bytes=1,
        max_wait_ms=100,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )
    data = cluster.leader.handle(request).response.responses[0].partitions[0]
    assert (data.preferred_read_replica, len(data.records)) == (2, 0)
    data = cluster.brokers[2].handle(request).response.responses[0].partitions[0]
    assert (data.preferred_read_replica, len(data.records) > 0) == (-1, True)


def delete_below(offset: int, timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


def test_records_are_deleted_once_all_live_replicas_have_let_go() -> None:
    cluster = Cluster(3)
    cluster.leader.produce(b"1")
    for node in (2, 3, 2, 3):
        cluster.fetch(node)
    cluster.fenced.add(3)
    cluster.publish()
    answer = cluster.leader.handle(delete_below(-1))
    assert answer.response is None
    cluster.fetch(2)
    cluster.fetch(2)
    result = answer.response.topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 1)
    assert cluster.brokers[2].log.log_start_offset == 1


def test_a_deletion_that_a_replica_does_not_follow_times_out() -> None:
    cluster = Cluster(2)
    cluster.leader.produce(b"1")
    cluster.fetch(2)
    cluster.fetch(2)
    answer = cluster.leader.handle(delete_below(1, timeout_ms=100))
    cluster.pass_time(101)
    result = answer.response.topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert cluster.leader.log.log_start_offset == 1


def test_leaders_that_cannot_tell_divergence_in_fetch_are_asked_for_epochs_first() -> None:
    cluster = Cluster(2)
    cluster.leader.produce(b"1")
    cluster.fetch(2)
    cluster.fetch(2)
    old = cluster.leader
    old.produce(b"never replicated")
    cluster.change(leader=2)
    cluster.publish()
    cluster.leader.produce(b"2")
    fetcher = next(iter(old.replicas.fetchers.values()))
    fetcher._diverging_epoch_in_fetch = False
    fetcher.add(old.partition)
    assert cluster.fetch(1) == "OffsetForLeaderEpochRequest"
    assert old.values() == [b"1"]
    for _ in range(2):
        cluster.fetch(1)
    assert old.values() == [b"1", b"2"]
    assert old.log.epochs.entries() == cluster.leader.log.epochs.entries()


def test_a_batch_that_is_damaged_on_the_way_is_not_taken() -> None:
    cluster = Cluster(2)
    cluster.leader.produce(b"1")
    follower = cluster.brokers[2]
    fetcher = next(iter(follower.replicas.fetchers.values()))
    request = fetcher.next_request(cluster.clock.ms)
    response = over_the_wire(cluster.leader.handle(request).response)
    data = response.responses[0].partitions[0]
    damaged = bytearray(data.records)
    damaged[-1] ^= 1
    data.records = bytes(damaged)
    fetcher.answered(response, cluster.clock.ms)
    assert follower.log.log_end_offset == 0
    assert fetcher.next_due_ms == cluster.clock.ms + 20
    cluster.pass_time(20)
    cluster.fetch(2)
    assert follower.values() == [b"1"]


def test_answers_to_what_was_asked_before_the_leader_moved_are_dropped() -> None:
    cluster = Cluster(3)
    cluster.leader.produce(b"1")
    follower = cluster.brokers[2]
    fetcher = next(iter(follower.replicas.fetchers.values()))
    response = over_the_wire(cluster.leader.handle(fetcher.next_request(cluster.clock.ms)).response)
    cluster.change(leader=3)
    cluster.publish()
    fetcher.answered(response, cluster.clock.ms)
    assert follower.log.log_end_offset == 0
    assert list(follower.replicas.fetchers) == [(3, 0)]


def test_a_replica_that_is_no_longer_assigned_is_removed() -> None:
    cluster = Cluster(3)
    cluster.registration = cluster.registration._replace(
        replicas=(1, 2), isr=(1, 2), partition_epoch=1
    )
    cluster.publish()
    follower = cluster.brokers[3]
    assert follower.replicas.find("t", 0) is None
    assert follower.logs.get("t", 0) is None
    assert follower.replicas.fetchers == {}
    assert set(cluster.leader.partition.followers) == {2}
