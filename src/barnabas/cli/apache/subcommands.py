"""Apache's newer scripts have subcommands and Python's manner of parsing; a wrong line ends with 1."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from barnabas.cli.apache import arguments


class SubArguments(argparse.ArgumentParser):
    """Usage and reason on standard error, exit code 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        raise SystemExit(1)


def nodes(parser: argparse.ArgumentParser, *, required: bool, short: bool = False) -> None:
    """--bootstrap-server or --bootstrap-controller."""
    group = parser.add_mutually_exclusive_group(required=required)
    letters = (("-b",), ("-C",)) if short else ((), ())
    group.add_argument("--bootstrap-server", *letters[0], help="Brokers to connect to.")
    group.add_argument("--bootstrap-controller", *letters[1], help="Controllers to connect to.")


def node_options(given: argparse.Namespace, config_file: str | None) -> dict[str, Any]:
    """Client options for whichever of the two was given."""
    options = arguments.client_options(given.bootstrap_server or "", config_file)
    if given.bootstrap_controller:
        options["bootstrap.controllers"] = given.bootstrap_controller
    if not given.bootstrap_server:
        del options["bootstrap.servers"]
    return options
