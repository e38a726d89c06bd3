"""Committed offsets: commit, fetch, delete, expire.

An offset belongs to a group id, a topic name and a partition, and to a topic id where the client
gave one: a topic that was deleted and created again must not inherit the old offsets.
Transactional commits are pending under their producer id until the marker of the transaction
arrives; a fetch that requires stable offsets is told to come again while one is pending for its
partition.

Offsets of a group that manages its members expire when the group has been empty for
`offsets.retention.minutes`, or, in a group of consumers, when nobody is subscribed to the topic
any more; those of a simple group by their own age. Only `replay` changes what is stored.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.coordinator.group.records import (
    NO_EXPIRY,
    CommittedOffset,
    GroupMetadataRecord,
    OffsetCommitRecord,
    Record,
)
from barnabas.coordinator.group.state import DEAD, EMPTY, STABLE
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from barnabas.coordinator.group.classic_group import ClassicGroup
    from barnabas.coordinator.group.config import GroupCoordinatorConfig
    from barnabas.coordinator.group.group_map import GroupMap
    from barnabas.coordinator.group.sessions import Sessions
    from barnabas.seams import Clock
    from barnabas.wire.messages.offset_commit import OffsetCommitRequest
    from barnabas.wire.messages.offset_delete import OffsetDeleteRequest
    from barnabas.wire.messages.offset_fetch import OffsetFetchRequestTopics

logger = logging.getLogger(__name__)

GROUP_ID_NOT_FOUND_SINCE = 9
DEFAULT_RETENTION = -1
LATEST_MS = 2**63 - 1
NO_OFFSET = -1

ByPartition = dict[int, CommittedOffset]
ByTopic = dict[str, ByPartition]


class Offsets:
    def __init__(
        self, groups: GroupMap, sessions: Sessions, config: GroupCoordinatorConfig, clock: Clock
    ) -> None:
        self._groups = groups
        self._sessions = sessions
        self._config = config
        self._clock = clock
        self._by_group: dict[str, ByTopic] = {}
        # producer id -> group id -> what its open transaction will commit
        self._pending: dict[int, dict[str, ByTopic]] = {}
        # group id -> producers with an open transaction that commits for it
        self._open_by_group: dict[str, set[int]] = {}

    # ---- OffsetCommit

    def commit(
        self, request: OffsetCommitRequest, version: int
    ) -> tuple[list[Record], OffsetCommitResponse]:
        """ApiError where nothing of the request can be committed."""
        group_id = request.group_id
        self._validate_commit(request, version)
        now_ms = self._clock.now_ms()
        expire_ms = NO_EXPIRY
        if request.retention_time_ms != DEFAULT_RETENTION:
            expire_ms = min(now_ms + request.retention_time_ms, LATEST_MS)
        longest = self._config.offset_metadata_max_bytes
        records: list[Record] = []
        topics = []
        for topic in request.topics:
            name = topic.name
            partitions = []
            for one in topic.partitions:
                code = ErrorCode.NONE
                metadata = one.committed_metadata or ""
                if len(metadata) > longest:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    committed = CommittedOffset(
                        one.committed_offset,
                        one.committed_leader_epoch,
                        metadata,
                        now_ms,
                        expire_timestamp_ms=expire_ms,
                        topic_id=topic.topic_id,
                    )
                    records.append(
                        OffsetCommitRecord(group_id, name, one.partition_index, committed)
                    )
                partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                )
            topics.append(
                OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions)
            )
        return records, OffsetCommitResponse(topics=topics)

    def _validate_commit(self, request: OffsetCommitRequest, version: int) -> None:
        group = self._groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is None:
            if generation >= 0:
                raise ApiError(
                    ErrorCode.GROUP_ID_NOT_FOUND
                    if version >= GROUP_ID_NOT_FOUND_SINCE
                    else ErrorCode.ILLEGAL_GENERATION
                )
            # A simple consumer or an administrator; replaying the offset makes the group.
            if self._groups.is_full:
                raise ApiError(ErrorCode.POLICY_VIOLATION)
            return
        member = group.validate_offset_commit(
            request.member_id, request.group_instance_id, generation
        )
        if member is not None:
            self._sessions.extend(group, member)

    # ---- OffsetFetch

    def fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics], *, require_stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        known = self._known(group_id)
        unstable = self._unstable(group_id) if require_stable else {}
        return [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    self._answer(
                        index,
                        None if by_partition is None else by_partition.get(index),
                        index in unstable.get(topic.name, ()),
                        topic.topic_id,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
            for by_partition in (known.get(topic.name),)
        ]

    def fetch_all(self, group_id: str, *, require_stable: bool) -> list[OffsetFetchResponseTopics]:
        unstable = self._unstable(group_id) if require_stable else {}
        return [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    self._answer(index, committed, index in unstable.get(name, ()), ZERO)
                    for index, committed in by_partition.items()
                ],
            )
            for name, by_partition in self._known(group_id).items()
        ]

    def _known(self, group_id: str) -> ByTopic:
        if self._groups.get(group_id) is None:
            return {}
        return self._by_group.get(group_id, {})

    def _unstable(self, group_id: str) -> dict[str, set[int]]:
        unstable: dict[str, set[int]] = {}
        for producer_id in self._open_by_group.get(group_id, ()):
            for topic, by_partition in self._pending[producer_id][group_id].items():
                unstable.setdefault(topic, set()).update(by_partition)
        return unstable

    @staticmethod
    def _answer(
        index: int, committed: CommittedOffset | None, is_unstable: bool, topic_id: bytes
    ) -> OffsetFetchResponsePartitions:
        if is_unstable:
            return OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                metadata="",
                error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
            )
        if committed is None or (
            topic_id != ZERO and committed.topic_id != ZERO and committed.topic_id != topic_id
        ):
            return OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata=""
            )
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # ---- OffsetDelete, deleted groups, deleted topics

    def delete(self, request: OffsetDeleteRequest) -> tuple[list[Record], OffsetDeleteResponse]:
        group = self._groups.get(request.group_id)
        if group is None or group.state is DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not EMPTY and not group.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        records: list[Record] = []
        topics = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            partitions = []
            for one in topic.partitions:
                index = one.partition_index
                if not subscribed:
                    self._forget(group.group_id, topic.name, index, records)
                partitions.append(
                    OffsetDeleteResponsePartition(
                        partition_index=index,
                        error_code=(
                            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
                        ),
                    )
                )
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return records, OffsetDeleteResponse(topics=topics)

    def _forget(self, group_id: str, topic: str, index: int, records: list[Record]) -> None:
        """A tombstone, if there is anything to forget, pending or committed."""
        if index in self._by_group.get(group_id, {}).get(topic, ()) or any(
            index in self._pending[producer_id][group_id].get(topic, ())
            for producer_id in self._open_by_group.get(group_id, ())
        ):
            records.append(OffsetCommitRecord(group_id, topic, index, None))

    def delete_group(self, group_id: str) -> list[Record]:
        """Tombstones of all its offsets and of the group itself."""
        partitions = {
            (topic, index)
            for by_topic in self._stored_and_pending(group_id)
            for topic, by_partition in by_topic.items()
            for index in by_partition
        }
        records: list[Record] = [
            OffsetCommitRecord(group_id, topic, index, None) for topic, index in sorted(partitions)
        ]
        records.append(GroupMetadataRecord(group_id, None))
        return records

    def _stored_and_pending(self, group_id: str) -> Iterator[ByTopic]:
        yield self._by_group.get(group_id, {})
        for producer_id in self._open_by_group.get(group_id, ()):
            yield self._pending[producer_id][group_id]

    def topics_deleted(self, topics: Collection[tuple[str, bytes]]) -> list[Record]:
        """Tombstones for topics that are gone, each a name and an id."""
        gone: dict[tuple[str, str, int], None] = {}
        for group_id in (*self._by_group, *self._open_by_group):
            for by_topic in self._stored_and_pending(group_id):
                for name, topic_id in topics:
                    for index, committed in by_topic.get(name, {}).items():
                        if committed.topic_id in (ZERO, topic_id):
                            gone[group_id, name, index] = None
        return [OffsetCommitRecord(*at, None) for at in gone]

    # ---- expiry

    def expired(self, group: ClassicGroup) -> tuple[list[Record], bool]:
        """Tombstones of what has expired, and whether the group then has no offsets at all."""
        group_id = group.group_id
        by_topic = self._by_group.get(group_id)
        has_pending = group_id in self._open_by_group
        if not by_topic:
            return [], not has_pending
        now_ms = self._clock.now_ms()
        retention_ms = self._config.offsets_retention_ms
        since_ms: int | None = None
        if group.protocol_type is not None:
            if group.state is EMPTY:
                if group.state_timestamp_ms >= 0:
                    since_ms = group.state_timestamp_ms
            elif not (
                group.state is STABLE
                and group.uses_consumer_protocol
                and group.subscribed_topics is not None
            ):
                return [], False
        unstable = self._unstable(group_id)
        records: list[Record] = []
        everything = not has_pending
        for topic, by_partition in by_topic.items():
            keep = bool(group.members) and group.is_subscribed_to(topic)
            for index, committed in by_partition.items():
                if (
                    keep
                    or index in unstable.get(topic, ())
                    or not _is_over(committed, now_ms, since_ms, retention_ms)
                ):
                    everything = False
                else:
                    records.append(OffsetCommitRecord(group_id, topic, index, None))
        return records, everything

    # ---- replay

    def replay(self, record: OffsetCommitRecord, record_offset: int, producer_id: int = -1) -> None:
        group_id = record.group_id
        committed = record.committed
        if committed is None:
            self._remove(record)
            return
        committed.record_offset = record_offset
        if self._groups.get(group_id) is None:
            self._groups.create(group_id)
        if producer_id >= 0:
            by_topic = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
            self._open_by_group.setdefault(group_id, set()).add(producer_id)
        else:
            found = self._by_group.get(group_id)
            by_topic = found if found is not None else self._by_group.setdefault(group_id, {})
        by_partition = by_topic.get(record.topic)
        if by_partition is None:
            by_partition = by_topic[record.topic] = {}
        by_partition[record.partition] = committed

    def _remove(self, record: OffsetCommitRecord) -> None:
        """A tombstone also takes what open transactions would commit for the partition."""
        group_id = record.group_id
        by_topic = self._by_group.get(group_id)
        if by_topic is not None:
            _discard(by_topic, record)
            if not by_topic:
                del self._by_group[group_id]
        for producer_id in list(self._open_by_group.get(group_id, ())):
            by_topic = self._pending[producer_id][group_id]
            _discard(by_topic, record)
            if not by_topic:
                self._end(producer_id, group_id)

    def _end(self, producer_id: int, group_id: str) -> ByTopic:
        """The transaction is not open for the group any more; what it would have committed."""
        producers = self._open_by_group[group_id]
        producers.discard(producer_id)
        if not producers:
            del self._open_by_group[group_id]
        pending = self._pending[producer_id]
        by_topic = pending.pop(group_id)
        if not pending:
            del self._pending[producer_id]
        return by_topic

    def replay_end_of_transaction(self, producer_id: int, *, commit: bool) -> None:
        for group_id in list(self._pending.get(producer_id, ())):
            by_topic = self._end(producer_id, group_id)
            if not commit:
                continue
            for topic, by_partition in by_topic.items():
                for index, committed in by_partition.items():
                    # A plain commit that was written later than the transaction's stays.
                    stored = self._by_group.get(group_id, {}).get(topic, {}).get(index)
                    at = committed.record_offset
                    if stored is None or at > stored.record_offset:
                        self.replay(OffsetCommitRecord(group_id, topic, index, committed), at)

    # ---- looking in

    def __len__(self) -> int:
        return sum(
            len(by_partition)
            for by_topic in self._by_group.values()
            for by_partition in by_topic.values()
        )

    def of_group(self, group_id: str) -> ByTopic:
        return self._by_group.get(group_id, {})

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open_by_group


def _discard(by_topic: ByTopic, record: OffsetCommitRecord) -> None:
    by_partition = by_topic.get(record.topic)
    if by_partition is not None:
        by_partition.pop(record.partition, None)
        if not by_partition:
            del by_topic[record.topic]


def _is_over(
    committed: CommittedOffset, now_ms: int, since_ms: int | None, retention_ms: int
) -> bool:
    """Whether it has expired: at the time an old client set, or by its or its group's age."""
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    start_ms = committed.commit_timestamp_ms if since_ms is None else since_ms
    return now_ms - start_ms >= retention_ms
