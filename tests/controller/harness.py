"""Controllers on simulated disks, driven without an event loop: one, or a quorum of several.

`run` drives a coroutine as far as it goes. With `ManualBackground` a flush waits until the test
lets it happen, so that the order of things can be looked at.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage, random_cluster_id
from barnabas.controller.kraft.controller import KraftController
from barnabas.controller.kraft.replica import MetadataReplica
from barnabas.controller.kraft.snapshots import SnapshotSettings
from barnabas.log.disk import InlineBackground
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.metadata.image import MetadataImage
from barnabas.raft.log import LogSettings, MetadataLog
from barnabas.raft.meta_properties import load_ensemble
from barnabas.raft.quorum_state import QuorumStateFile
from barnabas.raft.raft import Raft, RaftSettings
from barnabas.wire.message import Message
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from barnabas.wire.records.metadata import decode_metadata_record
from tests.log.simulated_disk import SimulatedDisk
from tests.raft.cluster import (
    endpoint_of,
    static_voters,
    through_the_wire,
    version_of,
)

T = TypeVar("T")


class TestPromise:
    __test__ = False

    def __init__(self) -> None:
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.is_done

    def set_result(self, result: Any, /) -> None:
        assert not self.is_done
        self.is_done, self.result = True, result

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.is_done
        self.is_done, self.error = True, error

    def __await__(self) -> Generator[TestPromise, None, Any]:
        while not self.is_done:
            yield self
        if self.error is not None:
            raise self.error
        return self.result


class Running:
    """A coroutine under way."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.resume()

    def resume(self) -> Running:
        if not self.done:
            try:
                self._work.send(None)
            except StopIteration as stop:
                self.done, self.result = True, stop.value
            except BaseException as error:
                self.done, self.error = True, error
        return self


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end; nothing may have to wait."""
    running = Running(work)
    if running.error is not None:
        raise running.error
    assert running.done, "something waits for a flush that does not come"
    result: T = running.result
    return result


class ManualBackground(InlineBackground):
    """Long work waits in a queue until `step`."""

    def __init__(self) -> None:
        self.queue: deque[Callable[[], None]] = deque()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        self.queue.append(lambda: InlineBackground.submit(self, work, done))

    def step(self) -> None:
        self.queue.popleft()()


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


class Machine:
    """A disk that outlives the controllers that run on it, and what drives them."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        directories: int = 1,
        features: Mapping[str, int] | None = None,
        release_version: str | None = None,
        seed: int = 0,
        clock: TestClock | None = None,
        voters: Sequence[int] = (),
        cluster_id: str | None = None,
    ) -> None:
        self.disk = SimulatedDisk()
        self.clock = clock or TestClock()
        self.random = random.Random(seed)
        self.config = BrokerConfig(
            {
                "log.dirs": ",".join(f"/data{number}" for number in range(directories)),
                **(settings or {}),
            }
        )
        self.voters = static_voters(voters or [self.config.node_id])
        self.background: InlineBackground = InlineBackground()
        self.published: list[tuple[MetadataImage, MetadataDelta]] = []
        self.failures: list[OSError] = []
        self.formatted = format_storage(
            self.disk,
            self.config,
            cluster_id=cluster_id or random_cluster_id(self.random),
            randomness=self.random,
            now_ms=self.clock.ms,
            features=features,
            release_version=release_version,
            no_initial_controllers=bool(voters),
        )
        self.previous_broker_epoch = -1
        self._flushing = False

    def make(self) -> KraftController:
        self.published.clear()
        self._flushing = False
        config, disk = self.config, self.disk
        directory = config.metadata_log_dir
        log = MetadataLog.open(disk, directory, LogSettings(), self.clock.ms)
        self.replica = MetadataReplica(
            publish=lambda image, delta: self.published.append((image, delta)),
            background=self.background,
            clock=self.clock,
            settings=SnapshotSettings(
                max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
                max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
            failed=self.failures.append,
        )
        self.raft = Raft(
            log=log,
            state_file=QuorumStateFile(disk, log.directory),
            node_id=config.node_id,
            directory_id=self._directory_id(),
            cluster_id=self.formatted.cluster_id,
            can_vote=True,
            static_voters=self.voters,
            bootstrap_servers=(),
            own_endpoints=(endpoint_of(config.node_id),),
            settings=RaftSettings(),
            randomness=self.random,
            listener=self.replica,
        )
        self.replica.attach(self.raft)
        self.controller = KraftController(
            config,
            self.raft,
            self.replica,
            disk=disk,
            cluster_id=self.formatted.cluster_id,
            clock=self.clock,
            randomness=self.random,
            new_promise=TestPromise,
        )
        self.raft.wake = self.flush
        return self.controller

    def _directory_id(self) -> bytes:
        directory = self.config.metadata_log_dir
        meta = load_ensemble(self.disk, [directory], self.config.node_id)[directory]
        assert meta is not None
        assert meta.directory_id is not None
        return meta.directory_id

    def flush(self) -> None:
        raft = self.raft
        if self._flushing or not raft.wants_flush:
            return
        self._flushing = True

        def done(point: Any, error: Exception | None) -> None:
            self._flushing = False
            if error is not None:
                raft.failed(error)
                self.replica.maintain(self.clock.ms)
            else:
                raft.flushed(point, self.clock.ms)
                self.flush()

        self.background.submit(raft.log.sync, done)

    def start(self, *, broker: bool = True) -> KraftController:
        self.make()
        self.raft.start(self.clock.ms)
        self.flush()
        if broker:
            self.start_broker()
        return self.controller

    def start_broker(self) -> None:
        """Register this node's broker, as a start does, and let it serve."""
        self.incarnation = self.random.randbytes(16)
        epoch = self.register(
            self.config.node_id,
            incarnation=self.incarnation,
            previous_broker_epoch=self.previous_broker_epoch,
        )
        self.previous_broker_epoch = -1
        self.heartbeat(self.config.node_id, epoch, metadata_offset=self.replica.image.offset)

    def register(self, broker_id: int, *, incarnation: bytes, **changes: Any) -> int:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self.formatted.cluster_id,
            incarnation_id=incarnation,
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[str(broker_id).encode().ljust(16, b"d")],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        epoch: int = run(self.controller.register_broker(request)).broker_epoch
        return epoch

    def heartbeat(
        self, broker_id: int, epoch: int, *, metadata_offset: int, **changes: Any
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=metadata_offset
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return run(self.controller.heartbeat_broker(request))

    def restart(self, *, broker: bool = True) -> KraftController:
        """After whatever happened to the controller before."""
        return self.start(broker=broker)

    def producer_ids(self) -> range:
        """One more block of them, for this node's broker."""
        epoch = self.replica.image.brokers[self.config.node_id].epoch
        request = AllocateProducerIdsRequest(broker_id=self.config.node_id, broker_epoch=epoch)
        found = run(self.controller.allocate_producer_ids_for(request))
        return range(found.producer_id_start, found.producer_id_start + found.producer_id_len)

    def stop(self) -> None:
        run(self.controller.stop())
        self.raft.shutdown(self.clock.ms)
        self.raft.log.close()

    def records(self, since: int = 0) -> list[tuple[int, Message]]:
        """What is in the log from an offset on."""
        found = []
        for batch in self.raft.log.batches(since):
            for offset, value in enumerate(batch.values, batch.base_offset):
                found.append((offset, decode_metadata_record(value)[0]))
        return found


class Quorum:
    """Several controllers whose messages arrive at once, unless a node is cut off."""

    def __init__(self, count: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.clock = TestClock()
        ids = range(1, count + 1)
        self.machines = {
            each: Machine(
                {"node.id": str(each), **(settings or {})},
                seed=each,
                clock=self.clock,
                voters=ids,
                cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            )
            for each in ids
        }
        self.cut_off: set[int] = set()
        for machine in self.machines.values():
            machine.make()
            machine.raft.start(self.clock.ms)

    def _deliver(self, sender: int) -> bool:
        raft = self.machines[sender].raft
        sends = raft.take_sends()
        for send in sends:
            target = int(send.host.removeprefix("n"))
            if {sender, target} & self.cut_off:
                raft.answered(send, None, self.clock.ms)
                continue
            version = version_of(send)

            def reply(response: Message, send: Any = send, version: int = version) -> None:
                copy = through_the_wire(response, version)
                self._answers.append((sender, send, copy))

            request = through_the_wire(send.request, version)
            self.machines[target].raft.handle(
                send.key, version, request, self.clock.ms, reply, listener_name="CONTROLLER"
            )
        return bool(sends)

    _answers: deque[tuple[int, Any, Message]] = deque()

    def step(self, ms: int = 0) -> None:
        """Time goes on, and messages are carried until there are no more."""
        self.clock.ms += ms
        for machine in self.machines.values():
            machine.raft.tick(self.clock.ms)
            machine.replica.maintain(self.clock.ms)
        for _ in range(200):
            moved = False
            for node_id, machine in self.machines.items():
                machine.flush()
                moved |= self._deliver(node_id)
            while self._answers:
                sender, send, response = self._answers.popleft()
                lost = {sender, int(send.host.removeprefix("n"))} & self.cut_off
                raft = self.machines[sender].raft
                raft.answered(send, None if lost else response, self.clock.ms)
                moved = True
            if not moved:
                return

    def run(self, ms: int, step_ms: int = 50) -> None:
        for _ in range(ms // step_ms):
            self.step(step_ms)

    @property
    def active(self) -> Machine | None:
        """The one that is active and in touch with the others."""
        return next(
            (
                machine
                for node_id, machine in self.machines.items()
                if machine.controller.is_active and node_id not in self.cut_off
            ),
            None,
        )

    def until_active(self, limit_ms: int = 20_000) -> Machine:
        for _ in range(limit_ms // 50):
            found = self.active
            if found is not None:
                return found
            self.step(50)
        raise AssertionError("nobody became active")
