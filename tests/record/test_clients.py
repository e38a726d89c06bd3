"""Batches between this code and two client libraries, both directions, every codec."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from barnabas.record.build import build_batch
from barnabas.record.compression import Codec
from barnabas.record.read import read_records
from barnabas.record.validate import AppendRules, assign_offsets, validate
from tests.record.record_strategies import RECORDS

BIG = [(1000 + index, b"key", bytes([index]) * 5000, ()) for index in range(60)]
each_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)


def with_kafka_python(records, codec):
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 30)
    for timestamp, key, value, headers in records:
        assert builder.append(timestamp, key, value, list(headers)) is not None
    builder.close()
    return builder.buffer()


def with_aiokafka(records, codec):
    builder = AioBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp, key, value, list(headers))
    return builder.build()


def by_kafka_python(data):
    for batch in MemoryRecords(bytes(data)):
        assert batch.validate_crc()
        for record in batch:
            yield (
                record.offset,
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                tuple(record.headers),
            )


def by_aiokafka(data):
    records = AioRecords(bytes(data))
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            yield (
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple(record.headers),
            )


WRITERS = [with_kafka_python, with_aiokafka]
READERS = [by_kafka_python, by_aiokafka]


def expected(records, first_offset=0):
    return [(first_offset + index, *record) for index, record in enumerate(records)]


@each_codec
@pytest.mark.parametrize("write", WRITERS)
@settings(max_examples=40)
@given(records=RECORDS)
def test_what_they_write_is_accepted_and_read(write, codec, records):
    batch = write(records, codec)
    assert [tuple(record) for record in read_records(batch)] == expected(records)
    validated = validate(memoryview(batch), AppendRules(), now_ms=1 << 45)
    assert validated.record_count == len(records)
    assert assign_offsets(validated, 70, 4) == 70 + len(records)
    assert [tuple(record) for record in read_records(validated.buffer)] == expected(records, 70)


@each_codec
@pytest.mark.parametrize("read", READERS)
@settings(max_examples=40)
@given(records=RECORDS)
def test_they_read_what_is_written_here(read, codec, records):
    assert list(read(build_batch(records, codec=codec))) == expected(records)


@each_codec
@pytest.mark.parametrize("write", WRITERS)
def test_big_batches_of_theirs(write, codec):
    assert [tuple(record) for record in read_records(write(BIG, codec))] == expected(BIG)


@each_codec
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("codec_of_topic", list(Codec), ids=lambda codec: codec.name)
def test_they_read_what_a_topic_recompressed(read, codec, codec_of_topic):
    rules = AppendRules(codec=codec_of_topic)
    validated = validate(memoryview(build_batch(BIG, codec=codec)), rules, now_ms=1000)
    assert validated.headers[0].compression == codec_of_topic
    assign_offsets(validated, 5, 1)
    assert list(read(validated.buffer)) == expected(BIG, 5)


def test_their_old_formats_are_recognised():
    for magic in (0, 1):
        builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
        builder.append(1, b"k", b"v")
        builder.close()
        with pytest.raises(Exception, match=f"message format {magic} is not supported"):
            list(read_records(builder.buffer()))
