"""The files on disk are Apache Kafka's: its dump-log reads ours, and topics change hands.

A directory moves between brokers while both are stopped. The topic is created on the other side
first, and that side's `partition.metadata` stays, because topic ids belong to a cluster.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.peers import apache, jvm, systems
from tests.peers.apache import run_tool
from tests.peers.clients import ALL_CODECS, CLIENTS, Record
from tests.peers.topics import create_topic

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

START_MS = 1_700_000_000_000
PER_CODEC = 120
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}


def records_of(partition: int, count: int) -> list[Record]:
    """Compressible records with headers, null keys and values among them."""
    headers = (("h", b"1"), ("null", None))
    return [
        Record(
            partition,
            None if n % 7 == 0 else b"key-%d" % n,
            None if n % 11 == 0 else b"value-%d " % n * 6,
            headers if n % 3 == 0 else (),
            START_MS + n,
        )
        for n in range(count)
    ]


def write_all_codecs(bootstrap: str, topic: str) -> list[Record]:
    """Five kinds of batches in partition 0; returns what a reader must see."""
    everything: list[Record] = []
    for number, codec in enumerate(ALL_CODECS):
        records = records_of(0, PER_CODEC)
        CLIENTS["confluent"].produce(
            bootstrap, topic, records, codec=codec, idempotent=number % 2 == 0
        )
        everything += records
    return everything


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """The data directory of a stopped system under test, and the records in its topic `t`."""
    if (reason := systems.missing()) is not None:
        pytest.skip(reason)
    system = systems.start_system(tmp_path_factory.mktemp("written"))
    create_topic(system.bootstrap, "t", 1, SMALL_SEGMENTS)
    create_topic(system.bootstrap, "big", 1, SMALL_SEGMENTS)
    records = write_all_codecs(system.bootstrap, "t")
    filling = [Record(0, b"k%d" % n, bytes([n % 251]) * 5000) for n in range(700)]
    CLIENTS["kafka_python"].produce(system.bootstrap, "big", filling)
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, 42, metadata="m")], asynchronous=False)
    consumer.close()
    system.stop()
    return system.data_dir, records


def dump(file: Path, *options: str) -> str:
    return run_tool("DumpLogSegments", ["--files", str(file), *options]).check()


def test_dump_log_shows_the_same_records(written: tuple[Path, list[Record]]) -> None:
    data_dir, records = written
    text = dump(data_dir / "t-0" / f"{0:020}.log", "--print-data-log", "--deep-iteration")
    found = re.findall(
        r"^\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+).* "
        r"headerKeys: \[(.*?)\](?: key: (\S+))?(?: payload: (.*))?$",
        text,
        re.M,
    )
    assert len(found) == len(records)
    for n, (row, record) in enumerate(zip(found, records, strict=True)):
        offset, timestamp, key_size, value_size, headers, key, payload = row
        assert (int(offset), int(timestamp)) == (n, record.timestamp)
        assert int(key_size) == (-1 if record.key is None else len(record.key))
        assert int(value_size) == (-1 if record.value is None else len(record.value))
        assert headers == ",".join(name for name, _ in record.headers)
        assert key == (record.key or b"").decode()
        assert payload == (record.value or b"").decode()
    batches = re.findall(r"^baseOffset: .*$", text, re.M)
    assert all("isvalid: true" in batch for batch in batches)
    for codec in ALL_CODECS:
        assert any(f"compresscodec: {codec}" in batch for batch in batches)


def test_dump_log_checks_the_indexes(written: tuple[Path, list[Record]]) -> None:
    data_dir, _ = written
    segments = sorted((data_dir / "big-0").glob("*.log"))
    assert len(segments) >= 3
    for segment in segments:
        offset_index = dump(segment.with_suffix(".index"))
        time_index = dump(segment.with_suffix(".timeindex"))
        for text in (offset_index, time_index):
            assert "Mismatches in" not in text
            assert "Found timestamp mismatch" not in text
            assert "corrupt" not in text.lower()
            assert "out of order" not in text.lower()
    full = dump(segments[0].with_suffix(".index"))
    assert len(re.findall(r"^offset: \d+ position: \d+", full, re.M)) > 10
    checked = dump(segments[0].with_suffix(".index"), "--index-sanity-check")
    assert "passed sanity check" in checked


def test_dump_log_reads_snapshots_and_internal_topics(written: tuple[Path, list[Record]]) -> None:
    data_dir, _ = written
    snapshots = sorted((data_dir / "t-0").glob("*.snapshot"))
    assert snapshots
    states = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) .*lastSequence: (\d+)", dump(snapshots[-1])
    )
    assert [(epoch, int(last)) for _, epoch, last in states] == [("0", PER_CODEC - 1)] * 3
    offsets = ""
    for segment in data_dir.glob("__consumer_offsets-*/*.log"):
        offsets += dump(segment, "--offsets-decoder")
    assert re.search(r'"group":"g","topic":"t","partition":0', offsets)
    assert re.search(r'"offset":42,.*"metadata":"m', offsets)


def test_dump_log_reads_the_metadata_log(written: tuple[Path, list[Record]]) -> None:
    data_dir, _ = written
    text = ""
    for segment in sorted((data_dir / "__cluster_metadata-0").glob("*.log")):
        text += dump(segment, "--cluster-metadata-decoder")
    kinds = set(re.findall(r'"type":"([A-Z_]+)"', text))
    assert kinds >= {"FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "TOPIC_RECORD",
                     "PARTITION_RECORD", "CONFIG_RECORD", "PRODUCER_IDS_RECORD"}  # fmt: skip
    assert "isvalid: false" not in text


def test_metadata_shell_opens_the_metadata_log(
    written: tuple[Path, list[Record]], eventually: Callable[..., None]
) -> None:
    data_dir, _ = written
    segment = min((data_dir / "__cluster_metadata-0").glob("*.log"))
    arguments = ["--snapshot", str(segment), "ls", "/image/topics/byName"]
    # Apache's shell now and then lists its image before the file is loaded.
    eventually(lambda: {"t", "big"} <= set(run_tool("MetadataShell", arguments).check().split()))


def test_topic_directories_change_hands(written: tuple[Path, list[Record]], tmp_path: Path) -> None:
    """Apache Kafka reads the system's directory, and the system reads Apache Kafka's."""
    data_dir, records = written
    other = apache.start_broker(tmp_path / "apache")
    try:
        create_topic(other.bootstrap, "t", 1)
        create_topic(other.bootstrap, "theirs", 1)
        theirs = write_all_codecs(other.bootstrap, "theirs")
        other.stop()
        replace_topic(data_dir / "t-0", other.data_dir / "t-0")
        other.restart()
        assert_same(other.bootstrap, "t", records)
        continues_at(other.bootstrap, "t", len(records))
        other.stop()
    finally:
        other.kill()

    system = systems.start_system(tmp_path / "system")
    try:
        create_topic(system.bootstrap, "theirs", 1)
        system.stop()
        replace_topic(other.data_dir / "theirs-0", system.data_dir / "theirs-0")
        system.restart()
        assert_same(system.bootstrap, "theirs", theirs)
        continues_at(system.bootstrap, "theirs", len(theirs))
        system.stop()
    finally:
        system.kill()


def replace_topic(source: Path, target: Path) -> None:
    for file in target.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata":
            shutil.copy2(file, target / file.name)


def assert_same(bootstrap: str, topic: str, records: list[Record]) -> None:
    found = CLIENTS["java"].consume(bootstrap, topic, len(records))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (n, r.timestamp, r.key, r.value, r.headers) for n, r in enumerate(records)
    ]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"times-{time.time_ns()}"})
    by_time = consumer.offsets_for_times([TopicPartition(topic, 0, START_MS + 100)], timeout=20)
    assert by_time[0].offset == 100
    consumer.close()


def continues_at(bootstrap: str, topic: str, offset: int) -> None:
    CLIENTS["confluent"].produce(bootstrap, topic, [Record(0, b"k", b"next")], idempotent=True)
    found = CLIENTS["confluent"].consume(bootstrap, topic, offset + 1)
    assert (found[-1].offset, found[-1].value) == (offset, b"next")
