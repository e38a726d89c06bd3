"""`barnabas log`: what is in log files, indexes and snapshots."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from barnabas.cli import exits
from barnabas.cli.lazy import Entry, LazyGroup
from barnabas.cli.output import Output, format_option


@click.group(
    cls=LazyGroup,
    entries={"dirs": Entry("barnabas.cli.log_dirs:dirs", "Log directories of the brokers.")},
)
def log() -> None:
    """Look into log files, indexes and snapshots; log directories of brokers."""


@log.command(
    epilog="\b\nExamples:\n  barnabas log dump data/orders-0/00000000000000000000.log\n"
    "  barnabas log dump --print-data data/orders-0\n"
    "  barnabas log dump --cluster-metadata data/__cluster_metadata-0\n"
    "  barnabas log dump --offsets data/__consumer_offsets-*/*.log --format json"
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--deep-iteration", is_flag=True, help="Every record, not only every batch.")
@click.option("--print-data", "--print-data-log", is_flag=True, help="With keys and values.")
@click.option("--cluster-metadata", is_flag=True, help="Decode the records of the metadata log.")
@click.option("--offsets", is_flag=True, help="Decode the records of __consumer_offsets.")
@click.option("--transactions", is_flag=True, help="Decode the records of __transaction_state.")
@click.option("--max-bytes", type=click.IntRange(min=1), help="Stop after so many bytes of a file.")
@format_option
def dump(
    files: tuple[Path, ...],
    deep_iteration: bool,
    print_data: bool,
    cluster_metadata: bool,
    offsets: bool,
    transactions: bool,
    max_bytes: int | None,
    out: Output,
) -> int:
    """Show the contents of FILES: .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint.

    A directory stands for all such files in it. JSON is one object a line.
    """
    from barnabas.cli import log_dump

    decoder = None
    for wanted, name in (
        (cluster_metadata, log_dump.METADATA),
        (offsets, log_dump.OFFSETS),
        (transactions, log_dump.TRANSACTIONS),
    ):
        decoder = name if wanted else decoder
    show = print_data or decoder is not None
    options = log_dump.DumpOptions(deep_iteration, show, decoder, max_bytes)
    problems = 0
    for path in _expand(files):
        out.line(f"Dumping {path}")
        try:
            for item in log_dump.dump_file(path, options):
                problems += item.kind == "problem"
                _print(out, path, item)
        except ValueError as error:
            raise exits.CommandError(f"{error}.") from None
    return exits.FAILED if problems else exits.OK


def _expand(files: tuple[Path, ...]) -> list[Path]:
    kinds = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
    found: list[Path] = []
    for path in files:
        if path.is_dir():
            found += sorted(p for p in path.iterdir() if p.suffix in kinds and p.is_file())
        else:
            found.append(path)
    if not found:
        raise exits.CommandError("There is no log file in these directories.", exits.NOT_FOUND)
    return found


def _print(out: Output, path: Path, item: object) -> None:
    from barnabas.cli.log_dump import Item

    assert isinstance(item, Item)
    if out.is_text:
        print(item.line)
    elif out.format == "json":
        print(json.dumps({"file": str(path), "kind": item.kind, **item.data}, ensure_ascii=False))
    else:
        from barnabas.cli import yaml_text

        text = yaml_text.dump({"file": str(path), "kind": item.kind, **item.data})
        sys.stdout.write(f"---\n{text}")
