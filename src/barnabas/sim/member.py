"""A member of a group: joins, owns what it is given, reads it and commits where it stands.

The members agree on the assignment among themselves, as the classic protocol has it: the one that
the coordinator calls the leader deals the partitions out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.sim.client import TIMEOUT_S, ClientProcess, Connection, Refused
from barnabas.sim.consumer import Reader
from barnabas.sim.history import History, Place
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 4_000
PROTOCOL = "dealt"

_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class Member:
    def __init__(
        self,
        client: ClientProcess,
        history: History,
        group: str,
        places: list[Place],
        fetch_bytes: int,
    ) -> None:
        self._fetch_bytes = fetch_bytes
        self._client = client
        self._history = history
        self._group = group
        self._places = places
        self._coordinator: Connection | None = None
        self.member_id = ""
        self.generation = -1
        self.owned: list[Place] = []

    async def run(self) -> None:
        while True:
            try:
                await self._join()
                await self._work()
            except OSError:
                self._coordinator = None
                await self._client.rest(0.2)
            except Refused as refused:
                await self._recover(refused.code)

    async def leave(self) -> None:
        """Say goodbye, once, if the coordinator can be reached."""
        request = LeaveGroupRequest(
            group_id=self._group, members=[MemberIdentity(member_id=self.member_id)]
        )
        if self._coordinator is not None and self.member_id:
            await self._coordinator.ask(request, 4)
        self.member_id, self.owned = "", []

    async def _recover(self, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST):
            self._history.violated(f"{self._group}: {self._client.name} was told {code.name}")
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif code in _ELSEWHERE:
            self._coordinator = None
            await self._client.rest(0.2)
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            await self._client.rest(0.2)

    async def _ask(self, request: Any, version: int, timeout_s: float = TIMEOUT_S) -> Any:
        if self._coordinator is None or self._coordinator.closed:
            question = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
            answer = await (await self._client.to_any()).ask(question, 4)
            found = answer.coordinators[0]
            _check(found.error_code)
            self._coordinator = await self._client.to((found.host, found.port))
        return await self._coordinator.ask(request, version, timeout_s)

    async def _join(self) -> None:
        self.owned = []
        while True:
            joined = await self._ask(
                JoinGroupRequest(
                    group_id=self._group,
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                    member_id=self.member_id,
                    protocol_type="simulated",
                    protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
                ),
                7,
                timeout_s=REBALANCE_TIMEOUT_MS / 1000 + TIMEOUT_S,
            )
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            self.member_id = joined.member_id
        _check(joined.error_code)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        dealt = []
        if joined.leader == self.member_id:
            members = sorted(member.member_id for member in joined.members)
            for turn, member in enumerate(members):
                share = self._places[turn :: len(members)]
                text = ",".join(f"{topic}/{partition}" for topic, partition in share)
                dealt.append(SyncGroupRequestAssignment(member_id=member, assignment=text.encode()))
        synced = await self._ask(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="simulated",
                protocol_name=PROTOCOL,
                assignments=dealt,
            ),
            5,
            timeout_s=REBALANCE_TIMEOUT_MS / 1000 + TIMEOUT_S,
        )
        _check(synced.error_code)
        self.owned = assignment_of(synced.assignment)
        for place in self.owned:
            self._history.owns(self._group, self.generation, place, self.member_id)

    async def _work(self) -> None:
        readers = [
            Reader(self._client, self._history, place, self._fetch_bytes) for place in self.owned
        ]
        if readers:
            await self._fetch_positions(readers)
        while True:
            beat = HeartbeatRequest(
                group_id=self._group, generation_id=self.generation, member_id=self.member_id
            )
            _check((await self._ask(beat, 4)).error_code)
            moved = False
            for reader in readers:
                before = reader.position
                if not await reader.read(max_wait_ms=10):
                    await self._client.look_again(reader.place[0])
                if reader.position > before:
                    moved = True
                    await self._commit(reader)
            if not moved:
                await asyncio.sleep(0.5)

    async def _fetch_positions(self, readers: list[Reader]) -> None:
        before = {each.place: self._history.committed(self._group, each.place) for each in readers}
        topics: dict[str, list[int]] = {}
        for reader in readers:
            topics.setdefault(reader.place[0], []).append(reader.place[1])
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self._group,
                    topics=[
                        OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                        for name, indexes in topics.items()
                    ],
                )
            ],
            require_stable=True,
        )
        (answer,) = (await self._ask(request, 8)).groups
        _check(answer.error_code)
        positions = {
            (topic.name, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        for reader in readers:
            found = positions[reader.place]
            _check(found.error_code)
            offset = found.committed_offset
            self._history.fetched(self._group, reader.place, offset, before[reader.place])
            reader.position = max(offset, 0)

    async def _commit(self, reader: Reader) -> None:
        topic, partition = reader.place
        before = self._history.committed(self._group, reader.place)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=reader.position,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        )
        answer = await self._ask(request, 8)
        _check(answer.topics[0].partitions[0].error_code)
        self._history.commit(self._group, self.generation, reader.place, reader.position, before)


def assignment_of(data: bytes | memoryview) -> list[Place]:
    owned = []
    for text in filter(None, bytes(data).decode().split(",")):
        topic, _, partition = text.partition("/")
        owned.append((topic, int(partition)))
    return owned


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise Refused(code)
