"""One run: a cluster, its clients, what goes wrong, and the judgement, all from one seed.

First the cluster comes up and topics are made; then producers, consumers and group members work while
faults happen; then the faults stop, and the cluster has a bounded time to become healthy and to
finish all work. The rules of `history.py` and `invariants.py` hold throughout.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from barnabas.sim.client import ClientProcess
from barnabas.sim.faults import Faults
from barnabas.sim.history import History, Place
from barnabas.sim.invariants import Invariants
from barnabas.sim.logs import LogWatch
from barnabas.sim.loop import VirtualClock, VirtualLoop
from barnabas.sim.machine import Machine
from barnabas.sim.network import VirtualNetwork
from barnabas.sim.plan import Plan, make_plan
from barnabas.sim.scheduler import NoProgress, Scheduler
from barnabas.sim.stream import VirtualTransport
from barnabas.sim.trace import Trace
from barnabas.sim.workload import Workload

_MS = 1_000_000
STEP_NS = 50 * _MS
START_LIMIT_NS = 60_000 * _MS
HEALTH_LIMIT_NS = 120_000 * _MS


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    nodes: int
    failure: str | None
    digest: str
    events: int
    virtual_s: float
    acknowledged: int
    read: int
    committed: int

    @property
    def summary(self) -> str:
        return (
            f"{self.virtual_s:.1f} virtual seconds, {self.events} events, {self.acknowledged} records "
            f"acknowledged, {self.read} read, {self.committed} offsets committed, trace {self.digest}"
        )

    @property
    def replay(self) -> str:
        return f"python -m barnabas.sim --seed {self.seed} --nodes {self.nodes} --trace"


class Simulation:
    def __init__(
        self, seed: int, nodes: int = 1, *, write: Callable[[str], object] | None = None
    ) -> None:
        self.seed = seed
        self.failure: str | None = None
        self._over = False
        self.scheduler = Scheduler()
        self.trace = Trace(self.scheduler, write)
        self._loops: list[VirtualLoop] = []
        self.loop = self.new_loop("world", VirtualClock(self.scheduler))
        self.network = VirtualNetwork(self.scheduler, self.loop, self.random("network"), self.trace)
        self.plan: Plan = make_plan(nodes, self.random("plan"))
        self.history = History(self.scheduler, self.fail, self._is_committed)
        self.machines = [Machine(self, name, config) for name, config in self.plan.nodes]
        self.workload = Workload(self)
        self.invariants = Invariants(self)
        self.faults = Faults(self, self.random("faults"))
        self._clients: list[str] = []

    # ---- what the parts ask

    def random(self, what: str) -> Random:
        """Randomness of its own for each part, so that one part's draws do not move another's."""
        return Random(f"{self.seed} {what}")

    def _is_committed(self, place: Place, offset: int) -> bool:
        return self.invariants.is_committed(place, offset)

    def new_loop(self, name: str, clock: VirtualClock) -> VirtualLoop:
        loop = VirtualLoop(  # type: ignore[abstract]
            name, self.scheduler, clock, self.fail
        )
        self._loops.append(loop)
        return loop

    def new_client(self, name: str) -> ClientProcess:
        rng = self.random(f"client {name}")
        loop = self.new_loop(name, VirtualClock(self.scheduler))
        transport = VirtualTransport(self.network, name, loop)
        self.network.start(name)
        if name not in self._clients:
            self._clients.append(name)
        return ClientProcess(name, loop, transport, rng, self.plan.bootstrap)

    def hosts(self) -> list[str]:
        return [machine.name for machine in self.machines] + self._clients

    def crash_client(self, rng: Random) -> None:
        self.workload.crash_one(rng)

    def fail(self, text: str) -> None:
        """The first failure ends the run."""
        if self.failure is None and not self._over:
            self.failure = text
            self.trace.note("FAILURE", text)
            self.scheduler.stop()

    # ---- the run

    def run(self) -> Outcome:
        watch = LogWatch(self)
        watch.start()
        gc_was_on = gc.isenabled()
        gc.disable()
        try:
            self._run()
        except NoProgress as error:
            self.fail(f"time stands still: {error}")
        except Exception as error:
            logging.getLogger("barnabas.sim").debug("the simulation failed", exc_info=True)
            self.fail(f"{type(error).__name__}: {error}")
        finally:
            self._over = True
            for loop in self._loops:
                loop.bury()
            watch.stop()
            if gc_was_on:
                gc.enable()
        return Outcome(
            seed=self.seed,
            nodes=len(self.machines),
            failure=self.failure,
            digest=self.trace.digest,
            events=self.scheduler.events,
            virtual_s=self.scheduler.now_ns / 1e9,
            acknowledged=self.history.acknowledged_count,
            read=sum(len(records) for records in self.history.records.values()),
            committed=self.history.committed_count,
        )

    def _run(self) -> None:
        for machine in self.machines:
            machine.start()
        self.workload.prepare()
        if not self._until(self.workload.is_ready, START_LIMIT_NS):
            self.fail(f"the cluster did not come up: {self.workload.waits_for()}")
            return
        self.workload.start()
        end_ns = self.scheduler.now_ns + self.plan.faults_ms * _MS
        self.faults.schedule(end_ns)
        self._until(lambda: self.scheduler.now_ns >= end_ns, self.plan.faults_ms * _MS)
        self.faults.stop()
        if not self._until(self._is_healthy, HEALTH_LIMIT_NS):
            self.fail(f"not healthy again: {self._waits_for()}")
            return
        self.history.check_gaps()
        self.invariants.check_end()

    def _until(self, condition: Callable[[], bool], limit_ns: int) -> bool:
        end_ns = self.scheduler.now_ns + limit_ns
        while self.failure is None:
            if condition():
                return True
            if self.scheduler.now_ns >= end_ns:
                return False
            for loop in self._loops:
                if loop.alive:
                    loop.judge_tasks()
            until_ns = min(self.scheduler.now_ns + STEP_NS, end_ns)
            self.scheduler.run(until_ns, self.invariants.after_event)
        return True

    def _is_healthy(self) -> bool:
        return self._waits_for() is None

    def _waits_for(self) -> str | None:
        return self.workload.waits_for() or self.invariants.waits_for()
