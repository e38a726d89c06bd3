"""Records to typed events, and for each that is none of them the reason.

`parse` is stateless and written in Spark's own expressions, so that nothing runs in Python per
record. JSON is read once, with every field as text; whether the text fits the field's type, choices
and bounds is then checked by the table in `events.py`. The first check that fails is the reason,
in the order: the value at all, its encoding, its JSON, then the fields from first to last. A number
in quotes is taken for a number, since some languages' JSON writers do so with 64-bit integers.

Columns: `kind`, the typed fields of all kinds (null where a kind has no such field), `event_time`,
`reason` (null if the event is good), and the record's own `key`, `value`, `topic`, `partition`,
`offset`, `timestamp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.spark.events import BY_TOPIC, INTEGER, KINDS, Field, fields_by_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
AHEAD_LIMIT_MS = 5 * 60 * 1000
"""An event may be this far ahead of its record's timestamp: clocks differ. More would drag the
watermark along and make everybody else's events late."""


def parse(records: DataFrame) -> DataFrame:
    """`records` with Spark's Kafka columns, to events of all kinds; see above for the columns."""
    from pyspark.sql import functions as F

    text = records.value.cast("string")
    schema = ", ".join(f"`{name}` STRING" for name in fields_by_name())
    read = records.select(
        *RECORD_COLUMNS,
        F.from_json(
            text,
            f"{schema}, `_corrupt` STRING",
            {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"},
        ).alias("json"),
        _kind_of_topic().alias("kind"),
    )
    typed = [_typed(field).alias(field.name) for field in fields_by_name().values()]
    return read.select(
        "kind",
        *typed,
        F.timestamp_millis(_integer("event_time_ms")).alias("event_time"),
        _reason(text).alias("reason"),
        *RECORD_COLUMNS,
    )


def good(parsed: DataFrame) -> DataFrame:
    return parsed.where("reason IS NULL").drop("reason", "key", "value")


def malformed(parsed: DataFrame) -> DataFrame:
    return parsed.where("reason IS NOT NULL").select("reason", *RECORD_COLUMNS)


def events_of(records: DataFrame, *kinds: str) -> DataFrame:
    """The good events of some kinds."""
    from pyspark.sql import functions as F

    return good(parse(records)).where(F.col("kind").isin(list(kinds)))


def _kind_of_topic() -> Column:
    from pyspark.sql import functions as F

    names = [F.lit(text) for topic, kind in BY_TOPIC.items() for text in (topic, kind.name)]
    return F.try_element_at(F.create_map(*names), F.col("topic"))


def _member(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("json").getField(name)


def _integer(name: str) -> Column:
    return _member(name).try_cast("bigint")


def _typed(field: Field) -> Column:
    return _integer(field.name) if field.type == INTEGER else _member(field.name)


def _reason(text: Column) -> Column:
    from pyspark.sql import functions as F

    checks: list[tuple[Column, str | Column]] = [
        (F.col("kind").isNull(), F.concat(F.lit("unknown topic "), F.col("topic"))),
        (F.col("value").isNull(), "no value"),
        (~F.is_valid_utf8(text), "not UTF-8"),
        (F.col("json").isNull() | _member("_corrupt").isNotNull(), "not a JSON object"),
    ]
    for field in fields_by_name().values():
        owners = [kind.name for kind in KINDS if field.name in {f.name for f in kind.all_fields}]
        owned = F.col("kind").isin(owners)
        checks.extend((owned & failed, message) for failed, message in _field_checks(field))
    ahead_ms = _integer("event_time_ms") - F.unix_millis("timestamp")
    checks.append((ahead_ms > AHEAD_LIMIT_MS, "event_time_ms is after the record was sent"))

    # One flat CASE: nested ones grow the compiled code beyond what the JVM takes.
    found: Any = F
    for failed, message in checks:
        found = found.when(failed, F.lit(message) if isinstance(message, str) else message)
    reason: Column = found.otherwise(F.lit(None).cast("string"))
    return reason


def _field_checks(field: Field) -> list[tuple[Column, str]]:
    member = _member(field.name)
    found: list[tuple[Column, str]] = [(member.isNull(), f"{field.name} is missing")]
    if field.type == INTEGER:
        number = _integer(field.name)
        found.append((number.isNull(), f"{field.name} is not an integer"))
        if field.minimum is not None:
            found.append((number < field.minimum, f"{field.name} is below {field.minimum}"))
        if field.maximum is not None:
            found.append((number > field.maximum, f"{field.name} is above {field.maximum}"))
    if field.choices:
        expected = ", ".join(field.choices)
        found.append((~member.isin(list(field.choices)), f"{field.name} is not one of {expected}"))
    if field.pattern is not None:
        found.append((~member.rlike(field.pattern), f"{field.name} has a form that is not allowed"))
    return found
