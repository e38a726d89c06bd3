"""Replicas that move between log directories, on a disk that can lose power."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from barnabas.api import alter_replica_log_dirs, describe_log_dirs
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.metadata.image import TopicImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.log.batches import read_all
from tests.log.simulated_disk import SimulatedDisk
from tests.replica.replicas import Replicas, topic

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
IDS = {"/a": A, "/b": B, "/c": C}
SMALL = replace(LogConfig(), internal_segment_bytes=400)
STEPS = ("append", "rename", "remove", "sync", "truncate", "open", "mkdir")


class Stopped(BaseException):
    """The process is gone: no handler of errors runs."""


class Mover(Replicas):
    """A broker whose controller consents at once, unless it is held."""

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        *,
        flush_before_ack: bool = False,
        config: LogConfig = SMALL,
        metadata: bytes = A,
    ) -> None:
        super().__init__(
            disk, directories=tuple(IDS), flush_before_ack=flush_before_ack, config=config
        )
        self.held = False
        self.metadata = metadata
        self.told: list[bytes] = []
        self.replicas.directory_ids = dict(IDS)
        self.replicas.directory_to_tell = self._tell
        self.epoch = 0
        self.publish(is_new=disk is None)

    def image(self) -> TopicImage:
        found = topic("t", epoch=self.epoch)
        partition = found.partitions[0]._replace(directories=(self.metadata,), leader_epoch=0)
        return replace(found, partitions={0: partition})

    def publish(self, *, is_new: bool = False) -> None:
        self.replicas.apply_topic(self.image(), is_new=is_new)

    def _tell(self, partition: object) -> None:
        wanted = self.replicas.directory_of(self.replicas.partition("t", 0))
        assert wanted is not None
        self.told.append(wanted)
        if not self.held and wanted != self.metadata:
            self.consent()

    def consent(self) -> None:
        self.metadata = self.told[-1]
        self.epoch += 1
        self.deferred.append(self.publish)

    @property
    def log(self) -> Log:
        return self.replicas.partition("t", 0).online_log()

    @property
    def place(self) -> str:
        return self.log.parent_directory

    def values(self) -> list[bytes | None]:
        return [record.value for record in read_all(self.log)]

    def write(self, count: int) -> None:
        for _ in range(count):
            assert self.produce(b"%d" % self.log.log_end_offset).response is not None
        self.turn()

    def move(self, path: str, name: str = "t", index: int = 0) -> ErrorCode:
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=[index])]
                )
            ]
        )
        response = alter_replica_log_dirs.handle(self, None, request)  # type: ignore[arg-type]
        return ErrorCode(response.results[0].partitions[0].error_code)

    def shown(self) -> dict[str, tuple[bool, int]]:
        """Directories that have the partition: whether as a future log, and how far that is behind."""
        response = describe_log_dirs.handle(self, None, DescribeLogDirsRequest(topics=None))  # type: ignore[arg-type]
        return {
            result.log_dir: (data.is_future_key, data.offset_lag)
            for result in response.results
            for found in result.topics
            for data in found.partitions
        }

    def step(self, ms: int = 0) -> None:
        self.clock.ms += ms
        self.wheel.advance(self.clock.now_ms())
        self.flush()

    def settle(self) -> None:
        for _ in range(1000):
            if not len(self.replicas.moves):
                return
            self.step(1)
        raise AssertionError("the move does not end")


def expected(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def started(path: str = "/b", count: int = 20) -> Mover:
    node = Mover()
    node.write(count)
    assert node.move(path) is ErrorCode.NONE
    return node


def test_a_replica_moves_with_its_records_epochs_and_producers() -> None:
    node = Mover()
    node.write(20)
    for sequence in range(3):
        node.produce(b"%d" % (20 + sequence), producer=(7, 0, sequence))
    before, epochs = node.log, node.log.epochs.entries()
    assert node.place == "/a", "where the controller assigned it"
    assert node.move("/b") is ErrorCode.NONE
    assert node.shown() == {"/a": (False, 0), "/b": (True, 23)}
    node.settle()
    assert (node.place, node.values()) == ("/b", expected(23))
    assert node.log.epochs.entries() == epochs
    assert node.log.high_watermark == before.high_watermark == 23
    assert node.shown() == {"/b": (False, 0)}
    assert node.told == [B, B]
    assert node.produce(b"22", producer=(7, 0, 2)).answer == (ErrorCode.NONE, 22), "a repetition"
    assert node.produce(b"23", producer=(7, 0, 3)).answer == (ErrorCode.NONE, 23)
    node.logs.remove_doomed(node.clock.ms + 100_000)
    node.flush()
    assert [name for name in node.disk.names if name.startswith(("/a/t-", "/b/t-0."))] == []


def test_back_and_forth_trusts_no_old_checkpoint() -> None:
    node = started()
    node.settle()
    node.logs.checkpoint()
    node.flush()
    assert node.move("/a") is ErrorCode.NONE
    node.step()
    node.disk.power_cut(random.Random(3))
    again = Mover(node.disk, metadata=node.metadata)
    again.settle()
    assert (again.place, again.values()) == ("/a", expected(20))


def test_the_leader_goes_on_appending() -> None:
    node = started()
    for _ in range(30):
        node.step()
        if node.place == "/a":
            node.write(1)
    node.settle()
    assert node.place == "/b"
    assert node.values() == expected(node.log.log_end_offset)
    node.write(3)
    assert node.values() == expected(node.log.log_end_offset)


def test_nothing_is_swapped_before_the_controller_consents() -> None:
    node = started()
    node.held = True
    for _ in range(20):
        node.step(50)
    assert (node.place, node.told) == ("/a", [B])
    node.write(5)
    node.step(200)
    assert node.shown()["/b"] == (True, 0), "it follows meanwhile"
    node.consent()
    node.settle()
    assert (node.place, node.values()) == ("/b", expected(25))


def test_a_second_move_takes_the_place_of_the_first() -> None:
    node = started()
    node.step()
    assert node.move("/b") is ErrorCode.NONE, "the same again changes nothing"
    assert node.move("/c") is ErrorCode.NONE
    assert set(node.shown()) == {"/a", "/c"}
    node.settle()
    assert (node.place, node.values()) == ("/c", expected(20))


def test_to_where_it_is_calls_the_move_off_and_tells_it() -> None:
    node = started()
    node.held = True
    for _ in range(20):
        node.step(50)
    node.consent()
    assert node.move("/a") is ErrorCode.NONE
    assert node.told[-1] == A
    assert (node.place, len(node.replicas.moves)) == ("/a", 0)
    node.step(500)
    assert node.shown() == {"/a": (False, 0)}


def test_what_truncates_the_log_truncates_the_copy() -> None:
    node = started()
    node.held = True
    for _ in range(20):
        node.step(50)
    assert node.shown()["/b"] == (True, 0)
    node.log.truncate_to(12)
    node.replicas.truncated(node.replicas.partition("t", 0))
    for _ in range(12, 25):
        node.produce(b"other")
    node.consent()
    node.settle()
    assert node.place == "/b"
    assert node.values() == [*expected(12), *[b"other"] * 13]


def test_a_read_that_was_under_way_while_the_log_was_truncated_is_of_no_use() -> None:
    node = started()
    node.wheel.advance(node.clock.now_ms())
    work, done = node.background.works.pop()
    records = work()
    node.log.truncate_to(12)
    node.replicas.truncated(node.replicas.partition("t", 0))
    for _ in range(12, 20):
        node.produce(b"other")
    done(records, None)
    node.settle()
    assert node.values() == [*expected(12), *[b"other"] * 8]


def test_a_log_that_begins_inside_a_batch() -> None:
    node = Mover()
    node.produce(b"0", b"1", b"2", b"3")
    node.write(3)
    node.turn()
    node.log.increment_log_start_offset(2)
    assert node.move("/b") is ErrorCode.NONE
    node.settle()
    assert node.log.log_start_offset == 2
    assert (node.log.log_end_offset, node.log.high_watermark) == (7, 7)


def test_what_is_deleted_meanwhile_is_not_copied() -> None:
    node = started()
    node.step()
    node.log.increment_log_start_offset(15)
    node.log.delete_old_segments(node.clock.ms)
    node.settle()
    assert node.log.log_start_offset == 15
    assert node.values()[-5:] == expected(20)[-5:]


def test_the_end_that_compaction_took_is_not_given_again() -> None:
    node = started()
    node.log.extend_to(50, node.clock.ms)
    node.settle()
    assert (node.place, node.log.log_end_offset) == ("/b", 50)
    assert node.produce(b"50").answer == (ErrorCode.NONE, 50)


def test_refusals_and_the_directory_of_a_replica_that_comes_later() -> None:
    node = Mover()
    assert node.move("/elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert node.move("/b", "unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    away = topic("later")
    away = replace(away, partitions={0: away.partitions[0]._replace(replicas=(9,), leader=9)})
    node.replicas.apply_topic(away)
    assert node.move("/c", "later") is ErrorCode.REPLICA_NOT_AVAILABLE
    node.replicas.apply_topic(topic("later", epoch=1), is_new=True)
    assert node.replicas.partition("later", 0).online_log().parent_directory == "/c"
    node.replicas.directory_failed("/c", OSError("simulated"))
    assert node.move("/c") is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.move("/b", "later") is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_other_directory_fails() -> None:
    node = started()
    node.step()
    node.fail("/b")
    node.settle()
    assert (node.place, node.values()) == ("/a", expected(20))
    assert not node.logs.futures
    assert node.told in ([], [B, A])


def test_the_own_directory_fails_before_the_swap() -> None:
    node = started()
    node.held = True
    for _ in range(20):
        node.step(50)
    assert node.told == [B]
    node.replicas.directory_failed("/a", OSError("simulated"))
    assert node.told == [B, A], "the controller must not take the replica for a healthy one"
    assert node.produce(b"x").answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_future_log_whose_partition_is_lost_takes_its_place_only_if_it_is_assigned() -> None:
    for metadata, found in ((A, False), (B, True)):
        node = started()
        node.held = True
        for _ in range(20):
            node.step(50)
        node.logs.close()
        node.fail("/a")
        again = Mover(node.disk, metadata=metadata)
        assert (again.replicas.partition("t", 0).log is not None) is found
        if found:
            assert (again.place, again.values()) == ("/b", expected(20))


def test_deleted_with_its_topic() -> None:
    node = started()
    node.step()
    node.replicas.remove_topic(node.image())
    node.step(100)
    assert not node.logs.futures
    node.logs.remove_doomed(node.clock.ms + 100_000)
    node.flush()
    assert not [name for name in node.disk.names if "/t-0" in name]


def test_the_rate_is_kept() -> None:
    node = Mover()
    for _ in range(40):
        node.produce(b"x" * 100)
    node.turn()
    size = node.log.size
    node.replicas.moves.quota.rate = 1_000
    assert node.move("/b") is ErrorCode.NONE
    start_ms, passed_ms = node.clock.ms, 0
    while len(node.replicas.moves):
        node.step(20)
        passed_ms = node.clock.ms - start_ms
        assert passed_ms < 100_000
    assert passed_ms >= (size - 2 * 400) // 1_000 * 1_000
    assert node.place == "/b"


def test_a_topic_whose_name_does_not_fit_into_that_of_a_future_log() -> None:
    name = "n" * 249
    long = replace(topic(name), topic_id=b"L" * 16)
    node = Mover()
    node.replicas.apply_topic(long, is_new=True)
    node.produce(b"1", name=name)
    source = node.replicas.partition(name, 0).online_log().parent_directory
    target = next(path for path in IDS if path != source)
    assert node.move(target, name) is ErrorCode.NONE
    node.logs.close()
    again = Mover(node.disk)
    again.replicas.apply_topic(long)
    again.settle()
    log = again.replicas.partition(name, 0).online_log()
    assert (log.directory, log.log_end_offset) == (f"{target}/{name}-0", 1)


@pytest.mark.parametrize("flush_before_ack", [False, True])
@pytest.mark.parametrize("end", ["kill", "power cut"])
def test_nothing_is_lost_at_any_step(end: str, flush_before_ack: bool) -> None:
    stop = 0
    stopped = True
    while stopped:
        node = Mover(flush_before_ack=flush_before_ack)
        for number in range(6):
            node.produce(b"%d" % number)
            node.flush()
        node.log.flush()
        left = stop

        def fails(operation: str, path: str) -> bool:
            nonlocal left
            if operation in STEPS:
                left -= 1
                if left < 0:
                    raise Stopped
            return False

        node.disk.fails = fails
        stopped = False
        acknowledged = 6
        try:
            assert node.move("/b") is ErrorCode.NONE
            for number in range(6, 10):
                node.step(1)
                pending = node.produce(b"%d" % number)
                node.flush()
                if flush_before_ack and pending.answer is not None:
                    acknowledged = number + 1
            node.settle()
            node.logs.remove_doomed(node.clock.ms + 100_000)
            node.flush()
        except Stopped:
            stopped = True
        node.disk.fails = lambda operation, path: False
        if end == "kill":
            node.disk.kill()
        else:
            node.disk.power_cut(random.Random(stop))
        again = Mover(node.disk, metadata=node.metadata)
        assert again.values()[:acknowledged] == expected(acknowledged), (stop, left)
        if stopped and again.place == "/a" and len(again.logs.futures):
            again.settle()
            assert again.place == "/b"
        assert again.values()[:acknowledged] == expected(acknowledged), (stop, left)
        stop += 1
    assert stop > 30
