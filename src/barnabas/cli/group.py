"""`barnabas group`: consumer groups, their lag, and moving or deleting their offsets.

Anything that changes offsets shows before and after and changes nothing without `--execute`; a group
with members is refused, with the members named, because they would overwrite the change.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.groups import GroupDescription

TopicPartition = tuple[str, int]


@click.group()
def group() -> None:
    """Consumer groups: lag, reset, delete."""


@group.command(
    name="list", epilog="\b\nExamples:\n  barnabas group list\n  barnabas group list --state Empty"
)
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only groups in this state."
)
@connection_options
@format_option
def list_groups(states: tuple[str, ...], connect: Connect, out: Output) -> None:
    """List groups with their state."""
    with connect.admin() as admin:
        found = admin.list_groups(states=[s.strip() for text in states for s in text.split(",")])
    rows = [
        {
            "group": g.group_id,
            "state": g.state,
            "type": g.type.capitalize(),
            "protocol": g.protocol_type,
        }
        for g in found
    ]
    out.table(rows, empty="No groups.")


def choose_groups(admin: Admin, names: Sequence[str], regex: bool) -> list[str]:
    """The groups that names or regular expressions stand for."""
    if not regex:
        return list(dict.fromkeys(names))
    try:
        patterns = [re.compile(name) for name in names]
    except re.error as error:
        raise click.UsageError(f"not a regular expression: {error}") from None
    found = [
        g.group_id for g in admin.list_groups() if any(p.fullmatch(g.group_id) for p in patterns)
    ]
    if not found:
        raise exits.CommandError(f"No group matches {' '.join(names)}.", exits.NOT_FOUND)
    return found


@group.command(
    epilog="\b\nExamples:\n  barnabas group describe billing\n"
    "  barnabas group describe -r '.*' --summary"
)
@click.argument("names", nargs=-1, required=True)
@click.option("-r", "--regex", is_flag=True, help="NAMES are regular expressions.")
@click.option("--summary", is_flag=True, help="Only one line for each group.")
@connection_options
@format_option
def describe(
    names: tuple[str, ...], regex: bool, summary: bool, connect: Connect, out: Output
) -> int:
    """State, members, committed offsets and lag of groups."""
    from barnabas.cli.topic import report_missing
    from barnabas.client.errors import ClientError

    data = []
    with connect.admin() as admin:
        answers = describe_existing(admin, choose_groups(admin, names, regex))
        for answer in answers.values():
            if not isinstance(answer, ClientError):
                data.append(group_data(answer, lag_rows(admin, answer)))
    if out.is_text:
        _show(out, data, summary)
    out.data(data)
    return report_missing(answers)


def describe_existing(admin: Admin, names: Sequence[str]) -> dict[str, Any]:
    """Descriptions; a group that is Dead (older brokers' word for unknown) is not found."""
    from barnabas.client.errors import broker_error
    from barnabas.wire.errors import ErrorCode

    answers: dict[str, Any] = dict(admin.describe_groups(names))
    for name, answer in answers.items():
        if getattr(answer, "state", None) == "Dead":
            code = int(ErrorCode.GROUP_ID_NOT_FOUND)
            answers[name] = broker_error(code, "There is no such group.", subject=f"group {name}")
    return answers


def _show(out: Output, data: list[dict[str, Any]], summary: bool) -> None:
    if summary:
        out.show(
            [
                {
                    "group": g["group"],
                    "state": g["state"],
                    "members": len(g["members"]),
                    "lag": g["total_lag"],
                }
                for g in data
            ]
        )
        return
    for index, one in enumerate(data):
        if index:
            out.line()
        out.properties(
            {
                "group": one["group"],
                "state": one["state"],
                "coordinator": one["coordinator"],
                "assignor": one["assignor"] or "-",
                "members": len(one["members"]),
                "total lag": one["total_lag"],
            }
        )
        if one["partitions"]:
            out.line()
            out.show(one["partitions"])


def group_data(description: GroupDescription, rows: list[dict[str, Any]]) -> dict[str, Any]:
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {
        "group": description.group_id,
        "state": description.state,
        "type": description.type,
        "coordinator": description.coordinator_id,
        "assignor": description.assignor,
        "total_lag": sum(lags),
        "members": [
            {
                "member_id": m.member_id,
                "instance_id": m.instance_id,
                "client_id": m.client_id,
                "host": m.host,
                "assignment": {t: list(p) for t, p in m.assignment.items()},
            }
            for m in description.members
        ],
        "partitions": rows,
    }


def lag_rows(admin: Admin, description: GroupDescription) -> list[dict[str, Any]]:
    """One row for each partition that is committed or assigned."""
    from barnabas.client.administration.topics import LATEST, OffsetAnswer

    committed = admin.group_offsets(description.group_id)
    owners = {
        (topic, index): member
        for member in description.members
        for topic, indexes in member.assignment.items()
        for index in indexes
    }
    places = sorted({*committed, *owners})
    ends = admin.list_offsets(dict.fromkeys(places, LATEST)) if places else {}
    rows = []
    for place in places:
        end = ends.get(place)
        end_offset = end.offset if isinstance(end, OffsetAnswer) else None
        current = committed[place].offset if place in committed else None
        member = owners.get(place)
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "current_offset": current,
                "end_offset": end_offset,
                "lag": None
                if current is None or end_offset is None
                else max(end_offset - current, 0),
                "member_id": None if member is None else member.member_id,
                "host": None if member is None else member.host,
                "client_id": None if member is None else member.client_id,
            }
        )
    return rows


@group.command(
    epilog="\b\nExamples:\n  barnabas group reset billing --to start\n"
    "  barnabas group reset billing --to @-1h --topic orders --execute\n"
    "  barnabas group reset billing --to 42 --topic orders:0,1 --execute\n"
    "  barnabas group reset billing --to-group audit --execute"
)
@click.argument("name")
@click.option(
    "--to", "target", metavar="OFFSET", help="start, end, 42, +n, -n (from start, end), @TIME."
)
@click.option("--shift", type=int, metavar="N", help="Move each offset by N.")
@click.option("--to-group", metavar="GROUP", help="The offsets that another group has.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P]",
    help="Only these; default: all the group has committed.",
)
@click.option("--execute", is_flag=True, help="Do it; without this, only show what would happen.")
@connection_options
@format_option
def reset(
    name: str,
    target: str | None,
    shift: int | None,
    to_group: str | None,
    topics: tuple[str, ...],
    execute: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Move the committed offsets of group NAME (a dry run without --execute)."""
    if sum(x is not None for x in (target, shift, to_group)) != 1:
        raise click.UsageError("Give exactly one of --to, --shift and --to-group.")
    with connect.admin() as admin:
        refuse_active(admin, name)
        before = admin.group_offsets(name)
        if to_group is not None and not topics:
            places: list[TopicPartition] = sorted(admin.group_offsets(to_group))
        else:
            places = choose_partitions(admin, topics, before)
        if not places:
            raise exits.CommandError(
                f"Group {name} has no committed offsets; name topics with --topic.", exits.NOT_FOUND
            )
        after = _targets(admin, name, places, before, target, shift, to_group)
        rows = [
            {
                "topic": place[0],
                "partition": place[1],
                "before": before[place].offset if place in before else None,
                "after": after[place],
            }
            for place in sorted(after)
        ]
        codes = []
        if execute:
            for place, error in admin.alter_group_offsets(name, after).items():
                if error is not None:
                    codes.append(exits.code_for(error) or exits.FAILED)
                    row = next(r for r in rows if (r["topic"], r["partition"]) == place)
                    row["error"] = error.code.name
    out.table(rows, data={"group": name, "executed": execute, "partitions": rows})
    if not execute:
        out.line()
        out.line("Dry run: nothing was changed. Add --execute to do it.")
    return exits.worst(codes)


def refuse_active(admin: Admin, name: str) -> None:
    """Raise if the group has members, and say who they are."""
    from barnabas.client.errors import ClientError, NotFoundError

    answer = admin.describe_groups([name])[name]
    if isinstance(answer, NotFoundError):
        return
    if isinstance(answer, ClientError):
        raise answer
    if answer.members:
        named = "".join(
            f"\n  {m.member_id} (client {m.client_id} at {m.host.lstrip('/')})"
            for m in answer.members[:10]
        )
        more = f"\n  and {len(answer.members) - 10} more" if len(answer.members) > 10 else ""
        raise exits.CommandError(
            f"Group {name} is {answer.state}: stop its {len(answer.members)} members first, they "
            f"would overwrite the offsets.{named}{more}"
        )


def choose_partitions(
    admin: Admin, texts: Sequence[str], committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """`topic` or `topic:0,1`; without any, the committed ones."""
    if not texts:
        return sorted(committed)
    chosen: list[TopicPartition] = []
    for text in texts:
        name, separator, numbers = text.partition(":")
        if separator:
            try:
                chosen += [(name, int(n)) for n in numbers.split(",")]
            except ValueError:
                raise click.UsageError(f"--topic {text}: expected TOPIC or TOPIC:0,1.") from None
            continue
        chosen += [(name, index) for index in admin.find_topics([name])[name].partitions]
    return sorted(set(chosen))


def _targets(
    admin: Admin,
    name: str,
    places: list[TopicPartition],
    before: Any,
    target: str | None,
    shift: int | None,
    to_group: str | None,
) -> dict[TopicPartition, int]:
    from barnabas.cli import offsets

    held = held_offsets(admin, places)
    if to_group is not None:
        other = admin.group_offsets(to_group)
        return {p: clamp(other[p].offset, held[p]) for p in places if p in other}
    if shift is not None:
        missing = [p for p in places if p not in before]
        if missing:
            place = f"{missing[0][0]}-{missing[0][1]}"
            raise exits.CommandError(f"{place} has no committed offset to shift in group {name}.")
        return {p: clamp(before[p].offset + shift, held[p]) for p in places}
    assert target is not None
    try:
        wanted = offsets.parse(target, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.UsageError(f"--to: {error}.") from None
    if wanted.stop is not None:
        raise click.UsageError("--to: a group has one position, not a range.")
    at: dict[TopicPartition, int | None] = {}
    if wanted.start.is_time:
        at = offsets_at(admin, places, wanted.start.value)
    return {
        p: clamp(offsets.resolve(wanted, held[p], lambda _t, p=p: at[p])[0], held[p])  # type: ignore[misc]
        for p in places
    }


def held_offsets(admin: Admin, places: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
    """First and next offset of each partition; raises for one that cannot be asked."""
    from barnabas.cli.offsets import Held
    from barnabas.client.administration.base import raise_first
    from barnabas.client.administration.topics import EARLIEST, LATEST

    wanted = list(places)
    first: Any = admin.list_offsets(dict.fromkeys(wanted, EARLIEST))
    last: Any = admin.list_offsets(dict.fromkeys(wanted, LATEST))
    raise_first(first)
    raise_first(last)
    return {p: Held(first[p].offset, last[p].offset) for p in wanted}


def offsets_at(
    admin: Admin, places: Iterable[TopicPartition], moment_ms: int
) -> dict[TopicPartition, int | None]:
    """The first offset at or after a time; None past the last record."""
    from barnabas.client.administration.base import raise_first

    found: Any = admin.list_offsets(dict.fromkeys(places, moment_ms))
    raise_first(found)
    return {p: None if a.offset < 0 else a.offset for p, a in found.items()}


def clamp(offset: int, held: Any) -> int:
    return int(max(held.start, min(offset, held.end)))


@group.command(
    epilog="\b\nExamples:\n  barnabas group delete billing\n  barnabas group delete billing --execute\n"
    "  barnabas group delete billing --topic orders --execute    only its offsets there"
)
@click.argument("names", nargs=-1, required=True)
@click.option("-r", "--regex", is_flag=True, help="NAMES are regular expressions.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P]",
    help="Delete only the offsets of these.",
)
@click.option("--execute", is_flag=True, help="Do it; without this, only show what would happen.")
@connection_options
@format_option
def delete(
    names: tuple[str, ...],
    regex: bool,
    topics: tuple[str, ...],
    execute: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Delete groups NAMES, or their offsets of some topics (a dry run without --execute)."""
    from barnabas.cli.main import complain

    rows: list[dict[str, Any]] = []
    codes: list[int] = []
    with connect.admin() as admin:
        chosen = choose_groups(admin, names, regex)
        found = describe_existing(admin, chosen)
        for name in chosen:
            error = found[name] if isinstance(found[name], Exception) else None
            row: dict[str, Any] = {"group": name, "status": "would delete", "error": None}
            try:
                if error is not None:
                    raise error
                refuse_active(admin, name)
                if execute:
                    _delete(admin, name, topics)
                    row["status"] = "deleted"
            except Exception as problem:
                code = exits.code_for(problem)
                if code is None:
                    raise
                codes.append(code)
                complain(exits.describe(problem))
                row.update(status="failed", error=exits.describe(problem).splitlines()[0])
            rows.append(row)
    out.table(rows, ["group", "status"], data={"executed": execute, "groups": rows})
    if not execute:
        out.line()
        out.line("Dry run: nothing was changed. Add --execute to do it.")
    return exits.worst(codes)


def _delete(admin: Admin, name: str, topics: Sequence[str]) -> None:
    errors: dict[Any, Any]
    if topics:
        places = choose_partitions(admin, topics, ())
        errors = dict(admin.delete_group_offsets(name, places))
    else:
        errors = dict(admin.delete_groups([name]))
    for error in errors.values():
        if error is not None:
            raise error
