"""Arrow tables on their way into a producer: columns to rows that the kernel appends.

Used columns: `value`, `key` (binary, or text that goes as UTF-8), `timestamp` (milliseconds, or an Arrow
timestamp), `partition`, `headers` (as `poll_arrow` gives them). All may have nulls, all may be missing.
`topic`, `offset` and `timestamp_type`, which a consumer's table has too, say nothing about where and how
a record is sent, and are passed over; any other column is an error. Whatever gives Arrow data is a
table: pyarrow's, Polars', DuckDB's.

pyarrow is an extra, imported only when something here is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.client.errors import ClientError, OptionError, SerializationError
from barnabas.client.kernels_producer import RowColumn, Rows

if TYPE_CHECKING:
    from barnabas.client.core.batch import ProducerBatch

USED = ("key", "value", "timestamp", "partition", "headers")
PASSED_OVER = ("topic", "offset", "timestamp_type")


class Waits(Protocol):
    def wait(self, batch: ProducerBatch, timeout: float | None) -> None: ...

    def awaitable(self, batch: ProducerBatch) -> Awaitable[object]: ...


class TableFuture:
    """What becomes of the records of one table. Its result is how many were acknowledged, which is all
    of them: when one fails, that is raised."""

    def __init__(self, topic: str, owner: Waits) -> None:
        self.topic = topic
        self.count = 0
        self._owner = owner
        self._batches: list[ProducerBatch] = []

    def take(self, count: int, batches: list[ProducerBatch]) -> None:
        self.count += count
        self._batches += batches

    def _open(self) -> Iterator[ProducerBatch]:
        """The batches that are not done. Of one that was split, the parts."""
        while self._batches:
            batch = self._batches[-1]
            if not batch.done:
                yield batch
            elif batch.parts is not None:
                self._batches.pop()
                self._batches += [part for _, part in batch.parts]
            elif batch.error is not None:
                return
            else:
                self._batches.pop()

    def _error(self) -> ClientError | None:
        return next((batch.error for batch in self._batches if batch.error is not None), None)

    def done(self) -> bool:
        return next(self._open(), None) is None

    def result(self, timeout: float | None = None) -> int:
        """Wait for all of it; the number of records. `timeout` is for each batch."""
        for batch in self._open():
            self._owner.wait(batch, timeout)
        error = self._error()
        if error is not None:
            raise error
        return self.count

    async def _settled(self) -> int:
        for batch in self._open():
            await self._owner.awaitable(batch)
        return self.result(0.0)

    def __await__(self) -> Generator[Any, None, int]:
        return self._settled().__await__()


class HeadedRow(NamedTuple):
    """A row with headers goes like any other record, one by one."""

    value: bytes | None
    key: bytes | None
    partition: int | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp_ms: int | None


def rows_of(table: Any, topic: str) -> list[Rows | HeadedRow]:
    """The rows of a table, in order: stretches without headers, and single rows with some."""
    found: list[Rows | HeadedRow] = []
    for chunk in as_table(table, topic).to_batches():
        columns = dict(zip(chunk.schema.names, chunk.columns, strict=True))
        headers = columns.pop("headers", None)
        start = 0
        for row, pairs in _headers(headers, topic):
            if row > start:
                found.append(_stretch(_cut(columns, start, row), row - start, topic))
            found.append(_headed(_cut(columns, row, row + 1), pairs, topic))
            start = row + 1
        if chunk.num_rows > start:
            rows = chunk.num_rows - start
            found.append(_stretch(_cut(columns, start, chunk.num_rows), rows, topic))
    return found


def _cut(columns: dict[str, Any], start: int, end: int) -> dict[str, Any]:
    return {name: column.slice(start, end - start) for name, column in columns.items()}


def _stretch(columns: dict[str, Any], count: int, topic: str) -> Rows:
    return Rows(
        count,
        _binary(columns.get("key"), "key", topic, count),
        _binary(columns.get("value"), "value", topic, count),
        _numbers(columns.get("partition"), "partition", topic, count),
        _timestamps(columns.get("timestamp"), topic, count),
    )


def _headed(columns: dict[str, Any], pairs: list[Any], topic: str) -> HeadedRow:
    rows = _stretch(columns, 1, topic)
    return HeadedRow(
        rows.value_of(0),
        rows.key_of(0),
        rows.partition_of(0),
        [(pair["key"].encode("utf-8", "surrogateescape"), pair["value"]) for pair in pairs],
        rows.timestamp_of(0),
    )


def _headers(column: Any, topic: str) -> Iterator[tuple[int, list[Any]]]:
    """The rows that have headers, and those."""
    import pyarrow as pa  # type: ignore[import-untyped]

    if column is None or pa.types.is_null(column.type):
        return
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    column = _cast(column, pa.list_(entry), "headers", topic)
    for row, pairs in enumerate(column.to_pylist()):
        if pairs:
            yield row, pairs


def as_table(table: Any, topic: str) -> Any:
    """A pyarrow table with columns that are known."""
    try:
        import pyarrow as pa
    except ImportError:
        raise OptionError(
            "Tables need pyarrow, which is not installed.",
            next_step="pip install 'barnabas[arrow]'",
        ) from None
    if not isinstance(table, pa.Table):
        try:
            batch = isinstance(table, pa.RecordBatch)
            table = pa.Table.from_batches([table]) if batch else pa.table(table)
        except (TypeError, ValueError, pa.ArrowInvalid) as error:
            raise SerializationError(
                f"What was given for topic {topic} is no table: {error}.",
                topic=topic,
                next_step="Give a pyarrow Table or RecordBatch, or anything that gives Arrow data.",
            ) from None
    names = table.schema.names
    wrong = [name for name in names if name not in USED and name not in PASSED_OVER]
    if wrong or len(set(names)) != len(names) or not {"key", "value"} & set(names):
        raise SerializationError(
            f"A table for topic {topic} has the columns {', '.join(names) or 'none'}.",
            topic=topic,
            next_step=f"Give it value or key, and no others than {', '.join(USED)}.",
        )
    return table


def _cast(column: Any, kind: Any, field: str, topic: str) -> Any:
    import pyarrow as pa

    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SerializationError(
            f"The column {field} of a table for topic {topic} is of type {column.type}: {error}.",
            topic=topic,
            field=field,
            next_step=f"Cast it to {kind}.",
        ) from None


def _binary(column: Any, field: str, topic: str, count: int) -> RowColumn | None:
    import pyarrow as pa

    if column is None or pa.types.is_null(column.type):
        return None
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    textual = (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_fixed_size_binary(kind)
        or getattr(pa.types, "is_binary_view", lambda _kind: False)(kind)
        or getattr(pa.types, "is_string_view", lambda _kind: False)(kind)
    )
    if not textual:
        raise SerializationError(
            f"The column {field} of a table for topic {topic} is of type {kind}, not binary.",
            topic=topic,
            field=field,
            next_step="Cast it to binary or string, or encode it.",
        )
    column = _cast(column, pa.large_binary(), field, topic)
    validity, offsets, data = column.buffers()
    return RowColumn(validity, offsets, data if data is not None else b"", column.offset, count)


def _numbers(column: Any, field: str, topic: str, count: int) -> RowColumn | None:
    import pyarrow as pa

    if column is None or pa.types.is_null(column.type):
        return None
    if not pa.types.is_integer(column.type):
        raise SerializationError(
            f"The column {field} of a table for topic {topic} is of type {column.type}.",
            topic=topic,
            field=field,
            next_step="Cast it to int64.",
        )
    column = _cast(column, pa.int64(), field, topic)
    validity, numbers = column.buffers()
    return RowColumn(validity, numbers, None, column.offset, count)


def _timestamps(column: Any, topic: str, count: int) -> RowColumn | None:
    import pyarrow as pa
    from pyarrow import compute

    if column is not None and pa.types.is_timestamp(column.type):
        column = compute.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
        column = column.cast(pa.int64())
    found = _numbers(column, "timestamp", topic, count)
    if found is not None and (compute.min(column).as_py() or 0) < 0:
        raise SerializationError(
            f"The column timestamp of a table for topic {topic} has a time before 1970.",
            topic=topic,
            field="timestamp",
        )
    return found
