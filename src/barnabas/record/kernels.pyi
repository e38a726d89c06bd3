from collections.abc import Iterable
from typing import TypedDict

from barnabas.record.batch import Buffer

COMPILED: bool
BATCH_OVERHEAD: int
MAX_REFUSED: int
PLACE_INT32S: int

Headers = Iterable[tuple[str, Buffer | None]]
RecordTuple = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

def scan_records(
    data: Buffer,
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    lowest_timestamp: int,
    highest_timestamp: int,
    keys_required: bool,
) -> tuple[int, int, bool, int, list[tuple[int, bool, int]] | None]: ...
def decode_records(
    data: Buffer,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    log_append_time_ms: int = -1,
) -> list[RecordTuple]: ...
def record_spans(
    data: Buffer, start: int, end: int, count: int
) -> list[tuple[int, int, int, int, bytes | None, bool]]: ...
def uninitialized(size: int) -> bytearray: ...
def locate_records(data: Buffer, start: int, end: int, count: int) -> bytearray: ...
def decode_headers(
    data: Buffer, start: int, end: int, count: int
) -> tuple[tuple[str, bytes | None], ...]: ...

BinaryColumn = tuple[int, bytearray, bytearray, bytearray]

class Columns(TypedDict):
    record_count: int
    header_count: int
    offsets: bytearray
    timestamps: bytearray
    header_offsets: bytearray
    keys: BinaryColumn
    values: BinaryColumn
    header_keys: BinaryColumn
    header_values: BinaryColumn

class ColumnsBuilder:
    def __init__(self, rows: int = 0, size: int = 0) -> None: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_in_bytes(self) -> int: ...
    def append(
        self,
        data: Buffer,
        start: int,
        end: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        log_append_time_ms: int = -1,
    ) -> int: ...
    def append_located(
        self,
        data: Buffer,
        located: bytearray,
        first: int,
        last: int,
        base_offset: int,
        base_timestamp: int,
        log_append_time_ms: int = -1,
    ) -> int: ...
    def finish(self) -> Columns: ...

def encode_headers(headers: Headers) -> list[tuple[bytes, Buffer | None]]: ...

class RecordsBuilder:
    def __init__(
        self,
        base_timestamp: int | None = None,
        capacity: int = 1024,
        buffer: bytearray | None = None,
    ) -> None: ...
    @property
    def size_in_bytes(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers = (),
        offset_delta: int = -1,
    ) -> int: ...
    def append_within(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        encoded: list[tuple[bytes, Buffer | None]] | None,
        limit: int,
    ) -> int: ...
    def extend(
        self, records: Iterable[tuple[int, Buffer | None, Buffer | None, Headers]]
    ) -> int: ...
    def finish(self) -> bytearray: ...
