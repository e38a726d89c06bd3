"""Members of groups against Barnabas, today's Apache Kafka and an old one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.errors import ClientError
from tests.peers.clients import CLIENTS, Record
from tests.peers.python.targets import Target
from tests.peers.topics import create_topic

Make = Callable[..., Any]
WITHIN_S = 30.0
QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000, "max_poll_interval_ms": 30_000}


def write(target: Target, topic: str, count: int, partition: int = 0, start: int = 0) -> None:
    records = [Record(partition, None, b"%d" % i) for i in range(start, start + count)]
    CLIENTS["confluent"].produce(target.bootstrap, topic, records)


def member(make: Make, group: str, **options: Any) -> Any:
    settings = {"auto_offset_reset": "earliest", **QUICK, **options}
    return make("Consumer", group_id=group, **settings)


def poll_all(members: list[Any], done: Callable[[], bool]) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WITHIN_S
    while not done():
        for each in members:
            found += each.poll(0.05)
        assert time.monotonic() < deadline, [each.assignment() for each in members]
    return found


def take(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count:
        found += consumer.poll(0.5, max_records=count - len(found))
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
    return found


def test_what_was_committed_is_where_the_next_begins(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 1)
    write(target, name, 100)
    place = (name, 0)
    first = member(make, name, enable_auto_commit=False)
    first.subscribe([name])
    assert [r.offset for r in take(first, 40)] == list(range(40))
    first.commit()
    assert first.committed([place])[place].offset == 40
    take(first, 20)
    first.commit({place: 50})
    first.close()
    second = member(make, name, enable_auto_commit=True)
    second.subscribe([name])
    assert [r.offset for r in take(second, 10)] == list(range(50, 60))
    second.close()  # commits what was handed out
    third = member(make, name)
    third.subscribe([name])
    assert take(third, 1)[0].offset == 60
    assert CLIENTS["confluent"].consume(target.bootstrap, name, 100)[0].value == b"0"


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_and_take_over(make: Make, target: Target, name: str, strategy: str) -> None:
    create_topic(target.bootstrap, name, 4)
    for partition in range(4):
        write(target, name, 25, partition)
    options = {"partition_assignment_strategy": strategy, "enable_auto_commit": False}
    one, two = member(make, name, **options), member(make, name, **options)
    one.subscribe([name])
    poll_all([one], lambda: len(one.assignment()) == 4)
    two.subscribe([name])
    poll_all([one, two], lambda: len(one.assignment()) == len(two.assignment()) == 2)
    assert not one.assignment() & two.assignment()
    two.close()
    poll_all([one], lambda: len(one.assignment()) == 4)


def test_a_pattern_finds_topics_that_come_later(make: Make, target: Target, name: str) -> None:
    consumer = member(make, name, metadata_max_age_ms=200)
    consumer.subscribe(re.compile(re.escape(f"{name}.t") + ".*"))
    create_topic(target.bootstrap, f"{name}.t1", 1)
    poll_all([consumer], lambda: len(consumer.assignment()) == 1)
    create_topic(target.bootstrap, f"{name}.t2", 2)
    create_topic(target.bootstrap, f"{name}.other", 2)
    poll_all([consumer], lambda: len(consumer.assignment()) == 3)
    assert (f"{name}.t1", 0) in consumer.assignment()


def test_a_static_member_comes_back_to_what_it_had(make: Make, target: Target, name: str) -> None:
    create_topic(target.bootstrap, name, 4)
    options = {"partition_assignment_strategy": "range"}
    one = member(make, name, group_instance_id="one", **options)
    one.subscribe([name])
    if not target.since(2, 3):
        with pytest.raises(ClientError) as caught:
            poll_all([one], lambda: bool(one.assignment()))
        assert "group.instance.id" in str(caught.value) or "group_instance_id" in str(caught.value)
        return
    two = member(make, name, group_instance_id="two", **options)
    two.subscribe([name])
    poll_all([one, two], lambda: len(one.assignment()) == len(two.assignment()) == 2)
    had = two.assignment()
    two.close()
    back = member(make, name, group_instance_id="two", **options)
    back.subscribe([name])
    poll_all([back], lambda: bool(back.assignment()))
    assert back.assignment() == had
    poll_all([one], lambda: len(one.assignment()) == 2)


def test_a_commit_of_one_who_is_no_member_any_more_is_refused(
    make: Make, target: Target, name: str
) -> None:
    create_topic(target.bootstrap, name, 1)
    write(target, name, 10)
    options = {
        **QUICK,
        "max_poll_interval_ms": 700,
        "enable_auto_commit": False,
    }
    slow = member(make, name, **options)
    slow.subscribe([name])
    take(slow, 5)
    other = member(make, name)
    other.subscribe([name])
    assert take(other, 10)[0].offset == 0  # slow did not poll, and was put out
    with pytest.raises(ClientError) as caught:
        slow.commit({(name, 0): 5})
    assert str(caught.value)
