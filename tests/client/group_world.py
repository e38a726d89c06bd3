"""Consumers of one group and the real coordinator code, in virtual time over a network that fails.

`Consumer` is a `Membership` with a poll loop around it; `GroupCluster` is what it sees of the cluster:
brokers 1 and 2, one of which is the group's coordinator. Messages of one connection arrive in order,
late, or not at all. `World` owns the time and everything that is checked at any moment:

- a partition is handed to a member only if nobody else who is in the group has it;
- listeners hear of every partition: assigned, then revoked or lost, and so on, never twice;
- a committed offset never goes back.
"""

from __future__ import annotations

import inspect
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from barnabas.client.core.backoff import Backoff
from barnabas.client.core.membership import State
from barnabas.client.core.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from barnabas.client.core.offsets import OffsetAndMetadata
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import ClientError, ConnectionLost, RequestTimeout, broker_error
from barnabas.client.membership import Membership
from barnabas.client.settings import ConsumerSettings
from barnabas.coordinator.group.config import GroupCoordinatorConfig
from barnabas.coordinator.group.coordinator import ClientInfo
from barnabas.coordinator.group.records import OffsetCommitRecord, decode
from barnabas.record.read import read_records
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leave_group import LeaveGroupResponse
from tests.client.virtual import VirtualReactor
from tests.coordinator.virtual import START_MS, VirtualCoordinator

GROUP = "g"
Partition = tuple[str, int]
VERSIONS = {
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.OFFSET_COMMIT: (2, 9),
}


class AwaitingReactor(VirtualReactor):
    """As on asyncio: functions of the user may be coroutine functions."""

    async def call_user(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        return await result if inspect.isawaitable(result) else result


class World:
    def __init__(self, seed: int = 0, **config: int) -> None:
        self.chance = random.Random(seed)
        self.reactor = AwaitingReactor(seed=seed)
        settings = {"group_initial_rebalance_delay_ms": 0, **config}
        self.config = GroupCoordinatorConfig(offsets_topic_num_partitions=1, **settings)
        first = VirtualCoordinator(self.config)
        first.log.on_append = self._appended
        self.nodes = {1: first.start(), 2: first.successor()}
        self.nodes[2].groups.start()
        self.leader = 1
        self.epoch = 0
        self.topics: dict[str, int] = {}
        self.consumers: list[Consumer] = []
        self.delay_s = (0.001, 0.005)
        self.loss = 0.0
        self.trace: list[str] = []
        self._stored: dict[Partition, int] = {}
        self._planned: float | None = None
        self._started_at = self.reactor.time

    # -- time

    def now_ms(self) -> int:
        return START_MS + round((self.reactor.time - self._started_at) * 1000)

    def turn(self) -> None:
        """The coordinators' timers up to now, and a plan for the next one."""
        clock = self.nodes[1].clock
        clock.ms = max(clock.ms, self.now_ms())
        for node in self.nodes.values():
            node.wheel.advance(clock.ms)
        deadlines = [n.wheel.next_deadline_ms for n in self.nodes.values()]
        due_ms = min((d for d in deadlines if d is not None), default=None)
        if due_ms is not None:
            when = self._started_at + max(due_ms, self.now_ms() + 1 - 1e-6) / 1000 - START_MS / 1000
            when = max(when, self.reactor.time + 0.0005)
            if self._planned is None or when < self._planned:
                self._planned = when
                self.reactor.call_at(when, self._wake)

    def _wake(self) -> None:
        self._planned = None
        self.turn()

    def advance(self, seconds: float) -> None:
        self.reactor.advance(seconds)
        self.check()

    def check(self) -> None:
        """What a consumer asserted must not go down with its task."""
        for consumer in self.consumers:
            if consumer.task.done() and not consumer.dead:
                consumer.task.result()

    def until(self, happened: Callable[[], bool], limit_s: float = 60.0) -> None:
        end = self.reactor.time + limit_s
        while not happened():
            assert self.reactor.time < end, "\n".join([*self.trace[-60:], "it does not happen"])
            self.advance(0.05)

    # -- the coordinator

    @property
    def coordinator(self) -> VirtualCoordinator:
        return self.nodes[self.leader]

    @property
    def group(self) -> Any:
        partition = self.coordinator.groups.partition_for(GROUP)
        entry = self.coordinator.groups.runtime.partitions[partition]
        if entry.state.value != "active":
            return None
        return next(
            (g for g in self.coordinator.shard(partition).groups if g.group_id == GROUP), None
        )

    def knows(self, consumer: Consumer) -> bool:
        """Whether the coordinator takes it for a member. One that missed a rebalance is put out,
        unless it is static: then its generation tells that it does not know the assignment yet."""
        group, membership = self.group, consumer.membership
        if group is None or membership.member_id not in group.members:
            return False
        static = consumer.settings.group_instance_id is not None
        return not static or membership.generation == group.generation

    def move(self) -> None:
        """Another broker becomes the coordinator; who waits at the old one is told."""
        self.say(f"the coordinator moves to {3 - self.leader}")
        self.coordinator.groups.resign(0)
        self.leader = 3 - self.leader
        self.epoch += 1
        self.coordinator.groups.become_leader(0, self.epoch)
        self.turn()

    def crash(self) -> None:
        """The coordinator restarts without a word: what waited there is never answered."""
        self.say(f"coordinator {self.leader} crashes")
        self.epoch += 1
        self.nodes[self.leader] = self.coordinator.successor().start(self.epoch)
        for consumer in self.consumers:
            consumer.cluster.disconnect(self.leader)
        self.turn()

    def _appended(self, _partition: int, batch: bytes) -> None:
        for record in read_records(batch):
            decoded = decode(record.key, record.value)
            if isinstance(decoded, OffsetCommitRecord) and decoded.committed is not None:
                where = (decoded.topic, decoded.partition)
                offset = decoded.committed.offset
                assert offset >= self._stored.get(where, 0), f"{where} goes back to {offset}"
                self._stored[where] = offset

    def committed(self, partition: Partition) -> int:
        return self._stored.get(partition, 0)

    # -- topics and consumers

    def create(self, topic: str, count: int) -> None:
        self.topics[topic] = count
        self.publish()

    def publish(self) -> None:
        for consumer in self.consumers:
            if not consumer.dead:
                consumer.cluster.learn(self.topics)

    def start(
        self, name: str, topics: Collection[str] | re.Pattern[str], **options: Any
    ) -> Consumer:
        consumer = Consumer(self, name, topics, options)
        self.consumers.append(consumer)
        return consumer

    def live(self) -> list[Consumer]:
        return [c for c in self.consumers if not c.dead and not c.stopped]

    def say(self, text: str) -> None:
        self.trace.append(f"{self.reactor.time - self._started_at:9.3f} {text}")

    def everything(self, topics: Iterable[str] | None = None) -> set[Partition]:
        names = self.topics if topics is None else topics
        return {(t, i) for t in names for i in range(self.topics.get(t, 0))}

    def is_shared(self) -> bool:
        """Every partition has one owner, and everybody is at rest."""
        live = self.live()
        if not all(c.membership.state is State.STABLE and c.membership.may_consume for c in live):
            return False
        group = self.group
        if group is None or group.state.value != "Stable":
            return False
        if set(group.members) != {c.membership.member_id for c in live}:
            return False
        wanted = self.everything({t for c in live for t in c.membership.topics})
        held = Counter(p for c in live for p in c.held)
        return set(held) == wanted and set(held.values()) <= {1}


class GroupCluster:
    """What a `Membership` needs of a `Cluster`."""

    def __init__(self, world: World, settings: ConsumerSettings, name: str) -> None:
        self.world = world
        self.settings = settings
        self.reactor = world.reactor
        self.metadata = ClusterMetadata()
        self.updated: list[Callable[[], object]] = []
        self.name = name
        self.dead = False
        self.requests: list[Any] = []
        self.watched: Counter[str] = Counter()
        self._coordinator: int | None = None
        self._open: dict[int, dict[int, Callable[[str], None]]] = {1: {}, 2: {}}
        self._arrived: dict[tuple[int, str], float] = {}
        self._count = 0

    def backoff(self) -> Backoff:
        return Backoff(100, 1_000, self.reactor.random)

    # -- metadata

    def learn(self, topics: dict[str, int]) -> None:
        for name, count in topics.items():
            partitions = {i: PartitionInfo(name, i, 1, 0, (1, 2), (1, 2)) for i in range(count)}
            self.metadata.topics[name] = TopicInfo(name, b"x" * 16, False, partitions)
        for callback in list(self.updated):
            callback()

    async def refresh(
        self, topics: Iterable[str] | None = (), *, allow_auto_create: bool = False
    ) -> dict[str, TopicInfo]:
        await self._travel("the cluster's metadata")
        self.learn(self.world.topics)
        names = self.metadata.topics if topics is None else topics
        return {n: self.metadata.topics[n] for n in names if n in self.metadata.topics}

    async def _travel(self, what: str) -> None:
        await self.reactor.sleep(self.world.chance.uniform(*self.world.delay_s) * 2)
        if self.world.chance.random() < self.world.loss:
            raise ConnectionLost("broker", what, "the test wants it")

    def watch(self, topics: Iterable[str]) -> None:
        self.watched.update(topics)

    def unwatch(self, topics: Iterable[str]) -> None:
        self.watched.subtract(topics)

    def request_update(self) -> None:
        self.learn(self.world.topics)

    async def coordinator(self, key: str) -> int:
        if self._coordinator is None:
            await self._travel("the coordinator")
            if self.world.chance.random() < self.world.loss:
                raise broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._coordinator = self.world.leader
        return self._coordinator

    def forget_coordinator(self, key: str) -> None:
        self._coordinator = None

    # -- requests

    async def connected(self, node_id: int, purpose: str = "") -> BrokerVersions:
        return BrokerVersions("broker", {int(key): range_ for key, range_ in VERSIONS.items()})

    async def request(self, node_id: int, request: Any, **options: Any) -> Any:
        future = self.reactor.future()

        def done(response: Any, error: ClientError | None) -> None:
            if error is None:
                future.set_result(response)
            else:
                future.set_exception(error)

        options.pop("highest", None)
        self.send(node_id, request, done, **options)
        return await future

    def send(
        self,
        node_id: int,
        request: Any,
        done: Callable[[Any, ClientError | None], object],
        *,
        purpose: str = "",
        timeout_ms: float,
        what: str,
    ) -> None:
        world, reactor = self.world, self.reactor
        self.requests.append(request)
        self._count += 1
        number = self._count
        ended = False

        def end(response: Any, error: ClientError | None) -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._open[node_id].pop(number, None)
                timer.cancel()
                if not self.dead:
                    done(response, error)

        def broken(why: str) -> None:
            end(None, ConnectionLost("broker", what, why))

        def respond(response: Any) -> None:
            if world.chance.random() < world.loss:
                reactor.call_at(
                    reactor.time + world.chance.uniform(0, 0.5), lambda: broken("answer lost")
                )
                return
            # Answers leave at once, but never before the method that caused them has returned.
            delay_s = world.chance.uniform(*world.delay_s)
            reactor.call_at(reactor.time + delay_s, lambda: end(response, None))

        def arrive() -> None:
            if not ended and not self.dead:
                world.turn()
                handle(world.nodes[node_id], request, self.name, respond)
                world.turn()

        timer = reactor.call_at(
            reactor.time + timeout_ms / 1000,
            lambda: end(None, RequestTimeout(what, int(timeout_ms))),
        )
        self._open[node_id][number] = broken
        if world.chance.random() < world.loss:
            reactor.call_at(
                reactor.time + world.chance.uniform(0, 0.5), lambda: broken("request lost")
            )
            return
        when = reactor.time + world.chance.uniform(*world.delay_s)
        when = max(when, self._arrived.get((node_id, purpose), 0.0))
        self._arrived[(node_id, purpose)] = when
        reactor.call_at(when, arrive)

    def disconnect(self, node_id: int) -> None:
        for broken in list(self._open[node_id].values()):
            broken("the broker went away")


def handle(
    node: VirtualCoordinator, request: Any, name: str, respond: Callable[[Any], None]
) -> None:
    groups, kind = node.groups, type(request).__name__
    answer: Any
    if kind == "JoinGroupRequest":
        answer = groups.join_group(request, ClientInfo(name, "/10.0.0.1"), 9, respond)
    elif kind == "SyncGroupRequest":
        answer = groups.sync_group(request, respond)
    elif kind == "HeartbeatRequest":
        answer = groups.heartbeat(request)
    elif kind == "OffsetCommitRequest":
        answer = groups.commit_offsets(request, 9, respond)
    else:
        answer = groups.leave_group(request.group_id, request.members, respond)
        assert answer is None or isinstance(answer, LeaveGroupResponse)
    if answer is not None:
        respond(answer)


class Consumer:
    """Polls, consumes, commits; checks what it is told. `pace_s` is how long it handles records."""

    def __init__(
        self,
        world: World,
        name: str,
        topics: Collection[str] | re.Pattern[str],
        options: dict[str, Any],
    ) -> None:
        self.world = world
        self.name = name
        self.commits = options.pop("commits", "auto")
        self.pace_s: tuple[float, float] = options.pop("pace_s", (0.0, 0.05))
        self.callback_s: tuple[float, float] = options.pop("callback_s", (0.0, 0.0))
        settings: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 1_000,
            "max_poll_interval_ms": 20_000,
            "request_timeout_ms": 5_000,
            "metadata_max_age_ms": 10_000,
        }
        self.settings = ConsumerSettings(**{**settings, **options})
        self.cluster = GroupCluster(world, self.settings, name)
        self.membership = Membership(self.cluster, self.settings, self)  # type: ignore[arg-type]
        self.membership.subscribe(topics, self)
        self.positions: dict[Partition, int] = {}
        self.held: set[Partition] = set()
        self.told: list[tuple[str, list[Partition]]] = []
        self.errors: list[BaseException] = []
        self.refused = 0
        self.dead = False
        self.stopped = False
        self.leaving = False
        self.task = world.reactor.spawn(self._live())

    # -- the poll loop

    async def _live(self) -> None:
        chance, reactor = self.world.chance, self.world.reactor
        while not self.leaving:
            await self._poll(reactor.time + chance.uniform(0.0, 1.0))
            await reactor.sleep(chance.uniform(*self.pace_s) + 0.01)
        await self.membership.leave("the consumer is closed", 5_000)
        assert not self.held
        self.membership.close()
        self.stopped = True
        self.world.say(f"{self.name} has left")

    async def _poll(self, deadline: float) -> None:
        membership = self.membership
        membership.poll_began()
        try:
            if await membership.settle(deadline):
                assert membership.owned == self.held, "the member and its holder agree"
                self._consume()
        except ClientError as error:
            self.errors.append(error)
            self.world.say(f"{self.name} raises {error}")
        finally:
            membership.poll_ended()
        if self.commits == "async" and membership.may_consume:
            self._commit_async()

    def _consume(self) -> None:
        for partition in self.positions:
            if self.world.chance.random() < 0.5:
                self.positions[partition] += self.world.chance.randint(1, 5)

    def _offsets(self) -> dict[Partition, OffsetAndMetadata]:
        return {p: OffsetAndMetadata(offset) for p, offset in self.positions.items()}

    def _commit_async(self) -> None:
        try:
            self.membership.commits.add(self._offsets(), self._committed)
        except ClientError:
            self.refused += 1

    def _committed(self, error: ClientError | None) -> None:
        if error is not None:
            self.refused += 1

    # -- what the membership tells

    async def commit_before_rebalance(self) -> None:
        if self.commits == "auto":
            await self.membership.commits.commit(self._offsets(), 3_000)

    def assigned(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            assert partition not in self.held
            for other in self.world.live():
                if other is not self and partition in other.held:
                    assert not self.world.knows(other), (
                        f"{partition} is {other.name}'s and {self.name}'s\n"
                        + "\n".join(self.world.trace[-40:])
                    )
            self.positions[partition] = self.world.committed(partition)
        self.held |= set(partitions)

    def revoked(self, partitions: Collection[Partition], *, lost: bool) -> None:
        assert self.held >= set(partitions)
        self.held -= set(partitions)
        for partition in partitions:
            del self.positions[partition]

    # -- the listener

    async def on_partitions_assigned(self, partitions: list[Partition]) -> None:
        await self._tell("assigned", partitions)

    async def on_partitions_revoked(self, partitions: list[Partition]) -> None:
        await self._tell("revoked", partitions)

    async def on_partitions_lost(self, partitions: list[Partition]) -> None:
        await self._tell("lost", partitions)

    async def _tell(self, what: str, partitions: list[Partition]) -> None:
        assert partitions or what == "assigned"
        assert set(partitions) <= self.held, "told while they are held"
        assert self.membership.owned == self.held
        shown = ",".join(f"{topic}-{index}" for topic, index in partitions)
        self.world.say(f"{self.name} {what} {shown or '-'}")
        self.told.append((what, partitions))
        if self.callback_s[1]:
            await self.world.reactor.sleep(self.world.chance.uniform(*self.callback_s))

    # -- the end

    def stop(self) -> None:
        self.leaving = True
        self.world.say(f"{self.name} leaves")

    def kill(self) -> None:
        """It is gone without a word."""
        self.dead = self.cluster.dead = True
        self.world.say(f"{self.name} dies")
        self.task.cancel()
