"""Consumer groups and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.client.administration.base import AdminBase
from barnabas.client.administration.topics import by_topic
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    NotFoundError,
    VersionError,
    broker_error,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

CONSUMER_PROTOCOL_TYPE = "consumer"
LEAVE_TOGETHER_SINCE = 3


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Mapping[str, Sequence[int]] = field(default_factory=dict)
    epoch: int | None = None
    target_assignment: Mapping[str, Sequence[int]] | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator_id: int
    epoch: int | None = None
    target_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupAdmin(AdminBase):
    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """The groups that all brokers coordinate, sorted by id.

        Older brokers do not tell states and types; to filter by them, the groups are described.
        """
        from barnabas.wire.messages import list_groups as api

        await self.cluster.retry("the cluster's metadata", self.cluster.refresh)
        found: dict[str, GroupListing] = {}
        unfiltered: list[str] = []
        for node_id in sorted(self.cluster.metadata.brokers):
            request = api.ListGroupsRequest(states_filter=list(states), types_filter=list(types))
            version = (await self.cluster.offered(node_id)).choose_for(request)
            if version < 4:
                request.states_filter = []
            if version < 5:
                request.types_filter = []

            async def attempt(node_id: int = node_id, request: Any = request) -> Any:
                answer = await self.cluster.request(node_id, request, what="its groups")
                if answer.error_code != ErrorCode.NONE:
                    raise broker_error(answer.error_code, subject=f"broker {node_id}")
                return answer

            response = await self.cluster.retry(f"the groups of broker {node_id}", attempt)
            for group in response.groups:
                found[group.group_id] = GroupListing(
                    group.group_id, group.group_state, group.group_type, group.protocol_type
                )
            if (states and version < 4) or (types and version < 5):
                unfiltered += [group.group_id for group in response.groups]
        for group_id, described in (await self.describe_groups(unfiltered)).items():
            if isinstance(described, NotFoundError):
                del found[group_id]  # deleted meanwhile
            elif isinstance(described, ClientError):
                raise described
            elif _named(described.state, states) and _named(described.type, types):
                found[group_id] = replace(
                    found[group_id], state=described.state, type=described.type
                )
            else:
                del found[group_id]
        return [found[group_id] for group_id in sorted(found)]

    # -- description

    async def describe_groups(
        self, groups: Sequence[str]
    ) -> dict[str, GroupDescription | ClientError]:
        """Each group; a group nobody knows is a NotFoundError (older brokers call it Dead)."""
        answers = await self._about_groups(groups, self._describe_new, "group descriptions")
        classic = [g for g in groups if answers.get(g) is None]
        answers.update(
            await self._about_groups(classic, self._describe_classic, "group descriptions")
        )
        return {group: answers[group] for group in groups}

    async def _describe_new(self, node_id: int, groups: list[str]) -> dict[str, Any]:
        """Groups of the new protocol (KIP-848); None for those that are of another kind."""
        from barnabas.wire.messages import consumer_group_describe as api

        versions = await self.cluster.connected(node_id)
        if not versions.offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
            return dict.fromkeys(groups)
        request = api.ConsumerGroupDescribeRequest(group_ids=groups)
        response = await self.cluster.request(node_id, request, what="group descriptions")
        answers: dict[str, Any] = {}
        for group in response.groups:
            if group.error_code in (
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.UNSUPPORTED_VERSION,
            ):
                answers[group.group_id] = None
            elif group.error_code != ErrorCode.NONE:
                answers[group.group_id] = _refusal(group.group_id, group)
            else:
                answers[group.group_id] = GroupDescription(
                    group.group_id,
                    group.group_state,
                    "Consumer",
                    CONSUMER_PROTOCOL_TYPE,
                    group.assignor_name,
                    tuple(
                        GroupMember(
                            member.member_id,
                            member.instance_id,
                            member.client_id,
                            member.client_host,
                            _assignment(member.assignment),
                            member.member_epoch,
                            _assignment(member.target_assignment),
                            None if member.member_type == -1 else member.member_type == 1,
                        )
                        for member in group.members
                    ),
                    node_id,
                    group.group_epoch,
                    group.assignment_epoch,
                )
        return answers

    async def _describe_classic(self, node_id: int, groups: list[str]) -> dict[str, Any]:
        from barnabas.client.core.consumer_protocol import decode_assignment
        from barnabas.wire.codec import DecodeError
        from barnabas.wire.messages import describe_groups as api

        request = api.DescribeGroupsRequest(groups=groups)
        response = await self.cluster.request(node_id, request, what="group descriptions")
        answers: dict[str, Any] = {}
        for group in response.groups:
            if group.error_code != ErrorCode.NONE:
                answers[group.group_id] = _refusal(group.group_id, group)
                continue
            members = []
            for member in group.members:
                try:
                    assignment = decode_assignment(bytes(member.member_assignment))
                except DecodeError:
                    assignment = {}
                members.append(
                    GroupMember(
                        member.member_id,
                        member.group_instance_id,
                        member.client_id,
                        member.client_host,
                        assignment,
                    )
                )
            answers[group.group_id] = GroupDescription(
                group.group_id,
                group.group_state,
                "Classic",
                group.protocol_type,
                group.protocol_data,
                tuple(members),
                node_id,
            )
        return answers

    async def _about_groups(self, groups: Iterable[str], ask: Any, what: str) -> dict[str, Any]:
        return await self.spread(
            groups, self.cluster.coordinator, ask, self.cluster.forget_coordinator, what
        )

    # -- offsets

    async def group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a group committed: for these partitions, or (None) for all it has."""
        from barnabas.wire.messages import offset_fetch as api

        wanted = None if partitions is None else by_topic(partitions)

        async def attempt() -> Any:
            node_id = await self.cluster.coordinator(group)
            versions = await self.cluster.connected(node_id)
            highest = versions.choose_for(api.OffsetFetchRequest(), 9)
            if highest >= 8:
                topics = None
                if wanted is not None:
                    topics = [
                        api.OffsetFetchRequestTopics(name=t, partition_indexes=i)
                        for t, i in wanted.items()
                    ]
                request = api.OffsetFetchRequest(
                    groups=[api.OffsetFetchRequestGroup(group_id=group, topics=topics)],
                    require_stable=require_stable,
                )
            else:
                old = None
                if wanted is not None:
                    old = [
                        api.OffsetFetchRequestTopic(name=t, partition_indexes=i)
                        for t, i in wanted.items()
                    ]
                request = api.OffsetFetchRequest(
                    group_id=group, topics=old, require_stable=require_stable and highest >= 7
                )
            response = await self.cluster.request(
                node_id, request, version=highest, what="committed offsets"
            )
            answer = response.groups[0] if highest >= 8 else response
            if answer.error_code != ErrorCode.NONE:
                self.cluster.forget_coordinator(group)
                raise broker_error(answer.error_code, subject=f"group {group}")
            return answer

        answer = await self.cluster.retry(f"the offsets of group {group}", attempt)
        found: dict[TopicPartition, CommittedOffset] = {}
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                if p.error_code != ErrorCode.NONE:
                    raise broker_error(p.error_code, subject=f"{topic.name}-{p.partition_index}")
                if p.committed_offset >= 0:
                    found[(topic.name, p.partition_index)] = CommittedOffset(
                        p.committed_offset, p.committed_leader_epoch, p.metadata or ""
                    )
        return found

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset | int]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Commit these offsets for an empty group."""
        from barnabas.wire.messages import offset_commit as api

        request = api.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                api.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_commit(api, index, offsets[(topic, index)]) for index in indexes],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )
        response = await self.cluster.request_coordinator(
            group, request, what=f"the offsets of group {group}", code_of=_first_code, highest=9
        )
        return {
            (topic.name, p.partition_index): None
            if p.error_code == ErrorCode.NONE
            else broker_error(p.error_code, subject=f"{topic.name}-{p.partition_index}")
            for topic in response.topics
            for p in topic.partitions
        }

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, BrokerError | None]:
        from barnabas.wire.messages import offset_delete as api

        request = api.OffsetDeleteRequest(
            group_id=group,
            topics=[
                api.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        api.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        response = await self.cluster.request_coordinator(
            group,
            request,
            what=f"the deletion of offsets of group {group}",
            code_of=lambda answer: int(answer.error_code),
        )
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, subject=f"group {group}")
        return {
            (topic.name, p.partition_index): None
            if p.error_code == ErrorCode.NONE
            else broker_error(p.error_code, subject=f"{topic.name}-{p.partition_index}")
            for topic in response.topics
            for p in topic.partitions
        }

    async def delete_groups(self, groups: Sequence[str]) -> dict[str, ClientError | None]:
        from barnabas.wire.messages import delete_groups as api

        async def ask(node_id: int, asked: list[str]) -> dict[str, Any]:
            request = api.DeleteGroupsRequest(groups_names=asked)
            response = await self.cluster.request(node_id, request, what="group deletion")
            return {
                r.group_id: None
                if r.error_code == ErrorCode.NONE
                else broker_error(r.error_code, subject=f"group {r.group_id}")
                for r in response.results
            }

        return await self._about_groups(groups, ask, "group deletion")

    async def remove_members(
        self, group: str, *, member_ids: Sequence[str] = (), instance_ids: Sequence[str] = ()
    ) -> dict[str, BrokerError | None]:
        """Make members leave; static ones by their instance id."""
        from barnabas.wire.messages import leave_group as api

        async def versions() -> BrokerVersions:
            return await self.cluster.connected(await self.cluster.coordinator(group))

        what = f"the coordinator of group {group!r}"
        offered = await self.cluster.retry(what, versions)
        version = offered.choose_for(api.LeaveGroupRequest())
        if version < LEAVE_TOGETHER_SINCE:
            if instance_ids:
                detail = (
                    f"is offered up to version {version}, static members are known "
                    f"since version {LEAVE_TOGETHER_SINCE} (Apache Kafka 2.4)"
                )
                raise VersionError(offered.address, "LEAVE_GROUP", detail)
            return {m: await self._remove_member(group, m) for m in member_ids}

        members = [api.MemberIdentity(member_id=m) for m in member_ids]
        members += [api.MemberIdentity(member_id="", group_instance_id=i) for i in instance_ids]
        request = api.LeaveGroupRequest(group_id=group, members=members)
        response = await self.cluster.request_coordinator(
            group,
            request,
            what=f"members to leave group {group}",
            code_of=lambda answer: int(answer.error_code),
        )
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, subject=f"group {group}")
        return {
            m.group_instance_id or m.member_id: None
            if m.error_code == ErrorCode.NONE
            else broker_error(m.error_code, subject=m.group_instance_id or m.member_id)
            for m in response.members
        }

    async def _remove_member(self, group: str, member_id: str) -> BrokerError | None:
        from barnabas.wire.messages import leave_group as api

        request = api.LeaveGroupRequest(group_id=group, member_id=member_id)
        response = await self.cluster.request_coordinator(
            group,
            request,
            what=f"a member to leave group {group}",
            code_of=lambda answer: int(answer.error_code),
            highest=LEAVE_TOGETHER_SINCE - 1,
        )
        if response.error_code == ErrorCode.NONE:
            return None
        return broker_error(response.error_code, subject=member_id)


def _named(value: str, filters: Sequence[str]) -> bool:
    return not filters or value.lower() in {each.lower() for each in filters}


def _commit(api: Any, index: int, offset: CommittedOffset | int) -> Any:
    if isinstance(offset, int):
        offset = CommittedOffset(offset)
    return api.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _first_code(response: Any) -> int:
    for topic in response.topics:
        for partition in topic.partitions:
            return int(partition.error_code)
    return 0


def _assignment(assignment: Any) -> dict[str, list[int]]:
    return {
        entry.topic_name or (entry.topic_id.hex() if entry.topic_id != ZERO else ""): list(
            entry.partitions
        )
        for entry in assignment.topic_partitions
    }


def _refusal(group_id: str, answer: Any) -> BrokerError:
    error = broker_error(answer.error_code, answer.error_message, subject=f"group {group_id}")
    if isinstance(error, NotFoundError):
        return NotFoundError(error.code, "There is no such group.", subject=f"group {group_id}")
    return error
