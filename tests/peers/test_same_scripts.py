"""Our kafka-*.sh beside Apache's: the same flags, and for the same arguments the same output.

Rows may come in another order (Java prints hash tables as they lie); everything else must agree to the
blank. Apache's help says which flags there are.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.testing import Cluster
from tests.peers import jvm
from tests.peers.apache import ToolResult, run_tool

pytestmark = pytest.mark.skipif(jvm.missing() is not None, reason=str(jvm.missing()))

CLASSES = {
    "topics": "TopicCommand",
    "configs": "ConfigCommand",
    "consumer_groups": "ConsumerGroupCommand",
    "get_offsets": "GetOffsetShell",
    "console_producer": "ConsoleProducer",
    "console_consumer": "ConsoleConsumer",
    "dump_log": "DumpLogSegments",
    "broker_api_versions": "BrokerApiVersionsCommand",
    "producer_perf_test": "ProducerPerformance",
    "consumer_perf_test": "ConsumerPerformance",
    "storage": "StorageTool",
}


def ours(script: str, args: list[str]) -> ToolResult:
    done = subprocess.run(
        [sys.executable, "-m", f"barnabas.cli.apache.{script}", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout, done.stderr)


def rows(text: str) -> list[str]:
    return sorted(text.splitlines())


@pytest.mark.parametrize("script", sorted(set(CLASSES) - {"storage"}))
def test_every_flag_of_apache_is_accepted(script: str) -> None:
    shown = run_tool(CLASSES[script], ["--help"])
    flags = set(re.findall(r"^ {0,2}(--[a-z][a-z.-]*)", shown.stdout + shown.stderr, re.MULTILINE))
    assert len(flags) >= 4
    parser: Any = importlib.import_module(f"barnabas.cli.apache.{script}").parser()
    known = {name for action in parser._actions for name in action.option_strings}
    assert flags - known == set()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("same") / "data"


@pytest.fixture(scope="module")
def cluster(data: Path) -> Any:
    """Two topics with records, and a group with a committed position in one of them."""
    with Cluster(data=data, overrides={"offsets.topic.num.partitions": 1}) as running:
        address = {"bootstrap.servers": running.bootstrap_servers}
        running.create_topic("alpha", 3, {"retention.ms": 86_400_000})
        running.create_topic("beta", 1)
        with Producer({**address, "compression.type": "lz4"}) as producer:
            for index in range(9):
                producer.send(
                    "alpha", f"v{index}", f"k{index}", partition=index % 3, headers=[("h", b"x")]
                )
            producer.send("beta", "solo")
            producer.send("beta", None, "tombstone")
        options = {"group.id": "group", "auto.offset.reset": "earliest"}
        with Consumer({**address, **options, "enable.auto.commit": "false"}) as consumer:
            consumer.subscribe(["alpha"])
            got = 0
            while got < 5:
                got += len(consumer.poll(1.0, 5 - got))
            consumer.commit()
        yield running


RESET = "--reset-offsets --group group --dry-run"
SAME = [
    "topics --list",
    "topics --describe --topic alpha,beta",
    "topics --describe --topics-with-overrides --topic alpha",
    "topics --describe --topic nope",
    "topics --create --topic alpha",
    "topics --create --topic wrong!name",
    "topics --create --topic alpha --if-not-exists",
    "topics --create --topic x --replica-assignment 1:1",
    "topics --delete --topic nope",
    "topics --alter --topic alpha --partitions 2",
    "configs --describe --topic alpha",
    "configs --describe --topic nope",
    "configs --describe --entity-type brokers",
    "configs --describe --broker 1 --all",
    "configs --alter --topic beta --add-config cleanup.policy=[compact,delete]",
    "configs --alter --topic beta --delete-config cleanup.policy",
    "configs --alter --topic beta --add-config foo=1",
    "get_offsets",
    "get_offsets --time earliest --topic-partitions alpha:0-2,beta",
    "get_offsets --time -3 --topic alpha",
    "get_offsets --time latest-tiered",
    "get_offsets --topic nope",
    "broker_api_versions",
    "console_consumer --topic beta --partition 0 --offset 0 --max-messages 2 "
    "--formatter-property print.key=true --formatter-property print.offset=true "
    "--formatter-property print.headers=true --formatter-property print.timestamp=true",
    "consumer_groups --list",
    "consumer_groups --list --state --type",
    "consumer_groups --describe --group group",
    "consumer_groups --describe --group group --verbose",
    "consumer_groups --describe --group group --members",
    "consumer_groups --describe --group group --members --verbose",
    "consumer_groups --describe --group group --state",
    "consumer_groups --describe --group nope",
    f"consumer_groups {RESET} --topic alpha --to-earliest",
    f"consumer_groups {RESET} --topic alpha --to-offset 99",
    f"consumer_groups {RESET} --topic alpha --shift-by -1",
    f"consumer_groups {RESET} --topic alpha:1 --by-duration PT1H",
    f"consumer_groups {RESET} --all-topics --to-current --export",
    "consumer_groups --delete-offsets --group nope --topic alpha",
    "consumer_groups --delete --group nope",
    "consumer_groups --validate-regex a.*",
]


@pytest.mark.parametrize("line", SAME)
def test_the_same_words(cluster: Cluster, line: str) -> None:
    script, *args = line.split()
    if "--validate-regex" not in args:
        args = ["--bootstrap-server", cluster.bootstrap_servers, *args]
    theirs = run_tool(CLASSES[script], args)
    mine = ours(script, args)
    assert rows(mine.stdout) == rows(theirs.stdout), theirs.stderr + mine.stderr
    assert mine.returncode == theirs.returncode


DUMPS = [
    "",
    "--deep-iteration",
    "--print-data-log",
    "--print-data-log --skip-record-metadata",
]


def test_the_same_dumps(cluster: Cluster, data: Path) -> None:
    cluster.node  # noqa: B018, it has written by now
    segment = data / "alpha-0" / "00000000000000000000"
    calls = [f"--files {segment}.log {more}" for more in DUMPS]
    calls += [
        f"--files {segment}.index,{segment}.timeindex",
        f"--files {segment}.index --index-sanity-check",
        f"--files {data}/__cluster_metadata-0/00000000000000000000.log --cluster-metadata-decoder",
        f"--files {data}/__consumer_offsets-0/00000000000000000000.log --offsets-decoder",
    ]
    for call in calls:
        theirs, mine = run_tool("DumpLogSegments", call.split()), ours("dump_log", call.split())
        assert mine.stdout == theirs.stdout, call
        assert mine.returncode == theirs.returncode


STORAGE = [
    "version-mapping",
    "version-mapping -r 4.0",
    "version-mapping -r 9.9",
    "feature-dependencies -f transaction.version=2 -f eligible.leader.replicas.version=1",
    "feature-dependencies -f nonsense=1",
    "format -t only",
]


@pytest.mark.parametrize("line", STORAGE)
def test_the_same_storage_tool(line: str) -> None:
    theirs, mine = run_tool("StorageTool", line.split()), ours("storage", line.split())
    assert (mine.stdout, mine.returncode) == (theirs.stdout, theirs.returncode)
