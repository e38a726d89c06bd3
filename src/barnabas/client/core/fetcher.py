"""What a consumer fetches, from whom and when, and in which order it hands the records out.

No I/O: `plan` says which requests to send now, `answered` and `failed` take in what became of them,
`take` hands records out. The rules:

* One request at a time is open with each broker. The next one leaves when the answer is in, before its
  records are handed out, so that the network and the reader work at the same time.
* Bounds: of a partition with `max.partition.fetch.bytes` buffered nothing more is asked, and of none
  while `BUFFERED_FETCHES * fetch.max.bytes` are buffered or may be on their way. A partition that has
  nothing can always be asked, so a single record larger than every bound still comes.
* A broker that has records for a partition which is full is not asked to wait for the others: that
  answer could hang for fetch.max.wait.ms, and the full partition, emptied meanwhile, with it. The
  others are then looked at without waiting, at most once in that time.
* Partitions take turns: each that has records is served in the order in which they came, and goes to
  the end when it was served. Those that are paused keep what they have and are not fetched.
* After an error that may pass, the partition (not its neighbours) is left alone for a backoff.
* A closest replica that the leader named (KIP-392) is read from for metadata.max.age.ms, or until it
  fails or does not have the offset; then the leader is asked again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.client.core.backoff import Backoff
from barnabas.client.core.fetch_session import SESSION_ERRORS, FetchSession, SessionRequest, Wanted
from barnabas.client.core.metadata import Broker, ClusterMetadata, TopicPartition
from barnabas.client.core.partition_state import PartitionState, Step
from barnabas.client.core.reset_policy import LATEST, ResetPolicy
from barnabas.client.errors import (
    AuthenticationError,
    AuthorizationError,
    ClientError,
    CorruptRecordsError,
    LogTruncationError,
    PoisonRecordError,
    SerializationError,
    VersionError,
    broker_error,
)
from barnabas.client.kernels_consumer import ConsumerRecord, FetchedRecords
from barnabas.client.serialization import Deserializer
from barnabas.client.settings import ConsumerSettings
from barnabas.record.kernels import ColumnsBuilder
from barnabas.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

READ_COMMITTED = 1
BUFFERED_FETCHES = 2
MAX_BATCH_BYTES = 1 << 30
"""More than that a connection does not take in as one answer."""
NEVER = float("inf")

# What passes when the metadata is fresh, or by itself after a while.
_STALE_METADATA = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_PASSING = frozenset(
    {ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT}
)
_FATAL = (AuthenticationError, AuthorizationError, SerializationError, VersionError)


class Asked(NamedTuple):
    """What a request asked of one partition, to recognise an answer that came too late."""

    state: PartitionState
    version: int
    offset: int


class Given(NamedTuple):
    """Where a partition stood before a turn gave records of it."""

    state: PartitionState
    version: int
    position: int
    epoch: int


class NodeFetch(NamedTuple):
    """A request to one broker. `names` are the topics by id."""

    node_id: int
    session: SessionRequest
    asked: dict[TopicPartition, Asked]
    names: dict[bytes, str]
    max_wait_ms: int
    max_bytes: int
    reserved_bytes: int
    sent_at: float


class Fetcher:
    def __init__(
        self,
        settings: ConsumerSettings,
        metadata: ClusterMetadata,
        reset_policy: ResetPolicy,
        random: Callable[[], float],
    ) -> None:
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.reset_policy = reset_policy
        self.needs_metadata = False  # set here, cleared by whoever asks for it
        self.in_flight: dict[int, NodeFetch] = {}
        self.sessions: dict[int, FetchSession] = {}
        self.read_committed = settings.isolation_level == "read_committed"
        self._settings = settings
        self._metadata = metadata
        self._random = random
        self._max_buffered_bytes = BUFFERED_FETCHES * settings.fetch_max_bytes
        self._reserved_bytes = 0
        self._ready: deque[PartitionState] = deque()
        self._by_node: dict[int, dict[TopicPartition, PartitionState]] = {}
        self._grouped = False
        self._changed = True
        self._wake_at = NEVER
        self._has_failure = False
        self._given: list[Given] = []
        self._look_at: dict[int, float] = {}  # when to look past full partitions
        self._not_before: dict[int, float] = {}  # brokers that refused a whole request

    # -- assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that stay keep their state; new ones have no position."""
        before = self.partitions
        self.partitions = {
            p: before.get(p)
            or PartitionState(
                p, read_committed=self.read_committed, check_crcs=self._settings.check_crcs
            )
            for p in dict.fromkeys(partitions)
        }
        for partition, state in before.items():
            if partition not in self.partitions:
                state.version += 1
                state.buffer.clear()
        self._ready = deque(s for s in self._ready if s.partition in self.partitions)
        self.metadata_updated()

    def pause(self, partition: TopicPartition) -> None:
        self.partitions[partition].paused = True

    def resume(self, partition: TopicPartition) -> None:
        state = self.partitions[partition]
        state.paused = False
        self._queue(state)
        self._changed = True

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        state = self.partitions[partition]
        self._learn(state)
        state.seek(offset, epoch)
        self._regroup()

    def reset(self, partition: TopicPartition, timestamp: int | None = None) -> None:
        """Read from where this time is; None: as the reset policy says."""
        self.partitions[partition].reset(timestamp)
        self._regroup()

    def in_step(self, step: Step, now: float) -> list[PartitionState]:
        """Partitions in this step for which something can be done now."""
        return [
            s
            for s in self.partitions.values()
            if s.step is step and s.failure is None and s.not_before <= now
        ]

    @property
    def all_fetch(self) -> bool:
        """Whether no partition waits for a position or its validation."""
        return all(s.step is Step.FETCH for s in self.partitions.values())

    def holds(self, state: PartitionState, version: int) -> bool:
        """Whether what was asked for this state is still about it."""
        return self.partitions.get(state.partition) is state and state.version == version

    # -- metadata

    def metadata_updated(self) -> None:
        """Leaders and epochs may have changed."""
        for state in self.partitions.values():
            self._learn(state)
        self._regroup()

    def _learn(self, state: PartitionState) -> None:
        topic, index = state.partition
        info = self._metadata.partition(topic, index)
        if info is None:
            return
        if state.leaderless and info.leader in self._metadata.brokers:
            state.leaderless = False
            state.not_before = 0.0
        topic_id = self._metadata.topic_id(topic)
        if topic_id != state.topic_id:
            # Another topic of this name, or the first news of it: no epoch of before means anything.
            known_before = any(state.topic_id)
            state.topic_id = topic_id
            state.leader_epoch = info.leader_epoch
            if known_before:
                state.next_epoch = state.buffer.epoch = -1
                if state.step is Step.VALIDATE:
                    state.validated()
            return
        if info.leader_epoch > state.leader_epoch:
            state.leader_epoch = info.leader_epoch
            if state.step is Step.FETCH and 0 <= state.next_epoch < info.leader_epoch:
                state.validate()

    def _regroup(self) -> None:
        self._grouped = False
        self._changed = True

    def _group(self, now: float) -> None:
        """Which broker each partition is read from."""
        by_node: dict[int, dict[TopicPartition, PartitionState]] = {}
        self._by_node = by_node
        brokers = self._metadata.brokers
        for partition, state in self.partitions.items():
            node_id = self._metadata.leader(*partition)
            if state.preferred >= 0:
                if state.preferred in brokers and now < state.preferred_until:
                    node_id = state.preferred
                else:
                    state.preferred = -1
            if node_id < 0 or node_id not in brokers:
                self.needs_metadata = True
            else:
                by_node.setdefault(node_id, {})[partition] = state
        for node_id in [n for n in self.sessions if n not in brokers]:
            del self.sessions[node_id]
            self._look_at.pop(node_id, None)
            self._not_before.pop(node_id, None)
        self._grouped = True

    # -- requests

    @property
    def buffered_bytes(self) -> int:
        """What the partitions that are not paused hold."""
        return sum(s.buffer.bytes for s in self.partitions.values() if not s.paused)

    def wake_at(self) -> float:
        """When `plan` may have something to send without anything having happened."""
        return 0.0 if self._changed else self._wake_at

    def plan(self, now: float) -> list[NodeFetch]:
        """The requests to send now. Each counts as in flight until `answered` or `failed`."""
        if not self._changed and now < self._wake_at:
            return []
        self._changed = False
        self._wake_at = NEVER
        if not self._grouped or any(
            s.preferred >= 0 and s.preferred_until <= now for s in self.partitions.values()
        ):
            self._group(now)
        plans = []
        room = self._max_buffered_bytes - self.buffered_bytes - self._reserved_bytes
        for node_id, states in self._by_node.items():
            if node_id in self.in_flight:
                continue
            fetch = self._plan_node(node_id, states, room, now)
            if fetch is not None:
                room -= fetch.reserved_bytes
                self._reserved_bytes += fetch.reserved_bytes
                self.in_flight[node_id] = fetch
                plans.append(fetch)
        return plans

    def _plan_node(
        self,
        node_id: int,
        states: dict[TopicPartition, PartitionState],
        room: int,
        now: float,
    ) -> NodeFetch | None:
        settings = self._settings
        most = settings.max_partition_fetch_bytes
        not_before = self._not_before.get(node_id, 0.0)
        if not_before > now:
            self._wake_at = min(self._wake_at, not_before)
            return None
        wanted: dict[TopicPartition, Wanted] = {}
        asked: dict[TopicPartition, Asked] = {}
        full = False
        least = 0
        for partition, state in states.items():
            if state.preferred >= 0:
                self._wake_at = min(self._wake_at, state.preferred_until)
            if state.step is not Step.FETCH or state.paused or state.hold or state.failure:
                continue
            if state.buffer.bytes >= most:
                full = True
            elif state.not_before > now:
                self._wake_at = min(self._wake_at, state.not_before)
            else:
                size = max(most, state.least_bytes)
                least = max(least, state.least_bytes)
                wanted[partition] = Wanted(
                    state.topic_id, state.next_fetch, state.leader_epoch, size
                )
                asked[partition] = Asked(state, state.version, state.next_fetch)
        if not wanted:
            return None
        max_wait_ms = settings.fetch_max_wait_ms
        if full:
            look_at = self._look_at.get(node_id, 0.0)
            if look_at > now:
                self._wake_at = min(self._wake_at, look_at)
                return None
            max_wait_ms = 0
        reserve = min(settings.fetch_max_bytes, most * len(wanted))
        if room < reserve:
            nothing = self._reserved_bytes == 0 and self.buffered_bytes == 0
            if room < min(most, reserve) and not nothing:
                return None
            reserve = max(room, min(most, settings.fetch_max_bytes))
        reserve = max(reserve, least)
        self._look_at[node_id] = now + settings.fetch_max_wait_ms / 1000
        session = self.sessions.get(node_id)
        if session is None:
            session = self.sessions[node_id] = FetchSession()
        return NodeFetch(
            node_id,
            session.request(wanted),
            asked,
            {w.topic_id: p[0] for p, w in wanted.items()},
            max_wait_ms,
            reserve,
            reserve,
            now,
        )

    # -- answers

    def failed(self, fetch: NodeFetch, error: ClientError, now: float) -> None:
        """No answer came; the partitions are left alone for a while."""
        self._ended(fetch)
        session = self.sessions.get(fetch.node_id)
        if session is not None:
            session.restart()
        for asked in fetch.asked.values():
            self._retry_later(asked.state, now)
            asked.state.preferred = -1
            if isinstance(error, _FATAL):
                self._fail(asked.state, error)
        self.needs_metadata = True
        self._regroup()

    def _ended(self, fetch: NodeFetch) -> None:
        assert self.in_flight.get(fetch.node_id) is fetch
        del self.in_flight[fetch.node_id]
        self._reserved_bytes -= fetch.reserved_bytes
        self._changed = True

    def _fail(self, state: PartitionState, error: ClientError) -> None:
        state.failure = error
        self._has_failure = True

    def _retry_later(self, state: PartitionState, now: float) -> None:
        settings = self._settings
        backoff = Backoff(
            settings.retry_backoff_ms,
            settings.retry_backoff_max_ms,
            self._random,
            attempts=state.attempts,
        )
        state.attempts += 1
        state.not_before = now + backoff.next_ms() / 1000

    def answered(self, fetch: NodeFetch, response: Any, now: float) -> None:
        """Take in an answer to `fetch`."""
        self._ended(fetch)
        node_id = fetch.node_id
        session = self.sessions.get(node_id) or FetchSession()
        code = response.error_code
        if code != ErrorCode.NONE:
            session.refused(code)
            if code in SESSION_ERRORS:
                if fetch.session.is_full:  # refused although nothing was presumed
                    self._not_before[node_id] = now + self._settings.retry_backoff_ms / 1000
                return
            error = broker_error(code)
            for asked in fetch.asked.values():
                self._retry_later(asked.state, now)
                if not error.retriable:
                    self._fail(asked.state, error)
            self.needs_metadata = True
            return
        session.answered(response.session_id)
        if response.node_endpoints:
            for end in response.node_endpoints:
                if end.node_id not in self._metadata.brokers:
                    self._metadata.add_broker(Broker(end.node_id, end.host, end.port, end.rack))
        for topic in response.responses:
            name = topic.topic or fetch.names.get(topic.topic_id, "")
            for answer in topic.partitions:
                asked_one = fetch.asked.get((name, answer.partition_index))
                if asked_one is None:
                    continue
                state, version, offset = asked_one
                if self.holds(state, version) and state.next_fetch == offset:
                    self._take_in(state, answer, node_id, now)

    def _take_in(self, state: PartitionState, answer: Any, node_id: int, now: float) -> None:
        code = answer.error_code
        if code != ErrorCode.NONE:
            self._refused(state, answer, node_id, now)
            return
        state.succeeded()
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            state.preferred = answer.preferred_read_replica
            state.preferred_until = now + self._settings.metadata_max_age_ms / 1000
            self._regroup()
        data = answer.records
        if data is None or not len(data):
            return
        records = FetchedRecords(*state.partition, data)
        if not records.is_corrupt and records.next_offset <= state.next_fetch:
            # Only a part of a batch, as a broker may answer for all partitions but the first.
            most = max(state.least_bytes, self._settings.max_partition_fetch_bytes)
            state.least_bytes = min(records.cut_size or 2 * most, MAX_BATCH_BYTES)
            return
        state.least_bytes = 0
        aborted = answer.aborted_transactions if self.read_committed else None
        state.buffer.add(
            records, [(a.first_offset, a.producer_id) for a in aborted] if aborted else ()
        )
        state.hold = records.is_corrupt
        if records.next_offset >= 0:
            state.next_fetch = records.next_offset
            state.next_epoch = records.last_epoch
        self._queue(state)
        of_node = self._by_node.get(node_id)
        if of_node is not None and state.partition in of_node:
            of_node[state.partition] = of_node.pop(state.partition)

    def _refused(self, state: PartitionState, answer: Any, node_id: int, now: float) -> None:
        code = answer.error_code
        topic, index = state.partition
        from_leader = node_id == self._metadata.leader(topic, index)
        if state.preferred >= 0:
            state.preferred = -1
            self._regroup()
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if from_leader:
                self._out_of_range(state, answer)
            return
        self._retry_later(state, now)
        if code in _STALE_METADATA:
            hint = answer.current_leader
            if self._metadata.learn_leader(topic, index, hint.leader_id, hint.leader_epoch):
                state.succeeded()
                self._learn(state)
                self._regroup()
            else:
                self.needs_metadata = True
        elif code not in _PASSING:
            self._fail(state, broker_error(code, subject=state.name))
        else:
            logger.debug("%s: broker %s answered error %s", state.name, node_id, code)

    def _out_of_range(self, state: PartitionState, answer: Any) -> None:
        if state.next_fetch != state.position:
            state.hold = True  # what is buffered can be read; then it is asked again
            self._release(state)
            return
        if self.reset_policy.is_none:
            held = ""
            if answer.log_start_offset >= 0:
                held = f" It begins at {answer.log_start_offset}."
            error = broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {state.next_fetch} is not in the partition.{held}",
                subject=state.name,
            )
            self._fail(state, error)
            return
        logger.info(
            "%s: offset %d is out of range, reset to %s",
            state.name,
            state.next_fetch,
            self.reset_policy.text,
        )
        state.reset(None)

    # -- answers about positions

    def positioned(self, state: PartitionState, version: int, offset: int, epoch: int) -> None:
        """A committed offset, or the offset of a time, was found."""
        if self.holds(state, version):
            self._learn(state)
            state.seek(offset, epoch)
            self._regroup()

    def offset_found(self, state: PartitionState, version: int, offset: int) -> None:
        """The leader told the offset of a reset. It tells of no record before it, so that there is
        nothing to validate."""
        if not self.holds(state, version):
            return
        if offset < 0:  # no record is as young as that
            state.reset(LATEST)
        else:
            self._learn(state)
            state.seek(offset)
        self._regroup()

    def fail(self, states: Iterable[PartitionState], error: ClientError) -> None:
        """What stands in the way of these partitions is for the reader to decide."""
        for state in states:
            self._fail(state, error)

    def not_positioned(
        self, state: PartitionState, version: int, now: float, *, leaderless: bool = False
    ) -> None:
        """What was asked about a position was not told; it is asked again after a while, or, if
        there was nobody to ask, once a leader is known."""
        if self.holds(state, version):
            self._retry_later(state, now)
            state.leaderless = leaderless
            self._changed = True

    def cannot_validate(self, state: PartitionState, version: int) -> None:
        """The leader is too old to tell."""
        if self.holds(state, version) and state.step is Step.VALIDATE:
            state.validated()
            self._changed = True

    def validated(
        self, state: PartitionState, version: int, end_epoch: int, end_offset: int
    ) -> None:
        """The leader's log has, of the epoch asked for or the one before it, all below
        `end_offset`; negative if it knows no such epoch."""
        if not self.holds(state, version) or state.step is not Step.VALIDATE:
            return
        self._changed = True
        if end_epoch >= 0 and end_offset >= state.next_fetch:
            state.validated()
        elif state.position == 0 or (end_epoch >= 0 and end_offset >= state.position):
            state.refetch()  # only what nobody has seen yet is cut off
            state.validated()
        else:
            self._truncated(state, end_epoch, end_offset)

    def _truncated(self, state: PartitionState, end_epoch: int, end_offset: int) -> None:
        known = end_epoch >= 0 and end_offset >= 0
        if self.reset_policy.is_none:
            diverged = end_offset if known else None
            self._fail(state, LogTruncationError(*state.partition, state.position, diverged))
            return
        logger.warning(
            "%s: the log was truncated below the position %d; going on from %s",
            state.name,
            state.position,
            end_offset if known else self.reset_policy.text,
        )
        if known:
            state.seek(end_offset)
            state.buffer.epoch = state.next_epoch = end_epoch
        else:
            state.reset(None)

    # -- handing out

    @property
    def has_records(self) -> bool:
        return bool(self._ready)

    def begin_turn(self) -> None:
        """What was given until now has been dealt with."""
        self._given.clear()

    def take_back(self) -> None:
        """What was given in this turn did not reach anybody; it is fetched again."""
        for given in reversed(self._given):
            state = given.state
            if self.holds(state, given.version):
                state.buffer.position, state.buffer.epoch = given.position, given.epoch
                state.refetch()
        self._given.clear()
        self._changed = True

    def _queue(self, state: PartitionState) -> None:
        if not state.queued and not state.buffer.is_empty:
            state.queued = True
            self._ready.append(state)

    def _turns(self) -> Iterator[PartitionState]:
        """The partitions that have records, in turn. One that was served goes to the end."""
        for _ in range(len(self._ready)):
            state = self._ready[0]
            if state.paused or state.buffer.is_empty:
                self._ready.popleft()
                state.queued = False
                continue
            yield state
            if self._ready and self._ready[0] is state:
                self._ready.popleft()
                state.queued = False
                self._queue(state)

    def _serve(self, limit: int, take: Callable[[PartitionState, int], int]) -> int:
        """Hands out up to `limit` records. What stands in the way is raised when it is first."""
        self.raise_failure()
        most = self._settings.max_partition_fetch_bytes
        count = 0
        for state in self._turns():
            buffer = state.buffer
            bytes_before = buffer.bytes
            self._given.append(Given(state, state.version, buffer.position, buffer.epoch))
            try:
                count += take(state, limit - count)
            except (CorruptRecordsError, PoisonRecordError) as error:
                if count:
                    break
                if isinstance(error, CorruptRecordsError):
                    state.refetch()
                    self._changed = True
                raise
            if bytes_before >= most > state.buffer.bytes or state.buffer.is_empty:
                self._changed = True
                self._release(state)
            if count >= limit:
                state = self._ready.popleft()
                state.queued = False
                self._queue(state)
                break
        return count

    def _release(self, state: PartitionState) -> None:
        if state.hold and state.buffer.is_empty:
            state.hold = False
            state.next_fetch = state.position
            state.next_epoch = state.buffer.epoch

    def raise_failure(self) -> None:
        """Raise what a partition met that only its reader can decide; once, then it is tried again."""
        if not self._has_failure:
            return
        failed = [s for s in self.partitions.values() if s.failure is not None]
        self._has_failure = False
        if failed:
            failure = failed[0].failure
            for state in failed:
                if state.failure is failure:
                    state.failure = None
                else:
                    self._has_failure = True
            self._changed = True
            assert failure is not None
            raise failure

    def take(
        self,
        found: list[ConsumerRecord],
        limit: int,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> int:
        """Appends up to `limit` records to `found`; gives how many."""
        return self._serve(
            limit,
            lambda state, left: state.buffer.take(
                found, left, key_deserializer, value_deserializer
            ),
        )

    def take_columns(
        self,
        columns: ColumnsBuilder,
        limit: int,
        runs: list[tuple[str, int, int, int]],
        max_bytes: int,
    ) -> int:
        """The same as rows of columns, as `PartitionBuffer.take_columns` has it."""
        return self._serve(
            limit, lambda state, left: state.buffer.take_columns(columns, left, runs, max_bytes)
        )

    def skip_record(self, partition: TopicPartition) -> ConsumerRecord:
        """Passes over the next record of a partition, one that could not be deserialized."""
        state = self.partitions[partition]
        record = state.buffer.skip_record()
        self._changed = True
        self._release(state)
        return record

    def positions(self, *, dealt_with: bool = False) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and leader epoch of each partition that has a position; with `dealt_with` those
        before this turn, whose records may be half done."""
        found = {
            p: (s.buffer.position, s.buffer.epoch)
            for p, s in self.partitions.items()
            if s.has_position
        }
        if dealt_with:
            for given in reversed(self._given):
                if self.holds(given.state, given.version):
                    found[given.state.partition] = (given.position, given.epoch)
        return found
