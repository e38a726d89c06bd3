"""Parsing as Apache's tools do it, and their way to fail.

Their flags are long, may be shortened while unambiguous and take `--flag value` or `--flag=value`. A
wrong command line prints the reason and the flags on standard error and exits with 1, not 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from barnabas.cli.exits import CommandError

KAFKA_VERSION = "4.3.0"


class Arguments(argparse.ArgumentParser):
    def __init__(self, script: str, description: str) -> None:
        super().__init__(prog=script, description=description, allow_abbrev=True)
        self.add_argument(
            "--version",
            action="version",
            version=f"{KAFKA_VERSION} (Barnabas)",
            help="Display Kafka version.",
        )

    def flag(self, *names: str, help: str = "") -> None:
        self.add_argument(*names, action="store_true", help=help)

    def value(self, *names: str, help: str = "", **more: Any) -> None:
        self.add_argument(*names, help=help, **more)

    def values(self, *names: str, help: str = "") -> None:
        """May be given several times."""
        self.add_argument(*names, action="append", default=[], help=help)

    def error(self, message: str) -> NoReturn:
        print(message, file=sys.stderr)
        self.print_help(sys.stderr)
        raise SystemExit(1)

    def bootstrap(self, *, required: bool = True) -> None:
        self.value("--bootstrap-server", required=required, help="The server(s) to connect to.")
        self.value("--command-config", help="A properties file with client options.")


def deprecated(old: str, new: str) -> None:
    print(
        f"Warning: {old} is deprecated and will be removed in a future version. Use {new} instead."
    )


def note_deprecated(old: str, new: str) -> None:
    print(f"Warning: {old} is deprecated. Use {new} instead.")


def no_metrics(wanted: bool) -> None:
    if wanted:
        print(
            "Warning: --print-metrics shows nothing: this client keeps no metrics of that kind.",
            file=sys.stderr,
        )


def client_options(
    bootstrap: str, config_file: str | None = None, pairs: Sequence[str] = ()
) -> dict[str, Any]:
    """Options for a client from what a script was given."""
    from barnabas.cli.connect import read_config_file, share_options

    share_options()
    options: dict[str, Any] = {}
    if config_file is not None:
        options.update(read_config_file(config_file))
    options.update(properties(pairs))
    options["bootstrap.servers"] = bootstrap
    return options


def properties(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise CommandError(f"Invalid property '{pair}': expected key=value.")
        found[name.strip()] = value
    return found


def run(
    command: Callable[[Sequence[str]], int | None],
    *,
    prefix: str = "Error: ",
    on_standard_output: bool = False,
    java_names: bool = False,
) -> NoReturn:
    """Call a script's command; a failure is one line where Apache prints it, and exit code 1."""
    import click

    from barnabas.cli import exits
    from barnabas.cli.main import guard

    def call() -> int:
        try:
            return command(sys.argv[1:]) or 0
        except Exception as error:
            if isinstance(error, click.ClickException):
                message = error.format_message()
            elif exits.code_for(error) is None:
                raise
            else:
                message = as_java(error) if java_names else plain(error)
            print(f"{prefix}{message}", file=sys.stdout if on_standard_output else sys.stderr)
            return 1

    code = guard(call)
    raise SystemExit(code)


def plain(error: BaseException) -> str:
    """An error as Apache words it: the broker's own sentence, without our code name."""
    from barnabas.cli import exits

    detail = getattr(error, "detail", None)
    return detail if isinstance(detail, str) else exits.describe(error)


_JAVA_NAMES = {
    "NON_EMPTY_GROUP": "GroupNotEmpty",
    "TOPIC_ALREADY_EXISTS": "TopicExists",
    "UNKNOWN_MEMBER_ID": "UnknownMemberId",
    "INVALID_CONFIG": "InvalidConfiguration",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopic",
    "COORDINATOR_LOAD_IN_PROGRESS": "CoordinatorLoadInProgress",
    "KAFKA_STORAGE_ERROR": "KafkaStorage",
}


def as_java(error: BaseException) -> str:
    """An error with the name of Java's exception in front, which scripts look for."""
    name = java_name(error)
    return plain(error) if name is None else f"{name}: {plain(error)}"


def java_name(error: BaseException) -> str | None:
    """The class of Java's exception for a broker's error."""
    code = getattr(error, "code", None)
    name = getattr(code, "name", None)
    if name is None:
        return None
    short = _JAVA_NAMES.get(name) or "".join(part.capitalize() for part in name.split("_"))
    return f"org.apache.kafka.common.errors.{short}Exception"


def parse_uuid(text: str, option: str) -> bytes:
    """16 bytes in base64, or Apache's words for what they are instead."""
    import base64
    import binascii

    try:
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise CommandError(f"Failed to parse {option}: Illegal base64 character") from None
    if len(found) != 16:
        raise CommandError(
            f"Failed to parse {option}: Input string `{text}` decoded as {len(found)} bytes, which "
            "is not equal to the expected 16 bytes of a base64-encoded UUID"
        )
    return found
