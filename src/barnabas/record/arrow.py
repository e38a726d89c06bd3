"""Records as Arrow columns, for those who hand them to Spark, Polars or a lakehouse.

The kernels write the columns' buffers and pyarrow only wraps them; no record becomes a Python
object. Columns: `offset` and `timestamp` (int64), `key` and `value` (binary), and `headers`, a list
of `(key: string, value: binary)`. A header key that is not UTF-8, which the wire allows and an
Arrow string does not, has its bad bytes replaced with U+FFFD.

pyarrow is an extra, imported only when something here is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.record.batch import (
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Buffer,
    iterate_batches,
    verify_crc,
)
from barnabas.record.compression import MAX_DECOMPRESSED_BYTES
from barnabas.record.kernels import ColumnsBuilder
from barnabas.record.read import batch_body

if TYPE_CHECKING:
    from barnabas.record.kernels import BinaryColumn, Columns


def append_batch(
    builder: ColumnsBuilder,
    buffer: Buffer,
    header: BatchHeader,
    start: int = 0,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> int:
    """Appends the records of the batch at `start`; gives the builder's record count."""
    body, body_start, body_end = batch_body(buffer, header, start, limit)
    return builder.append(
        body,
        body_start,
        body_end,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else -1,
    )


def read_arrow(
    buffer: Buffer,
    *,
    check_crc: bool = True,
    partial_tail: bool = False,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> Any:
    """Every record of every data batch in `buffer` as one `pyarrow.RecordBatch`."""
    builder = ColumnsBuilder()
    for header, start, _end in iterate_batches(buffer, partial_tail=partial_tail):
        if header.is_control:
            continue
        if check_crc:
            verify_crc(buffer, header, start)
        append_batch(builder, buffer, header, start, limit)
    return finish_arrow(builder)


class FinishedColumns(NamedTuple):
    """`offsets`, `keys`, `values` and `headers` are Arrow arrays, `timestamps` a buffer of int64."""

    rows: int
    offsets: Any
    timestamps: bytearray
    keys: Any
    values: Any
    headers: Any


def finish_columns(builder: ColumnsBuilder) -> FinishedColumns:
    """What a builder has collected as arrays. The builder is empty afterwards."""
    import pyarrow as pa  # type: ignore[import-untyped]

    columns = builder.finish()
    rows = columns["record_count"]
    return FinishedColumns(
        rows,
        fixed_column(pa.int64(), rows, columns["offsets"]),
        columns["timestamps"],
        _binary(pa.binary(), rows, columns["keys"]),
        _binary(pa.binary(), rows, columns["values"]),
        _headers(columns),
    )


def finish_arrow(builder: ColumnsBuilder) -> Any:
    """What a builder has collected as a `pyarrow.RecordBatch`. The builder is empty afterwards."""
    import pyarrow as pa

    found = finish_columns(builder)
    return pa.RecordBatch.from_arrays(
        [
            found.offsets,
            fixed_column(pa.int64(), found.rows, found.timestamps),
            found.keys,
            found.values,
            found.headers,
        ],
        names=["offset", "timestamp", "key", "value", "headers"],
    )


def _headers(columns: Columns) -> Any:
    import pyarrow as pa

    header_rows = columns["header_count"]
    header_keys = _binary(pa.string(), header_rows, columns["header_keys"])
    try:
        header_keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = _binary(pa.binary(), header_rows, columns["header_keys"])
        header_keys = pa.array(
            [key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string()
        )
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    entries = pa.Array.from_buffers(
        entry,
        header_rows,
        [None],
        null_count=0,
        children=[header_keys, _binary(pa.binary(), header_rows, columns["header_values"])],
    )
    return pa.Array.from_buffers(
        pa.list_(entry),
        columns["record_count"],
        [None, pa.py_buffer(columns["header_offsets"])],
        null_count=0,
        children=[entries],
    )


def fixed_column(kind: Any, rows: int, values: Any) -> Any:
    """A column of numbers out of a buffer that holds them one after another."""
    import pyarrow as pa

    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)], null_count=0)


def _binary(kind: Any, rows: int, column: BinaryColumn) -> Any:
    import pyarrow as pa

    null_count, validity, offsets, data = column
    return pa.Array.from_buffers(
        kind,
        rows,
        [
            pa.py_buffer(validity) if null_count else None,
            pa.py_buffer(offsets),
            pa.py_buffer(data),
        ],
        null_count=null_count,
    )
