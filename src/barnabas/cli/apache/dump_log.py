"""kafka-dump-log.sh: the contents of log files and indexes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

DECODERS = {
    "offsets_decoder": "offsets",
    "cluster_metadata_decoder": "metadata",
    "transaction_log_decoder": "transactions",
    "share_group_state_decoder": "share",
}


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-dump-log.sh",
        "Parse a log file and dump its contents to the console, useful for debugging a seemingly "
        "corrupt log segment.",
    )
    found.value("--files", required=True, help="Comma separated data and index files.")
    found.flag("--print-data-log")
    found.flag("--deep-iteration")
    found.flag("--verify-index-only")
    found.flag("--index-sanity-check")
    found.flag("--skip-record-metadata")
    found.flag("--remote-log-metadata-decoder")
    for name in DECODERS:
        found.flag("--" + name.replace("_", "-"))
    found.value("--max-message-size", type=int)
    found.value("--max-bytes", type=int)
    found.value("--key-decoder-class", nargs="?")
    found.value("--value-decoder-class", nargs="?")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli.log_dump import DumpOptions, dump_file

    given = parser().parse_args(args)
    decoder = next((kind for name, kind in DECODERS.items() if getattr(given, name)), None)
    data = bool(
        given.print_data_log or decoder or given.key_decoder_class or given.value_decoder_class
    )
    options = DumpOptions(
        given.deep_iteration, data, decoder, given.max_bytes, given.skip_record_metadata
    )
    failed = False
    for name in given.files.split(","):
        path = Path(name.strip())
        print(f"Dumping {path}")
        if not path.exists():
            raise CommandError(f"{path}: No such file or directory")
        if path.suffix == ".index" and _is_empty(path):
            print(f"{path} is empty.")
            continue
        if path.suffix in (".index", ".timeindex") and (
            given.verify_index_only or given.index_sanity_check
        ):
            failed |= not _check(path, given.index_sanity_check)
            continue
        try:
            for item in dump_file(path, options):
                print(item.line)
        except ValueError:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
    return 1 if failed else 0


def _is_empty(path: Path) -> bool:
    """No entry, perhaps zeros that were allocated in advance."""
    with path.open("rb") as file:
        return not any(file.read(8))


def _check(path: Path, announce: bool) -> bool:
    """Entries must ascend and point into the log file beside the index."""
    from barnabas.cli.log_dump import DumpOptions, dump_file

    log_file = path.with_suffix(".log")
    limit = log_file.stat().st_size if log_file.exists() else None
    last = -1
    for item in dump_file(path, DumpOptions()):
        position = item.data.get("position")
        beyond = position is not None and limit is not None and position > limit
        if item.data["offset"] < last or beyond:
            print(f"Mismatches in :{path}\n  {item.line}", file=sys.stderr)
            return False
        last = item.data["offset"]
    if announce:
        print(f"{path} passed sanity check.")
    return True


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
