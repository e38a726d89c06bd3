"""kafka-cluster.sh: the id of a cluster, its endpoints, forgetting a broker."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.apache import arguments, subcommands
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


def parser() -> argparse.ArgumentParser:
    found = subcommands.SubArguments(prog="kafka-cluster", description="The Kafka cluster tool.")
    verbs = found.add_subparsers(dest="command", required=True)
    for name, text in (
        ("cluster-id", "Get information about the ID of a cluster."),
        ("unregister", "Unregister a broker."),
        ("list-endpoints", "List endpoints"),
    ):
        verb = verbs.add_parser(name, help=text)
        subcommands.nodes(verb, required=True, short=True)
        verb.add_argument("--config", help="(DEPRECATED) Use --command-config.")
        verb.add_argument("--command-config", "-c", help="Properties for the admin client.")
        if name == "unregister":
            verb.add_argument("--id", "-i", type=int, required=True)
        if name == "list-endpoints":
            verb.add_argument("--include-fenced-brokers", action="store_true")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    given = parser().parse_args(args)
    if given.config:
        arguments.note_deprecated("--config", "--command-config")
    config = given.command_config or given.config
    with Admin(subcommands.node_options(given, config)) as admin:
        if given.command == "cluster-id":
            found = admin.describe_cluster().cluster_id
            if found is None:
                print("No cluster ID found. The Kafka version is probably too old.")
            else:
                print(f"Cluster ID: {found}")
        elif given.command == "unregister":
            admin.unregister_broker(given.id)
            print(f"Broker {given.id} is no longer registered.")
        else:
            _list(admin, given)
    return 0


def _list(admin: Admin, given: argparse.Namespace) -> None:
    controllers = admin.cluster.asks_controllers
    if controllers and given.include_fenced_brokers:
        raise CommandError(
            "The option --include-fenced-brokers is only supported with --bootstrap-server option"
        )
    found = admin.describe_cluster(include_fenced=given.include_fenced_brokers)
    nodes = sorted(found.brokers, key=lambda b: b.node_id)
    width = max((len(b.host) for b in nodes), default=9)
    states = not controllers
    headings = ["ID", "HOST", "PORT", "RACK", *(["STATE"] if states else []), "ENDPOINT_TYPE"]
    rows = [
        [
            str(b.node_id),
            b.host,
            str(b.port),
            str(b.rack or "null"),
            *([("fenced" if b.node_id in found.fenced else "unfenced")] if states else []),
            "controller" if controllers else "broker",
        ]
        for b in nodes
    ]
    widths = [10, width, 10, 10, *([10] if states else []), 15]
    for row in (headings, *rows):
        cells = [f"{text:<{room}}" for text, room in zip(row, widths, strict=True)]
        print(" ".join(cells))


def main() -> None:
    arguments.run(command, prefix="", java_names=True)


if __name__ == "__main__":
    main()
