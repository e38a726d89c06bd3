"""What is done once a record, in a form that Cython compiles and Python can also just run.

This one source is both versions: the annotations that say `cython.…` become C types when `setup.py`
compiles the file, and mean nothing when it did not. `COMPILED` says which one is running.

The unit of work is the body of one batch: the bytes after the 61-byte header, decompressed. It is

    record  = length:varint attributes:int8 timestamp_delta:varlong offset_delta:varint
              key_length:varint key value_length:varint value header_count:varint header*
    header  = key_length:varint key value_length:varint value

with zigzag varints of at most five bytes (ten for a varlong), and a negative length for null.

Invariants that every function here keeps: no byte outside `[start, end)` is read; nothing is
allocated from a number in the data before that number was compared with the bytes that are left;
whatever is wrong with the data is an `InvalidRecords`, never another exception.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from struct import Struct
from typing import Any

from barnabas.record.errors import InvalidRecords

try:
    import cython
except ImportError:  # not a runtime dependency
    from barnabas.record import uncompiled as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-not-found]
        PyByteArray_AS_STRING,
        PyByteArray_Resize,
    )
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
    )
    from cython.cimports.libc.string import memcpy  # type: ignore[import-not-found]

COMPILED: bool = cython.compiled
if not COMPILED and __name__ == "barnabas.record.kernels":
    logging.getLogger(__name__).warning(
        "running without compiled kernels: records are encoded and decoded many times slower"
    )

BATCH_OVERHEAD = 61
MAX_REFUSED = 1000
PLACE_INT32S = 10
_SMALLEST_RECORD = 7
_MAX_BODY = 0x7FFFFFFF
_INT32 = Struct("=i")
_INT64 = Struct("=q")

Headers = Iterable[tuple[str, bytes | None]]
RecordTuple = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _wrapping_add(left: cython.longlong, right: cython.longlong) -> cython.longlong:
    """Adds as a 64-bit machine does; timestamps from the wire may pass the end of the range."""
    if cython.compiled:
        return cython.cast(
            cython.longlong,
            cython.cast(cython.ulonglong, left) + cython.cast(cython.ulonglong, right),
        )
    total = left + right
    if -0x8000000000000000 <= total <= 0x7FFFFFFFFFFFFFFF:
        return total
    return ((total + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


@cython.cfunc
@cython.exceptval(check=False)
def _read_long_varint(
    p: cython.p_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """A zigzag varint of at most five bytes: `value * 16 + size`, or 0 if there is none.

    One number because a pair would go through memory, which costs more than the rest.
    """
    byte: cython.ulonglong
    value: cython.ulonglong = 0
    shift: cython.int = 0
    size: cython.int = 0
    while shift < 35:
        if position + size >= end:
            return 0
        byte = p[position + size]
        size += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if cython.compiled:
                value = cython.cast(cython.uint, value)
            else:
                value &= 0xFFFFFFFF
            return (((value >> 1) ^ -(value & 1)) << 4) | size
        shift += 7
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _zigzag(value: cython.ulonglong) -> cython.longlong:
    return (value >> 1) ^ -(value & 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _two_bytes(p: cython.p_uchar, position: cython.Py_ssize_t) -> cython.longlong:
    """The zigzag varint in two bytes, of which the first is known to be not the last."""
    value: cython.ulonglong = p[position] & 0x7F
    return _zigzag(value | (cython.cast(cython.ulonglong, p[position + 1]) << 7))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_varint(
    p: cython.p_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """The same, small enough that a compiler puts it in place for the usual one or two bytes."""
    value: cython.ulonglong
    if position < end:
        value = p[position]
        if value < 0x80:
            return (((value >> 1) ^ -(value & 1)) << 4) | 1
        if position + 1 < end and p[position + 1] < 0x80:
            value = (value & 0x7F) | (cython.cast(cython.ulonglong, p[position + 1]) << 7)
            return (((value >> 1) ^ -(value & 1)) << 4) | 2
    return _read_long_varint(p, position, end)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varlong_size(
    p: cython.p_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    """How many bytes a varint of at most ten has, or 0 if there is none."""
    size: cython.int = 0
    while size < 10:
        if position + size >= end:
            return 0
        if p[position + size] < 0x80:
            return size + 1
        size += 1
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varlong_value(
    p: cython.p_uchar, position: cython.Py_ssize_t, size: cython.int
) -> cython.longlong:
    byte: cython.ulonglong
    value: cython.ulonglong = 0
    index: cython.int = 0
    while index < size:
        byte = p[position + index]
        value |= (byte & 0x7F) << (7 * index)
        index += 1
    if not cython.compiled:
        value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_size(value: cython.longlong) -> cython.int:
    """How many bytes `_write_varint` takes."""
    left: cython.ulonglong
    size: cython.int = 1
    if -64 <= value < 64:
        return 1
    left = (value << 1) ^ (value >> 63)
    left >>= 7
    while left != 0:
        size += 1
        left >>= 7
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write_varint(
    p: cython.p_uchar, position: cython.Py_ssize_t, value: cython.longlong
) -> cython.Py_ssize_t:
    """Writes a zigzag varint of any size; gives the position after it."""
    left: cython.ulonglong
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        p[position] = (left & 0x7F) | 0x80
        position += 1
        left >>= 7
    p[position] = left
    return position + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _set_int32(p: cython.p_uchar, index: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    if cython.compiled:
        cython.cast(cython.p_int, p)[index] = cython.cast(cython.int, value)
    else:
        _INT32.pack_into(p, index * 4, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _set_int64(p: cython.p_uchar, index: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    if cython.compiled:
        cython.cast(cython.p_longlong, p)[index] = value
    else:
        _INT64.pack_into(p, index * 8, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get_int32(p: cython.p_uchar, index: cython.Py_ssize_t) -> cython.int:
    if cython.compiled:
        return cython.cast(cython.p_int, p)[index]
    return _INT32.unpack_from(p, index * 4)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _get_int64(p: cython.p_uchar, index: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return cython.cast(cython.p_longlong, p)[index]
    return _INT64.unpack_from(p, index * 8)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _set_bit(p: cython.p_uchar, index: cython.Py_ssize_t, value: cython.bint) -> cython.void:
    byte: cython.int = p[index >> 3]
    bit: cython.int = 1 << (index & 7)
    p[index >> 3] = byte | bit if value else byte & ~bit


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    target: cython.p_uchar,
    position: cython.Py_ssize_t,
    source: cython.p_uchar,
    start: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(target + position, source + start, length)
    else:
        target[position : position + length] = source[start : start + length]


@cython.final
@cython.cclass
class _Column:
    """One column of byte strings as Arrow lays it out: offsets, bytes, and a bit for each that is
    not null. `p_…` are valid from `reserve` until the next `reserve`."""

    offsets: bytearray
    data: bytearray
    validity: bytearray
    p_offsets: cython.p_uchar
    p_data: cython.p_uchar
    p_validity: cython.p_uchar
    null_count: cython.Py_ssize_t
    size: cython.Py_ssize_t

    def __init__(self) -> None:
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.validity = bytearray()
        self.null_count = 0
        self.size = 0

    @cython.cfunc
    @cython.exceptval(-1)
    def reserve(self, rows: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        """Room for `rows` strings in all and `size` bytes of them."""
        self.p_offsets = _at_least(self.offsets, 4 * (rows + 1))
        self.p_validity = _at_least(self.validity, (rows + 7) >> 3)
        self.p_data = _at_least(self.data, size)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(
        self,
        row: cython.Py_ssize_t,
        source: cython.p_uchar,
        start: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> cython.void:
        """The string of `row`, which follows the one before it; a negative length is null."""
        size: cython.Py_ssize_t = self.size
        if length < 0:
            _set_bit(self.p_validity, row, False)
            self.null_count += 1
        else:
            _set_bit(self.p_validity, row, True)
            _copy(self.p_data, size, source, start, length)
            size += length
            self.size = size
        _set_int32(self.p_offsets, row + 1, size)

    @cython.cfunc
    def finish(self, rows: cython.Py_ssize_t) -> tuple:  # type: ignore[type-arg]
        del self.offsets[4 * (rows + 1) :]
        del self.data[self.size :]
        del self.validity[(rows + 7) >> 3 :]
        if rows & 7:
            self.validity[rows >> 3] &= (1 << (rows & 7)) - 1
        return self.null_count, self.validity, self.offsets, self.data


@cython.cfunc
def _at_least(buffer: bytearray, size: cython.Py_ssize_t) -> cython.p_uchar:
    """Makes a buffer at least so long, and twice as long as it was if it was not."""
    length: cython.Py_ssize_t = len(buffer)
    if length < size:
        size = max(size, 2 * length)
        if cython.compiled:
            PyByteArray_Resize(buffer, size)
        else:
            buffer.extend(bytes(size - length))
    if cython.compiled:
        return cython.cast(cython.p_uchar, PyByteArray_AS_STRING(buffer))
    return buffer


def uninitialized(size: cython.Py_ssize_t) -> bytearray:
    """A buffer whose bytes are whatever was there: for who is about to fill all of it."""
    buffer: bytearray = bytearray()
    _at_least(buffer, size)
    return buffer


@cython.no_gc
@cython.final
@cython.cclass
class _Cursor:
    """Walks the records of one body. After `next_record` the fields describe that record; the
    caller then walks its headers with `next_header`, or calls `skip_headers`."""

    data: object
    p: cython.p_uchar
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    index: cython.Py_ssize_t
    record_start: cython.Py_ssize_t
    record_end: cython.Py_ssize_t
    timestamp_delta: cython.longlong
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.Py_ssize_t
    value_start: cython.Py_ssize_t
    value_length: cython.Py_ssize_t
    header_count: cython.Py_ssize_t
    if cython.compiled:
        view: Py_buffer

    def __init__(
        self,
        data: Any,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        count: cython.longlong,
    ) -> None:
        length: cython.Py_ssize_t
        if cython.compiled:
            PyObject_GetBuffer(data, cython.address(self.view), PyBUF_SIMPLE)
            self.p = cython.cast(cython.p_uchar, self.view.buf)
            length = self.view.len
        else:
            self.p = memoryview(data)
            length = len(self.p)
        self.data = data
        if start < 0 or end > length or start > end:
            raise ValueError(f"no range [{start}, {end}) in {length} bytes")
        if count < 0:
            raise InvalidRecords(f"found invalid record count {count}")
        if count > (end - start) // _SMALLEST_RECORD:
            raise InvalidRecords(f"incorrect declared record count {count} in {end - start} bytes")
        self.position = start
        self.end = end
        self.index = 0

    if cython.compiled:

        def __dealloc__(self) -> None:
            PyBuffer_Release(cython.address(self.view))

    @cython.cfunc
    @cython.exceptval(-1)
    def invalid(self, what: str) -> cython.int:
        raise InvalidRecords(f"record {self.index}: {what}")

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def next_record(self) -> cython.int:
        """The usual record: numbers of one or two bytes, no headers. Else `next_any_record`.

        Written out, with the position moving by constants: a processor can then go on before it
        has the numbers, which a call that gives number and size together does not allow.
        """
        p: cython.p_uchar = self.p
        position: cython.Py_ssize_t = self.position
        record_end: cython.Py_ssize_t
        key_start: cython.Py_ssize_t
        length: cython.longlong
        timestamp_delta: cython.longlong
        offset_delta: cython.longlong
        key_length: cython.longlong
        if self.end - position < 16:  # more than the numbers up to the key can take
            return self.next_any_record()
        if p[position] < 0x80:
            length = _zigzag(p[position])
            position += 1
        elif p[position + 1] < 0x80:
            length = _two_bytes(p, position)
            position += 2
        else:
            return self.next_any_record()
        record_end = position + length
        if length < 0 or record_end > self.end:
            return self.next_any_record()
        position += 1  # attributes, unused
        if p[position] < 0x80:
            timestamp_delta = _zigzag(p[position])
            position += 1
        elif p[position + 1] < 0x80:
            timestamp_delta = _two_bytes(p, position)
            position += 2
        else:
            return self.next_any_record()
        if p[position] < 0x80:
            offset_delta = _zigzag(p[position])
            position += 1
        elif p[position + 1] < 0x80:
            offset_delta = _two_bytes(p, position)
            position += 2
        else:
            return self.next_any_record()
        if p[position] < 0x80:
            key_length = _zigzag(p[position])
            position += 1
        elif p[position + 1] < 0x80:
            key_length = _two_bytes(p, position)
            position += 2
        else:
            return self.next_any_record()
        key_start = position
        if key_length > 0:
            position += key_length
        if record_end - position < 2:
            return self.next_any_record()
        if p[position] < 0x80:
            length = _zigzag(p[position])
            position += 1
        elif p[position + 1] < 0x80:
            length = _two_bytes(p, position)
            position += 2
        else:
            return self.next_any_record()
        self.value_start = position
        self.value_length = length
        if length > 0:
            position += length
        if position + 1 != record_end or p[position] != 0:
            return self.next_any_record()
        self.record_start = self.position
        self.record_end = record_end
        self.timestamp_delta = timestamp_delta
        self.offset_delta = offset_delta
        self.key_start = key_start
        self.key_length = key_length
        self.header_count = 0
        self.position = record_end
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def next_any_record(self) -> cython.int:
        p: cython.p_uchar = self.p
        number: cython.longlong
        size: cython.int
        position: cython.Py_ssize_t = self.position
        record_end: cython.Py_ssize_t
        self.record_start = position
        number = _read_varint(p, position, self.end)
        position += number & 15
        if number < 16 or number >> 4 > self.end - position:
            return self.invalid("no valid length")
        record_end = position + (number >> 4)
        self.record_end = record_end
        position += 1  # attributes, unused
        size = _varlong_size(p, position, record_end)
        if size == 0:
            return self.invalid("no valid timestamp")
        self.timestamp_delta = _varlong_value(p, position, size)
        position += size
        number = _read_varint(p, position, record_end)
        if number == 0:
            return self.invalid("no valid offset")
        self.offset_delta = number >> 4
        position += number & 15
        number = _read_varint(p, position, record_end)
        position += number & 15
        if number == 0 or number >> 4 > record_end - position:
            return self.invalid("no valid key length")
        number >>= 4
        self.key_start = position
        self.key_length = number
        if number > 0:
            position += number
        number = _read_varint(p, position, record_end)
        position += number & 15
        if number == 0 or number >> 4 > record_end - position:
            return self.invalid("no valid value length")
        number >>= 4
        self.value_start = position
        self.value_length = number
        if number > 0:
            position += number
        number = _read_varint(p, position, record_end)
        position += number & 15
        if number <= 0 or number >> 4 > (record_end - position) >> 1:
            return self.invalid("no valid header count")
        self.header_count = number >> 4
        self.position = position
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def next_header(self) -> cython.int:
        """Leaves the header's key and value where the record's were."""
        number: cython.longlong
        position: cython.Py_ssize_t = self.position
        record_end: cython.Py_ssize_t = self.record_end
        number = _read_varint(self.p, position, record_end)
        position += number & 15
        if number <= 0 or number >> 4 > record_end - position:
            return self.invalid("no valid header key length")
        number >>= 4
        self.key_start = position
        self.key_length = number
        position += number
        number = _read_varint(self.p, position, record_end)
        position += number & 15
        if number == 0 or number >> 4 > record_end - position:
            return self.invalid("no valid header value length")
        number >>= 4
        self.value_start = position
        self.value_length = number
        if number > 0:
            position += number
        self.position = position
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def end_record(self) -> cython.int:
        if self.position != self.record_end:
            return self.invalid("its length is not that of its fields")
        self.index += 1
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def skip_headers(self) -> cython.int:
        left: cython.Py_ssize_t = self.header_count
        while left > 0:
            self.next_header()
            left -= 1
        return self.end_record()

    @cython.cfunc
    @cython.exceptval(-1)
    def end_batch(self) -> cython.int:
        if self.position != self.end:
            raise InvalidRecords(f"{self.end - self.position} bytes after the last record")
        return 0

    @cython.cfunc
    @cython.inline
    def slice(self, start: cython.Py_ssize_t, length: cython.Py_ssize_t) -> object:
        if length < 0:
            return None
        if cython.compiled:
            return PyBytes_FromStringAndSize(
                cython.cast(cython.p_char, self.p) + start,  # type: ignore[attr-defined]
                length,
            )
        return bytes(self.p[start : start + length])

    @cython.cfunc
    def headers(self) -> tuple:  # type: ignore[type-arg]
        left: cython.Py_ssize_t = self.header_count
        if left == 0:
            return ()
        found: list = []  # type: ignore[type-arg]
        while left > 0:
            self.next_header()
            key: bytes = self.slice(self.key_start, self.key_length)
            value = self.slice(self.value_start, self.value_length)
            found.append((key.decode("utf-8", "surrogateescape"), value))
            left -= 1
        return tuple(found)


def scan_records(
    data: Any,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_timestamp: cython.longlong,
    lowest_timestamp: cython.longlong,
    highest_timestamp: cython.longlong,
    keys_required: cython.bint,
) -> tuple[int, int, bool, int, list[tuple[int, bool, int]] | None]:
    """Checks every record of a body.

    Gives the largest timestamp and the index of the first record that has it (both -1 when no
    record has one), whether the offset deltas are 0, 1, 2…, and how many records are well formed
    but not allowed, with the first of these (None if none): `(index, key_is_missing, timestamp)`,
    where the timestamp is outside the range if the key is not missing. A timestamp of -1 means
    "none" and is always allowed.
    """
    cursor: _Cursor = _Cursor(data, start, end, count)
    timestamp: cython.longlong
    max_timestamp: cython.longlong = -1
    max_index: cython.longlong = -1
    contiguous: cython.bint = True
    index: cython.longlong = 0
    refused_count: cython.longlong = 0
    key_is_missing: cython.bint
    refused: list | None = None  # type: ignore[type-arg]
    while index < count:
        cursor.next_record()
        timestamp = _wrapping_add(base_timestamp, cursor.timestamp_delta)
        if cursor.offset_delta != index:
            contiguous = False
        key_is_missing = keys_required and cursor.key_length < 0
        if key_is_missing or (
            timestamp != -1 and not lowest_timestamp <= timestamp <= highest_timestamp
        ):
            if refused is None:
                refused = []
            if refused_count < MAX_REFUSED:
                refused.append((index, key_is_missing, timestamp))
            refused_count += 1
        if timestamp > max_timestamp:
            max_timestamp = timestamp
            max_index = index
        cursor.skip_headers()
        index += 1
    cursor.end_batch()
    return max_timestamp, max_index, contiguous, refused_count, refused


def decode_records(
    data: Any,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    log_append_time_ms: cython.longlong = -1,
) -> list[RecordTuple]:
    """The records of a body as tuples `(offset, timestamp, key, value, headers)`.

    A `log_append_time_ms` that is not -1 takes the place of every record's own timestamp.
    """
    cursor: _Cursor = _Cursor(data, start, end, count)
    found: list = []  # type: ignore[type-arg]
    index: cython.longlong = 0
    while index < count:
        cursor.next_record()
        offset = _wrapping_add(base_offset, cursor.offset_delta)
        timestamp = log_append_time_ms
        if timestamp == -1:
            timestamp = _wrapping_add(base_timestamp, cursor.timestamp_delta)
        key = cursor.slice(cursor.key_start, cursor.key_length)
        value = cursor.slice(cursor.value_start, cursor.value_length)
        headers: tuple = cursor.headers()  # type: ignore[type-arg]
        cursor.end_record()
        found.append((offset, timestamp, key, value, headers))
        index += 1
    cursor.end_batch()
    return found


def record_spans(
    data: Any, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
) -> list[tuple[int, int, int, int, bytes | None, bool]]:
    """Where each record of a body lies, for those who keep or drop records as they are:
    `(start, end, offset_delta, timestamp_delta, key, has_value)`."""
    cursor: _Cursor = _Cursor(data, start, end, count)
    found: list = []  # type: ignore[type-arg]
    index: cython.longlong = 0
    while index < count:
        cursor.next_record()
        key = cursor.slice(cursor.key_start, cursor.key_length)
        has_value: cython.bint = cursor.value_length >= 0
        cursor.skip_headers()
        found.append(
            (
                cursor.record_start,
                cursor.record_end,
                cursor.offset_delta,
                cursor.timestamp_delta,
                key,
                has_value,
            )
        )
        index += 1
    cursor.end_batch()
    return found


def locate_records(
    data: Any, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
) -> bytearray:
    """Where every record of a body lies, for those who make something of them piece by piece.

    All of the body is checked here, so that whoever uses the places need not check again. A record
    takes ten int32 of the result, in this machine's byte order: the timestamp delta (an int64),
    the offset delta, where the key starts and how long it is, the same of the value, where the
    headers start (after their count) and end, and how many there are. Lengths of -1 mean null.
    """
    cursor: _Cursor = _Cursor(data, start, end, count)
    if end > 0x7FFFFFFF:
        raise ValueError("a batch must end within 2 GiB of its buffer's start")
    located: bytearray = bytearray()
    p: cython.p_uchar = _at_least(located, 40 * count)
    index: cython.longlong = 0
    place: cython.Py_ssize_t = 0
    while index < count:
        cursor.next_record()
        _set_int64(p, index * 5, cursor.timestamp_delta)
        _set_int32(p, place + 2, cursor.offset_delta)
        _set_int32(p, place + 3, cursor.key_start)
        _set_int32(p, place + 4, cursor.key_length if cursor.key_length >= 0 else -1)
        _set_int32(p, place + 5, cursor.value_start)
        _set_int32(p, place + 6, cursor.value_length if cursor.value_length >= 0 else -1)
        _set_int32(p, place + 7, cursor.position)
        _set_int32(p, place + 8, cursor.record_end)
        _set_int32(p, place + 9, cursor.header_count)
        if cursor.header_count:
            cursor.skip_headers()
        else:
            cursor.end_record()
        place += 10
        index += 1
    cursor.end_batch()
    return located


def decode_headers(
    data: Any, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record that `locate_records` found."""
    cursor: _Cursor = _Cursor(data, start, end, 0)
    cursor.record_end = end
    cursor.header_count = count
    return cursor.headers()


@cython.final
@cython.cclass
class ColumnsBuilder:
    """Decodes bodies, one after another, into the buffers of Arrow columns.

    Offsets and timestamps are int64; keys, values and header values are nullable binary with int32
    offsets, header keys binary that is never null; `header_offsets` says which headers a record
    has, as an Arrow list does. A body that is not valid leaves everything as it was.
    """

    _rows: cython.Py_ssize_t
    _header_rows: cython.Py_ssize_t
    _offsets: bytearray
    _timestamps: bytearray
    _header_offsets: bytearray
    _keys: _Column
    _values: _Column
    _header_keys: _Column
    _header_values: _Column

    def __init__(self, rows: cython.Py_ssize_t = 0, size: cython.Py_ssize_t = 0) -> None:
        """With room for so many records, and for values of so many bytes: to grow costs time."""
        self._rows = 0
        self._header_rows = 0
        self._offsets = bytearray()
        self._timestamps = bytearray()
        self._header_offsets = bytearray(4)
        self._keys = _Column()
        self._values = _Column()
        self._header_keys = _Column()
        self._header_values = _Column()
        if rows > 0:
            _at_least(self._offsets, 8 * rows)
            _at_least(self._timestamps, 8 * rows)
            _at_least(self._header_offsets, 4 * (rows + 1))
            self._keys.reserve(rows, 0)
            self._values.reserve(rows, max(min(size, _MAX_BODY), 0))

    @property
    def record_count(self) -> int:
        return self._rows

    @property
    def size_in_bytes(self) -> int:
        """The bytes of keys and values so far. A column holds no more than 2 GiB."""
        return self._keys.size + self._values.size

    def append(
        self,
        data: Any,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        count: cython.longlong,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        log_append_time_ms: cython.longlong = -1,
    ) -> int:
        """Appends the records of a body; gives `record_count`. Arguments as of `decode_records`."""
        cursor: _Cursor = _Cursor(data, start, end, count)
        keys: _Column = self._keys
        values: _Column = self._values
        header_keys: _Column = self._header_keys
        header_values: _Column = self._header_values
        kept: tuple = (  # type: ignore[type-arg]
            keys.size,
            keys.null_count,
            values.size,
            values.null_count,
            header_keys.size,
            header_values.size,
            header_values.null_count,
        )
        size: cython.Py_ssize_t = end - start
        rows: cython.Py_ssize_t = self._rows + count
        if keys.size + size > _MAX_BODY or values.size + size > _MAX_BODY:
            raise ValueError("a column cannot have more than 2 GiB")
        keys.reserve(rows, keys.size + size)
        values.reserve(rows, values.size + size)
        p_offsets: cython.p_uchar = _at_least(self._offsets, 8 * rows)
        p_timestamps: cython.p_uchar = _at_least(self._timestamps, 8 * rows)
        p_header_offsets: cython.p_uchar = _at_least(self._header_offsets, 4 * (rows + 1))
        row: cython.Py_ssize_t = self._rows
        header_row: cython.Py_ssize_t = self._header_rows
        try:
            while row < rows:
                cursor.next_record()
                _set_int64(p_offsets, row, _wrapping_add(base_offset, cursor.offset_delta))
                if log_append_time_ms == -1:
                    _set_int64(
                        p_timestamps, row, _wrapping_add(base_timestamp, cursor.timestamp_delta)
                    )
                else:
                    _set_int64(p_timestamps, row, log_append_time_ms)
                keys.put(row, cursor.p, cursor.key_start, cursor.key_length)
                values.put(row, cursor.p, cursor.value_start, cursor.value_length)
                row += 1
                if cursor.header_count:
                    header_row = self._append_headers(cursor, header_row)
                cursor.end_record()
                _set_int32(p_header_offsets, row, header_row)
            cursor.end_batch()
        except BaseException:
            (
                keys.size,
                keys.null_count,
                values.size,
                values.null_count,
                header_keys.size,
                header_values.size,
                header_values.null_count,
            ) = kept
            raise
        self._rows = rows
        self._header_rows = header_row
        return rows

    def append_located(
        self,
        data: Any,
        located: bytearray,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        log_append_time_ms: cython.longlong = -1,
    ) -> int:
        """Appends the records `[first, last)` of a body of which `locate_records` gave `located`.

        Gives `record_count`. The other arguments are as of `decode_records`.
        """
        if not 0 <= first <= last <= len(located) // 40:
            raise ValueError(f"no range [{first}, {last}) in these records")
        keys: _Column = self._keys
        values: _Column = self._values
        header_keys: _Column = self._header_keys
        header_values: _Column = self._header_values
        row: cython.Py_ssize_t = self._rows
        rows: cython.Py_ssize_t = row + last - first
        header_row: cython.Py_ssize_t = self._header_rows
        place: cython.Py_ssize_t = first * 10
        p_located: cython.p_uchar = _at_least(located, 0)
        if last == first:
            return row
        end: cython.Py_ssize_t = _get_int32(p_located, last * 10 - 2)
        cursor: _Cursor = _Cursor(data, 0, end, 0)
        # No column can take more than what lies between the first key and the end.
        size: cython.Py_ssize_t = end - _get_int32(p_located, place + 3)
        if (
            max(keys.size, values.size, header_keys.size, header_values.size) + size > _MAX_BODY
            or rows > _MAX_BODY // 8
        ):
            raise ValueError("a column cannot have more than 2 GiB")
        keys.reserve(rows, keys.size + size)
        values.reserve(rows, values.size + size)
        p_offsets: cython.p_uchar = _at_least(self._offsets, 8 * rows)
        p_timestamps: cython.p_uchar = _at_least(self._timestamps, 8 * rows)
        p_header_offsets: cython.p_uchar = _at_least(self._header_offsets, 4 * (rows + 1))
        header_count: cython.int
        while row < rows:
            _set_int64(p_offsets, row, _wrapping_add(base_offset, _get_int32(p_located, place + 2)))
            if log_append_time_ms == -1:
                _set_int64(
                    p_timestamps,
                    row,
                    _wrapping_add(base_timestamp, _get_int64(p_located, place >> 1)),
                )
            else:
                _set_int64(p_timestamps, row, log_append_time_ms)
            keys.put(
                row, cursor.p, _get_int32(p_located, place + 3), _get_int32(p_located, place + 4)
            )
            values.put(
                row, cursor.p, _get_int32(p_located, place + 5), _get_int32(p_located, place + 6)
            )
            row += 1
            header_count = _get_int32(p_located, place + 9)
            if header_count:
                cursor.position = _get_int32(p_located, place + 7)
                cursor.record_end = _get_int32(p_located, place + 8)
                cursor.header_count = header_count
                header_row = self._append_headers(cursor, header_row)
            _set_int32(p_header_offsets, row, header_row)
            place += 10
        self._rows = rows
        self._header_rows = header_row
        return rows

    @cython.cfunc
    @cython.exceptval(-1)
    def _append_headers(self, cursor: _Cursor, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        keys: _Column = self._header_keys
        values: _Column = self._header_values
        size: cython.Py_ssize_t = cursor.record_end - cursor.position
        rows: cython.Py_ssize_t = row + cursor.header_count
        if keys.size + size > _MAX_BODY or values.size + size > _MAX_BODY:
            raise ValueError("a column cannot have more than 2 GiB")
        keys.reserve(rows, keys.size + size)
        values.reserve(rows, values.size + size)
        while row < rows:
            cursor.next_header()
            keys.put(row, cursor.p, cursor.key_start, cursor.key_length)
            values.put(row, cursor.p, cursor.value_start, cursor.value_length)
            row += 1
        return row

    def finish(self) -> dict[str, Any]:
        """The buffers, each cut to its size. The builder is empty afterwards.

        `offsets`, `timestamps`, `header_offsets` are buffers; `keys`, `values`, `header_keys` and
        `header_values` are `(null_count, validity, offsets, data)`.
        """
        rows: cython.Py_ssize_t = self._rows
        header_rows: cython.Py_ssize_t = self._header_rows
        del self._offsets[8 * rows :]
        del self._timestamps[8 * rows :]
        del self._header_offsets[4 * (rows + 1) :]
        columns = {
            "record_count": rows,
            "header_count": header_rows,
            "offsets": self._offsets,
            "timestamps": self._timestamps,
            "header_offsets": self._header_offsets,
            "keys": self._keys.finish(rows),
            "values": self._values.finish(rows),
            "header_keys": self._header_keys.finish(header_rows),
            "header_values": self._header_values.finish(header_rows),
        }
        self.__init__()  # type: ignore[misc]
        return columns


@cython.ccall
def encode_headers(headers: object) -> list:  # type: ignore[type-arg]
    """Headers with their keys as bytes, which is how `RecordsBuilder` wants them inside."""
    return [(name.encode("utf-8", "surrogateescape"), content) for name, content in headers]


@cython.final
@cython.cclass
class RecordsBuilder:
    """Appends records to the body of a batch that has room for its header in front.

    Offsets count from 0 unless given. The first record's timestamp is the base of all others,
    unless a base was given. `size_in_bytes` is that of the whole uncompressed batch so far.
    """

    _buffer: bytearray
    _capacity: cython.Py_ssize_t
    _size: cython.Py_ssize_t
    _count: cython.longlong
    _base_known: cython.bint
    _base_timestamp: cython.longlong
    _max_timestamp: cython.longlong
    _last_offset_delta: cython.longlong

    def __init__(
        self,
        base_timestamp: int | None = None,
        capacity: int = 1024,
        buffer: bytearray | None = None,
    ) -> None:
        """`buffer` is memory to use again, of any size; nobody else may hold it."""
        self._capacity = max(capacity, BATCH_OVERHEAD)
        if buffer is None:
            buffer = bytearray(self._capacity)
        elif cython.compiled:
            PyByteArray_Resize(buffer, self._capacity)
        else:
            del buffer[self._capacity :]
            buffer.extend(bytes(self._capacity - len(buffer)))
        self._buffer = buffer
        self._size = BATCH_OVERHEAD
        self._count = 0
        self._base_known = base_timestamp is not None
        self._base_timestamp = -1 if base_timestamp is None else base_timestamp
        self._max_timestamp = -1
        self._last_offset_delta = -1

    @property
    def size_in_bytes(self) -> int:
        return self._size

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def base_timestamp(self) -> int:
        return self._base_timestamp

    @property
    def max_timestamp(self) -> int:
        return self._max_timestamp

    @property
    def last_offset_delta(self) -> int:
        return self._last_offset_delta

    @cython.cfunc
    @cython.exceptval(-1)
    def _grow(self, needed: cython.Py_ssize_t) -> cython.int:
        if needed > _MAX_BODY:
            raise ValueError(f"a batch cannot have {needed} bytes")
        capacity: cython.Py_ssize_t = max(self._capacity * 2, needed)
        if cython.compiled:
            PyByteArray_Resize(self._buffer, capacity)
        else:
            self._buffer.extend(bytes(capacity - self._capacity))
        self._capacity = capacity
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def _put(
        self, position: cython.Py_ssize_t, data: object, length: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """A length and its bytes. There must be room."""
        p: cython.p_uchar
        if cython.compiled:
            p = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(self._buffer))
        else:
            p = self._buffer
        if data is None:
            p[position] = 1  # -1 in zigzag
            return position + 1
        position = _write_varint(p, position, length)
        if cython.compiled:
            if type(data) is bytes:
                memcpy(p + position, PyBytes_AS_STRING(data), length)
            else:
                view = cython.declare(Py_buffer)
                PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
                if view.len != length:
                    PyBuffer_Release(cython.address(view))
                    raise ValueError("keys and values must be buffers of bytes")
                memcpy(p + position, view.buf, length)
                PyBuffer_Release(cython.address(view))
        else:
            if memoryview(data).nbytes != length:
                raise ValueError("keys and values must be buffers of bytes")
            self._buffer[position : position + length] = data
        return position + length

    def append(
        self,
        timestamp_ms: cython.longlong,
        key: Any,
        value: Any,
        headers: Any = (),
        offset_delta: cython.longlong = -1,
    ) -> int:
        """Appends one record; gives the size of the batch after it, `size_in_bytes`."""
        encoded: list | None = encode_headers(headers) if headers else None  # type: ignore[type-arg]
        return self._append(timestamp_ms, key, value, encoded, offset_delta, _MAX_BODY)

    def append_within(
        self,
        timestamp_ms: cython.longlong,
        key: Any,
        value: Any,
        encoded: list | None,  # type: ignore[type-arg]
        limit: cython.Py_ssize_t,
    ) -> int:
        """The same with headers from `encode_headers`, or None; 0, and nothing happened, if the
        batch would become larger than `limit`."""
        return self._append(timestamp_ms, key, value, encoded, -1, limit)

    @cython.cfunc
    @cython.exceptval(-1)
    def _append(
        self,
        timestamp_ms: cython.longlong,
        key: object,
        value: object,
        encoded: list | None,  # type: ignore[type-arg]
        offset_delta: cython.longlong,
        limit: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """The size of the batch with this record in it; 0, and nothing happened, if that would be
        more than `limit`. Runs no Python code where key and value are bytes or None: no other
        thread sees a record half appended."""
        p: cython.p_uchar
        key_length: cython.Py_ssize_t = -1
        value_length: cython.Py_ssize_t = -1
        body: cython.longlong
        position: cython.Py_ssize_t
        needed: cython.Py_ssize_t
        base_timestamp: cython.longlong
        timestamp_delta: cython.longlong
        if offset_delta < 0:
            offset_delta = self._last_offset_delta + 1
        elif offset_delta <= self._last_offset_delta or offset_delta > 0x7FFFFFFF:
            raise ValueError(f"offset delta {offset_delta} after {self._last_offset_delta}")
        base_timestamp = self._base_timestamp if self._base_known else timestamp_ms
        timestamp_delta = _wrapping_add(timestamp_ms, -base_timestamp)

        body = 1 + _varint_size(timestamp_delta) + _varint_size(offset_delta)
        if key is None:
            body += 1
        else:
            key_length = len(key)
            body += _varint_size(key_length) + key_length
        if value is None:
            body += 1
        else:
            value_length = len(value)
            body += _varint_size(value_length) + value_length
        if encoded is None:
            body += 1
        else:
            body += _varint_size(len(encoded))
            for name_bytes, content in encoded:
                body += _varint_size(len(name_bytes)) + len(name_bytes)
                body += 1 if content is None else _varint_size(len(content)) + len(content)

        position = self._size
        needed = position + _varint_size(body) + body
        if needed > limit and limit < _MAX_BODY:
            return 0
        if needed > self._capacity:
            self._grow(needed)
        if cython.compiled:
            p = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(self._buffer))
        else:
            p = self._buffer
        position = _write_varint(p, position, body)
        p[position] = 0
        position = _write_varint(p, position + 1, timestamp_delta)
        position = _write_varint(p, position, offset_delta)
        position = self._put(position, key, key_length)
        position = self._put(position, value, value_length)
        if encoded is None:
            p[position] = 0
        else:
            position = _write_varint(p, position, len(encoded))
            for name_bytes, content in encoded:
                position = self._put(position, name_bytes, len(name_bytes))
                position = self._put(position, content, -1 if content is None else len(content))

        self._size = needed
        self._count += 1
        self._base_timestamp = base_timestamp
        self._base_known = True
        self._last_offset_delta = offset_delta
        if timestamp_ms > self._max_timestamp:  # noqa: PLR1730 - max() is slower in C
            self._max_timestamp = timestamp_ms
        return needed

    @cython.cfunc
    @cython.exceptval(-1)
    def _append_span(
        self,
        timestamp_ms: cython.longlong,
        keys: cython.p_uchar,
        key_start: cython.Py_ssize_t,
        key_length: cython.Py_ssize_t,
        values: cython.p_uchar,
        value_start: cython.Py_ssize_t,
        value_length: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """`_append` for a record without headers whose key and value lie in the memory of columns;
        a negative length is null."""
        p: cython.p_uchar
        position: cython.Py_ssize_t = self._size
        offset_delta: cython.longlong = self._last_offset_delta + 1
        base_timestamp: cython.longlong
        base_timestamp = self._base_timestamp if self._base_known else timestamp_ms
        timestamp_delta: cython.longlong = _wrapping_add(timestamp_ms, -base_timestamp)
        body: cython.longlong = 2 + _varint_size(timestamp_delta) + _varint_size(offset_delta)
        body += _varint_size(key_length) + max(key_length, 0)
        body += _varint_size(value_length) + max(value_length, 0)
        needed: cython.Py_ssize_t = position + _varint_size(body) + body
        if needed > limit:
            return 0
        if needed > self._capacity:
            self._grow(needed)
        if cython.compiled:
            p = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(self._buffer))
        else:
            p = self._buffer
        position = _write_varint(p, position, body)
        p[position] = 0
        position = _write_varint(p, position + 1, timestamp_delta)
        position = _write_varint(p, position, offset_delta)
        position = _write_varint(p, position, key_length)
        if key_length > 0:
            _copy(p, position, keys, key_start, key_length)
            position += key_length
        position = _write_varint(p, position, value_length)
        if value_length > 0:
            _copy(p, position, values, value_start, value_length)
            position += value_length
        p[position] = 0
        self._size = needed
        self._count += 1
        self._base_timestamp = base_timestamp
        self._base_known = True
        self._last_offset_delta = offset_delta
        if timestamp_ms > self._max_timestamp:  # noqa: PLR1730 - max() is slower in C
            self._max_timestamp = timestamp_ms
        return needed

    def extend(self, records: Any) -> int:
        """Appends records `(timestamp_ms, key, value, headers)`; gives `size_in_bytes`."""
        encoded: list | None  # type: ignore[type-arg]
        for timestamp_ms, key, value, headers in records:
            encoded = encode_headers(headers) if headers else None
            self._append(timestamp_ms, key, value, encoded, -1, _MAX_BODY)
        return self._size

    def finish(self) -> bytearray:
        """The batch, its first 61 bytes still zero. The builder is empty afterwards."""
        buffer = self._buffer
        del buffer[self._size :]
        self.__init__()  # type: ignore[misc]
        return buffer
