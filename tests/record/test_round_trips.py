"""What is built can be read, with every codec, by every reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.record.arrow import read_arrow
from barnabas.record.batch import TimestampType, iterate_batches, read_header, verify_crc
from barnabas.record.build import build_batch
from barnabas.record.compression import Codec
from barnabas.record.read import batch_records, read_records
from tests.record.record_strategies import ANY_RECORDS, RECORDS

CODECS = st.sampled_from(list(Codec))


@given(ANY_RECORDS, CODECS, st.integers(0, 1 << 62))
def test_records_come_back(records, codec, base_offset):
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    assert [tuple(record) for record in read_records(batch)] == [
        (base_offset + index, *record) for index, record in enumerate(records)
    ]


@given(RECORDS, CODECS)
def test_the_header_describes_the_batch(records, codec):
    batch = build_batch(
        records,
        codec=codec,
        base_offset=7,
        producer_id=5,
        producer_epoch=3,
        base_sequence=11,
        partition_leader_epoch=2,
        is_transactional=True,
    )
    header = read_header(batch)
    verify_crc(batch, header, 0)
    assert header.size_in_bytes == len(batch)
    assert header.base_offset == 7
    assert header.last_offset == 6 + len(records)
    assert header.next_offset == 7 + len(records)
    assert header.record_count == len(records)
    assert header.max_timestamp == max(record[0] for record in records)
    assert header.base_timestamp == records[0][0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, 11)
    assert header.last_sequence == 10 + len(records)
    assert header.partition_leader_epoch == 2
    assert header.compression == codec
    assert header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms is None


@given(st.lists(st.tuples(ANY_RECORDS, CODECS), max_size=4), st.data())
def test_batches_one_after_another_with_a_cut_tail(batches, data):
    built = [build_batch(records, codec=codec) for records, codec in batches]
    whole = b"".join(built)
    kept = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, built[: index + 1])) for index in range(len(built))]
    found = [end for _header, _start, end in iterate_batches(whole[:kept], partial_tail=True)]
    assert found == [end for end in ends if end <= kept]


@given(RECORDS, CODECS, st.integers(0, 1 << 45))
def test_log_append_time_is_every_records_time(records, codec, now_ms):
    batch = build_batch(
        records,
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=now_ms,
    )
    assert {record.timestamp for record in read_records(batch)} == {now_ms}
    assert read_header(batch).timestamp_type is TimestampType.LOG_APPEND_TIME


@given(RECORDS, st.data())
def test_offsets_with_gaps_and_a_kept_range(records, data):
    size = len(records)
    offsets = sorted(data.draw(st.sets(st.integers(100, 1000), min_size=size, max_size=size)))
    batch = build_batch(records, base_offset=100, offsets=offsets, last_offset=2000)
    header = read_header(batch)
    assert [record[0] for record in batch_records(batch, header)] == offsets
    assert header.last_offset == 2000


@given(st.lists(st.tuples(ANY_RECORDS, CODECS), max_size=3))
def test_arrow_equals_tuples(batches):
    whole = b"".join(
        build_batch(records, codec=codec, base_offset=1000 * index)
        for index, (records, codec) in enumerate(batches)
    )
    table = read_arrow(whole)
    table.validate(full=True)
    as_tuples = [
        (
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in table.to_pylist()
    ]
    assert as_tuples == [tuple(record) for record in read_records(whole)]


def test_arrow_replaces_what_is_no_text_in_header_keys():
    batch = build_batch([(0, None, None, (("a\udcff", b"1"), ("fine", None)))])
    table = read_arrow(batch)
    assert table["headers"][0].as_py() == [
        {"key": "a�", "value": b"1"},
        {"key": "fine", "value": None},
    ]
    assert next(read_records(batch)).headers == (("a\udcff", b"1"), ("fine", None))


def test_control_batches_are_not_data():
    control = build_batch([(0, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], is_control=True)
    data = build_batch([(0, None, b"v", ())], base_offset=1)
    assert [record.offset for record in read_records(control + data)] == [1]
    assert [record.offset for record in read_records(control + data, control=True)] == [0, 1]
    assert read_arrow(control + data)["offset"].to_pylist() == [1]


def test_a_batch_emptied_by_compaction_keeps_its_range():
    batch = build_batch([], base_offset=10, offsets=[], last_offset=19)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 19, 0)
    assert list(read_records(batch)) == []


def test_a_delete_horizon_replaces_the_base_timestamp():
    batch = build_batch([(50, b"k", None, ()), (70, b"l", None, ())], delete_horizon_ms=60)
    header = read_header(batch)
    assert header.delete_horizon_ms == 60
    assert [record.timestamp for record in read_records(batch)] == [50, 70]


@pytest.mark.parametrize(
    "arguments",
    [
        {"base_offset": 5, "offsets": [4]},
        {"offsets": [3], "last_offset": 2},
        {"timestamp_type": TimestampType.LOG_APPEND_TIME},
        {"offsets": [1 << 31]},
    ],
)
def test_what_no_batch_can_be(arguments):
    with pytest.raises(ValueError, match=r"."):
        build_batch([(0, None, b"v", ())], **arguments)
