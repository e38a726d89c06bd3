"""The consumer, as coroutines over a reactor; the plain and the async consumer are made of it.

A poll goes round: do what the group wants done, hand out what is buffered, send what can be asked for,
wait for something to happen. Requests leave as soon as an answer is in, so while a caller handles
records the next ones are already on their way.

Positions move when records are handed out. What `poll` returned counts as dealt with when the next
poll begins; automatic commits are made then, and a consumer that is closed because its user's code
failed commits only what was dealt with. Records that were taken and did not reach the caller, because
Ctrl-C came between, are taken back.

The consumer belongs to one thread (or task) at a time, as Kafka's does; only `wakeup` and the metrics
are for others.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final

from barnabas.client.administration.groups import GroupAdmin
from barnabas.client.administration.topics import OffsetAnswer, TopicAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.columns import MAX_BYTES, Runs, record_batch
from barnabas.client.commits import GroupCommits
from barnabas.client.consumer_metrics import ConsumerMetrics, lag_of
from barnabas.client.core.fetcher import READ_COMMITTED, Fetcher
from barnabas.client.core.metadata import TopicInfo
from barnabas.client.core.metadata import TopicPartition as Place
from barnabas.client.core.offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    check_offset,
    check_offsets,
    check_partition,
    to_commit,
)
from barnabas.client.core.partition_state import PartitionState
from barnabas.client.core.reset_policy import EARLIEST, LATEST, ResetPolicy
from barnabas.client.dead_letters import DeadLetters
from barnabas.client.errors import (
    ClientError,
    ClosedError,
    IllegalStateError,
    NoBrokerReachable,
    OptionError,
    PoisonRecordError,
    RequestTimeout,
    WakeupError,
    broker_error,
)
from barnabas.client.fetching import Fetching
from barnabas.client.interceptors import ConsumerInterceptors
from barnabas.client.kernels_consumer import ConsumerRecord
from barnabas.client.lateness import PollWatch
from barnabas.client.membership import Membership
from barnabas.client.metrics import Metrics
from barnabas.client.poison import PoisonPolicy
from barnabas.client.positioning import Positioning
from barnabas.client.reactor import Future, Reactor
from barnabas.client.serialization import deserializer
from barnabas.client.settings import ConsumerSettings
from barnabas.record.kernels import ColumnsBuilder
from barnabas.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

NEVER: Final = float("inf")
LONGEST_WAIT_S: Final = 1.0
"""How long a poll waits at a stretch; it bounds how many ended timers are kept."""
TURN_S: Final = 0.005
"""How long polls may hand out what is buffered without looking at the sockets."""
ALL: Final = 1 << 62
FIRST_ROW_BYTES: Final = 100.0
LEAST_ROW_BYTES: Final = 16.0
"""What a row of columns is taken to have until one was seen, and at least: it decides how much room
columns begin with."""

Subscription = Collection[str] | re.Pattern[str]
CommitCallback = Callable[[Mapping[Place, OffsetAndMetadata], ClientError | None], object]


class ConsumerEngine:
    def __init__(
        self,
        settings: ConsumerSettings,
        reactor: Reactor,
        *,
        patience_ms: float = 0,
    ) -> None:
        self.settings = settings
        self.reactor = reactor
        self.cluster = cluster = Cluster(settings, reactor, patience_ms=patience_ms)
        self.fetcher = Fetcher(settings, cluster.metadata, ResetPolicy.of(settings), reactor.random)
        self.metrics_registry = Metrics.of("consumer", settings, reactor.now())
        self.metered = ConsumerMetrics(self.metrics_registry, self.fetcher)
        self.closed = False
        self._topic_admin = TopicAdmin(cluster)
        self._group_admin = GroupAdmin(cluster)
        self._interceptors = ConsumerInterceptors(settings.interceptors)
        self._key_deserializer = deserializer(settings.key_deserializer, "key")
        self._value_deserializer = deserializer(settings.value_deserializer, "value")
        self._poison = PoisonPolicy(settings, DeadLetters(cluster).write)
        self._isolation_level = READ_COMMITTED if self.fetcher.read_committed else 0
        self._membership = None if settings.group_id is None else self._join(settings)
        self._watch = PollWatch(
            reactor, settings.max_poll_interval_ms / 1000, f"consumer of group {settings.group_id}"
        )
        self._positioning = Positioning(
            cluster,
            self.fetcher,
            isolation_level=self._isolation_level,
            committed=None if settings.group_id is None else self._find_committed,
            group_id=settings.group_id,
            changed=self._changed,
            spawn=self._spawn,
        )
        self._fetching = Fetching(
            settings, cluster, self.fetcher, self._positioning, self.metered, self._notify
        )
        self._watched: set[str] = set()
        self._tasks: set[Future[None]] = set()
        self._contact: Future[Any] | None = None
        self._contact_error: ClientError | None = None
        self._waiter: Future[None] | None = None
        self._turned_at = reactor.now()
        self._next_commit = reactor.now() + settings.auto_commit_interval_ms / 1000
        self._committing = False
        self._polling = False
        self._woken = False
        self._row_bytes: float = FIRST_ROW_BYTES
        self._rest: deque[ConsumerRecord] = deque()
        self._rest_now: ConsumerRecord | None = None
        cluster.updated.append(self._metadata_updated)

    def _join(self, settings: ConsumerSettings) -> Membership:
        membership = Membership(self.cluster, settings, self)
        membership.attention = self._notify
        return membership

    # -- what to read

    def subscribe(
        self, topics: str | Collection[str] | re.Pattern[str], listener: object = None
    ) -> None:
        """Join the group and read what it assigns: of these topics, or of all that match a pattern.

        `listener` may have `on_partitions_revoked`, `on_partitions_assigned` and
        `on_partitions_lost`; they are called inside poll. No topics is the same as unsubscribing.
        """
        self._check_open()
        membership = self._group("A subscription")
        if isinstance(topics, str):
            topics = [topics]
        if not isinstance(topics, re.Pattern):
            topics = list(dict.fromkeys(topics))
            for topic in topics:
                if not isinstance(topic, str) or not topic.strip():
                    raise OptionError(f"{topic!r} is not the name of a topic.")
            if not topics:
                raise OptionError(
                    "There are no topics to subscribe to.",
                    next_step="Name some, or call unsubscribe().",
                )
        if self.fetcher.partitions and not membership.subscribed:
            raise IllegalStateError(
                "Partitions were assigned by hand.",
                next_step="Call unsubscribe() first; a consumer does one or the other.",
            )
        membership.subscribe(topics, listener)
        self._watch.start()

    async def unsubscribe(self) -> None:
        """Leave the group, or forget what was assigned by hand."""
        self._check_open()
        membership = self._membership
        if membership is not None and membership.subscribed:
            self._watch.stop()
            await membership.leave(
                "the consumer unsubscribed", self.settings.default_api_timeout_ms
            )
        self._set_assignment(())

    def assign(self, partitions: Iterable[Place]) -> None:
        """Read these partitions, without a group's say. Those that stay keep their positions."""
        self._check_open()
        if self._membership is not None and self._membership.subscribed:
            raise IllegalStateError(
                "This consumer is subscribed.",
                next_step="Call unsubscribe() first; a consumer does one or the other.",
            )
        self._set_assignment([check_partition(place) for place in partitions])

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(*place) for place in self.fetcher.partitions}

    def subscription(self) -> set[str]:
        """The topics subscribed to; of a pattern those that match now."""
        return set() if self._membership is None else set(self._membership.topics)

    def _set_assignment(self, partitions: Iterable[Place]) -> None:
        wanted = [TopicPartition(*place) for place in partitions]
        self._forget_rest(set(self.fetcher.partitions) - set(wanted))
        self.fetcher.assign(wanted)
        self.metered.assigned()
        topics = {topic for topic, _ in wanted}
        self.cluster.watch(topics - self._watched)
        self.cluster.unwatch(self._watched - topics)
        self._watched = topics
        if any(topic not in self.cluster.metadata.topics for topic in topics):
            self._make_contact()
        self._fetching.drive()

    def _group(self, what: str) -> Membership:
        if self._membership is None:
            raise OptionError(f"{what} needs group.id.", next_step="Give the consumer a group_id.")
        return self._membership

    # -- the holder of what the group assigns

    def assigned(self, partitions: Collection[Place]) -> None:
        self._set_assignment((*self.fetcher.partitions, *sorted(partitions)))

    def revoked(self, partitions: Collection[Place], *, lost: bool) -> None:
        gone = set(partitions)
        self._set_assignment([p for p in self.fetcher.partitions if p not in gone])

    async def commit_before_rebalance(self) -> None:
        if self.settings.enable_auto_commit:
            await self._commits().commit(
                to_commit(self._positions()), self.settings.default_api_timeout_ms
            )

    # -- metadata

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        """Run something beside; it ends with the consumer."""
        task = self.reactor.spawn(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _make_contact(self) -> None:
        """Ask for the topics now; a first contact that fails is told to who polls."""
        if self._contact is None and not self.closed:
            self._contact = self._spawn(self._ask_topics())

    async def _ask_topics(self) -> None:
        try:
            await self.cluster.refresh(
                list(self._watched), allow_auto_create=self.settings.allow_auto_create_topics
            )
        except ClosedError:
            pass
        except ClientError as error:
            first = not self.cluster.had_contact
            if first and (isinstance(error, NoBrokerReachable) or not error.retriable):
                self._contact_error = error
            else:
                self.cluster.request_update()
        finally:
            self._contact = None
            self._notify()

    def _metadata_updated(self) -> None:
        self.fetcher.metadata_updated()
        for topic in self._watched:
            info = self.cluster.metadata.topics.get(topic)
            if info is not None and info.error_code in _REFUSED_TOPICS:
                states = [
                    s
                    for s in self.fetcher.partitions.values()
                    if s.partition[0] == topic and s.failure is None
                ]
                self.fetcher.fail(states, broker_error(info.error_code, subject=f"topic {topic}"))
        self._changed()

    # -- polling

    async def poll(
        self, timeout: float = 1.0, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Up to `max_records` (max.poll.records) records, or an empty list when the time is up."""
        if self._rest:
            return self._take_rest(max_records)
        limit = self._limit(max_records, self.settings.max_poll_records)
        found: list[ConsumerRecord] = []

        def take() -> int:
            return self.fetcher.take(found, limit, self._key_deserializer, self._value_deserializer)

        await self._fill(take, timeout)
        if found and self._interceptors.on_consume:
            found = await self.reactor.call_user(self._interceptors.consume, found)
        return found

    async def poll_arrow(self, timeout: float = 1.0, max_records: int | None = None) -> Any:
        """What is there as one `pyarrow.RecordBatch` (at most `max_records` rows), or an empty one
        when the time is up. Deserializers and interceptors do not apply."""
        limit = self._limit(max_records, ALL)
        columns = ColumnsBuilder()
        runs: Runs = []
        self._rewind_rest()

        def take() -> int:
            nonlocal columns
            size = min(self.fetcher.buffered_bytes, MAX_BYTES)
            rows = min(int(size / self._row_bytes), limit)
            columns = ColumnsBuilder(rows, int(rows * self._row_bytes))
            count = self.fetcher.take_columns(columns, limit, runs, MAX_BYTES)
            if count:
                self._row_bytes = max(columns.size_in_bytes / count, LEAST_ROW_BYTES)
            return count

        await self._fill(take, timeout)
        return record_batch(columns, runs)

    @staticmethod
    def _limit(max_records: int | None, otherwise: int) -> int:
        if max_records is None:
            return otherwise
        if max_records < 1:
            raise OptionError(f"max_records={max_records} is not at least 1.")
        return max_records

    async def _fill(self, take: Callable[[], int], timeout: float) -> int:
        reactor = self.reactor
        began_at = reactor.now()
        self._begin_poll(began_at)
        deadline = began_at + max(timeout, 0.0)
        count = 0
        try:
            if began_at - self._turned_at > TURN_S and self.fetcher.has_records:
                self._turned_at = began_at
                await reactor.sleep(0.0)
            while True:
                self._check_interrupted()
                if await self._settle(deadline):
                    count = await self._take(take)
                    self._fetching.drive()
                if count:
                    return count
                if reactor.now() >= deadline:
                    if self._turned_at >= began_at:
                        return 0
                    await reactor.sleep(0.0)  # once, also when the time given was none
                    self._turned_at = reactor.now()
                else:
                    await self._wait(deadline)
        except Exception:
            raise
        except BaseException:
            self.fetcher.take_back()
            raise
        finally:
            self._end_poll(count)

    def _begin_poll(self, now: float) -> None:
        self._check_open()
        if self._polling:
            raise IllegalStateError(
                "Another poll of this consumer is running.",
                next_step="Use a consumer from one thread or task; only wakeup() is for others.",
            )
        membership = self._membership
        subscribed = membership is not None and membership.subscribed
        if not subscribed and not self.fetcher.partitions:
            raise IllegalStateError(
                "This consumer has nothing to read.",
                next_step="Call subscribe() or assign() first.",
            )
        self._polling = True
        self.fetcher.begin_turn()
        self.metered.poll_began(now)
        self._watch.begin(now)
        if subscribed and membership is not None:
            membership.poll_began()

    def _end_poll(self, count: int) -> None:
        self._polling = False
        now = self.reactor.now()
        self.metered.poll_ended(count, now)
        self._watch.end(now)
        if self._membership is not None and self._membership.subscribed:
            self._membership.poll_ended()

    def _check_interrupted(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError()
        error, self._contact_error = self._contact_error, None
        if error is not None:
            self._make_contact()
            raise error

    async def _settle(self, deadline: float) -> bool:
        """Whether records may be handed out."""
        membership = self._membership
        if membership is None:
            return True
        if membership.subscribed and not membership.may_consume:
            if not await membership.settle(deadline):
                return False
            self._check_interrupted()
        if self.settings.enable_auto_commit:
            self._commit_sometimes()
        return True

    async def _take(self, take: Callable[[], int]) -> int:
        while True:
            try:
                return take()
            except PoisonRecordError as error:
                place = (error.topic, error.partition or 0)
                state = self.fetcher.partitions[place]
                version = state.version
                self.metered.poisoned(self.reactor.now())
                await self._poison.pass_over(error)
                if self.fetcher.holds(state, version) and state.position == error.offset:
                    self.fetcher.skip_record(place)

    async def _wait(self, deadline: float) -> None:
        reactor = self.reactor
        waiter: Future[None] = reactor.future()
        self._waiter = waiter
        timer = reactor.call_at(min(deadline, reactor.now() + LONGEST_WAIT_S), self._notify)
        try:
            await waiter
        finally:
            self._waiter = None
            timer.cancel()
            self._turned_at = reactor.now()

    def _notify(self) -> None:
        """Something happened that a poll may wait for."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _changed(self) -> None:
        self._fetching.drive()
        self._notify()

    def wakeup(self) -> None:
        """Let the poll that runs now, or else the next one, raise WakeupError."""
        self._woken = True
        self.reactor.call_soon(self._interrupt)

    def _interrupt(self) -> None:
        if self._membership is not None:
            self._membership.interrupt()
        self._notify()

    # -- one at a time

    @property
    def rest(self) -> deque[ConsumerRecord]:
        """What was polled for an iteration and not given yet."""
        return self._rest

    async def next_records(self) -> None:
        """Poll until there is something for an iteration."""
        while not self._rest:
            self._rest_now = None
            found = await self.poll(LONGEST_WAIT_S)
            self._rest.extend(found)

    def next_of_rest(self) -> ConsumerRecord:
        record = self._rest_now = self._rest.popleft()
        return record

    def _take_rest(self, max_records: int | None) -> list[ConsumerRecord]:
        limit = self._limit(max_records, self.settings.max_poll_records)
        self._check_open()
        taken = [self._rest.popleft() for _ in range(min(limit, len(self._rest)))]
        self._rest_now = None
        return taken

    def _rewind_rest(self, partitions: Collection[Place] | None = None) -> None:
        """What an iteration did not give yet goes back to be fetched again."""
        firsts: dict[tuple[str, int], int] = {}
        kept: deque[ConsumerRecord] = deque()
        for record in self._rest:
            place = (record.topic, record.partition)
            if partitions is not None and place not in partitions:
                kept.append(record)
            else:
                firsts.setdefault(place, record.offset)
        self._rest = kept
        for place, offset in firsts.items():
            if place in self.fetcher.partitions:
                self.fetcher.seek(place, offset)

    def _forget_rest(self, partitions: Collection[Place]) -> None:
        if self._rest and partitions:
            self._rest = deque(r for r in self._rest if (r.topic, r.partition) not in partitions)

    def _positions(self, *, dealt_with: bool = False) -> dict[Place, tuple[int, int]]:
        """Where this consumer stands; an iteration stands at the record it gives next."""
        found = self.fetcher.positions(dealt_with=dealt_with and not self._iterates)
        if self._iterates:
            pending = list(self._rest)
            if dealt_with and self._rest_now is not None:
                pending.insert(0, self._rest_now)
            for record in reversed(pending):
                place = (record.topic, record.partition)
                if place in found:
                    found[TopicPartition(*place)] = (record.offset, record.leader_epoch)
        return found

    @property
    def _iterates(self) -> bool:
        return self._rest_now is not None or bool(self._rest)

    # -- positions

    def _state(self, place: Any) -> PartitionState:
        topic, partition = check_partition(place)
        state = self.fetcher.partitions.get(TopicPartition(topic, partition))
        if state is None:
            raise IllegalStateError(
                f"{topic}-{partition} is not assigned to this consumer.",
                next_step="assign() it, or wait until the group assigns it.",
            )
        return state

    def seek(self, partition: Place, offset: int | OffsetAndMetadata) -> None:
        """Read on from this offset."""
        self._check_open()
        state = self._state(partition)
        at = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        check_offset(state.partition, at.offset)
        self._forget_rest({state.partition})
        self.fetcher.seek(state.partition, at.offset, at.leader_epoch)
        self._fetching.drive()

    def seek_to_beginning(self, partitions: Iterable[Place] | None = None) -> None:
        """Read on from the first record there is; all assigned partitions by default."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[Place] | None = None) -> None:
        """Read on from the end; all assigned partitions by default."""
        self._reset(partitions, LATEST)

    def _reset(self, partitions: Iterable[Place] | None, timestamp: int) -> None:
        self._check_open()
        states = self._states(partitions)
        self._forget_rest({s.partition for s in states})
        for state in states:
            self.fetcher.reset(state.partition, timestamp)
        self._fetching.drive()

    def _states(self, partitions: Iterable[Place] | None) -> list[PartitionState]:
        if partitions is None:
            return list(self.fetcher.partitions.values())
        return [self._state(place) for place in partitions]

    def pause(self, partitions: Iterable[Place] | None = None) -> None:
        """Hand out nothing of these until `resume`; what is fetched of them is kept."""
        self._check_open()
        states = self._states(partitions)
        self._rewind_rest({s.partition for s in states})
        for state in states:
            self.fetcher.pause(state.partition)

    def resume(self, partitions: Iterable[Place] | None = None) -> None:
        self._check_open()
        for state in self._states(partitions):
            self.fetcher.resume(state.partition)
        self._fetching.drive()

    def paused(self) -> set[TopicPartition]:
        return {TopicPartition(*p) for p, s in self.fetcher.partitions.items() if s.paused}

    async def position(self, partition: Place, timeout: float | None = None) -> int:
        """The offset of the record that comes next; it is found out if it is not known yet."""
        self._check_open()
        state = self._state(partition)
        deadline = self._deadline(timeout)
        self._fetching.drive()
        while not state.has_position:
            self._check_interrupted()
            if self.fetcher.partitions.get(state.partition) is not state:
                raise IllegalStateError(f"{state.name} was taken from this consumer meanwhile.")
            self.fetcher.raise_failure()
            if self.reactor.now() >= deadline:
                raise RequestTimeout(f"the position of {state.name}", self._ms(timeout))
            await self._wait(deadline)
        return int(self._positions()[TopicPartition(*state.partition)][0])

    def position_now(self, partition: Place) -> int | None:
        """The same if it is known, else None."""
        state = self._state(partition)
        if not state.has_position:
            return None
        return int(self._positions()[TopicPartition(*state.partition)][0])

    def lag(self, partition: Place) -> int | None:
        """How many offsets lie between the position and the end, as the last fetch told it."""
        lag = lag_of(self._state(partition), read_committed=self.fetcher.read_committed)
        return None if lag < 0 else lag

    def _deadline(self, timeout: float | None) -> float:
        if timeout is None:
            timeout = self.settings.default_api_timeout_ms / 1000
        return self.reactor.now() + timeout

    def _ms(self, timeout: float | None) -> int:
        return self.settings.default_api_timeout_ms if timeout is None else int(timeout * 1000)

    # -- offsets of partitions

    async def beginning_offsets(self, partitions: Iterable[Place]) -> dict[TopicPartition, int]:
        """The first offset there is of each."""
        return await self._offsets_at(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[Place]) -> dict[TopicPartition, int]:
        """The offset after the last record this consumer could read of each."""
        return await self._offsets_at(partitions, LATEST)

    async def _offsets_at(
        self, partitions: Iterable[Place], timestamp: int
    ) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(map(check_partition, partitions), timestamp))
        return {place: answer.offset for place, answer in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[Place, int]
    ) -> dict[TopicPartition, OffsetAnswer | None]:
        """The first record whose timestamp (ms) is not before the given one; None if there is none."""
        checked: dict[Place, int] = {check_partition(p): at for p, at in timestamps.items()}
        for place, at in checked.items():
            if at < 0:
                raise OptionError(
                    f"{at} is no time for {place[0]}-{place[1]}.",
                    next_step="Times are milliseconds since 1970; beginning_offsets() and "
                    "end_offsets() give the ends.",
                )
        found = await self._list_offsets(checked)
        return {p: answer if answer.offset >= 0 else None for p, answer in found.items()}

    async def _list_offsets(
        self, timestamps: Mapping[Place, int]
    ) -> dict[TopicPartition, OffsetAnswer]:
        self._check_open()
        found = await self._topic_admin.list_offsets(
            timestamps, isolation_level=self._isolation_level
        )
        answers: dict[TopicPartition, OffsetAnswer] = {}
        for place, answer in found.items():
            if isinstance(answer, ClientError):
                raise answer
            answers[TopicPartition(*place)] = answer
        return answers

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions a topic has; NotFoundError if there is no such topic."""
        self._check_open()
        found = await self.cluster.topics([topic])
        return sorted(found[topic].partitions)

    async def topics(self) -> dict[str, TopicInfo]:
        """All topics, by name."""
        self._check_open()
        return {topic.name: topic for topic in await self._topic_admin.list_topics()}

    # -- commits

    def _commits(self) -> GroupCommits:
        return self._group("A commit").commits

    async def committed(
        self, partitions: Iterable[Place]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed of these partitions, None where it is nothing."""
        self._check_open()
        group_id = self._group("A committed offset").settings.group_id
        assert group_id is not None
        places = [check_partition(place) for place in partitions]
        found = await self._group_admin.group_offsets(group_id, places, require_stable=True)
        return {
            place: OffsetAndMetadata(at.offset, at.metadata, at.leader_epoch)
            if (at := found.get(place)) is not None
            else None
            for place in places
        }

    async def _find_committed(self, partitions: Collection[Place]) -> dict[Place, tuple[int, int]]:
        found = await self.committed(partitions)
        return {p: (at.offset, at.leader_epoch) for p, at in found.items() if at is not None}

    async def commit(
        self, offsets: Mapping[Place, Any] | None = None, timeout: float | None = None
    ) -> None:
        """Commit positions (of all assigned partitions by default) and wait for the answer.

        Of each partition an offset, (offset, metadata) or an OffsetAndMetadata may be given: that of
        the next record to read.
        """
        self._check_open()
        commits = self._commits()
        wanted = to_commit(self._positions()) if offsets is None else check_offsets(offsets)
        await self._commit(commits, wanted, self._ms(timeout))

    async def _commit(
        self,
        commits: GroupCommits,
        wanted: dict[Place, OffsetAndMetadata],
        timeout_ms: float,
    ) -> None:
        sent_at = self.reactor.now()
        await commits.commit(wanted, timeout_ms)
        self.metered.committed(sent_at, self.reactor.now())
        if wanted and self._interceptors.on_commit:
            await self.reactor.call_user(self._interceptors.commit, dict(wanted))

    def commit_async(
        self,
        offsets: Mapping[Place, Any] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """The same without waiting. `callback(offsets, None or why not)` is called later, in the
        order of the commits; what failed without a callback is logged."""
        self._check_open()
        commits = self._commits()
        wanted = to_commit(self._positions()) if offsets is None else check_offsets(offsets)
        self._commit_soon(commits, wanted, callback)

    def _commit_soon(
        self,
        commits: GroupCommits,
        wanted: dict[Place, OffsetAndMetadata],
        callback: CommitCallback | None,
    ) -> None:
        sent_at = self.reactor.now()

        def done(error: ClientError | None) -> None:
            outside = self.reactor.call_outside
            if error is None:
                self.metered.committed(sent_at, self.reactor.now())
                if self._interceptors.on_commit:
                    outside(self._interceptors.commit, dict(wanted))
            elif callback is None:
                level = logging.DEBUG if error.retriable else logging.WARNING
                logger.log(level, "Offsets were not committed: %s", error)
            if callback is not None:
                outside(callback, wanted, error)

        if not wanted:
            self.reactor.call_soon(lambda: done(None))
            return
        try:
            commits.add(wanted, done)
        except ClientError as error:
            refused = error
            self.reactor.call_soon(lambda: done(refused))

    def _commit_sometimes(self) -> None:
        now = self.reactor.now()
        if now < self._next_commit or self._committing:
            return
        self._next_commit = now + self.settings.auto_commit_interval_ms / 1000
        wanted = to_commit(self._positions())
        if not wanted:
            return
        self._committing = True

        def told(_offsets: Any, error: ClientError | None) -> None:
            self._committing = False
            if error is not None:
                level = logging.DEBUG if error.retriable else logging.WARNING
                logger.log(level, "The automatic commit failed: %s", error)

        self._commit_soon(self._commits(), wanted, told)

    def group_metadata(self) -> GroupMetadata:
        """What this consumer is in its group: for a transactional producer."""
        membership = self._group("Group metadata")
        assert self.settings.group_id is not None
        return GroupMetadata(
            self.settings.group_id,
            membership.generation,
            membership.member_id,
            self.settings.group_instance_id,
        )

    # -- the rest

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Everything this consumer counts, by Kafka's groups and names."""
        return self.metrics_registry.as_dict(self.reactor.now())

    def due(self) -> float:
        """From when on somebody must turn the reactor though nobody polls."""
        if self._membership is None:
            return NEVER
        return min(self._membership.due(), self._watch.due)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("The consumer is closed.", next_step="Make another one.")

    async def close(self, timeout: float | None = None, *, dealt_with: bool = False) -> None:
        """Commit if that is automatic, leave the group, end the connections. Idempotent.

        `dealt_with` leaves out of the commit what the last poll returned: for an end by an
        exception, after which it is not known how far its records got.
        """
        if self.closed:
            return
        timeout_ms = 30_000.0 if timeout is None else timeout * 1000
        deadline = self.reactor.now() + timeout_ms / 1000
        membership = self._membership
        self._watch.stop()
        try:
            if membership is not None:
                await self._leave(membership, deadline, dealt_with)
        finally:
            self.closed = True
            if membership is not None:
                membership.close()
            for task in list(self._tasks):
                task.cancel()
            self._fetching.close()
            self.cluster.close()
            self._interceptors.close()
            self._notify()

    async def _leave(self, membership: Membership, deadline: float, dealt_with: bool) -> None:
        def left_ms() -> float:
            return max((deadline - self.reactor.now()) * 1000, 0.0)

        if self.settings.enable_auto_commit and self.cluster.had_contact:
            wanted = to_commit(self._positions(dealt_with=dealt_with))
            try:
                await self._commit(membership.commits, wanted, left_ms())
            except ClientError as error:
                logger.warning("The commit at the end failed: %s", error)
        if self.cluster.had_contact:  # else there was no contact, and nobody to commit to
            await membership.commits.drained(left_ms() / 1000)
        if membership.subscribed:
            try:
                await membership.leave("the consumer is closed", left_ms())
            except ClientError as error:
                logger.debug("Leaving the group failed: %s", error)


_REFUSED_TOPICS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)
