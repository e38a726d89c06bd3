"""JoinGroup: how someone becomes a member, and how a member takes part in a rebalance.

A request without a member id is from someone new. Since version 4 it is only given an id
(MEMBER_ID_REQUIRED, KIP-394) and must come again with it, so that a client that gives up and
retries does not leave a ghost behind that everyone waits for. A static member (KIP-345) is known
by its instance id instead: when it comes back without a member id it gets a new one, the old one
is fenced, and in a stable group this goes without a rebalance as long as the chosen protocol stays
the same.

A JoinGroup is answered when the rebalance it takes part in completes; `reply` is called exactly
once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from barnabas.coordinator.decision import Write
from barnabas.coordinator.group.member import Member, protocol_bytes
from barnabas.coordinator.group.records import generation_record, new_group_record
from barnabas.coordinator.group.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from barnabas.coordinator.group.classic_group import ClassicGroup
    from barnabas.coordinator.group.config import Limits
    from barnabas.coordinator.group.group_map import GroupMap
    from barnabas.coordinator.group.member import JoinReply
    from barnabas.coordinator.group.rebalance import GroupWrite, Rebalances
    from barnabas.coordinator.group.sessions import Schedule, Sessions
    from barnabas.seams import Randomness
    from barnabas.wire.messages.join_group import JoinGroupRequest

logger = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Who sends a request: the client's own name, and where from ("/127.0.0.1")."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request on its way."""

    request: JoinGroupRequest
    protocols: dict[str, bytes]
    client: ClientInfo
    version: int
    rebalance_timeout_ms: int
    reply: JoinReply

    def refuse(self, code: ErrorCode, member_id: str | None = None) -> None:
        self.reply(
            JoinGroupResponse(
                error_code=code,
                member_id=self.request.member_id if member_id is None else member_id,
            )
        )

    @property
    def reason(self) -> str:
        return self.request.reason or "no reason given"


class Joining:
    def __init__(
        self,
        groups: GroupMap,
        rebalances: Rebalances,
        sessions: Sessions,
        *,
        schedule: Schedule,
        randomness: Randomness,
        limits: Limits,
        remove_pending: Callable[[ClassicGroup, str], GroupWrite | None],
    ) -> None:
        self._groups = groups
        self._rebalances = rebalances
        self._sessions = sessions
        self._schedule = schedule
        self._randomness = randomness
        self._limits = limits
        self._config = rebalances.config
        self._remove_pending = remove_pending

    def join(
        self, request: JoinGroupRequest, client: ClientInfo, version: int, reply: JoinReply
    ) -> GroupWrite | None:
        protocols = {one.name: one.metadata for one in request.protocols}
        join = Join(
            request,
            protocols,
            client,
            version,
            # Version 0 has only the session timeout.
            request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms,
            reply,
        )
        if (
            len(protocols) > self._limits.protocols_per_member
            or protocol_bytes(protocols) > self._limits.protocol_bytes_per_member
        ):
            join.refuse(ErrorCode.INVALID_REQUEST)
            return None
        member_id = request.member_id
        group = self._groups.get(request.group_id)
        is_new_group = group is None
        if group is None:
            if member_id:
                join.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
                return None
            if self._groups.is_full:
                join.refuse(ErrorCode.POLICY_VIOLATION)
                return None
            group = self._groups.create(request.group_id)
        if not self._accepts(group, member_id):
            return self._turn_away(group, join)
        write = self._join(group, join)
        if is_new_group:
            if group.state is EMPTY and not group.pending_members:
                # Refused: nothing was begun, so there is nothing to record.
                self._groups.remove(group.group_id)
                return None
            assert write is None or not write.records
            return Write([new_group_record(group)], partial(self._created, group))
        return write

    def _created(self, group: ClassicGroup, code: ErrorCode) -> None:
        if code == ErrorCode.NONE or group.state is DEAD:
            return
        logger.warning("group %s: cannot be recorded: %s", group.group_id, code.name)
        if group.generation == 0:
            self._groups.remove(group.group_id)
            self._rebalances.kill(group, code)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """`group.max.size`; while a rebalance is prepared, the first to rejoin have the places."""
        size = self._config.group_max_size
        member = group.members.get(member_id)
        if group.state is PREPARING_REBALANCE:
            rejoins_twice = member is not None and member.join_reply is not None
            return rejoins_twice or group.awaiting_join_count < size
        if group.state in (COMPLETING_REBALANCE, STABLE):
            return member is not None or len(group.members) < size
        return True

    def _turn_away(self, group: ClassicGroup, join: Join) -> GroupWrite | None:
        self.forget_pending(group, join.request.member_id)
        member = group.members.get(join.request.member_id)
        if member is not None:
            self._rebalances.drop_member(group, member, ErrorCode.GROUP_MAX_SIZE_REACHED)
        join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
        return self._rebalances.maybe_complete(group)

    def _join(self, group: ClassicGroup, join: Join) -> GroupWrite | None:
        if group.state is DEAD:
            join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return None
        if not group.supports_protocols(join.request.protocol_type, join.protocols):
            join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return None
        if group.protocol_bytes + protocol_bytes(join.protocols) > (
            self._limits.protocol_bytes_per_group
        ):
            join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
            return None
        if join.request.member_id:
            return self._join_known(group, join)
        if join.request.group_instance_id is not None:
            return self._join_static(group, join)
        return self._join_dynamic(group, join)

    # ---- without a member id

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{_uuid_text(self._randomness.randbytes(16))}"

    def _join_dynamic(self, group: ClassicGroup, join: Join) -> GroupWrite | None:
        member_id = self.new_member_id(join.client.client_id)
        if join.version < MEMBER_ID_REQUIRED_SINCE:
            return self._add(group, join, member_id)
        write = None
        if len(group.pending_members) >= self._limits.pending_members_per_group:
            write = self._remove_pending(group, next(iter(group.pending_members)))
        group.pending_members[member_id] = self._schedule(
            join.request.session_timeout_ms, partial(self._pending_expired, group, member_id)
        )
        join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        return write

    def _pending_expired(self, group: ClassicGroup, member_id: str) -> None:
        self._rebalances.fire(partial(self._remove_pending, group, member_id))

    def forget_pending(self, group: ClassicGroup, member_id: str) -> bool:
        timer = group.pending_members.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        return True

    def _join_static(self, group: ClassicGroup, join: Join) -> GroupWrite | None:
        instance_id = join.request.group_instance_id
        assert instance_id is not None
        member_id = self.new_member_id(instance_id)
        old_member_id = group.static_members.get(instance_id)
        if old_member_id is None:
            return self._add(group, join, member_id)
        return self._replace(group, join, instance_id, old_member_id, member_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> GroupWrite | None:
        request = join.request
        self.forget_pending(group, member_id)
        member = Member(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=join.client.client_id,
            client_host=join.client.host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=join.protocols,
        )
        member.is_new = True
        if not group.members:
            group.protocol_type = request.protocol_type
        if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
            group.new_member_added = True
        group.add_member(member, join.reply)
        self._sessions.extend(group, member, self._config.new_member_join_timeout_ms)
        return self._rebalances.prepare_or_complete(
            group, f"{member_id} with instance id {request.group_instance_id} joins: {join.reason}"
        )

    # ---- with a member id

    def _join_known(self, group: ClassicGroup, join: Join) -> GroupWrite | None:
        request = join.request
        member_id = request.member_id
        if member_id in group.pending_members:
            if request.group_instance_id is not None:
                # Ids are only handed out to dynamic members.
                join.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
                return None
            return self._add(group, join, member_id)
        try:
            member = group.validate_member(member_id, request.group_instance_id)
        except ApiError as error:
            join.refuse(error.code)
            return None
        state = group.state
        if state is PREPARING_REBALANCE:
            return self._update(group, join, member, f"{member_id} rejoins: {join.reason}")
        unchanged = member.matches(join.protocols)
        is_leader = group.leader_id == member_id
        if state is COMPLETING_REBALANCE and unchanged:
            # It may have missed the answer to its first JoinGroup.
            join.reply(self._present(group, member, with_members=is_leader))
            return None
        if state is STABLE and unchanged and not is_leader:
            join.reply(self._present(group, member, with_members=False))
            return None
        assert state in (COMPLETING_REBALANCE, STABLE)
        why = "rejoins with new metadata" if not unchanged else "is the leader and rejoins"
        return self._update(group, join, member, f"{member_id} {why}: {join.reason}")

    def _update(
        self, group: ClassicGroup, join: Join, member: Member, reason: str
    ) -> GroupWrite | None:
        self._take_over(group, join, member)
        return self._rebalances.prepare_or_complete(group, reason)

    @staticmethod
    def _take_over(group: ClassicGroup, join: Join, member: Member) -> None:
        group.update_member(
            member,
            protocols=join.protocols,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.request.session_timeout_ms,
        )
        group.park_join(member, join.reply)

    @staticmethod
    def _present(
        group: ClassicGroup, member: Member, *, with_members: bool, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=group.joined_members() if with_members else [],
        )

    # ---- a static member comes back under a new id

    def _replace(
        self,
        group: ClassicGroup,
        join: Join,
        instance_id: str,
        old_member_id: str,
        new_member_id: str,
    ) -> GroupWrite | None:
        leader_before = group.leader_id
        member = group.replace_static_member(instance_id, old_member_id, new_member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        logger.info(
            "group %s: static member %s comes back, %s is now %s",
            group.group_id,
            instance_id,
            old_member_id,
            new_member_id,
        )
        self._take_over(group, join, member)
        self._sessions.extend(group, member)
        if group.state is not STABLE:
            if group.state is COMPLETING_REBALANCE:
                return self._rebalances.prepare(
                    group, f"static member {instance_id} joins: {join.reason}"
                )
            return self._rebalances.maybe_complete(group)
        if group.select_protocol() != group.protocol_name:
            return self._rebalances.prepare_or_complete(
                group, f"static member {instance_id} changes the protocol: {join.reason}"
            )
        # There is no rebalance to count the topics anew, and the record has the new metadata.
        group.subscribed_topics = group.compute_subscribed_topics()
        assignments = {one.member_id: one.assignment for one in group.members.values()}

        def stored(code: ErrorCode) -> None:
            if group.state is not STABLE or member.join_reply is not join.reply:
                # Meanwhile it was answered, or waits in a rebalance like everyone else.
                return
            if code == ErrorCode.NONE:
                skips = join.version >= SKIP_ASSIGNMENT_SINCE and group.leader_id == new_member_id
                response = self._present(group, member, with_members=skips, skip_assignment=skips)
                if join.version < SKIP_ASSIGNMENT_SINCE:
                    # An old client that reads its own id here would compute a new assignment.
                    response.leader = leader_before or ""
                group.answer_join(member, response)
                return
            logger.warning(
                "group %s: cannot record the new id of %s: %s",
                group.group_id,
                instance_id,
                code.name,
            )
            reply, member.join_reply = member.join_reply, None
            group.awaiting_join_count -= 1
            group.update_member(
                member,
                protocols=before[0],
                rebalance_timeout_ms=before[1],
                session_timeout_ms=before[2],
            )
            group.replace_static_member(instance_id, new_member_id, old_member_id)
            group.subscribed_topics = group.compute_subscribed_topics()
            self._sessions.extend(group, member)
            assert reply is not None
            reply(JoinGroupResponse(error_code=code, member_id=""))

        return Write([generation_record(group, assignments)], stored)


def _uuid_text(random: bytes) -> str:
    """Sixteen random bytes as a random UUID (version 4) is written."""
    number = int.from_bytes(random, "big") & ~(0xF << 76) & ~(0x3 << 62)
    digits = f"{number | 0x4 << 76 | 0x2 << 62:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
