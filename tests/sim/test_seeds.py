"""Short runs of whole clusters with faults, on all cores. A failure names the seed's replay command.

They are also held against nodes that break their word, because a judge that never says no is none.
"""

from __future__ import annotations

import pytest

from barnabas.raft.follower import Follower
from barnabas.raft.prospective import Prospective
from barnabas.raft.resigned import Resigned
from barnabas.raft.unattached import Unattached
from barnabas.replica.delayed_produce import Awaited
from barnabas.replica.fetcher import FollowerFetcher
from barnabas.replica.partition import Partition
from barnabas.sim.simulation import Simulation
from barnabas.sim.soak import run_seeds
from barnabas.wire.errors import ErrorCode

COUNTS = {1: 100, 3: 100, 5: 24}


@pytest.mark.parametrize("nodes", COUNTS)
def test_clusters_keep_their_word_and_recover(nodes: int) -> None:
    failures = []
    acknowledged = 0
    for outcome in run_seeds(0, COUNTS[nodes], nodes):
        acknowledged += outcome.acknowledged
        if outcome.failure is not None:
            failures.append(f"{outcome.failure}\n    {outcome.replay}")
    assert not failures, "\n".join(failures)
    assert acknowledged > 20 * COUNTS[nodes]


def first_failure(nodes: int, seeds: int = 30) -> str | None:
    for seed in range(seeds):
        outcome = Simulation(seed, nodes).run()
        if outcome.failure is not None:
            assert f"--seed {seed} " in outcome.replay
            return outcome.failure
    return None


def test_a_node_that_only_pretends_to_flush_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.sim.disk.SimulatedFile.sync", lambda self: None)
    assert first_failure(nodes=1) is not None


def test_a_leader_that_does_not_wait_for_its_followers_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Partition, "_replicated_below", lambda self, position, log, now_ms: position
    )
    failure = first_failure(nodes=3)
    assert failure is not None
    assert "in sync" in failure


def test_a_leader_that_acknowledges_what_it_alone_has_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(self: Awaited) -> bool:
        self.settled, self.code = True, ErrorCode.NONE
        return True

    monkeypatch.setattr(Awaited, "check", check)
    failure = first_failure(nodes=3)
    assert failure is not None
    assert "nowhere committed" in failure


def test_a_leader_that_counts_followers_as_in_sync_too_early_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def expand(self, follower, log):  # type: ignore[no-untyped-def]
        eligible = self.isr_manager.is_eligible(follower.broker_id, follower.broker_epoch)
        if self.pending is None and eligible:
            self._propose([*self.isr, follower.broker_id])

    monkeypatch.setattr(Partition, "_maybe_expand", expand)
    failure = first_failure(nodes=3)
    assert failure is not None
    assert "in sync" in failure


def test_a_follower_that_cuts_to_its_own_high_watermark_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Kafka did before leader epochs (KIP-101)."""
    add = FollowerFetcher.add

    def forgetful(self: FollowerFetcher, partition: Partition) -> None:
        log = partition.online_log()
        log.truncate_to(log.high_watermark)
        add(self, partition)

    monkeypatch.setattr(FollowerFetcher, "add", forgetful)
    assert first_failure(nodes=3) is not None


def test_a_voter_that_votes_for_anybody_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (Unattached, Prospective, Follower, Resigned):
        would_vote = state.would_vote

        def anybody(self, candidate, up_to_date, *, pre_vote, would_vote=would_vote):  # type: ignore[no-untyped-def]
            return would_vote(self, candidate, True, pre_vote=pre_vote)

        monkeypatch.setattr(state, "would_vote", anybody)
    failure = first_failure(nodes=5)
    assert failure is not None


def test_a_coordinator_that_forgets_commits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets are answered, but the log that another node would load them from lacks them."""
    append = Partition.append

    def forgetful(self, records, *rest, **named):  # type: ignore[no-untyped-def]
        info = append(self, records, *rest, **named)
        if self.topic == "__consumer_offsets" and info.last_offset > 3:
            self.log.truncate_to(info.first_offset)
        return info

    monkeypatch.setattr(Partition, "append", forgetful)
    assert first_failure(nodes=3) is not None
