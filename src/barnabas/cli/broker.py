"""`barnabas broker`: the brokers of a cluster and the API versions they offer."""

from __future__ import annotations

from typing import Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option


@click.group()
def broker() -> None:
    """The brokers and what they can do."""


@broker.command(name="list", epilog="\b\nExamples:\n  barnabas broker list")
@connection_options
@format_option
def list_brokers(connect: Connect, out: Output) -> None:
    """List the brokers of the cluster with the addresses they advertise."""
    with connect.admin() as admin:
        cluster = admin.describe_cluster()
    rows = [
        {
            "id": b.node_id,
            "host": b.host,
            "port": b.port,
            "rack": b.rack,
            "controller": b.node_id == cluster.controller_id,
        }
        for b in sorted(cluster.brokers, key=lambda b: b.node_id)
    ]
    out.line(f"cluster {cluster.cluster_id}")
    out.table(rows, data={"cluster_id": cluster.cluster_id, "brokers": rows})


@broker.command(
    name="api-versions",
    epilog="\b\nExamples:\n  barnabas broker api-versions\n  barnabas broker api-versions --format json",
)
@connection_options
@format_option
def api_versions(connect: Connect, out: Output) -> int:
    """The APIs each broker offers, with the versions, and the one this client would use."""
    with connect.admin() as admin:
        answers = admin.broker_versions()
    data = []
    codes = []
    for node_id, (place, versions) in answers.items():
        if isinstance(versions, Exception):
            from barnabas.cli.main import complain

            complain(str(versions))
            codes.append(exits.code_for(versions) or exits.FAILED)
            continue
        rows = version_rows(versions.ranges)
        out.line(f"broker {node_id} at {place}")
        out.show(rows)
        features = {n: high for n, (_low, high) in sorted(versions.finalized_features.items())}
        data.append(
            {
                "id": node_id,
                "host": place.host,
                "port": place.port,
                "apis": rows,
                "features": features,
            }
        )
        if features:
            out.line()
            out.show([{"feature": name, "level": level} for name, level in features.items()])
    out.data(data)
    return exits.worst(codes)


def version_rows(ranges: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """One row an API: name, key, offered range, the version both sides would use."""
    from barnabas.wire.api_keys import ApiKey, request_class

    rows = []
    for key, (low, high) in sorted(ranges.items()):
        usable: int | None = None
        try:
            name = ApiKey(key).name
            own_low, own_high = request_class(ApiKey(key)).VERSIONS
            if min(high, own_high) >= max(low, own_low):
                usable = min(high, own_high)
        except (ValueError, ImportError):
            name = f"UNKNOWN({key})"
        rows.append({"api": name, "key": key, "lowest": low, "highest": high, "usable": usable})
    return rows
