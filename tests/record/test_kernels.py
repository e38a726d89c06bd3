"""The compiled kernels and their source are the same functions."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.record.batch import BATCH_OVERHEAD
from barnabas.record.build import build_batch
from barnabas.record.errors import InvalidRecords
from tests.record.kernel_versions import (
    IMPORTED,
    INTERPRETED,
    VERSION_NAMES,
    VERSIONS,
    interpreted,
)
from tests.record.record_strategies import ANY_RECORDS, INT64

OFTEN_WRONG = [b"", b"\x00", b"\xff" * 16, b"\x0e\0\0\0\1\1\0", b"\x80\x80\x80\x80\x80\x80\0"]
each_version = pytest.mark.parametrize("kernels", VERSIONS, ids=VERSION_NAMES)


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except InvalidRecords as error:
        return type(error), str(error)


def columns(kernels, *arguments):
    builder = kernels.ColumnsBuilder()
    builder.append(*arguments)
    return builder.finish()


def assert_same(body: bytes, count: int, base_timestamp: int) -> None:
    size = len(body)
    for name, arguments in (
        ("scan_records", (body, 0, size, count, base_timestamp, 0, 1 << 40, True)),
        ("decode_records", (body, 0, size, count, 3, base_timestamp)),
        ("decode_records", (body, 0, size, count, 3, base_timestamp, 99)),
        ("record_spans", (body, 0, size, count)),
    ):
        assert outcome(getattr(IMPORTED, name), *arguments) == outcome(
            getattr(INTERPRETED, name), *arguments
        )
    arguments = (body, 0, size, count, 3, base_timestamp)
    assert outcome(columns, IMPORTED, *arguments) == outcome(columns, INTERPRETED, *arguments)


@given(st.binary(max_size=60), st.integers(-2, 8), INT64)
def test_any_bytes_have_the_same_outcome(body, count, base_timestamp):
    assert_same(body, count, base_timestamp)


@given(ANY_RECORDS, INT64, st.data())
def test_damaged_records_have_the_same_outcome(records, base_timestamp, data):
    body = build_batch(records)[BATCH_OVERHEAD:]
    assert_same(bytes(body), len(records), base_timestamp)
    if body:
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
        assert_same(bytes(body), len(records), base_timestamp)
        assert_same(bytes(body[:position]), len(records), base_timestamp)


@given(ANY_RECORDS, st.none() | INT64)
@example([(-(1 << 63), None, None, ()), ((1 << 63) - 1, None, None, ())], None)
def test_both_build_the_same_bytes(records, base_timestamp):
    built = []
    for kernels in (IMPORTED, INTERPRETED):
        builder = kernels.RecordsBuilder(base_timestamp)
        size = builder.extend(records)
        facts = (
            builder.size_in_bytes,
            builder.record_count,
            builder.base_timestamp,
            builder.max_timestamp,
            builder.last_offset_delta,
        )
        batch = builder.finish()
        assert size == len(batch) == facts[0]
        built.append((facts, batch))
    assert built[0] == built[1]


@each_version
@pytest.mark.parametrize("size", [0, 62, 63, 64, 65, 126, 127, 128, 8190, 8191, 8192, 1 << 20])
def test_lengths_at_the_steps_of_varints(kernels, size):
    content = bytes(size)
    for key, value in ((content, None), (None, content), (content, content)):
        builder = kernels.RecordsBuilder()
        builder.append(5, key, value, (("h", content),))
        builder.append(6, key, value)
        batch = builder.finish()
        assert kernels.decode_records(batch, 61, len(batch), 2, 0, 5) == [
            (0, 5, key, value, (("h", content),)),
            (1, 6, key, value, ()),
        ]
        assert columns(kernels, batch, 61, len(batch), 2, 0, 5)["record_count"] == 2


@each_version
@pytest.mark.parametrize("body", OFTEN_WRONG)
def test_what_is_no_record(kernels, body):
    for name in ("decode_records", "scan_records"):
        extra = (0, 0) if name == "decode_records" else (0, 0, 0, False)
        with pytest.raises(InvalidRecords):
            getattr(kernels, name)(body, 0, len(body), 1, *extra)


@each_version
def test_a_varint_in_more_bytes_than_it_may_have(kernels):
    whole = bytes([14, 0, 0, 0, 1, 1, 0])
    assert kernels.record_spans(bytes([12, 0, 0, 0, 1, 1, 0]), 0, 7, 1)
    with pytest.raises(InvalidRecords):
        kernels.record_spans(whole, 0, 7, 1)
    for index, overlong in (
        (3, bytes([0x80] * 5 + [0])),
        (2, bytes([0x80] * 10 + [0])),
        (6, bytes([0x80] * 5 + [0])),
    ):
        body = bytes([0, 0, 0, 0, 1, 1, 0])
        body = body[1:index] + overlong + body[index + 1 :]
        body = bytes([2 * len(body)]) + body
        with pytest.raises(InvalidRecords):
            kernels.record_spans(body, 0, len(body), 1)


@each_version
def test_columns_are_as_before_after_a_bad_body(kernels):
    good = build_batch([(1, b"k", b"v", (("h", None),)), (2, None, None, ())])[61:]
    bad = build_batch([(1, None, b"w", (("g", b"x"),)), (2, None, None, ())])[61:]
    bad[-1] = 1
    builder = kernels.ColumnsBuilder()
    builder.append(good, 0, len(good), 2, 0, 1)
    with pytest.raises(InvalidRecords):
        builder.append(bad, 0, len(bad), 2, 2, 1)
    assert builder.record_count == 2
    builder.append(good, 0, len(good), 2, 2, 1)
    twice = kernels.ColumnsBuilder()
    twice.append(good, 0, len(good), 2, 0, 1)
    twice.append(good, 0, len(good), 2, 2, 1)
    assert builder.finish() == twice.finish()
    assert builder.finish() == kernels.ColumnsBuilder().finish()


@each_version
def test_a_range_outside_the_buffer_is_the_callers_mistake(kernels):
    for start, end in ((-1, 0), (0, 9), (5, 4)):
        with pytest.raises(ValueError, match="no range"):
            kernels.record_spans(bytes(8), start, end, 0)


@each_version
def test_keys_and_values_may_be_any_bytes(kernels):
    builder = kernels.RecordsBuilder()
    builder.append(0, memoryview(b"key"), bytearray(b"value"))
    batch = builder.finish()
    assert kernels.decode_records(batch, 61, len(batch), 1, 0, 0) == [(0, 0, b"key", b"value", ())]


@each_version
@pytest.mark.parametrize("wrong", ["text", 5])
def test_a_builder_is_unchanged_by_what_is_no_bytes(kernels, wrong):
    builder = kernels.RecordsBuilder()
    builder.append(0, None, b"one")
    with pytest.raises((TypeError, ValueError)):
        builder.append(0, None, wrong)
    builder.append(0, None, b"two")
    batch = builder.finish()
    assert [record[3] for record in kernels.decode_records(batch, 61, len(batch), 2, 0, 0)] == [
        b"one",
        b"two",
    ]


def test_interpreted_kernels_say_so_once():
    program = (
        "import sys, importlib.util as u\n"
        "class Interpreted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'barnabas.record.kernels':\n"
        "            return u.spec_from_file_location(name, path[0] + '/kernels.py')\n"
        "sys.meta_path.insert(0, Interpreted())\n"
        "import barnabas.record.read, barnabas.record.build, barnabas.record.kernels as k\n"
        "assert not k.COMPILED\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert ran.stderr.count("running without compiled kernels") == 1


def test_importing_the_source_under_another_name_says_nothing(caplog):
    with caplog.at_level(logging.WARNING):
        assert interpreted(IMPORTED).COMPILED is False
    assert not caplog.records
