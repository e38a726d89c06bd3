"""Following one leader: what to ask it next, and what to do with its answers.

A fetcher has all partitions (or one of `num.replica.fetchers` shares of them) that this broker follows
from one leader. It does no I/O: `next_request` gives what to send, `answered` takes the answer or None,
and there is never more than one request on its way. Each partition is in one of these states:

    FETCHING      in the Fetch session; the leader answers with batches or a diverging epoch
    TRUNCATING    the leader cannot tell divergence in Fetch: OffsetForLeaderEpoch first
    FINDING_END   OFFSET_OUT_OF_RANGE: does the leader end before us? ListOffsets, latest
    FINDING_START it does not, so it begins after us: ListOffsets, earliest
    FENCED        a newer leader exists; the metadata log will tell which

A partition that fails waits, alone, from 20 ms on and up to `replica.fetch.backoff.ms` while it keeps
failing; a request that fails makes all of its partitions wait and begins the session anew.

Truncation below the high watermark happens only after an unclean election, and is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from barnabas.log.log import UnexpectedOffset
from barnabas.replica.follower_session import FollowerSession, Position
from barnabas.replica.truncation import agreed_offset
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.replica.partition import Partition
    from barnabas.replica.replication_quota import ReplicationQuota
    from barnabas.replica.settings import ReplicaSettings

logger = logging.getLogger(__name__)

FIRST_BACKOFF_MS = 20
FLUSH_WAIT_MS = 1_000
LATEST = -1
EARLIEST = -2
_SESSION_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

Request = FetchRequest | OffsetForLeaderEpochRequest | ListOffsetsRequest
Response = FetchResponse | OffsetForLeaderEpochResponse | ListOffsetsResponse


class State(Enum):
    FETCHING = auto()
    TRUNCATING = auto()
    FINDING_END = auto()
    FINDING_START = auto()
    FENCED = auto()


class Replicas(Protocol):
    """Who owns the partitions."""

    def replicated(self, partition: Partition) -> None:
        """Its high watermark moved."""

    def flush(self, partition: Partition) -> None:
        """Bring its log to the disk, then call `flushed` of its fetcher."""

    def truncated(self, partition: Partition) -> None:
        """Its log has lost its end."""

    def log_failed(self, topic: str | None, index: int, error: OSError) -> None: ...


class Followed:
    """A partition in one epoch of its leader."""

    __slots__ = ("backoff_ms", "due_ms", "is_in_sync", "leader_epoch", "partition", "state")

    def __init__(self, partition: Partition, state: State) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state = state
        self.due_ms = 0
        self.backoff_ms = 0
        # It had all that the leader called committed when it was last answered.
        self.is_in_sync = False


class FollowerFetcher:
    def __init__(
        self,
        leader_id: int,
        number: int,
        replica_id: int,
        replicas: Replicas,
        settings: ReplicaSettings,
        broker_epoch: Callable[[], int],
        quota: ReplicationQuota,
        *,
        diverging_epoch_in_fetch: bool = True,
    ) -> None:
        self.leader_id = leader_id
        self.number = number
        self._replica_id = replica_id
        self._replicas = replicas
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._diverging_epoch_in_fetch = diverging_epoch_in_fetch
        self._followed: dict[tuple[str, int], Followed] = {}
        self._session = FollowerSession()
        self._session_losses = 0
        # What is on its way: the partitions asked about and the offset at which each log ended.
        self._sent: dict[tuple[str, int], tuple[Followed, int]] | None = None
        self._sent_request: Request | None = None

    def __len__(self) -> int:
        return len(self._followed)

    def __repr__(self) -> str:
        return f"FollowerFetcher(of {self.leader_id}, number {self.number}, {len(self)} partitions)"

    # ---- which partitions

    def add(self, partition: Partition) -> None:
        """Follow a partition in its present epoch; again after the epoch changed."""
        log = partition.online_log()
        state = State.FETCHING
        if log.epochs.latest < 0:
            # Nothing tells which leader wrote what is here: only what is committed counts.
            self._truncate(partition, log.high_watermark)
        elif not self._diverging_epoch_in_fetch:
            state = State.TRUNCATING
        self._followed[partition.key] = Followed(partition, state)

    def remove(self, partition: Partition) -> None:
        self._followed.pop(partition.key, None)

    @property
    def next_due_ms(self) -> int | None:
        """When there will be something to ask; None: not before an answer or a change."""
        if self._sent is not None:
            return None
        return min(
            (each.due_ms for each in self._followed.values() if each.state is not State.FENCED),
            default=None,
        )

    # ---- asking

    def next_request(self, now_ms: int) -> Request | None:
        if self._sent is not None:
            return None
        ready: dict[State, list[Followed]] = {state: [] for state in State}
        for followed in self._followed.values():
            if followed.due_ms <= now_ms and followed.partition.log is not None:
                ready[followed.state].append(followed)
        unflushed = [each for each in ready[State.FETCHING] if self._must_flush(each.partition)]
        if unflushed:
            # None is asked for alone: the leader may take its time to answer that.
            for followed in ready[State.FETCHING]:
                followed.due_ms = now_ms + FLUSH_WAIT_MS
            ready[State.FETCHING] = []
        if ready[State.FETCHING]:
            ready[State.FETCHING] = self._not_held_back(ready[State.FETCHING], now_ms)
        for state in (State.TRUNCATING, State.FINDING_END, State.FINDING_START, State.FETCHING):
            asked = ready[state]
            if asked:
                self._sent = {
                    each.partition.key: (each, each.partition.online_log().log_end_offset)
                    for each in asked
                }
                self._sent_request = self._request(state, asked)
                return self._sent_request
        return None

    def _not_held_back(self, asked: list[Followed], now_ms: int) -> list[Followed]:
        """While the follower's quota is exceeded, replicas that catch up are left out. They are
        looked at again with every request, and if there is none, after a while."""
        quota = self._quota
        free = [
            each
            for each in asked
            if each.is_in_sync
            or not quota.holds_back(each.partition.topic, each.partition.index, now_ms)
        ]
        if not free:
            for each in asked:
                each.due_ms = now_ms + self._settings.fetch_backoff_ms
        return free

    def _must_flush(self, partition: Partition) -> bool:
        """To ask for an offset is to promise everything before it, which the disk has to hold first
        where acknowledgements wait for the disk."""
        log = partition.online_log()
        if not partition.flush_before_ack or log.flushed_offset >= log.log_end_offset:
            return False
        self._replicas.flush(partition)
        return True

    def flushed(self, partition: Partition) -> None:
        """What was replicated is on the disk now: ask for more."""
        for followed in self._followed.values():
            if followed.state is State.FETCHING and not followed.backoff_ms:
                followed.due_ms = 0

    def _request(self, state: State, asked: list[Followed]) -> Request:
        if state is State.FETCHING:
            return self._fetch_request(asked)
        if state is State.TRUNCATING:
            return self._epochs_request(asked)
        return self._offsets_request(asked, LATEST if state is State.FINDING_END else EARLIEST)

    def _fetch_request(self, asked: list[Followed]) -> FetchRequest:
        settings = self._settings
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._replica_id, replica_epoch=self._broker_epoch()
            ),
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
        )
        wanted = []
        for each in asked:
            partition = each.partition
            log = partition.online_log()
            wanted.append(
                Position(
                    partition.topic,
                    partition.topic_id,
                    partition.index,
                    each.leader_epoch,
                    log.log_end_offset,
                    log.epochs.latest if self._diverging_epoch_in_fetch else -1,
                    log.log_start_offset,
                )
            )
        self._session.fill(request, wanted, settings.fetch_max_bytes)
        return request

    def _epochs_request(self, asked: list[Followed]) -> OffsetForLeaderEpochRequest:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for each in asked:
            name = each.partition.topic
            topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=each.partition.index,
                    current_leader_epoch=each.leader_epoch,
                    leader_epoch=each.partition.online_log().epochs.latest,
                )
            )
        return OffsetForLeaderEpochRequest(
            replica_id=self._replica_id, topics=list(topics.values())
        )

    def _offsets_request(self, asked: list[Followed], timestamp: int) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for each in asked:
            name = each.partition.topic
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=each.partition.index,
                    current_leader_epoch=each.leader_epoch,
                    timestamp=timestamp,
                )
            )
        return ListOffsetsRequest(replica_id=self._replica_id, topics=list(topics.values()))

    # ---- taking answers

    def answered(self, response: Response | None, now_ms: int) -> None:
        """The answer to the last request; None if there was none."""
        sent, self._sent = self._sent, None
        request, self._sent_request = self._sent_request, None
        if sent is None or request is None:
            return
        if isinstance(request, FetchRequest) and not self._session_goes_on(response, sent, now_ms):
            return
        if response is None:
            self._wait_all(sent, now_ms)
        elif isinstance(response, FetchResponse):
            self._fetched(response, sent, now_ms)
        elif isinstance(response, OffsetForLeaderEpochResponse):
            self._epochs_told(response, sent, now_ms)
        else:
            self._offsets_told(response, sent, now_ms)

    def _session_goes_on(
        self,
        response: Response | None,
        sent: dict[tuple[str, int], tuple[Followed, int]],
        now_ms: int,
    ) -> bool:
        if isinstance(response, FetchResponse) and response.error_code == ErrorCode.NONE:
            self._session.answered(response.session_id)
            self._session_losses = 0
            return True
        self._session.start_anew()
        self._session_losses += 1
        lost = isinstance(response, FetchResponse) and response.error_code in _SESSION_LOST
        if not lost or self._session_losses > 1:
            self._wait_all(sent, now_ms)
        return False

    def _fetched(
        self,
        response: FetchResponse,
        sent: dict[tuple[str, int], tuple[Followed, int]],
        now_ms: int,
    ) -> None:
        names = {each.partition.topic_id: each.partition.topic for each, _ in sent.values()}
        for topic in response.responses:
            name = topic.topic if topic.topic_id == ZERO else names.get(topic.topic_id, "")
            for data in topic.partitions:
                followed = self._still_asked(sent, (name, data.partition_index))
                if followed is not None:
                    self._guarded(followed, now_ms, self._take, data)

    def _still_asked(
        self, sent: dict[tuple[str, int], tuple[Followed, int]], key: tuple[str, int]
    ) -> Followed | None:
        """The partition, if it is followed as it was when the request was made."""
        followed, end_offset = sent.pop(key, (None, -1))
        if followed is None or self._followed.get(key) is not followed:
            return None
        partition = followed.partition
        if partition.leader_epoch != followed.leader_epoch or partition.is_leader:
            return None
        log = partition.log
        return followed if log is not None and log.log_end_offset == end_offset else None

    def _guarded(
        self,
        followed: Followed,
        now_ms: int,
        act: Callable[[Followed, PartitionData, int], None],
        data: PartitionData,
    ) -> None:
        partition = followed.partition
        try:
            act(followed, data, now_ms)
        except OSError as error:
            self._replicas.log_failed(partition.topic, partition.index, error)
        except (ApiError, UnexpectedOffset) as error:
            logger.warning("%s: what the leader sent cannot be taken: %s", partition, error)
            self._wait(followed, now_ms)

    def _take(self, followed: Followed, data: PartitionData, now_ms: int) -> None:
        partition = followed.partition
        if data.error_code != ErrorCode.NONE:
            self._refused(followed, data.error_code, now_ms)
            return
        log = partition.online_log()
        diverging = data.diverging_epoch
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            offset, _ = agreed_offset(log, diverging.epoch, diverging.end_offset)
            self._truncate(partition, offset)
        else:
            records = data.records
            assert records is None or isinstance(records, (bytes, memoryview))
            if records and self._quota.is_throttled(partition.topic, partition.index):
                self._quota.record(len(records), now_ms)
            if partition.replicate(records, data.high_watermark, data.log_start_offset, now_ms):
                self._replicas.replicated(partition)
            followed.is_in_sync = log.log_end_offset >= data.high_watermark
        followed.backoff_ms = 0

    def _refused(self, followed: Followed, code: int, now_ms: int) -> None:
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            followed.state = State.FENCED
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.state = State.FINDING_END
        else:
            logger.debug("%s: leader answers %s", followed.partition, ErrorCode.of(code).name)
            self._wait(followed, now_ms)

    def _epochs_told(
        self,
        response: OffsetForLeaderEpochResponse,
        sent: dict[tuple[str, int], tuple[Followed, int]],
        now_ms: int,
    ) -> None:
        for topic in response.topics:
            for answer in topic.partitions:
                followed = self._still_asked(sent, (topic.topic, answer.partition))
                if followed is None:
                    continue
                if answer.error_code != ErrorCode.NONE:
                    self._refused(followed, answer.error_code, now_ms)
                    continue
                partition = followed.partition
                offset, agreed = agreed_offset(
                    partition.online_log(), answer.leader_epoch, answer.end_offset
                )
                if self._truncate(partition, offset) and agreed:
                    followed.state = State.FETCHING
        self._wait_all(sent, now_ms)

    def _offsets_told(
        self,
        response: ListOffsetsResponse,
        sent: dict[tuple[str, int], tuple[Followed, int]],
        now_ms: int,
    ) -> None:
        for topic in response.topics:
            for answer in topic.partitions:
                followed = self._still_asked(sent, (topic.name, answer.partition_index))
                if followed is None:
                    continue
                if answer.error_code != ErrorCode.NONE or answer.offset < 0:
                    self._refused(followed, answer.error_code or -1, now_ms)
                    continue
                self._offset_told(followed, answer.offset, now_ms)
        self._wait_all(sent, now_ms)

    def _offset_told(self, followed: Followed, offset: int, now_ms: int) -> None:
        """Where the leader's log ends, or begins."""
        partition = followed.partition
        log: Log = partition.online_log()
        if followed.state is State.FINDING_END:
            if offset < log.log_end_offset:
                logger.warning(
                    "%s: the leader ends at %d, before us: %d",
                    partition,
                    offset,
                    log.log_end_offset,
                )
                if self._truncate(partition, offset):
                    followed.state = State.FETCHING
            else:
                followed.state = State.FINDING_START
            return
        try:
            if offset > log.log_end_offset:
                log.truncate_fully_and_start_at(offset, now_ms)
                self._replicas.replicated(partition)
        except OSError as error:
            self._replicas.log_failed(partition.topic, partition.index, error)
            return
        followed.state = State.FETCHING
        # The same answer may come again at once: the leader's log moves on while we ask.
        self._wait(followed, now_ms)

    def _truncate(self, partition: Partition, offset: int) -> bool:
        log = partition.online_log()
        if offset < log.high_watermark:
            logger.warning(
                "%s: truncating to %d, below the high watermark %d",
                partition,
                offset,
                log.high_watermark,
            )
        try:
            log.truncate_to(offset)
        except OSError as error:
            self._replicas.log_failed(partition.topic, partition.index, error)
            return False
        self._replicas.truncated(partition)
        return True

    # ---- waiting after a failure

    def _wait(self, followed: Followed, now_ms: int) -> None:
        limit_ms = self._settings.fetch_backoff_ms
        followed.backoff_ms = min(max(followed.backoff_ms * 2, FIRST_BACKOFF_MS), limit_ms)
        followed.due_ms = now_ms + followed.backoff_ms

    def _wait_all(self, sent: dict[tuple[str, int], tuple[Followed, int]], now_ms: int) -> None:
        for followed, _ in sent.values():
            self._wait(followed, now_ms)
