"""kafka-leader-election.sh: preferred or unclean elections of leaders."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.apache import arguments
from barnabas.cli.exits import CommandError


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-leader-election.sh",
        "This tool attempts to elect a new leader for a set of topic partitions. The type of "
        "elections supported are preferred replicas and unclean replicas.",
    )
    found.value("--bootstrap-server", help="The server(s) to connect to.")
    found.value("--command-config", help="A properties file with client options.")
    found.value("--admin.config", dest="admin_config", help="(DEPRECATED) Use --command-config.")
    found.value("--election-type", help="preferred or unclean.")
    found.value("--topic", help="Name of the topic; needs --partition.")
    found.value("--partition", type=int)
    found.flag("--all-topic-partitions", help="All that need it.")
    found.value("--path-to-json-file", help="The partitions as JSON.")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin
    from barnabas.client.administration.replicas import PREFERRED, UNCLEAN

    given = parser().parse_args(args)
    _check(given)
    kind = UNCLEAN if given.election_type.lower() == "unclean" else PREFERRED
    places = None
    if given.topic is not None:
        places = [(given.topic, given.partition)]
    elif given.path_to_json_file is not None:
        places = _read(given.path_to_json_file)
    config = given.command_config or given.admin_config
    with Admin(arguments.client_options(given.bootstrap_server, config)) as admin:
        answers = admin.elect_leaders(places, election_type=kind)
    elected = [f"{t}-{p}" for (t, p), error in sorted(answers.items()) if error is None]
    failed = {place: error for place, error in sorted(answers.items()) if error is not None}
    needless = [f"{t}-{p}" for (t, p), e in failed.items() if e.code.name == "ELECTION_NOT_NEEDED"]
    if elected:
        name = "UNCLEAN" if kind == UNCLEAN else "PREFERRED"
        print(
            f"Successfully completed leader election ({name}) for partitions {', '.join(elected)}"
        )
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(needless)}")
    bad = {p: e for p, e in failed.items() if e.code.name != "ELECTION_NOT_NEEDED"}
    for (topic, index), error in bad.items():
        name = "UNCLEAN" if kind == UNCLEAN else "PREFERRED"
        print(
            f"Error completing leader election ({name}) for partition: {topic}-{index}: "
            f"{arguments.as_java(error)}"
        )
    if bad:
        raise CommandError(f"{len(bad)} replica(s) could not be elected")
    return 0


def _check(given: argparse.Namespace) -> None:
    missing = [
        name
        for name, value in (
            ("bootstrap-server", given.bootstrap_server),
            ("election-type", given.election_type),
        )
        if value is None
    ]
    if missing:
        raise CommandError(f"Missing required option(s): {', '.join(missing)}")
    ways = (given.topic, given.all_topic_partitions or None, given.path_to_json_file)
    if sum(way is not None for way in ways) != 1:
        raise CommandError(
            "One and only one of the following options is required: topic, all-topic-partitions, "
            "path-to-json-file"
        )
    if given.topic is not None and given.partition is None:
        raise CommandError("Missing required option(s): partition")
    if given.topic is None and given.partition is not None:
        raise CommandError("Option partition is only allowed if topic is used")
    if given.election_type.lower() not in ("preferred", "unclean"):
        raise CommandError(f"Cannot parse argument '{given.election_type}' of option election-type")


def _read(path: str) -> list[tuple[str, int]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        raise CommandError(f"java.io.IOException: Unable to read file {path}") from None
    try:
        found = [(str(e["topic"]), int(e["partition"])) for e in json.loads(text)["partitions"]]
    except (KeyError, TypeError, ValueError):
        raise CommandError('Replica election data is missing "partitions" field') from None
    twice = sorted({f"{t}-{p}" for t, p in found if found.count((t, p)) > 1})
    if twice:
        raise CommandError(
            f"Replica election data contains duplicate partitions: {','.join(twice)}"
        )
    return found


def main() -> None:
    arguments.run(command, prefix="")


if __name__ == "__main__":
    main()
