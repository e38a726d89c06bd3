"""Brokers wired back to back: a follower's fetcher against the leader's Fetch handler, no network.

The controller is a few lines that keep one partition and judge AlterPartition by leader epoch, partition
epoch and broker epochs. Requests and answers go through the codec, and whoever drives the brokers says
which of them arrive.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from barnabas.api import (
    DEFERRED,
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from barnabas.config.topic import LogConfig
from barnabas.delayed.timer import TimingWheel
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.metadata.image import BrokerRegistration, PartitionRegistration, TopicImage
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.partition import Partition
from barnabas.replica.settings import ReplicaSettings
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode, encode
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.log.background import HeldBackground
from tests.log.batches import batch, read_all
from tests.log.simulated_disk import SimulatedDisk

TOPIC_ID = b"t" * 16
VERSIONS = {
    ApiKey.FETCH: 17,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.LIST_OFFSETS: 9,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
}
HANDLERS: dict[ApiKey, Any] = {
    ApiKey.FETCH: fetch,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
}
SETTINGS = ReplicaSettings(lag_time_max_ms=10_000)


class VirtualClock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


class Answer:
    """A request's context, and its answer once there is one."""

    client_id = "test"

    def __init__(self, version: int) -> None:
        self.api_version = version
        self.response: Any = None

    def respond(self, response: Any) -> None:
        assert self.response is None
        self.response = response


class Broker:
    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        epoch: int,
        disk: SimulatedDisk,
        config: LogConfig,
        settings: ReplicaSettings,
    ) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.disk = disk
        self.clock = cluster.clock
        self.background = HeldBackground()
        self.wheel = TimingWheel(self.clock.now_ms)
        self.deferred: list[Callable[[], None]] = []
        self.seen = -1  # the partition epoch it was told last
        self.fetch_sessions = FetchSessionCache(100, random.Random(node_id))
        self.config = SimpleNamespace(fetch_max_bytes=1 << 20)
        self.metadata = SimpleNamespace(endpoint=lambda node, context: None)
        self.logs = LogManager(
            disk,
            self.background,
            ["/a"],
            config_of=lambda name: config,
            clock=self.clock,
            randomness=random.Random(node_id),
        )
        self.replicas = ReplicaManager(
            node_id,
            self.logs,
            self.wheel,
            defer=self.deferred.append,
            background=self.background,
            flush_before_ack=False,
            settings=settings,
        )
        self.replicas.isr_manager.broker_epoch = lambda: self.epoch
        self.logs.failed = self.replicas.directory_failed
        self.logs.load()

    @property
    def partition(self) -> Partition:
        return self.replicas.partition("t", 0)

    @property
    def log(self) -> Log:
        return self.partition.online_log()

    def values(self, below: int | None = None) -> list[bytes | None]:
        records = read_all(self.log)
        return [each.value for each in records if below is None or each.offset < below]

    def turn(self) -> None:
        while self.deferred:
            deferred, self.deferred[:] = list(self.deferred), []
            for callback in deferred:
                callback()

    def handle(self, request: Any) -> Answer:
        key = type(request).API_KEY
        version = VERSIONS[key]
        answer = Answer(version)
        request = decode(type(request), version, encode(request, version))
        node: Any = self
        response = HANDLERS[key].handle(node, answer, request)
        if response is not DEFERRED:
            answer.respond(response)
        self.turn()
        return answer

    def produce(self, value: bytes, acks: int = -1) -> Answer:
        answer = Answer(12)
        data = PartitionProduceData(index=0, records=batch(value))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        node: Any = self
        context: Any = answer
        response = produce.handle(node, context, request)
        if isinstance(response, ProduceResponse):
            answer.respond(response)
        self.turn()
        return answer


def produced(answer: Answer) -> tuple[ErrorCode, int] | None:
    """Error and offset of the only partition; None while it waits."""
    if answer.response is None:
        return None
    data = answer.response.responses[0].partition_responses[0]
    return ErrorCode.of(data.error_code), data.base_offset


def over_the_wire(response: Any) -> Any:
    version = VERSIONS[type(response).API_KEY]
    if isinstance(response, FetchResponse):
        for topic in response.responses:
            for data in topic.partitions:
                records: Any = data.records
                data.records = records if isinstance(records, bytes) else records.read()
    return decode(type(response), version, encode(response, version))


class Cluster:
    """Brokers 1 to n, and the controller's view of partition t-0."""

    def __init__(
        self,
        size: int = 3,
        *,
        min_insync_replicas: int = 1,
        settings: ReplicaSettings = SETTINGS,
        config: LogConfig | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.settings = settings
        self.config = config or LogConfig(min_insync_replicas=min_insync_replicas)
        ids = tuple(range(1, size + 1))
        self.epochs = dict.fromkeys(ids, 0)
        self.fenced: set[int] = set()
        self.registration = PartitionRegistration(ids, ids, 1, 0, 0)
        self.brokers: dict[int, Broker] = {}
        for node_id in ids:
            self.start(node_id, SimulatedDisk())
        self.publish()

    # ---- the controller

    def registrations(self) -> dict[int, BrokerRegistration]:
        return {
            node_id: BrokerRegistration(
                node_id, epoch, b"i" * 16, (), {}, f"rack-{node_id}", node_id in self.fenced
            )
            for node_id, epoch in self.epochs.items()
        }

    def publish(self, *nodes: int) -> None:
        """Brokers learn the present metadata; all of them if none is named."""
        image = TopicImage("t", TOPIC_ID, {0: self.registration})
        for node_id in nodes or list(self.brokers):
            broker = self.brokers[node_id]
            broker.replicas.apply_brokers(self.registrations())
            broker.replicas.apply_topic(image)
            broker.seen = self.registration.partition_epoch
            broker.turn()

    def change(self, *, leader: int | None = None, isr: tuple[int, ...] | None = None) -> None:
        old = self.registration
        new_leader = old.leader if leader is None else leader
        self.registration = old._replace(
            isr=old.isr if isr is None else isr,
            leader=new_leader,
            leader_epoch=old.leader_epoch + (leader is not None),
            partition_epoch=old.partition_epoch + 1,
        )

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        request = decode(AlterPartitionRequest, 3, encode(request, 3))
        data = request.topics[0].partitions[0]
        now = self.registration
        isr = tuple(member.broker_id for member in data.new_isr_with_epochs)
        code = ErrorCode.NONE
        if request.broker_epoch != self.epochs[request.broker_id]:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        if data.leader_epoch < now.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif data.partition_epoch < now.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif any(
            member.broker_id in self.fenced
            or member.broker_epoch not in (-1, self.epochs[member.broker_id])
            for member in data.new_isr_with_epochs
        ):
            code = ErrorCode.INELIGIBLE_REPLICA
        else:
            self.change(isr=isr)
            now = self.registration
        answer = AlterPartitionResponsePartitionData(
            partition_index=0,
            error_code=code,
            leader_id=now.leader,
            leader_epoch=now.leader_epoch,
            isr=list(now.isr),
            partition_epoch=now.partition_epoch,
        )
        return AlterPartitionResponse(
            topics=[AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[answer])]
        )

    # ---- what happens

    def start(self, node_id: int, disk: SimulatedDisk) -> Broker:
        broker = Broker(self, node_id, self.epochs[node_id], disk, self.config, self.settings)
        self.brokers[node_id] = broker
        return broker

    @property
    def leader(self) -> Broker:
        return self.brokers[self.registration.leader]

    def fetch(self, node_id: int) -> str:
        """One round of a follower: ask, wait out the leader's patience, take the answer."""
        broker = self.brokers[node_id]
        for fetcher in list(broker.replicas.fetchers.values()):
            request = fetcher.next_request(self.clock.ms)
            if request is None:
                continue
            leader = self.brokers.get(fetcher.leader_id)
            if leader is None:
                fetcher.answered(None, self.clock.ms)
                continue
            answer = leader.handle(request)
            if answer.response is None:
                self.pass_time(1, leader)
                if answer.response is None:
                    self.pass_time(self.settings.fetch_wait_max_ms, leader)
            fetcher.answered(over_the_wire(answer.response), self.clock.ms)
            broker.turn()
            name = type(request).__name__
            if isinstance(request, FetchRequest):
                name += "" if request.session_epoch else " (full)"
            return name
        return "nothing"

    def pass_time(self, ms: int, *brokers: Broker) -> None:
        self.clock.ms += ms
        for broker in brokers or tuple(self.brokers.values()):
            broker.wheel.advance(self.clock.ms)
            broker.turn()

    def settle_isr(self, node_id: int, *, lost: bool = False) -> bool:
        """Take a broker's proposal to the controller and back; True if there was one."""
        broker = self.brokers[node_id]
        manager = broker.replicas.isr_manager
        request = manager.take_request(self.clock.ms)
        if request is None:
            return False
        response = self.alter_partition(request)
        manager.answered(None if lost else response, self.clock.ms)
        broker.turn()
        return True
