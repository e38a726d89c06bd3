"""`barnabas up`: a broker, here and now."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from barnabas.cli.exits import FAILED, CommandError

if TYPE_CHECKING:
    from barnabas.server.node import Node

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\
\b
Examples:
  barnabas up
  barnabas up --port 0 --data /tmp/kafka
  barnabas up --override num.partitions=3 --override log.retention.hours=1
  barnabas up --nodes 3 --data /tmp/cluster

\b
When the broker accepts requests it prints one line with bootstrap=HOST:PORT
(of a cluster: bootstrap=HOST:PORT,HOST:PORT,...).
Ctrl-C or SIGTERM stops it cleanly; the data stays.
"""


def overrides_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """`k=v` options as a mapping."""
    overrides = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(
                f"{pair!r} is not of the form key=value", param_hint="--override"
            )
        overrides[name.strip()] = value.strip()
    return overrides


def log_level_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--log-level",
        type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
        default=default,
        show_default=True,
        envvar="BARNABAS_LOG_LEVEL",
        show_envvar=True,
        help="What to write to standard error.",
    )


@click.command(epilog=EPILOG)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="The port to listen on; 0 picks a free one.",
)
@click.option(
    "--host",
    default="localhost",
    show_default=True,
    help="The address to listen on; 0.0.0.0 for all.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False),
    default="barnabas-data",
    show_default=True,
    help="Where the data is; made if it is not there.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many nodes; several form a cluster, on free ports unless --port is given.",
)
@click.option(
    "--override",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A broker setting; may be given several times.",
)
@log_level_option("WARNING")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    help="How to say where the broker is.",
)
@click.pass_context
def up(
    context: click.Context,
    port: int,
    host: str,
    data: str,
    nodes: int,
    pairs: tuple[str, ...],
    log_level: str,
    format_name: str,
) -> None:
    """Start a broker on this machine, or a cluster of them. It needs no file and no setup."""
    from barnabas.server.development import development_node

    overrides = overrides_of(pairs)
    data = os.path.abspath(data)
    if nodes > 1:
        from barnabas.cli.up_nodes import run_nodes

        given = context.get_parameter_source("port") is not ParameterSource.DEFAULT
        run_nodes(
            nodes=nodes,
            data=data,
            host=host,
            port=port if given else 0,
            overrides=overrides,
            log_level=log_level,
            format_name=format_name,
        )
        return

    def make() -> Node:
        return development_node(data=data, port=port, host=host, overrides=overrides)

    run_until_stopped(make, log_level, lambda node: announce(node, format_name))


def run_until_stopped(
    make: Callable[[], Node], log_level: str, started: Callable[[Node], None]
) -> None:
    """Run a node; what can go wrong on the way is said in a sentence."""
    from barnabas.config.definition import ConfigError
    from barnabas.log.directory import DirectoryInUse
    from barnabas.log.manager import DuplicateLog, NoUsableDirectory
    from barnabas.raft.errors import StorageError
    from barnabas.server.logging import set_up_logging
    from barnabas.server.real import ListenFailure
    from barnabas.server.run import run_node

    try:
        set_up_logging(log_level)
        run_node(make, started)
    except (
        ConfigError,
        DirectoryInUse,
        DuplicateLog,
        ListenFailure,
        NoUsableDirectory,
        StorageError,
        ValueError,
    ) as error:
        raise CommandError(str(error), FAILED) from error


def announce(node: Node, format_name: str) -> None:
    warn(node)
    listeners = [
        f"{listener.name}://{'[' + host + ']' if ':' in host else host}:{port}"
        for listener in node.network.listeners
        for host, port in listener.addresses
    ]
    facts = {
        "bootstrap": node.bootstrap_servers,
        "listeners": listeners,
        "data": ",".join(node.config.log_dirs),
        "cluster_id": node.cluster_id,
        "node_id": node.node_id,
    }
    metrics = ""
    if node.metrics_server is not None:
        host, port = node.metrics_server.address
        facts["metrics"] = f"http://{'[' + host + ']' if ':' in host else host}:{port}/metrics"
        metrics = f"  metrics     {facts['metrics']}\n"
    if format_name != "text":
        from barnabas.cli.output import Output

        Output(format_name).data(facts)
        sys.stdout.flush()
        return
    print(
        f"Barnabas is up: bootstrap={facts['bootstrap']}\n"
        f"  listens on  {', '.join(listeners)}\n"
        f"  data        {facts['data']}\n"
        f"  cluster id  {facts['cluster_id']}\n"
        f"{metrics}"
        "\n"
        "Try in another terminal:",
        *_first_steps(node),
        "",
        sep="\n",
        flush=True,
    )


def _first_steps(node: Node) -> list[str]:
    command, bootstrap = this_command(), node.bootstrap_servers
    if not node.config.is_broker:
        return [f"  {command} quorum describe -C {bootstrap}"]
    option = "" if bootstrap == "localhost:9092" else f" -b {bootstrap}"
    return [
        f"  {command} topic create orders --partitions 3{option}",
        f"  echo 'hello' | {command} produce orders{option}",
        f"  {command} consume orders -o start -e{option}",
    ]


def this_command() -> str:
    """What to type to run this program: its name, or where it is if the shell would not find it."""
    import shutil

    invoked = os.path.abspath(sys.argv[0])
    found = shutil.which("barnabas")
    if os.path.basename(invoked) != "barnabas" or (found and os.path.samefile(found, invoked)):
        return "barnabas"
    nearby = os.path.relpath(invoked)
    return invoked if nearby.startswith(os.pardir) else nearby


def warn(node: Node) -> None:
    """Name settings that do nothing."""
    from barnabas.config.support import warnings

    for warning in warnings(node.static_config):
        print(f"warning: {warning}", file=sys.stderr)
