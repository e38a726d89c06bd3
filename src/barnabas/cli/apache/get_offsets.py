"""kafka-get-offsets.sh: offsets of partitions at a time or at the ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}


def parser() -> arguments.Arguments:
    found = arguments.Arguments("kafka-get-offsets.sh", "Get topic-partition offsets.")
    found.value("--bootstrap-server", "--broker-list", required=True)
    found.value("--command-config")
    found.value("--topic-partitions", help="topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3")
    found.value("--topic", help="The topic, or a regex.")
    found.value("--partitions", help="Comma separated partition ids.")
    found.value("--time", default="latest", help="Milliseconds, -1 … -6 or their names.")
    found.flag("--exclude-internal-topics")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.topics import OffsetAnswer

    rules = parser()
    given = rules.parse_args(args)
    if given.topic_partitions and (given.topic or given.partitions):
        raise CommandError("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _timestamp(given.time)
    wanted = _filter(given.topic_partitions, given.topic, given.partitions)
    with Admin(arguments.client_options(given.bootstrap_server, given.command_config)) as admin:
        places = [
            (t.name, p.partition)
            for t in admin.list_topics()
            if not (given.exclude_internal_topics and t.internal)
            for p in t.partitions.values()
            if wanted(t.name, p.partition)
        ]
        if not places:
            raise CommandError("Could not match any topic-partitions with the specified filters")
        answers = admin.list_offsets(dict.fromkeys(places, timestamp))
    for topic, partition in sorted(answers):
        answer = answers[(topic, partition)]
        if not isinstance(answer, OffsetAnswer):
            print(
                f"Skip getting offsets for topic-partition {topic}-{partition} due to error: {answer}"
            )
        elif answer.offset >= 0:
            print(f"{topic}:{partition}:{answer.offset}")
    return 0


def _timestamp(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise CommandError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or "
            "earliest-pending-upload, or a specified long format timestamp"
        ) from None


def _filter(
    topic_partitions: str | None, topic: str | None, partitions: str | None
) -> Callable[[str, int], bool]:
    if topic_partitions:
        rules = [_rule(text) for text in topic_partitions.split(",")]
        return lambda name, index: any(rule(name, index) for rule in rules)
    pattern = re.compile(topic) if topic else None
    try:
        ids = {int(p) for p in partitions.split(",")} if partitions else None
    except ValueError:
        raise CommandError(f"--partitions expects ids, not {partitions}") from None
    return lambda name, index: (
        (pattern is None or bool(pattern.fullmatch(name))) and (ids is None or index in ids)
    )


def _rule(text: str) -> Callable[[str, int], bool]:
    """`topic`, `topic:1`, `topic:0-3` (upper end excluded), `topic:5-`, `topic:-3`."""
    match = re.fullmatch(r"([^:,]*)(?::(?:(\d*)(-)(\d*)|(\d+)))?", text)
    if match is None:
        raise CommandError(f"Invalid rule specification: {text}")
    name, low, dash, high, only = match.groups()
    pattern = re.compile(name) if name else None

    def fits(topic: str, index: int) -> bool:
        if pattern is not None and not pattern.fullmatch(topic):
            return False
        if only is not None:
            return index == int(only)
        if dash is None:
            return True
        return (not low or index >= int(low)) and (not high or index < int(high))

    return fits


def main() -> None:
    arguments.run(command, prefix="Error occurred: ")


if __name__ == "__main__":
    main()
