"""`barnabas.testing` as the README shows it."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.testing import Cluster
from barnabas.wire.errors import ApiError

README = Path(__file__).parents[2] / "README.md"
pytest_plugins = ["pytester"]


def example(name: str) -> str:
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- testing: {name} -->\n```python\n(.*?)^```", text, re.S | re.M)
    assert found is not None
    return found[1]


def produce(cluster: Cluster, topic: str, value: str) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.send(topic, value).result()


def first_value(cluster: Cluster, topic: str) -> bytes | None:
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers}) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        return consumer.poll(10.0)[0].value


def test_the_example_of_a_cluster_runs() -> None:
    pytest.importorskip("confluent_kafka")
    exec(compile(example("cluster"), "README.md", "exec"), {})


def test_the_example_of_the_fixtures_runs(pytester: pytest.Pytester) -> None:
    pytest.importorskip("kafka")
    pytester.makepyfile(test_example=example("fixture"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_restart_keeps_port_and_records() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t")
        produce(cluster, "t", "kept")
        address, identity = cluster.bootstrap_servers, cluster.cluster_id
        cluster.restart()
        assert (cluster.bootstrap_servers, cluster.cluster_id) == (address, identity)
        assert first_value(cluster, "t") == b"kept"
        data = cluster.data
    assert not data.exists(), "a temporary directory goes away with its cluster"


def test_a_directory_that_was_given_stays(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("t")
        produce(cluster, "t", "kept")
    with Cluster(data=str(tmp_path)) as cluster:
        assert first_value(cluster, "t") == b"kept"


def test_settings_and_topics() -> None:
    with Cluster(overrides={"num.partitions": 3, "auto.create.topics.enable": False}) as cluster:
        assert cluster.create_topic("t", 2, {"retention.ms": 60_000}) == "t"
        with pytest.raises(ApiError, match="already exists"):
            cluster.create_topic("t")
        assert cluster.node.config.num_partitions == 3


def test_mistakes_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"num\.partitions"):
        Cluster(overrides={"num.partitions": "many"}).start()
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="not running"):
        _ = cluster.bootstrap_servers
    cluster.close()
    with Cluster() as running:
        with pytest.raises(RuntimeError, match="already running"):
            running.start()
        port = int(running.bootstrap_servers.rsplit(":", 1)[1])
        taken = Cluster(port=port)
        with pytest.raises(Exception, match="already uses this address"):
            taken.start()
        taken.close()


def test_several_at_once_do_not_meet(barnabas_factory: object) -> None:
    assert callable(barnabas_factory)
    one, other = barnabas_factory(), barnabas_factory(overrides={"num.partitions": 2})
    assert one.bootstrap_servers != other.bootstrap_servers
    assert one.cluster_id != other.cluster_id
    host, port = one.bootstrap_servers.rsplit(":", 1)
    socket.create_connection((host, int(port)), timeout=5).close()
