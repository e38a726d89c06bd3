"""`barnabas server start`: a broker from a `server.properties` file, as Apache Kafka starts one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.up import announce, log_level_option, overrides_of, run_until_stopped

if TYPE_CHECKING:
    from barnabas.server.node import Node


@click.group()
def server() -> None:
    """Start a broker from a server.properties file."""


EPILOG = """\
\b
Examples:
  barnabas storage format --cluster-id $(barnabas storage random-uuid) -c server.properties
  barnabas server start server.properties
  barnabas server start server.properties --override log.retention.hours=1
"""


@server.command(epilog=EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--override",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that goes before the file's; may be given several times.",
)
@log_level_option("INFO")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    help="How to say where the broker is.",
)
def start(file: str, pairs: tuple[str, ...], log_level: str, format_name: str) -> None:
    """Start the broker that FILE describes. Its directories must have been formatted."""
    start_from_file(file, overrides_of(pairs), log_level, format_name)


def start_from_file(
    file: str, overrides: dict[str, str], log_level: str = "INFO", format_name: str = "text"
) -> None:
    from barnabas.config.broker import BrokerConfig
    from barnabas.config.properties import read_properties
    from barnabas.server.node import Node, real_world

    with open(file, encoding="utf-8") as properties:
        given = {**read_properties(properties.read()), **overrides}

    def make() -> Node:
        return Node(BrokerConfig(given), real_world())

    run_until_stopped(make, log_level, lambda node: announce(node, format_name))
