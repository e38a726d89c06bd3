"""`barnabas log dirs`: the directories of the brokers, what is in them, moving a replica to another."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.nodes import LogDir

POLL_S = 0.25


class _DefaultGroup(click.Group):
    """Without a verb, `describe` is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["describe", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_DefaultGroup)
def dirs() -> None:
    """The log directories of brokers: describe (the default), move."""


@dirs.command(
    epilog="\b\nExamples:\n  barnabas log dirs\n  barnabas log dirs --broker 1 --topic orders\n"
    "  barnabas log dirs --replicas --format json"
)
@click.option("--broker", "brokers", type=int, multiple=True, help="Only this one. Repeat.")
@click.option("--topic", "topics", multiple=True, help="Only replicas of this topic. Repeat.")
@click.option("--replicas", "each", is_flag=True, help="Every replica, not only the directories.")
@connection_options
@format_option
def describe(
    brokers: tuple[int, ...], topics: tuple[str, ...], each: bool, connect: Connect, out: Output
) -> int:
    """Space, replicas and state of every directory."""
    with connect.admin() as admin:
        known = {b.node_id for b in admin.describe_cluster().brokers}
        unknown = [str(b) for b in brokers if b not in known]
        if unknown:
            raise exits.CommandError(
                f"No such broker now: {', '.join(unknown)}. There are "
                f"{', '.join(map(str, sorted(known)))}.",
                exits.NOT_FOUND,
            )
        found = admin.describe_log_dirs(brokers or None)
    data = []
    rows = []
    replicas = []
    for broker, directories in found.items():
        for directory in directories:
            held = [r for r in directory.replicas if not topics or r.topic in topics]
            row = _row(broker, directory, held)
            rows.append(row)
            listed = [
                {
                    "broker": broker,
                    "replica": f"{r.topic}-{r.partition}",
                    "bytes": r.size_in_bytes,
                    "lag": r.offset_lag,
                    "arriving": r.is_future,
                    "directory": directory.path,
                }
                for r in sorted(held, key=lambda r: (r.topic, r.partition))
            ]
            replicas += listed
            data.append({**row, "held": listed})
    if each and out.is_text:
        out.show(replicas)
    else:
        out.table(rows, data=data)
    failed = any(d.error is not None for listed in found.values() for d in listed)
    return exits.FAILED if failed else exits.OK


def _row(broker: int, directory: LogDir, held: list[Any]) -> dict[str, Any]:
    state = "online" if directory.error is None else directory.error.code.name.lower()
    return {
        "broker": broker,
        "directory": directory.path,
        "state": "cordoned" if directory.is_cordoned and directory.error is None else state,
        "replicas": len(held),
        "bytes": sum(r.size_in_bytes for r in held),
        "free": directory.usable_bytes if directory.usable_bytes >= 0 else None,
        "total": directory.total_bytes if directory.total_bytes >= 0 else None,
    }


@dirs.command(
    epilog="\b\nExamples:\n  barnabas log dirs move orders-0 --broker 1 --to /data/b\n"
    "  barnabas log dirs move orders-0 orders-1 --broker 1 --to /data/b --execute\n\n"
    "\b\nWithout --execute it only shows what would change."
)
@click.argument("replicas", nargs=-1, required=True, metavar="TOPIC-PARTITION…")
@click.option("--broker", type=int, required=True, help="The broker that holds them.")
@click.option("--to", "path", required=True, metavar="DIRECTORY", help="As log.dirs names it.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--wait/--no-wait", default=True, help="Wait until the copies have taken over.")
@connection_options
@format_option
def move(
    replicas: tuple[str, ...],
    broker: int,
    path: str,
    execute: bool,
    wait: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Move replicas to another directory of the same broker."""
    from barnabas.cli.main import complain

    places = [_parse(text) for text in replicas]
    with connect.admin() as admin:
        found = admin.describe_log_dirs([broker])[broker]
        if path not in {d.path for d in found}:
            listed = ", ".join(d.path for d in found)
            raise exits.CommandError(
                f"Broker {broker} has no directory {path}. It has {listed}.", exits.NOT_FOUND
            )
        now = _places(found)
        missing = [f"{t}-{p}" for t, p in places if (t, p) not in now]
        if missing:
            raise exits.CommandError(
                f"Broker {broker} holds no replica of {', '.join(missing)}.", exits.NOT_FOUND
            )
        rows: list[dict[str, Any]] = [
            {
                "replica": f"{t}-{p}",
                "from": now[(t, p)],
                "to": path,
                "status": "there already" if now[(t, p)] == path else "to move",
            }
            for t, p in places
        ]
        todo = [place for place in places if now[place] != path]
        codes = []
        if execute and todo:
            answers = admin.alter_replica_log_dirs({(t, p, broker): path for t, p in todo})
            for row in rows:
                error = next(
                    (e for (t, p, _b), e in answers.items() if f"{t}-{p}" == row["replica"]), None
                )
                if error is not None:
                    row["status"] = "failed"
                    codes.append(exits.code_for(error) or exits.FAILED)
                    complain(str(error))
                elif row["status"] == "to move":
                    row["status"] = "moving"
            started = [(t, p) for t, p in todo if answers.get((t, p, broker)) is None]
            if wait and started:
                _wait(admin, broker, started, path, out)
                for row in rows:
                    row["status"] = "moved" if row["status"] == "moving" else row["status"]
    out.table(rows, data={"executed": execute, "broker": broker, "replicas": rows})
    if not execute:
        out.line()
        out.line("Dry run: nothing was changed. Add --execute to do it.")
    return exits.worst(codes)


def _parse(text: str) -> tuple[str, int]:
    topic, dash, index = text.rpartition("-")
    if not dash or not index.isdigit():
        raise click.UsageError(f"{text}: expected TOPIC-PARTITION, as orders-0.")
    return topic, int(index)


def _places(found: list[LogDir]) -> dict[tuple[str, int], str]:
    return {(r.topic, r.partition): d.path for d in found for r in d.replicas if not r.is_future}


def _wait(
    admin: Admin, broker: int, started: list[tuple[str, int]], path: str, out: Output
) -> None:
    shows = out.is_text and sys.stderr.isatty()
    while True:
        found = admin.describe_log_dirs([broker], started)[broker]
        now = _places(found)
        lag = sum(r.offset_lag for d in found for r in d.replicas if r.is_future)
        left = [place for place in started if now.get(place) != path]
        if not left:
            break
        if shows:
            done = len(started) - len(left)
            text = f"{done} of {len(started)} replicas moved, {lag} records to copy"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        time.sleep(POLL_S)
    if shows:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
