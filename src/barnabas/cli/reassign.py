"""`barnabas topic reassign` and `barnabas topic elect-leader`: who holds partitions and who leads."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, connection_options
from barnabas.cli.output import Output, format_option

if TYPE_CHECKING:
    from barnabas.cli.reassignment import Plan
    from barnabas.client.admin import Admin
    from barnabas.client.core.metadata import TopicInfo

POLL_S = 0.25
UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


@click.command(
    epilog="\b\nExamples:\n"
    "  barnabas topic reassign orders --brokers 1,2,3\n"
    "  barnabas topic reassign orders --brokers 1,2,3 --execute --throttle 20MB\n"
    "  barnabas topic reassign orders --replication-factor 3 --execute\n"
    "  barnabas topic reassign orders --assign 0=1:2:3 --assign 1=2:3:1 --execute\n"
    "  barnabas topic reassign --all --drain 4 --execute --save rollback.json\n"
    "  barnabas topic reassign --file rollback.json --execute\n"
    "  barnabas topic reassign --list\n"
    "  barnabas topic reassign orders --cancel --execute\n\n"
    "\b\nWithout --execute it only shows what would change."
)
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All topics, internal ones as well.")
@click.option("--brokers", metavar="1,2,…", help="Spread the partitions over these brokers.")
@click.option("--drain", metavar="ID,…", help="Move everything off these brokers.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="So many replicas each.")
@click.option(
    "--assign", multiple=True, metavar="P=1:2:3", help="One partition's replicas. Repeat."
)
@click.option("--file", "plan_file", metavar="FILE", help="A plan as Kafka's tool writes it.")
@click.option(
    "--save", metavar="FILE", help="Write the present assignment there, for the way back."
)
@click.option("--throttle", metavar="BYTES/S", help="At most so much copying: 500k, 20MB.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--wait/--no-wait", default=True, help="Wait for the end of the move.")
@click.option("--list", "listing", is_flag=True, help="Show the moves under way.")
@click.option("--verify", is_flag=True, help="Show how far a plan is; lift throttles when done.")
@click.option("--cancel", is_flag=True, help="End moves under way and go back.")
@connection_options
@format_option
def reassign(
    names: tuple[str, ...],
    everything: bool,
    brokers: str | None,
    drain: str | None,
    replication_factor: int | None,
    assign: tuple[str, ...],
    plan_file: str | None,
    save: str | None,
    throttle: str | None,
    execute: bool,
    wait: bool,
    listing: bool,
    verify: bool,
    cancel: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Move the replicas of topics NAMES to other brokers."""
    if sum((listing, verify, cancel)) > 1:
        raise click.UsageError("--list, --verify and --cancel are different things; choose one.")
    rate = None if throttle is None else parse_rate(throttle)
    with connect.admin() as admin:
        if listing:
            return _list(admin, names, out)
        if cancel:
            return _cancel(admin, names, plan_file, execute, out)
        if verify and plan_file is None:
            return _verify(admin, _present(admin, _named(admin, names, everything)), out)
        plan = _plan(
            admin, names, everything, brokers, drain, replication_factor, assign, plan_file
        )
        if verify:
            return _verify(admin, plan, out)
        return _execute(admin, plan, rate, execute, wait, save, out)


def parse_rate(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([kmg]?)b?(?:/s)?", text.strip().lower())
    if found is None or int(found[1]) == 0:
        raise click.UsageError(f"--throttle {text}: expected bytes a second, as 500k or 20MB.")
    return int(found[1]) * UNITS[found[2]]


def _ids(text: str, option: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise click.UsageError(f"{option} {text}: expected broker ids as 1,2,3.") from None


def _named(admin: Admin, names: tuple[str, ...], everything: bool) -> list[TopicInfo]:
    from barnabas.cli.reassignment import require_topics

    if everything == bool(names):
        raise click.UsageError("Name the topics, or say --all.")
    return admin.list_topics() if everything else require_topics(admin, names)


def _present(admin: Admin, topics: list[TopicInfo]) -> Plan:
    """What the topics have or are on the way to."""
    from barnabas.cli.reassignment import Target, current_plan

    plan = current_plan(topics)
    for place, move in admin.list_partition_reassignments(plan).items():
        plan[place] = Target(move.target)
    return plan


def _plan(
    admin: Admin,
    names: tuple[str, ...],
    everything: bool,
    brokers: str | None,
    drain: str | None,
    replication_factor: int | None,
    assign: tuple[str, ...],
    plan_file: str | None,
) -> Plan:
    from barnabas.cli import reassignment

    if sum(map(bool, (brokers, drain, assign, plan_file))) > 1:
        raise click.UsageError("Give one of --brokers, --drain, --assign and --file.")
    if plan_file is not None:
        if names or everything:
            raise click.UsageError("--file names the topics; leave out the others.")
        plan = reassignment.read_plan(Path(plan_file).read_text(encoding="utf-8"))
        reassignment.require_topics(admin, {topic for topic, _index in plan})
        return plan
    topics = _named(admin, names, everything)
    if assign:
        if len(topics) != 1:
            raise click.UsageError("--assign is about one topic.")
        return _assigned(topics[0], assign)
    current = _present(admin, topics)
    registered = {b.node_id: b for b in admin.describe_cluster().brokers}
    if drain is not None:
        gone = set(_ids(drain, "--drain"))
        return reassignment.drained(current, gone, list(registered.values()))
    wanted = sorted(registered)
    if brokers is not None:
        wanted = _ids(brokers, "--brokers")
        unknown = [str(b) for b in wanted if b not in registered]
        if unknown:
            raise exits.CommandError(
                f"No such broker now: {', '.join(unknown)}. There are "
                f"{', '.join(map(str, sorted(registered)))}.",
                exits.NOT_FOUND,
            )
    elif replication_factor is None:
        raise click.UsageError(
            "Say where to: --brokers, --drain, --replication-factor, --assign or --file."
        )
    return reassignment.propose(
        current, [registered[b] for b in wanted], replication_factor=replication_factor
    )


def _assigned(topic: TopicInfo, assign: tuple[str, ...]) -> Plan:
    from barnabas.cli.reassignment import Target

    plan: Plan = {}
    for text in assign:
        index, separator, ids = text.partition("=")
        try:
            partition, replicas = int(index), tuple(int(b) for b in ids.split(":"))
        except ValueError:
            separator = ""
            partition, replicas = -1, ()
        if not separator:
            raise click.UsageError(f"--assign {text}: expected PARTITION=BROKER:BROKER.")
        if partition not in topic.partitions:
            raise exits.CommandError(f"{topic.name} has no partition {partition}.", exits.NOT_FOUND)
        if len(set(replicas)) != len(replicas):
            raise click.UsageError(f"--assign {text} names a broker twice.")
        plan[(topic.name, partition)] = Target(replicas)
    return plan


def _execute(
    admin: Admin,
    plan: Plan,
    rate: int | None,
    execute: bool,
    wait: bool,
    save: str | None,
    out: Output,
) -> int:
    from barnabas.cli import reassignment

    topics = admin.describe_topics(sorted({topic for topic, _index in plan}))
    known = [t for t in topics.values() if not isinstance(t, Exception)]
    current = reassignment.current_plan(known, plan)
    changes = {p: t for p, t in plan.items() if current.get(p) is None or _differs(t, current[p])}
    rows = [
        {
            "partition": f"{topic}-{index}",
            "from": list(current[(topic, index)].replicas) if (topic, index) in current else None,
            "to": list(target.replicas),
            "status": "to move",
        }
        for (topic, index), target in sorted(changes.items())
    ]
    if save is not None and changes:
        Path(save).write_text(reassignment.write_plan(current) + "\n", encoding="utf-8")
    if not changes:
        out.line("Nothing to move: every partition is where the plan wants it.")
        out.data({"executed": False, "partitions": []})
        return exits.OK
    if not execute:
        out.table(rows, ["partition", "from", "to"], data={"executed": False, "partitions": rows})
        out.line()
        out.line("Dry run: nothing was changed. Add --execute to do it.")
        return exits.OK
    if rate is not None:
        moving = admin.list_partition_reassignments()
        reassignment.throttle(admin, current, changes, moving, rate)
    errors = admin.alter_partition_reassignments({p: t.replicas for p, t in changes.items()})
    codes = _mark(rows, errors, "moving")
    started = [p for p in changes if errors.get(p) is None]
    moves = {
        (topic, index, broker): path
        for (topic, index), target in changes.items()
        if errors.get((topic, index)) is None
        for broker, path in target.directory_moves
    }
    if moves:
        for error in admin.alter_replica_log_dirs(moves).values():
            if error is not None and getattr(error, "code", None) != 9:
                codes.append(_complain(str(error)))
    if wait and started:
        _wait(admin, started, out)
        for row in rows:
            row["status"] = "moved" if row["status"] == "moving" else row["status"]
        if rate is not None:
            reassignment.clear_throttles(admin, {topic for topic, _index in changes})
    out.table(rows, data={"executed": True, "partitions": rows})
    if rate is not None and not wait:
        out.line("The throttle stays until 'barnabas topic reassign … --verify' finds it all done.")
    return exits.worst(codes)


def _differs(target: Any, now: Any) -> bool:
    return bool(target.replicas != now.replicas or target.directory_moves)


def _mark(rows: list[dict[str, Any]], errors: Mapping[Any, Any], done: str) -> list[int]:
    """Writes the status into the rows; an exit code for each failure."""
    codes = []
    by_name = {f"{topic}-{index}": error for (topic, index), error in errors.items()}
    for row in rows:
        error = by_name.get(row["partition"])
        row["status"] = done if error is None else "failed"
        if error is not None:
            row["error"] = error.code.name
            codes.append(_complain(f"{row['partition']}: {error.detail}", error))
    return codes


def _complain(message: str, error: BaseException | None = None) -> int:
    from barnabas.cli.main import complain

    complain(message)
    return (exits.code_for(error) if error is not None else None) or exits.FAILED


def _wait(admin: Admin, started: list[Any], out: Output) -> None:
    """Until none of these is under way; a line of progress where a person sees it."""
    from barnabas.cli.reassignment import bytes_left

    shows = out.is_text and sys.stderr.isatty()
    begun = time.monotonic()
    while True:
        moving = admin.list_partition_reassignments(started)
        if not moving:
            break
        if shows:
            left = bytes_left(admin, moving)
            size = "" if left is None else f", {left / 1e6:,.1f} MB to copy"
            done = len(started) - len(moving)
            seconds = time.monotonic() - begun
            text = f"{done} of {len(started)} partitions moved{size}, {seconds:.0f} s"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        time.sleep(POLL_S)
    if shows:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _list(admin: Admin, names: tuple[str, ...], out: Output) -> int:
    found = admin.list_partition_reassignments()
    rows = [
        {
            "partition": f"{topic}-{index}",
            "replicas": list(move.replicas),
            "adding": list(move.adding),
            "removing": list(move.removing),
        }
        for (topic, index), move in sorted(found.items())
        if not names or topic in names
    ]
    out.table(rows, empty="No partition is being moved.")
    return exits.OK


def _verify(admin: Admin, plan: Plan, out: Output) -> int:
    from barnabas.cli import reassignment

    topics = reassignment.require_topics(admin, {topic for topic, _index in plan})
    current = reassignment.current_plan(topics, plan)
    moving = admin.list_partition_reassignments(plan)
    rows = []
    for (topic, index), target in sorted(plan.items()):
        now = current.get((topic, index))
        state = "missing" if now is None else "done" if now.replicas == target.replicas else "other"
        state = "moving" if (topic, index) in moving else state
        rows.append(
            {
                "partition": f"{topic}-{index}",
                "status": state,
                "wanted": list(target.replicas),
                "now": None if now is None else list(now.replicas),
            }
        )
    lifted = not moving
    if lifted:
        reassignment.clear_throttles(admin, {topic for topic, _index in plan})
    out.table(rows, data={"done": lifted, "partitions": rows})
    return exits.OK if all(row["status"] == "done" for row in rows) else exits.FAILED


def _cancel(
    admin: Admin, names: tuple[str, ...], plan_file: str | None, execute: bool, out: Output
) -> int:
    from barnabas.cli import reassignment

    moving = admin.list_partition_reassignments()
    if plan_file is not None:
        chosen = set(reassignment.read_plan(Path(plan_file).read_text(encoding="utf-8")))
        moving = {p: m for p, m in moving.items() if p in chosen}
    elif names:
        moving = {p: m for p, m in moving.items() if p[0] in names}
    rows: list[dict[str, Any]] = [
        {"partition": f"{t}-{i}", "from": list(m.replicas), "status": "to cancel"}
        for (t, i), m in sorted(moving.items())
    ]
    codes: list[int] = []
    if execute and moving:
        codes = _mark(rows, admin.alter_partition_reassignments(dict.fromkeys(moving)), "cancelled")
        reassignment.clear_throttles(admin, {topic for topic, _index in moving})
    out.table(
        rows,
        ["partition", "status"],
        data={"executed": execute, "partitions": rows},
        empty="No partition is being moved.",
    )
    if not execute and moving:
        out.line()
        out.line("Dry run: nothing was changed. Add --execute to do it.")
    return exits.worst(codes)


@click.command(
    name="elect-leader",
    epilog="\b\nExamples:\n  barnabas topic elect-leader --all\n"
    "  barnabas topic elect-leader orders -p 0 -p 1\n"
    "  barnabas topic elect-leader orders --unclean -p 2\n\n"
    "\b\n--unclean lets a replica lead that misses records: they are lost. For a partition that has\n"
    "no leader and whose in-sync replicas will not come back.",
)
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All partitions that need it.")
@click.option("-p", "--partition", "indexes", type=int, multiple=True, help="Only these. Repeat.")
@click.option("--unclean", is_flag=True, help="Elect a replica that is out of sync; loses records.")
@connection_options
@format_option
def elect_leader(
    names: tuple[str, ...],
    everything: bool,
    indexes: tuple[int, ...],
    unclean: bool,
    connect: Connect,
    out: Output,
) -> int:
    """Give leadership back to the preferred replicas of topics NAMES."""
    from barnabas.cli.reassignment import require_topics
    from barnabas.client.administration.replicas import PREFERRED, UNCLEAN
    from barnabas.client.core.metadata import TopicInfo

    if everything == bool(names):
        raise click.UsageError("Name the topics, or say --all.")
    with connect.admin() as admin:
        places = None
        if not everything:
            places = [
                (t.name, index)
                for t in require_topics(admin, names)
                for index in (indexes or sorted(t.partitions))
            ]
        answers = admin.elect_leaders(places, election_type=UNCLEAN if unclean else PREFERRED)
        leaders = admin.describe_topics(sorted({p[0] for p in answers}))
    rows = []
    codes = []
    for (topic, index), error in sorted(answers.items()):
        found = leaders.get(topic)
        row: dict[str, Any] = {
            "partition": f"{topic}-{index}",
            "status": "elected",
            "leader": None,
        }
        if isinstance(found, TopicInfo) and index in found.partitions:
            p = found.partitions[index]
            # The broker that was asked may not have heard of it yet: a preferred leader is the first.
            row["leader"] = p.replicas[0] if error is None and not unclean else p.leader
        if error is not None and error.code.name == "ELECTION_NOT_NEEDED":
            row["status"] = "not needed"
        elif error is not None:
            row["status"], row["error"] = "failed", error.code.name
            codes.append(_complain(f"{topic}-{index}: {error.detail}", error))
        rows.append(row)
    out.table(
        rows, ["partition", "status", "leader"], empty="Every leader is the preferred one already."
    )
    return exits.worst(codes)
