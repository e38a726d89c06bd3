"""What a consumer does once a record, in a form that Cython compiles and Python can also just run.

`ConsumerRecord` is what `poll` gives. `OpenBatch` is one batch that was fetched, checked and
decompressed, and is being handed out: it knows which record is next, so that `max_records` may end
anywhere in it, and gives records as objects or, from the same place, as rows of Arrow columns.

The body is checked as a whole before the first of its records is given (`locate_records`, or the columns
themselves if they take all of it), so a batch is either refused or can be handed out to its end. The one
thing that can still fail is a deserializer: `take` then stops in front of that record, keeps what it
raised in `failure`, and the caller decides what becomes of the record.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from barnabas.record.batch import TimestampType
from barnabas.record.errors import CorruptBatch, InvalidRecords, UnsupportedMagic
from barnabas.record.kernels import (
    PLACE_INT32S,
    decode_headers,
    locate_records,
)

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
    )
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_FromStringAndSize,
    )

COMPILED: bool = cython.compiled

_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_INT32 = Struct(">i")
_INT64 = Struct(">q")
assert PLACE_INT32S == 10, "the places below are those of locate_records"


@cython.final
@cython.cclass
class ConsumerRecord:
    """One record as a consumer got it. Immutable; equal to another with the same fields.

    `headers` is a tuple of `(str, bytes | None)`. `timestamp` is in milliseconds since 1970, -1 if
    the record has none. `leader_epoch` is that of the leader which wrote the record, -1 if it is
    not known. The serialized sizes are those of the bytes, -1 for null.
    """

    __match_args__ = (
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
        "leader_epoch",
    )

    _topic: object
    _key: object
    _value: object
    _headers: object
    _offset: cython.longlong
    _timestamp: cython.longlong
    _partition: cython.int
    _timestamp_type: cython.int
    _leader_epoch: cython.int
    _key_size: cython.int
    _value_size: cython.int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        timestamp_type: int = 0,
        key: Any = None,
        value: Any = None,
        headers: Any = (),
        leader_epoch: int = -1,
        serialized_key_size: int | None = None,
        serialized_value_size: int | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._timestamp = timestamp
        self._timestamp_type = timestamp_type
        self._key = key
        self._value = value
        self._headers = tuple(headers)
        self._leader_epoch = leader_epoch
        self._key_size = _size_of(key) if serialized_key_size is None else serialized_key_size
        self._value_size = (
            _size_of(value) if serialized_value_size is None else serialized_value_size
        )

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def timestamp(self) -> int:
        return self._timestamp

    @property
    def timestamp_type(self) -> TimestampType:
        return _TYPES[self._timestamp_type]

    @property
    def key(self) -> Any:
        return self._key

    @property
    def value(self) -> Any:
        return self._value

    @property
    def headers(self) -> Any:
        return self._headers

    @property
    def leader_epoch(self) -> int:
        return self._leader_epoch

    @property
    def serialized_key_size(self) -> int:
        return self._key_size

    @property
    def serialized_value_size(self) -> int:
        return self._value_size

    def _fields(self) -> tuple:  # type: ignore[type-arg]
        return (
            self._topic,
            self._partition,
            self._offset,
            self._timestamp,
            self._timestamp_type,
            self._key,
            self._value,
            self._headers,
            self._leader_epoch,
            self._key_size,
            self._value_size,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        one: ConsumerRecord = other
        return self._fields() == one._fields()

    def __hash__(self) -> int:
        return hash((self._topic, self._partition, self._offset))

    def __reduce__(self) -> tuple:  # type: ignore[type-arg]
        return ConsumerRecord, self._fields()

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self._topic!r}, partition={self._partition}, "
            f"offset={self._offset}, timestamp={self._timestamp}, "
            f"timestamp_type={self.timestamp_type.name}, key={self._key!r}, "
            f"value={self._value!r}, headers={self._headers!r}, "
            f"leader_epoch={self._leader_epoch})"
        )


def _owner(data: Any) -> Any:
    """Whose memory it is. That is held, not the view of it: the garbage collector may clear a view,
    and complains when somebody still holds it. For the same reason the collector must not clear what
    holds it (`no_gc_clear`); nothing that refers back to such an object is lost by that."""
    return data.obj if isinstance(data, memoryview) else data


def _size_of(data: Any) -> int:
    return len(data) if isinstance(data, (bytes, bytearray, memoryview)) else -1


@cython.no_gc_clear
@cython.final
@cython.cclass
class OpenBatch:
    """The records of one batch, of which some may have been handed out already.

    `data[start:end]` is the decompressed body, whose records have offsets from `base_offset` on.
    `first_offset` is where the reader stands: what the batch has below it is passed over. A
    `log_append_time_ms` that is not -1 takes the place of every record's own timestamp.
    """

    _topic: object
    _data: object
    _located: bytearray
    _failure: object
    _failed_field: str
    _partition: cython.int
    _leader_epoch: cython.int
    _base_offset: cython.longlong
    _base_timestamp: cython.longlong
    _log_append_time_ms: cython.longlong
    _next: cython.Py_ssize_t
    _count: cython.Py_ssize_t
    _start: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    _bytes: cython.Py_ssize_t
    p: cython.p_uchar
    places: cython.p_int
    deltas: cython.p_longlong
    if cython.compiled:
        view: Py_buffer

    def __init__(
        self,
        topic: Any,
        partition: cython.int,
        leader_epoch: cython.int,
        data: Any,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        count: cython.longlong,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        log_append_time_ms: cython.longlong,
        first_offset: cython.longlong,
    ) -> None:
        if count < 0:
            raise InvalidRecords(f"found invalid record count {count}")
        if cython.compiled:
            PyObject_GetBuffer(data, cython.address(self.view), PyBUF_SIMPLE)
            self.p = cython.cast(cython.p_uchar, self.view.buf)
            PyBuffer_Release(cython.address(self.view))
            PyObject_GetBuffer(_owner(data), cython.address(self.view), PyBUF_SIMPLE)
        else:
            self.p = memoryview(data)
        self._data = data
        self._start = start
        self._end = end
        self._topic = topic
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._log_append_time_ms = log_append_time_ms
        self._count = count
        self._failure = None
        self._failed_field = ""
        self._bytes = 0
        self._next = 0
        self._located = None
        if first_offset > base_offset:
            self.locate()
            index: cython.Py_ssize_t = 0
            while index < count and base_offset + self.places[index * 10 + 2] < first_offset:
                index += 1
            self._next = index

    if cython.compiled:

        def __dealloc__(self) -> None:
            PyBuffer_Release(cython.address(self.view))

    def locate(self) -> None:
        """Check the body and find its records; raises InvalidRecords. Done by itself when needed."""
        if self._located is not None:
            return
        self._located = locate_records(self._data, self._start, self._end, self._count)
        if cython.compiled:
            self.places = cython.cast(cython.p_int, PyByteArray_AS_STRING(self._located))
            self.deltas = cython.cast(cython.p_longlong, PyByteArray_AS_STRING(self._located))
        else:
            self.places = memoryview(self._located).cast("i")
            self.deltas = memoryview(self._located).cast("q")

    @property
    def left(self) -> int:
        """How many records are still to be handed out."""
        return self._count - self._next

    @property
    def next_offset(self) -> int:
        """The offset of the record that comes next; -1 if there is none."""
        if self._next >= self._count:
            return -1
        self.locate()
        return self._base_offset + self.places[self._next * 10 + 2]

    @property
    def timestamp_type(self) -> int:
        """1 if the broker's time took the place of the records' own, else 0."""
        return 0 if self._log_append_time_ms == -1 else 1

    @property
    def failure(self) -> Any:
        """What a deserializer raised for the record that comes next, or None."""
        return self._failure

    @property
    def failed_field(self) -> str:
        """ "key" or "value": what that deserializer was for."""
        return self._failed_field

    @property
    def bytes_taken(self) -> int:
        """The bytes of keys and values that were handed out as objects."""
        return self._bytes

    def take(
        self, found: list, limit: cython.Py_ssize_t, key_deserializer: Any, value_deserializer: Any
    ) -> int:
        """Appends up to `limit` records to `found`; gives how many.

        Deserializers are those of `serialization`, or None, which leaves bytes as they are; null is
        never deserialized. When one raises, `failure` is set and the record is not taken.
        """
        self.locate()
        places: cython.p_int = self.places
        index: cython.Py_ssize_t = self._next
        last: cython.Py_ssize_t = min(self._count, index + max(limit, 0))
        first: cython.Py_ssize_t = index
        raw: cython.bint = key_deserializer is None and value_deserializer is None
        append_time: cython.bint = self._log_append_time_ms != -1
        place: cython.Py_ssize_t = index * 10
        topic: object = self._topic
        size: cython.Py_ssize_t = self._bytes
        key_size: cython.int
        value_size: cython.int
        record: ConsumerRecord
        deserializing_value: cython.bint = False
        key_function: object = None
        value_function: object = None
        key_takes_topic: cython.bint = False
        value_takes_topic: cython.bint = False
        if key_deserializer is not None:
            key_function = key_deserializer.function
            key_takes_topic = key_deserializer.takes_topic
        if value_deserializer is not None:
            value_function = value_deserializer.function
            value_takes_topic = value_deserializer.takes_topic
        try:
            while index < last:
                record = ConsumerRecord.__new__(ConsumerRecord)
                key_size = places[place + 4]
                value_size = places[place + 6]
                record._topic = topic
                record._partition = self._partition
                record._leader_epoch = self._leader_epoch
                record._offset = self._base_offset + places[place + 2]
                record._timestamp_type = append_time
                if append_time:
                    record._timestamp = self._log_append_time_ms
                else:
                    record._timestamp = _wrapping_add(self._base_timestamp, self.deltas[index * 5])
                record._key_size = key_size
                record._value_size = value_size
                if places[place + 9]:
                    record._headers = decode_headers(
                        self._data, places[place + 7], places[place + 8], places[place + 9]
                    )
                else:
                    record._headers = ()
                record._key = _slice(self.p, places[place + 3], key_size)
                record._value = _slice(self.p, places[place + 5], value_size)
                if not raw:
                    deserializing_value = False
                    if key_function is not None and key_size >= 0:
                        if key_takes_topic:
                            record._key = key_function(topic, record._key)
                        else:
                            record._key = key_function(record._key)
                    deserializing_value = True
                    if value_function is not None and value_size >= 0:
                        if value_takes_topic:
                            record._value = value_function(topic, record._value)
                        else:
                            record._value = value_function(record._value)
                found.append(record)
                if key_size > 0:
                    size += key_size
                if value_size > 0:
                    size += value_size
                index += 1
                place += 10
        except Exception as error:
            self._failure = error
            self._failed_field = "value" if deserializing_value else "key"
        self._next = index
        self._bytes = size
        return index - first

    def take_columns(self, columns: Any, limit: cython.Py_ssize_t) -> int:
        """The same as rows of a `ColumnsBuilder`, without deserializers; gives how many."""
        first: cython.Py_ssize_t = self._next
        last: cython.Py_ssize_t = min(self._count, first + max(limit, 0))
        if self._located is None and first == 0 and last == self._count:
            columns.append(
                self._data,
                self._start,
                self._end,
                self._count,
                self._base_offset,
                self._base_timestamp,
                self._log_append_time_ms,
            )
            self._next = last
            return last
        self.locate()
        columns.append_located(
            self._data,
            self._located,
            first,
            last,
            self._base_offset,
            self._base_timestamp,
            self._log_append_time_ms,
        )
        self._next = last
        return last - first

    def take_raw(self) -> ConsumerRecord:
        """The next record with its bytes as they are, whatever is wrong with them."""
        found: list = []  # type: ignore[type-arg]
        self._failure = None
        self.take(found, 1, None, None)
        return found[0]

    def peek_raw(self) -> ConsumerRecord:
        """The same, but it stays the next."""
        failure = self._failure
        record = self.take_raw()
        self._failure = failure
        self._next -= 1
        return record


@cython.no_gc_clear
@cython.final
@cython.cclass
class FetchedRecords:
    """The batches of one partition in one answer to Fetch, walked one after another.

    Making one walks over the frames, without looking into them: `next_offset` is where the answer
    ends (-1 if it holds no whole batch), `last_epoch` the leader epoch of its last batch, and
    `left_bytes` what is not yet passed over. An answer may end inside a batch, which is not seen.
    A frame that no batch can have ends the walk too, but `advance` raises there.

    After `advance` gave True the other properties are those of the batch it came to.
    """

    _topic: object
    _data: object
    _partition: cython.int
    _position: cython.Py_ssize_t
    _start: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    _limit: cython.Py_ssize_t
    _next_offset: cython.longlong
    _last_epoch: cython.int
    _is_corrupt: cython.bint
    _cut_size: cython.longlong
    p: cython.p_uchar
    if cython.compiled:
        view: Py_buffer

    def __init__(self, topic: Any, partition: cython.int, data: Any) -> None:
        length: cython.Py_ssize_t
        if cython.compiled:
            PyObject_GetBuffer(data, cython.address(self.view), PyBUF_SIMPLE)
            self.p = cython.cast(cython.p_uchar, self.view.buf)
            length = self.view.len
            PyBuffer_Release(cython.address(self.view))
            PyObject_GetBuffer(_owner(data), cython.address(self.view), PyBUF_SIMPLE)
        else:
            self.p = memoryview(data)
            length = len(self.p)
        self._topic = topic
        self._partition = partition
        self._data = data
        self._position = 0
        self._start = 0
        self._end = 0
        self._next_offset = -1
        self._last_epoch = -1
        position: cython.Py_ssize_t = 0
        size: cython.longlong
        while length - position >= 61:
            size = _int32(self.p, position + 8)
            size += 12
            if size < 61 or self.p[position + 16] != 2 or self.p[position + 23] > 0x7F:
                break
            if size > length - position:
                break
            self._next_offset = _int64(self.p, position) + _int32(self.p, position + 23) + 1
            self._last_epoch = _int32(self.p, position + 12)
            position += size
        self._limit = position
        self._is_corrupt = False
        self._cut_size = 0
        if length - position >= 24:
            size = _int32(self.p, position + 8)
            size += 12
            self._cut_size = size
            if size < 61 or self.p[position + 16] != 2 or self.p[position + 23] > 0x7F:
                self._limit = length
                self._is_corrupt = True

    if cython.compiled:

        def __dealloc__(self) -> None:
            PyBuffer_Release(cython.address(self.view))

    @property
    def next_offset(self) -> int:
        return self._next_offset

    @property
    def last_epoch(self) -> int:
        return self._last_epoch

    @property
    def is_corrupt(self) -> bool:
        """Whether the walk ended at a frame that no batch can have."""
        return self._is_corrupt

    @property
    def cut_size(self) -> int:
        """How many bytes the batch has that the end of the answer cuts off; 0 if that is not known
        or there is none."""
        return self._cut_size

    @property
    def left_bytes(self) -> int:
        return self._limit - self._position

    def advance(self) -> bool:
        """Comes to the next batch; False if there is none."""
        position: cython.Py_ssize_t = self._position
        if position >= self._limit:
            return False
        self._start = position
        self._end = self._position = self._limit
        size: cython.longlong = _int32(self.p, position + 8)
        size += 12
        if self.p[position + 16] < 2:
            raise UnsupportedMagic(self.p[position + 16])
        if self.p[position + 16] > 2:
            raise CorruptBatch(f"unknown magic {self.p[position + 16]}")
        if size < 61:
            raise CorruptBatch(f"a batch cannot have a size of {size} bytes")
        if self.p[position + 23] > 0x7F:
            raise CorruptBatch("a batch cannot end before it begins")
        self._end = self._position = position + size
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def _must_be_whole(self) -> cython.int:
        if self._end - self._start < 61:
            raise ValueError("no batch was come to")
        return 0

    @property
    def data(self) -> Any:
        return self._data

    @property
    def start(self) -> int:
        return self._start

    @property
    def end(self) -> int:
        return self._end

    @property
    def base_offset(self) -> int:
        self._must_be_whole()
        return _int64(self.p, self._start)

    @property
    def last_offset(self) -> int:
        self._must_be_whole()
        return _int64(self.p, self._start) + _int32(self.p, self._start + 23)

    @property
    def leader_epoch(self) -> int:
        self._must_be_whole()
        return _int32(self.p, self._start + 12)

    @property
    def crc(self) -> int:
        self._must_be_whole()
        return _int32(self.p, self._start + 17) & 0xFFFFFFFF

    @property
    def attributes(self) -> int:
        self._must_be_whole()
        return self.p[self._start + 22]

    @property
    def producer_id(self) -> int:
        self._must_be_whole()
        return _int64(self.p, self._start + 43)

    def facts(self) -> tuple:  # type: ignore[type-arg]
        """`(start, end, last_offset, leader_epoch, attributes, crc)` of the batch in one call."""
        self._must_be_whole()
        start: cython.Py_ssize_t = self._start
        return (
            start,
            self._end,
            _int64(self.p, start) + _int32(self.p, start + 23),
            _int32(self.p, start + 12),
            self.p[start + 22],
            _int32(self.p, start + 17) & 0xFFFFFFFF,
        )

    def open(self, body: Any, first_offset: cython.longlong) -> OpenBatch:
        """The batch's records from `first_offset` on. `body` is what they decompress to, or None
        if they are not compressed. Raises InvalidRecords if they are not as records must be."""
        start: cython.Py_ssize_t = self._start
        log_append_time_ms: cython.longlong = -1
        self._must_be_whole()
        if self.p[start + 22] & 8:
            log_append_time_ms = _int64(self.p, start + 35)
        if body is None:
            return OpenBatch(
                self._topic,
                self._partition,
                _int32(self.p, start + 12),
                self._data,
                start + 61,
                self._end,
                _int32(self.p, start + 57),
                _int64(self.p, start),
                _int64(self.p, start + 27),
                log_append_time_ms,
                first_offset,
            )
        return OpenBatch(
            self._topic,
            self._partition,
            _int32(self.p, start + 12),
            body,
            0,
            len(body),
            _int32(self.p, start + 57),
            _int64(self.p, start),
            _int64(self.p, start + 27),
            log_append_time_ms,
            first_offset,
        )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int32(p: cython.p_uchar, at: cython.Py_ssize_t) -> cython.int:
    """Four bytes as the wire has them: the highest first."""
    if cython.compiled:
        return cython.cast(
            cython.int,
            (cython.cast(cython.uint, p[at]) << 24)
            | (cython.cast(cython.uint, p[at + 1]) << 16)
            | (cython.cast(cython.uint, p[at + 2]) << 8)
            | p[at + 3],
        )
    return _INT32.unpack_from(p, at)[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int64(p: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return cython.cast(
            cython.longlong,
            (cython.cast(cython.ulonglong, cython.cast(cython.uint, _int32(p, at))) << 32)
            | cython.cast(cython.uint, _int32(p, at + 4)),
        )
    return _INT64.unpack_from(p, at)[0]


@cython.cfunc
@cython.inline
def _slice(p: cython.p_uchar, start: cython.Py_ssize_t, length: cython.Py_ssize_t) -> object:
    if length < 0:
        return None
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, p) + start, length)
    return bytes(p[start : start + length])


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
    return ((left + right + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000
