"""kafka-topics.sh: create, delete, describe, list and alter topics."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.core.metadata import PartitionInfo, TopicInfo

ACTIONS = ("create", "alter", "delete", "describe", "list")
FILTERS = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "topics_with_overrides",
)


def parser() -> arguments.Arguments:
    found = arguments.Arguments("kafka-topics.sh", "Create, delete, describe, or change a topic.")
    found.bootstrap()
    for action in ACTIONS:
        found.flag(f"--{action}")
    found.value("--topic", help="The topic, or for list, describe, alter, delete a regex.")
    found.value("--topic-id", help="The topic-id to describe.")
    found.values("--config", help="A topic setting for a topic being created, name=value.")
    found.value("--delete-config", help="No longer supported; see kafka-configs.sh.")
    found.value("--partitions", type=int)
    found.value("--replication-factor", type=int)
    found.value("--replica-assignment", help="b1:b2,b3:b4,…")
    found.value("--partition-size-limit-per-response", type=int)
    for name in FILTERS:
        found.flag("--" + name.replace("_", "-"))
    found.flag("--if-exists")
    found.flag("--if-not-exists")
    found.flag("--exclude-internal")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    rules = parser()
    given = rules.parse_args(args)
    _check(rules, given)
    with Admin(arguments.client_options(given.bootstrap_server, given.command_config)) as admin:
        if given.create:
            _create(admin, given)
        elif given.alter:
            _alter(admin, given)
        elif given.delete:
            _delete(admin, given)
        elif given.describe:
            _describe(admin, given)
        else:
            for topic in _matching(admin, given, must_exist=False):
                print(topic.name)
    return 0


def _check(rules: arguments.Arguments, given: argparse.Namespace) -> None:
    if sum(getattr(given, action) for action in ACTIONS) != 1:
        rules.error(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    if (given.create or given.alter or given.delete) and not given.topic:
        rules.error('Missing required argument "[topic]"')
    if given.replica_assignment and (
        given.create and (given.partitions or given.replication_factor)
    ):
        rules.error('Option "[replica-assignment]" can\'t be used with option "[partitions]"')
    if (given.config or given.delete_config) and given.alter:
        rules.error('Option "[config]" can\'t be used with option "[alter]"; see kafka-configs.sh')
    if given.alter and not given.partitions:
        rules.error('Missing required argument "[partitions]"')


def _warn_about_name(name: str) -> None:
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
            "('_') could collide. To avoid issues it is best to use either, but not both."
        )


def _create(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.cli.topic import parse_assignment
    from barnabas.client.administration.topics import NewTopic

    _warn_about_name(given.topic)
    if given.partitions is not None and given.partitions <= 0:
        raise CommandError("The partitions must be greater than 0")
    assignment = parse_assignment(given.replica_assignment) if given.replica_assignment else {}
    topic = NewTopic(
        given.topic,
        given.partitions or -1,
        given.replication_factor or -1,
        arguments.properties(given.config),
        assignment,
    )
    (outcome,) = admin.create_topics([topic])
    if outcome.error is None:
        print(f"Created topic {given.topic}.")
    elif not (given.if_not_exists and outcome.error.code.name == "TOPIC_ALREADY_EXISTS"):
        raise outcome.error


def _matching(
    admin: Admin, given: argparse.Namespace, *, must_exist: bool = True
) -> list[TopicInfo]:
    """Topics whose whole name matches --topic (commas separate alternatives)."""
    pattern = None
    if given.topic:
        text = given.topic.strip().replace(",", "|").replace('"', "").replace("'", "")
        try:
            pattern = re.compile(text)
        except re.error:
            raise CommandError(f"{given.topic} is an invalid regex.") from None
    found = [
        t
        for t in admin.list_topics()
        if (pattern is None or pattern.fullmatch(t.name))
        and not (given.exclude_internal and t.internal)
    ]
    if not found and given.topic and must_exist and not given.if_exists:
        raise CommandError(f"Topic '{given.topic}' does not exist as expected")
    return found


def _alter(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.cli.topic import new_partitions

    found = _matching(admin, given)
    for topic in found:
        for outcome in new_partitions(
            admin, [topic.name], given.partitions, given.replica_assignment, False
        ):
            if outcome.error is not None:
                raise outcome.error


def _delete(admin: Admin, given: argparse.Namespace) -> None:
    names = [topic.name for topic in _matching(admin, given)]
    for outcome in admin.delete_topics(names) if names else ():
        if outcome.error is not None:
            raise outcome.error


def _describe(admin: Admin, given: argparse.Namespace) -> None:
    from barnabas.client.administration.configs import TOPIC
    from barnabas.client.errors import ClientError
    from barnabas.wire.uuids import to_text

    if given.topic_id:
        found = [t for t in admin.list_topics() if to_text(t.topic_id) == given.topic_id]
        if not found and not given.if_exists:
            raise CommandError(f"TopicId '{given.topic_id}' does not exist as expected")
    else:
        found = _matching(admin, given)
    answers = admin.describe_topics([t.name for t in found])
    settings = admin.describe_configs([(TOPIC, t.name) for t in found]) if found else {}
    any_filter = any(getattr(given, name) for name in FILTERS)
    for name, topic in answers.items():
        if isinstance(topic, ClientError):
            raise topic
        entries: Any = settings.get((TOPIC, name))
        entries = [] if isinstance(entries, ClientError) or entries is None else entries
        changed = [e for e in entries if e.source not in ("DEFAULT_CONFIG", "STATIC_BROKER_CONFIG")]
        if not any_filter or (given.topics_with_overrides and changed):
            print(
                f"Topic: {name}\tTopicId: {to_text(topic.topic_id)}\t"
                f"PartitionCount: {len(topic.partitions)}\t"
                f"ReplicationFactor: {topic.replication_factor}\t"
                f"Configs: {','.join(f'{e.name}={e.value}' for e in changed)}"
            )
        if given.topics_with_overrides:
            continue
        minimum = next((int(e.value) for e in entries if e.name == "min.insync.replicas"), 1)
        for index in sorted(topic.partitions):
            if not any_filter or _wanted(topic.partitions[index], given, minimum):
                _print_partition(topic.partitions[index])


def _wanted(partition: PartitionInfo, given: argparse.Namespace, minimum: int) -> bool:
    in_sync = len(partition.isr)
    return bool(
        (given.under_replicated_partitions and in_sync < len(partition.replicas))
        or (given.unavailable_partitions and partition.leader < 0)
        or (given.under_min_isr_partitions and in_sync < minimum)
        or (given.at_min_isr_partitions and in_sync == minimum)
    )


def _print_partition(p: PartitionInfo) -> None:
    leader = str(p.leader) if p.leader >= 0 else "none"
    line = (
        f"\tTopic: {p.topic}\tPartition: {p.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(p.replicas)}\tIsr: {_ids(p.isr)}"
    )
    elr, last_elr = p.eligible_leader_replicas, p.last_known_elr
    line += "\tElr: " + ("N/A" if elr is None else _ids(elr))
    line += "\tLastKnownElr: " + ("N/A" if last_elr is None else _ids(last_elr))
    print(line)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def main() -> None:
    arguments.run(command, prefix="Error while executing topic command : ", on_standard_output=True)


if __name__ == "__main__":
    main()
