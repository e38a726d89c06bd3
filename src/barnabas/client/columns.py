"""Records of a poll as one `pyarrow.RecordBatch`.

The kernels write the buffers of keys, values, offsets, timestamps and headers; what is the same for all
records of a batch (topic, partition, timestamp type) is repeated for its run of rows. No record becomes
a Python object.

    key, value       binary, nullable
    topic            dictionary<int32, string>
    partition        int32
    offset           int64
    timestamp        timestamp[ms, UTC]: what a record carries is an instant, and most tools show one as
                     such; the bits are the milliseconds of the wire, -1 where a record has none
    timestamp_type   int8: 0 CreateTime, 1 LogAppendTime, as in Spark's source
    headers          list<struct<key: string, value: binary>>

The names and their order are those of Spark's Kafka source but for `timestamp_type`. Deserializers do
not apply: columns are bytes, to be decoded as columns.
"""

from __future__ import annotations

from array import array
from typing import Any

from barnabas.record.arrow import finish_columns, fixed_column
from barnabas.record.kernels import ColumnsBuilder

Runs = list[tuple[str, int, int, int]]
"""(topic, partition, timestamp type, rows) of each stretch of rows, in order."""

MAX_BYTES = 256 << 20
"""Keys and values of one RecordBatch; the rest waits for the next poll."""


def record_batch(columns: ColumnsBuilder, runs: Runs) -> Any:
    """What was collected; the builder is empty afterwards."""
    import pyarrow as pa  # type: ignore[import-untyped]

    found = finish_columns(columns)
    rows = found.rows
    topics: dict[str, int] = {}
    topic_of, partitions, types = array("i"), array("i"), bytearray()
    for topic, partition, timestamp_type, count in runs:
        topic_of.extend(array("i", (topics.setdefault(topic, len(topics)),)) * count)
        partitions.extend(array("i", (partition,)) * count)
        types += bytes((timestamp_type,)) * count
    assert len(partitions) == rows
    return pa.RecordBatch.from_arrays(
        [
            found.keys,
            found.values,
            pa.DictionaryArray.from_arrays(
                fixed_column(pa.int32(), rows, topic_of), pa.array(list(topics), pa.string())
            ),
            fixed_column(pa.int32(), rows, partitions),
            found.offsets,
            fixed_column(pa.timestamp("ms", "UTC"), rows, found.timestamps),
            fixed_column(pa.int8(), rows, types),
            found.headers,
        ],
        names=[
            "key",
            "value",
            "topic",
            "partition",
            "offset",
            "timestamp",
            "timestamp_type",
            "headers",
        ],
    )
