"""The controller fails over: nothing that was answered is lost, nothing is done twice."""

from __future__ import annotations

from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.records.metadata import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
    encode_metadata_record,
)
from tests.controller.harness import Machine, Quorum, Running


def create(machine: Machine, name: str) -> Running:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return Running(machine.controller.create_topics(CreateTopicsRequest(topics=[topic])))


def ask(quorum: Quorum, running: Running) -> Running:
    """Until it is answered."""
    for _ in range(100):
        if running.resume().done:
            return running
        quorum.step(10)
    raise AssertionError("no answer")


def register(quorum: Quorum, machine: Machine, broker_id: int, incarnation: bytes) -> int:
    from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
    from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, Feature

    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=machine.formatted.cluster_id,
        incarnation_id=incarnation,
        features=[
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
        ],
        log_dirs=[incarnation],
    )
    answered = ask(quorum, Running(machine.controller.register_broker(request)))
    assert answered.error is None
    epoch: int = answered.result.broker_epoch
    beat = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=machine.replica.image.offset,
    )
    assert not ask(quorum, Running(machine.controller.heartbeat_broker(beat))).result.is_fenced
    return epoch


def started() -> tuple[Quorum, Machine]:
    quorum = Quorum()
    active = quorum.until_active()
    quorum.run(1000)
    register(quorum, active, 7, b"7" * 16)
    return quorum, active


def test_the_first_leader_writes_the_first_records_once() -> None:
    quorum, active = started()
    levels = [r for _, r in active.records() if isinstance(r, FeatureLevelRecord)]
    assert len({each.name for each in levels}) == len(levels)
    for machine in quorum.machines.values():
        assert machine.replica.image.features == active.replica.image.features


def test_only_the_active_one_decides() -> None:
    quorum, active = started()
    for machine in quorum.machines.values():
        if machine is not active:
            refused = create(machine, "a")
            assert isinstance(refused.error, ApiError)
            assert refused.error.code is ErrorCode.NOT_CONTROLLER


def test_standby_controllers_have_what_is_committed() -> None:
    quorum, active = started()
    assert ask(quorum, create(active, "a")).error is None
    quorum.run(1000)
    for machine in quorum.machines.values():
        assert machine.replica.image.same_content(active.replica.image)


def test_what_was_answered_outlives_the_controller() -> None:
    quorum, active = started()
    assert ask(quorum, create(active, "a")).error is None
    quorum.cut_off.add(active.config.node_id)
    other = quorum.until_active()
    assert other is not active
    assert "a" in other.replica.image.topics
    again = ask(quorum, create(other, "a"))
    assert again.result.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_who_waits_is_told_to_ask_another_and_the_change_is_undone() -> None:
    quorum, active = started()
    quorum.cut_off.add(active.config.node_id)
    waiting = create(active, "lost")
    assert not waiting.done
    other = quorum.until_active()
    quorum.run(10_000)
    assert isinstance(waiting.resume().error, ApiError)
    assert waiting.error.code is ErrorCode.NOT_CONTROLLER  # type: ignore[union-attr]
    assert not active.controller.is_active
    assert ask(quorum, create(other, "kept")).error is None
    quorum.cut_off.clear()
    quorum.run(10_000)
    for machine in quorum.machines.values():
        assert set(machine.replica.image.topics) == {"kept"}
        names = [r.name for _, r in machine.records() if isinstance(r, TopicRecord)]
        assert names == ["kept"]


def test_a_change_that_the_next_controller_commits_happens_once() -> None:
    """The answer is lost, the change is not: asking again finds it done."""
    quorum, active = started()
    waiting = create(active, "a")
    assert not waiting.done
    quorum.step(10)
    quorum.cut_off.add(active.config.node_id)
    other = quorum.until_active()
    assert "a" in other.replica.image.topics
    names = [r.name for _, r in other.records() if isinstance(r, TopicRecord)]
    assert names == ["a"]


def test_a_new_controller_gives_brokers_a_whole_session() -> None:
    quorum, active = started()
    quorum.cut_off.add(active.config.node_id)
    other = quorum.until_active()
    quorum.run(8_900)
    other.controller.tick(quorum.clock.ms)
    quorum.step()
    assert not other.replica.image.brokers[7].fenced
    quorum.run(200)
    other.controller.tick(quorum.clock.ms)
    quorum.run(500)
    assert other.replica.image.brokers[7].fenced


def test_a_transaction_that_was_left_open_is_aborted() -> None:
    quorum, active = started()
    topic = TopicRecord(name="half", topic_id=b"t" * 16)
    for record in (BeginTransactionRecord(name="big"), topic):
        active.raft.append([encode_metadata_record(record, 0)], quorum.clock.ms)
    quorum.step(10)
    quorum.cut_off.add(active.config.node_id)
    other = quorum.until_active()
    assert "half" not in other.replica.image.topics
    assert ask(quorum, create(other, "whole")).error is None
    quorum.cut_off.clear()
    quorum.run(10_000)
    for machine in quorum.machines.values():
        assert set(machine.replica.image.topics) == {"whole"}, machine.config.node_id
        assert not machine.replica.in_transaction


def test_a_standby_writes_snapshots_and_starts_from_them() -> None:
    quorum, active = started()
    for number in range(20):
        assert ask(quorum, create(active, f"t{number}")).error is None
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="t3")])
    assert ask(quorum, Running(active.controller.delete_topics(deleted))).error is None
    quorum.run(1000)
    standby = next(m for m in quorum.machines.values() if m is not active)
    standby.replica.write_snapshot(quorum.clock.ms)
    assert standby.raft.log.latest_snapshot is not None
    before = standby.replica.image
    standby.raft.log.close()
    standby.make()
    standby.raft.start(quorum.clock.ms)
    quorum.run(3000)
    assert standby.replica.image.same_content(before)
