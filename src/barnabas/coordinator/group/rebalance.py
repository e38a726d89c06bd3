"""Rebalances of classic groups: from the first member that must rejoin to everyone's assignment.

A rebalance is prepared until all members have rejoined, or the longest rebalance timeout has
passed: dynamic members that did not come are removed, static ones stay. A group that was empty
waits a little longer on purpose (`group.initial.rebalance.delay.ms`, again for every further
member, up to the rebalance timeout), so that a fleet that starts together becomes one generation
instead of many. Joined members then have the rebalance timeout to send SyncGroup; whoever does not
is removed, and the next rebalance begins.

Every method that can lead to an empty group returns the `Write` that records it, or None.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.coordinator.decision import Write
from barnabas.coordinator.group.records import Record, generation_record
from barnabas.coordinator.group.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.coordinator.group.classic_group import ClassicGroup
    from barnabas.coordinator.group.config import GroupCoordinatorConfig
    from barnabas.coordinator.group.member import Member
    from barnabas.coordinator.group.sessions import Schedule, Sessions
    from barnabas.seams import Clock

logger = logging.getLogger(__name__)

GroupWrite = Write[Record]


class Rebalances:
    """`perform` takes what a timer decided; requests return their `Write` to their caller."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        clock: Clock,
        schedule: Schedule,
        sessions: Sessions,
        perform: Callable[[GroupWrite], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self.completed = 0
        self._schedule = schedule
        self._sessions = sessions
        self._perform = perform

    # ---- preparing: collecting JoinGroup requests

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> GroupWrite | None:
        if group.can_rebalance:
            return self.prepare(group, reason)
        return self.maybe_complete(group)

    def prepare(self, group: ClassicGroup, reason: str) -> GroupWrite | None:
        if group.state is COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self.cancel_sync_timer(group)
        is_initial = group.state is EMPTY
        group.become(PREPARING_REBALANCE, self.clock.now_ms())
        logger.info(
            "group %s: preparing to rebalance generation %d: %s",
            group.group_id,
            group.generation,
            reason,
        )
        if not is_initial:
            return self._complete_or_wait(group)
        delay_ms = self.config.group_initial_rebalance_delay_ms
        if delay_ms <= 0:
            return self.complete(group)
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        self._wait_for_more_members(group, delay_ms, remaining_ms)
        return None

    def _wait_for_more_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._set_join_timer(
            group, delay_ms, partial(self._initial_delay_passed, group, delay_ms, remaining_ms)
        )

    def _initial_delay_passed(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int
    ) -> GroupWrite | None:
        if group.new_member_added and remaining_ms > 0:
            group.new_member_added = False
            self._wait_for_more_members(
                group,
                min(self.config.group_initial_rebalance_delay_ms, remaining_ms),
                max(remaining_ms - delay_ms, 0),
            )
            return None
        return self.complete(group)

    def maybe_complete(self, group: ClassicGroup) -> GroupWrite | None:
        """Ends the preparation early if everyone has come; never that of a group that was empty."""
        if (
            group.state is PREPARING_REBALANCE
            and group.all_members_joined
            and group.previous_state is not EMPTY
        ):
            return self.complete(group)
        return None

    def _complete_or_wait(self, group: ClassicGroup) -> GroupWrite | None:
        if group.all_members_joined:
            return self.complete(group)
        self._set_join_timer(group, group.rebalance_timeout_ms, partial(self.complete, group))
        return None

    def complete(self, group: ClassicGroup) -> GroupWrite | None:
        """Those who have joined are the new generation."""
        self.cancel_join_timer(group)
        missing = [m for m in group.members_not_joined() if m.group_instance_id is None]
        for member in missing:
            self.drop_member(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if missing:
            logger.info(
                "group %s: removed %s, which did not rejoin in time",
                group.group_id,
                ", ".join(member.member_id for member in missing[:10]),
            )
        if group.state is DEAD:
            return None
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none of them is here: they have another while.
            self._set_join_timer(group, group.rebalance_timeout_ms, partial(self.complete, group))
            return None
        group.new_member_added = False
        group.start_generation(self.clock.now_ms())
        self.completed += 1
        if group.state is EMPTY:
            logger.info("group %s: generation %d is empty", group.group_id, group.generation)
            return Write([generation_record(group, {})], partial(self._emptied, group.group_id))
        logger.info(
            "group %s: generation %d has %d members",
            group.group_id,
            group.generation,
            len(group.members),
        )
        self._answer_joins(group)
        return None

    @staticmethod
    def _emptied(group_id: str, code: ErrorCode) -> None:
        if code != ErrorCode.NONE:
            logger.warning("group %s: cannot record that it is empty: %s", group_id, code.name)

    def _answer_joins(self, group: ClassicGroup) -> None:
        everyone = group.joined_members()
        leader_id = group.leader_id
        group.pending_sync.update(group.members)
        self._set_sync_timer(group)
        for member in list(group.members.values()):
            self._sessions.extend(group, member)
            member.is_new = False
            group.answer_join(
                member,
                JoinGroupResponse(
                    generation_id=group.generation,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    leader=leader_id or "",
                    member_id=member.member_id,
                    members=everyone if member.member_id == leader_id else [],
                ),
            )

    # ---- completing: waiting for SyncGroup requests

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.cancel_sync_timer(group)

    def _sync_expired(self, group: ClassicGroup, generation: int) -> GroupWrite | None:
        if group.generation != generation or group.state not in (COMPLETING_REBALANCE, STABLE):
            return None
        missing = sorted(group.pending_sync)
        if not missing:
            return None
        for member_id in missing:
            self.drop_member(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        return self.prepare(group, f"no SyncGroup in time from {', '.join(missing[:10])}")

    def propagate_assignments(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Everyone's assignment is stored: answer those who wait, and the group is stable."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.become(STABLE, self.clock.now_ms())
        for member in list(group.members.values()):
            self._answer_sync(
                group,
                member,
                SyncGroupResponse(
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                ),
            )

    def reset_assignments(self, group: ClassicGroup, code: ErrorCode) -> None:
        for member in list(group.members.values()):
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=code))

    def _answer_sync(
        self, group: ClassicGroup, member: Member, response: SyncGroupResponse
    ) -> None:
        # While it waited it could not send heartbeats.
        if member.sync_reply is not None:
            self._sessions.extend(group, member)
            group.answer_sync(member, response)

    # ---- members that go

    def drop_member(self, group: ClassicGroup, member: Member, code: ErrorCode) -> None:
        """Takes a member out; what it has parked is answered with `code`."""
        self._sessions.end(member)
        member_id = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        group.answer_join(member, JoinGroupResponse(member_id=member_id, error_code=code))
        group.answer_sync(member, SyncGroupResponse(error_code=code))
        group.remove_member(member.member_id)

    def kill(self, group: ClassicGroup, code: ErrorCode) -> None:
        """The group leaves the shard: nothing of it may fire or wait any more."""
        self.cancel_join_timer(group)
        self.cancel_sync_timer(group)
        for timer in group.pending_members.values():
            timer.cancel()
        group.pending_members.clear()
        group.become(DEAD, self.clock.now_ms())
        for member in list(group.members.values()):
            self.drop_member(group, member, code)

    # ---- timers: at most one of each kind a group

    def _set_join_timer(
        self, group: ClassicGroup, delay_ms: int, decide: Callable[[], GroupWrite | None]
    ) -> None:
        self.cancel_join_timer(group)
        group.join_timer = self._schedule(delay_ms, partial(self._fire_join, group, decide))

    def _fire_join(self, group: ClassicGroup, decide: Callable[[], GroupWrite | None]) -> None:
        group.join_timer = None
        self.fire(decide)

    def _set_sync_timer(self, group: ClassicGroup) -> None:
        self.cancel_sync_timer(group)
        group.sync_timer = self._schedule(
            group.rebalance_timeout_ms, partial(self._fire_sync, group, group.generation)
        )

    def _fire_sync(self, group: ClassicGroup, generation: int) -> None:
        group.sync_timer = None
        self.fire(partial(self._sync_expired, group, generation))

    def fire(self, decide: Callable[[], GroupWrite | None]) -> None:
        write = decide()
        if write is not None:
            self._perform(write)

    def cancel_join_timer(self, group: ClassicGroup) -> None:
        if group.join_timer is not None:
            group.join_timer.cancel()
            group.join_timer = None

    def cancel_sync_timer(self, group: ClassicGroup) -> None:
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None
