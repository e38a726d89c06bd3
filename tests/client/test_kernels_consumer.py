"""Records as objects and columns, compiled and interpreted."""

from __future__ import annotations

import gc
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client import kernels_consumer
from barnabas.client.columns import record_batch
from barnabas.client.serialization import deserializer
from barnabas.record.arrow import read_arrow
from barnabas.record.batch import TimestampType
from barnabas.record.build import build_batch
from barnabas.record.compression import Codec
from barnabas.record.errors import BadRecords, CorruptBatch, InvalidRecords, UnsupportedMagic
from barnabas.record.kernels import ColumnsBuilder
from barnabas.record.read import read_records
from tests.record.kernel_versions import interpreted

VERSIONS = [interpreted(kernels_consumer)]
if kernels_consumer.COMPILED:
    VERSIONS.insert(0, kernels_consumer)
each_version = pytest.mark.parametrize(
    "kernels", VERSIONS, ids=["compiled", "interpreted"][-len(VERSIONS) :]
)

RECORDS: list[Any] = [
    (1_000, b"k", b"v", (("h", b"1"), ("n", None))),
    (1_001, None, b"", ()),
    (-1, b"", None, ()),
    (1_002, b"key", b"x" * 300, (("empty", b""),)),
]
binary = st.none() | st.binary(max_size=80)
header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9))
records = st.lists(
    st.tuples(st.integers(-1, 1 << 40), binary, binary, st.lists(header, max_size=3)),
    min_size=1,
    max_size=12,
)


def open_only(kernels: Any, batch: bytes | bytearray, first_offset: int = 0) -> Any:
    fetched = kernels.FetchedRecords("t", 3, batch)
    assert fetched.advance()
    return fetched.open(None, first_offset)


def everything(kernels: Any, batch: bytes | bytearray) -> list[Any]:
    found: list[Any] = []
    open_only(kernels, batch).take(found, 1_000, None, None)
    return found


# -- the record


@each_version
def test_a_record_has_its_fields(kernels: Any) -> None:
    batch = build_batch(RECORDS[:1], base_offset=7, partition_leader_epoch=5)
    (record,) = everything(kernels, batch)
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("t", 3, 7, 1_000)
    assert (record.key, record.value, record.leader_epoch) == (b"k", b"v", 5)
    assert record.headers == (("h", b"1"), ("n", None))
    assert record.timestamp_type is TimestampType.CREATE_TIME
    assert (record.serialized_key_size, record.serialized_value_size) == (1, 1)


@each_version
def test_a_record_is_a_value(kernels: Any) -> None:
    def make(**changed: Any) -> Any:
        fields = {"topic": "t", "partition": 1, "offset": 2, "key": b"k", "value": {"a": 1}}
        return kernels.ConsumerRecord(**{**fields, **changed})

    record = make()
    assert record == make()
    assert hash(record) == hash(make())
    assert record != make(offset=3)
    assert record != make(value={"a": 2})
    assert record != ("t", 1, 2)
    assert "offset=2" in repr(record)
    assert (record.serialized_key_size, record.serialized_value_size) == (1, -1)
    with pytest.raises(AttributeError):
        record.offset = 5
    match record:
        case kernels.ConsumerRecord("t", 1, offset, value={"a": one}):
            assert (offset, one) == (2, 1)
        case _:
            pytest.fail("it does not match")


def test_a_record_can_be_pickled() -> None:
    record = kernels_consumer.ConsumerRecord("t", 1, 2, 3, 1, b"k", [1], [("h", b"")], 4)
    again = pickle.loads(pickle.dumps(record))
    assert again == record
    assert again.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert again.headers == (("h", b""),)


# -- batches


@each_version
@given(records)
def test_records_are_those_of_the_plain_reader(kernels: Any, written: list[Any]) -> None:
    batch = build_batch(written, base_offset=10)
    plain = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in read_records(batch)]
    found = everything(kernels, batch)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == plain


@each_version
@given(records, st.integers(0, 14), st.lists(st.integers(1, 5), max_size=8))
def test_any_pieces_make_the_whole(
    kernels: Any, written: list[Any], first: int, limits: list[int]
) -> None:
    batch = build_batch(written)
    found: list[Any] = []
    columns, runs = ColumnsBuilder(), []
    opened = open_only(kernels, batch, first)
    for index, limit in enumerate([*limits, 1_000]):
        if index % 2:
            rows = opened.take_columns(columns, limit)
            runs.append(("t", 3, opened.timestamp_type, rows))
        else:
            opened.take(found, limit, None, None)
    assert opened.left == 0
    assert opened.next_offset == -1
    table = record_batch(columns, runs).to_pylist()
    got = sorted([r.offset for r in found] + [row["offset"] for row in table])
    assert got == list(range(first, len(written)))
    whole = read_arrow(batch).to_pylist()
    for row in table:
        expected = whole[row["offset"]]
        assert (row["key"], row["value"], row["headers"]) == (
            expected["key"],
            expected["value"],
            expected["headers"],
        )


@each_version
def test_the_brokers_time_is_that_of_every_record(kernels: Any) -> None:
    batch = build_batch(
        RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=5_000
    )
    found = everything(kernels, batch)
    assert {r.timestamp for r in found} == {5_000}
    assert {r.timestamp_type for r in found} == {TimestampType.LOG_APPEND_TIME}


@each_version
def test_a_batch_whose_records_are_compacted_away(kernels: Any) -> None:
    batch = build_batch([], base_offset=5, last_offset=9)
    fetched = kernels.FetchedRecords("t", 0, batch)
    assert fetched.next_offset == 10
    assert fetched.advance()
    assert fetched.open(None, 5).left == 0


@each_version
def test_what_is_compressed_is_given_decompressed(kernels: Any) -> None:
    plain = build_batch(RECORDS)
    squeezed = build_batch(RECORDS, codec=Codec.ZSTD)
    fetched = kernels.FetchedRecords("t", 0, squeezed)
    assert fetched.advance()
    found: list[Any] = []
    fetched.open(memoryview(plain)[61:], 0).take(found, 9, None, None)
    assert [r.value for r in found] == [r[2] for r in RECORDS]


# -- deserializers


@each_version
def test_deserializers_are_called_but_not_for_null(kernels: Any) -> None:
    key = deserializer(lambda data: ("key", data), "key")
    value = deserializer(lambda topic, data: (topic, len(data)), "value")
    found: list[Any] = []
    open_only(kernels, build_batch(RECORDS)).take(found, 9, key, value)
    assert [r.key for r in found] == [("key", b"k"), None, ("key", b""), ("key", b"key")]
    assert [r.value for r in found] == [("t", 1), ("t", 0), None, ("t", 300)]
    assert [r.serialized_value_size for r in found] == [1, 0, -1, 300]


@each_version
def test_a_poison_record_stops_in_front_of_itself(kernels: Any) -> None:
    opened = open_only(kernels, build_batch([(0, None, b"%d" % i, ()) for i in (1, 2, 0, 4)]))
    value = deserializer(lambda data: 8 // int(data), "value")
    found: list[Any] = []
    assert opened.take(found, 9, None, value) == 2
    assert isinstance(opened.failure, ZeroDivisionError)
    assert opened.failed_field == "value"
    assert opened.peek_raw().value == b"0"
    assert opened.take(found, 9, None, value) == 0
    assert opened.take_raw().value == b"0"
    assert opened.failure is None
    assert opened.take(found, 9, None, value) == 1
    assert [r.value for r in found] == [8, 4, 2]


# -- answers


@each_version
def test_an_answer_is_walked_batch_by_batch(kernels: Any) -> None:
    first = build_batch(RECORDS[:2], base_offset=5, partition_leader_epoch=1)
    second = build_batch(RECORDS, base_offset=9, partition_leader_epoch=2)
    fetched = kernels.FetchedRecords("t", 0, first + second + second[:70])
    assert (fetched.next_offset, fetched.last_epoch) == (13, 2)
    assert fetched.left_bytes == len(first) + len(second)
    assert fetched.cut_size == len(second)
    assert not fetched.is_corrupt
    assert fetched.advance()
    assert (fetched.base_offset, fetched.last_offset, fetched.leader_epoch) == (5, 6, 1)
    assert fetched.left_bytes == len(second)
    assert fetched.advance()
    assert (fetched.start, fetched.end) == (len(first), len(first) + len(second))
    assert not fetched.advance()


@each_version
def test_nothing_and_less_than_a_batch(kernels: Any) -> None:
    for data in (b"", b"\0" * 11, bytes(build_batch(RECORDS))[:60]):
        fetched = kernels.FetchedRecords("t", 0, data)
        assert fetched.next_offset == -1
        assert not fetched.is_corrupt
        assert not fetched.advance()
        with pytest.raises(ValueError, match="no batch"):
            _ = fetched.last_offset


@each_version
@pytest.mark.parametrize(
    ("at", "value", "error"),
    [
        (16, 1, UnsupportedMagic),
        (16, 3, CorruptBatch),
        (8, 0x80, CorruptBatch),
        (23, 0x80, CorruptBatch),
    ],
)
def test_a_broken_frame_is_met_in_its_turn(
    kernels: Any, at: int, value: int, error: type[BadRecords]
) -> None:
    good, bad = build_batch(RECORDS), bytearray(build_batch(RECORDS, base_offset=4))
    bad[at] = value
    fetched = kernels.FetchedRecords("t", 0, bytes(good + bad))
    assert fetched.is_corrupt
    assert fetched.next_offset == 4
    assert fetched.advance()
    with pytest.raises(error):
        fetched.advance()
    assert not fetched.advance()


@each_version
@given(st.data())
def test_wrong_bytes_are_refused_never_more(kernels: Any, data: st.DataObject) -> None:
    batch = bytearray(build_batch(RECORDS))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    fetched = kernels.FetchedRecords("t", 0, batch)
    try:
        if fetched.advance():
            opened = fetched.open(None, 0)
            found: list[Any] = []
            opened.take(found, 100, None, None)
    except (BadRecords, InvalidRecords):
        pass


@each_version
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_as_garbage_they_give_their_memory_back(
    kernels: Any, order: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collected together with the views that they read, in whatever order."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    memory = bytearray(build_batch(RECORDS))

    def leave_a_cycle() -> None:
        view = memoryview(memory)[:]
        fetched = kernels.FetchedRecords("t", 3, view)
        assert fetched.advance()
        found = [view, fetched, fetched.open(None, 0)]
        cycle: list[Any] = [found[index] for index in order]
        cycle.append(cycle)

    leave_a_cycle()
    gc.collect()
    assert told == []
    memory.append(0)  # not while anything holds it
