"""A replica manager on a simulated disk, with Produce requests as a client would send them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.api import produce
from barnabas.config.topic import LogConfig
from barnabas.delayed.timer import TimingWheel
from barnabas.log.manager import LogManager
from barnabas.metadata.image import PartitionRegistration, TopicImage
from barnabas.replica.manager import ReplicaManager
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.log.background import HeldBackground
from tests.log.batches import batch
from tests.log.simulated_disk import SimulatedDisk
from tests.log.test_compaction import TestClock as Clock

NODE = 1


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def topic(name: str, partitions: int = 1, *, epoch: int = 0) -> TopicImage:
    registration = PartitionRegistration((NODE,), (NODE,), NODE, epoch, epoch)
    return TopicImage(name, topic_id(name), dict.fromkeys(range(partitions), registration))


class Pending:
    """A request's answer, once there is one."""

    api_version = 12
    client_id = "test"

    def __init__(self) -> None:
        self.response: ProduceResponse | None = None

    def respond(self, response: ProduceResponse) -> None:
        assert self.response is None
        self.response = response

    @property
    def answer(self) -> tuple[ErrorCode, int] | None:
        """Error and offset of the only partition."""
        if self.response is None:
            return None
        data = self.response.responses[0].partition_responses[0]
        return ErrorCode(data.error_code), data.base_offset


class Replicas:
    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        *,
        directories: Sequence[str] = ("/a",),
        flush_before_ack: bool = False,
        config: LogConfig | None = None,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        if disk is None or not any(disk.exists(directory) for directory in directories):
            # Whoever formats a directory makes its name durable.
            for directory in directories:
                self.disk.make_directory(directory)
            self.disk.sync_everything()
        self.clock = Clock()
        self.background = HeldBackground()
        self.wheel = TimingWheel(self.clock.now_ms)
        self.deferred: list[Callable[[], None]] = []
        self.all_failed = 0
        config = config or LogConfig()
        self.logs = LogManager(
            self.disk,
            self.background,
            directories,
            config_of=lambda name: config,
            clock=self.clock,
            randomness=random.Random(5),
        )
        self.replicas = ReplicaManager(
            NODE,
            self.logs,
            self.wheel,
            defer=self.deferred.append,
            background=self.background,
            flush_before_ack=flush_before_ack,
        )
        self.logs.failed = self.replicas.directory_failed
        self.replicas.all_directories_failed = self._all_failed
        self.logs.load()

    def _all_failed(self) -> None:
        self.all_failed += 1

    def produce(
        self,
        *values: bytes,
        name: str = "t",
        index: int = 0,
        acks: int = -1,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> Pending:
        pending = Pending()
        data = PartitionProduceData(index=index, records=batch(*values, producer=producer))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=name, partition_data=[data])],
        )
        node: Any = self
        context: Any = pending
        answer = produce.handle(node, context, request)
        if isinstance(answer, ProduceResponse):
            pending.respond(answer)
        return pending

    def turn(self) -> None:
        """What the loop does after the requests of a turn."""
        while self.deferred:
            deferred, self.deferred[:] = list(self.deferred), []
            for callback in deferred:
                callback()

    def flush(self) -> None:
        self.background.run()
        self.turn()

    def fail(self, directory: str) -> None:
        self.disk.fails = lambda operation, path: path.startswith(directory)
