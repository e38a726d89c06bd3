"""Throttled replicas share a rate, in virtual time: the quota alone, and on both sides of a fetch."""

from __future__ import annotations

import pytest

from barnabas.replica.replication_quota import UNLIMITED, ReplicationQuota
from tests.replica.brokers import Cluster

SECOND = 1_000


def quota(rate: int, *replicas: str) -> ReplicationQuota:
    found = ReplicationQuota()
    found.rate = rate
    found.throttle("t", replicas, 1)
    return found


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        ((), []),
        (("*",), [0, 1, 2]),
        (("0:1", "1:2", "2:1"), [0, 2]),
        (("0:2",), []),
    ],
)
def test_who_is_throttled(replicas: tuple[str, ...], throttled: list[int]) -> None:
    found = quota(0, *replicas)
    assert [index for index in range(3) if found.is_throttled("t", index)] == throttled
    assert not found.is_throttled("other", 0)
    found.throttle("t", (), 1)
    assert not any(found.is_throttled("t", index) for index in range(3))


def test_the_rate_is_an_average_over_the_window() -> None:
    found = quota(1_000, "*")
    assert not found.is_exceeded(0)
    found.record(1_000, 0)
    # A sample counts as a whole one from the beginning.
    assert found.measured(0) == found.measured(999) == 1_000
    assert not found.is_exceeded(0)
    found.record(4_000, 500)
    assert found.is_exceeded(500)
    assert found.is_exceeded(4_999)
    assert not found.is_exceeded(5_000)
    found.record(5_000, 5_000)
    assert found.measured(10_000) == 1_000
    # The first sample is forgotten when the window of eleven has gone past it.
    assert found.measured(10_999) == 1000 * 10_000 / 10_999
    assert found.measured(11_000) == 1000 * 5_000 / 6_000
    assert found.measured(60_000) == 0


def test_without_a_rate_nobody_waits() -> None:
    found = quota(UNLIMITED, "*")
    found.record(1 << 40, 0)
    assert not found.holds_back("t", 0, 0)
    found.rate = 0
    assert found.holds_back("t", 0, 0)
    assert not found.holds_back("other", 0, 0)


def test_a_clock_that_is_set_back_does_not_throttle_for_long() -> None:
    found = quota(10, "*")
    found.record(1_000, 1_000_000)
    assert found.is_exceeded(1_000_000)
    assert not found.is_exceeded(5)


def test_samples_are_bounded() -> None:
    found = ReplicationQuota(samples=3, sample_ms=10)
    for now_ms in range(0, 10_000, 5):
        found.record(1, now_ms)
    assert len(found._samples) <= 3


def lagging(cluster: Cluster, records: int = 40) -> None:
    """Broker 2 is not in sync and has much to fetch."""
    cluster.change(isr=(1,))
    cluster.publish()
    for _ in range(records):
        cluster.leader.produce(b"x" * 1_000)


def throttle(cluster: Cluster, side: str, node_id: int, rate: int, *replicas: str) -> None:
    found = getattr(cluster.brokers[node_id].replicas, f"{side}_quota")
    found.rate = rate
    found.throttle("t", replicas, node_id)


def one_record_a_fetch(cluster: Cluster) -> None:
    for fetcher in cluster.brokers[2].replicas.fetchers.values():
        fetcher._settings = fetcher._settings.__class__(fetch_max_bytes=1, lag_time_max_ms=10_000)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_keeps_to_the_rate(side: str) -> None:
    cluster = Cluster(3)
    lagging(cluster)
    one_record_a_fetch(cluster)
    throttle(cluster, side, 1 if side == "leader" else 2, 2_000, "*")
    follower = cluster.brokers[2]
    began_ms = cluster.clock.ms
    while follower.log.log_end_offset < 40:
        if cluster.fetch(2) == "nothing":
            cluster.pass_time(SECOND)
        assert cluster.clock.ms - began_ms < 60 * SECOND
    # Forty records of a kilobyte and a little at two kilobytes a second.
    assert 15 * SECOND < cluster.clock.ms - began_ms < 25 * SECOND


def test_the_leader_answers_a_held_back_replica_with_nothing_and_knows_where_it_is() -> None:
    cluster = Cluster(3)
    lagging(cluster, 2)
    throttle(cluster, "leader", 1, 0, "0:1")
    one_record_a_fetch(cluster)
    cluster.fetch(2)
    assert cluster.brokers[2].log.log_end_offset == 1
    cluster.fetch(2)
    assert cluster.brokers[2].log.log_end_offset == 1
    assert cluster.leader.partition.followers[2].log_end_offset == 1


def test_a_replica_in_sync_is_not_held_back_by_the_leader() -> None:
    cluster = Cluster(3)
    throttle(cluster, "leader", 1, 0, "*")
    for _ in range(3):
        cluster.leader.produce(b"x")
        for node in (2, 3, 2, 3):
            cluster.fetch(node)
    assert cluster.leader.log.high_watermark == 3
    assert cluster.leader.replicas.leader_quota.measured(cluster.clock.ms) > 0


def test_a_follower_without_lag_is_not_held_back() -> None:
    cluster = Cluster(2)
    throttle(cluster, "follower", 2, 0, "0:2")
    cluster.fetch(2)
    for size in range(1, 4):
        cluster.leader.produce(b"x")
        cluster.fetch(2)
        cluster.fetch(2)
        assert cluster.brokers[2].log.log_end_offset == size


def test_others_go_on_while_one_is_held_back() -> None:
    cluster = Cluster(2)
    cluster.fetch(2)
    throttle(cluster, "follower", 2, 0, "7:2")
    cluster.brokers[2].replicas.follower_quota.record(1_000, cluster.clock.ms)
    cluster.leader.produce(b"x")
    cluster.fetch(2)
    assert cluster.brokers[2].log.log_end_offset == 1


def test_a_topic_that_is_gone_is_not_throttled() -> None:
    cluster = Cluster(2)
    throttle(cluster, "leader", 1, 0, "*")
    replicas = cluster.leader.replicas
    replicas.remove_topic(replicas._topics["t"])
    assert not replicas.leader_quota.is_throttled("t", 0)
