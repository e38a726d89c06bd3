"""`barnabas topic`: create, list, describe, alter, delete topics, and show their offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.lazy import Entry, LazyGroup
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.core.metadata import TopicInfo


@click.group(
    cls=LazyGroup,
    entries={
        "reassign": Entry("barnabas.cli.reassign:reassign", "Move replicas to other brokers."),
        "elect-leader": Entry("barnabas.cli.reassign:elect_leader", "Elect preferred leaders."),
    },
)
def topic() -> None:
    """Create, list, describe, alter and delete topics; move their replicas."""


def parse_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """`key=value` arguments."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option} {pair}: expected KEY=VALUE.")
        found[name.strip()] = value.strip()
    return found


def choose_topics(
    list_topics: Callable[[], Iterable[TopicInfo]],
    names: Sequence[str],
    regex: bool,
    internal: bool = False,
) -> list[str]:
    """The topics that names or regular expressions stand for; NotFound when there is none."""
    if not regex:
        return list(dict.fromkeys(names))
    try:
        patterns = [re.compile(name) for name in names]
    except re.error as error:
        raise click.UsageError(f"not a regular expression: {error}") from None
    found = [
        t.name
        for t in list_topics()
        if (internal or not t.internal) and any(p.fullmatch(t.name) for p in patterns)
    ]
    if not found:
        raise exits.CommandError(f"No topic matches {' '.join(names)}.", exits.NOT_FOUND)
    return found


def report_outcomes(
    out: Output, outcomes: Sequence[Any], done: str, forgiven: Mapping[str, str] | None = None
) -> int:
    """A row for each topic; the exit code for all. What is `forgiven`, by the name of the error, is
    told in the words given and is no failure."""
    from barnabas.cli.main import complain
    from barnabas.wire.uuids import ZERO, to_text

    rows = []
    codes = []
    for outcome in outcomes:
        error = outcome.error
        if error is not None and forgiven and error.code.name in forgiven:
            status = forgiven[error.code.name]
            rows.append({"topic": outcome.name, "status": status, "error": None, "message": None})
            out.line(f"topic {outcome.name} {status}")
            continue
        row: dict[str, Any] = {
            "topic": outcome.name,
            "status": done if error is None else "failed",
            "error": None if error is None else error.code.name,
            "message": None if error is None else error.detail,
        }
        if outcome.topic_id != ZERO:
            row["topic_id"] = to_text(outcome.topic_id)
        if outcome.partitions > 0:
            row["partitions"] = outcome.partitions
        if outcome.replication_factor > 0:
            row["replication_factor"] = outcome.replication_factor
        rows.append(row)
        codes.append(exits.OK if error is None else exits.code_for(error) or exits.FAILED)
        if error is not None and out.is_text:
            complain(f"topic {outcome.name}: {error.detail} ({error.code.name})")
        elif error is None:
            count = outcome.partitions
            extent = f" ({count} partition{'s' if count > 1 else ''})" if count > 0 else ""
            out.line(f"{done} topic {outcome.name}{extent}")
    out.data(rows)
    return exits.worst(codes)


@topic.command(
    epilog="\b\nExamples:\n  barnabas topic create orders\n"
    "  barnabas topic create a b -p 6 -c cleanup.policy=compact\n"
    "  barnabas topic create placed --replica-assignment 1:2,2:1"
)
@click.argument("names", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Default: the broker's.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), help="Default: the broker's."
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting.")
@click.option(
    "--replica-assignment", metavar="B:B,B:B", help="Brokers of each partition, the leader first."
)
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no failure.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the broker would do it.")
@connection_options
@format_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    replica_assignment: str | None,
    if_not_exists: bool,
    dry_run: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Create topics NAMES."""
    from barnabas.client.administration.topics import NewTopic

    assignments = {} if replica_assignment is None else parse_assignment(replica_assignment)
    if assignments and (partitions or replication_factor):
        raise click.UsageError(
            "--replica-assignment says it all; leave out --partitions and --replication-factor."
        )
    settings = parse_pairs(configs, "--config")
    wanted = [
        NewTopic(name, partitions or -1, replication_factor or -1, settings, assignments)
        for name in dict.fromkeys(names)
    ]
    with connect.admin() as admin:
        outcomes = admin.create_topics(wanted, validate_only=dry_run)
    forgiven = {"TOPIC_ALREADY_EXISTS": "exists already"} if if_not_exists else None
    return report_outcomes(out, outcomes, "would create" if dry_run else "created", forgiven)


def parse_assignment(text: str) -> dict[int, list[int]]:
    """`1:2,2:1`: the brokers of partition 0, 1, …"""
    try:
        found = {
            index: [int(broker) for broker in brokers.split(":")]
            for index, brokers in enumerate(text.split(","))
        }
    except ValueError:
        raise click.UsageError(
            f"--replica-assignment {text}: expected broker ids as 1:2,2:1."
        ) from None
    for brokers in found.values():
        double = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if double:
            named = ", ".join(map(str, double))
            raise click.UsageError(
                f"Partition replica lists may not contain duplicate entries: {named}"
            )
    return found


@topic.command(
    name="list", epilog="\b\nExamples:\n  barnabas topic list\n  barnabas topic list --format json"
)
@click.option("--internal", is_flag=True, help="Show internal topics as well.")
@click.option("-r", "--regex", metavar="REGEX", help="Only topics whose whole name matches.")
@connection_options
@format_option
def list_topics(internal: bool, regex: str | None, connect: Connect, out: Output) -> None:
    """List topics with partitions and replicas."""
    with connect.admin() as admin:
        found = admin.list_topics()
    try:
        pattern = None if regex is None else re.compile(regex)
    except re.error as error:
        raise click.UsageError(f"not a regular expression: {error}") from None
    rows = [
        {
            "name": t.name,
            "partitions": len(t.partitions),
            "replication_factor": t.replication_factor,
            "internal": t.internal,
        }
        for t in found
        if (internal or not t.internal) and (pattern is None or pattern.fullmatch(t.name))
    ]
    columns = ["name", "partitions", "replication_factor"] + (["internal"] if internal else [])
    out.table(rows, columns, empty="No topics. 'barnabas topic create NAME' makes one.")


@topic.command(
    epilog="\b\nExamples:\n  barnabas topic describe orders\n"
    "  barnabas topic describe -r 'ord.*' --configs"
)
@click.argument("names", nargs=-1, required=True)
@click.option("-r", "--regex", is_flag=True, help="NAMES are regular expressions.")
@click.option("--configs", is_flag=True, help="Show all settings, not only those that were set.")
@connection_options
@format_option
def describe(
    names: tuple[str, ...], regex: bool, configs: bool, connect: Connect, out: Output
) -> int:
    """Partitions, leaders, replicas, offsets and settings of topics."""
    from barnabas.client.administration.configs import TOPIC
    from barnabas.client.errors import ClientError

    with connect.admin() as admin:
        chosen = choose_topics(admin.list_topics, names, regex)
        answers = admin.describe_topics(chosen)
        topics = [t for t in answers.values() if not isinstance(t, ClientError)]
        held = _offsets_of(admin, topics)
        settings = admin.describe_configs([(TOPIC, t.name) for t in topics]) if topics else {}
    data = [_description(t, held, settings.get((TOPIC, t.name)), configs) for t in topics]
    if out.is_text:
        for index, one in enumerate(data):
            if index:
                out.line()
            out.properties({k: v for k, v in one.items() if k not in ("partitions", "configs")})
            out.line()
            out.show(one["partitions"])
            if one["configs"]:
                out.line()
                rows = [{"setting": k, "value": v} for k, v in one["configs"].items()]
                out.show(rows)
    else:
        out.data(data)
    return report_missing(answers)


def report_missing(answers: dict[Any, Any]) -> int:
    """Name what failed on standard error; the exit code."""
    from barnabas.cli.main import complain

    codes = []
    for answer in answers.values():
        if isinstance(answer, Exception):
            complain(str(answer))
            codes.append(exits.code_for(answer) or exits.FAILED)
    return exits.worst(codes)


def _offsets_of(
    admin: Admin, topics: Sequence[TopicInfo]
) -> dict[Any, tuple[int | None, int | None]]:
    from barnabas.client.administration.topics import EARLIEST, LATEST, OffsetAnswer

    led = [(t.name, i) for t in topics for i, p in t.partitions.items() if p.leader >= 0]
    if not led:
        return {}
    first = admin.list_offsets(dict.fromkeys(led, EARLIEST))
    last = admin.list_offsets(dict.fromkeys(led, LATEST))

    def offset(answer: Any) -> int | None:
        return answer.offset if isinstance(answer, OffsetAnswer) else None

    return {place: (offset(first[place]), offset(last[place])) for place in led}


def _description(topic: TopicInfo, held: Any, settings: Any, all_settings: bool) -> dict[str, Any]:
    from barnabas.wire.uuids import to_text

    partitions = []
    for index, p in sorted(topic.partitions.items()):
        start, end = held.get((topic.name, index), (None, None))
        row = {
            "partition": index,
            "leader": p.leader if p.leader >= 0 else None,
            "epoch": p.leader_epoch,
            "replicas": list(p.replicas),
            "isr": list(p.isr),
            "start_offset": start,
            "end_offset": end,
        }
        if p.offline:
            row["offline"] = list(p.offline)
        partitions.append(row)
    shown = {}
    if isinstance(settings, list):
        shown = {
            e.name: e.value
            for e in sorted(settings, key=lambda e: e.name)
            if all_settings or e.source == "DYNAMIC_TOPIC_CONFIG"
        }
    return {
        "name": topic.name,
        "topic_id": to_text(topic.topic_id),
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "partitions": partitions,
        "configs": shown,
    }


@topic.command(
    epilog="\b\nExamples:\n  barnabas topic alter orders --partitions 12\n"
    "  barnabas topic alter orders -c retention.ms=3600000 -d cleanup.policy"
)
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="The new number of partitions."
)
@click.option(
    "-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a setting."
)
@click.option("-d", "--delete-config", "removed", multiple=True, metavar="KEY", help="Unset one.")
@click.option("--replica-assignment", metavar="B:B,B:B", help="Brokers of all partitions.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the broker would do it.")
@connection_options
@format_option
def alter(
    names: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    removed: tuple[str, ...],
    replica_assignment: str | None,
    dry_run: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Add partitions to topics, change their settings."""
    from barnabas.client.administration.configs import DELETE, TOPIC, ConfigChange
    from barnabas.client.administration.topics import TopicOutcome

    if partitions is None and not configs and not removed:
        raise click.UsageError("Nothing to alter: give --partitions, --config or --delete-config.")
    changes = [ConfigChange(k, v) for k, v in parse_pairs(configs, "--config").items()]
    changes += [ConfigChange(k, None, DELETE) for k in removed]
    outcomes: list[TopicOutcome] = []
    with connect.admin() as admin:
        if partitions is not None:
            outcomes = new_partitions(admin, names, partitions, replica_assignment, dry_run)
        refused = {o.name for o in outcomes if o.error is not None}
        rest = [n for n in names if n not in refused]
        if changes and rest:
            places = {(TOPIC, n): changes for n in rest}
            errors = admin.alter_configs(places, validate_only=dry_run)
            outcomes = [o for o in outcomes if o.name in refused] + [
                TopicOutcome(n, errors.get((TOPIC, n)), partitions=partitions or -1) for n in rest
            ]
    return report_outcomes(out, outcomes, "would alter" if dry_run else "altered")


def new_partitions(
    admin: Admin, names: Sequence[str], count: int, assignment: str | None, dry_run: bool
) -> list[Any]:
    """Raise topics to `count` partitions; an assignment names all, the old ones included."""
    placed = None
    if assignment is not None:
        every = parse_assignment(assignment)
        known = admin.describe_topics(names)
        placed = {
            name: [every[i] for i in sorted(every) if i >= len(info.partitions)]
            for name, info in known.items()
            if not isinstance(info, Exception)
        }
    return admin.create_partitions(
        dict.fromkeys(names, count), assignments=placed, validate_only=dry_run
    )


@topic.command(
    epilog="\b\nExamples:\n  barnabas topic delete orders\n  barnabas topic delete -r 'tmp-.*' --dry-run"
)
@click.argument("names", nargs=-1, required=True)
@click.option("-r", "--regex", is_flag=True, help="NAMES are regular expressions.")
@click.option("--if-exists", is_flag=True, help="A missing topic is no failure.")
@click.option("--dry-run", is_flag=True, help="Only show which topics would go.")
@connection_options
@format_option
def delete(
    names: tuple[str, ...],
    regex: bool,
    if_exists: bool,
    dry_run: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Delete topics NAMES and their records."""
    from barnabas.client.administration.topics import TopicOutcome

    with connect.admin() as admin:
        chosen = choose_topics(admin.list_topics, names, regex)
        if dry_run:
            outcomes = [
                TopicOutcome(name, answer if isinstance(answer, Exception) else None)  # type: ignore[arg-type]
                for name, answer in admin.describe_topics(chosen).items()
            ]
        else:
            outcomes = admin.delete_topics(chosen)
    forgiven = {"UNKNOWN_TOPIC_OR_PARTITION": "does not exist"} if if_exists else None
    return report_outcomes(out, outcomes, "would delete" if dry_run else "deleted", forgiven)


@topic.command(
    epilog="\b\nExamples:\n  barnabas topic offsets orders\n  barnabas topic offsets orders --at -1h"
)
@click.argument("names", nargs=-1, required=True)
@click.option("-r", "--regex", is_flag=True, help="NAMES are regular expressions.")
@click.option("--at", "moment", metavar="TIME", help="Show also the first offset at or after TIME.")
@connection_options
@format_option
def offsets(
    names: tuple[str, ...], regex: bool, moment: str | None, connect: Connect, out: Output
) -> int:
    """First and next offset of every partition."""
    import time

    from barnabas.cli.moments import parse_moment_ms
    from barnabas.client.administration.topics import OffsetAnswer

    try:
        at_ms = None if moment is None else parse_moment_ms(moment, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.UsageError(f"--at: {error}.") from None
    with connect.admin() as admin:
        chosen = choose_topics(admin.list_topics, names, regex)
        answers = admin.describe_topics(chosen)
        topics = [t for t in answers.values() if not isinstance(t, Exception)]
        held = _offsets_of(admin, topics)
        at: dict[Any, Any] = {}
        if at_ms is not None and held:
            at = dict(admin.list_offsets(dict.fromkeys(held, at_ms)))
    rows = []
    for (name, index), (start, end) in sorted(held.items()):
        row: dict[str, Any] = {
            "topic": name,
            "partition": index,
            "start_offset": start,
            "end_offset": end,
            "count": None if start is None or end is None else end - start,
        }
        if at_ms is not None:
            answer = at.get((name, index))
            found = answer.offset if isinstance(answer, OffsetAnswer) else -1
            row["at_offset"] = found if found >= 0 else None
        rows.append(row)
    out.table(rows)
    return report_missing(answers)
