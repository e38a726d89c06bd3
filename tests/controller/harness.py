"""A controller on a simulated disk, driven without an event loop.

`run` drives a coroutine as far as it goes. With `ManualBackground` a flush waits until the test
lets it happen, so that the order of things can be looked at.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage, random_cluster_id
from barnabas.controller.kraft.controller import KraftController
from barnabas.log.disk import InlineBackground
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import Listener, MetadataImage
from barnabas.wire.message import Message
from barnabas.wire.records.metadata import decode_metadata_record
from tests.log.simulated_disk import SimulatedDisk

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
    """A disk that outlives the controllers that run on it."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        directories: int = 1,
        features: Mapping[str, int] | None = None,
        release_version: str | None = None,
        seed: int = 0,
    ) -> None:
        self.disk = SimulatedDisk()
        self.clock = TestClock()
        self.random = random.Random(seed)
        self.config = BrokerConfig(
            {
                "log.dirs": ",".join(f"/data{number}" for number in range(directories)),
                **(settings or {}),
            }
        )
        self.background: InlineBackground = InlineBackground()
        self.published: list[tuple[MetadataImage, MetadataDelta]] = []
        self.failures: list[OSError] = []
        self.formatted = format_storage(
            self.disk,
            self.config,
            cluster_id=random_cluster_id(self.random),
            randomness=self.random,
            now_ms=self.clock.ms,
            features=features,
            release_version=release_version,
        )
        self.controller = self.make()

    def make(self) -> KraftController:
        self.published.clear()
        self.controller = KraftController(
            self.config,
            self.disk,
            background=self.background,
            clock=self.clock,
            randomness=self.random,
            new_promise=TestPromise,
            publish=lambda image, delta: self.published.append((image, delta)),
            failed=self.failures.append,
        )
        return self.controller

    def start(self, *, broker: bool = True) -> KraftController:
        run(self.controller.start())
        if broker:
            run(self.controller.register_this_broker([Listener("PLAINTEXT", "localhost", 9092, 0)]))
            run(self.controller.unfence())
        return self.controller

    def restart(self, *, broker: bool = True) -> KraftController:
        """After whatever happened to the controller before."""
        self.make()
        return self.start(broker=broker)

    def records(self, since: int = 0) -> list[tuple[int, Message]]:
        """What is in the log from an offset on."""
        found = []
        for batch in self.controller.quorum.log.batches(since):
            for offset, value in enumerate(batch.values, batch.base_offset):
                found.append((offset, decode_metadata_record(value)[0]))
        return found
