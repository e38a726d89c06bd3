"""A host with a disk that runs one node, again and again.

A machine starts its node, kills it, cuts its power or stops it in order. A node that ends by itself,
because its disk failed, is started again after a while, as a supervisor would do.
"""

from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.config.broker import BrokerConfig
from barnabas.controller.format import format_storage
from barnabas.controller.initial_controllers import show_initial_controllers
from barnabas.server.broker_state import BrokerState
from barnabas.server.node import Node, World
from barnabas.sim.background import VirtualBackground
from barnabas.sim.disk import ENDLESS, SimulatedDisk
from barnabas.sim.loop import WALL_START_MS, VirtualClock, VirtualLoop, describe
from barnabas.sim.stream import VirtualTransport
from barnabas.wire.records.metadata import encode_metadata_record

if TYPE_CHECKING:
    from barnabas.metadata.image import TopicImage
    from barnabas.raft.raft import Raft
    from barnabas.sim.simulation import Simulation

logger = logging.getLogger("barnabas.sim")

RESTART_NS = 300_000_000


def _never(operation: str, path: str) -> bool:
    return False


class Machine:
    def __init__(self, simulation: Simulation, name: str, config: BrokerConfig) -> None:
        self.name = name
        self.config = config
        self.disk = SimulatedDisk()
        self.disk.fails = _never
        self.node: Node | None = None
        self.loop: VirtualLoop | None = None
        self.starts = 0
        self._simulation = simulation
        self._rng = simulation.random(f"machine {name}")
        self._drift_ppm = self._rng.randint(-2_000, 2_000)
        self._skew_ms = self._rng.randint(-500, 500)
        self._sick = False
        self._slowness = 1
        self._background: VirtualBackground | None = None
        self.clock: VirtualClock | None = None
        self._format()

    def _format(self) -> None:
        plan, config = self._simulation.plan, self.config
        voters = show_initial_controllers(plan.voters) if plan.voters is not None else None
        format_storage(
            self.disk,
            config,
            cluster_id=plan.cluster_id,
            randomness=self._rng,
            now_ms=WALL_START_MS,
            initial_controllers=voters if config.is_controller else None,
        )
        self.disk.sync_everything()

    @property
    def is_on(self) -> bool:
        return self.node is not None

    @property
    def is_running(self) -> bool:
        """Its node has joined the cluster."""
        return self.node is not None and self.node.lifecycle.state is BrokerState.RUNNING

    @property
    def is_sick(self) -> bool:
        """Its disk fails, or did a moment ago."""
        return self._sick

    # ---- what is seen from above

    @property
    def raft(self) -> Raft | None:
        quorum = getattr(self.node, "_quorum", None)
        return quorum.raft if quorum is not None else None

    @property
    def image_offset(self) -> int:
        return self.node.metadata.image.offset if self.node is not None else -1

    @property
    def topics(self) -> Mapping[str, TopicImage]:
        return self.node.metadata.image.topics if self.node is not None else {}

    @property
    def image_mark(self) -> int:
        """A checksum of everything this node knows of the cluster."""
        assert self.node is not None
        mark = 0
        for record in self.node.metadata.image.to_records():
            mark = zlib.crc32(encode_metadata_record(record), mark)
        return mark

    # ---- the node's life

    def start(self) -> None:
        if self.is_on:
            return
        simulation = self._simulation
        self.starts += 1
        clock = VirtualClock(simulation.scheduler, drift_ppm=self._drift_ppm, skew_ms=self._skew_ms)
        loop = simulation.new_loop(self.name, clock)
        self.disk.clock = clock.now_ms
        simulation.network.start(self.name)
        background = VirtualBackground(loop, self._seeded("background"))
        background.slowness = self._slowness
        world = World(
            loop=loop,
            clock=clock,
            transport=VirtualTransport(simulation.network, self.name, loop),
            disk=self.disk,
            background=background,
            randomness=self._seeded("node"),
        )
        self.clock, self.loop, self._background = clock, loop, background
        simulation.trace.note(self.name, f"starts ({self.starts})")
        self.node = Node(self.config, world)
        loop.create_task(self._live(self.node))

    def _seeded(self, what: str) -> random.Random:
        return self._simulation.random(f"{self.name} {what} {self.starts}")

    async def _live(self, node: Node) -> None:
        try:
            await node.start()
        except Exception as error:
            text = f"could not start: {describe(error)}"
            if not self._sick:
                self._simulation.fail(f"{self.name} {text}")
            self._exit(node, text)
        else:
            await node.stopped()
            self._exit(node, f"ended: {node.failure or 'in order'}")

    def _exit(self, node: Node, text: str) -> None:
        if self.node is node and self.loop is not None and self.loop.alive:
            self._simulation.trace.note(self.name, text)
            self._end()
            self._simulation.network.kill(self.name)
            self._simulation.loop.after_ns(RESTART_NS, self.start)

    def _end(self) -> None:
        assert self.loop is not None
        self.loop.die()
        self.loop = self.node = self.clock = self._background = None
        self.disk.kill()

    def kill(self) -> None:
        if self.is_on:
            self._simulation.trace.note(self.name, "is killed")
            self._simulation.network.kill(self.name)
            self._end()

    def cut_power(self) -> None:
        if self.is_on:
            self._simulation.trace.note(self.name, "loses its power")
            self._simulation.network.cut_power(self.name)
            self._end()
            self.disk.power_cut(self._rng)

    def stop(self) -> None:
        """In order; the machine starts it again afterwards."""
        if self.node is None or self.loop is None:
            return
        if self.node.lifecycle.state is BrokerState.RUNNING:
            self._simulation.trace.note(self.name, "is asked to stop")
            self.loop.create_task(self._stop(self.node))

    async def _stop(self, node: Node) -> None:
        try:
            await node.stop()
        except OSError as error:
            self._exit(node, f"ended, but not in order: {error}")

    # ---- what may ail it

    def fail_disk(self, operation: str) -> None:
        self._sick = True
        self.disk.fails = lambda asked, path: asked == operation

    def fill_disk(self, space: int) -> None:
        self._sick = True
        self.disk.space = space

    def slow_disk(self, slowness: int) -> None:
        self._slowness = slowness
        if self._background is not None:
            self._background.slowness = slowness

    def mend_disk(self) -> None:
        self.disk.fails = _never
        self.disk.space = ENDLESS
        self.slow_disk(1)
        self._simulation.loop.after_ns(2 * RESTART_NS, self._recover)

    def _recover(self) -> None:
        self._sick = self.disk.space < ENDLESS or self.disk.fails is not _never

    def jump_clock(self, by_ms: int) -> None:
        self._skew_ms += by_ms
        if self.clock is not None:
            self.clock.skew_ms = self._skew_ms
