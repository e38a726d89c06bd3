"""kafka-reassign-partitions.sh: move partitions between brokers and directories."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.cli.reassignment import Plan
    from barnabas.client.admin import Admin

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
NEEDS = {
    "generate": ("broker_list", "topics_to_move_json_file"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override "
    "this and create a new partition assignment in addition to the existing one. The --additional "
    "flag can also be used to change the throttle by resubmitting the current reassignment."
)
RETRY_S = 0.1


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-reassign-partitions.sh",
        "This tool helps to move topic partitions between replicas.",
    )
    found.value("--bootstrap-server", help="The server(s) to use for bootstrapping.")
    found.value("--bootstrap-controller", help="The controllers to use, for --cancel and --list.")
    found.value("--command-config", help="A properties file with client options.")
    for action in ACTIONS:
        found.flag(f"--{action}")
    found.value("--reassignment-json-file", help="The plan.")
    found.value("--topics-to-move-json-file", help='{"topics":[{"topic":"foo"}],"version":1}')
    found.value("--broker-list", help="The brokers to move to, as 0,1,2.")
    found.flag("--disable-rack-aware")
    found.flag("--disallow-replication-factor-change")
    found.flag("--preserve-throttles", help="Do not modify throttles.")
    found.flag("--additional", help="In addition to reassignments under way.")
    found.value("--throttle", type=int, default=-1, help="Bytes a second between brokers.")
    found.value("--replica-alter-log-dirs-throttle", type=int, default=-1)
    found.value("--timeout", type=int, default=10_000, help="For log directory moves to begin, ms.")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    rules = parser()
    given = rules.parse_args(args)
    action = _check(rules, given)
    options = arguments.client_options(given.bootstrap_server or "", given.command_config)
    if given.bootstrap_controller:
        options["bootstrap.controllers"] = given.bootstrap_controller
        del options["bootstrap.servers"]
    plan: Any = None
    if given.reassignment_json_file is not None:
        plan = _plan(given.reassignment_json_file)
    with Admin(options) as admin:
        if action == "list":
            _list(admin)
        elif action == "generate":
            _generate(admin, given)
        elif action == "execute":
            _execute(admin, plan, given)
        elif action == "verify":
            _verify(admin, plan, given.preserve_throttles)
        else:
            _cancel(admin, plan, given.preserve_throttles)
    return 0


def _check(rules: arguments.Arguments, given: argparse.Namespace) -> str:
    chosen = [action for action in ACTIONS if getattr(given, action)]
    if len(chosen) != 1:
        rules.error(
            "Command must include exactly one action: "
            + ", ".join(f"--{action}" for action in ACTIONS)
        )
    action = chosen[0]
    if not given.bootstrap_server and not given.bootstrap_controller:
        rules.error("Please specify --bootstrap-server")
    if given.bootstrap_controller and action not in ("cancel", "list"):
        rules.error(f"Option {action} is only supported with --bootstrap-server")
    for name in NEEDS[action]:
        if getattr(given, name) is None:
            rules.error(f'Missing required argument "[{name.replace("_", "-")}]"')
    return action


def _plan(path: str) -> Plan:
    from barnabas.cli.reassignment import read_plan

    return read_plan(Path(path).read_text(encoding="utf-8"))


def _names(places: Any) -> str:
    return ",".join(f"{topic}-{index}" for topic, index in sorted(places))


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _list(admin: Admin) -> None:
    found = admin.list_partition_reassignments()
    if not found:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for (topic, index), move in sorted(found.items()):
        line = f"{topic}-{index}: replicas: {_ids(move.replicas)}."
        if move.adding:
            line += f" adding: {_ids(move.adding)}."
        if move.removing:
            line += f" removing: {_ids(move.removing)}."
        print(line)


def _generate(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.cli import reassignment

    try:
        brokers = [int(b) for b in given.broker_list.split(",")]
        data = json.loads(Path(given.topics_to_move_json_file).read_text(encoding="utf-8"))
        names = [str(entry["topic"]) for entry in data["topics"]]
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"Topics or brokers cannot be read: {error}") from None
    twice = sorted({b for b in brokers if brokers.count(b) > 1})
    if twice:
        raise CommandError(f"Broker list contains duplicate entries: {_ids(twice)}")
    current = reassignment.current_plan(reassignment.require_topics(admin, names))
    known = {b.node_id: b for b in admin.describe_cluster().brokers}
    usable = [known[b] for b in sorted(brokers) if b in known]
    if not usable:
        raise CommandError(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    factor = max((len(target.replicas) for target in current.values()), default=0)
    if factor > len(usable):
        raise CommandError(
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )
    plan = reassignment.propose(current, usable, rack_aware=not given.disable_rack_aware)
    print("Current partition replica assignment")
    print(reassignment.write_plan(current))
    print()
    print("Proposed partition reassignment configuration")
    print(reassignment.write_plan(plan))


def _execute(admin: Admin, plan: Plan, given: argparse.Namespace) -> None:
    from barnabas.cli import reassignment

    moving = admin.list_partition_reassignments()
    if moving and not given.additional:
        print(EXISTING)
        raise SystemExit(1)
    known = {b.node_id for b in admin.describe_cluster().brokers}
    unknown = sorted({b for t in plan.values() for b in t.replicas} - known)
    if unknown:
        raise CommandError(f"Unknown broker id {unknown[0]}")
    topics = reassignment.require_topics(admin, {topic for topic, _index in plan})
    current = reassignment.current_plan(topics, plan)
    missing = sorted(set(plan) - set(current))
    if missing:
        raise CommandError(f"Unable to find partition: {_names(missing[:1])}")
    print("Current partition replica assignment\n")
    print(reassignment.write_plan(reassignment.with_directories(admin, current)))
    print("\nSave this to use as the --reassignment-json-file option during rollback")
    rate = given.throttle if given.throttle >= 0 else None
    directory_rate = given.replica_alter_log_dirs_throttle
    directory_rate = directory_rate if directory_rate >= 0 else None
    if rate is not None or directory_rate is not None:
        print("Warning: You must run --verify periodically, until the reassignment completes, to "
              "ensure the throttle is removed.")  # fmt: skip
        reassignment.throttle(admin, current, plan, moving, rate, directory_rate)
        if rate is not None:
            print(f"The inter-broker throttle limit was set to {rate} B/s")
        if directory_rate is not None:
            print(f"The replica-alter-dir throttle limit was set to {directory_rate} B/s")
    errors = admin.alter_partition_reassignments(
        {place: target.replicas for place, target in plan.items()},
        allow_replication_factor_change=not given.disallow_replication_factor_change,
    )
    bad = {place: error for place, error in errors.items() if error is not None}
    if bad:
        lines = [f"{t}-{p}: {arguments.plain(e)}" for (t, p), e in sorted(bad.items())]
        raise CommandError("Error reassigning partition(s):\n" + "\n".join(lines))
    many = "s" if len(plan) > 1 else ""
    print(f"Successfully started partition reassignment{many} for {_names(plan)}")
    moves = {
        (topic, index, broker): path
        for (topic, index), target in plan.items()
        for broker, path in target.directory_moves
    }
    if moves:
        _move_directories(admin, moves, given.timeout)


def _move_directories(admin: Admin, moves: dict[tuple[str, int, int], str], limit_ms: int) -> None:
    """A broker that does not have the replica yet is asked again until the time is up."""
    deadline = time.monotonic() + limit_ms / 1000
    left = dict(moves)
    while left:
        answers = admin.alter_replica_log_dirs(left)
        for place in [p for p, error in answers.items() if error is None]:
            topic, index, broker = place
            print(
                f"Successfully started moving log directory to {left.pop(place)} for replica "
                f"{topic}-{index} with broker {broker} "
            )
        if left and time.monotonic() >= deadline:
            names = sorted(f"{t}-{p}-{b}" for t, p, b in left)
            raise CommandError(
                f"Timed out before log directory move{'s' if len(names) > 1 else ''} could be "
                f"started for: {','.join(names)}"
            )
        if left:
            time.sleep(RETRY_S)


def _verify(admin: Admin, plan: Plan, preserve: bool) -> None:

    topics = {t.name: t for t in admin.list_topics()}
    moving = admin.list_partition_reassignments()
    print("Status of partition reassignment:")
    for (topic, index), target in sorted(plan.items()):
        name = f"{topic}-{index}"
        known = topics.get(topic)
        now = () if known is None or index not in known.partitions else _replicas(known, index)
        if (topic, index) in moving:
            print(f"Reassignment of partition {name} is still in progress.")
        elif now == target.replicas:
            print(f"Reassignment of partition {name} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {name}, but replica set is "
                f"{_ids(now)} rather than {_ids(target.replicas)}."
            )
    directories_left = _verify_directories(admin, plan)
    print()
    if not moving and not directories_left and not preserve:
        _clear(admin, plan)


def _replicas(topic: Any, index: int) -> tuple[int, ...]:
    found: tuple[int, ...] = topic.partitions[index].replicas
    return found


def _verify_directories(admin: Admin, plan: Plan) -> bool:
    moves = {
        (topic, index, broker): path
        for (topic, index), target in plan.items()
        for broker, path in target.directory_moves
    }
    if not moves:
        return False
    places: dict[tuple[str, int, int], str] = {}
    coming: dict[tuple[str, int, int], str] = {}
    for broker, directories in admin.describe_log_dirs(partitions=plan).items():
        for directory in directories:
            for r in directory.replicas:
                table = coming if r.is_future else places
                table[(r.topic, r.partition, broker)] = directory.path
    active = False
    for place, path in sorted(moves.items()):
        name = f"{place[0]}-{place[1]}-{place[2]}"
        if coming.get(place) == path:
            active = True
            print(f"Reassignment of replica {name} is still in progress.")
        elif place in coming:
            print(
                f"Partition {place[0]}-{place[1]} on broker {place[2]} is being moved to log dir "
                f"{coming[place]} instead of {path}."
            )
        elif places.get(place) == path:
            print(f"Reassignment of replica {name} completed successfully.")
        elif place in places:
            print(
                f"Partition {place[0]}-{place[1]} on broker {place[2]} is not being moved from log "
                f"dir {places[place]} to {path}."
            )
        else:
            print(
                f"Partition {place[0]}-{place[1]} cannot be found in any live log directory on "
                f"broker {place[2]}."
            )
    return active


def _clear(admin: Admin, plan: Plan) -> None:
    from barnabas.cli import reassignment

    brokers, topics = reassignment.clear_throttles(admin, {topic for topic, _index in plan})
    print(f"Clearing broker-level throttles on broker{'s' if len(brokers) > 1 else ''} "
          f"{_ids(brokers)}")  # fmt: skip
    print(f"Clearing topic-level throttles on topic{'s' if len(topics) > 1 else ''} "
          f"{','.join(topics)}")  # fmt: skip


def _cancel(admin: Admin, plan: Plan, preserve: bool) -> None:
    moving = [p for p in admin.list_partition_reassignments(plan) if p in plan]
    if moving:
        errors = admin.alter_partition_reassignments(dict.fromkeys(moving))
        bad = {p: e for p, e in errors.items() if e is not None}
        if bad:
            lines = [f"{t}-{p}: {arguments.plain(e)}" for (t, p), e in sorted(bad.items())]
            many = "s" if len(bad) > 1 else ""
            raise CommandError(
                f"Error cancelling partition reassignment{many} for:\n" + "\n".join(lines)
            )
        many = "s" if len(moving) > 1 else ""
        print(f"Successfully cancelled partition reassignment{many} for: {_names(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    print("None of the specified partition moves are active.", end="")
    if preserve or admin.cluster.asks_controllers:
        print()
    else:
        _clear(admin, plan)


def main() -> None:
    arguments.run(command, on_standard_output=True)


if __name__ == "__main__":
    main()
