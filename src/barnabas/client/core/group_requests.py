"""The requests of a member of a classic group, and what it reads in their answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.client.core.assignors.assignor import (
    Assignment,
    Assignor,
    GroupTopics,
    MemberSubscription,
)
from barnabas.client.core.consumer_protocol import (
    by_topic,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.errors import OptionError
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.codec import DecodeError

if TYPE_CHECKING:
    from barnabas.wire.messages.heartbeat import HeartbeatRequest
    from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
    from barnabas.wire.messages.leave_group import LeaveGroupRequest
    from barnabas.wire.messages.sync_group import SyncGroupRequest

PROTOCOL_TYPE = "consumer"
JOIN_SLACK_S = 5.0
"""How much longer than the rebalance timeout a join may take, for the way there and back."""
MAX_REASON = 255
"""Characters of a reason that a broker takes."""


class Requests:
    """Builds requests from the options that never change and the identity that does."""

    def __init__(self, settings: ConsumerSettings, assignors: Sequence[Assignor]) -> None:
        assert settings.group_id is not None
        self.settings = settings
        self.group_id: str = settings.group_id
        self.assignors = assignors

    def join(
        self,
        member_id: str,
        topics: Iterable[str],
        *,
        owned: Iterable[TopicPartition],
        generation: int,
        previous: tuple[Collection[TopicPartition], int],
        reason: str,
    ) -> JoinGroupRequest:
        from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

        settings = self.settings
        owned_by_topic = by_topic(owned)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=assignor.name,
                    metadata=encode_subscription(
                        topics,
                        owned=owned_by_topic,
                        generation_id=generation,
                        rack=settings.client_rack or None,
                        user_data=assignor.user_data(*previous),
                    ),
                )
                for assignor in self.assignors
            ],
            reason=reason[:MAX_REASON],
        )

    def sync(
        self, member_id: str, generation: int, protocol: str, assignment: Assignment
    ) -> SyncGroupRequest:
        from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=each, assignment=encode_assignment(by_topic(partitions))
                )
                for each, partitions in assignment.items()
            ],
        )

    def heartbeat(self, member_id: str, generation: int) -> HeartbeatRequest:
        from barnabas.wire.messages.heartbeat import HeartbeatRequest

        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.settings.group_instance_id,
        )

    def leave(self, member_id: str, reason: str) -> LeaveGroupRequest:
        """For version 3 and later; see `leave_before_3`."""
        from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

        member = MemberIdentity(member_id=member_id, reason=reason[:MAX_REASON])
        return LeaveGroupRequest(group_id=self.group_id, members=[member])


def leave_before_3(request: LeaveGroupRequest) -> LeaveGroupRequest:
    """The same request as brokers before 2.4 read it: of one member, without a reason."""
    from barnabas.wire.messages.leave_group import LeaveGroupRequest

    [member] = request.members
    return LeaveGroupRequest(group_id=request.group_id, member_id=member.member_id)


def read_members(members: Iterable[JoinGroupResponseMember]) -> list[MemberSubscription]:
    """What the leader is told. A member whose bytes cannot be read subscribes to nothing."""
    found = []
    for member in members:
        try:
            said = decode_subscription(bytes(member.metadata))
        except DecodeError:
            found.append(MemberSubscription(member.member_id, frozenset()))
            continue
        found.append(
            MemberSubscription(
                member_id=member.member_id,
                topics=frozenset(said.topics),
                instance_id=member.group_instance_id,
                rack=said.rack_id or None,
                owned=frozenset(
                    (entry.topic, index)
                    for entry in said.owned_partitions
                    for index in entry.partitions
                ),
                generation=said.generation_id,
                user_data=None if said.user_data is None else bytes(said.user_data),
            )
        )
    return found


def assign(
    assignor: Assignor, topics: GroupTopics, members: Sequence[MemberSubscription]
) -> Assignment:
    """What the assignor says, checked: a wrong one of the user's own must not confuse the group."""
    given = assignor.assign(topics, members)
    known = {member.member_id for member in members}
    owners: dict[TopicPartition, str] = {}
    for member_id, partitions in given.items():
        if member_id not in known:
            raise OptionError(
                f"The assignor {assignor.name!r} gave partitions to {member_id!r}, "
                "which is no member of the group."
            )
        for partition in partitions:
            other = owners.setdefault(partition, member_id)
            if other != member_id:
                raise OptionError(
                    f"The assignor {assignor.name!r} gave {partition[0]}-{partition[1]} to both "
                    f"{other!r} and {member_id!r}."
                )
    return {member.member_id: list(given.get(member.member_id, ())) for member in members}
