"""Groups in virtual time: every case by itself, then all of it at once from a seed."""

from __future__ import annotations

import re

import pytest

from tests.client.group_world import Consumer, World

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_come_and_go(strategy: str) -> None:
    world = World()
    world.create("t", 6)
    one = world.start("one", ["t"], partition_assignment_strategy=strategy)
    world.until(world.is_shared)
    assert one.told == [("assigned", sorted(world.everything()))]
    two = world.start("two", ["t"], partition_assignment_strategy=strategy)
    world.until(lambda: world.is_shared() and len(two.held) == 3)
    one.stop()
    world.until(lambda: one.stopped and world.is_shared())
    assert two.held == world.everything()
    two.stop()
    world.until(lambda: two.stopped)
    assert world.group.state.value == "Empty"


# -- everything at once

MIXES = [
    ["range"],
    ["range", "roundrobin,range"],
    ["sticky", "sticky,range"],
    ["cooperative-sticky"],
    ["cooperative-sticky"],
    ["range,cooperative-sticky", "cooperative-sticky"],
]


class Chaos:
    """Consumers come, go, die and dawdle; brokers crash, move and lose messages."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.chance = world.chance
        self.mix = self.chance.choice(MIXES)
        self.number = 0
        world.create("t", self.chance.randint(1, 8))
        world.create("u", self.chance.randint(1, 4))
        self.instances: list[str] = []
        self.events = [self.start, self.start, self.stop, self.kill, self.grow, self.subscribe]
        self.events += [world.crash, world.move, self.dawdle, self.nothing, self.nothing]

    def run(self) -> None:
        world, chance = self.world, self.chance
        for _ in range(chance.randint(1, 3)):
            self.start()
        for _ in range(chance.randint(15, 40)):
            world.loss = chance.choice([0.0, 0.0, 0.02, 0.2])
            world.delay_s = chance.choice([(0.001, 0.005), (0.01, 0.5)])
            chance.choice(self.events)()
            world.advance(chance.choice([0.01, 0.1, 0.5, 2.0, 8.0]))
        self.calm()

    def calm(self) -> None:
        world = self.world
        world.loss, world.delay_s = 0.0, (0.001, 0.005)
        world.say("calm")
        for consumer in world.live():
            consumer.pace_s = (0.0, 0.05)
            consumer.callback_s = (0.0, 0.0)
        world.publish()
        world.advance(31.0)  # until the last dawdler is back
        # A static member that comes back with other wishes gets what it had until something else
        # makes the group rebalance; so it is in Kafka.
        world.create("t", world.topics["t"] + 1)
        world.until(lambda: not any(c.leaving for c in world.live()), 60.0)
        if world.live():
            world.until(world.is_shared, 60.0)
            generation = world.group.generation
            world.advance(15.0)
            assert world.is_shared(), "\n".join(world.trace[-40:])
            assert world.group.generation == generation, "it is at rest"
        for consumer in world.live():
            consumer.stop()
        world.until(lambda: not world.live(), 30.0)
        world.reactor.settle()

    def start(self) -> None:
        if len(self.world.live()) >= 6:
            return
        chance = self.chance
        options = {}
        free = [i for i in self.instances if i not in self.used_instances()]
        if free and chance.random() < 0.7:
            options["group_instance_id"] = chance.choice(free)
        elif chance.random() < 0.2:
            options["group_instance_id"] = f"i{self.number}"
            self.instances.append(f"i{self.number}")
        self.number += 1
        self.world.start(
            f"c{self.number}",
            chance.choice([["t"], ["t"], ["t", "u"], re.compile("^[tu]$")]),
            partition_assignment_strategy=chance.choice(self.mix),
            commits=chance.choice(["auto", "async", "none"]),
            **options,
        )

    def used_instances(self) -> set[str | None]:
        return {c.settings.group_instance_id for c in self.world.live()}

    def one(self) -> Consumer | None:
        living = [c for c in self.world.live() if not c.leaving]
        return self.chance.choice(living) if living else None

    def stop(self) -> None:
        if (consumer := self.one()) is not None:
            consumer.stop()

    def kill(self) -> None:
        if (consumer := self.one()) is not None:
            consumer.kill()

    def subscribe(self) -> None:
        if (consumer := self.one()) is not None:
            topics = self.chance.choice([["t"], ["u"], ["t", "u"]])
            self.world.say(f"{consumer.name} subscribes to {topics}")
            consumer.membership.subscribe(topics, consumer)

    def dawdle(self) -> None:
        if (consumer := self.one()) is not None:
            slow = self.chance.choice([(5.0, 10.0), (20.0, 30.0)])
            self.world.say(f"{consumer.name} becomes slow")
            if self.chance.random() < 0.5:
                consumer.pace_s = slow
            else:
                consumer.callback_s = slow

    def grow(self) -> None:
        world = self.world
        topic = self.chance.choice(sorted(world.topics))
        if world.topics[topic] < 12:
            world.say(f"{topic} grows")
            world.create(topic, world.topics[topic] + self.chance.randint(1, 2))

    def nothing(self) -> None:
        pass


@pytest.mark.parametrize("seed", range(40))
def test_after_all_that_every_partition_has_one_owner(seed: int) -> None:
    Chaos(seed).run()
