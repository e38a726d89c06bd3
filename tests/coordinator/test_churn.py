"""Random churn in virtual time, with the invariants checked after every event.

Clients join, sync, heartbeat, commit, leave, go silent and come back; coordinators restart, lose the
partition and get it back, the log holds back commits or refuses appends. A failing seed is in the
name of the test: `pytest tests/coordinator/test_churn.py -k "churn[<seed>]"` replays it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from barnabas.coordinator.group.classic_group import ClassicGroup
from barnabas.coordinator.group.config import GroupCoordinatorConfig
from barnabas.coordinator.group.coordinator import ClientInfo
from barnabas.coordinator.group.state import COMPLETING_REBALANCE, DEAD, EMPTY, STABLE
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.script import subscription
from tests.coordinator.virtual import VirtualCoordinator

GROUPS = ["orders", "shipping"]
EVENTS = 1_500


@dataclass
class Asked:
    """A request that was not answered at once."""

    kind: str
    coordinator: VirtualCoordinator
    answers: list[Any] = field(default_factory=list)


@dataclass
class Client:
    name: str
    group: str
    instance: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    members: list[str] = field(default_factory=list)
    busy: bool = False
    asleep: bool = False
    does: str = "join"


class Churn:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        config = GroupCoordinatorConfig(
            offsets_topic_num_partitions=2,
            group_initial_rebalance_delay_ms=self.random.choice([0, 0, 3_000]),
            group_max_size=self.random.choice([4, 1_000]),
            offsets_retention_ms=300_000,
            offsets_retention_check_interval_ms=20_000,
        )
        self.node = VirtualCoordinator(config).start()
        self.epoch = 0
        self.clients = [
            Client(
                f"c{index}",
                self.random.choice(GROUPS),
                f"i{index % 5}" if index % 3 == 0 else None,
                self.random.choice([0, 3, 4, 8, 9]),
            )
            for index in range(10)
        ]
        for client in self.clients:
            if client.version < 5:
                client.instance = None
        self.asked: list[Asked] = []
        self.generations: dict[tuple[int, str], int] = {}
        # What was acknowledged: (group, partition) -> offset
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.next_offset = 0
        self.commits = 0
        self.stable_checks = 0

    # ---- asking

    def ask(self, kind: str, call: Any, then: Any) -> None:
        asked = Asked(kind, self.node)
        done = False

        def respond(response: Any) -> None:
            nonlocal done
            assert not done, f"{kind} answered twice"
            done = True
            asked.answers.append(response)
            then(response)

        answer = call(respond)
        if answer is not None:
            assert not done, f"{kind} answered and returned"
            respond(answer)
        elif not done:
            self.asked.append(asked)

    def join(self, client: Client) -> None:
        if client.busy:
            return
        client.busy = True
        names = self.random.choice([["range"], ["range", "sticky"], ["sticky", "range"]])
        topics = self.random.choice([["t"], ["t", "u"]])
        request = JoinGroupRequest(
            group_id=client.group,
            session_timeout_ms=self.random.choice([6_000, 10_000, 45_000]),
            rebalance_timeout_ms=self.random.choice([5_000, 60_000]),
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(*topics))
                for name in names
            ],
        )

        def joined(response: Any) -> None:
            client.busy = False
            code = response.error_code
            if code == ErrorCode.NONE:
                client.member_id = response.member_id
                client.generation = response.generation_id
                client.members = [one.member_id for one in response.members]
                client.does = "sync"
                if client.members:
                    assert response.leader == client.member_id
                    assert client.member_id in client.members
            elif code == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = response.member_id
            elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""

        info = ClientInfo(client.name, "/10.0.0.1")
        self.ask(
            "join",
            lambda respond: self.node.groups.join_group(request, info, client.version, respond),
            joined,
        )

    def sync(self, client: Client) -> None:
        if client.busy:
            return
        client.busy = True
        request = SyncGroupRequest(
            group_id=client.group,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=f"{client.group}/{client.generation}/{member_id}".encode(),
                )
                for member_id in client.members
            ],
        )
        generation = client.generation
        member_id = client.member_id

        def synced(response: Any) -> None:
            client.busy = False
            client.does = "join" if response.error_code else "work"
            if response.error_code == ErrorCode.NONE and response.assignment:
                group, of_generation, of_member = response.assignment.decode().split("/")
                assert group == client.group
                assert int(of_generation) <= generation
                if client.instance is None:
                    assert of_member == member_id
                    assert int(of_generation) == generation

        self.ask("sync", lambda respond: self.node.groups.sync_group(request, respond), synced)

    def heartbeat(self, client: Client) -> None:
        if client.busy:
            return
        answer = self.node.groups.heartbeat(
            HeartbeatRequest(
                group_id=client.group,
                generation_id=client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance,
            )
        )
        if answer.error_code != ErrorCode.NONE:
            client.does = "join"
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    def commit(self, client: Client) -> None:
        partition = self.random.randrange(3)
        self.next_offset += 1
        offset = self.next_offset
        where = (client.group, partition)
        request = OffsetCommitRequest(
            group_id=client.group,
            generation_id_or_member_epoch=client.generation if client.member_id else -1,
            member_id=client.member_id,
            group_instance_id=client.instance,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )

        def committed(response: Any) -> None:
            code = response.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                self.commits += 1
                self.acknowledged[where] = max(offset, self.acknowledged.get(where, -1))

        self.ask(
            "commit",
            lambda respond: self.node.groups.commit_offsets(request, 9, respond),
            committed,
        )

    def fetch(self, client: Client) -> None:
        floor = {
            where: offset for where, offset in self.acknowledged.items() if where[0] == client.group
        }

        def fetched(response: Any) -> None:
            if response.error_code != ErrorCode.NONE:
                return
            found = {
                (client.group, one.partition_index): one.committed_offset
                for topic in response.topics
                for one in topic.partitions
            }
            for where, offset in floor.items():
                if where in self.acknowledged:
                    assert found.get(where, -1) >= offset, "an acknowledged offset is not there"

        self.ask(
            "fetch",
            lambda respond: self.node.groups.fetch_offsets(
                OffsetFetchRequestGroup(group_id=client.group, topics=None),
                require_stable=True,
                respond=respond,
            ),
            fetched,
        )

    def leave(self, client: Client) -> None:
        if client.busy or not client.member_id:
            return
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance)
        client.member_id = ""
        client.does = "join"
        self.ask(
            "leave",
            lambda respond: self.node.groups.leave_group(client.group, [identity], respond),
            lambda response: None,
        )

    def delete(self, client: Client) -> None:
        def deleted(results: Any) -> None:
            pass

        # Whether or not it succeeds, nothing can be said about its offsets from now on.
        for where in list(self.acknowledged):
            if where[0] == client.group:
                del self.acknowledged[where]
        self.ask(
            "delete",
            lambda respond: self.node.groups.delete_groups([client.group], respond),
            deleted,
        )

    # ---- the environment

    def restart(self) -> None:
        """Without a word: what waited at the old coordinator is never answered."""
        for asked in self.asked:
            asked.kind = "lost"
        for client in self.clients:
            client.busy = False
        self.epoch += 1
        self.node.log.release()
        self.node = self.node.successor().start(self.epoch)

    def move_away_and_back(self) -> None:
        waiting = [asked for asked in self.asked if not asked.answers and asked.kind != "lost"]
        for partition in range(2):
            self.node.groups.resign(partition)
        assert all(asked.answers for asked in waiting), "somebody was forgotten"
        self.epoch += 1
        self.node.log.release()
        for partition in range(2):
            self.node.groups.become_leader(partition, self.epoch)

    def hold(self) -> None:
        self.node.log.held = True

    def release(self) -> None:
        self.node.log.release()

    def fail(self) -> None:
        self.node.log.failures.append(
            self.random.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
        )

    def advance(self) -> None:
        self._pass(self.random.choice([1, 50, 50, 500, 500, 1_000, 3_000, 20_000]))
        if self.random.random() < 0.01:
            self.node.advance(400_000)
        # Expiry may have taken any offset of an empty group.
        self.acknowledged = {
            where: offset
            for where, offset in self.acknowledged.items()
            if self._stored(where) is not None
        }

    def _pass(self, ms: int) -> None:
        """Clients that are awake do not miss their heartbeats meanwhile."""
        while ms > 0:
            piece_ms = min(ms, 2_000)
            ms -= piece_ms
            self.node.advance(piece_ms)
            for client in self.clients:
                if client.does == "work" and not client.asleep:
                    self.heartbeat(client)

    def _stored(self, where: tuple[str, int]) -> int | None:
        partition = self.node.groups.partition_for(where[0])
        if self.node.groups.runtime.partitions[partition].state.value != "active":
            return -1
        committed = self.node.shard(partition).offsets.of_group(where[0]).get("t", {}).get(where[1])
        return None if committed is None else committed.offset

    # ---- one event, then the invariants

    def behave(self, client: Client) -> None:
        """What a real client would do next."""
        client.asleep = False
        if client.does == "join":
            self.join(client)
        elif client.does == "sync":
            self.sync(client)
        else:
            self.random.choice([self.heartbeat, self.heartbeat, self.commit, self.fetch])(client)

    def calm(self) -> None:
        """Nothing disturbs the clients for a while: long enough for a rebalance, often for more."""
        for _ in range(self.random.choice([2, 6, 10])):
            for client in self.random.sample(self.clients, len(self.clients)):
                self.behave(client)
                self.check()
            self.node.advance(100)

    def step(self) -> None:
        event = self.random.random()
        client = self.random.choice(self.clients)
        if event < 0.57:
            self.behave(client)
        elif event < 0.60:
            self.calm()
        elif event < 0.64:
            self.join(client)
        elif event < 0.68:
            self.sync(client)
        elif event < 0.72:
            self.commit(client)
        elif event < 0.76:
            self.fetch(client)
        elif event < 0.79:
            self.leave(client)
        elif event < 0.80:
            client.member_id = ""
            client.does = "join"
        elif event < 0.81:
            client.asleep = True
        elif event < 0.92:
            self.advance()
        elif event < 0.935:
            self.hold()
        elif event < 0.975:
            self.release()
        elif event < 0.985:
            self.fail()
        elif event < 0.99:
            self.delete(client)
        elif event < 0.995:
            self.restart()
        else:
            self.move_away_and_back()

    def check(self) -> None:
        for entry in self.node.groups.runtime.partitions.values():
            if entry.state.value != "active":
                continue
            shard = self.node.shard(entry.partition)
            for group in shard.groups:
                check_group(group)
                self.stable_checks += group.state is STABLE
                key = (self.epoch, group.group_id)
                if group.generation < self.generations.get(key, 0):
                    assert group.generation <= 1, "a generation went back"
                self.generations[key] = group.generation

    def check_replay(self) -> None:
        """Another coordinator that reads the log finds the same offsets and generations."""
        other = self.node.successor()
        other.groups.start()
        for partition in range(2):
            other.groups.become_leader(partition, 0)
        other.advance(5_000)
        for partition in range(2):
            live, loaded = self.node.shard(partition), other.shard(partition)
            written = {
                record.group_id for record in self.node.log.records(partition) if record is not None
            }
            for group_id in written:
                assert dict(live.offsets.of_group(group_id)) == dict(
                    loaded.offsets.of_group(group_id)
                )
                mine, theirs = live.groups.get(group_id), loaded.groups.get(group_id)
                if theirs is None:
                    assert mine is None or mine.generation == 0 or mine.state is not STABLE
                elif mine is not None and mine.state is STABLE:
                    assert snapshot(mine) == snapshot(theirs)
        other.groups.stop()


def snapshot(group: ClassicGroup) -> tuple[Any, ...]:
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.subscribed_topics,
        {
            member.member_id: (
                member.group_instance_id,
                member.client_id,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.protocols[group.protocol_name or ""],
                member.assignment,
            )
            for member in group.members.values()
        },
        dict(group.static_members),
    )


def check_group(group: ClassicGroup) -> None:
    members = group.members
    assert group.state is not DEAD
    assert (group.state is EMPTY) == (not members) or group.state.value == "PreparingRebalance"
    assert (group.leader_id in members) if members else group.leader_id is None
    assert group.static_members == {
        member.group_instance_id: member_id
        for member_id, member in members.items()
        if member.group_instance_id is not None
    }
    for member_id, member in members.items():
        assert member.member_id == member_id
    assert group.awaiting_join_count == sum(1 for m in members.values() if m.join_reply)
    assert not group.pending_members.keys() & members.keys()
    assert group.pending_sync <= members.keys()
    counts: dict[str, int] = {}
    for member in members.values():
        for name in member.protocols:
            counts[name] = counts.get(name, 0) + 1
    assert group.protocol_counts == counts
    assert group.protocol_bytes == sum(member.protocol_bytes for member in members.values())
    waits_for_sync = [member for member in members.values() if member.sync_reply]
    assert not waits_for_sync or group.state is COMPLETING_REBALANCE
    if group.state is STABLE:
        assert group.protocol_counts[group.protocol_name or ""] == len(members)
        for member in members.values():
            assert member.session_timer is not None or member.join_reply is not None
            if member.assignment and member.group_instance_id is None:
                of_group, generation, of_member = member.assignment.decode().split("/")
                assert (of_group, of_member) == (group.group_id, member.member_id)
                assert int(generation) == group.generation


@pytest.mark.parametrize("seed", range(20))
def test_churn(seed: int) -> None:
    churn = Churn(seed)
    for event in range(EVENTS):
        churn.step()
        churn.check()
        if event % 100 == 99:
            churn.release()
            churn.node.log.failures.clear()
            churn.node.advance(2_000)
            churn.check_replay()
    churn.release()
    churn.node.groups.stop()
    for asked in churn.asked:
        assert len(asked.answers) == (0 if asked.kind == "lost" and not asked.answers else 1), asked
    # The churn must have gone through what it is about.
    assert churn.commits > 60
    assert churn.stable_checks > 500
    assert max(churn.generations.values()) > 5
