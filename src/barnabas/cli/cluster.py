"""`barnabas cluster`: how the cluster is, where its nodes listen, forgetting a broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options, node_options
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.cli.health import Health

COLOURS = {"healthy": "green", "degraded": "yellow", "unavailable": "red"}
POLL_S = 0.5


@click.group()
def cluster() -> None:
    """Health of the cluster, its endpoints, brokers that are gone."""


@cluster.command(
    epilog="\b\nExamples:\n  barnabas cluster status\n  barnabas cluster status --wait 60\n"
    "  barnabas cluster status --format json\n\n"
    "\b\nExit code 0 when healthy, 1 when not. Degraded: everything works, something is missing.\n"
    "Unavailable: some partitions refuse reads or acks=all writes, or there is no quorum."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Rows.")
@click.option("--wait", type=click.FloatRange(min=0), metavar="SECONDS", help="Until healthy.")
@connection_options
@format_option
def status(limit: int, wait: float | None, connect: Connect, out: Output) -> int:
    """The verdict, the nodes, and every partition in trouble with the reason."""
    from barnabas.cli import health as judge

    deadline = time.monotonic() + (wait or 0)
    with connect.admin() as admin:
        found = judge.look(admin)
        while found.verdict != judge.HEALTHY and time.monotonic() < deadline:
            time.sleep(POLL_S)
            found = judge.look(admin)
    nodes = _node_rows(found)
    if out.is_text:
        _show(found, nodes, limit, out)
    else:
        out.data(_data(found, nodes))
    return exits.OK if found.verdict == judge.HEALTHY else exits.FAILED


def _show(found: Health, nodes: list[dict[str, Any]], limit: int, out: Output) -> None:
    import sys

    from barnabas.cli.main import colours

    verdict = found.verdict
    if colours(sys.stdout):
        verdict = click.style(verdict, fg=COLOURS[found.verdict], bold=True)
    out.line(f"cluster {found.cluster.cluster_id} is {verdict}")
    for problem in found.problems:
        out.line(f"  {problem}")
    out.line()
    out.show(nodes)
    out.line()
    out.line(", ".join(f"{name.replace('_', ' ')} {n}" for name, n in _counts(found).items()))
    if found.troubles:
        out.line()
        rows = [_trouble_row(t) for t in _gravest_first(found)]
        out.show(
            rows[:limit], ["partition", "state", "leader", "isr", "replicas", "min_isr", "why"]
        )
        if len(rows) > limit:
            out.line(f"… and {len(rows) - limit} more; --limit shows them.")


def _gravest_first(found: Health) -> list[Any]:
    from barnabas.cli import health as judge

    order = (judge.OFFLINE, judge.UNDER_MIN_ISR, judge.AT_MIN_ISR, judge.UNDER_REPLICATED)
    return sorted(found.troubles, key=lambda t: (order.index(t.state), t.topic, t.partition))


def _trouble_row(t: Any) -> dict[str, Any]:
    return {
        "partition": f"{t.topic}-{t.partition}",
        "state": t.state,
        "leader": t.leader if t.leader >= 0 else None,
        "isr": list(t.isr),
        "replicas": list(t.replicas),
        "min_isr": t.min_isr,
        "why": t.why,
    }


def _counts(found: Health) -> dict[str, int]:
    from barnabas.cli import health as judge

    return {
        "partitions": found.partitions,
        "offline": found.count(judge.OFFLINE),
        "under-min-ISR": found.count(judge.UNDER_MIN_ISR),
        "at-min-ISR": found.count(judge.AT_MIN_ISR),
        "under-replicated": found.count(judge.UNDER_REPLICATED),
        "moving": found.moving,
    }


def _node_rows(found: Health) -> list[dict[str, Any]]:
    """Brokers and controllers by id; a combined node is one row."""
    brokers = {b.node_id: b for b in found.cluster.brokers}
    voters = {v.node_id: v for v in found.quorum.voters} if found.quorum is not None else {}
    rows = []
    for node in sorted({*brokers, *voters}):
        broker = brokers.get(node)
        roles = [n for n, has in (("broker", broker), ("controller", voters.get(node))) if has]
        if broker is not None:
            address = str(broker)
        else:
            assert found.quorum is not None
            address = ", ".join(map(str, found.quorum.endpoints.get(node, ())))
        rows.append(
            {
                "node": node,
                "roles": roles,
                "address": address,
                "rack": broker.rack if broker is not None else None,
                "state": "-"
                if broker is None
                else "fenced"
                if node in found.cluster.fenced
                else "silent"
                if node in found.silent
                else "running",
                "controller": _controller_state(found, node),
                "leads": found.leaders.get(node, 0) if broker is not None else None,
                "replicas": found.replicas.get(node, 0) if broker is not None else None,
            }
        )
    return rows


def _controller_state(found: Health, node: int) -> str | None:
    if found.quorum is None or node not in {v.node_id for v in found.quorum.voters}:
        return None
    leader = found.quorum.leader
    if leader is None:
        return "no leader known"
    if node == leader.node_id:
        return "active"
    voter = next(v for v in found.quorum.voters if v.node_id == node)
    lag = leader.log_end_offset - voter.log_end_offset
    return "follows" if lag <= 0 else f"{lag} behind"


def _data(found: Health, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "cluster_id": found.cluster.cluster_id,
        "verdict": found.verdict,
        "problems": found.problems,
        "controller": found.quorum.leader_id if found.quorum is not None else None,
        "controller_epoch": found.quorum.leader_epoch if found.quorum is not None else None,
        "nodes": nodes,
        "counts": {name.replace("-", "_").lower(): n for name, n in _counts(found).items()},
        "partitions": [
            {
                "topic": t.topic,
                "partition": t.partition,
                "state": t.state,
                "leader": t.leader if t.leader >= 0 else None,
                "replicas": list(t.replicas),
                "isr": list(t.isr),
                "min_isr": t.min_isr,
                "missing": [{"replica": r, "reason": why} for r, why in t.reasons.items()],
            }
            for t in _gravest_first(found)
        ],
    }


@cluster.command(
    name="list-endpoints",
    epilog="\b\nExamples:\n  barnabas cluster list-endpoints --fenced\n"
    "  barnabas cluster list-endpoints -C localhost:9093",
)
@click.option("--fenced", is_flag=True, help="Show fenced brokers as well.")
@node_options
@format_option
def list_endpoints(fenced: bool, connect: Connect, out: Output) -> None:
    """Where brokers listen, or controllers with -C."""
    with connect.admin() as admin:
        controllers = admin.cluster.asks_controllers
        if fenced and controllers:
            raise click.UsageError("--fenced is about brokers; leave out -C.")
        found = admin.describe_cluster(include_fenced=fenced)
    rows = [
        {
            "id": b.node_id,
            "host": b.host,
            "port": b.port,
            "rack": b.rack,
            "state": "fenced" if b.node_id in found.fenced else "unfenced",
            "type": "controller" if controllers else "broker",
        }
        for b in sorted(found.brokers, key=lambda b: b.node_id)
    ]
    columns = ["id", "host", "port", "rack", *([] if controllers else ["state"]), "type"]
    out.table(rows, columns)


@cluster.command(
    name="id", epilog="\b\nExamples:\n  barnabas cluster id\n  barnabas cluster id --format json"
)
@node_options
@format_option
def cluster_id(connect: Connect, out: Output) -> None:
    """The id of the cluster."""
    with connect.admin() as admin:
        found = admin.describe_cluster().cluster_id
    out.line(str(found))
    out.data({"cluster_id": found})


@cluster.command(
    epilog="\b\nExamples:\n  barnabas cluster unregister 3 --dry-run\n"
    "  barnabas cluster unregister 3\n\n"
    "\b\nFor a broker that is gone for good. Its replicas stay assigned to it until they are moved:\n"
    "  barnabas topic reassign --all --drain 3 --execute"
)
@click.argument("broker", type=click.IntRange(min=0))
@click.option("--dry-run", is_flag=True, help="Only show what the broker still holds.")
@click.option("--force", is_flag=True, help="Also a broker that is running.")
@node_options
@format_option
def unregister(broker: int, dry_run: bool, force: bool, connect: Connect, out: Output) -> None:
    """Forget BROKER, which is not coming back."""
    with connect.admin() as admin:
        held = None
        if not admin.cluster.asks_controllers:
            held = _held(admin, broker, force)
        if not dry_run:
            admin.unregister_broker(broker)
    done = "would unregister" if dry_run else "unregistered"
    assigned = f"; {held} replicas are still assigned to it" if held else ""
    out.line(f"{done} broker {broker}{assigned}")
    out.data({"broker": broker, "status": done, "replicas": held})


def _held(admin: Any, broker: int, force: bool) -> int:
    found = admin.describe_cluster(include_fenced=True)
    known = {b.node_id for b in found.brokers}
    if broker not in known:
        raise exits.CommandError(f"Broker {broker} is not registered.", exits.NOT_FOUND)
    if broker not in found.fenced and not force:
        raise exits.CommandError(
            f"Broker {broker} is running. Stop it first, or insist with --force."
        )
    return sum(broker in p.replicas for t in admin.list_topics() for p in t.partitions.values())
