"""The consumer: partitions assigned by hand or through a group, records by `poll`.

One request is kept in flight for each broker and the next one leaves before the records of the last
are handed out, so decoding and the network overlap without a thread. `poll` returns as soon as there
are records, or an empty list when its time is up; Ctrl-C interrupts it at any moment.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.administration.topics import EARLIEST, LATEST, OffsetAnswer
from barnabas.client.blocking.connection import Connection
from barnabas.client.blocking.membership import Membership
from barnabas.client.core.fetcher import (
    READ_COMMITTED,
    ConsumedRecord,
    FetchedBatch,
    Fetcher,
    PartitionState,
)
from barnabas.client.core.metadata import TopicPartition
from barnabas.client.errors import ClientError, OffsetOutOfRangeError, OptionError, broker_error
from barnabas.client.settings import ConsumerSettings, load
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO

PURPOSE = "fetch"
_LAST_VERSION_BY_NAME = 12
_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class Consumer:
    """Options are Kafka's, with underscores as keywords or with dots in a dict."""

    def __init__(
        self, options: dict[str, Any] | None = None, *, patience_ms: int = 0, **more: Any
    ) -> None:
        every = {**(options or {}), **more}
        self.settings = load(ConsumerSettings, every)
        self.admin = Admin(every, patience_ms=patience_ms)
        self.cluster = self.admin.cluster
        self._isolation = READ_COMMITTED if self.settings.isolation_level == "read_committed" else 0
        self._fetcher = Fetcher(
            max_buffered_bytes=self.settings.fetch_max_bytes,
            read_committed=self._isolation == READ_COMMITTED,
            check_crcs=self.settings.check_crcs,
        )
        self._flights: dict[int, tuple[Connection, float, dict[TopicPartition, Any]]] = {}
        self._membership: Membership | None = None
        self._topics: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._next_discovery = 0.0
        self._next_commit = time.monotonic() + self.settings.auto_commit_interval_ms / 1000
        self._stale = False

    # -- what to read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's say."""
        self._fetcher.assign(partitions)

    def subscribe(self, topics: Sequence[str] = (), *, pattern: str | None = None) -> None:
        """Join the group and read what it assigns."""
        if self.settings.group_id is None:
            raise OptionError("A subscription needs group.id.")
        self._topics = list(topics)
        self._pattern = None if pattern is None else re.compile(pattern)
        if self._membership is None:
            self._membership = Membership(
                self.cluster, self.settings, self._subscribed, self._on_assigned
            )
        else:
            self._membership.request_rejoin()

    def _subscribed(self) -> list[str]:
        self._next_discovery = time.monotonic() + self.settings.metadata_max_age_ms / 1000
        if self._pattern is None:
            self.cluster.refresh(
                self._topics, allow_auto_create=self.settings.allow_auto_create_topics
            )
            return self._topics
        found = self.cluster.refresh(None)
        return sorted(n for n, t in found.items() if self._pattern.search(n) and not t.internal)

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._fetcher.assign(partitions)
        fresh = [p for p, s in self._fetcher.partitions.items() if s.position < 0]
        if fresh and self.settings.group_id is not None:
            committed = self.admin.group_offsets(self.settings.group_id, fresh)
            for partition, offset in committed.items():
                self._fetcher.seek(partition, offset.offset)

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._fetcher.partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._fetcher.seek(partition, offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.partitions[partition].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.partitions[partition].paused = False

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be handed out; -1 if that is not known yet."""
        return self._fetcher.partitions[partition].position

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._fetcher.partitions[partition].high_watermark

    def offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAnswer]:
        """The first offset at or after a time, or at EARLIEST or LATEST; offset -1 if none."""
        answers: dict[TopicPartition, OffsetAnswer] = {}
        found = self.admin.list_offsets(timestamps, isolation_level=self._isolation)
        for partition, answer in found.items():
            if isinstance(answer, ClientError):
                raise answer
            answers[partition] = answer
        return answers

    # -- records

    def poll(
        self, timeout_ms: float = 1_000, max_records: int | None = None
    ) -> list[ConsumedRecord]:
        limit = self.settings.max_poll_records if max_records is None else max_records
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            if not self._ready(deadline):
                return []
            records = self._fetcher.records(limit)
            if records:
                if self._fetcher.buffered_bytes < self._fetcher.max_buffered_bytes // 2:
                    self._send_fetches()
                return records
            if not self._turn(deadline):
                return []

    def poll_batches(
        self, timeout_ms: float = 1_000
    ) -> Iterator[tuple[PartitionState, FetchedBatch]]:
        """Whole batches, not decoded: for counting and copying. The first may begin below the
        position. Use either this or `poll` between two seeks, not both."""
        deadline = time.monotonic() + timeout_ms / 1000
        while self._ready(deadline):
            given = False
            for found in self._fetcher.batches():
                if not given:
                    self._send_fetches()
                given = True
                yield found
            if given or not self._turn(deadline):
                return

    def _ready(self, deadline: float) -> bool:
        """Everything that must be settled before records can come."""
        membership = self._membership
        if membership is not None:
            if self._pattern is not None and time.monotonic() > self._next_discovery:
                self._next_discovery = float("inf")
                membership.request_rejoin()
            if membership._rejoin or not membership.stable:
                self._commit_before_rejoin()
            if not membership.ensure(deadline):
                return False
            self._auto_commit()
        self._find_positions()
        return True

    def _turn(self, deadline: float) -> bool:
        """Send what can be sent, wait for one answer; False when the time is up."""
        self._send_fetches()
        now = time.monotonic()
        if now >= deadline:
            self._receive(0.0)
            return bool(self._fetcher.buffered_bytes)
        wait_s = min(deadline - now, 0.2 if self._membership is not None else 1.0)
        self._receive(wait_s)
        return True

    def _find_positions(self) -> None:
        unknown = [p for p, s in self._fetcher.partitions.items() if s.position < 0]
        if not unknown:
            return
        reset = _RESETS.get(self.settings.auto_offset_reset)
        if reset is None:
            raise OffsetOutOfRangeError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                "No position is known and auto.offset.reset is none.",
                subject=f"{unknown[0][0]}-{unknown[0][1]}",
            )
        for partition, answer in self.offsets(dict.fromkeys(unknown, reset)).items():
            self._fetcher.seek(partition, answer.offset)

    # -- fetching

    def _send_fetches(self) -> None:
        now = time.monotonic()
        by_node: dict[int, list[PartitionState]] = {}
        for state in self._fetcher.fetchable(now):
            node_id = self._node_for(state)
            if node_id < 0:
                state.not_before = now + self.settings.retry_backoff_ms / 1000
                self._stale = True
            elif node_id not in self._flights:
                by_node.setdefault(node_id, []).append(state)
        if self._stale:
            self._refresh()
        for node_id, states in by_node.items():
            try:
                self._fetch(node_id, states)
            except ClientError as error:
                self._fetch_failed({s.partition: (s, s.seek_count) for s in states}, error)

    def _node_for(self, state: PartitionState) -> int:
        if state.preferred_replica in self.cluster.metadata.brokers:
            return state.preferred_replica
        return self.cluster.metadata.leader(*state.partition)

    def _refresh(self) -> None:
        self._stale = False
        topics = {topic for topic, _ in self._fetcher.partitions}
        try:
            self.cluster.refresh(topics)
        except ClientError as error:
            if not error.retriable:
                raise
            time.sleep(self.settings.retry_backoff_ms / 1000)

    def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        from barnabas.wire.messages import fetch as api

        connection = self.cluster.connection(node_id, PURPOSE)
        metadata = self.cluster.metadata
        topics: dict[str, list[Any]] = {}
        for state in states:
            info = metadata.partition(*state.partition)
            topics.setdefault(state.partition[0], []).append(
                api.FetchPartition(
                    partition=state.partition[1],
                    current_leader_epoch=-1 if info is None else info.leader_epoch,
                    fetch_offset=state.next_fetch,
                    partition_max_bytes=self.settings.max_partition_fetch_bytes,
                )
            )
        ids = {topic: metadata.topic_id(topic) for topic in topics}
        request = api.FetchRequest(
            replica_id=-1,
            max_wait_ms=self.settings.fetch_max_wait_ms,
            min_bytes=self.settings.fetch_min_bytes,
            max_bytes=self.settings.fetch_max_bytes,
            isolation_level=self._isolation,
            session_id=0,
            session_epoch=-1,
            topics=[
                api.FetchTopic(topic=topic, topic_id=ids[topic], partitions=partitions)
                for topic, partitions in topics.items()
            ],
            rack_id=self.settings.client_rack,
        )
        highest = _LAST_VERSION_BY_NAME if ZERO in ids.values() else None
        version = connection.choose_version(request, highest)
        connection.send(request, version)
        asked = {s.partition: (s, s.seek_count) for s in states}
        for state in states:
            state.in_flight = True
        self._flights[node_id] = (connection, time.monotonic(), asked)

    def _receive(self, wait_s: float) -> None:
        if not self._flights:
            if wait_s > 0:
                time.sleep(min(wait_s, self.settings.retry_backoff_ms / 1000))
            return
        for node_id, (connection, _at, asked) in list(self._flights.items()):
            if connection.closed:
                self._fetch_failed(asked, broker_error(ErrorCode.NETWORK_EXCEPTION))
                del self._flights[node_id]
        connections = [connection for connection, _, _ in self._flights.values()]
        readable, _, _ = select.select(connections, [], [], wait_s)
        limit_s = (self.settings.request_timeout_ms + self.settings.fetch_max_wait_ms) / 1000
        for node_id, (connection, sent_at, asked) in list(self._flights.items()):
            if connection in readable:
                try:
                    answers = connection.receive_available()
                except ClientError as error:
                    del self._flights[node_id]
                    self._fetch_failed(asked, error)
                    continue
                for _sent, response in answers:
                    del self._flights[node_id]
                    self._handle(asked, response)
            elif time.monotonic() - sent_at > limit_s:
                connection.close()

    def _fetch_failed(self, asked: Mapping[TopicPartition, Any], error: ClientError) -> None:
        not_before = time.monotonic() + self.settings.retry_backoff_ms / 1000
        for state, _ in asked.values():
            state.in_flight = False
            state.not_before = not_before
            state.preferred_replica = -1
        if not error.retriable:
            raise error
        self._stale = True

    def _handle(self, asked: Mapping[TopicPartition, Any], response: Any) -> None:
        for state, _ in asked.values():
            state.in_flight = False
        if response.error_code != ErrorCode.NONE:
            self._fetch_failed(asked, broker_error(response.error_code))
            return
        names = self.cluster.metadata.names_by_id
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                found = asked.get((name, answer.partition_index))
                if found is not None:
                    self._take(found[0], found[1], answer)

    def _take(self, state: PartitionState, seek_count: int, answer: Any) -> None:
        code = answer.error_code
        if code == ErrorCode.NONE:
            if answer.preferred_read_replica >= 0:
                state.preferred_replica = answer.preferred_read_replica
            self._fetcher.take(state, seek_count, answer)
            return
        subject = f"{state.partition[0]}-{state.partition[1]}"
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.seek_count != seek_count:
                return
            if self.settings.auto_offset_reset not in _RESETS:
                raise broker_error(
                    code, f"Offset {state.next_fetch} is not in the partition.", subject=subject
                )
            if self.partitions_hold(state):
                self._fetcher.seek(state.partition, -1)
            return
        error = broker_error(code, subject=subject)
        state.not_before = time.monotonic() + self.settings.retry_backoff_ms / 1000
        state.preferred_replica = -1
        if error.retriable or code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._stale = True
            return
        raise error

    def partitions_hold(self, state: PartitionState) -> bool:
        return self._fetcher.partitions.get(state.partition) is state

    # -- commits and the end

    def _positions(self) -> dict[TopicPartition, tuple[int, int]]:
        return {
            p: (s.position, s.epoch) for p, s in self._fetcher.partitions.items() if s.position >= 0
        }

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit positions (of all assigned partitions by default) and wait for the answer."""
        if self.settings.group_id is None:
            raise OptionError("A commit needs group.id.")
        wanted = self._positions() if offsets is None else {p: (o, -1) for p, o in offsets.items()}
        if self._membership is not None:
            self._membership.commit(wanted)
            return
        answers = self.admin.alter_group_offsets(
            self.settings.group_id, {p: offset for p, (offset, _) in wanted.items()}
        )
        for error in answers.values():
            if error is not None:
                raise error

    def _auto_commit(self) -> None:
        if not self.settings.enable_auto_commit or time.monotonic() < self._next_commit:
            return
        self._next_commit = time.monotonic() + self.settings.auto_commit_interval_ms / 1000
        self._try_commit()

    def _commit_before_rejoin(self) -> None:
        membership = self._membership
        if self.settings.enable_auto_commit and membership is not None and membership.member_id:
            self._try_commit()

    def _try_commit(self) -> None:
        try:
            self.commit()
        except ClientError:
            pass

    def close(self) -> None:
        """Commit if that is automatic, leave the group, close the connections."""
        membership, self._membership = self._membership, None
        if membership is not None:
            if self.settings.enable_auto_commit and membership.stable:
                try:
                    membership.commit(self._positions())
                except ClientError:
                    pass
            membership.close()
        self.admin.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
