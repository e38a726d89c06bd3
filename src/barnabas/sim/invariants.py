"""Rules about the inside of the nodes, looked at from above, where everything is visible at once.

After every event the machine on which it happened is judged: `quorum_rules.py`, `partition_rules.py`,
`group_rules.py`. After the faults, `waits_for` says what a healthy cluster would not lack, and
`check_end` whether all replicas and images have become the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.sim.group_rules import GroupRules
from barnabas.sim.partition_rules import PartitionRules, records_of
from barnabas.sim.quorum_rules import QuorumRules

if TYPE_CHECKING:
    from barnabas.sim.history import Place
    from barnabas.sim.loop import VirtualLoop
    from barnabas.sim.simulation import Simulation


class Invariants:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        machines = simulation.machines
        self._machines = {machine.name: machine for machine in machines}
        self._quorum = QuorumRules(simulation.fail)
        self._partitions = PartitionRules(machines, simulation.fail)
        self._groups = GroupRules(machines, lambda: simulation.workload.members, simulation.fail)

    def after_event(self, loop: VirtualLoop) -> None:
        """An event changes what is on its own process, and on no other."""
        machine = self._machines.get(loop.name)
        if machine is not None:
            self._quorum.check(machine)
            self._partitions.check(machine)
        elif loop.name not in self._simulation.workload.members:
            return
        self._groups.check()

    def is_committed(self, place: Place, offset: int) -> bool:
        return self._partitions.is_committed(place, offset)

    # ---- the end

    def waits_for(self) -> str | None:
        machines = self._simulation.machines
        for machine in machines:
            if not machine.is_running:
                return f"{machine.name}, which does not run"
        offsets = {machine.name: machine.image_offset for machine in machines}
        if len(set(offsets.values())) > 1:
            return f"the metadata, which the nodes know up to {offsets}"
        for name, topic in machines[0].topics.items():
            for index, registration in topic.partitions.items():
                if registration.adding_replicas or registration.removing_replicas:
                    return f"the reassignment of {name}-{index}"
        for machine in machines:
            assert machine.node is not None
            for place, partition in machine.node.replicas.partitions.items():
                if partition.is_leader and len(partition.isr) < len(partition.replicas):
                    return f"{place}, in sync are {partition.isr} of {partition.replicas}"
        return None

    def check_end(self) -> None:
        """Every replica holds what was read, and everybody knows the same metadata."""
        simulation = self._simulation
        machines, history = simulation.machines, simulation.history
        if len({machine.image_mark for machine in machines}) > 1:
            simulation.fail("the nodes' images of the metadata differ")
        known = {name: topic.topic_id for name, topic in machines[0].topics.items()}
        for name, topic_id in history.topics.items():
            if known.get(name) != topic_id:
                simulation.fail(f"topic {name} was made and is not there")
        for name in history.deleted:
            if name in known:
                simulation.fail(f"topic {name} was deleted and is there")
        for place, records in history.records.items():
            for machine in machines:
                assert machine.node is not None
                partition = machine.node.replicas.partitions.get(place)
                if partition is None or partition.log is None:
                    continue
                log = partition.log
                found = {
                    record.offset: bytes(record.value or b"")
                    for record in records_of(log, 0, log.log_end_offset)
                }
                if any(
                    found[offset] != value for offset, value in records.items() if offset in found
                ):
                    simulation.fail(f"{place} on {machine.name} holds other records than were read")
                if partition.is_leader and len(found) < len(records):
                    simulation.fail(
                        f"{place} on {machine.name} holds {len(found)} records, {len(records)} were read"
                    )
