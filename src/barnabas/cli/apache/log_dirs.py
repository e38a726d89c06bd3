"""kafka-log-dirs.sh: the log directories of brokers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from barnabas.cli.apache import arguments


def parser() -> arguments.Arguments:
    found = arguments.Arguments(
        "kafka-log-dirs.sh",
        "This tool helps to query log directory usage on the specified brokers.",
    )
    found.bootstrap()
    found.flag("--describe", help="Describe the specified log directories.")
    found.value("--topic-list", default="", help="Topics as topic1,topic2; all by default.")
    found.value("--broker-list", default="", help="Brokers as 0,1,2; all by default.")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.client.admin import Admin

    rules = parser()
    given = rules.parse_args(args)
    if not given.describe:
        rules.error('Missing required argument "[describe]"')
    topics = {t for t in given.topic_list.split(",") if t}
    wanted = [int(b) for b in given.broker_list.split(",") if b]
    with Admin(arguments.client_options(given.bootstrap_server, given.command_config)) as admin:
        known = sorted(b.node_id for b in admin.describe_cluster().brokers)
        unknown = [b for b in wanted if b not in known]
        if unknown:
            print(
                "ERROR: The given brokers do not exist from --broker-list: "
                f"{_ids(unknown)}. Current existent brokers: {_ids(known)}",
                file=sys.stderr,
            )
            return 1
        asked = wanted or known
        print("Querying brokers for log directories information")
        found = admin.describe_log_dirs(asked)
    print(f"Received log directory information from brokers {_ids(asked)}")
    brokers = [
        {"broker": broker, "logDirs": [_directory(d, topics) for d in directories]}
        for broker, directories in found.items()
    ]
    print(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _directory(directory: Any, topics: set[str]) -> dict[str, Any]:
    return {
        "partitions": [
            {
                "partition": f"{r.topic}-{r.partition}",
                "size": r.size_in_bytes,
                "offsetLag": r.offset_lag,
                "isFuture": r.is_future,
            }
            for r in directory.replicas
            if not topics or r.topic in topics
        ],
        "error": None if directory.error is None else arguments.java_name(directory.error),
        "logDir": directory.path,
    }


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
