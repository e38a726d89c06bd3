"""Our files under Apache Kafka's dump-log, Apache Kafka's files under our log."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.disk import InlineBackground, RealDisk
from barnabas.log.log import AppendOrigin, Log
from barnabas.log.manager import LogManager
from tests.log.batches import NOW_MS, batch, marker, read_all
from tests.peers import apache

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(apache.missing() is not None, reason=apache.missing() or ""),
]


class Clock:
    def now_ms(self) -> int:
        return NOW_MS

    monotonic_ms = monotonic_ns = now_ms


def manager_of(directory: Path, config: LogConfig) -> LogManager:
    logs = LogManager(
        RealDisk(),
        InlineBackground(),
        [str(directory)],
        config_of=lambda topic: config,
        clock=Clock(),
        randomness=random.Random(1),
    )
    logs.load()
    return logs


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    paths = ",".join(str(file) for file in files)
    return apache.run_tool("DumpLogSegments", ["--files", paths, *options]).check()


def test_dump_log_reads_what_we_wrote(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    config = LogConfig(internal_segment_bytes=20_000, index_interval_bytes=200)
    log = Log.open(RealDisk(), str(directory), config, now_ms=NOW_MS)
    for number in range(300):
        data = batch(
            b"value %d" % number,
            key=b"key",
            timestamp_ms=NOW_MS + number,
            codec=number % 5,
            producer=(7, 0, number),
        )
        log.append_as_leader(data, number // 100, NOW_MS)
    transaction = batch(b"t", producer=(8, 1, 0), transactional=True)
    log.append_as_leader(transaction, 3, NOW_MS, AppendOrigin.COORDINATOR)
    log.append_as_leader(marker(8, 1, commit=False), 3, NOW_MS, AppendOrigin.COORDINATOR)
    log.close()

    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 1
    printed = dump(*logs, options=("--deep-iteration", "--print-data-log"))
    for number in range(300):
        assert f"payload: value {number}\n" in printed or f"payload: value {number} " in printed
    assert "endTxnMarker: ABORT" in printed
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed

    indexes = sorted(directory.glob("*.index")) + sorted(directory.glob("*.timeindex"))
    printed = dump(*indexes, options=("--index-sanity-check",))
    assert printed.count("passed sanity check") == len(indexes)
    printed = dump(*indexes, options=("--verify-index-only",))
    assert "Mismatches" not in printed
    assert "Found" not in printed

    printed = dump(*directory.glob("*.txnindex"))
    assert "producerId: 8" in printed
    assert "firstOffset: 300" in printed
    printed = dump(directory / "00000000000000000302.snapshot")
    assert "producerId: 7 producerEpoch: 0" in printed
    assert "lastSequence: 299" in printed


def test_dump_log_reads_what_we_compacted(tmp_path: Path) -> None:
    """Batches in part, emptied ones, delete horizons of tombstones and markers."""
    config = LogConfig(
        cleanup_policy=frozenset(("compact",)),
        min_cleanable_dirty_ratio=0.0,
        index_interval_bytes=0,
    )
    logs = manager_of(tmp_path, config)
    log = logs.get_or_create("t", 0, b"\1" * 16)

    def write(data: memoryview) -> None:
        log.append_as_leader(data, 0, NOW_MS, AppendOrigin.COORDINATOR)

    for codec in range(5):
        write(batch(b"old", b"kept", keys=[b"a", b"b%d" % codec], codec=codec))
    write(batch(None, key=b"gone"))
    write(batch(b"last", key=b"a", producer=(5, 0, 0)))
    write(batch(b"newer", key=b"a"))
    write(batch(b"committed", key=b"c", producer=(6, 0, 0), transactional=True))
    write(marker(6, 0, commit=True))
    write(batch(b"c2", key=b"c"))
    log.update_high_watermark(log.log_end_offset)
    for round_number in range(2):
        log.roll(NOW_MS)
        assert logs.clean_once(NOW_MS + round_number)
        write(batch(b"%d" % round_number, key=b"round"))
        log.update_high_watermark(log.log_end_offset)
    logs.close()
    segment = tmp_path / "t-0" / f"{0:020d}"
    printed = dump(segment.with_suffix(".log"), options=("--deep-iteration", "--print-data-log"))
    assert "isvalid: false" not in printed
    assert "payload: old" not in printed
    assert printed.count("payload: kept") == 5
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in printed
    horizon = NOW_MS + config.delete_retention_ms
    assert printed.count(f"deleteHorizonMs: OptionalLong[{horizon}]") >= 1
    assert "count: 0" in printed, "the last batch of a producer stays without its records"
    assert "endTxnMarker: COMMIT" in printed
    for kind in (".index", ".timeindex"):
        checked = dump(segment.with_suffix(kind), options=("--verify-index-only",))
        assert "Mismatches" not in checked
        assert "Found" not in checked


@pytest.fixture(scope="module")
def apache_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The data directory of an Apache Kafka broker: while it runs, and after it was stopped."""
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, NewTopic

    base = tmp_path_factory.mktemp("apache")
    broker = apache.start_broker(base / "broker")
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        settings = {"segment.bytes": str(1 << 20), "index.interval.bytes": "512"}
        admin.create_topics([NewTopic("t", 1, 1, config=settings)])["t"].result(30)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": True,
                    "linger.ms": 5,
                }
            )
            for number in range(2000):
                value = b"%s %d " % (codec.encode(), number) + os.urandom(200)
                producer.produce("t", value, b"k%d" % number, timestamp=NOW_MS + number)
            assert producer.flush(30) == 0
        shutil.copytree(broker.data_dir, base / "running")
    finally:
        broker.stop()
    return {"running": base / "running", "stopped": broker.data_dir}


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_we_read_what_apache_wrote(
    apache_data: dict[str, Path], tmp_path: Path, state: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(apache_data[state], data)

    logs = manager_of(data, LogConfig())
    assert logs.directories[0].was_clean == (state == "stopped")
    log = logs.get("t", 0)
    assert log is not None
    assert log.topic_id is not None
    assert len(log.segments) > 1
    assert log.log_end_offset == 10_000
    records = read_all(log)
    assert [record.offset for record in records] == list(range(10_000))
    assert records[0].value is not None
    assert records[0].value.startswith(b"none 0 ")
    assert records[9999].timestamp == NOW_MS + 1999
    found = log.find_offset_by_timestamp(NOW_MS + 500)
    assert found is not None
    assert found.offset == 500
    last = log.find_max_timestamp()
    assert last is not None
    assert (last.timestamp_ms, last.offset) == (NOW_MS + 1999, 1999)
    assert log.epochs.entries() == [(0, 0)]
    assert len(log.active_producers()) == 5
    assert {producer.last_sequence for producer in log.active_producers()} == {1999}

    info = log.append_as_leader(batch(b"ours"), 1, NOW_MS)
    assert info.first_offset == 10_000
    logs.close()
    printed = dump(Path(log.segments[-1].path(".log")), options=("--print-data-log",))
    assert "payload: ours" in printed
