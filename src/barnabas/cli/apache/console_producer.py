"""kafka-console-producer.sh: lines of standard input become records.

The line reader's properties are Apache's: parse.key, key.separator, parse.headers, headers.delimiter,
headers.separator, headers.key.separator, null.marker, ignore.error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

Line = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-console-producer.sh", "Read data from standard input and publish it to Kafka."
    )
    found.value("--bootstrap-server", "--broker-list", required=True)
    found.value("--topic", required=True)
    found.value("--command-config", "--producer.config", dest="command_config")
    found.values("--command-property")
    found.values("--producer-property")
    found.values("--property")
    found.values("--reader-property")
    found.value("--reader-config")
    found.value("--line-reader")
    found.value("--compression-codec", nargs="?", const="gzip")
    found.flag("--sync")
    found.value("--timeout", type=int)
    for name, kind in (
        ("batch-size", int),
        ("max-block-ms", int),
        ("max-memory-bytes", int),
        ("max-partition-memory-bytes", int),
        ("message-send-max-retries", int),
        ("metadata-expiry-ms", int),
        ("request-timeout-ms", int),
        ("retry-backoff-ms", int),
        ("socket-buffer-size", int),
        ("request-required-acks", str),
    ):
        found.value(f"--{name}", type=kind)
    return found


OPTIONS = {
    "compression_codec": "compression.type",
    "batch_size": "batch.size",
    "max_block_ms": "max.block.ms",
    "max_memory_bytes": "buffer.memory",
    "max_partition_memory_bytes": "batch.size",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "request_timeout_ms": "request.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "socket_buffer_size": "send.buffer.bytes",
    "request_required_acks": "acks",
    "timeout": "linger.ms",
}


def command(args: Sequence[str]) -> int:
    from barnabas.cli.connect import read_config_file

    rules = parser()
    given = rules.parse_args(args)
    if given.property and given.reader_property:
        rules.error("Options --property and --reader-property cannot be specified together.")
    if given.property:
        arguments.deprecated("--property", "--reader-property")
    if given.producer_property:
        arguments.deprecated("--producer-property", "--command-property")
    if given.line_reader and not given.line_reader.endswith("LineMessageReader"):
        raise CommandError(f"Only the line reader is available, not {given.line_reader}.")
    reader = read_config_file(given.reader_config) if given.reader_config else {}
    reader.update(arguments.properties([*given.property, *given.reader_property]))
    options = _options(given)
    return _send(given.topic, options, _lines(sys.stdin.buffer, reader), given.sync)


def _options(given: argparse.Namespace) -> dict[str, Any]:
    pairs = [*given.producer_property, *given.command_property]
    options: dict[str, Any] = {"client.id": "console-producer", "linger.ms": 1000}
    options.update(arguments.client_options(given.bootstrap_server, given.command_config, pairs))
    for name, option in OPTIONS.items():
        value = getattr(given, name)
        if value is not None:
            options[option] = value
    return options


def _send(topic: str, options: dict[str, Any], lines: Iterator[Line], sync: bool) -> int:
    from barnabas.client.producer import Producer

    failures = 0

    def report(_metadata: Any, error: Exception | None) -> None:
        nonlocal failures
        if error is not None:
            failures += 1
            print(f"Error when sending message to topic {topic}: {error}", file=sys.stderr)

    prompt = sys.stdin.isatty()
    with Producer(options) as producer:
        if prompt:
            print(">", end="", flush=True)
        for key, value, headers in lines:
            sent = producer.send(topic, value, key, headers=headers or None, on_delivery=report)
            if sync or prompt:
                producer.flush()
            if sync and sent.exception() is not None:
                return 1
            if prompt:
                print(">", end="", flush=True)
    return 1 if failures else 0


def _flag(reader: dict[str, str], name: str) -> bool:
    return reader.get(name, "false").strip().lower() == "true"


def _lines(stream: Any, reader: dict[str, str]) -> Iterator[Line]:
    """Records as the line reader's properties cut them."""
    parse_key, parse_headers = _flag(reader, "parse.key"), _flag(reader, "parse.headers")
    ignore = _flag(reader, "ignore.error")
    key_separator = reader.get("key.separator", "\t").encode()
    delimiter = reader.get("headers.delimiter", "\t").encode()
    null = reader["null.marker"].encode() if "null.marker" in reader else None

    def unless_null(data: bytes) -> bytes | None:
        return None if null is not None and data == null else data

    for number, raw in enumerate(stream, 1):
        rest = raw.rstrip(b"\n").rstrip(b"\r")
        headers: list[tuple[str, bytes | None]] = []
        key: bytes | None = None
        if parse_headers:
            head, found, rest = _cut(rest, delimiter, "headers delimiter", number, ignore)
            if found and unless_null(head) is not None:
                headers = _headers(head, reader, number, ignore, unless_null)
        if parse_key:
            first, found, rest = _cut(rest, key_separator, "key separator", number, ignore)
            key = unless_null(first) if found else None
        yield key, unless_null(rest), headers


def _cut(
    line: bytes, separator: bytes, what: str, number: int, ignore: bool
) -> tuple[bytes, bool, bytes]:
    first, found, rest = line.partition(separator)
    if found:
        return first, True, rest
    if ignore:
        return b"", False, line
    shown = line.decode("utf-8", "replace")
    raise CommandError(f"No {what} found on line number {number}: '{shown}'")


def _headers(
    text: bytes, reader: dict[str, str], number: int, ignore: bool, unless_null: Any
) -> list[tuple[str, bytes | None]]:
    separator = reader.get("headers.separator", ",").encode()
    key_separator = reader.get("headers.key.separator", ":").encode()
    headers: list[tuple[str, bytes | None]] = []
    for pair in text.split(separator):
        key, found, value = pair.partition(key_separator)
        if found:
            headers.append((key.decode(), unless_null(value)))
        elif ignore:
            headers.append((pair.decode(), None))
        else:
            shown = pair.decode("utf-8", "replace")
            raise CommandError(
                f"No header key separator found in pair '{shown}' on line number {number}"
            )
    return headers


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
