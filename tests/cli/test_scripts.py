"""Apache's scripts: their flags, their output, their exit codes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.cli.apache import configs, console_consumer, console_producer, get_offsets
from barnabas.client.kernels_consumer import ConsumerRecord
from tests.cli.conftest import Ran, environment

Script = Callable[..., Ran]
BIN = Path(__file__).parents[2] / "bin"


def test_topics(run_script: Script, bootstrap: str) -> None:
    def topics(*args: str) -> Ran:
        return run_script("topics", "--bootstrap-server", bootstrap, *args)

    name = "script-topics"
    assert (
        topics("--create", "--topic", name, "--partitions", "2").out == f"Created topic {name}.\n"
    )
    again = topics("--create", "--topic", name)
    assert again.code == 1
    assert again.out.startswith(
        f"Error while executing topic command : Topic '{name}' already exists"
    )
    assert topics("--create", "--topic", name, "--if-not-exists").code == 0
    assert name in topics("--list", "--exclude-internal").out.splitlines()
    described = topics("--describe", "--topic", name).out.splitlines()
    assert described[0].startswith(f"Topic: {name}\tTopicId: ")
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: " in described[0]
    assert described[1].startswith(f"\tTopic: {name}\tPartition: 0\tLeader: ")
    assert topics("--alter", "--topic", name, "--partitions", "3").code == 0
    assert topics("--delete", "--topic", name).code == 0
    assert topics("--delete", "--topic", name).out == (
        f"Error while executing topic command : Topic '{name}' does not exist as expected\n"
    )
    assert topics("--delete", "--topic", name, "--if-exists").code == 0
    wrong = topics("--list", "--describe")
    assert wrong.code == 1
    assert wrong.err.startswith("Command must include exactly one action")


def test_console_and_groups(run_script: Script, topic: str, bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    sent = run_script(
        "console_producer", *at, "--topic", topic, "--reader-property", "parse.key=true",
        "--reader-property", "key.separator=:", "--compression-codec", stdin="a:1\nb:2\n",
    )  # fmt: skip
    assert (sent.code, sent.out) == (0, "")
    group = f"script-{topic}"
    read = run_script(
        "console_consumer", *at, "--topic", topic, "--from-beginning", "--max-messages", "2",
        "--group", group, "--property", "print.key=true",
    )  # fmt: skip
    assert sorted(read.out.splitlines()[1:]) == ["a\t1", "b\t2"]
    assert "Warning: --property is deprecated" in read.out
    assert read.err == "Processed a total of 2 messages\n"
    offsets = run_script("get_offsets", *at, "--topic", topic).out.splitlines()
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets) == 2
    described = run_script("consumer_groups", *at, "--describe", "--group", group)
    assert described.out.splitlines()[1].split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
        "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert described.err == f"\nConsumer group '{group}' has no active members.\n"
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest")
    assert "--execute option is missing" in run_script("consumer_groups", *at, *reset).err
    done = run_script("consumer_groups", *at, *reset, "--execute", "--export")
    assert sorted(done.out.split()) == [f"{topic},0,0", f"{topic},1,0"]
    deleted = run_script("consumer_groups", *at, "--delete", "--group", group)
    assert deleted.out == f"Deletion of requested consumer groups ('{group}') was successful.\n"
    missing = run_script("consumer_groups", *at, "--describe", "--group", group)
    assert f"Group {group} not found." in missing.out


def test_configs(run_script: Script, topic: str, bootstrap: str) -> None:
    def call(*args: str) -> Ran:
        return run_script("configs", "--bootstrap-server", bootstrap, *args)

    entity = ("--entity-type", "topics", "--entity-name", topic)
    done = call(
        "--alter", *entity, "--add-config", "retention.ms=9000,cleanup.policy=[compact,delete]"
    )
    assert done.out == f"Completed updating config for topic {topic}.\n"
    assert call("--describe", "--topic", topic).out.splitlines() == [
        f"Dynamic configs for topic {topic} are:",
        "  cleanup.policy=compact,delete sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=9000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=9000}",
    ]
    assert call("--alter", *entity, "--delete-config", "retention.ms").code == 0
    assert call("--describe").code == 1


def test_perf(run_script: Script, topic: str, bootstrap: str) -> None:
    made = run_script(
        "producer_perf_test", "--topic", topic, "--num-records", "100", "--record-size", "10",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}", "acks=1",
    )  # fmt: skip
    assert made.out.startswith("Option --producer-props has been deprecated")
    assert made.out.splitlines()[-1].startswith("100 records sent, ")
    assert made.out.rstrip().endswith("99.9th.")
    read = run_script(
        "consumer_perf_test",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--num-records",
        "100",
    )
    header, numbers = read.out.splitlines()
    assert len(header.split(", ")) == len(numbers.split(", ")) == 10
    assert numbers.split(", ")[4] == "100"


def test_api_versions(run_script: Script, bootstrap: str) -> None:
    out = run_script("broker_api_versions", "--bootstrap-server", bootstrap).out
    assert f":{bootstrap.rsplit(':', 1)[1]} (id: " in out
    assert "\n\tProduce(0): 0 to 13 [usable: 13],\n" in out


def test_every_script_in_bin_starts() -> None:
    scripts = sorted(BIN.glob("kafka-*.sh"))
    assert len(scripts) == 19
    for script in scripts:
        done = subprocess.run(
            [script, "--help"], capture_output=True, text=True, env=environment(None), check=False
        )
        assert done.returncode == 0, done.stderr
        assert script.stem in done.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a=1,b=[x,y],c=", {"a": "1", "b": "x,y", "c": ""}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_added_configs(text: str, expected: dict[str, str]) -> None:
    assert configs.parse_added(text) == expected


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ("t", [0, 1, 2, 3]),
        ("t:1", [1]),
        ("t:1-3", [1, 2]),
        ("t:2-", [2, 3]),
        ("t:-2", [0, 1]),
        (":3", [3]),
        ("other", []),
    ],
)
def test_topic_partition_rules(rule: str, fits: list[int]) -> None:
    wanted = get_offsets._rule(rule)
    assert [index for index in range(4) if wanted("t", index)] == fits


def test_line_reader() -> None:
    reader = {"parse.key": "true", "parse.headers": "true", "null.marker": "NUL"}
    lines = [b"h:1,j:2\tk\tv\r\n", b"NUL\tNUL\tNUL\n"]
    assert list(console_producer._lines(lines, reader)) == [
        (b"k", b"v", [("h", b"1"), ("j", b"2")]),
        (None, None, []),
    ]
    with pytest.raises(Exception, match="No key separator found on line number 1: 'x'"):
        list(console_producer._lines([b"x"], {"parse.key": "true"}))
    assert list(console_producer._lines([b"x"], {"parse.key": "true", "ignore.error": "true"})) == [
        (None, b"x", [])
    ]


def test_default_formatter() -> None:
    record = ConsumerRecord("t", 1, 2, 3, 0, b"k", None, [("h", b"1")], 4)
    names = ("timestamp", "key", "offset", "epoch", "partition", "headers")
    show = console_consumer.default_formatter({f"print.{name}": "true" for name in names})
    assert show(record) == b"CreateTime:3\tPartition:1\tOffset:2\tEpoch:4\th:1\tk\tnull\n"
    assert console_consumer.default_formatter({"line.separator": "|"})(record) == b"null|"
