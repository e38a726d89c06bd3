"""kafka-metadata-shell.sh: browse a metadata snapshot or log file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.apache import arguments, subcommands

ONE_SHOT = ("cat", "find", "ls", "tree")


def parser() -> argparse.ArgumentParser:
    found = subcommands.SubArguments(
        prog="kafka-metadata-shell", description="The Apache Kafka metadata shell"
    )
    found.add_argument(
        "--snapshot", "-s", required=True, help="The metadata snapshot file to read."
    )
    found.add_argument("command", nargs="*", help="The command to run.")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli.metadata import _interactive, _read
    from barnabas.cli.metadata_shell import Shell
    from barnabas.cli.metadata_source import load_path
    from barnabas.cli.metadata_tree import build

    given = parser().parse_args(args)
    loaded = load_path(Path(given.snapshot))
    shell = Shell(build(loaded, arguments.KAFKA_VERSION))
    if not given.command:
        if sys.stdin.isatty():
            return _interactive(shell, loaded.source, loaded.image.offset)
        _read(shell, sys.stdin)
        return 0
    if given.command[0] not in ONE_SHOT:
        choices = ", ".join(f"'{name}'" for name in ONE_SHOT)
        print(f"invalid choice: '{given.command[0]}' (choose from {choices})")
        return 0
    for line in shell.run(given.command):
        print(line)
    return 0


def main() -> None:
    arguments.run(command, prefix="Unexpected error: ")


if __name__ == "__main__":
    main()
