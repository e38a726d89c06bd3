"""Brokers as a consumer's fetcher sees them, without I/O: logs with epochs, sessions, leaders that move.

`ModelBrokers.fetch` answers what a `Fetcher` planned, in messages of the wire. A partition's log is
shared by all brokers, since a clean move of a leader loses nothing; `truncate` is an unclean one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from barnabas.client.core.fetcher import NodeFetch
from barnabas.client.core.metadata import Broker, ClusterMetadata, PartitionInfo, TopicInfo
from barnabas.record.build import build_batch
from barnabas.record.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch as api

Place = tuple[str, int]


@dataclass
class Batch:
    first: int
    last: int
    data: bytes


@dataclass
class Log:
    """`values` are those a reader may see by their offsets, now or before a truncation."""

    place: Place
    epoch: int = 0
    start: int = 0
    end: int = 0
    batches: list[Batch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    values: dict[int, bytes] = field(default_factory=dict)
    ever: set[tuple[int, bytes]] = field(default_factory=set)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # first, last, producer

    def append(self, count: int, *, producer_id: int = -1, visible: bool = True) -> None:
        records = []
        for index in range(count):
            value = b"%s-%d@%d in %d" % (
                self.place[0].encode(),
                self.place[1],
                self.end + index,
                self.epoch,
            )
            records.append((1_000 + self.end + index, None, value, ()))
            if visible:
                self.values[self.end + index] = value
                self.ever.add((self.end + index, value))
        more = (
            {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
            if producer_id >= 0
            else {}
        )
        data = build_batch(
            records,
            base_offset=self.end,
            partition_leader_epoch=self.epoch,
            is_transactional=producer_id >= 0,
            **more,  # type: ignore[arg-type]
        )
        self._add(bytes(data), count)

    def append_transaction(self, count: int, producer_id: int, *, commit: bool) -> None:
        first = self.end
        self.append(count, producer_id=producer_id, visible=commit)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = build_end_transaction_marker(
            EndTransactionMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=0,
            base_offset=self.end,
            partition_leader_epoch=self.epoch,
        )
        if not commit:
            self.aborted.append((first, self.end, producer_id))
        self._add(bytes(marker), 1)
        # What is truncated is the whole transaction: no log has half of one for its readers.
        end, data = self.batches.pop(), self.batches.pop()
        self.batches.append(Batch(data.first, end.last, data.data + end.data))

    def _add(self, data: bytes, count: int) -> None:
        self.batches.append(Batch(self.end, self.end + count - 1, data))
        self.end += count

    def move(self) -> None:
        self.epoch += 1
        self.epochs.append((self.epoch, self.end))

    def truncate(self, batches: int) -> None:
        """An unclean election loses the last batches."""
        for _ in range(min(batches, len(self.batches))):
            self.end = self.batches.pop().first
        self.start = min(self.start, self.end)
        self.epochs = [e for e in self.epochs if e[1] < self.end] or [self.epochs[0]]
        self.aborted = [a for a in self.aborted if a[1] < self.end]
        self.values = {at: value for at, value in self.values.items() if at < self.end}
        self.move()

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.values = {at: value for at, value in self.values.items() if at >= offset}

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """What OffsetForLeaderEpoch answers."""
        found = (-1, -1)
        for index, (each, _start) in enumerate(self.epochs):
            if each <= epoch:
                later = self.epochs[index + 1 :]
                found = (each, later[0][1] if later else self.end)
        return found

    def read(self, offset: int, max_bytes: int) -> bytes:
        data = b""
        for batch in self.batches:
            if batch.last < offset or batch.last < self.start:
                continue
            if data and len(data) + len(batch.data) > max_bytes:
                # As brokers do, the answer may end inside a batch.
                data += batch.data[: max(max_bytes - len(data), 0)]
                break
            data += batch.data
        return data


class ModelBrokers:
    def __init__(self, places: list[Place], nodes: int, seed: random.Random) -> None:
        self.random = seed
        self.logs = {place: Log(place) for place in places}
        self.leaders = {place: seed.randrange(nodes) for place in places}
        self.nodes = nodes
        self.sessions: dict[int, dict[int, tuple[int, dict[Place, api.FetchPartition]]]] = {
            node: {} for node in range(nodes)
        }
        self.max_bytes = 300
        self._next_session = 1

    def topic_id(self, topic: str) -> bytes:
        return topic.encode().ljust(16, b"\1")

    def publish(self, metadata: ClusterMetadata) -> None:
        """Tell the client how things are now."""
        metadata.brokers = {n: Broker(n, "host", 9092 + n) for n in range(self.nodes)}
        for topic in {topic for topic, _ in self.logs}:
            partitions = {
                place[1]: PartitionInfo(
                    topic, place[1], self.leaders[place], self.logs[place].epoch, (0,), (0,)
                )
                for place in self.logs
                if place[0] == topic
            }
            metadata.topics[topic] = TopicInfo(topic, self.topic_id(topic), False, partitions)

    def move(self, place: Place) -> None:
        self.leaders[place] = self.random.randrange(self.nodes)
        self.logs[place].move()

    def truncate(self, place: Place, batches: int) -> None:
        self.leaders[place] = self.random.randrange(self.nodes)
        self.logs[place].truncate(batches)

    def forget_sessions(self, node_id: int) -> None:
        self.sessions[node_id].clear()

    def fetch(self, fetch: NodeFetch) -> api.FetchResponse:
        session = fetch.session
        sessions = self.sessions[fetch.node_id]
        names = {self.topic_id(topic): topic for topic, _ in self.logs}
        changed = {
            (names[wanted.topic_id], place[1]): api.FetchPartition(
                partition=place[1],
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                partition_max_bytes=wanted.max_bytes,
            )
            for place, wanted in session.changed.items()
        }
        if session.epoch == 0:
            sessions.pop(session.session_id, None)
            session_id = 0
            if self.random.random() < 0.9:
                session_id, self._next_session = self._next_session, self._next_session + 1
                sessions[session_id] = (1, changed)
            targets, full = changed, True
        else:
            session_id = session.session_id
            known = sessions.get(session_id)
            if known is None:
                return api.FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            if known[0] != session.epoch:
                return api.FetchResponse(error_code=int(ErrorCode.INVALID_FETCH_SESSION_EPOCH))
            targets = known[1]
            for place in session.forgotten:
                assert place in targets
                del targets[place]
            targets.update(changed)
            sessions[session_id] = (session.epoch + 1, targets)
            full = False
        assert targets.keys() == fetch.asked.keys()
        return self._answer(fetch.node_id, session_id, targets, full)

    def _answer(
        self, node_id: int, session_id: int, targets: dict[Place, api.FetchPartition], full: bool
    ) -> api.FetchResponse:
        topics: dict[str, list[api.PartitionData]] = {}
        for place, target in targets.items():
            answer = self._partition(node_id, place, target)
            if full or answer.error_code or answer.records:
                topics.setdefault(place[0], []).append(answer)
        return api.FetchResponse(
            session_id=session_id,
            responses=[
                api.FetchableTopicResponse(topic_id=self.topic_id(topic), partitions=partitions)
                for topic, partitions in topics.items()
            ],
        )

    def _partition(
        self, node_id: int, place: Place, target: api.FetchPartition
    ) -> api.PartitionData:
        log = self.logs[place]
        answer = api.PartitionData(
            partition_index=place[1],
            high_watermark=log.end,
            last_stable_offset=log.end,
            log_start_offset=log.start,
        )
        if self.leaders[place] != node_id:
            answer.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self.random.random() < 0.5:
                answer.current_leader = api.LeaderIdAndEpoch(
                    leader_id=self.leaders[place], leader_epoch=log.epoch
                )
        elif target.current_leader_epoch < log.epoch:
            answer.error_code = int(ErrorCode.FENCED_LEADER_EPOCH)
        elif not log.start <= target.fetch_offset <= log.end:
            answer.error_code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            data = log.read(target.fetch_offset, min(target.partition_max_bytes, self.max_bytes))
            answer.records = memoryview(data)
            answer.aborted_transactions = [
                api.AbortedTransaction(producer_id=producer_id, first_offset=first)
                for first, last, producer_id in log.aborted
                if last >= target.fetch_offset
            ]
        return answer
