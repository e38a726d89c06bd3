"""Rules about the inside of the nodes, looked at from above, where everything is visible at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.record.read import read_records
from barnabas.server.broker_state import BrokerState
from barnabas.sim.history import Place

if TYPE_CHECKING:
    from barnabas.server.node import Node
    from barnabas.sim.simulation import Simulation

EVERY = 50


class Invariants:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._countdown = EVERY
        self._watermarks: dict[tuple[int, Place], tuple[int, int]] = {}

    def after_event(self) -> None:
        self._countdown -= 1
        if self._countdown > 0:
            return
        self._countdown = EVERY
        for machine in self._simulation.machines:
            if machine.node is not None:
                self._watermarks_grow(machine.node, machine.starts)

    def _watermarks_grow(self, node: Node, life: int) -> None:
        """Within one life of a node a partition's high watermark never goes back."""
        for place, partition in node.replicas.partitions.items():
            log = partition.log
            if log is None:
                continue
            key = (node.node_id, place)
            known_life, known = self._watermarks.get(key, (life, 0))
            now = log.high_watermark
            if known_life == life and now < known:
                self._simulation.fail(
                    f"{place} on node{node.node_id}: the high watermark went from {known} to {now}"
                )
            if now > log.log_end_offset:
                self._simulation.fail(
                    f"{place} on node{node.node_id}: the high watermark {now} is beyond the end "
                    f"{log.log_end_offset}"
                )
            self._watermarks[key] = (life, now)

    # ---- the end

    def waits_for(self) -> str | None:
        for machine in self._simulation.machines:
            node = machine.node
            if node is None or node.lifecycle.state is not BrokerState.RUNNING:
                return f"{machine.name}, which does not run"
        return None

    def check_end(self) -> None:
        """Every replica holds what was read, byte for byte as every other one."""
        history = self._simulation.history
        for place, records in history.records.items():
            for machine in self._simulation.machines:
                assert machine.node is not None
                partition = machine.node.replicas.partitions.get(place)
                if partition is None or partition.log is None:
                    continue
                log = partition.log
                found = {}
                offset = log.log_start_offset
                while offset < log.high_watermark:
                    data = log.read(offset, 1 << 20, log.high_watermark, True).records
                    found_bytes = data if isinstance(data, bytes) else data.read()
                    for record in read_records(found_bytes):
                        found[record.offset] = bytes(record.value or b"")
                        offset = record.offset + 1
                if found != records:
                    self._simulation.fail(
                        f"{place} on {machine.name} holds {len(found)} records, {len(records)} "
                        "were read"
                    )
