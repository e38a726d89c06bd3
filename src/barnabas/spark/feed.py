"""The pipeline's topics, and the generator's records into them or into files.

`ensure_topics` makes what is missing. The reference table is compacted, keeps what was true for
`REFERENCE_HISTORY_MS` (a backfill over older events cannot know it), and has one partition, so that
its records have one order.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from barnabas.spark.events import (
    DEAD_LETTERS,
    FRAUD_VERDICTS,
    PHONE_PREFIXES,
    SWITCHING_ALERTS,
    TOPICS,
    USER_REGIONS,
)
from barnabas.spark.generator import Record

REFERENCE_HISTORY_MS = 30 * 24 * 3_600_000
ANSWER_TOPICS = (DEAD_LETTERS, SWITCHING_ALERTS, FRAUD_VERDICTS, USER_REGIONS)


def ensure_topics(options: dict[str, str], partitions: int) -> list[str]:
    """Makes the topics of the pipeline that are not there; their names."""
    from barnabas.client.admin import Admin
    from barnabas.client.administration.topics import NewTopic

    compacted: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(REFERENCE_HISTORY_MS),
    }
    wanted = [NewTopic(name, partitions) for name in (*TOPICS, *ANSWER_TOPICS)]
    wanted.append(NewTopic(PHONE_PREFIXES, 1, configs=compacted))
    made = []
    with Admin(dict(options)) as admin:
        for outcome in admin.create_topics(wanted):
            if outcome.error is None:
                made.append(outcome.name)
            elif outcome.error.code.name != "TOPIC_ALREADY_EXISTS":
                raise outcome.error
    return made


def paced(records: Iterable[Record], now_ms: Callable[[], int]) -> Iterator[Record]:
    """`records` not before their timestamps."""
    for record in records:
        wait_ms = record.timestamp_ms - now_ms()
        if wait_ms > 0:
            time.sleep(wait_ms / 1000)
        yield record


def send(records: Iterable[Record], options: dict[str, str]) -> int:
    """Records to their topics, each acknowledged by all replicas; how many."""
    from barnabas.client.producer import Producer

    failures: list[BaseException] = []

    def report(_metadata: Any, error: Exception | None) -> None:
        if error is not None and not failures:
            failures.append(error)

    settings = {"linger.ms": "20", "compression.type": "lz4", **options}
    count = 0
    with Producer(settings) as producer:
        for record in records:
            producer.send(
                record.topic,
                record.value,
                record.key,
                timestamp_ms=record.timestamp_ms,
                on_delivery=report,
            )
            count += 1
            if failures:
                break
        producer.flush()
    if failures:
        raise failures[0]
    return count


def line(record: Record, offset: int) -> str:
    """A record as a line of a file, as `streams.Files` reads it: text as `v`, other bytes as `b`."""
    row: dict[str, Any] = {"k": record.key.decode(), "o": offset, "t": record.timestamp_ms}
    if record.value is not None:
        try:
            row["v"] = record.value.decode()
        except UnicodeDecodeError:
            row["b"] = base64.b64encode(record.value).decode()
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def write(records: Iterable[Record], directory: Path) -> int:
    """Records into `DIRECTORY/TOPIC/records.json`, one line each; how many."""
    count = 0
    offsets: dict[str, int] = {}
    with ExitStack() as stack:
        files: dict[str, IO[str]] = {}
        for record in records:
            if record.topic not in files:
                place = directory / record.topic
                place.mkdir(parents=True, exist_ok=True)
                file = (place / "records.json").open("w", encoding="utf-8")
                files[record.topic] = stack.enter_context(file)
            offset = offsets.get(record.topic, 0)
            offsets[record.topic] = offset + 1
            files[record.topic].write(line(record, offset) + "\n")
            count += 1
    return count
