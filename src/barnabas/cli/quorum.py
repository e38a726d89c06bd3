"""`barnabas quorum`: the controllers that hold the metadata log, and who of them votes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, node_options
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.client.administration.quorum import Endpoint, QuorumDescription, QuorumReplica


@click.group()
def quorum() -> None:
    """The controllers' quorum: describe it, add and remove voters."""


@quorum.command(
    epilog="\b\nExamples:\n  barnabas quorum describe\n  barnabas quorum describe --replication\n"
    "  barnabas quorum describe -C localhost:9093 --format json"
)
@click.option("--status", is_flag=True, help="Only the summary.")
@click.option("--replication", is_flag=True, help="Only the table of replicas.")
@node_options
@format_option
def describe(status: bool, replication: bool, connect: Connect, out: Output) -> None:
    """Leader, epoch and high watermark of the quorum, and how far each replica is."""
    with connect.admin() as admin:
        cluster = admin.describe_cluster()
        found = admin.describe_quorum()
    now_ms = time.time_ns() // 1_000_000
    both = status == replication
    summary = summary_of(found, cluster.cluster_id)
    rows = replica_rows(found, now_ms)
    data: dict[str, Any] = {}
    if both or status:
        data.update(summary)
        out.properties(summary) if out.is_text else None
    if both and out.is_text:
        out.line()
    if both or replication:
        data["replicas"] = rows
        columns = ["node", "role", "log_end_offset", "lag", "fetched", "caught_up"]
        out.show(rows, [*columns, "directory_id", "endpoints"])
    out.data(data)


def summary_of(found: QuorumDescription, cluster_id: str | None) -> dict[str, Any]:
    lag, lag_ms = follower_lag(found)
    return {
        "cluster_id": cluster_id,
        "leader": found.leader_id,
        "epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_ms": lag_ms,
        "voters": [v.node_id for v in found.voters],
        "observers": [o.node_id for o in found.observers],
    }


def follower_lag(found: QuorumDescription) -> tuple[int, int]:
    """How far the slowest voter is behind, in records and in ms; -1 when it never fetched."""
    leader = found.leader
    if leader is None or not found.voters:
        return 0, -1
    lag = leader.log_end_offset - min(v.log_end_offset for v in found.voters)
    caught_up = [v.last_caught_up_ms for v in found.voters if v.node_id != leader.node_id]
    if not caught_up:
        return lag, 0
    oldest = min(caught_up)
    return lag, -1 if oldest < 0 else max(0, leader.last_caught_up_ms - oldest)


def replica_rows(found: QuorumDescription, now_ms: int) -> list[dict[str, Any]]:
    """The leader first, then the voters that follow, then the observers."""
    from barnabas.wire.uuids import to_text

    end = found.leader.log_end_offset if found.leader is not None else found.high_watermark
    rows = []
    for replica, role in in_order(found):
        rows.append(
            {
                "node": replica.node_id,
                "role": role,
                "directory_id": to_text(replica.directory_id),
                "log_end_offset": replica.log_end_offset,
                "lag": end - replica.log_end_offset,
                "fetched": ago(replica.last_fetch_ms, now_ms),
                "caught_up": ago(replica.last_caught_up_ms, now_ms),
                "last_fetch_ms": replica.last_fetch_ms,
                "last_caught_up_ms": replica.last_caught_up_ms,
                "endpoints": [str(e) for e in found.endpoints.get(replica.node_id, ())],
            }
        )
    return rows


def in_order(found: QuorumDescription) -> list[tuple[QuorumReplica, str]]:
    leading = [(v, "leader") for v in found.voters if v.node_id == found.leader_id]
    voting = [(v, "voter") for v in found.voters if v.node_id != found.leader_id]
    return leading + voting + [(o, "observer") for o in found.observers]


def ago(at_ms: int, now_ms: int) -> str:
    if at_ms < 0:
        return "never"
    passed = max(0, now_ms - at_ms)
    if passed < 1_000:
        return "now"
    return f"{passed / 1000:.0f} s ago" if passed < 120_000 else f"{passed // 60_000} min ago"


class NewVoter(NamedTuple):
    node_id: int
    directory_id: str
    endpoints: tuple[Endpoint, ...]


@quorum.command(
    epilog="\b\nExamples:\n  barnabas quorum add --config controller-4.properties\n"
    "  barnabas quorum add 4 --directory-id 0Q1fDUq2T1W1vQ1uTxX3yA --endpoint CONTROLLER://host:9093\n"
    "\b\nThe node must run already: it joins as an observer and becomes a voter when it is added."
)
@click.argument("node", type=click.IntRange(min=0), required=False)
@click.option("--config", "config_file", metavar="FILE", help="The new controller's properties.")
@click.option("--directory-id", metavar="ID", help="Of its metadata directory.")
@click.option("--endpoint", "endpoints", multiple=True, metavar="NAME://HOST:PORT", help="Repeat.")
@click.option("--dry-run", is_flag=True, help="Only show what would be added.")
@node_options
@format_option
def add(
    node: int | None,
    config_file: str | None,
    directory_id: str | None,
    endpoints: tuple[str, ...],
    dry_run: bool,
    connect: Connect,
    out: Output,
) -> None:
    """Make controller NODE a voter."""
    if config_file is not None:
        voter = voter_of(config_file)
        if node is not None and node != voter.node_id:
            raise click.UsageError(f"{config_file} is of node {voter.node_id}, not {node}.")
    elif node is None or not endpoints:
        raise click.UsageError("Give NODE and --endpoint, or the controller's file with --config.")
    else:
        voter = NewVoter(node, directory_id or "", tuple(map(parse_endpoint, endpoints)))
    with connect.admin() as admin:
        if not voter.directory_id:
            found = admin.describe_quorum()
            voter = voter._replace(directory_id=known_directory(found, voter.node_id, voting=False))
        if not dry_run:
            cluster_id = admin.describe_cluster().cluster_id
            admin.add_voter(
                voter.node_id,
                parse_id(voter.directory_id),
                voter.endpoints,
                cluster_id=cluster_id,
            )
    _report(out, "add", voter.node_id, voter.directory_id, voter.endpoints, dry_run)


@quorum.command(
    epilog="\b\nExamples:\n  barnabas quorum remove 3\n  barnabas quorum remove 3 --dry-run"
)
@click.argument("node", type=click.IntRange(min=0))
@click.option("--directory-id", metavar="ID", help="Needed only when a node id votes twice.")
@click.option("--dry-run", is_flag=True, help="Only show who would be removed.")
@node_options
@format_option
def remove(
    node: int, directory_id: str | None, dry_run: bool, connect: Connect, out: Output
) -> None:
    """Take controller NODE out of the voters."""
    with connect.admin() as admin:
        found = admin.describe_quorum()
        directory = directory_id or known_directory(found, node, voting=True)
        if not dry_run:
            cluster_id = admin.describe_cluster().cluster_id
            admin.remove_voter(node, parse_id(directory), cluster_id=cluster_id)
    _report(out, "remove", node, directory, found.endpoints.get(node, ()), dry_run)


def _report(
    out: Output,
    verb: str,
    node: int,
    directory: str,
    endpoints: tuple[Endpoint, ...],
    dry_run: bool,
) -> None:
    done = {"add": "added", "remove": "removed"}[verb]
    at = f" at {', '.join(map(str, endpoints))}" if endpoints else ""
    out.line(f"{f'would {verb}' if dry_run else done} voter {node} (directory {directory}){at}")
    out.data(
        {
            "status": f"would {verb}" if dry_run else done,
            "node": node,
            "directory_id": directory,
            "endpoints": [str(e) for e in endpoints],
        }
    )


def known_directory(found: QuorumDescription, node: int, *, voting: bool) -> str:
    """The directory id of a node that the quorum has heard of."""
    from barnabas.wire.uuids import to_text

    replicas = found.voters if voting else (*found.observers, *found.voters)
    ids = {to_text(r.directory_id) for r in replicas if r.node_id == node}
    if len(ids) == 1:
        return ids.pop()
    if ids:
        listed = ", ".join(sorted(ids))
        raise exits.CommandError(
            f"Node {node} is there with several directories; choose one with --directory-id: {listed}."
        )
    what = "a voter" if voting else "in the quorum, not even as an observer; is it running"
    others = ", ".join(str(v.node_id) for v in found.voters)
    raise exits.CommandError(
        f"Node {node} is not {what}. The voters are {others}.", exits.NOT_FOUND
    )


def parse_id(text: str) -> bytes:
    from barnabas.wire.uuids import from_text

    try:
        return from_text(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is not a directory id: 16 bytes in base64, 22 characters."
        ) from None


def parse_endpoint(text: str) -> Endpoint:
    from barnabas.client.administration.quorum import Endpoint

    name, separator, place = text.partition("://")
    host, colon, port = place.rpartition(":")
    if not separator or not colon or not port.isdigit() or not host:
        raise click.UsageError(f"--endpoint {text}: expected NAME://HOST:PORT.")
    return Endpoint(name, host.strip("[]"), int(port))


def voter_of(config_file: str) -> NewVoter:
    """The controller that a properties file describes; its directory must have been formatted."""
    from pathlib import Path

    from barnabas.cli.connect import read_config_file
    from barnabas.config.properties import read_properties

    given = read_config_file(config_file)
    node = given.get("node.id", "")
    if not node.isdigit():
        raise exits.CommandError("node.id not found in " + config_file)
    if "controller" not in given.get("process.roles", ""):
        raise exits.CommandError(f"process.roles in {config_file} does not contain 'controller'.")
    names = [n.strip() for n in given.get("controller.listener.names", "").split(",") if n.strip()]
    if not names:
        raise exits.CommandError(f"controller.listener.names was not found in {config_file}.")
    listed = [*given.get("advertised.listeners", "").split(","), *given["listeners"].split(",")]
    found: dict[str, Any] = {}
    for text in listed:
        name = text.partition("://")[0].strip()
        if name in names and name not in found:
            endpoint = parse_endpoint(text.strip())
            found[name] = endpoint if endpoint.host else endpoint._replace(host="localhost")
    if not found:
        raise exits.CommandError(f"{config_file} has no listener named {', '.join(names)}.")
    first = given.get("metadata.log.dir") or given.get("log.dirs", given.get("log.dir", ""))
    directory = Path(first.split(",")[0].strip())
    meta = directory / "meta.properties"
    if not meta.exists():
        raise exits.CommandError(f"{directory} is not formatted: there is no {meta}.")
    directory_id = read_properties(meta.read_text(encoding="utf-8")).get("directory.id")
    if directory_id is None:
        raise exits.CommandError(f"No directory.id found in {meta}.")
    return NewVoter(int(node), directory_id, tuple(found[n] for n in names if n in found))
