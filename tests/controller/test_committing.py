"""Nothing is answered before it is durable and published; many changes share a flush."""

from __future__ import annotations

import pytest

from barnabas.controller.kraft import committing
from barnabas.metadata.image import ResourceType
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.controller.harness import Machine, ManualBackground, Running


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    )


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def manual(machine: Machine) -> ManualBackground:
    machine.start()
    background = ManualBackground()
    machine.background = background
    return background


def test_an_answer_waits_for_the_flush_and_the_publisher(
    machine: Machine, manual: ManualBackground
) -> None:
    before = len(machine.published)
    running = Running(machine.controller.create_topics(create("a")))
    assert not running.done
    assert "a" not in machine.controller.image.topics
    assert len(machine.published) == before
    manual.step()
    assert "a" in machine.controller.image.topics
    assert "a" in machine.published[-1][0].topics
    assert running.resume().done


def test_changes_gather_while_the_disk_works(machine: Machine, manual: ManualBackground) -> None:
    names = [f"t{number}" for number in range(50)]
    running = [Running(machine.controller.create_topics(create(name))) for name in names]
    assert len(manual.queue) == 1
    manual.step()
    assert all(each.resume().done for each in running)
    assert not manual.queue
    assert machine.controller.image.topics.keys() >= set(names)


def test_what_is_appended_during_a_flush_waits_for_the_next(
    machine: Machine, manual: ManualBackground
) -> None:
    first = Running(machine.controller.create_topics(create("a")))
    flush = machine.raft.log.sync

    def slow_flush() -> int:
        done = flush()
        second.append(Running(machine.controller.create_topics(create("b"))))
        return done

    second: list[Running] = []
    machine.raft.log.sync = slow_flush  # type: ignore[method-assign]
    manual.queue.clear()
    machine._flushing = False
    machine.flush()
    manual.step()
    machine.raft.log.sync = flush  # type: ignore[method-assign]
    assert first.resume().done
    assert not second[0].resume().done
    manual.step()
    assert second[0].resume().done


def test_decisions_see_what_is_not_committed_yet(
    machine: Machine, manual: ManualBackground
) -> None:
    Running(machine.controller.create_topics(create("a")))
    second = Running(machine.controller.create_topics(create("a")))
    assert not second.done, "an answer that rests upon an uncommitted change has to wait for it"
    manual.step()
    response = second.resume().result
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_publisher_is_told_in_the_order_of_the_log(
    machine: Machine, manual: ManualBackground
) -> None:
    del machine.published[:]
    for name in "cab":
        Running(machine.controller.create_topics(create(name)))
    manual.step()
    offsets = [image.offset for image, _delta in machine.published]
    assert offsets == sorted(offsets)
    assert [list(delta.created_topics) for _image, delta in machine.published] == [
        ["c"], ["a"], ["b"]
    ]  # fmt: skip


def test_a_failing_publisher_does_not_stop_the_others(
    machine: Machine, manual: ManualBackground
) -> None:
    def fail(image: object, delta: object) -> None:
        raise RuntimeError("no")

    machine.replica._publish = fail
    running = Running(machine.controller.create_topics(create("a")))
    manual.step()
    assert running.resume().done
    assert running.error is None


def test_a_disk_that_fails_to_flush_ends_the_controller(
    machine: Machine, manual: ManualBackground
) -> None:
    running = Running(machine.controller.create_topics(create("a")))

    def fail() -> int:
        raise OSError(5, "no such luck")

    machine.raft.log.sync = fail  # type: ignore[method-assign]
    manual.queue.clear()
    machine._flushing = False
    machine.flush()
    manual.step()
    assert isinstance(running.resume().error, ApiError)
    assert "a" not in machine.controller.image.topics
    assert len(machine.failures) == 1
    later = Running(machine.controller.create_topics(create("b")))
    assert isinstance(later.error, ApiError)
    assert later.error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert Running(machine.controller.stop()).done


def test_a_disk_that_fails_to_append_ends_the_controller(machine: Machine) -> None:
    machine.start()

    def fail(*args: object) -> int:
        raise OSError(28, "full")

    machine.raft.log.append = fail  # type: ignore[method-assign]
    running = Running(machine.controller.create_topics(create("a")))
    assert isinstance(running.error, ApiError)
    machine.replica.maintain(machine.clock.ms)
    machine.replica.maintain(machine.clock.ms)
    assert len(machine.failures) == 1
    assert "a" not in machine.controller.image.topics


def test_what_waits_is_bounded(
    machine: Machine, manual: ManualBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "MAX_WAITING", 5)
    for number in range(5):
        assert not Running(machine.controller.create_topics(create(f"t{number}"))).done
    refused = Running(machine.controller.create_topics(create("last")))
    assert isinstance(refused.error, ApiError)


def test_what_waits_is_bounded_by_what_its_images_cost(
    machine: Machine, manual: ManualBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "MAX_WAITING_TOPICS", 6)
    for number in range(3):
        assert not Running(machine.controller.create_topics(create(f"t{number}"))).done
    refused = Running(machine.controller.create_topics(create("last")))
    assert isinstance(refused.error, ApiError)
    assert refused.error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    manual.step()
    assert not Running(machine.controller.create_topics(create("last"))).done


def test_a_heartbeat_does_not_wait_behind_clients(
    machine: Machine, manual: ManualBackground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "MAX_WAITING", 1)
    assert not Running(machine.controller.create_topics(create("t"))).done
    broker = next(iter(machine.replica.image.brokers.values()))
    beat = BrokerHeartbeatRequest(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, current_metadata_offset=1
    )
    running = Running(machine.controller.heartbeat_broker(beat))
    assert running.error is None
    manual.step()
    assert running.resume().result.error_code == 0


def test_a_controller_that_was_held_up_blames_nobody(machine: Machine) -> None:
    """The heartbeats that came meanwhile are read after the tick that would fence."""
    machine.start()
    (broker_id,) = machine.replica.image.brokers

    def fenced_after(ms: int, *, stalled_ms: int = 0) -> bool:
        machine.clock.ms += ms
        if stalled_ms:
            machine.controller.stalled(stalled_ms)
        machine.controller.tick(machine.clock.ms)
        return machine.replica.image.brokers[broker_id].fenced

    assert not fenced_after(20_000, stalled_ms=15_000)
    assert not fenced_after(3_900)
    assert fenced_after(200)


def test_dynamic_settings_reach_the_decisions(machine: Machine) -> None:
    from barnabas.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    machine.start()
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=ResourceType.BROKER,
                resource_name="",
                configs=[AlterableConfig(name="log.retention.ms", value="7777")],
            )
        ]
    )
    response = Running(machine.controller.incremental_alter_configs(request)).result
    assert response.responses[0].error_message is None
    created = Running(machine.controller.create_topics(create("a"))).result.topics[0]
    shown = {config.name: config for config in created.configs}
    assert shown["retention.ms"].value == "7777"
    assert shown["retention.ms"].config_source == 3
