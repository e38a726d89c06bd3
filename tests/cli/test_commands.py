"""Every verb against a broker: what it does, its exit codes, and that JSON and YAML are valid."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from barnabas.cli import main
from tests.cli.conftest import Ran, environment
from tests.cli.served import serve

Run = Callable[..., Ran]


def test_topic_life(run: Run) -> None:
    name = "cli.life"
    made = run("topic", "create", name, "-p", "3", "-c", "retention.ms=60000", "--format", "json")
    assert made.code == 0
    assert made.json[0]["status"] == "created"
    assert made.json[0]["partitions"] == 3
    again = run("topic", "create", name)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    there = run("topic", "create", name, "--if-not-exists")
    assert (there.code, there.out) == (0, f"topic {name} exists already\n")
    listed = run("topic", "list", "--format", "json").json
    assert {"name": name, "partitions": 3, "replication_factor": 1, "internal": False} in listed
    assert name in run("topic", "list").out
    (described,) = run("topic", "describe", name, "--format", "json").json
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert described["configs"]["retention.ms"] == "60000"
    assert run("topic", "alter", name, "-p", "5", "-d", "retention.ms").code == 0
    (described,) = run("topic", "describe", name, "--format", "json").json
    assert len(described["partitions"]) == 5
    assert "retention.ms" not in described["configs"]
    assert run("topic", "alter", name, "-p", "2").code == 1
    assert run("topic", "delete", "-r", r"cli\.li.*", "--dry-run").out.startswith("would delete")
    assert run("topic", "delete", name).out == f"deleted topic {name}\n"
    assert run("topic", "delete", name).code == 3
    gone = run("topic", "delete", name, "--if-exists", "--format", "json")
    assert (gone.code, gone.json[0]["status"]) == (0, "does not exist")
    assert run("topic", "describe", name).code == 3


def test_produce_and_consume(run: Run, topic: str) -> None:
    sent = run("produce", topic, "-K:", "-p", "0", "-H", "h=1", stdin="a:1\nb:2\nc:3\n")
    assert sent.code == 0, sent.err
    assert sent.out.splitlines() == [f"{topic}-0 offset {n}" for n in range(3)]
    assert run("produce", topic, "-k", "a", "--tombstone", "-p", "0", "--format", "json").json == {
        "topic": topic,
        "partition": 0,
        "offset": 3,
    }
    read = run("consume", topic, "-e", "-f", "%p:%o %k=%v %h|\\n", "--null", "NULL")
    assert read.out.splitlines() == ["0:0 a=1 h=1|", "0:1 b=2 h=1|", "0:2 c=3 h=1|", "0:3 a=NULL |"]
    assert run("consume", topic, "-o", "1:3").out == "2\n3\n"
    assert run("consume", topic, "-p", "0", "-o", "-2", "-n", "1").out == "3\n"
    assert run("consume", topic, "-n", "2", "-o", "start", "-p", "0").out == "1\n2\n"
    assert run("consume", topic, "-o", "@-1h:end", "--keys").out == "a\t1\nb\t2\nc\t3\na\t\n"
    assert run("consume", topic, "-o", "@now:end").out == ""
    (first, *_) = run("consume", topic, "-e", "--format", "json").lines
    assert (first["key"], first["value"], first["headers"]) == (
        "a",
        "1",
        [{"key": "h", "value": "1"}],
    )
    documents = list(yaml.safe_load_all(run("consume", topic, "-e", "-f", "yaml").out))
    assert [d["offset"] for d in documents] == [0, 1, 2, 3]
    assert run("consume", "-r", topic.replace(".", r"\.") + ".*", "-e").out == "1\n2\n3\n\n"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_and_copied(run: Run, topic: str, codec: str) -> None:
    lines = "".join(f"line {n}\n" for n in range(100))
    assert run("produce", topic, "-z", codec, "-p", "1", "-q", stdin=lines).out == ""
    copy = run("consume", topic, "-e", "--format", "json").out
    assert run("produce", topic, "-i", "json", "-p", "0", "-q", stdin=copy).code == 0
    assert run("consume", topic, "-e", "-p", "0").out == lines


def test_groups(run: Run, topic: str) -> None:
    group = "g-" + topic
    run("produce", topic, "-q", stdin="".join(f"{n}\n" for n in range(10)))
    read = run("consume", topic, "-g", group, "-o", "start", "-n", "4")
    assert len(read.out.splitlines()) == 4
    rest = run("consume", topic, "-g", group, "-o", "start", "-e")
    assert sorted(map(int, (read.out + rest.out).split())) == list(range(10))
    (described,) = run("group", "describe", group, "--format", "json").json
    assert (described["state"], described["total_lag"]) == ("Empty", 0)
    assert group in [g["group"] for g in run("group", "list", "--format", "json").json]
    dry = run("group", "reset", group, "--to", "start")
    assert "Dry run" in dry.out
    assert run("group", "describe", group, "--format", "json").json[0]["total_lag"] == 0
    done = run("group", "reset", group, "--to", "start", "--execute", "--format", "json").json
    assert done["executed"] is True
    assert all(p["after"] == 0 for p in done["partitions"])
    assert run("group", "describe", group, "--format", "json").json[0]["total_lag"] == 10
    assert run("group", "reset", group, "--to", "1:2").code == 2
    assert run("group", "delete", group).code == 0
    assert run("group", "describe", group).code == 0
    assert run("group", "delete", group, "--execute").code == 0
    assert run("group", "describe", group).code == 3
    assert run("group", "delete", group, "--execute").code == 3


def test_an_active_group_is_refused_with_its_members(run: Run, topic: str, bootstrap: str) -> None:
    from barnabas.client.consumer import Consumer

    group = "active-" + topic
    with Consumer(bootstrap_servers=bootstrap, group_id=group, client_id="busy-client") as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(0.1)
        refused = run("group", "reset", group, "--to", "start", "-t", topic, "--execute")
        assert refused.code == 1
        assert "busy-client" in refused.err
        assert run("group", "delete", group, "--execute").code == 1
        (described,) = run("group", "describe", group, "--format", "json").json
        assert len(described["members"]) == 1
        assert len(described["partitions"]) == 2


def test_configs(run: Run, topic: str) -> None:
    done = run("config", "set", "topic", topic, "retention.ms=7000", "--format", "json").json
    assert done["changes"] == [{"name": "retention.ms", "before": "604800000", "after": "7000"}]
    rows = run("config", "describe", "topic", topic, "--format", "json").json
    assert [r["value"] for r in rows if r["name"] == "retention.ms"] == ["7000"]
    everything = run("config", "describe", "topic", topic, "--all", "--format", "json").json
    assert len(everything) > 20
    assert run("config", "set", "topic", topic, "retention.ms=soon").code == 1
    assert run("config", "set", "topic", topic, "retention.ms").code == 2
    assert run("config", "delete", "topic", topic, "retention.ms").code == 0
    assert run("config", "describe", "topic", "no-such-topic").code == 3


def test_brokers(run: Run, bootstrap: str) -> None:
    listed = run("broker", "list", "--format", "json").json
    assert listed["brokers"][0]["port"] == int(bootstrap.rsplit(":", 1)[1])
    (broker,) = run("broker", "api-versions", "--format", "json").json
    assert {"PRODUCE", "FETCH", "METADATA"} <= {a["api"] for a in broker["apis"]}


def test_perf(run: Run, topic: str) -> None:
    made = run("perf", "produce", topic, "-n", "2000", "--format", "json").json
    assert (made["records"], made["failed"]) == (2000, 0)
    assert made["p50_ms"] <= made["p99_ms"] <= made["max_ms"]
    assert run("perf", "consume", topic, "-n", "2000", "--format", "json").json["records"] >= 2000
    assert run("perf", "consume", topic, "-n", "9000", "--timeout", "300ms").code == 4
    assert run("perf", "latency", topic, "-n", "20", "--format", "json").json["records"] == 20


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(
    "command",
    [
        "topic create x.{topic}",
        "topic list",
        "topic describe {topic}",
        "topic offsets {topic} --at -1h",
        "topic alter {topic} -c retention.ms=1000000",
        "topic delete x.{topic} --dry-run --if-exists",
        "group list",
        "group describe none",
        "group delete none",
        "group reset none --to end -t {topic}",
        "config describe topic {topic} --all --docs",
        "config set topic {topic} retention.ms=1000000 --dry-run",
        "config delete topic {topic} retention.ms --dry-run",
        "broker list",
        "broker api-versions",
        "storage random-uuid",
        "completion bash",
        "produce {topic} -v 1",
        "perf produce {topic} -n 10",
        "perf latency {topic} -n 2",
    ],
)
def test_machine_forms_are_valid(run: Run, topic: str, command: str, form: str) -> None:
    ran = run(*command.format(topic=topic).split(), "--format", form)
    parsed = json.loads(ran.out) if form == "json" else yaml.safe_load(ran.out)
    assert parsed is not None
    if command.startswith("topic create"):
        run("topic", "delete", f"x.{topic}")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("topic", 0),
        ("topic nonsense", 2),
        ("topic create", 2),
        ("consume x -o nonsense", 2),
        ("consume x -f nonsense", 2),
        ("consume no-such-topic -e", 3),
        ("group describe no-such-group", 3),
        ("topic list -b localhost:1", 4),
        ("topic list -b nonsense:port", 2),
        ("topic list -X nonsense", 2),
        ("topic list -X no.such.option=1", 2),
        ("log dump /no/such/file", 2),
        ("topic list --command-config /no/such/file", 3),
    ],
)
def test_exit_codes(run: Run, command: str, code: int) -> None:
    assert run(*command.split()).code == code


def test_control_c_ends_consume_at_once(topic: str, bootstrap: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", "consume", topic, "-o", "start"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(bootstrap),
    )
    try:
        from barnabas.client.producer import Producer

        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, "hello").result()
        assert process.stdout is not None
        assert process.stdout.readline() == b"hello\n"
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=10)
        assert (process.returncode, err.strip()) == (130, b"")
    finally:
        process.kill()
        process.wait()


def test_a_reader_that_goes_away_is_no_error(topic: str, bootstrap: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m barnabas.cli.main topic list | true",
        shell=True,
        capture_output=True,
        env=environment(bootstrap),
        check=False,
    )
    assert done.stderr == b""


def test_storage(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=3\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=3@localhost:9093\n"
        f"log.dirs={data}\n"
    )
    assert run("storage", "info", "-c", str(file)).code == 1
    made = run("storage", "format", "-c", str(file), "--format", "json").json
    assert made["formatted"] == [str(data)]
    info = run("storage", "info", "-c", str(file), "--format", "json").json
    assert (info["cluster_id"], info["node_id"]) == (made["cluster_id"], 3)
    assert run("storage", "format", "-c", str(file)).code == 1
    again = run("storage", "format", "-c", str(file), "-g", "-t", made["cluster_id"])
    assert again.code == 0
    other = run("storage", "format", "-c", str(file), "-g", "-t", "YmFybmFiYXMtcGVlcnMtMQ")
    assert "cluster.id" in other.err
    dump = run(
        "log", "dump", "--cluster-metadata", str(data / "bootstrap.checkpoint"), "--format", "json"
    )
    assert [r["kind"] for r in dump.lines].count("record") >= 3
    assert "metadata.version" in dump.out


def test_one_broker_a_directory(tmp_path: Path) -> None:
    with serve(tmp_path) as first:
        second = subprocess.run(
            [sys.executable, "-m", "barnabas.cli.main", "up", "--port", "0"],
            cwd=tmp_path,
            env=environment(None),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (second.returncode, second.stdout) == (1, "")
        assert "is in use by another broker" in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert first.stop(signal.SIGINT)[0] == 0


def test_up_for_programs_and_from_a_file(tmp_path: Path) -> None:
    overrides = ("--override", "no.such.setting=1", "--override", "barnabas.metrics.port=0")
    with serve(tmp_path, "up", "--port", "0", *overrides) as served:
        code, out, err = served.stop()
    assert code == 0
    assert "  metrics     http://127.0.0.1:" in out
    assert out.count(f"-b {served.bootstrap}") == 3, "three commands to try"
    assert "cluster id" in out
    assert err.splitlines() == ["warning: unknown setting no.such.setting is ignored"]
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"controller.quorum.voters=1@localhost:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    start = [sys.executable, "-m", "barnabas.cli.main", "server", "start", str(file)]
    for more, words in ((), "format"), (("--override", "num.partitions=x"), "num.partitions"):
        refused = subprocess.run(
            [*start, *more],
            env=environment(None),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (refused.returncode, refused.stdout) == (1, "")
        assert words in refused.stderr
    assert main.run(["storage", "format", "-c", str(file)]) == 0
    with serve(tmp_path, "server", "start", str(file), "--override", "num.partitions=2") as served:
        assert served.stop()[0] == 0
