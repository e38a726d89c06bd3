"""Where to connect to and with which client options, the same for every verb.

Later beats earlier: the built-in default, BARNABAS_BOOTSTRAP_SERVERS, the file of
`--command-config`, `-X key=value`, `--bootstrap-server`. Verbs about the quorum take
`--bootstrap-controller` as well, which asks the controllers themselves.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_BOOTSTRAP = "localhost:9092"


class Connect:
    """The client options of one command line."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    @property
    def bootstrap(self) -> str:
        return self.options["bootstrap.servers"]

    def admin(self, timeout_ms: int | None = None) -> Admin:
        from barnabas.client.admin import Admin

        options: dict[str, Any] = dict(self.options)
        if timeout_ms is not None:
            options["default.api.timeout.ms"] = timeout_ms
        return Admin(options)


def gather(bootstrap: str | None, config_file: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """The options of a command line, from all their sources."""
    share_options()
    options = {
        "bootstrap.servers": os.environ.get("BARNABAS_BOOTSTRAP_SERVERS") or DEFAULT_BOOTSTRAP
    }
    if config_file is not None:
        options.update(read_config_file(config_file))
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.UsageError(f"-X {pair}: expected KEY=VALUE, for example client.id=me.")
        options[name.strip()] = value.strip()
    if bootstrap:
        options["bootstrap.servers"] = bootstrap
    return options


def share_options() -> None:
    """A command's options go to several clients and a file of them may be written for Java's, so
    that one of them has no effect on some client is nothing to tell."""
    import logging

    logging.getLogger("barnabas.client.options").setLevel(logging.ERROR)


def read_config_file(path: str) -> dict[str, str]:
    from barnabas.config.properties import PropertiesError, read_properties

    try:
        return read_properties(Path(path).read_text(encoding="utf-8"))
    except (PropertiesError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not a properties file: {error}") from None


def connection_options(command: F) -> F:
    """`-b`, `--command-config` and `-X`; the command gets them as `connect`."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,…]",
        help="Brokers to start from.  [env: BARNABAS_BOOTSTRAP_SERVERS; default: localhost:9092]",
    )
    @click.option("--command-config", metavar="FILE", help="Client options in a properties file.")
    @click.option(
        "-X", "client_options", metavar="KEY=VALUE", multiple=True, help="One client option."
    )
    @functools.wraps(command)
    def with_connection(
        *args: Any,
        bootstrap: str | None,
        command_config: str | None,
        client_options: Sequence[str],
        **kwargs: Any,
    ) -> Any:
        return command(
            *args, connect=Connect(gather(bootstrap, command_config, client_options)), **kwargs
        )

    return with_connection  # type: ignore[return-value]


def node_options(command: F) -> F:
    """`connection_options`, and `-C` for commands that controllers answer as well."""

    @click.option(
        "-C",
        "--bootstrap-controller",
        metavar="HOST:PORT[,…]",
        help="Ask these controllers instead of brokers.",
    )
    @functools.wraps(command)
    def with_controllers(
        *args: Any, bootstrap_controller: str | None, connect: Connect, **kwargs: Any
    ) -> Any:
        if bootstrap_controller is not None:
            connect.options["bootstrap.controllers"] = bootstrap_controller
        return command(*args, connect=connect, **kwargs)

    return connection_options(with_controllers)  # type: ignore[return-value]
