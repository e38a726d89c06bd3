"""The clients of a run: an administrator, producers, consumers, the members of a group.

Each runs on a host of its own. Consumers and members may die and come back; a producer that died would
not know what it had written, so producers live as long as the run.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.sim import own_clients
from barnabas.sim.administrator import administrate, create_topic
from barnabas.sim.client import ClientProcess
from barnabas.sim.consumer import consume
from barnabas.sim.history import Place
from barnabas.sim.member import Member
from barnabas.sim.plan import GROUP, OWN_GROUP, TOPIC
from barnabas.sim.producer import produce

if TYPE_CHECKING:
    from barnabas.sim.simulation import Simulation

OWN_MEMBERS = 2
COMES_BACK_NS = 700_000_000


class Workload:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._preparation: asyncio.Task[Any] | None = None
        self._producers: dict[str, asyncio.Task[Any]] = {}
        self._members: dict[str, Member] = {}
        self._own_members: dict[str, own_clients.Member] = {}
        self._mortals: dict[str, ClientProcess] = {}
        self._rebirths = 0

    @property
    def places(self) -> list[Place]:
        return [(TOPIC, partition) for partition in range(self._simulation.plan.partitions)]

    @property
    def members(self) -> Mapping[str, Member]:
        return self._members

    # ---- the life of the clients

    def prepare(self) -> None:
        client = self._simulation.new_client("admin")
        self._preparation = client.run(create_topic(client, self._simulation, TOPIC))

    def is_ready(self) -> bool:
        return self._preparation is not None and self._preparation.done()

    def start(self) -> None:
        simulation, plan = self._simulation, self._simulation.plan
        for index in range(plan.producers):
            name = f"producer{index}"
            client = simulation.new_client(name)
            work = produce(client, simulation.history, self.places, plan.records, plan.pause_s)
            self._producers[name] = client.run(work)
        if plan.own_clients:
            name = "own-producer"
            client = simulation.new_client(name)
            work = own_clients.produce(
                client, simulation.history, self.places, plan.records, plan.pause_s
            )
            self._producers[name] = client.run(work)
            self._start_own_consumer("own-consumer")
            for index in range(min(plan.members, OWN_MEMBERS)):
                self._start_own_member(f"own-member{index}")
        admin = simulation.new_client("admin")
        admin.run(administrate(admin, simulation))
        for index in range(plan.consumers):
            self._start_consumer(f"consumer{index}")
        for index in range(plan.members):
            self._start_member(f"member{index}")

    def _start_consumer(self, name: str) -> None:
        client = self._mortals[name] = self._simulation.new_client(name)
        for place in self.places:
            client.run(consume(client, self._simulation.history, place))

    def _start_member(self, name: str) -> None:
        client = self._mortals[name] = self._simulation.new_client(name)
        simulation = self._simulation
        fetch_bytes = simulation.plan.member_fetch_bytes
        member = Member(client, simulation.history, GROUP, self.places, fetch_bytes)
        self._members[name] = member
        client.run(member.run())

    def _start_own_consumer(self, name: str) -> None:
        client = self._mortals[name] = self._simulation.new_client(name)
        client.run(own_clients.consume(client, self._simulation.history, self.places))

    def _start_own_member(self, name: str) -> None:
        client = self._mortals[name] = self._simulation.new_client(name)
        member = own_clients.Member(client, self._simulation.history, OWN_GROUP, TOPIC)
        self._own_members[name] = member
        client.run(member.run())

    def _starter(self, name: str) -> Callable[[str], None]:
        if name.startswith("own-"):
            own = name.startswith("own-consumer")
            return self._start_own_consumer if own else self._start_own_member
        return self._start_consumer if name.startswith("consumer") else self._start_member

    def crash_one(self, rng: random.Random) -> None:
        if not self._mortals:
            return
        name = rng.choice(list(self._mortals))
        self._simulation.trace.note(name, "dies")
        self._mortals.pop(name).loop.die()
        self._members.pop(name, None)
        self._own_members.pop(name, None)
        self._simulation.network.kill(name)
        self._simulation.loop.after_ns(COMES_BACK_NS, self._starter(name), name)

    # ---- has it all been done?

    def waits_for(self) -> str | None:
        history = self._simulation.history
        if not self.is_ready():
            return "the topic"
        for name, task in self._producers.items():
            if not task.done():
                return f"{name}, which is not done"
        if not history.everything_was_read():
            return "consumers, which have not read everything"
        for group, members in ((GROUP, self._members), (OWN_GROUP, self._own_members)):
            found = self._group_waits_for(group, list(members.values())) if members else None
            if found is not None:
                return found
        return None

    def _group_waits_for(
        self, group: str, members: Sequence[Member | own_clients.Member]
    ) -> str | None:
        """All is committed, every partition belongs to one member, all are of one generation."""
        history = self._simulation.history
        for place in self.places:
            end = history.ends.get(place, 0)
            if history.committed(group, place)[0] < end:
                return f"group {group}, which has not committed {place} up to {end}"
        owned = sorted(place for member in members for place in member.owned)
        if owned != self.places:
            return f"group {group}, whose members own {owned}"
        if len({member.generation for member in members}) > 1:
            return f"group {group}, whose members are of several generations"
        return None
