"""`barnabas consume`: read records by offset, time or group, and print them in any form.

Without a group, the range of every partition is settled first (see `barnabas.cli.offsets`), then the
partitions are read until each has reached its stop, `-n` records were printed, or for ever.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.record_format import Shown, as_data, compile_template

if TYPE_CHECKING:
    from barnabas.cli.offsets import Range
    from barnabas.client.administration.topics import OffsetAnswer
    from barnabas.client.consumer import Consumer
    from barnabas.client.kernels_consumer import ConsumerRecord

EPILOG = """\
\b
Offsets (-o):
  start, end         from the oldest record; only new ones
  42, 42:50, :50     from an offset; up to, not including, another
  +10, -10           ten after the start; the last ten
  @-1h, @2026-01-31  from a time on;  @-1h:end  the last hour;  @T1:T2 between

\b
Formats (-f): json, yaml, text (the value), or a template:
  %t topic  %p partition  %o offset  %k key  %v value  %h headers  %T time in ms
  %K %V lengths  %H header count  %d time  %e epoch  %i count; %v{hex} %v{base64}
  %v{json}  %o{010}  %d{%H:%M}  %h{%k=%v;}  \\n \\t \\xNN

\b
Examples:
  barnabas consume orders                     new records, until Ctrl-C
  barnabas consume orders -o start -e         all there is, then stop
  barnabas consume orders -o -5 -n 5 -f '%p:%o %k=%v\\n'
  barnabas consume orders -o @-1h:end --format json
  barnabas consume -r 'ord.*' -g billing
"""


@click.command(epilog=EPILOG)
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "-o",
    "--offset",
    "offset",
    metavar="OFFSET",
    help="Where to begin and stop.  [default: end; with -e or -n: start]",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(min=0),
    help="Only this partition; may be repeated.",
)
@click.option("-n", "--count", type=click.IntRange(min=0), help="Stop after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at the end the partitions have now.")
@click.option("--follow", is_flag=True, help="Go on for ever, also after -o A:B reached B's end.")
@click.option("-g", "--group", help="Read as a member of this group and commit.")
@click.option("-r", "--regex", is_flag=True, help="TOPICS are regular expressions.")
@click.option(
    "-f",
    "--format",
    "form",
    default="text",
    show_default=True,
    metavar="text|json|yaml|TEMPLATE",
    help="Form of the output.",
)
@click.option("--read-committed", is_flag=True, help="Leave out aborted and open transactions.")
@click.option("--headers", "with_headers", is_flag=True, help="Text form: key=value headers first.")
@click.option("--keys", "with_keys", is_flag=True, help="Text form: the key and a tab first.")
@click.option("--null", default="", metavar="TEXT", help="What a null key or value prints as.")
@click.option("--timeout", metavar="DURATION", help="Stop when nothing came for so long (5s, 1m).")
@connection_options
def consume(
    topics: tuple[str, ...],
    offset: str | None,
    partitions: tuple[int, ...],
    count: int | None,
    exit_at_end: bool,
    follow: bool,
    group: str | None,
    regex: bool,
    form: str,
    read_committed: bool,
    with_headers: bool,
    with_keys: bool,
    null: str,
    timeout: str | None,
    connect: Connect,
) -> int:
    """Read TOPICS and print their records."""
    from barnabas.cli import offsets
    from barnabas.cli.moments import parse_duration_ms

    show = printer(form, null, with_headers, with_keys)
    try:
        idle_ms = None if timeout is None else parse_duration_ms(timeout)
        text = offset or ("start" if exit_at_end or count is not None else "end")
        wanted = offsets.parse(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    if exit_at_end and wanted.stop is None:
        wanted = offsets.Range(wanted.start, offsets.Point(offsets.END))
    if follow:
        wanted = offsets.Range(wanted.start, None)
    if group is not None and (partitions or (wanted.stop is not None and not exit_at_end)):
        raise click.UsageError("A group decides partitions and positions: leave out -p and -o A:B.")
    options: dict[str, Any] = {"max.poll.records": 10_000, **connect.options}
    if read_committed:
        options["isolation.level"] = "read_committed"
    if count == 0:
        return exits.OK
    if group is not None:
        options["group.id"] = group
        options["auto.offset.reset"] = (
            "earliest" if wanted.start.kind == offsets.START else "latest"
        )
        options["enable.auto.commit"] = "false"
        return _consume_group(topics, regex, options, count, exit_at_end, idle_ms, show)
    return _consume_ranges(topics, regex, partitions, wanted, options, count, idle_ms, show)


def printer(
    form: str, null: str, with_headers: bool = False, with_keys: bool = False
) -> Callable[[Shown], bytes]:
    """A function from a record to what is printed for it."""
    if form == "json":
        return lambda record: json.dumps(as_data(record), ensure_ascii=False).encode() + b"\n"
    if form == "yaml":
        from barnabas.cli import yaml_text

        return lambda record: b"---\n" + yaml_text.dump(as_data(record)).encode()
    if form == "text":
        form = ("%h\\t" if with_headers else "") + ("%k\\t" if with_keys else "") + "%v\\n"
    elif "%" not in form and "\\" not in form:
        raise click.UsageError(f"-f {form}: expected text, json, yaml or a template with %.")
    try:
        return compile_template(form, null.encode())
    except ValueError as error:
        raise click.UsageError(f"-f: {error}.") from None


class Printing:
    """Writes records, counts them, and says when there were enough."""

    def __init__(self, show: Callable[[Shown], bytes], count: int | None) -> None:
        self.show = show
        self.left = count
        self.printed = 0

    @property
    def enough(self) -> bool:
        return self.left == 0

    def write(self, records: Sequence[Any]) -> None:
        if self.left is not None:
            records = records[: self.left]
            self.left -= len(records)
        first = self.printed + 1
        show = self.show
        sys.stdout.buffer.write(
            b"".join([show(shown(record, first + i)) for i, record in enumerate(records)])
        )
        sys.stdout.buffer.flush()
        self.printed += len(records)


def shown(record: ConsumerRecord, number: int) -> Shown:
    return Shown(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        list(record.headers),
        record.leader_epoch,
        number,
    )


def _consume_ranges(
    topics: Sequence[str],
    regex: bool,
    only: Sequence[int],
    wanted: Range,
    options: dict[str, Any],
    count: int | None,
    idle_ms: int | None,
    show: Callable[[Shown], bytes],
) -> int:
    from barnabas.cli.topic import choose_topics
    from barnabas.client.consumer import Consumer

    options["auto.offset.reset"] = "earliest"
    with Consumer(options) as consumer:
        names = choose_topics(lambda: consumer.topics().values(), topics, regex)
        found = {name: consumer.partitions_for(name) for name in names}
        places = [
            (name, index) for name in names for index in found[name] if not only or index in only
        ]
        missing = {i for i in only if not any(index == i for _, index in places)}
        if missing:
            sizes = ", ".join(f"{n} has {len(found[n])}" for n in names)
            raise exits.CommandError(
                f"No partition {', '.join(map(str, sorted(missing)))}: {sizes} partitions.",
                exits.NOT_FOUND,
            )
        ranges = settle(consumer, wanted, places)
        return _read(consumer, ranges, Printing(show, count), idle_ms)


class Settled(NamedTuple):
    first: int
    stop: int | None
    end: int


def settle(
    consumer: Consumer, wanted: Range, places: list[tuple[str, int]]
) -> dict[tuple[str, int], Settled]:
    """First offset, stop and present end of each partition."""
    from barnabas.cli import offsets
    from barnabas.client.core.offsets import TopicPartition

    start = consumer.beginning_offsets(places)
    end = consumer.end_offsets(places)
    at: dict[int, Mapping[Any, OffsetAnswer | None]] = {}
    for point in (wanted.start, wanted.stop):
        if point is not None and point.is_time:
            moment = max(point.value, 0)
            at[point.value] = consumer.offsets_for_times(dict.fromkeys(places, moment))
    ranges = {}
    for place in places:

        def at_time(moment: int, place: tuple[str, int] = place) -> int | None:
            found = at[moment][place]
            return None if found is None else found.offset

        held = offsets.Held(start[TopicPartition(*place)], end[TopicPartition(*place)])
        first, stop = offsets.resolve(wanted, held, at_time)
        ranges[place] = Settled(first, stop, held.end)
    return ranges


def _read(
    consumer: Consumer,
    ranges: dict[tuple[str, int], Settled],
    printing: Printing,
    idle_ms: int | None,
) -> int:
    stops = {place: r.stop for place, r in ranges.items() if r.stop is not None}
    active = [place for place, r in ranges.items() if r.stop is None or r.first < r.stop]
    consumer.assign(active)
    for place in active:
        consumer.seek(place, min(ranges[place].first, ranges[place].end))
    firsts = {place: r.first for place, r in ranges.items() if r.first > r.end}
    last = time.monotonic()
    while active and not printing.enough:
        records = consumer.poll(_wait_s(idle_ms, last))
        if stops:
            records = [
                r for r in records if r.offset < stops.get((r.topic, r.partition), r.offset + 1)
            ]
        if firsts:
            records = [r for r in records if r.offset >= firsts.get((r.topic, r.partition), 0)]
        if records:
            printing.write(records)
            last = time.monotonic()
        elif idle_ms is not None and (time.monotonic() - last) * 1000 >= idle_ms:
            break
        done = [p for p in active if p in stops and _position(consumer, p) >= stops[p]]
        if done:
            active = [p for p in active if p not in done]
            consumer.assign(active)
    return exits.OK


def _position(consumer: Consumer, place: tuple[str, int]) -> int:
    known = consumer.position_now(place)
    return -1 if known is None else known


def _wait_s(idle_ms: int | None, last: float) -> float:
    if idle_ms is None:
        return 1.0
    return max(min(1.0, idle_ms / 1000 - (time.monotonic() - last)), 0.001)


def _consume_group(
    topics: Sequence[str],
    regex: bool,
    options: dict[str, Any],
    count: int | None,
    exit_at_end: bool,
    idle_ms: int | None,
    show: Callable[[Shown], bytes],
) -> int:
    from barnabas.client.consumer import Consumer
    from barnabas.client.errors import ClientError

    printing = Printing(show, count)
    with Consumer(options) as consumer:
        if regex:
            consumer.subscribe(re.compile("|".join(f"\\A(?:{t})\\Z" for t in topics)))
        else:
            for topic in topics:
                consumer.partitions_for(topic)
            consumer.subscribe(topics)
        last = time.monotonic()
        try:
            while not printing.enough:
                left = 10_000 if printing.left is None else printing.left
                records = consumer.poll(_wait_s(idle_ms, last), left)
                if records:
                    printing.write(records)
                    consumer.commit()
                    last = time.monotonic()
                elif (idle_ms is not None and (time.monotonic() - last) * 1000 >= idle_ms) or (
                    exit_at_end and consumer.assignment() and _at_end(consumer)
                ):
                    break
        except KeyboardInterrupt:
            try:
                consumer.commit()
            except ClientError:
                pass
            raise
    return exits.OK


def _at_end(consumer: Consumer) -> bool:
    return all(consumer.lag(place) == 0 for place in consumer.assignment())
