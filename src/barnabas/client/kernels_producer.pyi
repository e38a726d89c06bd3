from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.client.core.batch import ProducerBatch, RecordMetadata
from barnabas.client.errors import ClientError
from barnabas.record.kernels import RecordsBuilder

T = TypeVar("T")

COMPILED: bool

def murmur2(key: bytes) -> int: ...
def partition_for_key(key: bytes, partition_count: int) -> int: ...

class AppendableBatch:
    builder: RecordsBuilder
    limit: int
    closed: bool
    done: bool
    told: list[SendFuture]
    def __init__(self, limit: int, buffer: bytearray | None = None) -> None: ...

class SendFuture:
    @property
    def batch(self) -> ProducerBatch: ...
    @property
    def index(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def on_delivery(self) -> Callable[[RecordMetadata, ClientError | None], object] | None: ...
    def done(self) -> bool:
        """Whether the record was acknowledged, or failed for good."""

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record's `RecordMetadata`; raises what it failed with."""

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Wait; what the record failed with, or None."""

    def add_done_callback(self, callback: Callable[[SendFuture], object]) -> None:
        """Call `callback(future)` when it is done; soon if it is."""

    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...

class Accepted:
    def __init__(self, future: SendFuture) -> None: ...
    def __await__(self) -> Generator[Any, None, SendFuture]: ...

class TopicLane:
    batches: list[AppendableBatch]
    sticky: int
    rotation: list[int]
    def __init__(
        self,
        topic: str,
        partition_count: int,
        nothing: AppendableBatch,
        *,
        rotates: bool = False,
        ignore_keys: bool = False,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def rotates(self) -> bool: ...
    @property
    def ignore_keys(self) -> bool: ...
    def partition_for(self, key: bytes | None) -> int: ...

Headers = Mapping[str, Any] | Iterable[tuple[str, Any]]

class SendPath:
    _lanes: dict[str, TopicLane]
    _quick: bool
    _awaited: bool
    _key_serializer: Any
    _value_serializer: Any
    def __init__(self) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[RecordMetadata, ClientError | None], object] | None = None,
    ) -> Any:
        """Queue one record; gives a future with its topic, partition, offset and timestamp."""

    def _serialized(self, topic: Any, value: Any, serializer: Any, field: str) -> bytes | None: ...
    def _append(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: list[tuple[bytes, bytes | None]] | None,
        timestamp_ms: int | None,
        on_delivery: Callable[[RecordMetadata, ClientError | None], object] | None,
    ) -> SendFuture | None: ...

class RowColumn:
    def __init__(self, validity: Any, numbers: Any, data: Any, offset: int, rows: int) -> None: ...

class Rows:
    def __init__(
        self,
        count: int,
        keys: RowColumn | None,
        values: RowColumn | None,
        partitions: RowColumn | None,
        timestamps: RowColumn | None,
    ) -> None: ...
    count: int
    @property
    def next_row(self) -> int: ...
    @property
    def touched(self) -> list[ProducerBatch]: ...
    def size_of(self, row: int) -> int: ...
    def largest(self) -> int: ...
    def partition_of(self, row: int) -> int | None: ...
    def partition_range(self) -> tuple[int, int]: ...
    def timestamp_of(self, row: int) -> int | None: ...
    def key_of(self, row: int) -> bytes | None: ...
    def value_of(self, row: int) -> bytes | None: ...
    def fill(self, lane: TopicLane) -> int: ...
