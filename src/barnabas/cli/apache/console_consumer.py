"""kafka-console-consumer.sh: prints the records of topics.

The default formatter's properties are Apache's: print.timestamp, print.key, print.offset,
print.delivery, print.epoch, print.partition, print.headers, print.value, key.separator, line.separator,
headers.separator, null.literal.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.consumer import Consumer

FORMATTERS = ("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter")


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-console-consumer.sh", "Read data from Kafka topics and output it to standard output."
    )
    found.bootstrap()
    found.value("--topic")
    found.value("--include", help="Regular expression of topics.")
    found.value("--partition", type=int)
    found.value("--offset", help="A number, 'earliest' or 'latest'.")
    found.value("--consumer.config", dest="consumer_config")
    found.values("--command-property")
    found.values("--consumer-property")
    found.value("--formatter")
    found.values("--property")
    found.values("--formatter-property")
    found.value("--formatter-config")
    for name in ("from-beginning", "skip-message-on-error", "enable-systest-events"):
        found.flag(f"--{name}")
    found.value("--max-messages", type=int, default=-1)
    found.value("--timeout-ms", type=int, default=-1)
    found.value("--key-deserializer")
    found.value("--value-deserializer")
    found.value("--group")
    found.value("--isolation-level", default="read_uncommitted")
    return found


def command(args: Sequence[str]) -> int:
    rules = parser()
    given = rules.parse_args(args)
    if sum(x is not None for x in (given.topic, given.include)) != 1:
        rules.error("Exactly one of --include/--topic is required.")
    if given.property and given.formatter_property:
        rules.error("Options --property and --formatter-property cannot be specified together.")
    if given.property:
        arguments.deprecated("--property", "--formatter-property")
    if given.consumer_property:
        arguments.deprecated("--consumer-property", "--command-property")
    if given.offset is not None and given.partition is None:
        rules.error("The partition is required when offset is specified.")
    if given.partition is not None and given.topic is None:
        rules.error("The topic is required when partition is specified.")
    if given.from_beginning and given.offset is not None:
        rules.error("Options from-beginning and offset cannot be specified together.")
    show = _formatter(given)
    return _consume(given, rules, show)


def _formatter(given: argparse.Namespace) -> Callable[[Any], bytes]:
    from barnabas.cli.connect import read_config_file

    settings = read_config_file(given.formatter_config) if given.formatter_config else {}
    settings.update(arguments.properties([*given.property, *given.formatter_property]))
    name = (given.formatter or FORMATTERS[0]).rsplit(".", 1)[-1]
    if name not in FORMATTERS:
        raise CommandError(
            f"The formatter {given.formatter} is not available; use {FORMATTERS[0]}."
        )
    if name == "NoOpMessageFormatter":
        return lambda _record: b""
    return default_formatter(settings)


def default_formatter(settings: dict[str, str]) -> Callable[[Any], bytes]:
    """Apache's default form: chosen fields, tab-separated, one record a line."""

    def on(name: str, default: bool = False) -> bool:
        return settings.get(name, str(default)).strip().lower() == "true"

    fields: list[Callable[[Any], bytes]] = []
    null = settings.get("null.literal", "null").encode()
    headers_separator = settings.get("headers.separator", ",").encode()
    if on("print.timestamp"):
        fields.append(_timestamp)
    if on("print.partition"):
        fields.append(lambda r: f"Partition:{r.partition}".encode())
    if on("print.offset"):
        fields.append(lambda r: f"Offset:{r.offset}".encode())
    if on("print.delivery"):
        fields.append(lambda _record: b"Delivery:NOT_PRESENT")
    if on("print.epoch"):
        fields.append(lambda r: f"Epoch:{r.leader_epoch}".encode())
    if on("print.headers"):
        fields.append(
            lambda r: (
                headers_separator.join(
                    key.encode() + b":" + (null if value is None else value)
                    for key, value in r.headers
                )
                or b"NO_HEADERS"
            )
        )
    if on("print.key"):
        fields.append(lambda r: null if r.key is None else r.key)
    if on("print.value", True):
        fields.append(lambda r: null if r.value is None else r.value)
    between = settings.get("key.separator", "\t").encode()
    end = settings.get("line.separator", "\n").encode()
    return lambda record: between.join([field(record) for field in fields]) + end


def _timestamp(record: Any) -> bytes:
    if record.timestamp == -1:
        return b"NO_TIMESTAMP"
    kind = "LogAppendTime" if record.timestamp_type else "CreateTime"
    return f"{kind}:{record.timestamp}".encode()


def _consume(
    given: argparse.Namespace, rules: arguments.Arguments, show: Callable[[Any], bytes]
) -> int:
    from barnabas.client.consumer import Consumer

    pairs = [*given.consumer_property, *given.command_property]
    config_file = given.command_config or given.consumer_config
    options: dict[str, Any] = {"client.id": "console-consumer"}
    options.update(arguments.client_options(given.bootstrap_server, config_file, pairs))
    options.setdefault("isolation.level", given.isolation_level)
    if given.group is not None:
        options["group.id"] = given.group
    if given.from_beginning:
        options["auto.offset.reset"] = "earliest"
    by_hand = given.partition is not None
    if "group.id" not in options and not by_hand:
        options["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        options.setdefault("enable.auto.commit", "false")
    count = 0
    with Consumer(options) as consumer:
        if by_hand:
            _seek(consumer, given, rules)
        elif given.include is not None:
            consumer.subscribe(re.compile(f"\\A(?:{_pattern(given.include)})\\Z"))
        else:
            consumer.subscribe([given.topic])
        try:
            count = _loop(consumer, given, show)
        finally:
            sys.stdout.buffer.flush()
            print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


def _pattern(text: str) -> str:
    pattern = text.strip().replace(",", "|")
    try:
        re.compile(pattern)
    except re.error:
        raise CommandError(f"{text} is an invalid regex.") from None
    return pattern


def _seek(consumer: Consumer, given: argparse.Namespace, rules: arguments.Arguments) -> None:
    place = (given.topic, given.partition)
    known = consumer.partitions_for(given.topic)
    if given.partition not in known:
        raise CommandError(
            f"{given.topic}-{given.partition}: the topic has {len(known)} partitions."
        )
    consumer.assign([place])
    text = (given.offset or ("earliest" if given.from_beginning else "latest")).lower()
    if text == "earliest":
        consumer.seek_to_beginning([place])
    elif text == "latest":
        consumer.seek_to_end([place])
    elif text.isdigit():
        consumer.seek(place, int(text))
    else:
        rules.error(
            f"The provided offset value '{given.offset}' is incorrect. Valid values are "
            "'earliest', 'latest', or a non-negative long."
        )


def _loop(consumer: Consumer, given: argparse.Namespace, show: Callable[[Any], bytes]) -> int:
    count = 0
    last = time.monotonic()
    write = sys.stdout.buffer.write
    try:
        while given.max_messages < 0 or count < given.max_messages:
            limit = 500 if given.max_messages < 0 else min(500, given.max_messages - count)
            wait_s = 1.0
            if given.timeout_ms >= 0:
                wait_s = given.timeout_ms / 1000 - (time.monotonic() - last)
                if wait_s <= 0:
                    print("Timed out waiting for messages.", file=sys.stderr)
                    break
            records = consumer.poll(min(wait_s, 1.0), limit)
            if records:
                write(b"".join([show(record) for record in records]))
                sys.stdout.buffer.flush()
                count += len(records)
                last = time.monotonic()
    except KeyboardInterrupt:
        pass
    return count


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
