"""What a producer does once a record, in a form that Cython compiles and Python can also just run.

A record's way is: find the lane of its topic, choose a partition, append to that partition's open
batch, make a future that says which record of which batch it was. That is `SendPath.send`, and it is
all that happens for nearly every record. Whatever else there is (a batch that is full or not there, an
unknown topic, a value of another type, interceptors) goes the slow way, `_send_slowly`, which the face
provides, in Python and under the client's lock.

The quick way takes no lock. Compiled, it runs no Python code between looking whether a batch is open
and having appended to it, so no other thread can come between (this extension does not declare that
it can do without the GIL); and closing a batch is one assignment. Interpreted, that does not hold, so
there every record goes the slow way. What may run Python code (making an object may start the garbage
collector) is done before the batch is looked at.

Invariants: a closed batch never changes; `record_count` of a batch only grows while it is open; the
`index` of a future is below its batch's `record_count`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from barnabas.client.errors import SerializationError
from barnabas.client.serialization import not_bytes
from barnabas.record.kernels import RecordsBuilder

try:
    import cython
except ImportError:  # not a runtime dependency
    from barnabas.record import uncompiled as cython  # type: ignore[no-redef]

if cython.compiled:
    from cython.cimports.barnabas.client.wall_clock import (  # type: ignore[import-not-found]
        wall_clock_ms,
    )
    from cython.cimports.barnabas.record.kernels import (  # type: ignore[import-not-found,no-redef]
        RecordsBuilder,
    )
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
    )


COMPILED: bool = cython.compiled


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _times(number: cython.uint, factor: cython.uint) -> cython.uint:
    """A product in 32 bits. (A constant above 2**31 would be an object in the compiled version.)"""
    if cython.compiled:
        return number * factor
    return (number * factor) & 0xFFFFFFFF


@cython.cfunc
@cython.exceptval(check=False)
def _murmur2(p: cython.p_uchar, length: cython.Py_ssize_t) -> cython.uint:
    h: cython.uint
    k: cython.uint
    m: cython.uint = 0x5BD1E995
    at: cython.Py_ssize_t = 0
    h = 0x1747B28C ^ cython.cast(cython.uint, length)
    h ^= cython.cast(cython.uint, 1) << 31
    while length - at >= 4:
        k = p[at]
        k |= cython.cast(cython.uint, p[at + 1]) << 8
        k |= cython.cast(cython.uint, p[at + 2]) << 16
        k |= cython.cast(cython.uint, p[at + 3]) << 24
        k = _times(k, m)
        k ^= k >> 24
        h = _times(h, m) ^ _times(k, m)
        at += 4
    if length - at == 3:
        h ^= cython.cast(cython.uint, p[at + 2]) << 16
    if length - at >= 2:
        h ^= cython.cast(cython.uint, p[at + 1]) << 8
    if length - at >= 1:
        h = _times(h ^ p[at], m)
    h ^= h >> 13
    h = _times(h, m)
    return h ^ (h >> 15)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _murmur2_span(
    p: cython.p_uchar, start: cython.Py_ssize_t, length: cython.Py_ssize_t
) -> cython.uint:
    if cython.compiled:
        return _murmur2(p + start, length)
    return _murmur2(p[start : start + length], length)


def murmur2(key: bytes) -> int:
    """Kafka's murmur2 with its seed, as an unsigned 32-bit number."""
    if cython.compiled:
        return _murmur2(cython.cast(cython.p_uchar, PyBytes_AS_STRING(key)), len(key))
    return _murmur2(key, len(key))


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Where Apache's Java client puts a key, so that clients of all kinds put it in one place."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _now_ms() -> cython.longlong:
    if cython.compiled:
        return wall_clock_ms()
    return time.time_ns() // 1_000_000


@cython.cfunc
@cython.exceptval(check=False)
def _number(given: int) -> cython.longlong:
    """A number that C can hold, or -1."""
    if not cython.compiled:
        return given if 0 <= given < 1 << 63 else -1
    try:
        return given
    except OverflowError:
        return -1


def not_text(topic: Any, field: str, error: UnicodeEncodeError) -> SerializationError:
    return SerializationError(
        f"The {field} of a record for topic {topic} has a character that UTF-8 cannot express: "
        f"{error}.",
        topic=topic,
        field=field,
        next_step="Encode the text yourself and send bytes.",
    )


@cython.cclass
class AppendableBatch:
    """The part of a batch that is touched once a record. `ProducerBatch` is the rest of it.

    `limit` is the size that it may grow to. Records of which somebody wants to be told are in
    `told`, in order.
    """

    builder = cython.declare(RecordsBuilder, visibility="public")
    limit = cython.declare(cython.Py_ssize_t, visibility="public")
    closed = cython.declare(cython.bint, visibility="public")
    done = cython.declare(cython.bint, visibility="public")
    told = cython.declare(list, visibility="public")

    def __init__(self, limit: int, buffer: bytearray | None = None) -> None:
        self.builder = RecordsBuilder(None, limit, buffer)
        self.limit = limit
        self.closed = False
        self.done = False
        self.told = []


@cython.final
@cython.no_gc
@cython.freelist(4096)
@cython.cclass
class SendFuture:
    """What becomes of one record: record `index` of `batch`.

    It knows nothing itself: the batch learns what became of it once for all its records, and the
    answer for one is worked out when somebody asks.
    """

    batch = cython.declare(object, visibility="readonly")
    index = cython.declare(cython.int, visibility="readonly")
    timestamp_ms = cython.declare(cython.longlong, visibility="readonly")
    on_delivery = cython.declare(object, visibility="readonly")

    def __init__(self, batch: Any, index: int, timestamp_ms: int, on_delivery: Any = None) -> None:
        self.batch = batch
        self.index = index
        self.timestamp_ms = timestamp_ms
        self.on_delivery = on_delivery

    def done(self) -> bool:
        """Whether the record was acknowledged, or failed for good."""
        return self.batch.future_done(self.index)  # type: ignore[no-any-return]

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the record's `RecordMetadata`; raises what it failed with."""
        return self.batch.future_result(self, timeout)

    def exception(self, timeout: float | None = None) -> Any:
        """Wait; what the record failed with, or None."""
        return self.batch.future_exception(self, timeout)

    def add_done_callback(self, callback: Any) -> None:
        """Call `callback(future)` when it is done; at once if it is."""
        self.batch.future_callback(self, callback)

    def __await__(self) -> Any:
        return self.batch.future_await(self).__await__()

    def __repr__(self) -> str:
        return f"<SendFuture of record {self.index} in {self.batch!r}>"


@cython.final
@cython.cclass
class Accepted:
    """What `AsyncProducer.send` gives where there is nothing to wait for: awaiting it gives the
    future at once."""

    _future: object

    def __init__(self, future: Any) -> None:
        self._future = future

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise StopIteration(self._future)


@cython.final
@cython.cclass
class TopicLane:
    """Where the records of one topic go: `batches[p]` is the last batch of partition `p`.

    `sticky` is the partition of records without a key; or, if the lane `rotates`, the place in
    `rotation`, which goes on with every record and gives no heed to keys.
    """

    topic = cython.declare(str, visibility="readonly")
    rotates = cython.declare(cython.bint, visibility="readonly")
    ignore_keys = cython.declare(cython.bint, visibility="readonly")
    batches = cython.declare(list, visibility="public")
    sticky = cython.declare(cython.Py_ssize_t, visibility="public")
    rotation = cython.declare(list, visibility="public")

    def __init__(
        self,
        topic: str,
        partition_count: int,
        nothing: AppendableBatch,
        *,
        rotates: bool = False,
        ignore_keys: bool = False,
    ) -> None:
        self.topic = topic
        self.rotates = rotates
        self.ignore_keys = ignore_keys or rotates
        self.batches = [nothing] * partition_count
        self.sticky = 0
        self.rotation = list(range(partition_count))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-2, check=False)
    def choose(self, key: object) -> cython.Py_ssize_t:
        """The partition of a record that names none. No Python code runs here."""
        count: cython.Py_ssize_t
        if key is not None and not self.ignore_keys:
            count = len(self.batches)
            if cython.compiled:
                return (
                    _murmur2(cython.cast(cython.p_uchar, PyBytes_AS_STRING(key)), len(key))
                    & 0x7FFFFFFF
                ) % count
            return partition_for_key(key, count)
        if not self.rotates:
            return self.sticky
        count = len(self.rotation)
        self.sticky = (self.sticky + 1) % count
        return self.rotation[self.sticky]

    def partition_for(self, key: bytes | None) -> int:
        """The same for the slow way."""
        return self.choose(key)


@cython.no_gc
@cython.final
@cython.cclass
class _Memory:
    """A buffer that is held for as long as this object lives; nothing at all if it is None."""

    p: cython.p_uchar
    size: cython.Py_ssize_t
    held: cython.bint
    if cython.compiled:
        view: Py_buffer

    def __init__(self, buffer: Any) -> None:
        self.held = False
        self.size = 0
        if buffer is None:
            return
        if cython.compiled:
            PyObject_GetBuffer(buffer, cython.address(self.view), PyBUF_SIMPLE)
            self.held = True
            self.p = cython.cast(cython.p_uchar, self.view.buf)
            self.size = self.view.len
        else:
            self.held = True
            self.p = memoryview(buffer).cast("B")
            self.size = len(self.p)

    if cython.compiled:

        def __dealloc__(self) -> None:
            if self.held:
                PyBuffer_Release(cython.address(self.view))


@cython.final
@cython.cclass
class RowColumn:
    """A column as Arrow lays it out: a bit for each row that is not null (or no such buffer),
    64-bit numbers (offsets into `data`, or the values themselves), and bytes.

    `offset` is the first row's place in the buffers.
    """

    validity: _Memory
    numbers: _Memory
    data: _Memory
    offset: cython.Py_ssize_t

    def __init__(self, validity: Any, numbers: Any, data: Any, offset: int, rows: int) -> None:
        self.validity = _Memory(validity)
        self.numbers = _Memory(numbers)
        self.data = _Memory(data)
        self.offset = offset
        needed = 8 * (offset + rows + (1 if data is not None else 0))
        if self.numbers.size < needed:
            raise ValueError(f"a column of {rows} rows needs {needed} bytes of numbers")
        if self.validity.held and self.validity.size * 8 < offset + rows:
            raise ValueError(f"a column of {rows} rows needs a bit for each")
        if data is not None and rows and not 0 <= self.number(0) <= self.number(rows):
            raise ValueError("the offsets of a column do not grow")
        if data is not None and rows and self.number(rows) > self.data.size:
            raise ValueError("a column's offsets point behind its data")

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def is_null(self, row: cython.Py_ssize_t) -> cython.bint:
        if not self.validity.held:
            return False
        row += self.offset
        return not (self.validity.p[row >> 3] >> (row & 7)) & 1

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def number(self, row: cython.Py_ssize_t) -> cython.longlong:
        if cython.compiled:
            return cython.cast(cython.p_longlong, self.numbers.p)[row + self.offset]
        start = 8 * (row + self.offset)
        return int.from_bytes(self.numbers.p[start : start + 8], sys.byteorder, signed=True)

    def bytes_of(self, row: int) -> bytes | None:
        if self.is_null(row):
            return None
        start: cython.Py_ssize_t = self.number(row)
        end: cython.Py_ssize_t = self.number(row + 1)
        if not 0 <= start <= end <= self.data.size:
            raise ValueError(f"row {row} has offsets outside its data")
        if cython.compiled:
            return PyBytes_FromStringAndSize(
                cython.cast(cython.p_char, self.data.p) + start, end - start
            )
        return bytes(self.data.p[start:end])


@cython.final
@cython.cclass
class Rows:
    """Records that lie in columns, on their way into batches; `next_row` is the first one that is
    not in one yet. `touched` are the batches they went to."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    keys: object
    values: object
    partitions: object
    timestamps: object
    last: list  # type: ignore[type-arg]
    nothing: _Memory
    _next_row: cython.Py_ssize_t
    touched = cython.declare(list, visibility="readonly")

    def __init__(
        self,
        count: int,
        keys: Any,
        values: Any,
        partitions: Any,
        timestamps: Any,
    ) -> None:
        self.count = count
        self.keys = keys
        self.values = values
        self.partitions = partitions
        self.timestamps = timestamps
        self.last = []
        self.touched = []
        self.nothing = _Memory(b"")
        self._next_row = 0

    @property
    def next_row(self) -> int:
        return self._next_row

    @cython.ccall
    def size_of(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The bytes of key and value of a row."""
        keys: RowColumn | None = self.keys
        values: RowColumn | None = self.values
        size: cython.Py_ssize_t = 0
        if keys is not None and not keys.is_null(row):
            size += keys.number(row + 1) - keys.number(row)
        if values is not None and not values.is_null(row):
            size += values.number(row + 1) - values.number(row)
        return size

    def largest(self) -> int:
        """The row with most bytes, or -1 if there is none."""
        found: cython.Py_ssize_t = -1
        most: cython.Py_ssize_t = -1
        size: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        while row < self.count:
            size = self.size_of(row)
            if size > most:
                most = size
                found = row
            row += 1
        return found

    def partition_of(self, row: int) -> int | None:
        """What the row says of its partition."""
        if self.partitions is None:
            return None
        column: RowColumn = self.partitions
        return None if column.is_null(row) else column.number(row)

    def partition_range(self) -> tuple[int, int]:
        """The lowest (at most 0) and the highest partition that rows name; (0, -1) if none does."""
        column: RowColumn | None = self.partitions
        lowest: cython.longlong = 0
        highest: cython.longlong = -1
        named: cython.longlong
        row: cython.Py_ssize_t = 0
        while column is not None and row < self.count:
            if not column.is_null(row):
                named = column.number(row)
                if named < lowest:  # noqa: PLR1730 - min() is slower in C
                    lowest = named
                if named > highest:  # noqa: PLR1730
                    highest = named
            row += 1
        return lowest, highest

    def timestamp_of(self, row: int) -> int | None:
        if self.timestamps is None:
            return None
        column: RowColumn = self.timestamps
        return None if column.is_null(row) else column.number(row)

    def key_of(self, row: int) -> bytes | None:
        return None if self.keys is None else self.keys.bytes_of(row)

    def value_of(self, row: int) -> bytes | None:
        return None if self.values is None else self.values.bytes_of(row)

    def fill(self, lane: TopicLane) -> int:
        """Append rows until one finds no open batch with room for it; gives `next_row`, which is the
        number of rows when all are done. Runs no Python code but where a batch is new to it."""
        keys: RowColumn | None = self.keys
        values: RowColumn | None = self.values
        partitions: RowColumn | None = self.partitions
        timestamps: RowColumn | None = self.timestamps
        batch: AppendableBatch
        partition: cython.Py_ssize_t
        kept: cython.Py_ssize_t
        key_start: cython.Py_ssize_t
        key_length: cython.Py_ssize_t
        value_start: cython.Py_ssize_t
        value_length: cython.Py_ssize_t
        timestamp: cython.longlong
        size: cython.Py_ssize_t
        row: cython.Py_ssize_t = self._next_row
        count: cython.Py_ssize_t = len(lane.batches)
        nowhere: cython.p_uchar = self.nothing.p
        now_ms: cython.longlong = _now_ms()
        while len(self.last) < count:
            self.last.append(None)
        while row < self.count:
            key_start = value_start = 0
            key_length = value_length = -1
            if keys is not None and not keys.is_null(row):
                key_start = keys.number(row)
                key_length = keys.number(row + 1) - key_start
            if values is not None and not values.is_null(row):
                value_start = values.number(row)
                value_length = values.number(row + 1) - value_start
            if (
                key_start < 0
                or value_start < 0
                or key_length < -1
                or value_length < -1
                or (keys is not None and key_start + key_length > keys.data.size)
                or (values is not None and value_start + value_length > values.data.size)
            ):
                raise ValueError(f"row {row} has offsets outside its data")
            timestamp = now_ms
            if timestamps is not None and not timestamps.is_null(row):
                timestamp = timestamps.number(row)
            kept = lane.sticky
            if partitions is not None and not partitions.is_null(row):
                partition = partitions.number(row)
            elif key_length >= 0 and not lane.ignore_keys:
                assert keys is not None
                partition = (_murmur2_span(keys.data.p, key_start, key_length) & 0x7FFFFFFF) % count
            else:
                partition = lane.choose(None)
            if partition < 0 or partition >= count:
                break
            batch = cython.cast(AppendableBatch, lane.batches[partition])
            if batch.closed:
                size = 0
            elif cython.compiled:
                size = batch.builder._append_span(
                    timestamp,
                    nowhere if keys is None else keys.data.p,
                    key_start,
                    key_length,
                    nowhere if values is None else values.data.p,
                    value_start,
                    value_length,
                    batch.limit,
                )
            else:
                size = batch.builder.append_within(
                    timestamp, self.key_of(row), self.value_of(row), None, batch.limit
                )
            if size == 0:
                lane.sticky = kept
                break
            row += 1
            if self.last[partition] is not batch:
                self.last[partition] = batch
                self.touched.append(batch)
        self._next_row = row
        return row


@cython.cclass
class SendPath:
    """The face of a producer towards whoever sends; `Producer` and `AsyncProducer` are the rest.

    `_lanes` has the topics that can be sent to. `_key_serializer` and `_value_serializer` are None
    for the usual bytes, text and null. `_quick` is off where something wants to see every record;
    `_awaited` says that what `send` gives is awaited before it is the future.
    """

    _lanes = cython.declare(dict, visibility="public")
    _quick = cython.declare(cython.bint, visibility="public")
    _awaited = cython.declare(cython.bint, visibility="public")
    _key_serializer = cython.declare(object, visibility="public")
    _value_serializer = cython.declare(object, visibility="public")

    def __init__(self) -> None:
        self._lanes = {}
        self._quick = COMPILED
        self._awaited = False
        self._key_serializer = None
        self._value_serializer = None

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: Any = None,
        headers: Any = None,
        timestamp_ms: Any = None,
        on_delivery: Any = None,
    ) -> Any:
        """Queue one record; gives a future with its topic, partition, offset and timestamp."""
        if not self._quick or headers is not None:
            return self._send_any(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if value is not None and (type(value) is not bytes or self._value_serializer is not None):
            value = self._serialized(topic, value, self._value_serializer, "value")
        if key is not None and (type(key) is not bytes or self._key_serializer is not None):
            key = self._serialized(topic, key, self._key_serializer, "key")
        future = self._append(topic, value, key, partition, None, timestamp_ms, on_delivery)
        if future is not None:
            return Accepted(future) if self._awaited else future
        return self._send_slowly(topic, value, key, partition, None, timestamp_ms, on_delivery)

    @cython.ccall
    def _serialized(self, topic: object, value: object, serializer: object, field: str) -> object:
        """The bytes of a key or value that is not None, or None for a tombstone."""
        if serializer is None:
            if type(value) is str:
                try:
                    return value.encode()
                except UnicodeEncodeError as error:
                    raise not_text(topic, field, error) from None
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
            raise not_bytes(topic, field, value)
        try:
            data = (
                serializer.function(topic, value)
                if serializer.takes_topic
                else serializer.function(value)
            )
        except Exception as error:
            raise serializer.refusal(topic, value, error) from error
        if type(data) is bytes or data is None:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        raise serializer.no_bytes(topic, data)

    @cython.ccall
    def _append(
        self,
        topic: object,
        value: object,
        key: object,
        partition: object,
        headers: list | None,  # type: ignore[type-arg]
        timestamp_ms: object,
        on_delivery: object,
    ) -> object:
        """The quick way: None if a record cannot go it, and then nothing happened.

        `value` and `key` are bytes or None, `headers` None or pairs of them.
        """
        lane: TopicLane
        batch: AppendableBatch
        future: SendFuture
        index: cython.Py_ssize_t
        position: cython.longlong
        timestamp: cython.longlong
        kept: cython.Py_ssize_t
        size: cython.Py_ssize_t
        if type(topic) is not str or (on_delivery is not None and not callable(on_delivery)):
            return None
        found = self._lanes.get(topic)
        if found is None:
            return None
        lane = cython.cast(TopicLane, found)
        if timestamp_ms is None:
            timestamp = _now_ms()
        elif type(timestamp_ms) is int:
            timestamp = _number(timestamp_ms)
            if timestamp < 0:
                return None
        else:
            return None
        if partition is None:
            index = -1
        elif type(partition) is int:
            index = _number(partition)
            if index < 0:
                return None
        else:
            return None
        future = SendFuture.__new__(SendFuture)

        # From here on no Python code runs and nothing is made that the garbage collector counts.
        kept = lane.sticky
        if index < 0:
            index = lane.choose(key)
        if index >= len(lane.batches):
            return None
        batch = cython.cast(AppendableBatch, lane.batches[index])
        if batch.closed:
            lane.sticky = kept
            return None
        if cython.compiled:
            position = batch.builder._count
            size = batch.builder._append(timestamp, key, value, headers, -1, batch.limit)
        else:
            position = batch.builder.record_count
            size = batch.builder.append_within(timestamp, key, value, headers, batch.limit)
        if size == 0:
            lane.sticky = kept
            return None
        future.batch = batch
        future.index = position
        future.timestamp_ms = timestamp
        if on_delivery is not None:
            future.on_delivery = on_delivery
            batch.told.append(future)
        return future

    def _send_any(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        headers: Any,
        timestamp_ms: Any,
        on_delivery: Any,
    ) -> Any:
        """A record with whatever a record may have, nothing of it looked at yet."""
        raise NotImplementedError

    def _send_slowly(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        partition: Any,
        headers: Any,
        timestamp_ms: Any,
        on_delivery: Any,
    ) -> Any:
        """A record that is bytes by now and that `_append` did not take."""
        raise NotImplementedError
