"""What a leader accepts, changes and refuses."""

from __future__ import annotations

from struct import pack_into

import pytest
from crc32c import crc32c

from barnabas.record.batch import (
    BATCH_OVERHEAD,
    TimestampType,
    iterate_batches,
    read_header,
    verify_crc,
)
from barnabas.record.build import build_batch
from barnabas.record.compression import Codec
from barnabas.record.kernels import MAX_REFUSED
from barnabas.record.read import read_records
from barnabas.record.validate import (
    AppendOrigin,
    AppendRules,
    RecordsRefused,
    assign_offsets,
    validate,
    validate_replicated,
)
from barnabas.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
RULES = AppendRules(topic_partition="castle-0")
THREE = [(NOW_MS + step, b"k%d" % step, b"v" * 50, ()) for step in (0, 5, 3)]
each_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)


def sealed(batch: bytearray) -> memoryview:
    """The batch with the checksum its bytes now have."""
    pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return memoryview(batch)


def changed(batch: bytearray, form: str, position: int, value: int) -> memoryview:
    pack_into(form, batch, position, value)
    return sealed(batch)


def refusal(records, rules=RULES, now_ms=NOW_MS, **options) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        validate(memoryview(records), rules, now_ms, **options)
    return caught.value


@each_codec
def test_an_accepted_batch_stays_the_same_memory(codec):
    batch = build_batch(THREE, codec=codec)
    before = bytes(batch)
    validated = validate(memoryview(batch), RULES, NOW_MS)
    assert validated.buffer.obj is batch
    assert bytes(batch) == before
    assert validated.record_count == 3
    assert validated.max_timestamp == NOW_MS + 5
    assert validated.offset_of_max_timestamp == 1
    assert validated.log_append_time_ms == -1

    assert assign_offsets(validated, 100, 7) == 103
    assert validated.buffer.obj is batch
    header = read_header(batch)
    verify_crc(batch, header, 0)
    assert header == validated.headers[0]
    assert (header.base_offset, header.last_offset) == (100, 102)
    assert header.partition_leader_epoch == 7
    assert validated.offset_of_max_timestamp == 101
    assert bytes(batch)[16:] == before[16:]


def test_read_only_memory_is_copied_when_it_must_change():
    batch = bytes(build_batch(THREE))
    validated = validate(memoryview(batch), RULES, NOW_MS)
    assign_offsets(validated, 9, 1)
    assert read_header(validated.buffer).base_offset == 9
    assert read_header(batch).base_offset == 0


@each_codec
def test_log_append_time_is_written_in_place(codec):
    batch = build_batch(THREE, codec=codec)
    rules = AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
    validated = validate(memoryview(batch), rules, 42)
    assign_offsets(validated, 10, 0)
    assert validated.buffer.obj is batch
    assert validated.log_append_time_ms == validated.max_timestamp == 42
    assert validated.offset_of_max_timestamp == 10
    header = read_header(batch)
    verify_crc(batch, header, 0)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in read_records(batch)} == {42}


def test_log_append_time_does_not_care_what_time_producers_say():
    batch = build_batch([(5, None, b"v", ()), (1 << 62, None, b"v", ())])
    rules = AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME, timestamp_before_max_ms=1)
    assert validate(memoryview(batch), rules, NOW_MS).max_timestamp == NOW_MS


@each_codec
@pytest.mark.parametrize("codec_of_topic", list(Codec), ids=lambda codec: codec.name)
def test_a_topics_codec(codec, codec_of_topic):
    batch = build_batch(THREE, codec=codec, producer_id=4, producer_epoch=1, base_sequence=8)
    before = read_header(batch)
    validated = validate(memoryview(batch), AppendRules(codec=codec_of_topic), NOW_MS)
    assert (validated.buffer.obj is batch) == (codec == codec_of_topic)
    header = validated.headers[0]
    verify_crc(validated.buffer, header, 0)
    assert header.compression == codec_of_topic
    for name in ("producer_id", "producer_epoch", "base_sequence", "max_timestamp", "record_count"):
        assert getattr(header, name) == getattr(before, name)
    assert list(read_records(validated.buffer)) == list(read_records(batch))


def test_recompression_may_not_pass_the_largest_size():
    batch = build_batch([(NOW_MS, None, bytes(10_000), ())], codec=Codec.ZSTD)
    rules = AppendRules(codec=Codec.NONE, max_message_bytes=5000)
    assert refusal(batch, rules).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_wrong_largest_timestamp_is_corrected():
    batch = build_batch(THREE)
    view = changed(batch, ">q", 35, NOW_MS + 1000)
    validated = validate(view, RULES, NOW_MS)
    header = read_header(batch)
    assert header.max_timestamp == validated.max_timestamp == NOW_MS + 5
    verify_crc(batch, header, 0)


def test_offsets_that_do_not_count_from_zero_are_rewritten():
    batch = build_batch(THREE, offsets=[0, 5, 9])
    pack_into(">i", batch, 23, 2)
    validated = validate(sealed(batch), RULES, NOW_MS)
    assign_offsets(validated, 20, 0)
    assert [record.offset for record in read_records(validated.buffer)] == [20, 21, 22]


def test_a_part_of_a_second_batch_is_cut_off():
    batch = build_batch(THREE)
    validated = validate(memoryview(batch + batch[:40]), RULES, NOW_MS)
    assert len(validated.buffer) == len(batch)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (b"", "must have at least one record batch"),
        (build_batch(THREE)[:70], "must have at least one record batch"),
        (build_batch(THREE) * 2, "exactly one record batch"),
        (bytes(12), "must have at least one record batch"),
    ],
    ids=["nothing", "part of one", "two", "an empty frame"],
)
def test_exactly_one_batch(records, message):
    refused = refusal(records)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert message in str(refused.message)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic):
    batch = build_batch(THREE)
    batch[16] = magic
    refused = refusal(batch)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert "magic version 2" in str(refused.message)


def test_wrong_checksum():
    batch = build_batch(THREE)
    batch[-1] ^= 1
    assert refusal(batch).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [-1, 0, 13, 48])
def test_a_size_no_batch_has(size):
    batch = build_batch(THREE)
    pack_into(">i", batch, 8, size)
    assert refusal(batch).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_unknown_magic(magic):
    batch = build_batch(THREE)
    pack_into(">b", batch, 16, magic)
    assert refusal(batch).code == ErrorCode.CORRUPT_MESSAGE


def test_too_large():
    batch = build_batch(THREE)
    exactly = AppendRules(max_message_bytes=len(batch))
    assert validate(memoryview(batch), exactly, NOW_MS)
    refused = refusal(batch, AppendRules(max_message_bytes=len(batch) - 1))
    assert refused.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("form", "position", "value"),
    [
        (">q", 0, 1),
        (">i", 57, 4),
        (">i", 57, 2),
        (">i", 57, 0),
        (">i", 57, -1),
        (">i", 57, 0x7FFFFFFF),
        (">i", 23, 3),
        (">i", 23, -1),
        (">h", 21, 0x20),
        (">h", 21, 0x30),
        (">q", 43, 0),
    ],
    ids=[
        "base offset",
        "count too high",
        "count too low",
        "count zero",
        "count negative",
        "count huge",
        "last offset delta",
        "last offset delta negative",
        "control",
        "control transactional",
        "producer id without sequence",
    ],
)
def test_headers_no_client_may_send(form, position, value):
    refused = refusal(changed(build_batch(THREE), form, position, value))
    assert refused.code == ErrorCode.INVALID_RECORD


@each_codec
@pytest.mark.parametrize("count", [2, 4])
def test_counts_that_lie_about_the_records(codec, count):
    batch = build_batch(THREE, codec=codec)
    pack_into(">i", batch, 23, count - 1)
    refused = refusal(changed(batch, ">i", 57, count))
    assert refused.code == ErrorCode.INVALID_RECORD
    assert "castle-0" in str(refused.message)


def test_bytes_after_the_last_record():
    batch = build_batch(THREE) + b"\0"
    refused = refusal(changed(batch, ">i", 8, len(batch) - 12))
    assert refused.code == ErrorCode.INVALID_RECORD


def test_overlong_varint():
    body = bytes([0]) + b"\x80" * 10 + bytes([0, 0, 1, 1, 0])
    batch = build_batch([])
    batch += bytes([2 * len(body)]) + body
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">i", batch, 23, 0)
    assert refusal(changed(batch, ">i", 57, 1)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec):
    refused = refusal(changed(build_batch(THREE), ">h", 21, codec))
    assert refused.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_zstd_needs_a_producer_that_knows_it():
    batch = build_batch(THREE, codec=Codec.ZSTD)
    assert refusal(batch, produce_version=6).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(memoryview(batch), RULES, NOW_MS, produce_version=7)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_broken_compression(codec):
    batch = build_batch(THREE)
    refused = refusal(changed(batch, ">h", 21, codec))
    assert refused.code == ErrorCode.INVALID_RECORD


def test_records_without_keys_in_a_compacted_topic():
    records = [(NOW_MS, key, b"v", ()) for key in (b"", None, b"k", None)]
    rules = AppendRules(topic_partition="castle-0", is_compacted=True)
    refused = refusal(build_batch(records), rules)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert [index for index, _message in refused.record_errors] == [1, 3]
    assert refused.record_errors[0][1] == (
        "Compacted topic cannot accept message without key in topic partition castle-0"
    )
    assert "2 record errors in total" in str(refused.message)


@each_codec
def test_timestamps_outside_the_bounds(codec):
    rules = AppendRules(timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=10)
    times = [NOW_MS - HOUR_MS, NOW_MS - HOUR_MS - 1, NOW_MS + 10, NOW_MS + 11, -1]
    refused = refusal(build_batch([(ms, None, b"v", ()) for ms in times], codec=codec), rules)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _message in refused.record_errors] == [1, 3]
    assert f"should be within [{NOW_MS - HOUR_MS}, {NOW_MS + 10}]" in refused.record_errors[0][1]


def test_the_future_is_an_hour_by_default_and_the_past_unbounded():
    batch = build_batch([(0, None, b"v", ()), (NOW_MS + HOUR_MS, None, b"v", ())])
    assert validate(memoryview(batch), RULES, NOW_MS)
    batch = build_batch([(NOW_MS + HOUR_MS + 1, None, b"v", ())])
    assert refusal(batch).code == ErrorCode.INVALID_TIMESTAMP


def test_record_errors_are_bounded():
    batch = build_batch([(1 << 60, None, None, ())] * (MAX_REFUSED + 5))
    assert len(refusal(batch).record_errors) == MAX_REFUSED


def test_a_producer_may_not_claim_log_append_time():
    batch = build_batch(THREE, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=-1)
    refused = refusal(batch)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert refused.record_errors[0][0] == 0


def test_the_node_itself_may_append_control_batches_and_several():
    control = build_batch(
        [(NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0", ())],
        is_control=True,
        is_transactional=True,
        producer_id=3,
        producer_epoch=1,
    )
    data = build_batch(THREE, codec=Codec.LZ4)
    rules = AppendRules(origin=AppendOrigin.COORDINATOR, codec=Codec.ZSTD)
    validated = validate(memoryview(control + data), rules, NOW_MS)
    assert assign_offsets(validated, 50, 2) == 54
    headers = [header for header, _start, _end in iterate_batches(validated.buffer)]
    assert headers == validated.headers
    assert [header.base_offset for header in headers] == [50, 51]
    assert [header.is_control for header in headers] == [True, False]
    assert [header.compression for header in headers] == [Codec.NONE, Codec.ZSTD]
    assert validated.offset_of_max_timestamp == 52
    assert validated.record_count == 4


class TestReplicated:
    def test_offsets_and_epochs_are_kept(self):
        first = build_batch(THREE, base_offset=10, partition_leader_epoch=1)
        second = build_batch(THREE, base_offset=20, partition_leader_epoch=2, codec=Codec.GZIP)
        fetched = memoryview(bytes(first + second + second[:30]))
        validated = validate_replicated(fetched)
        assert validated.buffer == fetched[: len(first + second)]
        assert [header.base_offset for header in validated.headers] == [10, 20]
        assert [header.partition_leader_epoch for header in validated.headers] == [1, 2]
        assert validated.record_count == 6
        assert validated.max_timestamp == NOW_MS + 5
        assert validated.offset_of_max_timestamp == 12

    def test_nothing_is_nothing(self):
        validated = validate_replicated(memoryview(b""))
        assert (validated.headers, len(validated.buffer)) == ([], 0)

    @pytest.mark.parametrize("position", [8, 16, BATCH_OVERHEAD])
    def test_damage_is_corrupt(self, position):
        batch = build_batch(THREE)
        batch[position] ^= 0x81
        with pytest.raises(RecordsRefused) as caught:
            validate_replicated(memoryview(batch))
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
