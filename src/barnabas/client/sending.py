"""The engine of the producers: what the core decides, done over a cluster.

A turn (`turn`) sends what is due, tells what is done, and sets the timer for what time will make due.
It is made whenever something happened: a batch was filled, an answer came, metadata is new, the timer
rang. Nothing here waits except the coroutines, which both faces run: `lane` for the metadata of a
topic, `send_waiting` for room in memory, `flush` and `close`.

Delivery callbacks and interceptors run where the reactor runs functions of the user: in the
background thread, or in a caller that waits (`flush`, `result`), never inside `send`; in the async
producer on the loop.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.core.accumulator import NOTHING, NOWHERE, Accumulator
from barnabas.client.core.batch import DeliveryCallback, ProducerBatch, RecordMetadata
from barnabas.client.core.idempotence import Idempotence
from barnabas.client.core.metadata import Broker, TopicInfo
from barnabas.client.core.partitioner import StickyPartitioner
from barnabas.client.core.produce_request import RequestForm, answers_of
from barnabas.client.core.sender import Outgoing, Sender
from barnabas.client.errors import (
    BufferExhausted,
    ClientError,
    ClosedError,
    OptionError,
    RecordTooLargeError,
    RequestTimeout,
    SerializationError,
    broker_error,
)
from barnabas.client.interceptors import ProducerInterceptors
from barnabas.client.kernels_producer import Rows, SendFuture, SendPath, TopicLane
from barnabas.client.metrics import Metrics
from barnabas.client.options import INT_MAX, LONG_MAX
from barnabas.client.producer_metrics import ProducerMetrics
from barnabas.client.reactor import Future, Reactor, Timer
from barnabas.client.settings import ProducerSettings
from barnabas.client.table_rows import HeadedRow, TableFuture
from barnabas.record.batch import BATCH_OVERHEAD
from barnabas.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

PURPOSE: Final = "produce"
RECORD_OVERHEAD: Final = 36
HEADER_OVERHEAD: Final = 10
IDLE_CHECKS: Final = 5
FILLS_A_TURN: Final = 4
"""How many batches of a table are filled before answers are taken in."""
HIGHEST_INIT_PRODUCER_ID: Final = 5
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Partitioner = Callable[[str, bytes | None, bytes | None, Sequence[int]], int]
EncodedHeaders = list[tuple[bytes, bytes | None]] | None


class TopicState:
    """What the engine keeps of a topic beside its lane."""

    __slots__ = ("idle_checks", "lane", "last", "sticky", "topic")

    def __init__(self, topic: str, lane: TopicLane, sticky: StickyPartitioner) -> None:
        self.topic = topic
        self.lane = lane
        self.sticky = sticky
        self.last: ProducerBatch | None = None
        self.idle_checks = 0


class ProducerEngine:
    """Owner of the batches. `path` is the face that records come through."""

    def __init__(self, settings: ProducerSettings, reactor: Reactor, path: SendPath) -> None:
        self.settings = settings
        self.reactor = reactor
        self.cluster = Cluster(settings, reactor)
        self.interceptors = ProducerInterceptors(settings.interceptors)
        self.partitioner: Partitioner | None = None
        self._rotates = False
        self._choose_partitioner(settings.partitioner)
        one_in_flight = settings.max_in_flight_requests_per_connection == 1
        self.accumulator = Accumulator(
            batch_size=min(settings.batch_size, settings.max_request_size, settings.buffer_memory),
            linger_s=settings.linger_ms / 1000,
            buffer_memory=settings.buffer_memory,
            leader_of=self.cluster.metadata.leader,
            one_in_flight=one_in_flight,
            idempotent=settings.enable_idempotence,
            owner=self,
        )
        self.idempotence = Idempotence(settings.enable_idempotence)
        self.sender = Sender(settings, self.accumulator, self.idempotence, reactor.random)
        self.metrics = Metrics.of("producer", settings, reactor.now())
        self.closing = False
        self.abandoned = False
        self.wait_for: Callable[[ProducerBatch, float | None], None] | None = None
        """How the plain face waits for a batch; the async one has none."""
        self._form = RequestForm(
            settings.acks,
            settings.compression_type,
            settings.compression_level,
            settings.request_timeout_ms,
        )
        self._numbers = ProducerMetrics(self.metrics, self.accumulator, self.sender)
        self._path = weakref.ref(path)
        self._lanes = path._lanes
        self._topics: dict[str, TopicState] = {}
        self._finding: dict[str, Future[TopicLane]] = {}
        self._progress: list[Future[None]] = []
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self._idle_timer: Timer | None = None
        self.cluster.updated.append(self._metadata_updated)

    def _choose_partitioner(self, given: Any) -> None:
        if given is None:
            return
        if callable(given):
            self.partitioner = given
        elif str(given).lower().replace("-", "_") in ("round_robin", "roundrobin"):
            self._rotates = True
        else:
            raise OptionError(
                f"partitioner={given!r} is not known.",
                next_step="Give round_robin, a function (topic, key, value, partitions) -> "
                "partition, or leave it out.",
            )

    # -- the turn

    def turn(self) -> None:
        """Send what is due; tell what is done; ring again when time brings something."""
        now = self.reactor.now()
        sender = self.sender
        if sender.idempotence.wanted and self.accumulator.due and not self.cluster.closed:
            self.idempotence.asking()
            self.reactor.spawn(self._get_producer_id())
        for outgoing in sender.take(now, self._connected):
            self._dispatch(outgoing, now)
        if sender.completed:
            self._settle(now)
        if sender.stale:
            sender.stale = False
            self.cluster.request_update()
        when = sender.next_at()
        if when < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = when
            self._timer = self.reactor.call_at(when, self._rang)

    def _rang(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        self.turn()

    def _connected(self, node: int) -> bool:
        return self.cluster.versions(node, PURPOSE) is not None

    def _dispatch(self, outgoing: Outgoing, now: float) -> None:
        metadata = self.cluster.metadata
        batches = outgoing.batches
        ids = {batch.topic: metadata.topic_id(batch.topic) for batch in batches}
        request, highest = self._form.request(batches, ids)
        self._numbers.sent(outgoing, now)
        names = {topic_id: name for name, topic_id in ids.items()}
        self.cluster.send(
            outgoing.node,
            request,
            partial(self._answered, outgoing, names),
            purpose=PURPOSE,
            highest=highest,
            answered=self._form.answered,
            what="the answer to PRODUCE",
        )

    def _answered(
        self, outgoing: Outgoing, names: dict[bytes, str], response: Any, error: ClientError | None
    ) -> None:
        now = self.reactor.now()
        self._numbers.answered(outgoing, response, now)
        if error is not None:
            self.sender.lost(outgoing, error, now)
        elif response is None:
            self.sender.written(outgoing, now)
        else:
            for node in response.node_endpoints:
                self.cluster.metadata.add_broker(
                    Broker(node.node_id, node.host, node.port, node.rack)
                )
            self.sender.answered(outgoing, answers_of(response, names), now, self._leader_is_new)
        self.turn()

    def _leader_is_new(self, batch: ProducerBatch, answer: Any) -> bool:
        """Take in the leader that a refusal names (KIP-951)."""
        leader = answer.current_leader
        learned = self.cluster.metadata.learn_leader(
            batch.topic, batch.partition, leader.leader_id, leader.leader_epoch
        )
        if learned:
            self.accumulator.leaders_changed()
        return learned

    async def _get_producer_id(self) -> None:
        from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        before = list(self.accumulator.incomplete)
        try:
            response = await self.cluster.request_any(
                request, what="a producer id", highest=HIGHEST_INIT_PRODUCER_ID
            )
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, subject="producer id")
        except ClientError as error:
            self.idempotence.refused()
            if self.cluster.closed:
                return
            if not error.retriable:
                self.sender.fail_waiting(error, before)
                self.turn()
                return
            await self.reactor.sleep(self.settings.retry_backoff_max_ms / 1000)
        else:
            self.idempotence.given(response.producer_id, response.producer_epoch)
        self.turn()

    # -- what is done

    def _settle(self, now: float) -> None:
        completed, self.sender.completed = self.sender.completed, []
        self._numbers.completed(completed, now)
        for batch in completed:
            batch.done_at = now
            if batch.told:
                told, batch.told = batch.told, []
                self.reactor.call_outside(self._deliver, told)
            if batch.watchers:
                watchers, batch.watchers = batch.watchers, []
                for watcher in watchers:
                    watcher()
        if self._progress:
            progress, self._progress = self._progress, []
            for future in progress:
                if not future.done():
                    future.set_result(None)

    def _deliver(self, told: list[SendFuture]) -> None:
        acknowledge = self.interceptors.on_acknowledgement
        for future in told:
            batch = future.batch
            metadata, error = batch.future_metadata(future), batch.future_error(future)
            if acknowledge:
                self.interceptors.acknowledge(metadata, error)
            if future.on_delivery is None or future.on_delivery is unheard:
                continue
            try:
                future.on_delivery(metadata, error)
            except Exception:
                logger.exception("A delivery callback of %s failed", batch.topic)

    # -- the owner of batches

    def wait(self, batch: ProducerBatch, timeout: float | None) -> None:
        if self.wait_for is None:
            raise ClosedError("The record is not done; await its future.")
        self.wait_for(batch, timeout)

    def awaitable(self, batch: ProducerBatch) -> Future[None]:
        future: Future[None] = self.reactor.future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        if batch.done:
            done()
        else:
            batch.watchers.append(done)
            self.hurry(batch)
        return future

    def hurry(self, batch: ProducerBatch) -> None:
        """Somebody waits for a record: it is not held back for others to join it."""
        if not batch.closed:
            self.accumulator.hurry((batch,))
            self.turn()

    def when_done(self, future: SendFuture, callback: Callable[[SendFuture], object]) -> None:
        def settled() -> None:
            batch, _ = future.batch.part_of(future.index)
            if batch.done:
                self.reactor.call_outside(callback, future)
            else:
                batch.watchers.append(settled)

        settled()

    # -- topics

    def _metadata_updated(self) -> None:
        metadata = self.cluster.metadata
        for topic, state in list(self._topics.items()):
            info = metadata.topics.get(topic)
            if info is None or info.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._lanes.pop(topic, None)
            elif info.partitions:
                self._lanes.setdefault(topic, state.lane)
                self._fit(state, info)
        self.accumulator.leaders_changed()
        self.turn()

    def _fit(self, state: TopicState, info: TopicInfo) -> None:
        """A topic has more partitions now, or other leaders. Of one that was made anew with less,
        the lane begins again."""
        count = max(info.partitions) + 1
        lane = state.lane
        known = len(lane.batches)
        if count > known:
            lane.batches.extend([NOTHING] * (count - known))
        elif count < known:
            for index in range(known):
                self.accumulator.full(lane, index)
            state.lane = lane = self._new_lane(state.topic, count)
            state.last = None
            self._lanes[state.topic] = lane
        led = [index for index, part in sorted(info.partitions.items()) if part.leader >= 0]
        if lane.rotates:
            lane.rotation = led or list(range(count))
        elif lane.sticky not in led:
            lane.sticky = state.sticky.draw(self.reactor.now())

    def _new_lane(self, topic: str, count: int) -> TopicLane:
        return TopicLane(
            topic,
            count,
            NOTHING,
            rotates=self._rotates,
            ignore_keys=self.settings.partitioner_ignore_keys,
        )

    def _loads(self, topic: str) -> list[int | None]:
        """How many batches wait for each partition; None for those that cannot be used."""
        lane = self._topics[topic].lane
        count = len(lane.batches)
        metadata = self.cluster.metadata
        adaptive = self.settings.partitioner_adaptive_partitioning_enable
        patience_s = self.settings.partitioner_availability_timeout_ms / 1000
        waiting = self.accumulator.load_of(topic, count) if adaptive else [0] * count
        now = self.reactor.now()
        found: list[int | None] = []
        for index in range(count):
            node = metadata.leader(topic, index)
            since = self.sender.idle_since(node) if adaptive and patience_s else None
            usable = node >= 0 and (since is None or now - since < patience_s)
            found.append(waiting[index] if usable else None)
        return found

    async def lane(self, topic: str) -> TopicLane:
        """The lane of a topic, once its metadata is known; the topic is created if brokers do that."""
        found = self._lanes.get(topic)
        if found is not None:
            return found
        if type(topic) is not str or not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
            raise broker_error(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "A topic's name has 1 to 249 letters, digits, dots, hyphens or underscores.",
                subject=f"topic {topic!r}",
            )
        finding = self._finding.get(topic)
        if finding is None:
            finding = self._finding[topic] = self.reactor.spawn(self._find(topic))
        return await _shared(self.reactor, finding)

    async def _find(self, topic: str) -> TopicLane:
        try:
            infos = await self.cluster.topics(
                [topic], allow_auto_create=True, timeout_ms=self.settings.max_block_ms
            )
        finally:
            del self._finding[topic]
        if self.closing:
            raise ClosedError("The producer was closed while it asked for the topic's metadata.")
        info = infos[topic]
        state = self._topics.get(topic)
        if state is None:
            sticky = StickyPartitioner(
                self.accumulator.batch_size, partial(self._loads, topic), self.reactor.random
            )
            lane = self._new_lane(topic, max(info.partitions) + 1)
            state = self._topics[topic] = TopicState(topic, lane, sticky)
            lane.sticky = sticky.draw(self.reactor.now())
            self.cluster.watch([topic])
        self._fit(state, info)
        self._lanes[topic] = state.lane
        if self._idle_timer is None:
            self._watch_idle()
        return state.lane

    def _watch_idle(self) -> None:
        pause_s = self.settings.metadata_max_idle_ms / 1000 / IDLE_CHECKS
        self._idle_timer = self.reactor.call_at(self.reactor.now() + pause_s, self._forget_idle)

    def _forget_idle(self) -> None:
        """Topics that nothing was sent to for metadata.max.idle.ms are asked for anew when needed."""
        self._idle_timer = None
        if self.closing:
            return
        self._watch_idle()
        busy = {batch.topic for batch in self.accumulator.incomplete}
        for topic, state in list(self._topics.items()):
            state.idle_checks = 0 if topic in busy else state.idle_checks + 1
            if state.idle_checks > IDLE_CHECKS:
                self._lanes.pop(topic, None)
                del self._topics[topic]
                self._numbers.forget(topic)
                self.cluster.unwatch([topic])
                self.accumulator.forget(topic)

    # -- sending, where the quick way does not go

    def check(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        partition: Any,
        headers: EncodedHeaders,
        timestamp_ms: Any,
        on_delivery: Any,
    ) -> int:
        """Refuse what can never be sent; gives at most how many bytes a batch of the record takes."""
        if self.closing:
            raise self._closed_error()
        if not isinstance(topic, str):
            raise TypeError(f"a topic is named by a str, not {type(topic).__name__}")
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError("on_delivery must be a function (metadata, error)")
        if timestamp_ms is not None and (
            type(timestamp_ms) is not int or not 0 <= timestamp_ms <= LONG_MAX
        ):
            raise SerializationError(
                f"timestamp_ms={timestamp_ms!r} is not a number of milliseconds since 1970.",
                topic=topic,
                next_step="Give a whole number from 0 up, or leave it out for the present time.",
            )
        if partition is not None and (type(partition) is not int or not 0 <= partition <= INT_MAX):
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition={partition!r} is not the number of a partition.",
                subject=f"topic {topic}",
            )
        size = BATCH_OVERHEAD + RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        for name, content in headers or ():
            size += HEADER_OVERHEAD + len(name) + len(content or b"")
        self.check_size(topic, size)
        return size

    def check_size(self, topic: str, size: int) -> None:
        if size > self.settings.max_request_size:
            raise RecordTooLargeError(
                topic, size, self.settings.max_request_size, "max.request.size"
            )
        if size > self.settings.buffer_memory:
            raise RecordTooLargeError(topic, size, self.settings.buffer_memory, "buffer.memory")

    def partition_by_function(
        self, topic: str, value: bytes | None, key: bytes | None, lane: TopicLane
    ) -> int:
        """What the user's own partitioner says."""
        assert self.partitioner is not None
        partitions = range(len(lane.batches))
        try:
            chosen = self.partitioner(topic, key, value, partitions)
        except Exception as error:
            raise SerializationError(
                f"The partitioner failed for a record of topic {topic}: "
                f"{type(error).__name__}: {error}.",
                topic=topic,
            ) from error
        if type(chosen) is not int or chosen not in partitions:
            raise SerializationError(
                f"The partitioner gave {chosen!r} for a record of topic {topic}, which has the "
                f"partitions 0 to {len(partitions) - 1}.",
                topic=topic,
                next_step="It must return one of the partitions that it is given.",
            )
        return chosen

    def append(
        self,
        size: int,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: EncodedHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
        reserved: int = 0,
    ) -> SendFuture | None:
        """Append a record that was checked, opening a batch for it if memory is there (`reserved`
        if the caller has some already); None if the caller has to wait for something. What was
        reserved is used or given back."""
        path = self._path()
        assert path is not None
        try:
            while True:
                future = path._append(
                    topic, value, key, partition, headers, timestamp_ms, on_delivery
                )
                if future is not None:
                    return future
                lane = self._lanes.get(topic)
                if lane is None or (partition is not None and partition >= len(lane.batches)):
                    return None
                if partition is None and lane.rotates:
                    partition = lane.partition_for(None)
                if not self._make_room(lane, partition, key, size, reserved):
                    return None
                reserved = 0
        finally:
            if reserved:
                self.accumulator.pool.give_back(reserved)

    def _make_room(
        self, lane: TopicLane, partition: int | None, key: bytes | None, size: int, reserved: int
    ) -> bool:
        """A record found no open batch with room for it: open one, or stick to another partition,
        whose batch may have room. False if there is no memory; what was reserved is used up."""
        accumulator = self.accumulator
        now = self.reactor.now()
        state = self._topics[lane.topic]
        state.idle_checks = 0
        keyless = partition is None and (key is None or lane.ignore_keys)
        if keyless:
            before = lane.sticky
            index = lane.sticky = self._unstick(state, now)
            if index != before and not lane.batches[index].closed:
                if reserved:
                    accumulator.pool.give_back(reserved)
                return True
        else:
            index = lane.partition_for(key) if partition is None else partition
        accumulator.full(lane, index)
        wanted = accumulator.room_for(size)
        if not reserved:
            if not accumulator.pool.reserve(wanted):
                return False
            reserved = wanted
        batch = accumulator.open(lane, index, reserved, now)
        if keyless:
            state.last = batch
        return True

    def _unstick(self, state: TopicState, now: float) -> int:
        """The partition for keyless records when the batch they went to takes no more."""
        lane = state.lane
        last, state.last = state.last, None
        if last is None or last.partition != lane.sticky:
            return lane.sticky
        if last.closed:
            return state.sticky.used(last.size, now)
        return state.sticky.used(self.accumulator.batch_size, now)

    async def send_waiting(
        self,
        size: int,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: EncodedHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> SendFuture:
        """The same, waiting up to max.block.ms in all for metadata and memory."""
        deadline = self.reactor.now() + self.settings.max_block_ms / 1000
        reserved = 0
        while True:
            if self.closing:
                if reserved:
                    self.accumulator.pool.give_back(reserved)
                raise ClosedError("The producer was closed during the call.")
            try:
                lane = await self.lane(topic)
                if partition is not None and partition >= len(lane.batches):
                    lane = await self._grown(lane, partition)
                if self.partitioner is not None and partition is None:
                    partition = self.partition_by_function(topic, value, key, lane)
            except BaseException:
                if reserved:
                    self.accumulator.pool.give_back(reserved)
                raise
            future = self.append(
                size, topic, value, key, partition, headers, timestamp_ms, on_delivery, reserved
            )
            if future is not None:
                self.turn()
                return future
            reserved = await self._room(size, deadline)

    async def _grown(self, lane: TopicLane, partition: int) -> TopicLane:
        """Ask once whether a topic has got a partition that was not known."""
        await self.cluster.topics([lane.topic], timeout_ms=self.settings.max_block_ms)
        lane = self._lanes.get(lane.topic, lane)
        count = len(lane.batches)
        if not 0 <= partition < count:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"The topic has {count} partitions, 0 to {count - 1}.",
                subject=f"{lane.topic}-{partition}",
            )
        return lane

    async def _room(self, size: int, deadline: float) -> int:
        """Wait in line for the memory of a batch; how much was reserved."""
        wanted = self.accumulator.room_for(size)
        future: Future[None] = self.reactor.future()

        def granted() -> None:
            if not future.done():
                future.set_result(None)

        pool = self.accumulator.pool
        started = self.reactor.now()
        ticket = pool.wait(wanted, granted)
        timer = self.reactor.call_at(deadline, granted)
        self.turn()
        try:
            await future
            if not ticket.granted and not self.closing:
                raise BufferExhausted(self.settings.buffer_memory, self.settings.max_block_ms)
        except BaseException:
            pool.leave(ticket)
            raise
        finally:
            timer.cancel()
            self._numbers.blocked(self.reactor.now() - started, self.reactor.now())
        if not ticket.granted:
            pool.leave(ticket)
            return 0
        return wanted

    # -- columns

    async def send_rows(self, topic: str, chunks: list[Rows | HeadedRow]) -> TableFuture:
        """Send records that lie in columns. They are all checked before the first is accepted."""
        if self.closing:
            raise self._closed_error()
        lane = await self.lane(topic)
        for rows in chunks:
            if isinstance(rows, HeadedRow):
                value, key, partition, headers, timestamp_ms = rows
                self.check(topic, value, key, partition, headers, timestamp_ms, None)
                if partition is not None and partition >= len(lane.batches):
                    lane = await self._grown(lane, partition)
                continue
            lowest, highest = rows.partition_range()
            if lowest < 0 or highest >= len(lane.batches):
                lane = await self._grown(lane, lowest if lowest < 0 else highest)
            largest = rows.largest()
            if largest >= 0:
                self.check_size(topic, self._row_size(rows, largest))
        sent = TableFuture(topic, self)
        for rows in chunks:
            if isinstance(rows, HeadedRow):
                value, key, partition, headers, timestamp_ms = rows
                size = self.check(topic, value, key, partition, headers, timestamp_ms, None)
                future = await self.send_waiting(
                    size, topic, value, key, partition, headers, timestamp_ms, None
                )
                sent.take(1, [future.batch])
            else:
                await self._fill(topic, rows)
                sent.take(rows.count, rows.touched)
        self.turn()
        return sent

    @staticmethod
    def _row_size(rows: Rows, row: int) -> int:
        return BATCH_OVERHEAD + RECORD_OVERHEAD + rows.size_of(row)

    async def _fill(self, topic: str, rows: Rows) -> None:
        deadline = self.reactor.now() + self.settings.max_block_ms / 1000
        reserved = 0
        fills = 0
        try:
            while True:
                lane = await self.lane(topic)
                row = rows.fill(lane)
                if row == rows.count:
                    return
                if self.closing:
                    raise ClosedError(f"The producer was closed after {row} rows were accepted.")
                partition = rows.partition_of(row)
                if partition is None and lane.rotates:
                    partition = lane.rotation[(lane.sticky + 1) % len(lane.rotation)]
                size = self._row_size(rows, row)
                key = rows.key_of(row)
                if self._make_room(lane, partition, key, size, reserved):
                    reserved = 0
                    fills += 1
                    if fills % FILLS_A_TURN == 0:
                        self.turn()
                        await self.reactor.sleep(0)
                    continue
                reserved = await self._room(size, deadline)
                deadline = self.reactor.now() + self.settings.max_block_ms / 1000
        finally:
            if reserved:
                self.accumulator.pool.give_back(reserved)

    # -- all of it

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is acknowledged or has failed."""
        if not self.accumulator.incomplete:
            return
        mark = max(batch.order[0] for batch in self.accumulator.incomplete)
        deadline = float("inf") if timeout is None else self.reactor.now() + timeout
        self.accumulator.hurry(list(self.accumulator.incomplete))
        self.turn()
        timer = None
        try:
            while self._waits(mark):
                if self.reactor.now() >= deadline:
                    raise RequestTimeout(
                        f"{self._unacknowledged()} records to be acknowledged",
                        int((timeout or 0) * 1000),
                    )
                future: Future[None] = self.reactor.future()
                self._progress.append(future)
                if timer is None and deadline < float("inf"):
                    timer = self.reactor.call_at(deadline, self._make_progress)
                await future
        finally:
            if timer is not None:
                timer.cancel()

    def _waits(self, mark: int) -> bool:
        oldest = self.accumulator.oldest()
        return oldest is not None and oldest.order[0] <= mark

    def _make_progress(self) -> None:
        progress, self._progress = self._progress, []
        for future in progress:
            if not future.done():
                future.set_result(None)

    def _unacknowledged(self) -> int:
        return sum(
            batch.record_count if batch.closed else batch.builder.record_count
            for batch in self.accumulator.incomplete
        )

    async def close(self, timeout: float | None = None) -> int:
        """Take no more, send what there is, and end; how many records were given up."""
        if self.closing:
            return 0
        self.refuse_more()
        try:
            await self.flush(timeout)
        except RequestTimeout:
            pass
        finally:
            lost = self.end()
        return lost

    def _closed_error(self) -> ClosedError:
        if self.abandoned:
            return ClosedError(
                "The producer was made before this process was forked.",
                next_step="Make another one here.",
            )
        return ClosedError("The producer is closed.")

    def refuse_more(self) -> None:
        self.closing = True
        self._lanes.clear()
        path = self._path()
        if path is not None:
            path._quick = False

    def abandon(self) -> None:
        """In a process that was forked from the producer's: no more of it."""
        self.abandoned = True
        self.refuse_more()
        self.cluster.abandon()

    def end(self) -> int:
        """End at once; how many records were given up."""
        self.refuse_more()
        lost = self._unacknowledged()
        error = ClosedError("The producer was closed before the record was acknowledged.")
        self.sender.fail_all(error)
        self._settle(self.reactor.now())
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._idle_timer = None
        self._timer_at = float("-inf")
        self.cluster.close()
        self.interceptors.close()
        return lost

    def interrupted(self) -> None:
        """Ctrl-C fell into the engine in a caller's thread: make it whole again."""
        self.cluster.drop(PURPOSE)
        self.sender.interrupted(self.reactor.now())
        self._timer_at = float("inf")
        self.turn()

    # -- questions

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        lane = await self.lane(topic)
        return list(range(len(lane.batches)))

    def refused_record(
        self, topic: Any, partition: Any, timestamp_ms: Any, error: ClientError
    ) -> None:
        """Tell interceptors of a record that was refused at the call."""
        if not self.interceptors.on_acknowledgement:
            return
        place = partition if type(partition) is int else NOWHERE
        at = timestamp_ms if type(timestamp_ms) is int else -1
        self.interceptors.acknowledge(RecordMetadata(str(topic), place, -1, at), error)


def unheard(_metadata: RecordMetadata, _error: ClientError | None) -> None:
    """The callback of a record that only interceptors want to hear of."""


async def _shared(reactor: Reactor, task: Future[TopicLane]) -> TopicLane:
    """Wait for what others wait for too: one of them that is cancelled does not end it."""
    mine: Future[None] = reactor.future()

    def done(_task: Any) -> None:
        if not mine.done():
            mine.set_result(None)

    task.add_done_callback(done)
    await mine
    return task.result()
