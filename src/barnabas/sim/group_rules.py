"""What must hold between a group's members and its coordinator, whatever happens.

While the coordinator's group is stable, every member of its generation owns what the coordinator
says, and nobody else does. Members of an earlier generation may still believe in what they had: the
coordinator turns their commits away, which `history.py` judges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.coordinator.group.shard import GroupShard
from barnabas.coordinator.group.state import STABLE
from barnabas.coordinator.runtime import PartitionState
from barnabas.sim.member import assignment_of
from barnabas.sim.plan import GROUP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.coordinator.group.classic_group import ClassicGroup
    from barnabas.sim.machine import Machine
    from barnabas.sim.member import Member


class GroupRules:
    def __init__(
        self,
        machines: Sequence[Machine],
        members: Callable[[], Mapping[str, Member]],
        broken: Callable[[str], object],
    ) -> None:
        self._machines = machines
        self._members = members
        self._broken = broken

    def check(self) -> None:
        members = self._members()
        if not any(member.owned for member in members.values()):
            return
        group = self._group()
        if group is None or group.state is not STABLE:
            return
        for name, member in members.items():
            if not member.owned or member.generation != group.generation:
                continue
            known = group.members.get(member.member_id)
            told = assignment_of(known.assignment) if known is not None else []
            if told != member.owned:
                self._broken(
                    f"{GROUP}: {name} owns {member.owned} in generation {member.generation}, "
                    f"the coordinator says {told}"
                )

    def _group(self) -> ClassicGroup | None:
        """As the newest of the coordinators that are active has it."""
        newest, found = -1, None
        for machine in self._machines:
            if machine.node is None:
                continue
            for entry in machine.node.groups.runtime.partitions.values():
                shard = entry.shard
                if entry.state is PartitionState.ACTIVE and isinstance(shard, GroupShard):
                    group = shard.groups.get(GROUP)
                    if group is not None and entry.leader_epoch > newest:
                        newest, found = entry.leader_epoch, group
        return found
