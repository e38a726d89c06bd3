"""A classic group: who its members are, what they support, and which generation this is.

This file is data with invariants; what moves it is in `joining.py`, `membership.py` and
`rebalance.py`.

Invariants:

* `leader_id` names a member, or is None when there are none.
* `static_members` maps the instance id of every static member, and of nobody else, to its member
  id.
* `awaiting_join_count` is the number of members with a parked JoinGroup.
* a member id is pending, or a member, or neither; never both.
* `protocol_counts[name]` is how many members support a protocol; `protocol_bytes` is what they
  all hold together.
* `generation` never goes back.
* `subscribed_topics` is None when it cannot be known: the group is not of type "consumer", or a
  member's metadata is not a consumer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.group.state import (
    CAN_REBALANCE,
    COMPLETING_REBALANCE,
    EMPTY,
    STABLE,
    TRANSITIONS,
    GroupState,
)
from barnabas.coordinator.group.subscription import topics_of_subscription
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.coordinator.group.member import JoinReply, Member, SyncReply, Timer

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_STATE_TIMESTAMP = -1


class ClassicGroup:
    __slots__ = (
        "awaiting_join_count",
        "generation",
        "group_id",
        "join_timer",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_bytes",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "sync_timer",
    )

    def __init__(self, group_id: str, state: GroupState, state_timestamp_ms: int) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = state
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, Timer] = {}
        self.pending_sync: set[str] = set()
        self.awaiting_join_count = 0
        self.protocol_counts: dict[str, int] = {}
        self.protocol_bytes = 0
        self.new_member_added = False
        self.subscribed_topics: frozenset[str] | None = None
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id!r}, {self.state.value}, generation {self.generation}, "
            f"{len(self.members)} members)"
        )

    # ---- states and generations

    def become(self, state: GroupState, now_ms: int) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self!r} cannot become {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in CAN_REBALANCE

    def start_generation(self, now_ms: int) -> None:
        """The joined members are the new generation; without any, the group is empty."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.subscribed_topics = self.compute_subscribed_topics()
            self.become(COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.subscribed_topics = self.compute_subscribed_topics()
            self.become(EMPTY, now_ms)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to rejoin."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_members_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    def members_not_joined(self) -> list[Member]:
        return [member for member in self.members.values() if member.join_reply is None]

    # ---- members

    def validate_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member, or UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for a replaced static member."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def add_member(self, member: Member, join_reply: JoinReply | None = None) -> None:
        assert member.member_id not in self.members
        instance_id = member.group_instance_id
        if instance_id is not None:
            assert instance_id not in self.static_members
            self.static_members[instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        if join_reply is not None:
            self.park_join(member, join_reply)

    def remove_member(self, member_id: str) -> Member | None:
        """Forgets a member; its parked requests must have been answered by the caller."""
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count_protocols(member.protocols, -1)
        if member.join_reply is not None:
            self.awaiting_join_count -= 1
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static_member(
        self, group_instance_id: str, old_member_id: str, new_member_id: str
    ) -> Member:
        """The same member under a new id; whoever used the old id is fenced."""
        old = self.members[old_member_id]
        self.answer_join(
            old,
            JoinGroupResponse(member_id=old_member_id, error_code=ErrorCode.FENCED_INSTANCE_ID),
        )
        self.answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        members = {}
        for member_id, member in self.members.items():
            members[new_member_id if member is old else member_id] = member
        self.members = members
        old.member_id = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)
        self.static_members[group_instance_id] = new_member_id
        return old

    def update_member(
        self,
        member: Member,
        *,
        protocols: dict[str, bytes],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count_protocols(member.protocols, -1)
        self._count_protocols(protocols, 1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Makes someone who has rejoined the leader, if the present one has not; False if none."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader_id = member.member_id
                return True
        return False

    # ---- parked requests

    def park_join(self, member: Member, reply: JoinReply) -> None:
        """A second JoinGroup of the same member takes the place of the first."""
        superseded = member.join_reply
        if superseded is None:
            self.awaiting_join_count += 1
        member.join_reply = reply
        if superseded is not None:
            superseded(
                JoinGroupResponse(
                    member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS
                )
            )

    def answer_join(self, member: Member, response: JoinGroupResponse) -> bool:
        reply = member.join_reply
        if reply is None:
            return False
        member.join_reply = None
        self.awaiting_join_count -= 1
        reply(response)
        return True

    def park_sync(self, member: Member, reply: SyncReply) -> None:
        superseded = member.sync_reply
        member.sync_reply = reply
        if superseded is not None:
            superseded(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        reply = member.sync_reply
        if reply is None:
            return False
        member.sync_reply = None
        reply(response)
        return True

    # ---- protocols

    def _count_protocols(self, protocols: dict[str, bytes], step: int) -> None:
        counts = self.protocol_counts
        for name, metadata in protocols.items():
            self.protocol_bytes += step * (len(name) + len(metadata))
            count = counts.get(name, 0) + step
            if count:
                counts[name] = count
            else:
                del counts[name]

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols could be in one generation with the others."""
        names = list(names)
        if self.state is EMPTY:
            return bool(protocol_type) and bool(names)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(name) == everyone for name in names
        )

    def select_protocol(self) -> str:
        """Each votes for the first of its protocols that everyone supports; most votes win."""
        everyone = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name in member.protocols:
                if self.protocol_counts[name] == everyone:
                    votes[name] = votes.get(name, 0) + 1
                    break
        assert votes, f"no protocol is supported by all members of {self!r}"
        return max(votes, key=lambda name: votes[name])

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = topics_of_subscription(member.protocols.get(self.protocol_name, b""))
            if subscription is None:
                return None
            topics.update(subscription)
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Also True when it cannot be known, so that nothing in use is taken away."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """What the leader needs for an assignment: everyone's metadata for the chosen protocol."""
        name = self.protocol_name
        assert name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.protocols.get(name, b""),
            )
            for member in self.members.values()
        ]

    # ---- offsets

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> Member | None:
        """Who commits: a member, or None for someone outside the membership of an empty group."""
        if self.state is STABLE and group_instance_id is None:
            member = self.members.get(member_id)
            if member is not None and generation == self.generation:
                return member
        if self.state is GroupState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.state is EMPTY:
            return None
        if generation < 0 and not member_id and group_instance_id is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.validate_member(member_id, group_instance_id)
        if generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member
