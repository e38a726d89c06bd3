"""The groups and offsets of one partition of `__consumer_offsets`.

A shard is what the runtime loads, replays into and unloads. It puts the parts together and holds
what concerns a group and its offsets at once: deleting groups, expiry, and the records themselves.

Offsets change only by replay. A group's membership is different: who is waiting in a JoinGroup is
not written anywhere, so the live group is ahead of its last record, which only matters to the next
coordinator. Replaying a group's metadata therefore builds the group while loading, and leaves a
live one alone; a tombstone removes it in either case.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.coordinator.decision import Write
from barnabas.coordinator.group.classic_group import ClassicGroup
from barnabas.coordinator.group.group_map import GroupMap
from barnabas.coordinator.group.joining import Joining
from barnabas.coordinator.group.member import Member
from barnabas.coordinator.group.membership import Membership
from barnabas.coordinator.group.offsets import Offsets
from barnabas.coordinator.group.rebalance import Rebalances
from barnabas.coordinator.group.records import (
    GroupMetadataRecord,
    OffsetCommitRecord,
    Record,
    decode,
)
from barnabas.coordinator.group.sessions import Sessions
from barnabas.coordinator.group.state import DEAD, EMPTY, STABLE
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from barnabas.coordinator.group.config import GroupCoordinatorConfig, Limits
    from barnabas.coordinator.group.rebalance import GroupWrite
    from barnabas.coordinator.group.sessions import Schedule
    from barnabas.seams import Clock, Randomness
    from barnabas.wire.records.group import GroupMetadataValue

logger = logging.getLogger(__name__)


class GroupShard:
    def __init__(
        self,
        partition: int,
        *,
        config: GroupCoordinatorConfig,
        limits: Limits,
        clock: Clock,
        schedule: Schedule,
        randomness: Randomness,
        perform: Callable[[GroupWrite], None],
    ) -> None:
        self.partition = partition
        self._config = config
        self._clock = clock
        self._perform = perform
        self._is_live = False
        self.groups = GroupMap(clock, limits.groups_per_shard)
        sessions = Sessions(schedule, clock.monotonic_ms, self._session_expired)
        self.rebalances = Rebalances(config, clock, schedule, sessions, perform)
        self.membership = Membership(self.groups, self.rebalances, sessions)
        self.joining = Joining(
            self.groups,
            self.rebalances,
            sessions,
            schedule=schedule,
            randomness=randomness,
            limits=limits,
            remove_pending=self.membership.remove_pending,
        )
        self.offsets = Offsets(self.groups, sessions, config, clock)

    def _session_expired(self, group: ClassicGroup, member: Member) -> None:
        self.membership.session_expired(group, member)

    # ---- the runtime's side

    def decode(self, key: bytes | None, value: bytes | None) -> Record | None:
        return decode(key, value)

    def replay(self, record: Record, offset: int, producer_id: int = -1) -> None:
        if isinstance(record, OffsetCommitRecord):
            self.offsets.replay(record, offset, producer_id)
        else:
            self._replay_group(record)

    def replay_end_of_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.offsets.replay_end_of_transaction(producer_id, commit=commit)

    def _replay_group(self, record: GroupMetadataRecord) -> None:
        if record.value is None:
            removed = self.groups.remove(record.group_id)
            if removed is not None and removed.state is not DEAD:
                self.rebalances.kill(removed, ErrorCode.UNKNOWN_MEMBER_ID)
        elif not self._is_live:
            self.groups.put(_group_of(record.group_id, record.value))

    def loaded(self) -> None:
        self._is_live = True
        for group in self.groups:
            write = self.membership.resume(group)
            if write is not None:
                self._perform(write)

    def unloaded(self) -> None:
        """Somebody else coordinates these groups now: tell everyone who waits."""
        for group in self.groups:
            self.groups.remove(group.group_id)
            self.rebalances.kill(group, ErrorCode.NOT_COORDINATOR)

    # ---- groups and offsets at once

    def delete_group(self, group_id: str) -> list[Record]:
        """The tombstones, or ApiError."""
        group = self.groups.get(group_id)
        if group is None or group.state is DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        return self.offsets.delete_group(group_id)

    def expire(self) -> GroupWrite | None:
        """Tombstones for expired offsets, and for empty groups that have none left."""
        records: list[Record] = []
        for group in self.groups:
            expired, nothing_left = self.offsets.expired(group)
            records += expired
            if nothing_left and group.state is EMPTY and not group.pending_members:
                records.append(GroupMetadataRecord(group.group_id, None))
        return self._tombstones(records, "expired")

    def topics_deleted(self, topics: Collection[tuple[str, bytes]]) -> GroupWrite | None:
        return self._tombstones(self.offsets.topics_deleted(topics), "deleted with their topics")

    def _tombstones(self, records: list[Record], why: str) -> GroupWrite | None:
        if not records:
            return None

        def done(code: ErrorCode) -> None:
            if code == ErrorCode.NONE:
                logger.info(
                    "__consumer_offsets-%d: %d offsets and groups %s",
                    self.partition,
                    len(records),
                    why,
                )
            else:
                logger.warning(
                    "__consumer_offsets-%d: cannot forget %d offsets and groups: %s",
                    self.partition,
                    len(records),
                    code.name,
                )

        return Write(records, done, atomic=False)


def _group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group a record tells of; what was going on besides went with the old coordinator."""
    group = ClassicGroup(
        group_id, STABLE if value.members else EMPTY, value.current_state_timestamp
    )
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    for one in value.members:
        group.add_member(
            Member(
                one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                # Version 0 of the record does not have it.
                rebalance_timeout_ms=(
                    one.session_timeout if one.rebalance_timeout == -1 else one.rebalance_timeout
                ),
                session_timeout_ms=one.session_timeout,
                protocols={value.protocol or "": one.subscription},
                assignment=one.assignment,
            )
        )
    if value.leader in group.members:
        group.leader_id = value.leader
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
