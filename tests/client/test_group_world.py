"""Groups in virtual time: every case by itself, then all of it at once from a seed."""

from __future__ import annotations

import re

import pytest

from barnabas.client.core.membership import State
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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_busy_caller_does_not_lose_its_place(strategy: str) -> None:
    """Heartbeats go on though nobody polls for longer than the session lasts."""
    world = World()
    world.create("t", 4)
    one = world.start("one", ["t"], partition_assignment_strategy=strategy)
    world.until(world.is_shared)
    one.pace_s = (15.0, 15.0)  # a session is 6 s, max.poll.interval.ms 20 s
    world.advance(100.0)
    assert [what for what, _ in one.told] == ["assigned"]


def test_a_caller_that_is_too_slow_leaves_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create("t", 4)
    slow = world.start("slow", ["t"], commits="none")
    world.until(world.is_shared)
    other = world.start("other", ["t"])
    world.until(lambda: world.is_shared() and len(other.held) == 2)
    slow.pace_s = (25.0, 25.0)
    world.until(lambda: len(other.held) == 4, 40.0)
    assert slow.held, "it does not know yet"
    slow.pace_s = (0.0, 0.05)
    world.until(lambda: world.is_shared() and len(slow.held) == 2, 40.0)
    assert [what for what, _ in slow.told][-2:] == ["lost", "assigned"]
    assert "max.poll.interval.ms (20000)" in caplog.text
    assert "took 25.0 s" in caplog.text


def test_a_dead_member_is_missed_after_its_session() -> None:
    world = World()
    world.create("t", 4)
    one = world.start("one", ["t"])
    two = world.start("two", ["t"])
    world.until(lambda: world.is_shared() and len(two.held) == 2)
    one.kill()
    world.until(lambda: len(two.held) == 4, 15.0)


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    world = World()
    world.create("t", 4)
    one = world.start("one", ["t"], group_instance_id="i1")
    two = world.start("two", ["t"], group_instance_id="i2")
    world.until(lambda: world.is_shared() and len(two.held) == 2)
    held, generation = set(two.held), world.group.generation
    two.stop()
    world.until(lambda: two.stopped)
    again = world.start("again", ["t"], group_instance_id="i2")
    world.until(world.is_shared)
    assert again.held == held
    assert world.group.generation == generation
    assert not any(what == "revoked" for what, _ in one.told[-1:])


def test_a_second_holder_of_an_instance_id_fences_the_first() -> None:
    world = World()
    world.create("t", 1)
    old = world.start("old", ["t"], group_instance_id="i1")
    world.until(world.is_shared)
    new = world.start("new", ["t"], group_instance_id="i1")
    world.until(lambda: bool(old.errors))
    assert "group.instance.id=i1" in str(old.errors[0])
    assert old.told[-1][0] == "lost"
    old.stop()
    world.until(lambda: old.stopped and world.is_shared())
    assert new.held == {("t", 0)}


def test_topics_that_match_and_partitions_that_come() -> None:
    world = World()
    world.create("a-1", 1)
    world.create("b", 1)
    one = world.start("one", re.compile("^a-"))
    two = world.start("two", ["a-1"])
    world.until(world.is_shared)
    world.create("a-2", 2)  # found by the next look at all topics
    world.until(lambda: world.is_shared() and one.membership.topics == {"a-1", "a-2"}, 30.0)
    assert {("a-2", 0), ("a-2", 1)} <= one.held
    world.create("a-1", 4)
    world.until(lambda: world.is_shared() and len(two.held) == 2, 30.0)


def test_a_topic_that_is_not_there_yet() -> None:
    world = World()
    one = world.start("one", ["later"])
    world.until(lambda: one.membership.state is State.STABLE)
    world.topics["later"] = 3  # nobody is told
    world.until(lambda: len(one.held) == 3, 5.0)


@pytest.mark.parametrize("happens", ["move", "crash"])
def test_a_coordinator_that_goes_away(happens: str) -> None:
    """The next one has the group in its log: nobody loses anything."""
    world = World()
    world.create("t", 4)
    one, two = world.start("one", ["t"]), world.start("two", ["t"])
    world.until(lambda: world.is_shared() and len(two.held) == 2)
    told = len(one.told) + len(two.told)
    getattr(world, happens)()
    world.advance(30.0)
    assert world.is_shared()
    assert len(one.told) + len(two.told) == told


def test_unsubscribing_and_subscribing_again() -> None:
    world = World()
    world.create("t", 2)
    one = world.start("one", ["t"])
    world.until(world.is_shared)
    left = world.reactor.spawn(one.membership.leave("unsubscribe", 1_000))
    world.advance(1.0)
    left.result()
    assert not one.held
    assert not one.membership.subscribed
    one.membership.subscribe(["t"], one)
    world.until(world.is_shared)
    one.stop()
    world.until(lambda: one.stopped)


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


@pytest.mark.parametrize("seed", range(25))
def test_after_all_that_every_partition_has_one_owner(seed: int) -> None:
    Chaos(seed).run()
