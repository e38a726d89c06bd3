"""`barnabas config`: settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option

KINDS = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}

EPILOG = """\
\b
KIND is topic, broker, broker-logger, client-metrics or group. The name
"default" of a broker means the default of all brokers.
"""


@click.group(epilog=EPILOG)
def config() -> None:
    """Settings of topics, brokers and groups."""


def resource(kind: str, name: str) -> tuple[int, str]:
    """The resource a command line means."""
    return KINDS[kind], "" if kind == "broker" and name == "default" else name


@config.command(
    epilog=EPILOG + "\n\b\nExamples:\n  barnabas config describe topic orders\n"
    "  barnabas config describe broker 1 --all\n  barnabas config describe topic orders -k retention.ms"
)
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
@click.option("--all", "everything", is_flag=True, help="Defaults too, not only what was set.")
@click.option("-k", "--key", "keys", multiple=True, metavar="KEY", help="Only this setting.")
@click.option("--docs", is_flag=True, help="With the documentation of each.")
@connection_options
@format_option
def describe(
    kind: str,
    name: str,
    everything: bool,
    keys: tuple[str, ...],
    docs: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Show the settings of one resource and where each comes from."""
    place = resource(kind, name)
    with connect.admin() as admin:
        answer = admin.describe_configs(
            [place], keys=list(keys) or None, synonyms=True, documentation=docs
        )[place]
    if isinstance(answer, Exception):
        raise answer
    rows = [
        {
            "name": e.name,
            "value": None if e.sensitive else e.value,
            "source": e.source,
            "type": e.type,
            "read_only": e.read_only,
            "sensitive": e.sensitive,
            "synonyms": [
                {"name": s.name, "value": s.value, "source": s.source} for s in e.synonyms
            ],
            **({"documentation": e.documentation} if docs else {}),
        }
        for e in sorted(answer, key=lambda e: e.name)
        if everything or keys or e.source.startswith("DYNAMIC")
    ]
    columns = ["name", "value", "source", *(["documentation"] if docs else [])]
    out.table(
        rows, columns, empty=f"No settings of {kind} {name} were changed; --all shows defaults."
    )
    if keys and not rows:
        return exits.NOT_FOUND
    return exits.OK


@config.command(
    name="set",
    epilog=EPILOG + "\n\b\nExamples:\n  barnabas config set topic orders retention.ms=3600000\n"
    "  barnabas config set broker default log.retention.ms=86400000",
)
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.option("--dry-run", is_flag=True, help="Only ask whether the broker would do it.")
@connection_options
@format_option
def set_(
    kind: str, name: str, pairs: tuple[str, ...], dry_run: bool, connect: Connect, out: Output
) -> int:
    """Change settings of one resource."""
    from barnabas.cli.topic import parse_pairs
    from barnabas.client.administration.configs import ConfigChange

    changes = [ConfigChange(k, v) for k, v in parse_pairs(pairs, "set").items()]
    return _alter(kind, name, changes, dry_run, connect, out)


@config.command(
    epilog=EPILOG + "\n\b\nExamples:\n  barnabas config delete topic orders retention.ms"
)
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--dry-run", is_flag=True, help="Only ask whether the broker would do it.")
@connection_options
@format_option
def delete(
    kind: str, name: str, keys: tuple[str, ...], dry_run: bool, connect: Connect, out: Output
) -> int:
    """Let settings of one resource go back to their defaults."""
    from barnabas.client.administration.configs import DELETE, ConfigChange

    changes = [ConfigChange(key, None, DELETE) for key in keys]
    return _alter(kind, name, changes, dry_run, connect, out)


def _alter(
    kind: str, name: str, changes: Sequence[Any], dry_run: bool, connect: Connect, out: Output
) -> int:
    place = resource(kind, name)
    wanted = [change.name for change in changes]
    with connect.admin() as admin:
        before = admin.describe_configs([place], keys=wanted)[place]
        error = admin.alter_configs({place: changes}, validate_only=dry_run)[place]
        if error is not None:
            raise error
    known = {} if isinstance(before, Exception) else {e.name: e.value for e in before}
    rows = [
        {"name": change.name, "before": known.get(change.name), "after": change.value}
        for change in changes
    ]
    shown = [
        {**row, "after": "(default)" if row["after"] is None else row["after"]} for row in rows
    ]
    out.table(shown, data={"kind": kind, "name": name, "executed": not dry_run, "changes": rows})
    if dry_run:
        out.line("Dry run: nothing was changed.")
    return exits.OK
