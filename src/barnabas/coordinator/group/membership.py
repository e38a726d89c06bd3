"""What members do between rebalances: SyncGroup, Heartbeat, LeaveGroup, and falling silent.

Heartbeat and the validation of an offset commit are the hot paths of a group; a heartbeat in a
stable group is two dictionary look-ups and a new deadline.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.coordinator.decision import Write
from barnabas.coordinator.group.records import generation_record
from barnabas.coordinator.group.state import (
    COMPLETING_REBALANCE,
    DEAD,
    PREPARING_REBALANCE,
    STABLE,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.wire.messages.leave_group import MemberResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.coordinator.group.classic_group import ClassicGroup
    from barnabas.coordinator.group.group_map import GroupMap
    from barnabas.coordinator.group.member import Member, SyncReply
    from barnabas.coordinator.group.rebalance import GroupWrite, Rebalances
    from barnabas.coordinator.group.sessions import Sessions
    from barnabas.wire.messages.leave_group import MemberIdentity
    from barnabas.wire.messages.sync_group import SyncGroupRequest

logger = logging.getLogger(__name__)


class Membership:
    def __init__(self, groups: GroupMap, rebalances: Rebalances, sessions: Sessions) -> None:
        self._groups = groups
        self._rebalances = rebalances
        self._sessions = sessions

    # ---- SyncGroup

    def sync(self, request: SyncGroupRequest, reply: SyncReply) -> GroupWrite | None:
        """`reply` is called exactly once, now or when the leader has sent the assignments."""
        try:
            group, member = self._validate_sync(request)
        except ApiError as error:
            reply(SyncGroupResponse(error_code=error.code))
            return None
        if group.state is PREPARING_REBALANCE:
            reply(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return None
        if group.state is STABLE:
            self._rebalances.received_sync(group, member.member_id)
            reply(
                SyncGroupResponse(
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                )
            )
            return None
        group.park_sync(member, reply)
        self._rebalances.received_sync(group, member.member_id)
        if member.member_id != group.leader_id:
            return None
        return self._assign(group, request)

    def _validate_sync(self, request: SyncGroupRequest) -> tuple[ClassicGroup, Member]:
        group = self._groups.get(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return group, member

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> GroupWrite:
        sent = {one.member_id: one.assignment for one in request.assignments}
        assignments = {member_id: sent.get(member_id, b"") for member_id in group.members}
        unknown = sent.keys() - group.members.keys()
        if unknown:
            logger.warning(
                "group %s: the leader assigned to %d that are no members",
                group.group_id,
                len(unknown),
            )
        return Write(
            [generation_record(group, assignments)],
            partial(self._assigned, group, group.generation, assignments),
        )

    def _assigned(
        self,
        group: ClassicGroup,
        generation: int,
        assignments: dict[str, bytes],
        code: ErrorCode,
    ) -> None:
        if group.state is not COMPLETING_REBALANCE or group.generation != generation:
            return
        if code == ErrorCode.NONE:
            self._rebalances.propagate_assignments(group, assignments)
            return
        logger.warning("group %s: cannot record the assignment: %s", group.group_id, code.name)
        self._rebalances.reset_assignments(group, code)
        self._rebalances.fire(
            partial(self._rebalances.prepare_or_complete, group, "the assignment was not stored")
        )

    # ---- Heartbeat

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group_instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        else:
            try:
                member = group.validate_member(member_id, group_instance_id)
            except ApiError as error:
                return error.code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._sessions.extend(group, member)
        if group.state is PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def session_expired(self, group: ClassicGroup, member: Member) -> None:
        if group.state is DEAD or group.members.get(member.member_id) is not member:
            return
        waits = member.join_reply is not None or member.sync_reply is not None
        if waits and not member.is_new:
            # It cannot send heartbeats while it waits for us; the answer starts its session anew.
            return
        logger.info(
            "group %s: removing %s, not heard from for %d ms",
            group.group_id,
            member.member_id,
            member.session_timeout_ms,
        )
        self._rebalances.fire(
            partial(self._remove, group, member, f"the session of {member.member_id} expired")
        )

    def _remove(self, group: ClassicGroup, member: Member, reason: str) -> GroupWrite | None:
        self._rebalances.drop_member(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        return self._after_removal(group, reason)

    def _after_removal(self, group: ClassicGroup, reason: str) -> GroupWrite | None:
        if group.state in (STABLE, COMPLETING_REBALANCE):
            return self._rebalances.prepare_or_complete(group, reason)
        return self._rebalances.maybe_complete(group)

    def remove_pending(self, group: ClassicGroup, member_id: str) -> GroupWrite | None:
        """Forget a member id that was handed out and did not come back."""
        timer = group.pending_members.pop(member_id, None)
        if timer is None:
            return None
        timer.cancel()
        return self._rebalances.maybe_complete(group)

    # ---- LeaveGroup

    def leave(
        self, group_id: str, members: Sequence[MemberIdentity]
    ) -> tuple[list[MemberResponse], GroupWrite | None]:
        group = self._groups.get(group_id)
        responses = []
        left = []
        for identity in members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            if group is not None:
                code = self._leave_one(group, identity)
                if code == ErrorCode.NONE:
                    left.append(identity.member_id or str(identity.group_instance_id))
            responses.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
            )
        write = None
        if group is not None and left:
            write = self._after_removal(group, f"{', '.join(left[:10])} left")
        return responses, write

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        if not member_id:
            # An administrator removes a static member, knowing only its instance id.
            known = group.static_members.get(identity.group_instance_id or "")
            if identity.group_instance_id is None or known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_members:
            group.pending_members.pop(member_id).cancel()
            return ErrorCode.NONE
        else:
            try:
                group.validate_member(member_id, identity.group_instance_id)
            except ApiError as error:
                return error.code
        logger.info(
            "group %s: %s leaves: %s",
            group.group_id,
            member_id,
            identity.reason or "no reason given",
        )
        self._rebalances.drop_member(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        return ErrorCode.NONE

    # ---- DescribeGroups

    @staticmethod
    def describe(group: ClassicGroup) -> DescribedGroup:
        """Metadata is shown only in a stable group; assignments until the next rebalance ends."""
        name = group.protocol_name if group.state is STABLE else None
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=name or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if name is None else member.protocols.get(name, b""),
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    # ---- a loaded shard

    def resume(self, group: ClassicGroup) -> GroupWrite | None:
        """A group that was just loaded: its members have a session from now on."""
        for member in group.members.values():
            self._sessions.extend(group, member)
        if len(group.members) > self._rebalances.config.group_max_size:
            return self._rebalances.prepare(group, "there are more members than group.max.size")
        return None
