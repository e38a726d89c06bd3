"""What goes wrong, and when: a schedule made from the seed before anything runs.

Every fault has an end. A schedule keeps at most a minority of the nodes away at a time, unless
all of them go at once, because a cluster without a majority has nothing to prove but that it loses
nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.sim.machine import Machine
    from barnabas.sim.simulation import Simulation

_S = 1_000_000_000


class Faults:
    """Draws faults and lets them happen."""

    def __init__(self, simulation: Simulation, rng: random.Random) -> None:
        self._simulation = simulation
        self._rng = rng
        self._active = True
        self._is_exposed = False
        self._kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._cut_power),
            (2, self._restart),
            (1, self._black_out),
            (4, self._partition),
            (4, self._one_way),
            (3, self._slow_link),
            (3, self._losses),
            (5, self._reset),
            (2, self._fail_disk),
            (1, self._fill_disk),
            (2, self._slow_disk),
            (2, self._jump),
            (2, self._crash_client),
        ]

    def schedule(self, until_ns: int) -> None:
        """Faults from now to `until_ns`, some seconds or fractions of them apart."""
        pace_s = self._rng.choice([0.3, 0.8, 2.0])
        at_ns = self._simulation.scheduler.now_ns
        while True:
            at_ns += int(self._rng.expovariate(1 / pace_s) * _S)
            if at_ns >= until_ns:
                return
            (kind,) = self._rng.choices(
                [kind for _, kind in self._kinds], [weight for weight, _ in self._kinds]
            )
            self._after(at_ns - self._simulation.scheduler.now_ns, kind)

    def stop(self) -> None:
        """No further fault, and what still lasts ends now."""
        self._active = False
        simulation = self._simulation
        simulation.trace.note("faults", "are over")
        simulation.network.heal()
        for machine in simulation.machines:
            machine.mend_disk()
            machine.start()

    @property
    def are_over(self) -> bool:
        return not self._active

    def _after(self, delay_ns: int, callback: Callable[[], object]) -> None:
        def run() -> None:
            if self._active:
                callback()

        self._simulation.loop.after_ns(delay_ns, run)

    def _note(self, text: str) -> None:
        self._simulation.trace.note("fault", text)

    def _some_ns(self, most_s: float) -> int:
        return int(self._rng.uniform(0.02, most_s) * _S)

    def _machine(self) -> Machine:
        return self._rng.choice(self._simulation.machines)

    def _victim(self) -> Machine | None:
        """One that may go away now without taking the majority with it."""
        if self._is_exposed and not self._is_whole():
            return None
        self._is_exposed = False
        machines = self._simulation.machines
        away = sum(not machine.is_on for machine in machines)
        machine = self._machine()
        if not machine.is_on or (away + 1 > (len(machines) - 1) // 2 and len(machines) > 1):
            return None
        return machine

    def _host_pair(self) -> tuple[str, str]:
        hosts = self._simulation.hosts()
        nodes = [machine.name for machine in self._simulation.machines]
        one = self._rng.choice(nodes)
        return one, self._rng.choice([host for host in hosts if host != one])

    # ---- nodes

    def _kill(self) -> None:
        machine = self._victim()
        if machine is not None:
            machine.kill()
            self._after(self._some_ns(3), machine.start)

    def _cut_power(self) -> None:
        """Where acknowledgements do not wait for the disk, one node may lose its power as long as
        all others have what it had. Until it has got that again, none of them may die: whoever was
        killed counts as one that may have lost something, and if none is left that counts for more,
        the last leader leads again with what it has."""
        machine, safe = self._victim(), self._simulation.plan.power_cuts
        if machine is None or not (safe or self._is_whole()):
            return
        machine.cut_power()
        self._is_exposed = not safe
        self._after(self._some_ns(3), machine.start)

    def _is_whole(self) -> bool:
        simulation = self._simulation
        if len(simulation.machines) == 1 or any(each.is_sick for each in simulation.machines):
            return False
        return simulation.invariants.waits_for() is None

    def _black_out(self) -> None:
        """All at once."""
        if self._is_exposed and not self._is_whole():
            return
        power = self._simulation.plan.power_cuts and self._rng.random() < 0.5
        for machine in self._simulation.machines:
            if power:
                machine.cut_power()
            else:
                machine.kill()
            self._after(self._some_ns(2), machine.start)

    def _restart(self) -> None:
        machine = self._victim()
        if machine is not None:
            machine.stop()

    def _jump(self) -> None:
        machine = self._machine()
        by_ms = self._rng.randint(-3_000, 3_000)
        self._note(f"the clock of {machine.name} jumps by {by_ms} ms")
        machine.jump_clock(by_ms)

    def _crash_client(self) -> None:
        self._simulation.crash_client(self._rng)

    # ---- the network

    def _partition(self) -> None:
        """One side hears nothing of the other."""
        hosts = self._simulation.hosts()
        side = [host for host in hosts if self._rng.random() < 0.4]
        rest = [host for host in hosts if host not in side]
        self._note(f"{', '.join(side) or 'nobody'} is cut off from {', '.join(rest) or 'nobody'}")
        pairs = [(one, other) for one in side for other in rest]
        self._block(pairs + [(other, one) for one, other in pairs])

    def _one_way(self) -> None:
        one, other = self._host_pair()
        if self._rng.random() < 0.5:
            one, other = other, one
        self._note(f"nothing passes from {one} to {other}")
        self._block([(one, other)])

    def _block(self, pairs: list[tuple[str, str]]) -> None:
        network = self._simulation.network
        for pair in pairs:
            network.block(*pair)

        def unblock() -> None:
            for pair in pairs:
                network.unblock(*pair)

        self._after(self._some_ns(4), unblock)

    def _slow_link(self) -> None:
        one, other = self._host_pair()
        slowness = self._rng.choice([20, 200, 1000])
        self._note(f"{one} to {other} is {slowness} times slower")
        link = self._simulation.network.link(one, other)
        link.slowness = slowness
        self._after(self._some_ns(4), lambda: setattr(link, "slowness", 1))

    def _losses(self) -> None:
        one, other = self._host_pair()
        self._note(f"{one} to {other} loses packets")
        link = self._simulation.network.link(one, other)
        link.loss = 0.3
        self._after(self._some_ns(4), lambda: setattr(link, "loss", 0.0))

    def _reset(self) -> None:
        connections = self._simulation.network.connections()
        if connections:
            stream = self._rng.choice(connections)
            self._note(f"{stream.wire.name} is reset")
            stream.break_off()

    # ---- disks

    def _fail_disk(self) -> None:
        machine = self._victim()
        if machine is None or not self._simulation.plan.disk_faults:
            return
        operation = self._rng.choice(["append", "sync", "sync", "rename", "open", "read"])
        self._note(f"{machine.name} cannot {operation}")
        machine.fail_disk(operation)
        self._after(self._some_ns(2), machine.mend_disk)

    def _fill_disk(self) -> None:
        machine = self._victim()
        if machine is None or not self._simulation.plan.disk_faults:
            return
        space = self._rng.randrange(2_000)
        self._note(f"{machine.name} has {space} bytes left on its disk")
        machine.fill_disk(space)
        self._after(self._some_ns(2), machine.mend_disk)

    def _slow_disk(self) -> None:
        machine = self._machine()
        slowness = self._rng.choice([10, 100, 400])
        self._note(f"the disk of {machine.name} is {slowness} times slower")
        machine.slow_disk(slowness)
        self._after(self._some_ns(3), lambda: machine.slow_disk(1))
