"""`barnabas produce`: records from standard input, files or the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option
from barnabas.cli.record_input import Incoming

if TYPE_CHECKING:
    from barnabas.client.core.batch import RecordMetadata
    from barnabas.client.errors import ClientError

EPILOG = """\
\b
Examples:
  echo hello | barnabas produce orders
  barnabas produce orders -k key -v value -H source=me
  barnabas produce orders -K: < lines.txt              key:value on each line
  barnabas produce orders -i '%k,%v\\n' < data.csv
  barnabas consume a -e --format json | barnabas produce b -i json
  barnabas produce orders -k key --tombstone
"""


@click.command(epilog=EPILOG)
@click.argument("topic")
@click.option("-v", "--value", "values", multiple=True, help="A record's value; may be repeated.")
@click.option("-k", "--key", help="The key of every record that has none of its own.")
@click.option("-K", "--key-separator", metavar="TEXT", help="What separates key and value.")
@click.option("-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="A header.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Default: by key.")
@click.option(
    "-i",
    "--input",
    "form",
    default="lines",
    show_default=True,
    metavar="lines|json|TEMPLATE",
    help="Form of the input.",
)
@click.option("-D", "--delimiter", default="\\n", metavar="TEXT", help="What ends a line.")
@click.option("--null", metavar="TEXT", help="A key or value with this text is null.")
@click.option("--tombstone", is_flag=True, help="One record with --key and no value.")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="Default: none.",
)
@click.option("--acks", type=click.Choice(["all", "-1", "0", "1"]), help="Default: all.")
@click.option("--timestamp", "timestamp_ms", type=int, metavar="MS", help="Of every record.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report where records went.")
@connection_options
@format_option
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    form: str,
    delimiter: str,
    null: str | None,
    tombstone: bool,
    compression: str | None,
    acks: str | None,
    timestamp_ms: int | None,
    quiet: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Write records to TOPIC: one for each line of standard input, or each --value."""
    from barnabas.cli.topic import parse_pairs

    own_headers = tuple((k, v.encode()) for k, v in parse_pairs(headers, "--header").items())
    if tombstone:
        if key is None or values:
            raise click.UsageError("--tombstone needs --key and no --value.")
        incoming: Iterator[Incoming] = iter([Incoming(None)])
    elif values:
        incoming = (Incoming(v.encode()) for v in values)
    else:
        incoming = _from_stdin(form, delimiter, key_separator, null)
    options: dict[str, Any] = dict(connect.options)
    if compression is not None:
        options["compression.type"] = compression
    if acks is not None:
        options["acks"] = acks
    default_key = None if key is None else key.encode()
    return _send_all(
        incoming, topic, default_key, own_headers, partition, timestamp_ms, options, quiet, out
    )


def _from_stdin(
    form: str, delimiter: str, key_separator: str | None, null: str | None
) -> Iterator[Incoming]:
    from barnabas.cli import record_input
    from barnabas.cli.record_format import unescape

    stream = sys.stdin.buffer
    try:
        if form == "json":
            return record_input.read_json(stream)
        if form == "lines":
            return record_input.read_keyed(
                stream,
                unescape(delimiter) or b"\n",
                unescape(key_separator) if key_separator else None,
                None if null is None else null.encode(),
            )
        return record_input.read_template(stream, record_input.compile_template(form))
    except ValueError as error:
        raise click.UsageError(f"--input: {error}.") from None


def _send_all(
    incoming: Iterator[Incoming],
    topic: str,
    key: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
    timestamp_ms: int | None,
    options: dict[str, Any],
    quiet: bool,
    out: Output,
) -> int:
    from barnabas.cli.main import complain
    from barnabas.client.producer import Producer

    failures: list[BaseException] = []

    def report(metadata: RecordMetadata, error: ClientError | None) -> None:
        if error is not None:
            if not failures or str(failures[-1]) != str(error):
                complain(str(error))
            failures.append(error)
        elif not quiet:
            _print_delivery(metadata, out)

    with Producer(options) as producer:
        try:
            for record in incoming:
                producer.send(
                    record.topic or topic,
                    record.value,
                    record.key if record.key is not None else key,
                    partition=record.partition if partition is None else partition,
                    timestamp_ms=record.timestamp_ms if timestamp_ms is None else timestamp_ms,
                    headers=(*headers, *record.headers) or None,
                    on_delivery=report,
                )
        except ValueError as error:
            producer.flush()
            raise exits.CommandError(f"The input cannot be read: {error}.") from None
        producer.flush()
    return exits.worst([exits.code_for(error) or exits.FAILED for error in failures])


def _print_delivery(metadata: RecordMetadata, out: Output) -> None:
    where = {
        "topic": metadata.topic,
        "partition": metadata.partition,
        "offset": metadata.offset if metadata.offset >= 0 else None,
    }
    if out.format == "json":
        print(json.dumps(where))
    elif out.format == "yaml":
        from barnabas.cli import yaml_text

        sys.stdout.write("---\n" + yaml_text.dump(where))
    else:
        offset = (
            "unknown offset (acks=0)" if where["offset"] is None else f"offset {where['offset']}"
        )
        print(f"{metadata.topic}-{metadata.partition} {offset}")
