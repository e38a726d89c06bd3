"""The group coordinator's face: what API handlers and the node's lifecycle call.

A method takes a decoded request and gives its response, or None when it must wait; then `respond`
is called with it later, exactly once, and never before the method has returned. Failures of the
whole coordinator (not here, still loading, shutting down) are put into the response of each kind
here, so that what is below can raise `ApiError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.coordinator.decision import TOO_LARGE, Write, coordinator_error
from barnabas.coordinator.group.config import DEFAULT_LIMITS, GroupCoordinatorConfig, Limits
from barnabas.coordinator.group.joining import ClientInfo
from barnabas.coordinator.group.records import Record
from barnabas.coordinator.group.shard import GroupShard
from barnabas.coordinator.group.state import DEAD
from barnabas.coordinator.placement import Placement
from barnabas.coordinator.runtime import CoordinatorRuntime, PartitionState
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.delete_groups import DeletableGroupResult
from barnabas.wire.messages.describe_groups import DescribedGroup
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import OffsetDeleteResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchResponseGroup
from barnabas.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.coordinator.partition_log import PartitionLog
    from barnabas.coordinator.runtime import Schedule, ShardPartition, Timer
    from barnabas.seams import Clock, Randomness
    from barnabas.wire.messages.heartbeat import HeartbeatRequest
    from barnabas.wire.messages.join_group import JoinGroupRequest
    from barnabas.wire.messages.leave_group import MemberIdentity
    from barnabas.wire.messages.offset_commit import OffsetCommitRequest
    from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
    from barnabas.wire.messages.offset_fetch import OffsetFetchRequestGroup
    from barnabas.wire.messages.sync_group import SyncGroupRequest

__all__ = ["OFFSETS_TOPIC", "ClientInfo", "GroupCoordinator"]

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
CLASSIC = "classic"

A = TypeVar("A")


class _Reply(Generic[A]):
    """Turns "was answered meanwhile" into a return value, and what comes later into `respond`."""

    __slots__ = ("_has_returned", "_respond", "_value")

    def __init__(self, respond: Callable[[A], None]) -> None:
        self._respond = respond
        self._has_returned = False
        self._value: A | None = None

    def __call__(self, value: A) -> None:
        if self._has_returned:
            self._respond(value)
        else:
            assert self._value is None, "answered twice"
            self._value = value

    def value(self) -> A | None:
        self._has_returned = True
        return self._value


class GroupCoordinator:
    def __init__(
        self,
        *,
        log: PartitionLog,
        clock: Clock,
        schedule: Schedule,
        randomness: Randomness,
        config: GroupCoordinatorConfig | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.config = config or GroupCoordinatorConfig()
        self._limits = limits
        self._clock = clock
        self._schedule = schedule
        self._randomness = randomness
        self._is_active = False
        self._expiry_timer: Timer | None = None
        self.placement = Placement(self.config.offsets_topic_num_partitions)
        self.runtime: CoordinatorRuntime[Record] = CoordinatorRuntime(
            OFFSETS_TOPIC,
            log=log,
            clock=clock,
            schedule=schedule,
            make_shard=self._make_shard,
            commit_timeout_ms=self.config.offsets_commit_timeout_ms,
            compression_codec=self.config.offsets_topic_compression_codec,
        )

    def _make_shard(self, partition: int, perform: Callable[[Write[Record]], None]) -> GroupShard:
        return GroupShard(
            partition,
            config=self.config,
            limits=self._limits,
            clock=self._clock,
            schedule=self._schedule,
            randomness=self._randomness,
            perform=perform,
        )

    # ---- lifecycle

    def start(self, partition_count: int | None = None) -> None:
        """Serve requests. The topic's real number of partitions, once known, decides placement."""
        if partition_count is not None:
            self.set_partition_count(partition_count)
        if not self._is_active:
            self._is_active = True
            self._plan_expiry()

    def set_partition_count(self, partition_count: int) -> None:
        if partition_count != self.placement.partition_count:
            self.placement = Placement(partition_count)

    def stop(self) -> None:
        self._is_active = False
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        self.runtime.close()

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        self.runtime.become_leader(partition, leader_epoch)

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        self.runtime.resign(partition, leader_epoch)

    def topics_deleted(self, topics: Collection[tuple[str, bytes]]) -> None:
        """Names and ids of topics that are gone: their offsets go too."""
        for entry, shard in self._active_shards():
            write = shard.topics_deleted(topics)
            if write is not None:
                self.runtime.perform(entry, write)

    def _plan_expiry(self) -> None:
        self._expiry_timer = self._schedule(
            self.config.offsets_retention_check_interval_ms, self._expire
        )

    def _expire(self) -> None:
        self.expire_offsets()
        self._plan_expiry()

    def expire_offsets(self) -> None:
        for entry, shard in self._active_shards():
            write = shard.expire()
            if write is not None:
                self.runtime.perform(entry, write)

    # ---- finding the shard

    def partition_for(self, group_id: str) -> int:
        return self.placement.partition_for(group_id)

    def _entry(self, group_id: str) -> ShardPartition[Record]:
        if not self._is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.runtime.active(self.placement.partition_for(group_id))

    @staticmethod
    def _shard(entry: ShardPartition[Record]) -> GroupShard:
        shard = entry.shard
        assert type(shard) is GroupShard
        return shard

    def _active_shards(self) -> list[tuple[ShardPartition[Record], GroupShard]]:
        return [
            (entry, self._shard(entry))
            for entry in list(self.runtime.partitions.values())
            if entry.state is PartitionState.ACTIVE
        ]

    # ---- membership

    def join_group(
        self,
        request: JoinGroupRequest,
        client: ClientInfo,
        version: int,
        respond: Callable[[JoinGroupResponse], None],
    ) -> JoinGroupResponse | None:
        config = self.config
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            entry = self._entry(request.group_id)
            if not (
                config.group_min_session_timeout_ms
                <= request.session_timeout_ms
                <= config.group_max_session_timeout_ms
            ):
                raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        except ApiError as error:
            return JoinGroupResponse(error_code=error.code, member_id=request.member_id)
        reply: _Reply[JoinGroupResponse] = _Reply(respond)
        write = self._shard(entry).joining.join(request, client, version, reply)
        if write is not None:
            self.runtime.perform(entry, write)
        return reply.value()

    def sync_group(
        self, request: SyncGroupRequest, respond: Callable[[SyncGroupResponse], None]
    ) -> SyncGroupResponse | None:
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            entry = self._entry(request.group_id)
        except ApiError as error:
            # A rejoining member finds a loading coordinator; making it rejoin is all it can do.
            code = error.code
            if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                code = ErrorCode.REBALANCE_IN_PROGRESS
            return SyncGroupResponse(error_code=code)
        reply: _Reply[SyncGroupResponse] = _Reply(respond)
        write = self._shard(entry).membership.sync(request, reply)
        if write is not None:
            self.runtime.perform(entry, write)
        return reply.value()

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        group_id = request.group_id
        try:
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            entry = self._entry(group_id)
        except ApiError as error:
            code = error.code
            # While the group loads nobody knows better: sessions start when it is loaded.
            if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                code = ErrorCode.NONE
            return HeartbeatResponse(error_code=code)
        return HeartbeatResponse(
            error_code=entry.shard.membership.heartbeat(  # type: ignore[union-attr]
                group_id, request.member_id, request.group_instance_id, request.generation_id
            )
        )

    def leave_group(
        self,
        group_id: str,
        members: Sequence[MemberIdentity],
        respond: Callable[[LeaveGroupResponse], None],
    ) -> LeaveGroupResponse | None:
        try:
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            entry = self._entry(group_id)
        except ApiError as error:
            return LeaveGroupResponse(error_code=error.code)
        shard = self._shard(entry)
        group = shard.groups.get(group_id)
        if group is not None and group.state is DEAD:
            return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        responses, write = shard.membership.leave(group_id, members)
        return self._after(write, entry, respond, lambda code: _left(code, responses))

    def _after(
        self,
        write: Write[Record] | None,
        entry: ShardPartition[Record],
        respond: Callable[[A], None],
        answer: Callable[[ErrorCode], A],
    ) -> A | None:
        """Perform a write, if there is one, and answer when it is committed."""
        if write is None:
            return answer(ErrorCode.NONE)
        reply: _Reply[A] = _Reply(respond)
        decided = write.done

        def done(code: ErrorCode) -> None:
            decided(code)
            reply(answer(code))

        self.runtime.perform(entry, Write(write.records, done, atomic=write.atomic))
        return reply.value()

    # ---- groups

    def describe_group(self, group_id: str) -> DescribedGroup:
        """An unknown group is Dead, with GROUP_ID_NOT_FOUND; older versions leave the code out."""
        try:
            group = self._shard(self._entry(group_id)).groups.get(group_id)
        except ApiError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        if group is None:
            return DescribedGroup(
                group_id=group_id,
                group_state=DEAD.value,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} not found.",
            )
        return self._shard(self._entry(group_id)).membership.describe(group)

    def list_groups(
        self, states_filter: Sequence[str] = (), types_filter: Sequence[str] = ()
    ) -> ListGroupsResponse:
        """Names in filters are compared without regard to case; an empty filter lets all pass."""
        if not self._is_active:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if any(entry.state is PartitionState.LOADING for entry in self.runtime.partitions.values()):
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states = {state.lower() for state in states_filter}
        types = {kind.lower() for kind in types_filter}
        if types and CLASSIC not in types:
            return ListGroupsResponse()
        return ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC,
                )
                for _entry, shard in self._active_shards()
                for group in shard.groups
                if not states or group.state.value.lower() in states
            ]
        )

    def delete_groups(
        self,
        group_ids: Sequence[str],
        respond: Callable[[list[DeletableGroupResult]], None],
    ) -> list[DeletableGroupResult] | None:
        results = [DeletableGroupResult(group_id=group_id) for group_id in group_ids]
        reply: _Reply[list[DeletableGroupResult]] = _Reply(respond)
        left = len(results)

        def done(result: DeletableGroupResult, code: ErrorCode) -> None:
            nonlocal left
            result.error_code = code
            left -= 1
            if left == 0:
                reply(results)

        if not results:
            return results
        for result in results:
            self._delete_group(result, done)
        return reply.value()

    def _delete_group(
        self,
        result: DeletableGroupResult,
        done: Callable[[DeletableGroupResult, ErrorCode], None],
    ) -> None:
        try:
            entry = self._entry(result.group_id)
            records = self._shard(entry).delete_group(result.group_id)
        except ApiError as error:
            done(result, error.code)
            return
        self.runtime.perform(entry, Write(records, lambda code: done(result, code), atomic=False))

    # ---- offsets

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        version: int,
        respond: Callable[[OffsetCommitResponse], None],
    ) -> OffsetCommitResponse | None:
        try:
            entry = self._entry(request.group_id)
            records, response = self._shard(entry).offsets.commit(request, version)
            if not records:
                return response
            last_offset = self.runtime.append(entry, records)
        except ApiError as error:
            code = error.code
            if code in TOO_LARGE:
                code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            return all_partitions_failed(request, coordinator_error(code))
        if entry.high_watermark > last_offset:
            return response
        reply: _Reply[OffsetCommitResponse] = _Reply(respond)
        self.runtime.when_committed(
            entry,
            last_offset,
            lambda code: reply(
                response if code == ErrorCode.NONE else all_partitions_failed(request, code)
            ),
        )
        return reply.value()

    def fetch_offsets(
        self,
        request: OffsetFetchRequestGroup,
        *,
        require_stable: bool,
        respond: Callable[[OffsetFetchResponseGroup], None],
    ) -> OffsetFetchResponseGroup | None:
        """Offsets of one group, of the topics it names or, if that is None, of all."""
        group_id = request.group_id
        try:
            entry = self._entry(group_id)
        except ApiError as error:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=error.code)
        offsets = self._shard(entry).offsets

        def answer() -> OffsetFetchResponseGroup:
            return OffsetFetchResponseGroup(
                group_id=group_id,
                topics=(
                    offsets.fetch_all(group_id, require_stable=require_stable)
                    if request.topics is None
                    else offsets.fetch(group_id, request.topics, require_stable=require_stable)
                ),
            )

        if entry.high_watermark >= entry.next_offset:
            return answer()
        reply: _Reply[OffsetFetchResponseGroup] = _Reply(respond)
        self.runtime.when_stable(
            entry,
            lambda code: reply(
                answer()
                if code == ErrorCode.NONE
                else OffsetFetchResponseGroup(group_id=group_id, error_code=code)
            ),
        )
        return reply.value()

    def delete_offsets(
        self, request: OffsetDeleteRequest, respond: Callable[[OffsetDeleteResponse], None]
    ) -> OffsetDeleteResponse | None:
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            entry = self._entry(request.group_id)
            records, response = self._shard(entry).offsets.delete(request)
        except ApiError as error:
            return OffsetDeleteResponse(error_code=error.code)
        write = Write(records, _ignore, atomic=False) if records else None
        return self._after(
            write,
            entry,
            respond,
            lambda code: (
                response if code == ErrorCode.NONE else OffsetDeleteResponse(error_code=code)
            ),
        )


def _ignore(code: ErrorCode) -> None:
    pass


def _left(code: ErrorCode, responses: list[MemberResponse]) -> LeaveGroupResponse:
    if code == ErrorCode.NONE:
        return LeaveGroupResponse(members=responses)
    return LeaveGroupResponse(error_code=code)


def all_partitions_failed(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
